//! Purging: from the ways a person may name what is to go to the keys and predicates it is stored under.
//!
//! | what | how |
//! |---|---|
//! | one URL, in all its variants | each name it may be stored under, by its hash (`Cache::invalidate`) |
//! | all URLs that begin so | a predicate (`cache::predicate`) |
//! | all that carry a tag (`Surrogate-Key`, `Cache-Tag`) | a predicate |
//! | *soft*: not gone, but stale | for one URL a mark beside its record (`Cache::doubt`), else a predicate |
//!
//! A purge takes effect for what is stored in memory and on disk, in all its variants, and for fetches, reads
//! and promotions under way: what was asked for before the purge is not stored after it. So a purge that finds
//! nothing has still done something, and answers 200 with `"purged": false`, not 404.
//!
//! It is acknowledged when it is certain to hold after a crash, too. If the disk does not take it within [`DURABLE_WAIT`], the
//! answer is 503 with `"durable": false`: purged until the next crash, so ask again. If there is no room for one more predicate the
//! answer is that too, with a reason: ask again. Of a prefix that makes several predicates the first may have been taken by then.
//!
//! In a cluster it goes to all members. One that has a link and does not have it durably within [`DURABLE_WAIT`] makes the answer 503 and is
//! named in `"missing"`; one that is away is named in `"away"` and will be told (`purging`).
//!
//! The URL is taken as the client's (`http://www.example.org/a` on a reverse listener) and as the origin's, as it was typed and as the
//! rules cut its query. All that is stored under these names goes, whichever listener stored it, also one that is no more.
//!
//! Not known here: who may purge.

use std::{rc::Rc, time::Duration};

use http1::Target;
use profile::MarkKind;
use serde::Serialize;
use serde_json::json;
use store::NotTaken;

use crate::{
    listener::ListenerState,
    request::target::{self, Names},
    state::Shared,
};
use base::clock::Instant;
use cache::predicate::TAG_BYTES_MAX;
use cluster::Cluster;
use purging::change::{Change, Pattern};
use record::events::Events;

/// How long a purge waits for the disk.
const DURABLE_WAIT: Duration = Duration::from_secs(5);

/// What is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// One URL.
    Url,
    /// All that begin so.
    Prefix,
    /// All that carry it.
    Tag,
}

/// A purge as it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// What the text is.
    pub what: What,
    /// URL, beginning of URLs, or tag.
    pub text: String,
    /// Stale instead of gone?
    pub soft: bool,
    /// By whose names it is meant.
    pub names: Names,
}

impl Order {
    /// One URL is to go.
    pub fn of_url(url: &str) -> Order {
        Order {
            what: What::Url,
            text: url.to_owned(),
            soft: false,
            names: Names::All,
        }
    }
}

/// What a purge did, as it is answered.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
pub struct Purged {
    /// Was anything there? Of a prefix or a tag that is not known: what is stored is compared when it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged: Option<bool>,
    /// Will it hold after a crash?
    pub durable: bool,
    /// Why it will not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Only made stale?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub soft: bool,
    /// As it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// As it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// As it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Of a cluster.
    #[serde(flatten)]
    pub members: MembersTold,
}

/// The other members of a cluster that do not have a purge yet, by name.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
pub struct MembersTold {
    /// They have a link and did not say in time that it is durable there: ask again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// They are away, and will be told before they serve what they have stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// Purges, or says what is wrong with the order.
pub async fn purge(
    shared: &Shared,
    listeners: &[Rc<ListenerState>],
    order: &Order,
) -> Result<Purged, &'static str> {
    let (change, mut done) = resolved(listeners, order)?;
    let applied = shared.local_cache().apply(&change);
    match applied.refused {
        Some(NotTaken::TooLong) => return Err(TOO_LONG),
        Some(NotTaken::Full) => {
            done.reason = Some(NO_ROOM);
            return Ok(done);
        }
        None => {}
    }
    if let Some(purged) = &mut done.purged {
        *purged = applied.found;
    }
    let began = Instant::now();
    let settled = shared.cache.settle(&applied.handles, DURABLE_WAIT);
    (done.durable, ()) = tokio::join!(
        settled,
        told(shared.cluster.as_deref(), &change, &mut done.members)
    );
    if !done.members.missing.is_empty() {
        (done.durable, done.reason) = (false, Some(NOT_ALL));
    }
    note(&shared.events, order, done.durable, began);
    Ok(done)
}

