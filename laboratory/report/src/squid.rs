//! Squid's native access.log: one line becomes one [`Record`].
//!
//! ```text
//! 1700000000.123    45 192.0.2.7 TCP_MISS/200 1234 GET http://example.org/ - HIER_DIRECT/192.0.2.80 text/html
//! end, s            |  client    |        |   |    |   |                  user |           |          content type
//!                   ms           code     |   |    |   URL                     hierarchy   server
//!                                         |   |    method
//!                                         |   bytes sent, head included
//!                                         status
//! ```
//!
//! The time is that of the *end*, in steps of 1 ms, so a request began at end - elapsed. Three more fields contain the stages of the
//! server's side; a line that has them was written with [`LOGFORMAT`]. Fields after the known ones are ignored.
//!
//! Result codes consist of words (`TCP_REFRESH_UNMODIFIED_ABORTED`), and are parsed as such ([`class_of`]).
//!
//! Not known here: files, line numbers, the use of the records.
//! Limits: none of its own; the caller bounds the length of a line.

use crate::asked::Asked;
use profile::{Class, Flags, Hierarchy, Method, Names, Record, Stage, StageName};
use twox_hash::XxHash3_64;

/// The native format with three more fields, which other programs ignore: the time for DNS (`%dt`), from the last byte of the request to
/// the last of the server's reply (`%<pt`), and from the begin of connecting (`%<tt`).
pub const LOGFORMAT: &str =
    "logformat loligo %ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt %dt %<pt %<tt";

/// The stages in a line of [`LOGFORMAT`].
pub const STAGES: [StageName; 3] = [
    StageName::Dns,
    StageName::ProxyConnect,
    StageName::ServerReply,
];

/// The content of a line.
// Only one is on the stack at a time; a box would be an allocation for each line.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Debug)]
pub enum Line<'a> {
    /// A request.
    Request {
        /// Its names are hashes of the URL, the client's address, and the URL's host and port.
        record: Record,
        /// The line has the fields of [`LOGFORMAT`].
        has_stages: bool,
        /// The names themselves.
        asked: Asked<'a>,
    },
    /// A query by ICP or HTCP (`UDP_...`): another proxy asked whether this one has an object.
    Query {
        /// The proxy had the object.
        is_hit: bool,
    },
    /// An empty line, or a comment.
    Empty,
}

/// Why a line is not one of Squid's log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line has fewer than ten fields.
    #[error("has {0} fields of 10; is this Squid's native format?")]
    TooShort(usize),
    /// The first field is not a time.
    #[error("\"{0}\" is no time in seconds since 1970")]
    Time(String),
    /// The second field is not a time.
    #[error("\"{0}\" is no time in milliseconds")]
    Elapsed(String),
    /// The fourth field has no `/`, or no number after it.
    #[error("\"{0}\" is no result code and status, such as TCP_HIT/200")]
    Result(String),
    /// The words of the result code are not known.
    #[error("result code \"{0}\" is not known")]
    Code(String),
    /// The fifth field is not a number.
    #[error("\"{0}\" is no number of bytes")]
    Bytes(String),
}

