//! Carries messages to the authority and back, by the proxy's own way of connecting: its names, its roots, its addresses that may be reached.
//!
//! The library's requests may be sent from any thread, our connections may not. So a request waits in a channel for the task that carries it.
//!
//! The authority says which URLs are asked. They must have the scheme of its directory, and lead to this machine only if that does.
//!
//! Limits: an answer has [`HEAD_BYTES_MAX`] of head and [`BODY_BYTES_MAX`] of body, and comes in time; a connection serves one message.

use std::{
    cell::Cell,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use http1::{Chunk, ChunkedDecoder, Limits};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use message::Framing;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, oneshot},
    time::timeout,
};

use base::access::Destinations;
use origin::{Connector, Destination, Stream, upstream::is_interim};
use plan::Acme;

const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 1 << 20;
const READ_BYTES: usize = 16 << 10;

/// A message, and where its answer is waited for.
pub struct Errand {
    request: Request<BodyWrapper<Bytes>>,
    answer: oneshot::Sender<Result<BytesResponse, Error>>,
}

/// What the library sends its messages by.
pub struct Courier(mpsc::Sender<Errand>);

impl Courier {
    /// With the end at which messages are carried ([`carry`]).
    pub fn new() -> (Courier, mpsc::Receiver<Errand>) {
        let (sender, receiver) = mpsc::channel(1);
        (Courier(sender), receiver)
    }
}

impl HttpClient for Courier {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let sender = self.0.clone();
        Box::pin(async move {
            let gone = || Error::Other("nobody carries messages".into());
            let (answer, answered) = oneshot::channel();
            let errand = Errand { request, answer };
            sender.send(errand).await.map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        })
    }
}

/// Carries messages, each within `answer_max`, as long as there are any.
pub async fn carry(
    mut errands: mpsc::Receiver<Errand>,
    connector: &Connector,
    acme: &Acme,
    own_addresses: &[SocketAddr],
    answer_max: Duration,
) {
    while let Some(Errand { request, answer }) = errands.recv().await {
        let uri = request.uri().clone();
        let asked = timeout(answer_max, ask(request, connector, acme, own_addresses)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {answer_max:?}")));
        let result = asked.map_err(|why| Error::Other(format!("{uri}: {why}").into()));
        // Whoever has asked may have given up.
        let _ = answer.send(result);
    }
}

/// Where a URL leads.
fn destination(uri: &Uri, acme: &Acme) -> Result<Destination, String> {
    let scheme = uri.scheme_str().unwrap_or("");
    if !acme.directory.starts_with(&format!("{scheme}://")) || scheme.is_empty() {
        return Err("its scheme is not that of the directory".to_owned());
    }
    let tls = scheme == "https";
    let host = uri.host().ok_or("it has no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(Destination {
        tls,
        host: host.to_ascii_lowercase().into(),
        port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        member: None,
    })
}