/// What is to go by these names, and the answer before anything is done.
fn resolved(
    listeners: &[Rc<ListenerState>],
    order: &Order,
) -> Result<(Change, Purged), &'static str> {
    let text = Some(order.text.clone());
    let mut change = Change {
        soft: order.soft,
        ..Change::default()
    };
    let mut done = Purged {
        soft: order.soft,
        ..Purged::default()
    };
    match order.what {
        What::Url => {
            change.names =
                target::names_of_url(listeners, &order.text, order.names).ok_or(NO_URL)?;
            (done.url, done.purged) = (text, Some(false));
        }
        What::Prefix => {
            let prefixes = prefixes(listeners, &order.text, order.names)?;
            change.patterns = prefixes.into_iter().map(Pattern::Prefix).collect();
            if order.text.contains('?') {
                // What rules have made of such a URL has lost its query, or some of it.
                let names = target::names_of_url(listeners, &order.text, order.names);
                change.names = names.unwrap_or_default();
            }
            done.prefix = text;
        }
        What::Tag => {
            change.patterns = vec![Pattern::Tag(tag(&order.text)?)];
            done.tag = text;
        }
    }
    Ok((change, done))
}

/// Tells the other members of the cluster, if there is one, and waits until they have it.
async fn told(cluster: Option<&Cluster>, change: &Change, members: &mut MembersTold) {
    let Some(cluster) = cluster else {
        return;
    };
    let outcome = cluster.purging.tell(change, DURABLE_WAIT).await;
    members.missing = cluster.names_of(outcome.missing);
    members.away = cluster.names_of(outcome.away);
    if outcome.is_unkept {
        // Our own journal failed, so those who are away would not be told.
        let away = std::mem::take(&mut members.away);
        members.missing.extend(away);
    }
}

/// Marks it in the profile: what it was, not whom it was about.
fn note(events: &Events, order: &Order, durable: bool, began: Instant) {
    if events.are_wanted() {
        let what = match order.what {
            What::Url => "url",
            What::Prefix => "prefix",
            What::Tag => "tag",
        };
        let (soft, ms) = (order.soft, began.elapsed().as_millis() as u64);
        let text = json!({ "what": what, "soft": soft, "durable": durable, "ms": ms });
        events.mark(MarkKind::Purge, &text.to_string());
    }
}

const NO_URL: &str =
    "that is not an absolute http or https URL; ask like this: PURGE /http://www.example.org/path";
const NO_ROOM: &str =
    "too many purges by prefix or tag are still being worked off; ask again later";
const NOT_ALL: &str = "not all members of the cluster have it; ask again";
const TOO_LONG: &str = "a prefix or tag of more than 1000 bytes cannot be purged";

const NO_ORDER: &str = "the query must be one of url=, prefix= and tag=, and soft=1 or not; what is behind them must be percent-encoded: & as %26, ? as %3F, = as %3D";

/// All of them are short enough, or none is purged.
fn prefixes(
    listeners: &[Rc<ListenerState>],
    url: &str,
    names: Names,
) -> Result<Vec<Vec<u8>>, &'static str> {
    let tail = &url.as_bytes()[url.len().saturating_sub(2)..];
    if tail.contains(&b'%') {
        return Err("the prefix ends in the middle of an escape: %XX or nothing of it");
    }
    let prefixes = target::prefixes_of_url(listeners, url, names).ok_or(NO_URL)?;
    match prefixes.iter().all(|prefix| prefix.len() <= TAG_BYTES_MAX) {
        true => Ok(prefixes),
        false => Err(TOO_LONG),
    }
}

fn tag(text: &str) -> Result<Vec<u8>, &'static str> {
    if text.len() > TAG_BYTES_MAX {
        return Err(TOO_LONG);
    }
    // A blank separates in Surrogate-Key, a comma in Cache-Tag; within the other field each may be part of a tag.
    let is_plain = !text.is_empty() && text.trim() == text && !text.contains(char::is_control);
    match is_plain {
        true => Ok(text.as_bytes().to_vec()),
        false => Err("a tag has at least one character, and no blanks around it"),
    }
}

