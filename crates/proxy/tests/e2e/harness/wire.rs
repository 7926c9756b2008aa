//! HTTP/1.1 as the tests read it: one message at a time, nothing forgiven.
//!
//! Written apart from the crate `http1`, so that a mistake there is not made twice.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

use super::PATIENCE;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The other side has finished sending.
    Closed,
    /// The connection was reset.
    Reset,
}

/// Field lines in their order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct FieldList(pub Vec<(String, String)>);

impl FieldList {
    /// The values of all lines of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let mut values = Vec::new();
        for (n, value) in &self.0 {
            if n.eq_ignore_ascii_case(name) {
                values.push(value.as_str());
            }
        }
        values
    }

    /// The value of the one line of that name.
    #[track_caller]
    pub fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} twice: {all:?}");
        all.first().copied()
    }
}

/// A response as it was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    pub status: u16,
    pub fields: FieldList,
    pub body: Vec<u8>,
    pub trailers: FieldList,
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
pub struct Wire {
    stream: TcpStream,
    /// Read and not yet used.
    input: Vec<u8>,
    used: usize,
}

impl Wire {
    pub fn new(stream: TcpStream) -> Wire {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Wire {
            stream,
            input: Vec::new(),
            used: 0,
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// False if the other side takes no more.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        match self.stream.write_all(bytes.as_ref()) {
            Ok(()) => true,
            Err(error) if is_timeout(error.kind()) => panic!("nobody reads what is sent"),
            Err(_) => false,
        }
    }

    /// What has been received and not yet used, at least one byte.
    pub fn some(&mut self) -> Result<Vec<u8>, End> {
        if self.rest().is_empty() {
            self.fill()?;
        }
        let some = self.rest().to_vec();
        self.used = self.input.len();
        Ok(some)
    }

    /// Exactly so many bytes, or what came of them.
    pub fn exactly(&mut self, len: usize) -> (Vec<u8>, Option<End>) {
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            if self.rest().is_empty()
                && let Err(end) = self.fill()
            {
                return (out, Some(end));
            }
            let n = self.rest().len().min(len - out.len());
            out.extend_from_slice(&self.rest()[..n]);
            self.used += n;
        }
        (out, None)
    }

    /// Everything up to the end of the connection.
    pub fn read_to_end(&mut self) -> (Vec<u8>, End) {
        let mut out = Vec::new();
        loop {
            match self.some() {
                Ok(some) => out.extend_from_slice(&some),
                Err(end) => return (out, end),
            }
        }
    }

    /// A line without its CRLF.
    pub fn line(&mut self) -> Result<String, End> {
        let mut line = Vec::new();
        loop {
            if self.rest().is_empty() {
                self.fill()?;
            }
            line.push(self.rest()[0]);
            self.used += 1;
            if line.ends_with(b"\n") {
                assert!(line.ends_with(b"\r\n"), "a bare LF: {line:?}");
                line.truncate(line.len() - 2);
                assert!(!line.contains(&b'\r'), "a bare CR: {line:?}");
                return Ok(String::from_utf8(line).unwrap());
            }
        }
    }

    /// Field lines and the empty line behind them.
    pub fn fields(&mut self) -> Result<FieldList, End> {
        let mut fields = FieldList::default();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) = line.split_once(':').expect("a field line has a colon");
            let good = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            assert!(!name.is_empty() && name.bytes().all(good), "{line:?}");
            let value = value.trim_matches([' ', '\t']);
            assert!(value.bytes().all(|b| b >= b' ' || b == b'\t'), "{line:?}");
            fields.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// A chunked body: data, trailers, and the end of the connection if that came first.
    pub fn chunked(&mut self) -> (Vec<u8>, FieldList, Option<End>) {
        let mut data = Vec::new();
        let nothing = FieldList::default;
        loop {
            let size = match self.line() {
                Ok(line) => usize::from_str_radix(&line, 16).expect("a chunk size"),
                Err(end) => return (data, nothing(), Some(end)),
            };
            if size == 0 {
                return match self.fields() {
                    Ok(trailers) => (data, trailers, None),
                    Err(end) => (data, nothing(), Some(end)),
                };
            }
            let (some, cut) = self.exactly(size);
            data.extend_from_slice(&some);
            if cut.is_some() {
                return (data, nothing(), cut);
            }
            match self.line() {
                Ok(line) => assert_eq!(line, "", "behind the data of a chunk"),
                Err(end) => return (data, nothing(), Some(end)),
            }
        }
    }

    /// A response head, interim ones too.
    pub fn response_head(&mut self) -> Result<Response, End> {
        let line = self.line()?;
        let rest = line
            .strip_prefix("HTTP/1.1 ")
            .expect("an HTTP/1.1 status line");
        let (status, _reason) = rest.split_once(' ').expect("a space behind the status");
        assert_eq!(status.len(), 3, "{line:?}");
        Ok(Response {
            status: status.parse().unwrap(),
            fields: self.fields()?,
            body: Vec::new(),
            trailers: FieldList::default(),
            cut: None,
        })
    }

    /// The body that belongs to a head, in answer to `method`.
    pub fn response_body(&mut self, method: &str, response: &mut Response) {
        let coding = response.fields.all("transfer-encoding");
        let length = response.field("content-length");
        if method == "HEAD" || response.status == 304 {
            return;
        }
        if response.status < 200 || response.status == 204 {
            assert!(coding.is_empty() && length.is_none(), "{response:?}");
            return;
        }
        assert!(
            coding.is_empty() || length.is_none(),
            "two framings: {response:?}"
        );
        match (&coding[..], length) {
            (["chunked"], None) => {
                (response.body, response.trailers, response.cut) = self.chunked();
            }
            ([], Some(length)) => {
                let length = length.parse().unwrap();
                (response.body, response.cut) = self.exactly(length);
            }
            ([], None) => {
                assert_eq!(response.field("connection"), Some("close"));
                let (body, end) = self.read_to_end();
                response.body = body;
                response.cut = Some(end).filter(|&end| end != End::Closed);
            }
            other => panic!("{other:?}"),
        }
    }

    fn rest(&self) -> &[u8] {
        &self.input[self.used..]
    }

    fn fill(&mut self) -> Result<(), End> {
        self.input.drain(..self.used);
        self.used = 0;
        let mut piece = [0; 64 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(End::Closed),
            Ok(read) => {
                self.input.extend_from_slice(&piece[..read]);
                Ok(())
            }
            Err(error) if is_timeout(error.kind()) => panic!("nothing came for {PATIENCE:?}"),
            Err(_) => Err(End::Reset),
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