/// Parses a line, without its line end.
///
/// # Errors
/// If it is not a line of Squid's log.
pub fn parse(line: &[u8]) -> Result<Line<'_>, LineError> {
    let mut fields = line
        .split(|&b| b == b' ' || b == b'\t' || b == b'\r')
        .filter(|field| !field.is_empty());
    let mut first = [&[][..]; FIELDS];
    let mut found = 0;
    for (place, field) in first.iter_mut().zip(&mut fields) {
        *place = field;
        found += 1;
    }
    let [
        time,
        elapsed,
        client,
        result,
        bytes,
        method,
        url,
        _user,
        server,
        content_type,
        more @ ..,
    ] = first;
    if found == 0 || time.starts_with(b"#") {
        return Ok(Line::Empty);
    }
    if found < NATIVE_FIELDS {
        return Err(LineError::TooShort(found));
    }
    let end_us = time_us(time).ok_or_else(|| LineError::Time(shown(time)))?;
    let elapsed_ms: u64 = number(elapsed).ok_or_else(|| LineError::Elapsed(shown(elapsed)))?;
    let (code, status) = split(result).ok_or_else(|| LineError::Result(shown(result)))?;
    let status: u16 = number(status).ok_or_else(|| LineError::Result(shown(result)))?;
    if code.starts_with(b"UDP_") {
        let is_hit = code.starts_with(b"UDP_HIT");
        return Ok(Line::Query { is_hit });
    }
    let method = Method::of(method);
    let (class, flags) =
        class_of(code, status, method).ok_or_else(|| LineError::Code(shown(code)))?;
    let bytes_out = number(bytes).ok_or_else(|| LineError::Bytes(shown(bytes)))?;
    let total_us = elapsed_ms.saturating_mul(1000);
    let mut record = Record::begun(end_us.saturating_sub(total_us));
    record.total_us = u32::try_from(total_us).unwrap_or(u32::MAX);
    record.class = class;
    record.status = status;
    record.method = method;
    record.bytes_out = bytes_out;
    let asked = split(server).map_or(server, |(code, _)| code);
    record.hierarchy = hierarchy(asked);
    record.flags = flags.with(Flags::PEER_HIT, says_hit(asked));
    record.names = Some(names(url, client, record.hierarchy));
    let has_stages = found == FIELDS && set_stages(&mut record, [more[0], more[1], more[2]]);
    Ok(Line::Request {
        record,
        has_stages,
        asked: Asked {
            url,
            host: authority(url),
            content_type,
        },
    })
}

const NATIVE_FIELDS: usize = 10;
const FIELDS: usize = NATIVE_FIELDS + STAGES.len();

/// Class and flags of a result code; `None` if it is not known.
///
/// Squid does not distinguish uncachable responses from other misses. A code ends with `_ABORTED` if the client closed the connection, and
/// with `_TIMEDOUT` if the server's answer was not complete in time.
pub fn class_of(code: &[u8], status: u16, method: Method) -> Option<(Class, Flags)> {
    let code = std::str::from_utf8(code).ok()?;
    let mut words: Vec<&str> = code.split('_').collect();
    let mut flags = Flags::default();
    loop {
        match words.last() {
            Some(&"ABORTED") => flags |= Flags::CLIENT_ABORTED,
            Some(&"TIMEDOUT") => flags |= Flags::ORIGIN_ABORTED,
            _ => break,
        }
        words.pop();
    }
    let (&first, words) = words.split_first()?;
    if first != "TCP" && first != "NONE" && first != "TAG" {
        return None;
    }
    let has = |word: &str| words.contains(&word);
    let validated = |class| (class, flags | Flags::VALIDATED);
    let stale = || (Class::Stale, flags | Flags::STALE);
    let found = if first == "NONE" || has("NONE") || has("DENIED") || has("REDIRECT") {
        (Class::Error, flags)
    } else if has("TUNNEL") || method == Method::Connect {
        (Class::Tunnel, flags)
    } else if has("CF") {
        (Class::Collapsed, flags)
    } else if has("STALE") || has("OFFLINE") || (has("REF") && has("FAIL")) {
        stale()
    } else if has("REFRESH") && has("FAIL") {
        // _OLD: the stale copy was sent; _ERR: the error, which is neither hit nor miss.
        if has("ERR") {
            validated(Class::Error)
        } else {
            stale()
        }
    } else if has("REFRESH")
        && !has("CLIENT")
        && (has("UNMODIFIED") || has("HIT") || has("IGNORED"))
    {
        validated(if status == 304 {
            Class::ImsHit
        } else {
            Class::Revalidated
        })
    } else if has("REFRESH") && (has("MODIFIED") || has("MISS") || has("CLIENT")) {
        // CLIENT_REFRESH_MISS: the client said no-cache, so nothing was validated.
        if has("CLIENT") {
            (Class::Miss, flags)
        } else {
            validated(Class::Miss)
        }
    } else if has("NEGATIVE") {
        (Class::NegativeHit, flags)
    } else if (has("IMS") || has("INM")) && has("HIT") {
        (Class::ImsHit, flags)
    } else if has("MEM") && has("HIT") {
        (Class::MemoryHit, flags)
    } else if has("HIT") {
        (Class::DiskHit, flags)
    } else if has("MISS") || has("SWAPFAIL") {
        (Class::Miss, flags)
    } else {
        return None;
    };
    Some(found)
}