/// The URL of a `PURGE` request: the target itself when sent as to a proxy (`curl -x`), else what follows the
/// first slash (`PURGE /http://www.example.org/a`).
pub fn url_of_target(target: &str) -> &str {
    match http1::parse_target("PURGE", target) {
        Ok(Target::Origin(path)) => &path[1..],
        _ => target,
    }
}

/// What `DELETE /cache?...` is to forget: one of `url=`, `prefix=` and `tag=`, percent-encoded, `soft=1` before or behind it or
/// not at all, and nothing else. (A URL with `&` that was not encoded would lose its tail without a word.)
pub fn order_of_query(query: Option<&str>) -> Result<Order, &'static str> {
    let kinds = [
        ("url=", What::Url),
        ("prefix=", What::Prefix),
        ("tag=", What::Tag),
    ];
    let (mut soft, mut found) = (false, None);
    for part in query.unwrap_or_default().split('&') {
        let mut named = kinds.iter();
        let named = named.find_map(|(name, what)| Some((*what, part.strip_prefix(name)?)));
        match named {
            Some(named) if found.is_none() => found = Some(named),
            None if part == "soft=1" && !soft => soft = true,
            _ => return Err(NO_ORDER),
        }
    }
    let (what, value) = found.ok_or(NO_ORDER)?;
    if value.contains(['?', '=']) {
        return Err(NO_ORDER);
    }
    let text = percent_decode(value)
        .ok_or("a percent sign must be followed by two hexadecimal digits of an ASCII character")?;
    Ok(Order {
        what,
        text,
        soft,
        names: Names::All,
    })
}

