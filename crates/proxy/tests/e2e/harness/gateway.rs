//! From HTTP/1.1 to HTTP/2: stands between a test's client and the proxy on the way `h2` ([`super::way`]).
//!
//! The test writes and reads HTTP/1.1 on a connection of loopback, as it always does. What it asks goes to the proxy over HTTP/2 in TLS, by the
//! `h2` crate; what comes back is written as HTTP/1.1. One thread serves a connection, one request at a time.
//!
//! | HTTP/1.1 | HTTP/2 |
//! |---|---|
//! | Host, or an absolute target | `:scheme`, `:authority`, `:path` |
//! | Connection and what it names, `TE` but for `trailers` | nothing |
//! | chunks and trailers | DATA and trailers |
//! | an answer's body without Content-Length | chunks |
//! | an interim answer, `Expect: 100-continue` | the same |
//! | CONNECT, and the bytes behind it | the same |
//! | the client finishes sending, or vanishes | the connection ends |
//! | 400 | a stream that is reset with PROTOCOL_ERROR before its answer |
//! | the connection ends | any other reset; GOAWAY and nothing under way |
//!
//! Not known here: what an answer should be. A request that cannot be said in HTTP/2 is answered by 599 and the reason.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    io,
    net::{SocketAddr, TcpListener},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    thread,
    time::Duration,
};

use ::wire::{Framing, Head, Request as Asked};
use bytes::{Buf, Bytes, BytesMut};
use h2::{
    Reason, RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, uri::PathAndQuery};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

use super::way::balancers_header;

/// How much is carried at once.
const PIECE_BYTES: usize = 16 << 10;

/// A connection that speaks HTTP/1.1, and reaches this address over HTTP/2.
pub fn open(proxy: SocketAddr, config: Arc<ClientConfig>) -> io::Result<std::net::TcpStream> {
    // First, so that a proxy that takes no connection shows.
    let far = std::net::TcpStream::connect(proxy)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let test = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (near, _) = listener.accept()?;
    for socket in [&near, &far] {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let sockets = (TcpStream::from_std(near), TcpStream::from_std(far));
            let (Ok(near), Ok(far)) = sockets else { return };
            let _ = serve(near, far, config).await;
        });
        // A connection that is still there ends now, also one that the proxy keeps.
        runtime.shutdown_timeout(Duration::ZERO);
    });
    Ok(test)
}

/// The connection cannot go on.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over
    }
}

impl From<h2::Error> for Over {
    fn from(_: h2::Error) -> Over {
        Over
    }
}

/// What the test's client sends.
struct Near {
    socket: OwnedReadHalf,
    /// Received and not yet used.
    waiting: BytesMut,
}

impl Near {
    /// At least one byte more.
    async fn more(&mut self) -> Result<(), Over> {
        self.waiting.reserve(PIECE_BYTES);
        match self.socket.read_buf(&mut self.waiting).await? {
            0 => Err(Over),
            _ => Ok(()),
        }
    }

    async fn head(&mut self) -> Result<Result<Asked, String>, Over> {
        loop {
            match Asked::parse(&self.waiting) {
                Ok(Some((head, bytes))) => {
                    self.waiting.advance(bytes);
                    return Ok(Ok(head));
                }
                Ok(None) => self.more().await?,
                Err(malformed) => return Ok(Err(malformed.0)),
            }
        }
    }

    /// A line without its end.
    async fn line(&mut self) -> Result<String, Over> {
        loop {
            if let Some(end) = self.waiting.windows(2).position(|it| it == b"\r\n") {
                let line = self.waiting.split_to(end);
                self.waiting.advance(2);
                return String::from_utf8(line.to_vec()).map_err(|_| Over);
            }
            self.more().await?;
        }
    }

    /// Some of at most so many bytes.
    async fn some(&mut self, most: usize) -> Result<Bytes, Over> {
        if self.waiting.is_empty() {
            self.more().await?;
        }
        let len = most.min(PIECE_BYTES).min(self.waiting.len());
        Ok(self.waiting.split_to(len).freeze())
    }

    /// Ends when the client does, and takes nothing.
    async fn gone(&mut self) -> Over {
        loop {
            if self.more().await.is_err() {
                return Over;
            }
        }
    }
}

