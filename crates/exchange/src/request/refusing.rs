//! Refusals that do not belong to another step of a request.

use message::RequestHead;

use crate::{
    reply::After,
    request::{exchange::Exchange, incoming::Incoming, onward},
};

/// Refuses a request because of the client that a balancer names. `Err`: the request is refused.
pub async fn barred(ex: &mut Exchange<'_>, incoming: &Incoming) -> Result<(), After> {
    let Some(barred) = incoming.barred else {
        return Ok(());
    };
    let (status, reason, token) = barred.answer();
    ex.keep_open_without_body(incoming.head.framing);
    ex.reply.keep_open_if(incoming.head.method != "CONNECT");
    Err(ex.refuse(status, reason, Some(token)).await)
}

/// Refuses a request that this proxy has forwarded before. `Err`: the request is refused.
pub async fn circles(ex: &mut Exchange<'_>, head: &RequestHead) -> Result<(), After> {
    if !onward::is_back(ex.edition(), &ex.worker.shared.peers.loop_id, head) {
        return Ok(());
    }
    let reason = "the request goes round in a circle";
    ex.keep_open_without_body(head.framing);
    if head.method == "CONNECT" {
        ex.reply.keep_open_if(false);
    }
    Err(ex.refuse(502, reason, Some("proxy_loop_detected")).await)
}

/// Answers `only-if-cached` when no stored response may be served.
pub async fn not_cached(ex: &mut Exchange<'_>) -> After {
    //= rfc9111 §5.2.1.7   504 when it cannot be answered from the cache
    let reason = "only-if-cached was asked for, and nothing stored may be served";
    ex.refuse(504, reason, Some("only-if-cached")).await
}
