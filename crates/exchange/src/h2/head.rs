//! Converts a request's head to the form of HTTP/1.1, which the rest of the proxy uses.
//!
//! The crate `http2` has refused all heads that would change their meaning in HTTP/1.1: bytes that end a line, framing and connection
//! fields, a Host unlike `:authority`. So a head is only converted here, not repaired.

use fields::Fields;
use http2::RequestView;
use message::{Framing, RequestHead, Scheme, Seen, Version};

use super::websocket;
use crate::listener::ListenerState;
use plan::Role;

/// The purpose of a stream.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// A request and its answer.
    Ask,
    /// CONNECT: a tunnel.
    Tunnel,
    /// WebSocket, through a tunnel to an HTTP/1.1 origin; the key checks the origin's answer.
    WebSocket(websocket::Key),
    /// An extended CONNECT that is not served.
    OtherProtocol,
}

/// Writes the target in the form of HTTP/1; on a reverse listener that is the path.
pub fn write_target(view: &RequestView<'_>, listener: &ListenerState, out: &mut String) {
    out.clear();
    let is_forward = matches!(listener.listener.role, Role::Forward(_));
    let Some(scheme) = view.scheme.filter(|_| is_forward) else {
        out.push_str(match view.scheme {
            Some(_) => view.path,
            None => view.authority,
        });
        return;
    };
    out.push_str(match scheme {
        Scheme::Http => "http://",
        Scheme::Https => "https://",
    });
    out.push_str(view.authority);
    //= rfc9110 §7.1   OPTIONS * of another server has no path at all
    if view.path != "*" {
        out.push_str(view.path);
    }
}

/// The head, and the purpose of its stream. `key`: makes the key for a WebSocket.
pub fn of_view(
    view: &RequestView<'_>,
    target: &str,
    key: impl FnOnce() -> websocket::Key,
) -> (RequestHead, Purpose) {
    let purpose = match (view.method, view.protocol) {
        ("CONNECT", None) => Purpose::Tunnel,
        ("CONNECT", Some("websocket")) => Purpose::WebSocket(key()),
        ("CONNECT", Some(_)) => Purpose::OtherProtocol,
        _ => Purpose::Ask,
    };
    let mut fields: Fields = view.fields.clone();
    let mut seen = view.seen;
    let mut method = view.method;
    if let Purpose::WebSocket(key) = &purpose {
        //= rfc8441 §5   instead of the GET of HTTP/1.1, its Upgrade and its key
        method = "GET";
        key.ask(&mut fields);
        seen = seen.union(Seen::CONNECTION).union(Seen::UPGRADE);
    }
    let framing = match (view.content_length, &purpose) {
        (Some(length), Purpose::Ask) if length > 0 && seen.intersects(Seen::TRAILER) => {
            //= rfc9112 §7.1.2   in HTTP/1.1 only a chunked body has trailers
            fields.remove(b"content-length");
            Framing::Chunked
        }
        (Some(length), Purpose::Ask) if length > 0 => Framing::Length(length),
        (None, Purpose::Ask) if !view.ends => Framing::Chunked,
        _ => Framing::None,
    };
    let head = RequestHead {
        method: method.to_owned(),
        target: target.to_owned(),
        version: Version::Http2,
        fields,
        seen,
        host: Some(view.authority.to_owned()),
        framing,
        keep_alive: true,
        expect_continue: view.expect_continue,
    };
    (head, purpose)
}