/// Decodes `%XX`, and nothing else (`+` stays). `None` if an escape is broken or its byte is not ASCII, which no URL
/// contains.
pub fn percent_decode(text: &str) -> Option<String> {
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
    use crate::{listener::listener_states, testing};
    use plan::{Listener, OriginUrl, Role, Route};

    fn await_purge(shared: &Shared, listeners: &[Rc<ListenerState>], url: &str) -> Option<Purged> {
        testing::wait(purge(shared, listeners, &Order::of_url(url))).ok()
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
        let told = |query| order_of_query(query).map(|o| (o.what, o.soft, o.text));
        let ok = |what, soft, text: &str| Ok((what, soft, text.to_owned()));
        for (query, order) in [
            (
                "url=http%3A%2F%2Fh%2Fa%3Fb%3Dc%26d",
                ok(What::Url, false, "http://h/a?b=c&d"),
            ),
            ("url=http://h/a", ok(What::Url, false, "http://h/a")),
            ("soft=1&url=http://h/a", ok(What::Url, true, "http://h/a")),
            ("prefix=http://h/", ok(What::Prefix, false, "http://h/")),
            ("soft=1&tag=a%20b", ok(What::Tag, true, "a b")),
            ("url=http://h/a&soft=1", ok(What::Url, true, "http://h/a")),
        ] {
            assert_eq!(told(Some(query)), order, "{query}");
        }
        for refused in [
            None,
            Some(""),
            Some("uri=x"),
            Some("soft=1"),
            Some("soft=0&url=http://h/a"),
            Some("url=http://h/a?b"),
            Some("soft=1&soft=1&tag=a"),
            Some("url=http://h/a&b"),
            Some("url=http://h/a&soft=0"),
            Some("tag=a&tag=b"),
        ] {
            assert!(told(refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn what_is_no_prefix_and_no_tag_is_refused() {
        let shared = testing::shared();
        let listeners = listener_states(&shared.edition(), shared.cache.hasher());
        let long = format!("http://h/{}", "a".repeat(TAG_BYTES_MAX));
        for (what, text, accepted) in [
            (What::Prefix, "http://h", true),
            (What::Prefix, "http://h/a%2F", true),
            (What::Prefix, "http://h/a%2", false),
            (What::Prefix, "http://h/a%", false),
            (What::Prefix, "h/a", false),
            (What::Prefix, "", false),
            (What::Prefix, &long, false),
            (What::Tag, "a", true),
            (What::Tag, "", false),
            (What::Tag, " a", false),
            (What::Tag, "a\n", false),
            (What::Tag, &long, false),
        ] {
            let order = Order {
                what,
                text: text.to_owned(),
                soft: false,
                names: Names::All,
            };
            let done = testing::wait(purge(&shared, &listeners, &order));
            assert_eq!(done.is_ok(), accepted, "{text}");
        }
    }

    #[test]
    fn a_prefix_goes_through_the_routes_that_may_take_some_of_it() {
        let origin = |host: &str, path: &str| OriginUrl {
            tls: false,
            host: host.into(),
            port: 80,
            path: path.into(),
        };
        let route = |host: Option<&str>, path: &str, origin: OriginUrl| Route {
            host: host.map(str::to_owned),
            path_prefix: path.into(),
            origin,
            upstream: None,
            pass_host: false,
            mirror: Default::default(),
            http2: None,
            tells_client: false,
            tls: None,
            sign: None,
        };
        let mut listener =
            Listener::reverse("127.0.0.1:80".parse().unwrap(), Vec::new(), origin("o", ""));
        listener.role = Role::Reverse(vec![
            route(Some("www.example"), "/docs", origin("docs", "/base")),
            route(Some("www.example"), "/docs-old/", origin("old", "")),
            route(Some("www.example"), "/", origin("www", "")),
            route(None, "/", origin("any", "")),
        ]);
        let shared = testing::shared_with(vec![listener]);
        let listeners = listener_states(&shared.edition(), shared.cache.hasher());
        for (url, found) in [
            (
                "http://www.example/x",
                "http://www.example/x https://www.example/x http://www/x",
            ),
            (
                "HTTP://WWW.example:80/docs",
                "http://www.example/docs https://www.example/docs http://docs/base/docs http://old/docs-old/ http://www/docs",
            ),
            (
                "http://www.example/docs/a",
                "http://www.example/docs/a https://www.example/docs/a http://docs/base/docs/a",
            ),
            ("http://h", "http://h/ https://h/ http://any/"),
        ] {
            let prefixes = target::prefixes_of_url(&listeners, url, Names::All).unwrap();
            let uris = prefixes
                .iter()
                .map(|p| std::str::from_utf8(&p[4..]).unwrap());
            assert_eq!(uris.collect::<Vec<_>>().join(" "), found, "{url}");
        }
    }

    #[test]
    fn a_url_is_purged_under_every_name_it_may_have() {
        let origin = OriginUrl {
            tls: false,
            host: "origin.example".into(),
            port: 8080,
            path: "/base".into(),
        };
        let address = "127.0.0.1:80".parse().unwrap();
        let shared = testing::shared_with(vec![Listener::reverse(address, Vec::new(), origin)]);
        let listeners = listener_states(&shared.edition(), shared.cache.hasher());
        let keys: Vec<_> = target::names_of_url(&listeners, "http://www.example/a", Names::All)
            .unwrap()
            .iter()
            .map(|key| shared.cache.hasher().hash(key))
            .collect();
        assert!(keys.len() > 1);
        let began = shared.cache.store.sequence(keys[0]);
        let purged = await_purge(&shared, &listeners, "HTTP://WWW.example:80/a").unwrap();
        assert_eq!(purged.purged, Some(false), "nothing was stored");
        assert!(
            purged.durable,
            "without a disk there is nothing to wait for"
        );
        for &key in &keys {
            assert!(shared.cache.store.invalidated_since(key, began));
        }
        // A marker is something that was there.
        let began = shared.cache.store.sequence(keys[1]);
        shared
            .cache
            .store
            .set_marker(keys[1], b"accept", began)
            .unwrap();
        let again = await_purge(&shared, &listeners, "http://www.example/a").unwrap();
        assert_eq!(again.purged, Some(true));
        assert!(shared.cache.store.marker(keys[1]).is_none());
    }

    #[test]
    fn only_http_urls_are_purged() {
        let shared = testing::shared();
        let listeners = listener_states(&shared.edition(), shared.cache.hasher());
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
