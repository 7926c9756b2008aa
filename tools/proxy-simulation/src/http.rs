//! HTTP/1 messages as clients and origins of the simulation read them: simple, and without the proxy's own reader.
//!
//! Not known here: the requests and the rules.

use std::{io, net::IpAddr};

use bytes::{Buf, Bytes, BytesMut};
use proxy::simulation::Socket;
use tokio::io::AsyncReadExt;

const FIELDS_MAX: usize = 64;
/// The beginning of a PROXY protocol header that names a client of IPv4 over TCP.
const PROXY_BEGINS: [u8; 16] = *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
/// Length of this header.
const PROXY_BYTES: usize = 28;

/// Fields by lower-case name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// The fields of an answer of HTTP/2.
    pub fn of_map(map: &::http::HeaderMap) -> Fields {
        let of = |(name, value): (&::http::HeaderName, &::http::HeaderValue)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        };
        Fields(map.iter().map(of).collect())
    }

    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter();
        all.find_map(|(known, value)| (known == name).then_some(&**value))
    }

    /// All values of a field.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name =
            move |(known, value): &'a (String, String)| (known == name).then_some(&**value);
        self.0.iter().filter_map(of_name)
    }

    /// The value of a field as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }
}

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// This many bytes remain.
    Length(u64),
    /// Chunked.
    Chunked,
    /// The body ends with the connection.
    Close,
}

/// A head of a message.
#[derive(Clone, Debug)]
pub struct Head {
    /// The method or the status.
    pub first: String,
    /// The target; empty in a response.
    pub target: String,
    /// Fields.
    pub fields: Fields,
}

impl Head {
    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.first.parse().unwrap_or(0)
    }

    /// The framing of a request.
    pub fn request_framing(&self) -> Framing {
        match (self.is_chunked(), self.fields.number("content-length")) {
            (true, _) => Framing::Chunked,
            (false, Some(0) | None) => Framing::None,
            (false, Some(bytes)) => Framing::Length(bytes),
        }
    }

    /// The framing of a response to `method`.
    pub fn response_framing(&self, method: &str) -> Framing {
        let status = self.status();
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Framing::None;
        }
        match (self.is_chunked(), self.fields.number("content-length")) {
            (true, _) => Framing::Chunked,
            (false, Some(bytes)) => Framing::Length(bytes),
            (false, None) => Framing::Close,
        }
    }

    fn is_chunked(&self) -> bool {
        self.fields.get("transfer-encoding") == Some("chunked")
    }
}

/// One side of a connection, with bytes that were read and not yet used.
pub struct Stream {
    /// The connection.
    pub socket: Socket,
    read: BytesMut,
    /// Most bytes read at once: a slow reader takes few.
    pub step: usize,
}

impl Stream {
    /// The stream of a new connection.
    pub fn new(socket: Socket) -> Stream {
        Stream {
            socket,
            read: BytesMut::new(),
            step: 64 << 10,
        }
    }

    /// Reads once. Returns false if the connection has ended.
    async fn more(&mut self) -> io::Result<bool> {
        let mut piece = vec![0; self.step];
        let n = self.socket.read(&mut piece).await?;
        self.read.extend_from_slice(&piece[..n]);
        Ok(n > 0)
    }

    /// The client named in a PROXY protocol header, if the connection begins with one.
    pub async fn named_client(&mut self) -> io::Result<Option<IpAddr>> {
        while self.read.len() < PROXY_BYTES {
            let n = self.read.len().min(PROXY_BEGINS.len());
            if self.read[..n] != PROXY_BEGINS[..n] || !self.more().await? {
                return Ok(None);
            }
        }
        if self.read[..PROXY_BEGINS.len()] != PROXY_BEGINS {
            return Ok(None);
        }
        let header = self.read.split_to(PROXY_BYTES);
        Ok(Some(IpAddr::from([
            header[16], header[17], header[18], header[19],
        ])))
    }

    /// The number at the beginning; none if the connection ended before.
    pub async fn number(&mut self) -> io::Result<Option<u64>> {
        while self.read.len() < size_of::<u64>() {
            if !self.more().await? {
                return Ok(None);
            }
        }
        Ok(Some(self.read.get_u64_le()))
    }

    /// The connection, and bytes that were read and not yet used.
    pub fn into_parts(self) -> (Socket, Bytes) {
        (self.socket, self.read.freeze())
    }

    /// Reads the next request; none if the connection has ended.
    pub async fn request(&mut self) -> io::Result<Option<Head>> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut request = httparse::Request::new(&mut fields);
            let parsed = request.parse(&self.read).map_err(io::Error::other)?;
            if let httparse::Status::Complete(bytes) = parsed {
                let head = Head {
                    first: request.method.unwrap_or_default().to_owned(),
                    target: request.path.unwrap_or_default().to_owned(),
                    fields: fields_of(request.headers),
                };
                self.read.advance(bytes);
                return Ok(Some(head));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Reads the next response that is not interim; none if the connection was closed cleanly before it.
    pub async fn response(&mut self) -> io::Result<Option<Head>> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
            let mut response = httparse::Response::new(&mut fields);
            let parsed = response.parse(&self.read).map_err(io::Error::other)?;
            if let httparse::Status::Complete(bytes) = parsed {
                let head = Head {
                    first: response.code.unwrap_or_default().to_string(),
                    target: String::new(),
                    fields: fields_of(response.headers),
                };
                self.read.advance(bytes);
                if (100..200).contains(&head.status()) {
                    continue;
                }
                return Ok(Some(head));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Some bytes of a body; updates `framing`. None if the body is complete.
    pub async fn piece(&mut self, framing: &mut Framing) -> io::Result<Option<BytesMut>> {
        match framing {
            Framing::None | Framing::Length(0) => Ok(None),
            Framing::Length(left) => {
                if self.read.is_empty() && !self.more().await? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let n = self
                    .read
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= n as u64;
                Ok(Some(self.read.split_to(n)))
            }
            Framing::Close => {
                if self.read.is_empty() && !self.more().await? {
                    return Ok(None);
                }
                Ok(Some(self.read.split()))
            }
            Framing::Chunked => loop {
                let parsed = httparse::parse_chunk_size(&self.read)
                    .map_err(|_| io::Error::other("a chunk size is wrong"))?;
                if let httparse::Status::Complete((bytes, size)) = parsed {
                    let size = usize::try_from(size).map_err(io::Error::other)?;
                    if size == 0 {
                        // Trailers, if any, up to the empty line.
                        let rest = &self.read[bytes..];
                        let end = match rest.starts_with(b"\r\n") {
                            true => Some(2),
                            false => find(rest, b"\r\n\r\n").map(|at| at + 4),
                        };
                        if let Some(end) = end {
                            self.read.advance(bytes + end);
                            *framing = Framing::None;
                            return Ok(None);
                        }
                    } else if self.read.len() >= bytes + size + 2 {
                        self.read.advance(bytes);
                        let piece = self.read.split_to(size);
                        self.read.advance(2);
                        return Ok(Some(piece));
                    }
                }
                if !self.more().await? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            },
        }
    }
}

/// The position of `needle`.
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

fn fields_of(fields: &[httparse::Header<'_>]) -> Fields {
    let of = |field: &httparse::Header<'_>| {
        let value = String::from_utf8_lossy(field.value).into_owned();
        (field.name.to_ascii_lowercase(), value)
    };
    Fields(fields.iter().map(of).collect())
}
