//! Heads of requests and responses, as far as this workload uses them.
//!
//! A field of our own, `X-Polymix`, carries the number of the exchange. The server copies it from the request that it answers, so an
//! answer with another number came from a cache. After it are the version of the body, and when the server answered, by its own
//! clock.
//!
//! Heads are read with `httparse`, not with the crate `http1`, so that proxy and benchmark do not share mistakes.
//!
//! Limits: `HEAD_BYTES_MAX`, `FIELDS_MAX`; larger heads are malformed.   Source: spec section 4 (headers), RFC 9112.

use std::time::{Duration, SystemTime};

use crate::name::{Servers, parse_hex, write_hex, write_path};
use crate::range::{ContentRange, Wanted};
use crate::request::{Condition, Method, Request};

/// A head is at most this long.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
const FIELDS_MAX: usize = 64;

/// The minor version of HTTP/1 in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minor {
    /// HTTP/1.0 with keep-alive, as in the workload.
    Zero,
    /// HTTP/1.1.
    One,
}

/// The head of a response, as a robot sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// Bytes of the head.
    pub head_bytes: usize,
    /// Status code.
    pub status: u16,
    /// Content-Length.
    pub length: Option<u64>,
    /// Whether there is a Transfer-Encoding.
    pub coded: bool,
    /// The connection can be used again.
    pub keep_alive: bool,
    /// The exchange in which the server made this response.
    pub exchange: Option<u64>,
    /// Version of the body.
    pub version: Option<u64>,
    /// Last-Modified, Unix seconds.
    pub modified_s: Option<u64>,
    /// When the server answered, Unix milliseconds.
    pub made_ms: Option<u64>,
    /// Content-Range.
    pub range: Option<ContentRange>,
    /// Content-MD5.
    pub checksum: Option<String>,
}

/// The head of a request, as a server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Bytes of the head.
    pub head_bytes: usize,
    /// GET, POST (with its length) or HEAD.
    pub method: Method,
    /// The target.
    pub target: Vec<u8>,
    /// X-Polymix.
    pub exchange: u64,
    /// If-Modified-Since, Unix seconds.
    pub since_s: Option<u64>,
    /// Range; none if it is one that we do not serve (several, another unit).
    pub range: Option<Wanted>,
    /// If-Range, as a date, Unix seconds; 0 if it is anything else.
    pub if_range_s: Option<u64>,
    /// The connection can be used again.
    pub keep_alive: bool,
}

/// Not an HTTP/1 message, or not of this workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub struct Malformed;

/// The head of a response.
#[derive(Debug, Clone)]
pub struct Reply {
    /// 200, 206 or 304.
    pub status: u16,
    /// Content-Length.
    pub length: u64,
    /// Content-Range, of a 206.
    pub range: Option<ContentRange>,
    /// A cache may store it: it gets Date, Last-Modified and Expires.
    pub cachable: bool,
    /// Unix seconds.
    pub now_s: u64,
    /// Unix seconds.
    pub modified_s: u64,
    /// Unix seconds.
    pub expires_s: u64,
    /// The exchange, from the request.
    pub exchange: u64,
    /// Version of the body.
    pub version: u64,
    /// When the server answered, Unix milliseconds.
    pub made_ms: u64,
    /// Content-MD5.
    pub checksum: Option<String>,
    /// The connection will be used again.
    pub keep_alive: bool,
}

