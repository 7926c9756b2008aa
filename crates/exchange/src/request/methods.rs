//! Methods that the proxy answers itself, and protocols that a client may switch to.

use message::{Framing, RequestHead, Seen};

use crate::{listener::ListenerState, reply::After, request::exchange::Exchange};
use plan::Role;

/// Answers every TRACE, and each OPTIONS whose final recipient is this proxy. `Err`: the request is answered.
//= rfc9110 §7.6.2   the recipient of Max-Forwards: 0 must not forward, and answers as the final recipient
pub async fn end_here(ex: &mut Exchange<'_>, head: &RequestHead) -> Result<(), After> {
    match head.method.as_str() {
        "OPTIONS" | "TRACE" => Box::pin(final_recipient(ex, head))
            .await
            .map_or(Ok(()), Err),
        _ => Ok(()),
    }
}

/// `None`: the request is passed on.
async fn final_recipient(ex: &mut Exchange<'_>, head: &RequestHead) -> Option<After> {
    let last = head
        .fields
        .first(b"max-forwards")
        .is_some_and(|v| v.trim_ascii().iter().all(|&b| b == b'0') && !v.is_empty());
    ex.keep_open_without_body(head.framing);
    let allow = [allow(&ex.listener)];
    if head.method == "TRACE" {
        // A TRACE answer would show a script the cookies that it may not read; and TRACE has no use.
        return Some(ex.own(405, "TRACE is not served", &allow, Vec::new()).await);
    }
    match last || head.target == "*" {
        true => Some(ex.own(200, "", &allow, Vec::new()).await),
        false => None,
    }
}

/// The Allow field of a listener.
pub fn allow(listener: &ListenerState) -> (&'static [u8], &'static [u8]) {
    const ALL: &[u8] = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT";
    const CONNECT: &[u8] = b", CONNECT";
    let is_forward = matches!(listener.listener.role, Role::Forward(_));
    let allowed = match is_forward && !listener.destinations.connect_ports.is_empty() {
        true => ALL,
        false => &ALL[..ALL.len() - CONNECT.len()],
    };
    (b"Allow", allowed)
}

/// Does the client accept trailers?
//= rfc9110 §10.1.4   `trailers` says so on behalf of all further recipients, too
pub fn takes_trailers(head: &RequestHead) -> bool {
    let mut members = match head.seen.intersects(Seen::TE) {
        true => head.fields.members(b"te"),
        false => return false,
    };
    members.any(|member| member.eq_ignore_ascii_case(b"trailers"))
}

/// The protocols that a client asks to switch to, if that is allowed.
pub fn asked_upgrade(head: &RequestHead) -> Option<Vec<u8>> {
    if !head.seen.intersects(Seen::UPGRADE) || head.framing != Framing::None {
        return None;
    }
    //= rfc9110 §7.8   must be ignored in an HTTP/1.0 request, and sent with an upgrade option in Connection
    let is_option = |option: &[u8]| option.eq_ignore_ascii_case(b"upgrade");
    //= rfc8441 §5   over HTTP/2 no client can send these fields: they are ours, for a WebSocket
    if head.version == message::Version::Http10
        || !head.fields.members(b"connection").any(is_option)
    {
        return None;
    }
    let protocols = head.fields.first(b"upgrade")?;
    may_switch_to(protocols).then(|| protocols.to_vec())
}

/// May a client ask the origin for these protocols? Not for other versions of HTTP: after the switch this proxy would not see further
/// requests. Then the Upgrade field is dropped, and the answer is an ordinary one.
//= rfc9110 §7.8   a server may ignore Upgrade; §7.6.1: it is for this hop alone
pub fn may_switch_to(protocols: &[u8]) -> bool {
    fields::split_list(protocols).all(|protocol| {
        let name = protocol.split(|&b| b == b'/').next().unwrap_or_default();
        let http = ["h2c", "h2", "h3", "http"];
        !http
            .iter()
            .any(|http| name.eq_ignore_ascii_case(http.as_bytes()))
    })
}