async fn serve(near: TcpStream, mut far: TcpStream, config: Arc<ClientConfig>) -> Result<(), Over> {
    let (socket, mut to_test) = near.into_split();
    let mut near = Near {
        socket,
        waiting: BytesMut::new(),
    };
    // As over TLS, the handshake comes with the first bytes.
    tokio::select! {
        came = near.more() => came?,
        _ = far.readable() => return Ok(()),
    }
    let header = near.waiting.split_to(balancers_header(&near.waiting));
    far.write_all(&header).await?;
    if near.waiting.is_empty() {
        near.more().await?;
    }
    let mut first = Some(near.head().await?);
    let name = match &first {
        Some(Ok(head)) => name_of(head.fields.first("host").unwrap_or_default()),
        _ => name_of(""),
    };
    let (sender, mut ended, mut pings) = handshake(far, config, name).await?;
    loop {
        let head = match first.take() {
            Some(head) => head,
            None => tokio::select! {
                head = near.head() => head?,
                _ = ended.changed() => return Ok(()),
            },
        };
        let translated = head.and_then(|head| translate(&head).map(|request| (head, request)));
        let (head, request) = match translated {
            Ok(translated) => translated,
            Err(why) => {
                let why = why.replace(['\r', '\n'], " ");
                let said =
                    format!("HTTP/1.1 599 {why}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                to_test.write_all(said.as_bytes()).await?;
                return Ok(());
            }
        };
        let ready = sender.clone().ready().await;
        let exchanged = match head.method == "CONNECT" {
            true => tunnel(&mut near, &mut to_test, ready?, request).await,
            false => exchange(&mut near, &mut to_test, ready?, &head, request).await,
        };
        if exchanged.is_err() {
            // The client left. What it asked before has come to the proxy when this is answered.
            let _ = pings.ping(h2::Ping::opaque()).await;
        }
        let keeps = exchanged?;
        if !keeps {
            break;
        }
    }
    // What still comes is taken: a reset would take the answer with it.
    drop(sender);
    to_test.shutdown().await?;
    loop {
        near.more().await?;
        near.waiting.clear();
    }
}

/// The name that a client of this host asks for in its handshake.
fn name_of(host: &str) -> ServerName<'static> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let localhost = || ServerName::try_from("localhost").expect("it is a name");
    ServerName::try_from(name.to_owned()).unwrap_or_else(|_| localhost())
}

/// What is sent with, what changes when the connection has ended, and what asks whether the proxy has read all.
type Connected = (SendRequest<Bytes>, watch::Receiver<()>, h2::PingPong);

async fn handshake(
    far: TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> Result<Connected, Over> {
    let connector = tokio_rustls::TlsConnector::from(config);
    let stream = connector.connect(name, far).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, mut connection) = h2::client::handshake(stream).await?;
    let pings = connection.ping_pong().expect("it is taken once");
    let (ends, ended) = watch::channel(());
    tokio::spawn(async move {
        let _ = connection.await;
        drop(ends);
    });
    Ok((sender, ended, pings))
}

/// Fields that are of a connection, beside those that Connection names.
const OF_CONNECTION: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "host",
];

fn translate(head: &Asked) -> Result<Request<()>, String> {
    let host = head.fields.first("host");
    let is_absolute = head.target.contains("://") && !head.target.starts_with('/');
    let uri = if head.method == "CONNECT" || is_absolute {
        let mut uri = head.target.parse::<Uri>().map_err(|why| why.to_string())?;
        let rest = head.target.split_once("://").map_or("", |(_, rest)| rest);
        //= rfc9113 §8.3.1   a path is never empty
        if let Some((before, query)) = head.target.split_once('?')
            && !rest.split('?').next().unwrap_or_default().contains('/')
        {
            let target = format!("{before}/?{query}");
            uri = target.parse().map_err(|_| "no target")?;
        }
        //= rfc9113 §8.3.1   OPTIONS without a path asks for `*`
        if head.method == "OPTIONS" && !rest.contains(['/', '?']) {
            let mut parts = uri.into_parts();
            parts.path_and_query = Some(PathAndQuery::from_static("*"));
            uri = Uri::from_parts(parts).map_err(|why| why.to_string())?;
        }
        uri
    } else {
        let host = host.ok_or("no Host")?;
        let parts = Uri::builder()
            .scheme("https")
            .authority(host)
            .path_and_query(&*head.target);
        parts.build().map_err(|why| why.to_string())?
    };
    let method = Method::from_bytes(head.method.as_bytes()).map_err(|why| why.to_string())?;
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.version_mut() = http::Version::HTTP_2;
    let options = head.fields.all("connection").join(",").to_ascii_lowercase();
    let options: Vec<&str> = options.split(',').map(str::trim).collect();
    for (name, value) in &head.fields.0 {
        let lower = name.to_ascii_lowercase();
        let is_left_out = OF_CONNECTION.contains(&&*lower)
            || options.contains(&&*lower)
            || (lower == "te" && !value.contains("trailers"));
        if is_left_out {
            continue;
        }
        let value = if lower == "te" { "trailers" } else { value };
        append(request.headers_mut(), &lower, value)?;
    }
    Ok(request)
}