/// Does it say of itself that it is this machine?
pub fn is_this_machine(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

async fn ask(
    mut request: Request<BodyWrapper<Bytes>>,
    connector: &Connector,
    acme: &Acme,
    own_addresses: &[SocketAddr],
) -> Result<BytesResponse, String> {
    let uri = request.uri().clone();
    let to = destination(&uri, acme)?;
    let directory: Uri = (acme.directory.parse()).map_err(|_| "the directory is no URL")?;
    let access = Destinations {
        loopback: is_this_machine(&destination(&directory, acme)?.host),
        link_local: false,
        allow: Vec::new(),
        own: own_addresses.to_vec(),
        connect_ports: Vec::new(),
    };
    let method = request.method().clone();
    let headers = std::mem::take(request.headers_mut());
    let Ok(body) = request.into_body().collect().await;
    let body = body.to_bytes();
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let mut text = format!(
        "{} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
        method,
        to.as_authority()
    )
    .into_bytes();
    for (name, value) in &headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    if !body.is_empty() {
        text.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(&body);
    let has_place = Cell::new(false);
    let lease = connector.connect_anew(&to, &access, &has_place).await;
    let mut lease = lease.map_err(|error| error.to_string())?;
    let stream = lease.stream();
    let sent = async {
        stream.write_all(&text).await?;
        stream.flush().await
    };
    sent.await.map_err(|error: io::Error| error.to_string())?;
    answer(stream, method.as_str()).await
}

async fn answer(stream: &mut Stream, method: &str) -> Result<BytesResponse, String> {
    let limits = Limits {
        head_bytes_max: HEAD_BYTES_MAX,
        fields_max: 100,
        ..Limits::default()
    };
    let mut input = BytesMut::new();
    let head = loop {
        let parsed = http1::parse_response(&input, &limits, method);
        match parsed.map_err(|reject| reject.reason().to_string())? {
            Some((head, head_bytes)) => {
                input.advance(head_bytes);
                if !is_interim(&head) {
                    break head;
                }
            }
            None if input.len() > HEAD_BYTES_MAX => return Err("its head is too long".to_owned()),
            None => {
                if read(stream, &mut input).await? == 0 {
                    return Err("the connection ended before the answer".to_owned());
                }
            }
        }
    };
    let body = body(stream, head.framing, &limits, input).await?;
    let mut response = Response::builder().status(head.status);
    for (name, value) in head.fields.iter() {
        response = response.header(name, value);
    }
    let (parts, ()) = response
        .body(())
        .map_err(|error| error.to_string())?
        .into_parts();
    Ok(BytesResponse {
        parts,
        body: Box::new(body),
    })
}

async fn body(
    stream: &mut Stream,
    framing: Framing,
    limits: &Limits,
    mut input: BytesMut,
) -> Result<Bytes, String> {
    let too_long = || Err("its body is too long".to_owned());
    let cut = || "the connection ended before the body".to_owned();
    let mut out = BytesMut::new();
    match framing {
        Framing::Length(length) => {
            if length > BODY_BYTES_MAX as u64 {
                return too_long();
            }
            let length = length as usize;
            while input.len() < length {
                if read(stream, &mut input).await? == 0 {
                    return Err(cut());
                }
            }
            input.truncate(length);
            return Ok(input.freeze());
        }
        Framing::UntilClose => {
            while read(stream, &mut input).await? > 0 {
                if input.len() > BODY_BYTES_MAX {
                    return too_long();
                }
            }
            return Ok(input.freeze());
        }
        Framing::Chunked => {}
        Framing::None => return Ok(Bytes::new()),
    }
    let mut decoder = ChunkedDecoder::new(limits);
    loop {
        match decoder.next(&input).map_err(|it| it.reason().to_string())? {
            Chunk::Data { start, end } => {
                out.extend_from_slice(&input[start..end]);
                input.advance(end);
                if out.len() > BODY_BYTES_MAX {
                    return too_long();
                }
            }
            Chunk::More { consumed } => {
                input.advance(consumed);
                if read(stream, &mut input).await? == 0 {
                    return Err(cut());
                }
            }
            Chunk::End { .. } => return Ok(out.freeze()),
        }
    }
}

async fn read(stream: &mut Stream, input: &mut BytesMut) -> Result<usize, String> {
    input.reserve(READ_BYTES);
    let read = stream.read_buf(input).await;
    read.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_cannot_send_us_to_another_scheme() {
        let acme = |directory: &str| Acme {
            directory: directory.to_owned(),
            ..Acme::default()
        };
        let leads = |uri: &str, directory: &str| {
            let uri: Uri = uri.parse().unwrap();
            destination(&uri, &acme(directory)).map(|it| it.to_string())
        };
        let directory = "https://ca.example/dir";
        assert_eq!(
            leads("https://CA.example/x", directory).unwrap(),
            "https://ca.example"
        );
        assert_eq!(
            leads("https://[2001:db8::1]:444/x", directory).unwrap(),
            "https://[2001:db8::1]:444"
        );
        for uri in ["http://ca.example/x", "/x", "file://x/y"] {
            assert!(leads(uri, directory).is_err(), "{uri}");
        }
        assert!(is_this_machine("127.0.0.1") && is_this_machine("localhost"));
        assert!(!is_this_machine("ca.example"));
    }
}
