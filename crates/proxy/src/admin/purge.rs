//! Purging one URL: from the ways a person may write it to the keys it is stored under.
//!
//! A purge takes effect for what is stored in memory and on disk, in all its variants, and for fetches, reads
//! and promotions under way: what was asked for before the purge is not stored after it. So a purge that finds
//! nothing has still done something, and answers 200 with `"purged": false`, not 404.
//!
//! It is acknowledged when it is certain to hold after a crash, too. If the disk does not take it within [`DURABLE_WAIT`], the
//! answer is 503 with `"durable": false`: purged until the next crash, so ask again.
//!
//! The URL is taken as the client's (`http://www.example.org/a` on a reverse listener) and as the origin's.
//!
//! Not known here: who may purge.

use std::{rc::Rc, time::Duration};

use http1::Target;
use serde::Serialize;

use crate::{
    state::{ListenerState, Shared},
    target,
};

/// How long a purge waits for the disk.
const DURABLE_WAIT: Duration = Duration::from_secs(5);

/// What a purge did, as it is answered.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Purged {
    /// Was anything there?
    pub purged: bool,
    /// Will it hold after a crash?
    pub durable: bool,
    /// As it was asked.
    pub url: String,
}

/// Purges; `None` if that is no absolute http or https URL.
pub async fn purge(shared: &Shared, listeners: &[Rc<ListenerState>], url: &str) -> Option<Purged> {
    let keys = target::keys_of_url(listeners, url)?;
    let hasher = shared.hasher();
    let mut purged = false;
    let mut tickets = Vec::new();
    for key in keys {
        let (found, ticket) = shared.invalidate(hasher.hash(&key));
        purged |= found;
        tickets.push(ticket);
    }
    let durable = shared.settle(&tickets, DURABLE_WAIT).await;
    Some(Purged {
        purged,
        durable,
        url: url.to_owned(),
    })
}

/// The URL of a `PURGE` request: the target itself when sent as to a proxy (`curl -x`), else what follows the
/// first slash (`PURGE /http://www.example.org/a`).
pub fn url_of_target(target: &str) -> &str {
    match http1::parse_target("PURGE", target) {
        Ok(Target::Origin(path)) => &path[1..],
        _ => target,
    }
}

/// The URL of `DELETE /cache?url=...`: that one parameter, percent-encoded, and no other. (A URL with `&` that
/// was not encoded would lose its tail without a word.)
pub fn url_of_query(query: Option<&str>) -> Result<String, &'static str> {
    let value = query
        .and_then(|query| query.strip_prefix("url="))
        .ok_or("the query must be url= and a percent-encoded URL")?;
    if value.contains(['&', '?', '=']) {
        return Err("the URL must be percent-encoded: & as %26, ? as %3F, = as %3D");
    }
    percent_decode(value)
        .ok_or("a percent sign must be followed by two hexadecimal digits of an ASCII character")
}

/// Decodes `%XX`, and nothing else (`+` stays). `None` if an escape is broken or its byte is not ASCII, which no URL
/// contains.
fn percent_decode(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('%');
    out.push_str(parts.next()?);
    for part in parts {
        let digits = part.get(..2)?;
        // `from_str_radix` takes a sign, too.
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let byte = u8::from_str_radix(digits, 16).ok()?;
        if !byte.is_ascii() {
            return None;
        }
        out.push(char::from(byte));
        out.push_str(&part[2..]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::testing,
        plan::{Listener, OriginUrl},
        worker,
    };

    fn await_purge(shared: &Shared, listeners: &[Rc<ListenerState>], url: &str) -> Option<Purged> {
        testing::wait(purge(shared, listeners, url))
    }

    #[test]
    fn escapes_are_decoded_strictly() {
        for (text, decoded) in [
            ("", Some("")),
            ("http%3A%2f%2Fh%2Fa", Some("http://h/a")),
            ("a%2520b+c", Some("a%20b+c")),
            ("a%", None),
            ("a%2", None),
            ("a%+1", None),
            ("a%zz", None),
            ("a%C3%A4", None),
            ("%2\u{e4}", None),
        ] {
            assert_eq!(percent_decode(text).as_deref(), decoded, "{text}");
        }
    }

    #[test]
    fn the_url_is_the_target_or_what_follows_the_slash() {
        assert_eq!(url_of_target("http://h/a?b=c"), "http://h/a?b=c");
        assert_eq!(url_of_target("/http://h/a?b=c"), "http://h/a?b=c");
        assert_eq!(url_of_target("/a"), "a");
        assert_eq!(url_of_target("/"), "");
    }

    #[test]
    fn a_query_that_would_be_cut_is_refused() {
        assert_eq!(
            url_of_query(Some("url=http%3A%2F%2Fh%2Fa%3Fb%3Dc%26d")).unwrap(),
            "http://h/a?b=c&d"
        );
        assert_eq!(url_of_query(Some("url=http://h/a")).unwrap(), "http://h/a");
        for refused in [
            None,
            Some(""),
            Some("uri=x"),
            Some("url=http://h/a?b"),
            Some("url=http://h/a&soft=1"),
        ] {
            assert!(url_of_query(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn a_url_is_purged_under_every_key_it_may_have() {
        let origin = OriginUrl {
            tls: false,
            host: "origin.example".into(),
            port: 8080,
            path: "/base".into(),
        };
        let address = "127.0.0.1:80".parse().unwrap();
        let shared = testing::shared_with(vec![Listener::reverse(address, Vec::new(), origin)]);
        let listeners = worker::listener_states(&shared);
        let keys: Vec<_> = target::keys_of_url(&listeners, "http://www.example/a")
            .unwrap()
            .iter()
            .map(|key| shared.hasher().hash(key))
            .collect();
        assert!(keys.len() > 1);
        let began = shared.store.sequence(keys[0]);
        let purged = await_purge(&shared, &listeners, "HTTP://WWW.example:80/a").unwrap();
        assert!(!purged.purged, "nothing was stored");
        assert!(
            purged.durable,
            "without a disk there is nothing to wait for"
        );
        for &key in &keys {
            assert!(shared.store.invalidated_since(key, began));
        }
        // A marker is something that was there.
        let began = shared.store.sequence(keys[1]);
        shared.store.set_marker(keys[1], b"accept", began).unwrap();
        assert!(
            await_purge(&shared, &listeners, "http://www.example/a")
                .unwrap()
                .purged
        );
        assert!(shared.store.marker(keys[1]).is_none());
    }

    #[test]
    fn only_http_urls_are_purged() {
        let shared = testing::shared();
        let listeners = worker::listener_states(&shared);
        for url in [
            "",
            "a",
            "/a",
            "h/a",
            "ftp://h/a",
            "http://",
            "http:///a",
            "http://h/a#b",
            "http://u@h/",
        ] {
            assert!(await_purge(&shared, &listeners, url).is_none(), "{url}");
        }
    }
}