/// Appends the head of a request to a proxy. Conditions are based on `modified_s`, the object's Last-Modified.
pub fn write_request(
    request: &Request,
    servers: &Servers,
    minor: Minor,
    exchange: u64,
    modified_s: u64,
    keep_alive: bool,
    out: &mut Vec<u8>,
) {
    let method: &[u8] = match request.method {
        Method::Get => b"GET ",
        Method::Post(_) => b"POST ",
        Method::Head => b"HEAD ",
    };
    let host = servers.host(request.id.server);
    out.extend_from_slice(method);
    out.extend_from_slice(b"http://");
    out.extend_from_slice(host.as_bytes());
    write_path(request.id, out);
    out.extend_from_slice(match minor {
        Minor::Zero => b" HTTP/1.0\r\n",
        Minor::One => b" HTTP/1.1\r\n",
    });
    line(out, "Host", host.as_bytes());
    line(out, "Accept", b"*/*");
    out.extend_from_slice(b"X-Polymix: ");
    write_hex(exchange, 16, out);
    out.extend_from_slice(b"\r\n");
    match request.condition {
        Condition::Basic => {}
        Condition::Ims200 => date(out, "If-Modified-Since", modified_s.saturating_sub(1)),
        Condition::Ims304 => date(out, "If-Modified-Since", modified_s + 1),
        Condition::Reload => {
            line(out, "Cache-Control", b"no-cache");
            line(out, "Pragma", b"no-cache");
        }
        Condition::Range { first, last } => {
            line(out, "Range", format!("bytes={first}-{last}").as_bytes());
        }
    }
    if let Method::Post(bytes) = request.method {
        line(out, "Content-Length", bytes.to_string().as_bytes());
    }
    connection(out, keep_alive);
}

/// Appends the head of a response.
pub fn write_reply(reply: &Reply, minor: Minor, out: &mut Vec<u8>) {
    out.extend_from_slice(match minor {
        Minor::Zero => b"HTTP/1.0 ",
        Minor::One => b"HTTP/1.1 ",
    });
    out.extend_from_slice(match reply.status {
        304 => b"304 Not Modified\r\n",
        206 => b"206 Partial Content\r\n",
        _ => b"200 OK\r\n",
    });
    date(out, "Date", reply.now_s);
    if reply.cachable {
        line(out, "Cache-Control", b"public");
        date(out, "Last-Modified", reply.modified_s);
        date(out, "Expires", reply.expires_s);
    } else {
        line(out, "Cache-Control", b"private,no-cache");
        line(out, "Pragma", b"no-cache");
    }
    if reply.status != 304 {
        line(out, "Content-Length", reply.length.to_string().as_bytes());
    }
    if let Some(ContentRange { first, last, size }) = reply.range {
        let value = format!("bytes {first}-{last}/{size}");
        line(out, "Content-Range", value.as_bytes());
    }
    if let Some(checksum) = &reply.checksum {
        line(out, "Content-MD5", checksum.as_bytes());
    }
    out.extend_from_slice(b"X-Polymix: ");
    write_hex(reply.exchange, 16, out);
    out.push(b' ');
    out.extend_from_slice(format!("{} {}", reply.version, reply.made_ms).as_bytes());
    out.extend_from_slice(b"\r\n");
    connection(out, reply.keep_alive);
}

fn connection(out: &mut Vec<u8>, keep_alive: bool) {
    let value: &[u8] = if keep_alive { b"keep-alive" } else { b"close" };
    line(out, "Connection", value);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn date(out: &mut Vec<u8>, name: &str, at_s: u64) {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at_s);
    line(out, name, httpdate::fmt_http_date(at).as_bytes());
}

