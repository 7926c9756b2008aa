//! gRPC from end to end over HTTP/2: both ways at once, trailers, deadlines, and whoever ends a call.
//!
//! The origin is a server of the `h2` crate, which speaks gRPC as far as a proxy sees it: messages are bytes, the status is in the trailers.

use std::net::SocketAddr;

use ::proxy::plan::Http2;
use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::sync::mpsc;

use super::{
    harness::running::*,
    http2_client::{Client, play, speaking},
    origin_http2::plan_by_h2,
    origin_http2_servers::start_server,
};

/// What the origin heard, in words.
type Heard = mpsc::UnboundedReceiver<String>;

/// Starts the origin: it ends with the process.
fn origin() -> (SocketAddr, Heard) {
    let (said, heard) = mpsc::unbounded_channel();
    let address = start_server(move |stream| {
        let said = said.clone();
        async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                tokio::task::spawn_local(serve(request, respond, said.clone()));
            }
        }
    });
    (address, heard)
}

fn begun() -> Response<()> {
    let answer = Response::builder().header("content-type", "application/grpc");
    answer.body(()).unwrap()
}

async fn serve(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    said: mpsc::UnboundedSender<String>,
) {
    let field = |name: &str| {
        let value = request.headers().get(name).map(|it| it.to_str().unwrap());
        value.unwrap_or("none").to_owned()
    };
    let line = format!("te={} timeout={}", field("te"), field("grpc-timeout"));
    let _ = said.send(line);
    let path = request.uri().path().to_owned();
    let mut body = request.into_body();
    match &path[..] {
        "/echo" => {
            let mut sender = respond.send_response(begun(), false).unwrap();
            while let Some(piece) = body.data().await {
                let Ok(piece) = piece else {
                    let _ = said.send("cut".to_owned());
                    return;
                };
                let _ = body.flow_control().release_capacity(piece.len());
                sender.send_data(piece, false).unwrap();
            }
            let sent = body.trailers().await.unwrap().unwrap_or_default();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let last = HeaderValue::from_static("none");
            trailers.insert("got", sent.get("last").unwrap_or(&last).clone());
            sender.send_trailers(trailers).unwrap();
        }
        "/alone" => {
            let mut answer = begun();
            let status = HeaderValue::from_static("5");
            answer.headers_mut().insert("grpc-status", status);
            respond.send_response(answer, true).unwrap();
        }
        // Until whoever asked gives up.
        "/wait" => {
            let reason = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
            let _ = said.send(format!("reset {reason:?}"));
        }
        "/wait-begun" => {
            let mut sender = respond.send_response(begun(), false).unwrap();
            sender.send_data("one".into(), false).unwrap();
            let reason = std::future::poll_fn(|cx| sender.poll_reset(cx)).await;
            let _ = said.send(format!("reset {reason:?}"));
        }
        "/calm" => respond.send_reset(Reason::ENHANCE_YOUR_CALM),
        "/calm-begun" => {
            let mut sender = respond.send_response(begun(), false).unwrap();
            sender.send_data("one".into(), false).unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            sender.send_reset(Reason::ENHANCE_YOUR_CALM);
        }
        path => panic!("{path}"),
    }
}

const FIELDS: &[(&str, &str)] = &[
    ("content-type", "application/grpc"),
    ("te", "trailers"),
    ("grpc-timeout", "50S"),
];

fn started() -> (Proxy, Heard) {
    let (address, heard) = origin();
    let plan = speaking(plan_by_h2(url(address), Http2::Known));
    (Proxy::start(plan), heard)
}

#[test]
fn both_ways_at_once_with_trailers_and_a_deadline() {
    let (proxy, mut heard) = started();
    play(async {
        let client = Client::plain(proxy.address()).await;
        let request = client.request("POST", "/echo", FIELDS);
        let (answer, mut sender) = client.begin(request, false).await.unwrap();
        // The answer begins, and each message comes back, before the next one is sent.
        let answer = answer.await.unwrap();
        assert_eq!(heard.recv().await.unwrap(), "te=trailers timeout=50S");
        let mut body = answer.into_body();
        for number in 0..50 {
            let message = format!("message {number}");
            sender.send_data(message.clone().into(), false).unwrap();
            let got = body.data().await.unwrap().unwrap();
            assert_eq!(got, message.as_bytes());
            body.flow_control().release_capacity(got.len()).unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("last", HeaderValue::from_static("bye"));
        sender.send_trailers(trailers).unwrap();
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["got"]),
            (&"0".parse().unwrap(), &"bye".parse().unwrap())
        );
    });
}

#[test]
fn an_answer_that_is_a_head_alone_stays_one() {
    let (proxy, _heard) = started();
    play(async {
        let client = Client::plain(proxy.address()).await;
        let request = client.request("POST", "/alone", FIELDS);
        let (answer, mut sender) = client.begin(request, false).await.unwrap();
        sender.send_data("one".into(), true).unwrap();
        let answer = answer.await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "5");
        assert!(answer.headers().get("content-length").is_none());
        assert!(answer.body().is_end_stream(), "nothing follows the head");
    });
}

#[test]
fn whoever_ends_a_call_is_heard_at_the_other_end() {
    let (proxy, mut heard) = started();
    play(async {
        let client = Client::plain(proxy.address()).await;
        for (path, ends) in [
            ("/wait", true),
            ("/wait", false),
            ("/wait-begun", true),
            ("/wait-begun", false),
        ] {
            let request = client.request("POST", path, FIELDS);
            let (answer, mut sender) = client.begin(request, false).await.unwrap();
            sender.send_data("one".into(), ends).unwrap();
            heard.recv().await.unwrap();
            let body = match path {
                "/wait-begun" => Some(answer.await.unwrap()),
                _ => None,
            };
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            sender.send_reset(Reason::CANCEL);
            assert_eq!(
                heard.recv().await.unwrap(),
                "reset Ok(CANCEL)",
                "{path} {ends}"
            );
            drop(body);
        }
        for path in ["/calm", "/calm-begun"] {
            let request = client.request("POST", path, FIELDS);
            let (answer, mut sender) = client.begin(request, false).await.unwrap();
            sender.send_data("one".into(), true).unwrap();
            let reason = match answer.await {
                Err(error) => error.reason(),
                Ok(answer) => {
                    let mut body = answer.into_body();
                    assert_eq!(body.data().await.unwrap().unwrap(), "one");
                    body.data().await.unwrap().unwrap_err().reason()
                }
            };
            assert_eq!(reason, Some(Reason::ENHANCE_YOUR_CALM), "{path}");
        }
    });
}
