//! PURGE on a listener's own port, as the modules of content systems send it to the cache in front of them.
//!
//! `PURGE /path` with the site's name in Host purges that URL, as a client of this listener asks for it, in all its variants;
//! on a forward listener the target is the whole URL. Who may is the listener's `purge-from`. Everybody else is refused, and so
//! is everybody where nothing is configured: a PURGE is never sent on, for an origin may obey it.
//!
//! | field | effect |
//! |---|---|
//! | `Fastly-Soft-Purge: 1` | stale instead of gone |
//! | `X-Purge-Method: regex`, the path ends in `.*` | all URLs that begin so; another expression is refused with 501 |
//!
//! The second is how "purge all" arrives (`PURGE /.*`). Taking it for the URL of that name would purge nothing, and say 200.
//!
//! Not known here: what a purge does (`admin::purge`, which answers here as it does there).

use crate::clock::Instant;
use std::rc::Rc;

use bytes::Bytes;
use fields::Fields;
use http1::{Framing, RequestHead};
use message::{reason_phrase, write_decimal};
use profile::Class;

use crate::{
    admin::purge::{self, Order, Purged, What},
    cache::object,
    conn::client::{After, Conn},
    record::metrics,
    reply::answer::{self, Answering},
    request::target::{self, Names},
    state::Worker,
};

/// What can be asked of a port where nobody may purge.
const ALLOW: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Characters that mean something else in an expression than in a URL, but for the dot, which is in every file's name.
const EXPRESSION: &[char] = &[
    '*', '+', '?', '^', '$', '(', ')', '[', ']', '{', '}', '|', '\\',
];

/// Answers a PURGE.
pub async fn answer(
    worker: &Rc<Worker>,
    conn: &mut Conn,
    on: &mut Answering,
    head: &RequestHead,
) -> After {
    on.keep_open &= matches!(head.framing, Framing::None | Framing::Length(0));
    let listener = Rc::clone(&conn.listener);
    let allowed = &listener.listener.purge_from;
    if allowed.is_empty() {
        let allow: [(&[u8], &[u8]); 1] = [(b"Allow", ALLOW)];
        let reason = "purging is not configured for this port: purge-from, or the admin interface";
        return answer::own(worker, conn, on, 405, reason, &allow, b"").await;
    }
    let client = conn.peer.ip().to_canonical();
    if !allowed.iter().any(|net| net.contains(&client)) {
        let reason = "this address may not purge: purge-from names those that may";
        return answer::own(worker, conn, on, 403, reason, &[], b"").await;
    }
    if let Err(misplaced) =
        target::locate(&listener, &head.method, &head.target, head.host.as_deref())
    {
        let (status, reason) = misplaced.answer();
        return answer::own(worker, conn, on, status, &reason, &[], b"").await;
    }
    let Some(order) = order(head, &listener.listener.address.to_string()) else {
        let reason = "purging by expression is not served, but for one that ends in .* and has no other operator";
        return answer::own(worker, conn, on, 501, reason, &[], b"").await;
    };
    // A permit is for this listener: what only others serve stays.
    match purge::purge(&worker.shared, &[listener], &order).await {
        Ok(purged) => {
            metrics::add(&worker.counters.purges, 1);
            tracing::info!(%client, of = order.text, what = ?order.what, soft = order.soft, durable = purged.durable, "purge");
            say(worker, conn, on, &purged).await
        }
        Err(reason) => answer::own(worker, conn, on, 400, reason, &[], b"").await,
    }
}

/// What is to go; `None` if it takes an expression to say it. `address`: in place of a Host that is missing.
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
        // From the path on: brackets before it are of an IPv6 address.
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

/// The answer of the admin interface to the same purge.
async fn say(worker: &Worker, conn: &mut Conn, on: &mut Answering, purged: &Purged) -> After {
    let (status, class) = match purged.durable {
        true => (200, Class::Uncachable),
        false => (503, Class::Error),
    };
    let mut body = serde_json::to_vec_pretty(purged).expect("its members are text and numbers");
    body.push(b'\n');
    let mut fields = Fields::new();
    fields.push(b"Date", &httpcache::format_date(worker.now_ms()));
    fields.push(b"Content-Type", b"application/json");
    fields.push(b"Cache-Control", b"no-store");
    let mut out = Vec::with_capacity(256);
    object::write_head(status, reason_phrase(status), &fields, &mut out);
    out.extend_from_slice(b"Content-Length: ");
    write_decimal(body.len() as u64, &mut out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&worker.shared.via_line);
    on.end_head(&mut out);
    let said: answer::Said<'_> = (status, class, b"application/json", b"");
    answer::whole(
        worker,
        conn,
        on,
        said,
        out,
        Bytes::from(body),
        Instant::now(),
    )
    .await
}