/// Parses a response's head, if it is complete. A 100 (Continue) before it is skipped.
///
/// # Errors
/// If it is no HTTP/1 response, or longer than `HEAD_BYTES_MAX`.
pub fn parse_response(bytes: &[u8]) -> Result<Option<Response>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let Some(head_bytes) = complete(head.parse(bytes), bytes.len())? else {
        return Ok(None);
    };
    let mut found = Response {
        head_bytes,
        status: head.code.ok_or(Malformed)?,
        keep_alive: head.version == Some(1),
        ..Response::default()
    };
    if found.status == 100 {
        let after = parse_response(&bytes[head_bytes..])?;
        return Ok(after.map(|mut response| {
            response.head_bytes += head_bytes;
            response
        }));
    }
    for field in head.headers.iter() {
        let (name, value) = (field.name, field.value.trim_ascii());
        if name.eq_ignore_ascii_case("content-length") {
            found.length = Some(number(value)?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            found.coded = true;
        } else if name.eq_ignore_ascii_case("connection") {
            found.keep_alive = keeps(value, found.keep_alive);
        } else if name.eq_ignore_ascii_case("last-modified") {
            found.modified_s = Some(seconds(value)?);
        } else if name.eq_ignore_ascii_case("x-polymix") {
            let (exchange, version) = value.split_at_checked(16).ok_or(Malformed)?;
            found.exchange = Some(parse_hex(exchange).ok_or(Malformed)?);
            let mut rest = version.trim_ascii().splitn(2, |b| *b == b' ');
            found.version = Some(number(rest.next().unwrap_or_default())?);
            found.made_ms = rest.next().map(number).transpose()?;
        } else if name.eq_ignore_ascii_case("content-range") {
            found.range = Some(ContentRange::read(value).ok_or(Malformed)?);
        } else if name.eq_ignore_ascii_case("content-md5") {
            found.checksum = Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    Ok(Some(found))
}

/// Parses a request's head, if it is complete.
///
/// # Errors
/// If it is no HTTP/1 request of this workload.
pub fn parse_request(bytes: &[u8]) -> Result<Option<Incoming>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let Some(head_bytes) = complete(head.parse(bytes), bytes.len())? else {
        return Ok(None);
    };
    let mut found = Incoming {
        head_bytes,
        method: Method::Get,
        target: head.path.ok_or(Malformed)?.into(),
        exchange: 0,
        since_s: None,
        range: None,
        if_range_s: None,
        keep_alive: head.version == Some(1),
    };
    let mut length = 0;
    for field in head.headers.iter() {
        let (name, value) = (field.name, field.value.trim_ascii());
        if name.eq_ignore_ascii_case("content-length") {
            length = number(value)?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Malformed);
        } else if name.eq_ignore_ascii_case("connection") {
            found.keep_alive = keeps(value, found.keep_alive);
        } else if name.eq_ignore_ascii_case("if-modified-since") {
            found.since_s = Some(seconds(value)?);
        } else if name.eq_ignore_ascii_case("range") {
            found.range = Wanted::read(value);
        } else if name.eq_ignore_ascii_case("if-range") {
            found.if_range_s = Some(seconds(value).unwrap_or(0));
        } else if name.eq_ignore_ascii_case("x-polymix") {
            found.exchange = parse_hex(value).ok_or(Malformed)?;
        }
    }
    found.method = match head.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST") => Method::Post(length),
        _ => return Err(Malformed),
    };
    Ok(Some(found))
}

fn complete(
    parsed: Result<httparse::Status<usize>, httparse::Error>,
    len: usize,
) -> Result<Option<usize>, Malformed> {
    match parsed {
        Ok(httparse::Status::Complete(head_bytes)) => Ok(Some(head_bytes)),
        Ok(httparse::Status::Partial) if len <= HEAD_BYTES_MAX => Ok(None),
        _ => Err(Malformed),
    }
}

fn number(value: &[u8]) -> Result<u64, Malformed> {
    let text = std::str::from_utf8(value).map_err(|_| Malformed)?;
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Malformed);
    }
    text.parse().map_err(|_| Malformed)
}

fn seconds(value: &[u8]) -> Result<u64, Malformed> {
    let text = std::str::from_utf8(value).map_err(|_| Malformed)?;
    let at = httpdate::parse_http_date(text).map_err(|_| Malformed)?;
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| Malformed)?;
    Ok(since.as_secs())
}