fn append(to: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|why| why.to_string())?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|why| why.to_string())?;
    to.append(name, value);
    Ok(())
}

/// A request and its answer. False: the connection ends with it.
async fn exchange(
    near: &mut Near,
    to_test: &mut OwnedWriteHalf,
    mut sender: SendRequest<Bytes>,
    head: &Asked,
    request: Request<()>,
) -> Result<bool, Over> {
    let framing = head.framing().map_err(|_| Over)?;
    let is_empty = matches!(framing, Framing::Empty | Framing::Length(0));
    let (answer, stream) = match sender.send_request(request, is_empty) {
        Ok(sent) => sent,
        Err(why) => {
            let said = format!("HTTP/1.1 599 {why}\r\nContent-Length: 0\r\n\r\n");
            to_test.write_all(said.as_bytes()).await?;
            return Ok(false);
        }
    };
    let is_sent = Cell::new(is_empty);
    let sending = async {
        if !is_empty {
            is_sent.set(upload(near, stream, framing).await?);
        }
        if is_sent.get() {
            return Err(near.gone().await);
        }
        // What is left of the body nobody wants; the answer ends the connection.
        std::future::pending::<Result<(), Over>>().await
    };
    tokio::select! {
        biased;
        answered = download(to_test, answer, head, &is_sent) => answered,
        Err(over) = sending => Err(over),
    }
}

