//! PURGE on a listener's own port, as modules of content systems send it.
//!
//! `PURGE /path` with the site's name in Host purges this URL with all its variants, as a client of this listener requests it. On a
//! forward listener the target is the whole URL. Only addresses in the listener's `purge-from` (by default none) may purge; all others
//! are refused. A PURGE is never forwarded, because an origin may obey it. It may name any URL that clients of this listener can
//! request, and purges all copies, including those that other listeners stored.
//!
//! | field | effect |
//! |---|---|
//! | `Fastly-Soft-Purge: 1` | stale instead of removed |
//! | `X-Purge-Method: regex`, the path ends in `.*` | all URLs with this prefix; other expressions are refused with 501 |
//! | one that names tags ([`TAG_FIELDS`]) | 501 |
//!
//! `X-Purge-Method` is how "purge all" arrives (`PURGE /.*`). Read as a URL, it would purge nothing and answer 200. `PURGE /*` would do
//! the same, and a PURGE that names tags would purge the home page. Both are refused with 501, and so are the [`METHODS`] of other
//! caches. None of these is forwarded.
//!
//! Not known here: how a purge works (`request::purge`, which also makes the answers).

use std::rc::Rc;

use message::{Framing, RequestHead};
use profile::Class;

use crate::{
    reply::After,
    request::{
        exchange::{Exchange, Said},
        purge::{self, Order, Purged, What},
        target::{self, Names},
    },
};
use record::metrics;

/// The methods of a port that permits no purges.
const ALLOW: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Methods by which other caches purge: a resource, by expression, by tags.
pub const METHODS: [&str; 3] = ["PURGE", "BAN", "PURGEKEYS"];

/// Fields by which modules name tags to purge.
const TAG_FIELDS: [&[u8]; 9] = [
    b"x-magento-tags-pattern",
    b"surrogate-key",
    b"cache-tag",
    b"cache-tags",
    b"x-cache-tag",
    b"x-cache-tags",
    b"xkey",
    b"xkey-purge",
    b"xkey-softpurge",
];

/// Characters with another meaning in an expression than in a URL, except the dot, which is in most file names.
const EXPRESSION: &[char] = &[
    '*', '+', '?', '^', '$', '(', ')', '[', ']', '{', '}', '|', '\\',
];

/// Answers PURGE and similar methods. `Err`: the request was one.
pub async fn purge(ex: &mut Exchange<'_>, head: &RequestHead) -> Result<(), After> {
    match METHODS.contains(&head.method.as_str()) {
        true => Err(Box::pin(answer(ex, head)).await),
        false => Ok(()),
    }
}

async fn answer(ex: &mut Exchange<'_>, head: &RequestHead) -> After {
    let has_no_body = matches!(head.framing, Framing::None | Framing::Length(0));
    ex.reply.keep_open_if(has_no_body);
    let listener = Rc::clone(&ex.listener);
    let allowed = &listener.listener.purge_from;
    if allowed.is_empty() {
        let allow: [(&[u8], &[u8]); 1] = [(b"Allow", ALLOW)];
        let reason = "purging is not configured for this port: purge-from, or the admin interface";
        return ex.own(405, reason, &allow, Vec::new()).await;
    }
    let client = ex.peer.ip().to_canonical();
    if !allowed.iter().any(|net| net.contains(&client)) {
        let reason = "this address may not purge: purge-from names those that may";
        return ex.refuse(403, reason, None).await;
    }
    if let Some(reason) = is_of_no_url(head) {
        return ex.refuse(501, reason, None).await;
    }
    if let Err(misplaced) =
        target::locate(&listener, &head.method, &head.target, head.host.as_deref())
    {
        let (status, reason) = misplaced.answer();
        return ex.refuse(status, &reason, None).await;
    }
    let Some(order) = order(head, &listener.listener.address.to_string()) else {
        let reason = "purging by expression is not served, but for one that ends in .* and has no other operator";
        return ex.refuse(501, reason, None).await;
    };
    // A permit covers the URLs that this listener serves, not those that only others serve.
    match purge::purge(&ex.worker.shared, &[listener], &order).await {
        Ok(purged) => {
            metrics::add(&ex.worker.counters.purges, 1);
            tracing::info!(%client, of = order.text, what = ?order.what, soft = order.soft, durable = purged.durable, "purge");
            say(ex, &purged).await
        }
        Err(reason) => ex.refuse(400, reason, None).await,
    }
}

/// Why the request does not purge a single URL or prefix; `None`: it may.
fn is_of_no_url(head: &RequestHead) -> Option<&'static str> {
    let names_tags = || TAG_FIELDS.iter().any(|name| head.fields.contains(name));
    if head.method != "PURGE" || names_tags() {
        return Some(
            "only URLs are purged on this port: tags by DELETE /cache?tag= at the admin interface, prefixes by DELETE /cache?prefix= there",
        );
    }
    let is_of_many = head.target.ends_with('*') && !head.fields.contains(b"x-purge-method");
    is_of_many.then_some(
        "PURGE takes one URL, without *: prefixes by DELETE /cache?prefix= at the admin interface, or by X-Purge-Method: regex and a path that ends in .*",
    )
}

/// The requested purge; `None` if it needs an expression. `address`: used if Host is missing.
fn order(head: &RequestHead, address: &str) -> Option<Order> {
    let mut url = match head.target.starts_with('/') {
        true => format!(
            "http://{}{}",
            head.host.as_deref().unwrap_or(address),
            head.target
        ),
        false => head.target.clone(),
    };
    let says = |name: &[u8], word: &[u8]| {
        let value = head.fields.first(name);
        value.is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(word))
    };
    let is_expression = says(b"x-purge-method", b"regex");
    if is_expression {
        url.truncate(url.strip_suffix(".*")?.len());
        // Check from the path on: brackets before it belong to an IPv6 address.
        let path = url.find("://").map_or(0, |at| at + 3);
        let path = url[path..].find('/').map_or(url.len(), |at| path + at);
        if url[path..].contains(EXPRESSION) {
            return None;
        }
    }
    Some(Order {
        what: match is_expression {
            true => What::Prefix,
            false => What::Url,
        },
        text: url,
        soft: says(b"fastly-soft-purge", b"1"),
        names: Names::OfClients,
    })
}

/// Answers as the admin interface answers the same purge.
async fn say(ex: &mut Exchange<'_>, purged: &Purged) -> After {
    let (status, class) = match purged.durable {
        true => (200, Class::Uncachable),
        false => (503, Class::Error),
    };
    let mut body = serde_json::to_vec_pretty(purged).expect("its members are text and numbers");
    body.push(b'\n');
    let json = "application/json";
    let said = Said {
        class,
        content_type: json.as_bytes(),
        age_s: None,
        cache_status: Vec::new(),
    };
    ex.own_body(said, status, Some(json), &[], body.into())
        .await
}