fn keeps(value: &[u8], otherwise: bool) -> bool {
    let mut options = value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    if options.clone().any(|o| o.eq_ignore_ascii_case(b"close")) {
        return false;
    }
    otherwise || options.any(|o| o.eq_ignore_ascii_case(b"keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Kind, ObjectId};
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn request(condition: Condition, method: Method) -> Request {
        let id = ObjectId {
            world: 1,
            server: 2,
            kind: Kind::Html,
            number: 3,
        };
        Request {
            id,
            repeat: false,
            offered: false,
            offered_lru: false,
            condition,
            method,
            abort: false,
        }
    }

    fn written(request: &Request) -> Vec<u8> {
        let servers = Servers {
            first: SocketAddrV4::new(Ipv4Addr::new(127, 1, 0, 1), 8880),
            count: 10,
            spread: true,
            named: false,
        };
        let mut out = Vec::new();
        write_request(
            request,
            &servers,
            Minor::Zero,
            77,
            1_000_000,
            true,
            &mut out,
        );
        out
    }

    #[test]
    fn requests_read_as_in_the_specification() {
        let text = String::from_utf8(written(&request(Condition::Reload, Method::Get))).unwrap();
        expect_test::expect![[r#"
            GET http://127.1.0.3:8880/w00000001/t1/_0002000000000003.htm HTTP/1.0
            Host: 127.1.0.3:8880
            Accept: */*
            X-Polymix: 000000000000004d
            Cache-Control: no-cache
            Pragma: no-cache
            Connection: keep-alive

        "#]]
        .assert_eq(&text.replace('\r', ""));
    }

    #[test]
    fn requests_are_understood_by_the_server() {
        let found = parse_request(&written(&request(Condition::Ims304, Method::Get)));
        let found = found.unwrap().unwrap();
        assert_eq!((found.exchange, found.since_s), (77, Some(1_000_001)));
        assert!(found.keep_alive);
        let found = parse_request(&written(&request(Condition::Basic, Method::Post(9))));
        assert_eq!(found.unwrap().unwrap().method, Method::Post(9));
        let bytes = written(&request(Condition::Basic, Method::Get));
        assert_eq!(parse_request(&bytes[..bytes.len() - 1]), Ok(None));
        assert_eq!(parse_request(b"nonsense\r\n\r\n"), Err(Malformed));
    }

    #[test]
    fn replies_are_understood_by_robots() {
        let reply = Reply {
            status: 200,
            length: 12,
            cachable: true,
            now_s: 1_000_100,
            modified_s: 1_000_000,
            expires_s: 1_000_200,
            exchange: 77,
            version: 4,
            made_ms: 1_000_100_250,
            range: None,
            checksum: Some("Q2hlY2sgSW50ZWdyaXR5IQ==".to_owned()),
            keep_alive: false,
        };
        let mut out = Vec::new();
        write_reply(&reply, Minor::Zero, &mut out);
        let found = parse_response(&out).unwrap().unwrap();
        assert_eq!(found.head_bytes, out.len());
        assert_eq!(found.length, Some(12));
        assert_eq!((found.exchange, found.version), (Some(77), Some(4)));
        assert_eq!(found.modified_s, Some(1_000_000));
        assert_eq!(found.made_ms, Some(1_000_100_250));
        assert_eq!(found.checksum, reply.checksum);
        assert!(!found.keep_alive && !found.coded);
        let range = ContentRange {
            first: 5,
            last: 16,
            size: 100,
        };
        let part = Reply {
            status: 206,
            range: Some(range),
            ..reply
        };
        out.clear();
        write_reply(&part, Minor::Zero, &mut out);
        let found = parse_response(&out).unwrap().unwrap();
        assert_eq!((found.status, found.range), (206, Some(range)));
    }

    #[test]
    fn ranges_are_understood_by_the_server() {
        let range = request(Condition::Range { first: 3, last: 7 }, Method::Get);
        let found = parse_request(&written(&range)).unwrap().unwrap();
        assert_eq!(found.range, Some(Wanted::From(3, Some(7))));
    }
}
