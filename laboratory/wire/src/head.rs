//! Parses heads into method, status and fields, and determines where the body ends.

/// Longest head; a longer one is malformed.
pub const HEAD_BYTES_MAX: usize = 256 << 10;
/// Most fields of a head; one with more is malformed.
pub const FIELDS_MAX: usize = 1024;

/// The message is not valid HTTP, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl From<httparse::Error> for Malformed {
    fn from(error: httparse::Error) -> Self {
        Self(error.to_string())
    }
}

/// Field lines in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// The values of all lines with this name.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.0.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of the only line with this name.
    ///
    /// # Panics
    /// If there are several.
    #[must_use]
    #[track_caller]
    pub fn get(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} twice: {all:?}");
        all.first().copied()
    }

    /// The value of the first line with this name.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.iter();
        let line = lines.find(|(n, _)| n.eq_ignore_ascii_case(name));
        line.map(|(_, value)| value.as_str())
    }

    /// Parses field lines up to and including the empty line, such as the trailers of a chunked body.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
        match httparse::parse_headers(bytes, &mut lines)? {
            httparse::Status::Complete((end, lines)) => {
                strict_line_ends(&bytes[..end])?;
                Ok(Some((Self::of(lines)?, end)))
            }
            httparse::Status::Partial if bytes.len() <= HEAD_BYTES_MAX => Ok(None),
            httparse::Status::Partial => Err(Malformed("trailers without an end".to_owned())),
        }
    }

    fn of(lines: &[httparse::Header<'_>]) -> Result<Self, Malformed> {
        let line = |line: &httparse::Header<'_>| match std::str::from_utf8(line.value) {
            Ok(value) => Ok((
                line.name.to_owned(),
                value.trim_matches([' ', '\t']).to_owned(),
            )),
            Err(_) => Err(Malformed(format!("{}: not UTF-8", line.name))),
        };
        lines.iter().map(line).collect::<Result<_, _>>().map(Self)
    }

    /// The framing that these fields declare, if any.
    fn framing(&self) -> Result<Option<Framing>, Malformed> {
        match (
            &self.all("transfer-encoding")[..],
            &self.all("content-length")[..],
        ) {
            ([], []) => Ok(None),
            ([coding], []) if coding.eq_ignore_ascii_case("chunked") => Ok(Some(Framing::Chunked)),
            ([], [length]) => match number(length.as_bytes()) {
                Some(length) => Ok(Some(Framing::Length(length))),
                None => Err(Malformed(format!("Content-Length: {length}"))),
            },
            (codings, lengths) => Err(Malformed(format!(
                "Transfer-Encoding {codings:?} and Content-Length {lengths:?}"
            ))),
        }
    }
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// After this many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// When the connection is closed.
    Close,
}

/// The head of a message.
pub trait Head: Sized {
    /// Parses the head at the beginning of `bytes`, and returns its length too; none if it is not complete.
    ///
    /// # Errors
    /// If this is not a head, or one that is too long.
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed>;
}

/// The head of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The method, such as GET.
    pub method: String,
    /// The target as it was sent.
    pub target: String,
    /// HTTP/1.`minor`.
    pub minor: u8,
    /// Its field lines.
    pub fields: Fields,
}

impl Head for Request {
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut lines);
        let Some(end) = head_bytes(head.parse(bytes), bytes.len())? else {
            return Ok(None);
        };
        strict_line_ends(&bytes[..end])?;
        let found = Self {
            method: head.method.unwrap_or_default().to_owned(),
            target: head.path.unwrap_or_default().to_owned(),
            minor: head.version.unwrap_or_default(),
            fields: Fields::of(head.headers)?,
        };
        Ok(Some((found, end)))
    }
}

impl Request {
    /// Where the body ends.
    ///
    /// # Errors
    /// If the fields contradict each other.
    pub fn framing(&self) -> Result<Framing, Malformed> {
        Ok(self.fields.framing()?.unwrap_or(Framing::Empty))
    }
}

/// The head of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code, such as 200.
    pub status: u16,
    /// HTTP/1.`minor`.
    pub minor: u8,
    /// Its field lines.
    pub fields: Fields,
}

impl Head for Response {
    fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Response::new(&mut lines);
        let Some(end) = head_bytes(head.parse(bytes), bytes.len())? else {
            return Ok(None);
        };
        strict_line_ends(&bytes[..end])?;
        if bytes["HTTP/1.1 200".len()] != b' ' {
            return Err(Malformed("no space behind the status".to_owned()));
        }
        let found = Self {
            status: head.code.unwrap_or_default(),
            minor: head.version.unwrap_or_default(),
            fields: Fields::of(head.headers)?,
        };
        Ok(Some((found, end)))
    }
}

