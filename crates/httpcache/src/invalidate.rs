//! Which stored responses an unsafe request invalidates.
//!
//! A request with an unsafe method that was answered without error may have changed the resource. The caller invalidates the
//! target URI. This file finds the URIs in Location and Content-Location, but only those of the same origin, so that
//! no server can empty the cache of another.
//!
//! Not known here: CONNECT, which has no target URI; callers leave it out.
//! Limits: [`INVALIDATED_URIS_MAX`] URIs. Further ones stay stored until they expire, which the RFC allows.

use fields::Fields;

use message::Named;

/// The most URIs taken from one response.
pub const INVALIDATED_URIS_MAX: usize = 8;

/// Does this exchange invalidate stored responses of the target URI? (RFC 9111 §4.4)
pub fn invalidates(method: &str, status: u16) -> bool {
    //= rfc9111 §4.4   a "non-error response" is one with a 2xx or 3xx status code
    !message::is_safe(method) && (200..=399).contains(&status)
}

/// Location and Content-Location of the response as absolute URIs in normal form, if they have the same origin as `target` (an
/// absolute http or https URI); without `target` itself.
//= rfc9111 §4.4   must not if the origin differs
pub fn invalidated_uris(target: &str, response: &Fields) -> Vec<String> {
    let mut found = Vec::new();
    let Some(base) = Named::parse(target) else {
        return found;
    };
    let own = base.resolve("");
    let lines = response
        .all(b"location")
        .chain(response.all(b"content-location"));
    for line in lines.take(INVALIDATED_URIS_MAX) {
        let uri = std::str::from_utf8(line)
            .ok()
            .and_then(|reference| base.resolve(reference));
        let Some(uri) = uri else { continue };
        let same_origin = Named::parse(&uri).is_some_and(|named| named.same_origin(&base));
        if same_origin && own.as_ref() != Some(&uri) && !found.contains(&uri) {
            found.push(uri);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    #[test]
    fn writes_invalidate() {
        for (method, status, expected) in [
            ("POST", 200, true),
            ("PUT", 204, true),
            ("DELETE", 302, true),
            ("PATCH", 399, true),
            ("BREW", 200, true),
            ("get", 200, true),
            ("POST", 404, false),
            ("POST", 500, false),
            ("POST", 100, false),
            ("GET", 200, false),
            ("HEAD", 200, false),
            ("OPTIONS", 200, false),
            ("TRACE", 200, false),
            ("PROPFIND", 207, false),
            ("REPORT", 200, false),
            ("SEARCH", 200, false),
            ("QUERY", 200, false),
            ("query", 200, true),
            ("PROPPATCH", 207, true),
            ("LOCK", 200, true),
        ] {
            assert_eq!(invalidates(method, status), expected, "{method} {status}");
        }
    }

    #[test]
    fn named_uris_of_the_same_origin() {
        for (response, expected) in [
            ("Location: /b", "http://a/b"),
            ("Location: c?d#e", "http://a/x/c?d"),
            (
                "Location: http://A:80/b & Content-Location: ../z",
                "http://a/b http://a/z",
            ),
            ("Location: /b & Content-Location: http://a/b", "http://a/b"),
            ("Location: /x/y", ""),
            ("Location: http://b/b", ""),
            ("Location: //b/b", ""),
            ("Location: https://a/b", ""),
            ("Location: http://a:81/b", ""),
            ("Location: http://a@b/", ""),
            ("Location: \u{7f}", ""),
            ("Date: @0", ""),
        ] {
            let found = invalidated_uris("http://a/x/y", &fields(response));
            assert_eq!(found.join(" "), expected, "{response}");
        }
        assert!(invalidated_uris("*", &fields("Location: /b")).is_empty());
    }

    #[test]
    fn there_is_a_limit() {
        let many = (0..100)
            .map(|n| format!("Location: /{n}"))
            .collect::<Vec<_>>()
            .join(" & ");
        assert_eq!(
            invalidated_uris("http://a/", &fields(&many)).len(),
            INVALIDATED_URIS_MAX
        );
    }
}