fn hierarchy(code: &[u8]) -> Hierarchy {
    let code = code.strip_prefix(b"TIMEOUT_").unwrap_or(code);
    let ends = |with: &[u8]| code.ends_with(with);
    if ends(b"NONE") || code == b"-" {
        Hierarchy::None
    } else if code.windows(7).any(|word| word == b"SIBLING") {
        Hierarchy::Sibling
    } else if ends(b"DIRECT") || code == b"ORIGINAL_DST" || code == b"PINNED" {
        Hierarchy::Direct
    } else {
        Hierarchy::Parent
    }
}

/// Whether the peer had said that it has the object, by ICP, HTCP or its digest: `SIBLING_HIT`, `CD_PARENT_HIT`, `PARENT_UDP_HIT_OBJ`.
/// The log does not say what a peer had if it was not asked.
fn says_hit(code: &[u8]) -> bool {
    code.ends_with(b"_HIT") || code.windows(8).any(|word| word == b"_UDP_HIT")
}

fn names(url: &[u8], client: &[u8], hierarchy: Hierarchy) -> Names {
    let server = if hierarchy == Hierarchy::None {
        0
    } else {
        XxHash3_64::oneshot(authority(url)) as u32
    };
    Names {
        key: XxHash3_64::oneshot(url),
        client: XxHash3_64::oneshot(client) as u32,
        server,
    }
}

/// Host and port of a URL; of a CONNECT, the whole target.
fn authority(url: &[u8]) -> &[u8] {
    let rest = match url.windows(3).position(|three| three == b"://") {
        Some(at) => &url[at + 3..],
        None => url,
    };
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#'));
    &rest[..end.unwrap_or(rest.len())]
}

/// Sets DNS, connect and reply one after the other; the log does not say when they began. False if one of the fields is not a time.
fn set_stages(record: &mut Record, [dns, reply, total]: [&[u8]; 3]) -> bool {
    let time_us = |field: &[u8]| match field {
        b"-" => Some(None),
        field => number::<u64>(field).map(|ms| Some(ms.saturating_mul(1000))),
    };
    let [Some(dns), Some(reply), Some(total)] = [time_us(dns), time_us(reply), time_us(total)]
    else {
        return false;
    };
    let mut at_us = 0;
    let mut set = |name, length_us: u64| {
        let fits = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
        let start_us = fits(at_us).min(record.total_us);
        let total_us = fits(length_us).min(record.total_us - start_us);
        at_us = at_us.saturating_add(length_us);
        let stage = Stage {
            start_us,
            first_us: total_us,
            total_us,
        };
        record.set_stage(name, stage);
    };
    if let Some(dns) = dns {
        set(StageName::Dns, dns);
    }
    if let Some(total) = total {
        let reply = reply.unwrap_or(0).min(total);
        set(StageName::ProxyConnect, total - reply);
    }
    if let Some(reply) = reply {
        set(StageName::ServerReply, reply);
    }
    true
}

/// Parses seconds with up to six decimals into microseconds.
fn time_us(field: &[u8]) -> Option<u64> {
    let mut parts = field.splitn(2, |&b| b == b'.');
    let seconds: u64 = number(parts.next()?)?;
    let fraction_us = match parts.next() {
        None => 0,
        Some(digits) if (1..=6).contains(&digits.len()) => {
            number::<u64>(digits)? * 10u64.pow(6 - digits.len() as u32)
        }
        Some(_) => return None,
    };
    seconds.checked_mul(1_000_000)?.checked_add(fraction_us)
}

/// Parses a number that consists of digits only.
fn number<N: std::str::FromStr>(field: &[u8]) -> Option<N> {
    let is_number = field.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(field).ok()?.parse().ok())?
}

/// Splits at the first `/`.
fn split(field: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = field.iter().position(|&b| b == b'/')?;
    Some((&field[..at], &field[at + 1..]))
}

/// A field for a message: shortened, and without control characters.
fn shown(field: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 40;
    let text = String::from_utf8_lossy(field);
    let safe = text.chars().map(|c| if c.is_control() { '?' } else { c });
    let mut out: String = safe.take(CHARACTERS_MAX).collect();
    if text.chars().count() > CHARACTERS_MAX {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