impl Response {
    /// Where the body of this response to `method` ends.
    ///
    /// # Errors
    /// If the fields contradict each other or the status.
    pub fn framing(&self, method: &str) -> Result<Framing, Malformed> {
        //= rfc9112 §6.3   HEAD and 304 say how long the body would be
        if method == "HEAD" || self.status == 304 {
            return Ok(Framing::Empty);
        }
        let said = self.fields.framing()?;
        match (self.status, said) {
            (100..200 | 204, None) => Ok(Framing::Empty),
            (100..200 | 204, Some(framing)) => {
                Err(Malformed(format!("{framing:?} in a {}", self.status)))
            }
            (_, said) => Ok(said.unwrap_or(Framing::Close)),
        }
    }

    /// Whether another request may follow on this connection.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        let options = self.fields.all("connection");
        options.iter().fold(self.minor == 1, |otherwise, options| {
            keeps_alive(options.as_bytes(), otherwise)
        })
    }
}

/// The length of the head that `httparse` found in `len` bytes; none if it is not complete.
fn head_bytes(parsed: httparse::Result<usize>, len: usize) -> Result<Option<usize>, Malformed> {
    match parsed? {
        httparse::Status::Complete(bytes) => Ok(Some(bytes)),
        httparse::Status::Partial if len <= HEAD_BYTES_MAX => Ok(None),
        httparse::Status::Partial => Err(Malformed("a head without an end".to_owned())),
    }
}

/// Refuses what `httparse` accepts: a bare LF as the end of a line, and empty lines in front.
fn strict_line_ends(head: &[u8]) -> Result<(), Malformed> {
    let is_bare = |at: usize| match head[at] {
        b'\n' => at == 0 || head[at - 1] != b'\r',
        b'\r' => head.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    if (0..head.len()).any(is_bare) {
        return Err(Malformed("a bare CR or LF".to_owned()));
    }
    if head.starts_with(b"\r\n") && head.len() > 2 {
        return Err(Malformed("an empty line in front".to_owned()));
    }
    Ok(())
}

/// Parses decimal digits.
fn number(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Whether these options of a Connection field keep the connection open.
fn keeps_alive(options: &[u8], otherwise: bool) -> bool {
    let mut options = options.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    if options.clone().any(|o| o.eq_ignore_ascii_case(b"close")) {
        return false;
    }
    otherwise || options.any(|o| o.eq_ignore_ascii_case(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(text: &str) -> Result<Option<Response>, Malformed> {
        let parsed = Response::parse(text.as_bytes())?;
        Ok(parsed.map(|(head, end)| {
            assert_eq!(end, text.len(), "{text:?}");
            head
        }))
    }

    #[test]
    fn heads_are_read_whole_or_not_at_all() {
        let text = "HTTP/1.1 200 OK\r\nA: b\t\r\nContent-Length: 5\r\na:c\r\n\r\n";
        let head = response(text).unwrap().unwrap();
        assert_eq!(head.fields.all("A"), ["b", "c"]);
        assert_eq!(head.fields.first("CONTENT-length"), Some("5"));
        for cut in 0..text.len() {
            assert_eq!(response(&text[..cut]), Ok(None));
        }
        let (request, end) = Request::parse(b"GET /a HTTP/1.0\r\n\r\nGET")
            .unwrap()
            .unwrap();
        assert_eq!((request.minor, end), (0, 19));
        assert_eq!(request.framing(), Ok(Framing::Empty));
    }

    #[test]
    fn nothing_is_forgiven() {
        for text in [
            "HTTP/1.1 200 OK\nA: b\n\n",
            "HTTP/1.1 200 OK\r\nA: b\n\r\n",
            "\r\nHTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: \rb\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
        ] {
            assert!(response(text).is_err(), "{text:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(HEAD_BYTES_MAX));
        assert!(response(&endless).is_err());
    }

    #[test]
    fn one_framing_or_none() {
        let framing = |status: u16, fields: &str, method: &str| {
            let text = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
            response(&text).unwrap().unwrap().framing(method)
        };
        let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
        assert_eq!(framing(200, length, "GET"), Ok(Framing::Length(5)));
        assert_eq!(framing(200, length, "HEAD"), Ok(Framing::Empty));
        assert_eq!(framing(304, length, "GET"), Ok(Framing::Empty));
        assert_eq!(framing(200, chunked, "GET"), Ok(Framing::Chunked));
        assert_eq!(framing(200, "", "GET"), Ok(Framing::Close));
        assert_eq!(framing(204, "", "GET"), Ok(Framing::Empty));
        for (status, fields) in [
            (204, length),
            (100, chunked),
            (200, "Content-Length: 5\r\nContent-Length: 5\r\n"),
            (200, "Content-Length: +5\r\n"),
            (200, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            (200, "Transfer-Encoding: gzip, chunked\r\n"),
        ] {
            assert!(framing(status, fields, "GET").is_err(), "{status} {fields}");
        }
    }

    #[test]
    fn close_is_stronger_than_keep_alive() {
        let keeps = |text: &str| response(text).unwrap().unwrap().keeps_alive();
        assert!(keeps("HTTP/1.1 200 OK\r\n\r\n"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n"));
        assert!(!keeps("HTTP/1.0 200 OK\r\n\r\n"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n"));
    }
}