/// Sends a body. False: it is not wanted whole.
async fn upload(
    near: &mut Near,
    mut stream: SendStream<Bytes>,
    framing: Framing,
) -> Result<bool, Over> {
    if let Framing::Length(mut left) = framing {
        while left > 0 {
            let piece = near
                .some(usize::try_from(left).unwrap_or(usize::MAX))
                .await?;
            left -= piece.len() as u64;
            if !send(&mut stream, piece, left == 0).await {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    loop {
        let line = near.line().await?;
        let size = line.split(';').next().unwrap_or("");
        let mut left = usize::from_str_radix(size, 16).map_err(|_| Over)?;
        if left == 0 {
            break;
        }
        while left > 0 {
            let piece = near.some(left).await?;
            left -= piece.len();
            if !send(&mut stream, piece, false).await {
                return Ok(false);
            }
        }
        near.line().await?;
    }
    let mut trailers = HeaderMap::new();
    loop {
        let line = near.line().await?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or(Over)?;
        append(&mut trailers, name, value.trim()).map_err(|_| Over)?;
    }
    Ok(match trailers.is_empty() {
        true => stream.send_data(Bytes::new(), true).is_ok(),
        false => stream.send_trailers(trailers).is_ok(),
    })
}

/// Sends a piece as windows allow. False: the stream takes no more.
async fn send(stream: &mut SendStream<Bytes>, mut piece: Bytes, ends: bool) -> bool {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let room = poll_fn(|cx| stream.poll_capacity(cx)).await;
        let Some(Ok(room)) = room else { return false };
        let part = piece.split_to(room.min(piece.len()));
        let is_last = ends && piece.is_empty();
        if stream.send_data(part, is_last).is_err() {
            return false;
        }
    }
    true
}

/// Writes what is answered. False: the connection ends with it.
async fn download(
    to_test: &mut OwnedWriteHalf,
    answer: ResponseFuture,
    asked: &Asked,
    is_sent: &Cell<bool>,
) -> Result<bool, Over> {
    let answer = match final_answer(to_test, answer).await? {
        Ok(answer) => answer,
        Err(error) if error.reason() == Some(Reason::PROTOCOL_ERROR) && error.is_reset() => {
            let said = "HTTP/1.1 400 Refused\r\nContent-Length: 0\r\n\r\n";
            to_test.write_all(said.as_bytes()).await?;
            return Ok(true);
        }
        Err(_) => return Ok(false),
    };
    let (head, mut body) = answer.into_parts();
    let status = head.status.as_u16();
    let options = asked.fields.all("connection").join(",");
    // What comes behind half a body could be the rest of it, or a request.
    let closes =
        asked.minor == 0 || options.to_ascii_lowercase().contains("close") || !is_sent.get();
    let has_length = head.headers.contains_key("content-length");
    let has_body = asked.method != "HEAD" && !matches!(status, 204 | 304);
    let is_chunked = has_body && !has_length && !body.is_end_stream() && asked.minor == 1;
    let mut text = lines(status, &head.headers);
    if is_chunked {
        text += "Transfer-Encoding: chunked\r\n";
    } else if has_body && !has_length && body.is_end_stream() {
        text += "Content-Length: 0\r\n";
    }
    if closes {
        text += "Connection: close\r\n";
    }
    to_test.write_all((text + "\r\n").as_bytes()).await?;
    while let Some(piece) = body.data().await {
        // Broken off: the client sees it by the end of the connection.
        let Ok(piece) = piece else { return Ok(false) };
        write(to_test, &piece, is_chunked).await?;
        let _ = body.flow_control().release_capacity(piece.len());
    }
    let Ok(trailers) = body.trailers().await else {
        return Ok(false);
    };
    if is_chunked {
        let mut end = "0\r\n".to_owned();
        for (name, value) in trailers.iter().flatten() {
            end += &format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
        }
        to_test.write_all((end + "\r\n").as_bytes()).await?;
    }
    Ok(!closes)
}

/// The answer behind the interim ones, which are written.
async fn final_answer(
    to_test: &mut OwnedWriteHalf,
    answer: ResponseFuture,
) -> Result<Result<Response<RecvStream>, h2::Error>, Over> {
    let mut answer = pin!(answer);
    loop {
        let next = poll_fn(
            |cx| match answer.as_mut().get_mut().poll_informational(cx) {
                Poll::Ready(Some(interim)) => Poll::Ready(interim.map(Err)),
                _ => Pin::new(&mut answer).poll(cx).map(|it| it.map(Ok)),
            },
        );
        match next.await {
            Ok(Ok(answer)) => return Ok(Ok(answer)),
            Ok(Err(interim)) => {
                let text = lines(interim.status().as_u16(), interim.headers());
                to_test.write_all((text + "\r\n").as_bytes()).await?;
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// The status line and the fields.
fn lines(status: u16, fields: &HeaderMap) -> String {
    let code = http::StatusCode::from_u16(status).ok();
    let reason = code.and_then(|code| code.canonical_reason()).unwrap_or("");
    let mut text = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in fields {
        text += &format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
    }
    text
}

async fn write(to_test: &mut OwnedWriteHalf, piece: &[u8], is_chunked: bool) -> Result<(), Over> {
    if piece.is_empty() {
        return Ok(());
    }
    if is_chunked {
        let size = format!("{:x}\r\n", piece.len());
        to_test.write_all(size.as_bytes()).await?;
    }
    to_test.write_all(piece).await?;
    if is_chunked {
        to_test.write_all(b"\r\n").await?;
    }
    Ok(())
}

/// CONNECT. A tunnel that was opened is all that the connection is from now on.
async fn tunnel(
    near: &mut Near,
    to_test: &mut OwnedWriteHalf,
    mut sender: SendRequest<Bytes>,
    request: Request<()>,
) -> Result<bool, Over> {
    let (answer, mut stream) = sender.send_request(request, false)?;
    let answer = match final_answer(to_test, answer).await? {
        Ok(answer) => answer,
        Err(error) if error.reason() == Some(Reason::PROTOCOL_ERROR) && error.is_reset() => {
            let said = "HTTP/1.1 400 Refused\r\nContent-Length: 0\r\n\r\n";
            to_test.write_all(said.as_bytes()).await?;
            return Ok(true);
        }
        Err(_) => return Ok(false),
    };
    let (head, mut body) = answer.into_parts();
    let is_open = head.status.is_success();
    let text = lines(head.status.as_u16(), &head.headers);
    to_test.write_all((text + "\r\n").as_bytes()).await?;
    let outward = async {
        if !is_open {
            return;
        }
        while let Ok(piece) = near.some(PIECE_BYTES).await {
            if !send(&mut stream, piece, false).await {
                return;
            }
        }
        let _ = stream.send_data(Bytes::new(), true);
    };
    let inward = async {
        while let Some(Ok(piece)) = body.data().await {
            to_test.write_all(&piece).await?;
            let _ = body.flow_control().release_capacity(piece.len());
        }
        if is_open {
            to_test.shutdown().await?;
        }
        Ok::<(), Over>(())
    };
    let (_, inward) = tokio::join!(outward, inward);
    inward.map(|()| !is_open)
}
