//! Fields that end at this hop (RFC 9110 §7.6.1).
//!
//! An intermediary removes Connection and every field that it names. A client could abuse this to strip fields that the proxy
//! or the origin rely on (`Connection: Cookie`, `Connection: X-Forwarded-For`). So fields meant for all recipients
//! are kept even if Connection names them; §7.6.1 forbids senders to name them.

use fields::Fields;

use crate::{Seen, split_tokens};

/// The fields that are always removed.
const HOP_BY_HOP: Seen = Seen::CONNECTION
    .union(Seen::PROXY_CONNECTION)
    .union(Seen::KEEP_ALIVE)
    .union(Seen::TE)
    .union(Seen::TRANSFER_ENCODING)
    .union(Seen::UPGRADE);

/// The names of these fields. A message without any of them has no Connection, so it names no other fields to remove.
const HOP_BY_HOP_NAMES: [&[u8]; 6] = [
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"te",
    b"transfer-encoding",
    b"upgrade",
];

/// Kept even if Connection names them: fields for framing, routing, conditions, authentication, caching and the
/// description of the content.
const END_TO_END: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "cdn-cache-control",
    "cdn-loop",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-security-policy",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "loligo-cache-control",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "trailer",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "x-content-type-options",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-frame-options",
    "x-real-ip",
];

/// Removes the fields that end at this hop: Connection and the fields it names, Proxy-Connection, Keep-Alive, TE,
/// Transfer-Encoding and Upgrade. If there was a Transfer-Encoding, Content-Length goes too, since the two contradict
/// each other.
///
/// Fields for all recipients (Host, Content-Length, Cache-Control, Authorization, Cookie and others) stay even if
/// Connection names them. Trailer stays. Proxy-Authorization and Proxy-Authenticate stay unless named (RFC 9110
/// §11.7: a proxy may pass them on); a proxy that uses them itself removes them.
pub fn remove_hop_by_hop(fields: &mut Fields) {
    // Many messages have none of these fields: return early.
    if !HOP_BY_HOP_NAMES.iter().any(|name| fields.contains(name)) {
        return;
    }
    let is_coded = fields.contains(b"Transfer-Encoding");
    let named = named_fields(fields);
    fields.retain(|name, _| {
        let bit = Seen::of(name);
        let is_named = || named.iter().any(|option| option.eq_ignore_ascii_case(name));
        !(bit.intersects(HOP_BY_HOP) || (is_coded && bit == Seen::CONTENT_LENGTH) || is_named())
    });
}

/// The connection options that name fields to remove. Usually there are none, and nothing is allocated. The parser
/// limits their number.
fn named_fields(fields: &Fields) -> Vec<Vec<u8>> {
    let options = fields.all(b"Connection").flat_map(split_tokens);
    let names_nothing = |option: &[u8]| {
        option.is_empty()
            || option.eq_ignore_ascii_case(b"close")
            || Seen::of(option).intersects(HOP_BY_HOP)
            || END_TO_END
                .iter()
                .any(|name| option.eq_ignore_ascii_case(name.as_bytes()))
    };
    options
        .filter(|option| !names_nothing(option))
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_of(lines: &[(&str, &str)]) -> Vec<String> {
        let lines = lines
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut fields: Fields = lines.collect();
        remove_hop_by_hop(&mut fields);
        fields
            .iter()
            .map(|(name, _)| String::from_utf8(name.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn the_names_are_those_of_the_set() {
        let named = HOP_BY_HOP_NAMES.iter().map(|name| Seen::of(name));
        let all = named.reduce(Seen::union).unwrap();
        assert_eq!(all, HOP_BY_HOP);
    }

    #[test]
    fn the_usual_ones_go() {
        let left = left_of(&[
            ("Host", "a"),
            ("connection", "keep-alive, Upgrade"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("TE", "trailers"),
            ("Upgrade", "websocket"),
            ("Trailer", "Digest"),
            ("Content-Length", "5"),
            ("Proxy-Authorization", "Basic YQ=="),
        ]);
        assert_eq!(
            left,
            ["Host", "Trailer", "Content-Length", "Proxy-Authorization"]
        );
    }

    #[test]
    fn named_fields_go_over_all_lines() {
        let left = left_of(&[
            ("Connection", "X-One,, x-two"),
            ("X-Two", "2"),
            ("x-one", "1"),
            ("X-Three", "3"),
            ("Connection", "Proxy-Authorization"),
            ("Proxy-Authorization", "x"),
        ]);
        assert_eq!(left, ["X-Three"]);
    }

    #[test]
    fn essentials_stay_though_named() {
        let named =
            "Host, CONTENT-LENGTH, Cache-Control, Authorization, Cookie, X-Forwarded-For, close";
        let left = left_of(&[
            ("Connection", named),
            ("Host", "a"),
            ("Content-Length", "1"),
            ("Cache-Control", "no-store"),
            ("Authorization", "x"),
            ("Cookie", "x"),
            ("X-Forwarded-For", "x"),
        ]);
        assert_eq!(left.len(), 6);
    }

    #[test]
    fn a_length_beside_a_coding_goes() {
        assert_eq!(
            left_of(&[
                ("Content-Length", "5"),
                ("Transfer-Encoding", "chunked"),
                ("A", "b")
            ]),
            ["A"]
        );
    }

    #[test]
    fn a_quote_hides_nothing() {
        assert_eq!(
            left_of(&[("Connection", "\"x, X-One"), ("X-One", "1")]),
            [""; 0]
        );
    }
}
