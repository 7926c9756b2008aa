//! HTTP/1.1 as the tests read it: one message at a time, nothing forgiven.
//!
//! The crate `wire` does the reading. What is not well-formed, and a silence longer than [`PATIENCE`], fail the test here;
//! how a connection ended is a value, which tests ask for.

use std::{io::ErrorKind, io::Write, net::TcpStream};

pub use ::wire::Fields;
use ::wire::{Connection, Cut, Framing, Malformed, Request};

use super::{PATIENCE, way::Duct};

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The other side has finished sending.
    Closed,
    /// The connection was reset.
    Reset,
}

/// Fails the test if it was not the connection that ended.
#[track_caller]
fn ended(cut: Cut) -> End {
    match cut {
        Cut::Closed => End::Closed,
        Cut::Reset => End::Reset,
        cut => panic!("{cut}"),
    }
}

/// A response as it was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    pub status: u16,
    pub fields: Fields,
    pub body: Vec<u8>,
    pub trailers: Fields,
    /// How the connection ended before the body was complete.
    pub cut: Option<End>,
}

impl Response {
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// Our Cache-Status.
    #[track_caller]
    pub fn cache(&self) -> &str {
        self.field("cache-status").unwrap_or("")
    }

    #[track_caller]
    pub fn is_hit(&self) -> bool {
        self.cache().starts_with("loligo; hit")
    }

    #[track_caller]
    pub fn age(&self) -> Option<u64> {
        self.field("age").map(|age| age.parse().unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// One end of a connection.
pub struct Wire(Connection<Duct>);

impl Wire {
    pub fn new(stream: TcpStream) -> Wire {
        Wire::over(Duct::Plain(stream))
    }

    pub fn over(duct: Duct) -> Wire {
        let stream = duct.tcp();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Wire(Connection::new(duct))
    }

    pub fn stream(&self) -> &TcpStream {
        self.0.stream().tcp()
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) {
        self.0.stream_mut().finish_sending().unwrap();
    }

    /// False if the other side takes no more.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        match self.0.stream_mut().write_all(bytes.as_ref()) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nobody reads what is sent")
            }
            sent => sent.is_ok(),
        }
    }

    /// What has been received and not yet used, at least one byte.
    pub fn some(&mut self) -> Result<Vec<u8>, End> {
        let mut some = Vec::new();
        let read = self.0.at_most(usize::MAX, &mut |piece| {
            some.extend_from_slice(piece);
            true
        });
        read.map(|_| some).map_err(ended)
    }

    /// Exactly so many bytes, or what came of them.
    pub fn exactly(&mut self, len: usize) -> (Vec<u8>, Option<End>) {
        let (bytes, _, cut) = self.body(Framing::Length(len as u64));
        (bytes, cut)
    }

    /// Everything up to the end of the connection.
    pub fn read_to_end(&mut self) -> (Vec<u8>, End) {
        let (bytes, _, cut) = self.body(Framing::Close);
        (bytes, cut.unwrap_or(End::Closed))
    }

    /// A body that ends so: data, trailers, and the end of the connection if that came first.
    #[track_caller]
    pub fn body(&mut self, framing: Framing) -> (Vec<u8>, Fields, Option<End>) {
        let mut data = Vec::new();
        let read = self.0.body(framing, &mut |piece| {
            data.extend_from_slice(piece);
            true
        });
        match read {
            Ok(trailers) => (data, trailers, None),
            Err(cut) => (data, Fields::default(), Some(ended(cut))),
        }
    }

    /// The head of a request of HTTP/1.1.
    #[track_caller]
    pub fn request_head(&mut self) -> Result<Request, End> {
        let head: Request = self.0.head().map_err(ended)?;
        assert_eq!(head.minor, 1, "{head:?}");
        Ok(head)
    }

    /// A response head of HTTP/1.1, interim ones too.
    #[track_caller]
    pub fn response_head(&mut self) -> Result<Response, End> {
        let head: ::wire::Response = self.0.head().map_err(ended)?;
        assert_eq!(head.minor, 1, "{head:?}");
        Ok(Response {
            status: head.status,
            fields: head.fields,
            body: Vec::new(),
            trailers: Fields::default(),
            cut: None,
        })
    }

    /// The body that belongs to a head, in answer to `method`.
    #[track_caller]
    pub fn response_body(&mut self, method: &str, response: &mut Response) {
        let head = ::wire::Response {
            status: response.status,
            minor: 1,
            fields: std::mem::take(&mut response.fields),
        };
        let framing = framing(head.framing(method));
        response.fields = head.fields;
        if framing == Framing::Close {
            assert_eq!(response.field("connection"), Some("close"));
        }
        (response.body, response.trailers, response.cut) = self.body(framing);
    }
}

/// Fails the test if a head contradicts itself.
#[track_caller]
pub fn framing(found: Result<Framing, Malformed>) -> Framing {
    found.unwrap_or_else(|Malformed(why)| panic!("{why}"))
}
