//! Evaluates the operator's rules for a request and carries them out: serve, refuse, answer or redirect it, and change its fields.
//!
//! The rules come first, before the cache is looked at and before a name is resolved. The short way asks the same rulebook and leaves
//! every request that is not simply served to this file. A request forwarded by a cluster member was evaluated there.
//!
//! A CONNECT has host and port but no path, query or scheme, so rules with such a condition do not match. No rule answers it with
//! 2xx, which would look like a tunnel.
//!
//! Not known here: which rules match (`rulebook`).

use std::rc::Rc;

use bytes::Bytes;
use fields::Fields;
use httpcache::cache_status::CacheStatus;
use message::{Authority, RequestHead, Scheme, reason_phrase};
use profile::Class;

use crate::{
    listener::ListenerState,
    reply::{After, Length, ReplyHead},
    request::{
        changing::Changing,
        exchange::{Exchange, Said},
        incoming::Incoming,
        target,
    },
};
use base::clock::Instant;
use plan::{Canned, Text, Verdict};
use rules::rulebook::{Met, MetBy, Question, edits::Values};

/// Evaluates the rules. `Err`: a rule has answered the request.
pub async fn ask(ex: &mut Exchange<'_>, incoming: &mut Incoming) -> Result<(), After> {
    let listener = Rc::clone(&ex.listener);
    if listener.book.is_empty() {
        return Ok(());
    }
    let head = &incoming.head;
    let met = with_question(&listener, head, |question| {
        let met = met(ex, question);
        let ruled = listener.book.request(met.clone(), ex.member.is_none());
        (ex.record.tag, ex.record.changing) = (ruled.tag, None);
        // A tunnel uses these quotas; every other request gets its quotas again when its key is made.
        ex.record.tolls = listener.tolls_of(&ruled.met);
        if ex.member.is_none() && listener.book.changes_answers(&ruled.met) {
            ex.record.changing = Some(Box::new(changing(ex, question, ruled.met)));
        }
        met
    });
    let Some(met) = met else {
        return Ok(());
    };
    incoming.met = Some(met.clone());
    match listener.book.request(met, ex.member.is_none()).verdict {
        None | Some((_, Verdict::Allow)) => Ok(()),
        Some((number, verdict)) => {
            ex.edition().rule_counts.decided(number);
            Err(Box::pin(decided(ex, &incoming.head, verdict)).await)
        }
    }
}

/// The rules that match a request.
pub fn met(ex: &Exchange<'_>, question: &Question<'_>) -> MetBy {
    let listener = &ex.listener;
    if listener.book.is_empty() {
        return MetBy::default();
    }
    let now = ex.worker.now_ms().0;
    let among = listener.book.may_meet(ex.peer.ip(), listener.number, now);
    listener.book.met(&among, question)
}

/// Makes a question from a head. `None`: the head names nothing that can be served, and is refused later.
pub fn with_question<T>(
    listener: &ListenerState,
    head: &RequestHead,
    ask: impl FnOnce(&Question<'_>) -> T,
) -> Option<T> {
    let RequestHead {
        method,
        target,
        fields,
        ..
    } = head;
    let of_server = match (method.as_str(), target.as_str()) {
        ("CONNECT", target) => Some(Authority::parse(target).filter(|to| to.port.is_some())?),
        (_, "*") => {
            let host = head.host.as_deref().and_then(Authority::parse);
            Some(host.unwrap_or(Authority::NONE))
        }
        _ => None,
    };
    if let Some(Authority { host, port }) = of_server {
        return Some(ask(&Question {
            method,
            scheme: None,
            host,
            port: port.unwrap_or(Scheme::Http.default_port()),
            path: None,
            fields,
        }));
    }
    let place = target::locate(listener, method, target, head.host.as_deref()).ok()?;
    Some(ask(&place.question(method, fields)))
}

/// The changes that these rules make to the fields of a request and its answer.
pub fn changing(ex: &Exchange<'_>, question: &Question<'_>, met: Met) -> Changing {
    let id = match &ex.record.changing {
        Some(changing) => changing.id,
        None => ex.worker.next_id(),
    };
    Changing::of(&ex.listener, ex.peer.ip(), question, met, id)
}

/// Carries out the decision of a rule.
async fn decided(ex: &mut Exchange<'_>, head: &RequestHead, verdict: &Verdict) -> After {
    ex.keep_open_without_body(head.framing);
    let is_connect = head.method == "CONNECT";
    if is_connect {
        ex.reply.keep_open_if(false);
    }
    match verdict {
        Verdict::Answer(canned) if !is_connect || canned.status >= 400 => {
            return canned_answer(ex, canned).await;
        }
        Verdict::Redirect { to, status } if !is_connect => {
            if let Some(to) = url_of(ex, head, to) {
                let reason = reason_phrase(*status);
                return ex
                    .own(*status, reason, &[(b"Location", &to)], Vec::new())
                    .await;
            }
        }
        _ => {}
    }
    let words = match verdict {
        Verdict::Deny { words: Some(words) } => words,
        _ => "a rule of this proxy does not allow this request",
    };
    denied(ex, words).await
}

//= rfc9209 §2.3.17   http_request_denied: the intermediary has rejected the request because of its configuration
async fn denied(ex: &mut Exchange<'_>, words: &str) -> After {
    let name = &ex.edition().cache_name;
    let proxy_status = [name, &b"; error=http_request_denied"[..]].concat();
    let mut line = Vec::new();
    CacheStatus::own(name, &mut line).detail("http_request_denied");
    ex.own(403, words, &[(b"Proxy-Status", &proxy_status)], line)
        .await
}

async fn canned_answer(ex: &mut Exchange<'_>, canned: &Canned) -> After {
    let has_body = Canned::has_body(canned.status);
    let class = match canned.status {
        ..400 => Class::Uncachable,
        _ => Class::Error,
    };
    let content_type = canned.content_type.as_deref().filter(|_| has_body);
    let said = Said {
        class,
        content_type: content_type.unwrap_or_default().as_bytes(),
        age_s: None,
        cache_status: Vec::new(),
    };
    if has_body {
        let body = canned.body.clone();
        return (ex.own_body(said, canned.status, content_type, &[], body)).await;
    }
    //= rfc9110 §8.6   no Content-Length with 204
    let started = Instant::now();
    let mut fields = Fields::new();
    let date = httpcache::format_date(ex.worker.unix_ms(started));
    fields.push(b"Date", &date);
    fields.push(b"Cache-Control", b"no-store");
    let mut head = ReplyHead::new(canned.status, "", &fields);
    head.add_lines(&ex.edition().via_line);
    let length = match canned.status {
        205 => Length::Known(0),
        _ => Length::None,
    };
    ex.answer(said, head, length, Bytes::new(), started).await
}

fn url_of(ex: &Exchange<'_>, head: &RequestHead, to: &Text) -> Option<Vec<u8>> {
    let listener = Rc::clone(&ex.listener);
    with_question(&listener, head, |question| {
        let changing = changing(ex, question, Met::default());
        url(&changing.values(b"", 0), to)
    })?
}

/// The URL of a redirect; `None` if the client's values make no valid URL.
pub fn url(values: &Values<'_>, to: &Text) -> Option<Vec<u8>> {
    let filled = values.fill(to)?;
    filled
        .iter()
        .all(|byte| byte.is_ascii_graphic())
        .then_some(filled)
}
