//! Sends messages to the authority over the proxy's own connections: with its resolver, its roots, its rules for addresses.
//!
//! The ACME library's requests may be sent from any thread, our connections only from their own. So requests go through a channel to one task.
//!
//! The authority chooses the URLs. They must have the scheme of its directory, and may lead to this machine only if the directory does.
//!
//! Limits: an answer has [`HEAD_BYTES_MAX`] of head and [`BODY_BYTES_MAX`] of body, and a time limit; a connection serves one message.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use http1::{
    Limits,
    head_lines::{write_field, write_number_field},
};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tokio::sync::{mpsc, oneshot};

use base::access::Destinations;
use origin::{Destination, OriginContext, once, outcome::UpstreamError};
use plan::Acme;

const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 1 << 20;

/// A message, and the channel for its answer.
pub struct Errand {
    request: Request<BodyWrapper<Bytes>>,
    answer: oneshot::Sender<Result<BytesResponse, Error>>,
}

/// The HTTP client of the ACME library.
pub struct Courier(mpsc::Sender<Errand>);

impl Courier {
    /// A client, and the receiver of its messages for [`carry`].
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

/// Sends messages until the client is dropped, each with the time limit `answer_max`.
pub async fn carry(
    mut errands: mpsc::Receiver<Errand>,
    context: &OriginContext,
    acme: &Acme,
    own_addresses: &[SocketAddr],
    answer_max: Duration,
) {
    while let Some(Errand { request, answer }) = errands.recv().await {
        let uri = request.uri().clone();
        let asked = ask(request, context, acme, own_addresses, answer_max).await;
        let result = asked.map_err(|why| Error::Other(format!("{uri}: {why}").into()));
        // The sender of the message may have given up.
        let _ = answer.send(result);
    }
}

/// The server of a URL.
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
        terms: None,
        http2: None,
    })
}

/// Does this host name or literal mean this machine?
pub fn is_this_machine(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

async fn ask(
    mut request: Request<BodyWrapper<Bytes>>,
    context: &OriginContext,
    acme: &Acme,
    own_addresses: &[SocketAddr],
    within: Duration,
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
    let mut bytes = Vec::new();
    http1::write_request_line(method.as_str(), path, &mut bytes);
    write_field(b"Host", to.as_authority().as_bytes(), &mut bytes);
    write_field(b"Connection", b"close", &mut bytes);
    for (name, value) in &headers {
        write_field(name.as_str().as_bytes(), value.as_bytes(), &mut bytes);
    }
    if !body.is_empty() {
        write_number_field(b"Content-Length", body.len() as u64, &mut bytes);
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    let request = once::Request {
        to: &to,
        access: &access,
        method: method.as_str(),
        bytes: &bytes,
        signer: None,
        limits: Limits {
            head_bytes_max: HEAD_BYTES_MAX,
            fields_max: 100,
            ..Limits::default()
        },
        within,
    };
    let in_words = |error| match error {
        UpstreamError::Timeout => format!("no answer within {within:?}"),
        error => error.to_string(),
    };
    let answer = request.send(context).await.map_err(in_words)?;
    let mut response = Response::builder().status(answer.head.status);
    for (name, value) in answer.head.fields.iter() {
        response = response.header(name, value);
    }
    let body = answer.body(BODY_BYTES_MAX).await.map_err(in_words)?;
    let body = Bytes::from(body.ok_or("its body is too long")?);
    let response = response.body(()).map_err(|error| error.to_string())?;
    Ok(BytesResponse {
        parts: response.into_parts().0,
        body: Box::new(body),
    })
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
