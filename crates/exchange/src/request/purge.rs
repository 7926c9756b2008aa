//! Purging: turns a URL, prefix or tag into the keys and predicates to invalidate.
//!
//! | purged | how |
//! |---|---|
//! | one URL, in all its variants | each name that it may be stored under, by its hash (`Cache::invalidate`) |
//! | all URLs with a prefix | a predicate (`cache::predicate`) |
//! | all responses with a tag (`Surrogate-Key`, `Cache-Tag`) | a predicate |
//! | *soft*: made stale, not removed | for one URL a mark beside its record (`Cache::doubt`), else a predicate |
//!
//! A purge applies to responses in memory and on disk, in all their variants, and to fetches, reads and promotions in progress: a
//! response requested before the purge is not stored after it. So a purge that finds nothing stored still has an effect, and
//! answers 200 with `"purged": false`, not 404.
//!
//! A purge is acknowledged when it is durable. If the disk does not confirm it within [`DURABLE_WAIT`], the answer is 503 with
//! `"durable": false`: the purge holds until the next crash, so the client should retry. If there is no room for another predicate, the
//! answer is the same, with a reason. A prefix may need several predicates; the first ones may be in force by then.
//!
//! In a cluster a purge goes to all members. If a linked member does not confirm it within [`DURABLE_WAIT`], the answer is 503 and
//! names the member in `"missing"`. A member without a link is named in `"away"` and gets the purge later (`purging`).
//!
//! The URL is read as the client's (`http://www.example.org/a` on a reverse listener) and as the origin's, both as typed and with its
//! query cut by the rules. Everything stored under these names is purged, whichever listener stored it, even one that no longer exists.
//!
//! Not known here: who is allowed to purge.

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

/// What a purge's text names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// One URL.
    Url,
    /// All URLs with this prefix.
    Prefix,
    /// All responses with this tag.
    Tag,
}

/// A purge as it was requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// What `text` names.
    pub what: What,
    /// URL, beginning of URLs, or tag.
    pub text: String,
    /// Make responses stale instead of removing them?
    pub soft: bool,
    /// Whose names the URL may be.
    pub names: Names,
}

impl Order {
    /// Removes one URL.
    pub fn of_url(url: &str) -> Order {
        Order {
            what: What::Url,
            text: url.to_owned(),
            soft: false,
            names: Names::All,
        }
    }
}

/// The result of a purge, as the answer shows it.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
pub struct Purged {
    /// Was anything stored? Not known for a prefix or a tag: stored responses are compared with the predicate when they are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged: Option<bool>,
    /// Does the purge survive a crash?
    pub durable: bool,
    /// Why it is not durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Were responses only made stale?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub soft: bool,
    /// The URL of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The prefix of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The tag of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The members of the cluster that do not have the purge yet.
    #[serde(flatten)]
    pub members: MembersTold,
}

/// The other members of a cluster that do not have a purge yet, by name.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
pub struct MembersTold {
    /// Linked members that did not confirm in time that the purge is durable; the client should retry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Members without a link. They get the purge before they serve stored responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// Purges. `Err`: what is wrong with the order.
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

/// The change that an order makes, and the answer so far.
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
                // A rule may have cut such a URL's query, or part of it, so its key does not begin with the prefix.
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

/// Tells the other members of the cluster, if there is one, and waits for their confirmation.
async fn told(cluster: Option<&Cluster>, change: &Change, members: &mut MembersTold) {
    let Some(cluster) = cluster else {
        return;
    };
    let outcome = cluster.purging.tell(change, DURABLE_WAIT).await;
    members.missing = cluster.names_of(outcome.missing);
    members.away = cluster.names_of(outcome.away);
    if outcome.is_unkept {
        // Our own journal failed, so the members without a link would not get the purge later.
        let away = std::mem::take(&mut members.away);
        members.missing.extend(away);
    }
}

/// Marks the purge in the profile: its kind, not its text.
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

/// The prefixes to purge. `Err` if any of them is too long.
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
    // Surrogate-Key separates tags by blanks, Cache-Tag by commas; each character may be part of a tag in the other field.
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

/// Parses the query of `DELETE /cache?...`: exactly one of `url=`, `prefix=` and `tag=`, percent-encoded, and at most one `soft=1`
/// before or behind it. Anything else is refused: a URL with an unencoded `&` would silently lose its tail.
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

/// Decodes `%XX`, and nothing else (`+` stays). `None` if an escape is malformed or its byte is not ASCII, which no URL contains.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('%');
    out.push_str(parts.next()?);
    for part in parts {
        let digits = part.get(..2)?;
        // `from_str_radix` accepts a sign, too.
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
        // A marker counts as something stored.
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
