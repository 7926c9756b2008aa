//! A client that speaks HTTP/2: the `h2` crate, plain or over TLS.

use std::{future::Future, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use h2::{RecvStream, client::SendRequest};
use http::{HeaderMap, Method, Request, Response};
use proxy::plan::Plan;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::harness::{PATIENCE, tls::Authority};

/// The name that clients ask for.
pub const HOST: &str = "a.example";

/// The plan with HTTP/2 on its first listener.
pub fn speaking(mut plan: Plan) -> Plan {
    plan.listeners[0].http2 = true;
    plan
}

/// Runs a play of clients.
#[track_caller]
pub fn play<T>(play: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    let played = local.block_on(&runtime, async { timeout(3 * PATIENCE, play).await });
    played.expect("the play does not end")
}

/// An answer with its body.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
    /// Why it broke off.
    pub broken: Option<h2::Reason>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.to_str().ok()
    }

    pub fn is_hit(&self) -> bool {
        self.field("cache-status")
            .is_some_and(|said| said.starts_with("loligo; hit"))
    }
}

/// A connection.
#[derive(Clone)]
pub struct Client {
    sender: SendRequest<Bytes>,
    scheme: &'static str,
}

impl Client {
    pub async fn plain(address: SocketAddr) -> Client {
        Client::over(address, &mut h2::client::Builder::new()).await
    }

    /// The same, where nobody may listen, by a kernel that takes little of what is not read.
    pub async fn try_narrow(address: SocketAddr) -> Option<Client> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(32 << 10).unwrap();
        let socket = socket.connect(address).await.ok()?;
        let mut builder = h2::client::Builder::new();
        // More than kernels have under way, and opened again often.
        builder
            .initial_window_size(400_000)
            .initial_connection_window_size(400_000);
        Client::try_on(socket, &mut builder, "http").await
    }

    /// With settings of its own.
    pub async fn over(address: SocketAddr, builder: &mut h2::client::Builder) -> Client {
        let socket = TcpStream::connect(address).await.unwrap();
        Client::on(socket, builder, "http").await
    }

    pub async fn tls(address: SocketAddr, authority: &Authority) -> Client {
        let socket = TcpStream::connect(address).await.unwrap();
        Client::over_socket(socket, Some(authority)).await
    }

    /// On a connection that stands, over TLS if an authority is named.
    pub async fn over_socket(socket: TcpStream, authority: Option<&Authority>) -> Client {
        let mut builder = h2::client::Builder::new();
        let Some(authority) = authority else {
            return Client::on(socket, &mut builder, "http").await;
        };
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from(HOST).unwrap();
        let stream = connector.connect(name, socket).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Client::on(stream, &mut builder, "https").await
    }

    async fn on(
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        builder: &mut h2::client::Builder,
        scheme: &'static str,
    ) -> Client {
        let client = Client::try_on(stream, builder, scheme).await;
        client.expect("it speaks HTTP/2")
    }

    async fn try_on(
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        builder: &mut h2::client::Builder,
        scheme: &'static str,
    ) -> Option<Client> {
        let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.ok()?;
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        Some(Client { sender, scheme })
    }

    pub fn request(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(format!("{}://{HOST}{path}", self.scheme))
            .version(http::Version::HTTP_2);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    /// Sends a head; the stream for its body, and the answer to come.
    pub async fn begin(
        &self,
        request: Request<()>,
        ends: bool,
    ) -> Result<(h2::client::ResponseFuture, h2::SendStream<Bytes>), h2::Error> {
        let mut sender = self.sender.clone().ready().await?;
        sender.send_request(request, ends)
    }

    pub async fn ask(&self, request: Request<()>) -> Answer {
        let (answer, _) = self.begin(request, true).await.unwrap();
        read(answer.await).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(self.request("GET", path, &[])).await
    }

    /// A request with a body of this, and the answer.
    pub async fn send(&self, request: Request<()>, body: &[u8]) -> Answer {
        let (answer, stream) = self.begin(request, false).await.unwrap();
        let (_, answer) = tokio::join!(upload(stream, body), async { read(answer.await).await });
        answer
    }
}

/// Sends a body as fast as its windows allow. False: nobody wants all of it.
pub async fn upload(mut stream: h2::SendStream<Bytes>, body: &[u8]) -> bool {
    let mut body = Bytes::copy_from_slice(body);
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let Some(Ok(room)) = room else {
            return false;
        };
        let part = body.split_to(room.min(body.len()));
        if stream.send_data(part, body.is_empty()).is_err() {
            return false;
        }
    }
    true
}

/// Reads an answer to its end.
pub async fn read(answer: Result<Response<RecvStream>, h2::Error>) -> Answer {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            return Answer {
                broken: Some(error.reason().unwrap_or(h2::Reason::NO_ERROR)),
                ..Answer::default()
            };
        }
    };
    let (head, mut stream) = answer.into_parts();
    let mut answer = Answer {
        status: head.status.as_u16(),
        fields: head.headers,
        ..Answer::default()
    };
    while let Some(piece) = stream.data().await {
        match piece {
            Ok(piece) => {
                answer.body.extend_from_slice(&piece);
                let _ = stream.flow_control().release_capacity(piece.len());
            }
            Err(error) => {
                answer.broken = Some(error.reason().unwrap_or(h2::Reason::NO_ERROR));
                return answer;
            }
        }
    }
    answer.trailers = stream.trailers().await.ok().flatten();
    answer
}
