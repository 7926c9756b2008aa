//! The origin of a torture: every URL of the catalogue, at the version the ledger has.
//!
//! GET answers the current version and identifies it in `X-Torture` (`id version variant`), so that an empty body has
//! a version too. POST raises the version when it is handled, and returns the new one in `X-Raised`. `/ping` tests
//! whether a proxy answers. One thread serves everything, since the origin is not the object of the test.
//!
//! Not known here: earlier answers; the ledger has those.
//! Limits: heads as in the crate `wire`; request bodies of [`POST_BYTES_MAX`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::{Framing, Head as _, Malformed, Request};

use super::bodies::{Catalogue, Kind, Url, Variant};
use super::ledger::{BRIEF, Ledger};
use crate::failure::{During, Result};
use crate::serving::Serving;

const POST_BYTES_MAX: u64 = 64 << 10;
const SEND_BYTES: usize = 64 << 10;
/// A request with this field gets its body in pieces, this many milliseconds apart.
pub const PACE: &str = "X-Pace";
const PACE_MS_MAX: u64 = 1000;
/// Fresh for longer than any run.
const LASTING: &str = "max-age=86400";

/// A path that is always answered, whatever the catalogue holds.
pub const PING: &str = "/ping";

/// A running origin; dropping it stops it.
pub struct Origin(Serving);

impl Origin {
    /// Starts on a free port of 127.0.0.1.
    pub fn start(catalogue: Arc<Catalogue>, ledger: Arc<Ledger>) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .during(|| "the torture's origin".into())?;
        let serving = Serving::start(vec![listener], move |stream| {
            serve(stream, Arc::clone(&catalogue), Arc::clone(&ledger))
        })?;
        Ok(Self(serving))
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

async fn serve(
    mut stream: TcpStream,
    catalogue: Arc<Catalogue>,
    ledger: Arc<Ledger>,
) -> io::Result<()> {
    let malformed = |Malformed(why)| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut buffer = Vec::new();
    loop {
        let (request, end) = match Request::parse(&buffer).map_err(malformed)? {
            Some(found) => found,
            None if stream.read_buf(&mut buffer).await? > 0 => continue,
            None => return Ok(()),
        };
        buffer.drain(..end);
        let length = match request.framing().map_err(malformed)? {
            Framing::Empty => 0,
            Framing::Length(length) if length <= POST_BYTES_MAX => length as usize,
            _ => return Ok(()),
        };
        while buffer.len() < length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        buffer.drain(..length);
        answer(&mut stream, &request, &catalogue, &ledger).await?;
    }
}

async fn answer(
    stream: &mut TcpStream,
    request: &Request,
    catalogue: &Catalogue,
    ledger: &Ledger,
) -> io::Result<()> {
    let date = httpdate::fmt_http_date(SystemTime::now());
    let Some(url) = catalogue.url_of_path(&request.target) else {
        let status = match request.target.as_str() {
            PING => "200 OK",
            _ => "404 Not Found",
        };
        let text = format!(
            "HTTP/1.1 {status}\r\nDate: {date}\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n"
        );
        return stream.write_all(text.as_bytes()).await;
    };
    if request.method == "POST" {
        let version = ledger.raise(url.id);
        let text = format!(
            "HTTP/1.1 200 OK\r\nDate: {date}\r\nX-Raised: {version}\r\nContent-Length: 7\r\n\r\nraised\n"
        );
        return stream.write_all(text.as_bytes()).await;
    }
    let field = |name| request.fields.first(name);
    let version = ledger.version(url.id);
    let variant = match field("accept-encoding") {
        Some(accepted) if url.kind == Kind::Varied && accepted.contains("gzip") => Variant::Gzip,
        _ => Variant::Identity,
    };
    let tag = url
        .is_tagged()
        .then(|| format!("\"{}-{version}-{}\"", url.id, variant.name()));
    let mut fields = common_fields(&url, version, variant, tag.as_deref(), &date);
    if tag.is_some() && field("if-none-match") == tag.as_deref() {
        let text = format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
        return stream.write_all(text.as_bytes()).await;
    }
    let body = catalogue.body(&url, version, variant);
    let asked_for_part = field("range")
        .filter(|_| field("if-range").is_none_or(|t| Some(t) == tag.as_deref()))
        .and_then(|range| part(range, body.len()));
    let (status, from, to) = match asked_for_part {
        Some((from, to)) => {
            fields += &format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, body.len());
            ("206 Partial Content", from, to)
        }
        None => ("200 OK", 0, body.len()),
    };
    let chunked = url.is_chunked();
    fields += &match chunked {
        true => "Transfer-Encoding: chunked\r\n".to_owned(),
        false => format!("Content-Length: {}\r\n", to - from),
    };
    let head = format!("HTTP/1.1 {status}\r\n{fields}\r\n");
    let mut out = head.into_bytes();
    if request.method == "HEAD" {
        return stream.write_all(&out).await;
    }
    let pace = field(PACE).and_then(|ms| ms.parse().ok());
    let pace = pace.map(|ms: u64| Duration::from_millis(ms.min(PACE_MS_MAX)));
    let mut at = from;
    while at < to {
        let n = (to - at).min(SEND_BYTES as u64) as usize;
        if chunked {
            out.extend_from_slice(format!("{n:x}\r\n").as_bytes());
        }
        let start = out.len();
        out.resize(start + n, 0);
        body.fill(at, &mut out[start..]);
        if chunked {
            out.extend_from_slice(b"\r\n");
        }
        stream.write_all(&out).await?;
        out.clear();
        at += n as u64;
        if let Some(pace) = pace {
            tokio::time::sleep(pace).await;
        }
    }
    if chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    stream.write_all(&out).await?;
    if url.kind != Kind::Unstored {
        ledger.sent(to - from);
    }
    Ok(())
}

fn common_fields(
    url: &Url,
    version: u64,
    variant: Variant,
    tag: Option<&str>,
    date: &str,
) -> String {
    let fresh = match url.kind {
        Kind::Unstored => "no-store".to_owned(),
        Kind::Brief => format!("max-age={}", BRIEF.as_secs()),
        Kind::Plain | Kind::Varied | Kind::Hostile | Kind::Lasting => LASTING.to_owned(),
    };
    let mut fields = format!(
        "Date: {date}\r\nCache-Control: {fresh}\r\nX-Torture: {} {version} {}\r\n",
        url.id,
        variant.name()
    );
    if url.kind == Kind::Varied {
        fields += "Vary: Accept-Encoding\r\n";
    }
    if variant == Variant::Gzip {
        fields += "Content-Encoding: gzip\r\n";
    }
    if let Some(tag) = tag {
        fields += &format!("ETag: {tag}\r\n");
    }
    fields
}

/// The range `bytes=a-b` of a body, as [from, to).
fn part(range: &str, bytes: u64) -> Option<(u64, u64)> {
    let (from, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let from: u64 = from.parse().ok()?;
    let to = match last {
        "" => bytes,
        last => last.parse::<u64>().ok()?.checked_add(1)?.min(bytes),
    };
    (from < to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_within_the_body() {
        assert_eq!(part("bytes=0-0", 10), Some((0, 1)));
        assert_eq!(part("bytes=3-", 10), Some((3, 10)));
        assert_eq!(part("bytes=3-99", 10), Some((3, 10)));
        for refused in ["bytes=10-", "bytes=5-3", "bytes=-4", "lines=1-2", ""] {
            assert_eq!(part(refused, 10), None, "{refused}");
        }
    }
}
