//! A response head, from the first byte to the empty line.
//!
//! Responses come from origins on misses and go into the cache, so the head is copied out at once. An ambiguous head
//! is refused, and the client gets 502. Two faults are repaired. Several Content-Length lines with exactly the same
//! digits become one, as RFC 9110 §8.6 allows. White space between a name and its colon is removed, as RFC 9112 §5.1
//! demands, except after Content-Length and Transfer-Encoding: readers that accept such a line and readers that skip
//! it would disagree on the length of the body, so the head is refused.
//!
//! For hosts that the operator names, two more are repaired before the head is parsed (`lenient`).
//!
//! A response that cannot have a body but announces one (204 with Content-Length: 5, say) is read without a body, and
//! its connection is not used again: the bytes that follow may not be the next answer.

use fields::Fields;
use httparse::{Error, Header, Status};
use message::{Framing, ResponseHead, Seen, Version};

use crate::framing::Facts;
use crate::lenient::written_anew;
use crate::limits::Limits;
use crate::lines;
use crate::reject::{Fault, Reject};
use crate::request::{Scratch, needs_room, room_for, to_fields};

/// Parses the response head at the start of `buf`, and returns its length; the body begins after it. `to`: the method of the
/// request, because responses to HEAD and CONNECT have no body. 1xx heads are returned like others, with [`Framing::None`].
///
/// `Ok(None)` means that more bytes are needed, and that `buf` is shorter than `limits.head_bytes_max`; see
/// [`crate::scan_end`]. At most that many bytes are examined.
///
/// # Errors
/// Always [`Reject::Response`]: close the connection to the origin, answer the client with 502.
pub fn parse_response(
    buf: &[u8],
    limits: &Limits,
    to: &str,
) -> Result<Option<(ResponseHead, usize)>, Reject> {
    match parse(buf, limits, to) {
        Err(fault) if limits.lenient.is_any() => parse_leniently(buf, limits, to, fault),
        parsed => parsed,
    }
    .map_err(Reject::Response)
}

/// Parses a head that the strict parser refused. `fault`: why.
#[cold]
fn parse_leniently(
    buf: &[u8],
    limits: &Limits,
    to: &str,
    fault: Fault,
) -> Result<Option<(ResponseHead, usize)>, Fault> {
    let is_of_lines = matches!(fault, Fault::LineEnd | Fault::FieldName | Fault::FieldValue);
    if !is_of_lines || matches!(buf.first(), Some(b'\r' | b'\n')) {
        return Err(fault);
    }
    let bytes = &buf[..buf.len().min(limits.head_bytes_max)];
    let Some(end) = lines::scan_end(bytes, 0) else {
        return match bytes.len() < limits.head_bytes_max {
            true => Ok(None),
            false => Err(Fault::HeadTooLarge),
        };
    };
    let anew = written_anew(&bytes[..end], limits.lenient);
    let limits = Limits {
        head_bytes_max: anew.len(),
        ..*limits
    };
    let (head, head_bytes) = parse(&anew, &limits, to)?.ok_or(fault)?;
    // Otherwise the parser sees another end of the head than `scan_end`.
    match head_bytes == anew.len() {
        true => Ok(Some((head, end))),
        false => Err(fault),
    }
}

fn parse(buf: &[u8], limits: &Limits, to: &str) -> Result<Option<(ResponseHead, usize)>, Fault> {
    let bytes = &buf[..buf.len().min(limits.head_bytes_max)];
    // httparse would skip empty lines, which are not allowed before a response.
    if let Some(b'\r' | b'\n') = bytes.first() {
        return Err(Fault::LineEnd);
    }
    let mut scratch = Scratch::new();
    let (at_hand, more) = scratch.rooms(limits);
    let mut response = httparse::Response::new(&mut []);
    //= rfc9112 §5.1   a proxy MUST remove any such whitespace from a response message
    let mut config = httparse::ParserConfig::default();
    config.allow_spaces_after_header_name_in_responses(true);
    let mut parsed = config.parse_response_with_uninit_headers(&mut response, bytes, at_hand);
    if needs_room(&parsed, limits) {
        response = httparse::Response::new(room_for(bytes, limits, more));
        parsed = config.parse_response(&mut response, bytes);
    }
    let head_bytes = match parsed {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) if !lines::ends_are_strict_so_far(bytes) => return Err(Fault::LineEnd),
        Ok(Status::Partial) if bytes.len() < limits.head_bytes_max => return Ok(None),
        Ok(Status::Partial) => return Err(Fault::HeadTooLarge),
        Err(Error::Version) if lines::is_later_minor(bytes) => {
            //= rfc9110 §2.5   a higher minor version of the same major one is read as the highest that we know
            let mut as_known = bytes.to_vec();
            as_known[lines::MINOR_AT] = b'1';
            return parse(&as_known, limits, to);
        }
        Err(error) => return Err(fault_of(error)),
    };
    if !lines::ends_are_strict(&bytes[..head_bytes]) {
        return Err(Fault::LineEnd);
    }
    if response
        .headers
        .iter()
        .any(|line| hides_length(line, bytes))
    {
        return Err(Fault::FieldName);
    }
    let status = response
        .code
        .filter(|code| *code >= 100)
        .ok_or(Fault::StatusCode)?;
    let version = lines::version(response.version);
    let facts = Facts::gather(response.headers)?;
    let (framing, is_sound) = framing(&facts, version, status, to)?;
    let head = ResponseHead {
        status,
        reason: response.reason.unwrap_or_default().to_owned(),
        version,
        fields: own_fields(response.headers, &facts, head_bytes),
        framing,
        keep_alive: is_sound && framing != Framing::UntilClose && keep_alive(&facts, version),
    };
    Ok(Some((head, head_bytes)))
}

/// Is the field Content-Length or Transfer-Encoding, with white space after its name?
fn hides_length(line: &Header<'_>, bytes: &[u8]) -> bool {
    let name = line.name.as_bytes();
    // The name lies in `bytes`, because httparse copies nothing.
    let end = name.as_ptr() as usize - bytes.as_ptr() as usize + name.len();
    let decides = Seen::CONTENT_LENGTH.union(Seen::TRANSFER_ENCODING);
    bytes.get(end) != Some(&b':') && Seen::of(name).intersects(decides)
}

/// The framing, and whether the framing fields agree with it.
fn framing(
    facts: &Facts,
    version: Version,
    status: u16,
    to: &str,
) -> Result<(Framing, bool), Fault> {
    if facts.has_length_and_coding() {
        return Err(Fault::LengthAndCoding);
    }
    //= rfc9110 §8.6   several equal values may be taken for one; others are an error
    if facts.lengths_differ {
        return Err(Fault::ContentLengthRepeated);
    }
    //= rfc9112 §6.1   Transfer-Encoding in HTTP/1.0: the framing is faulty
    if facts.seen.contains(Seen::TRANSFER_ENCODING) && version == Version::Http10 {
        return Err(Fault::CodingInHttp10);
    }
    let is_chunked = facts.is_chunked()?;
    let length = facts.content_length()?;

    //= rfc9112 §6.3   no body, whatever the fields say
    if to == "HEAD" || status == 304 {
        return Ok((Framing::None, true));
    }
    if status < 200 || status == 204 || (to == "CONNECT" && status < 300) {
        //= rfc9112 §6.1   a server must not send Transfer-Encoding with these
        let announces_body = is_chunked || length.is_some_and(|bytes| bytes > 0);
        return Ok((Framing::None, !announces_body));
    }
    let framing = match length {
        _ if is_chunked => Framing::Chunked,
        Some(bytes) => Framing::Length(bytes),
        None => Framing::UntilClose,
    };
    Ok((framing, true))
}

//= rfc9112 §9.3   close; else HTTP/1.1; else keep-alive
fn keep_alive(facts: &Facts, version: Version) -> bool {
    !facts.close && (version == Version::Http11 || facts.keep_alive)
}

fn own_fields(lines: &[Header<'_>], facts: &Facts, head_bytes: usize) -> Fields {
    let mut fields = to_fields(lines, head_bytes);
    if facts.repeated.contains(Seen::CONTENT_LENGTH) {
        fields.set(b"Content-Length", facts.length);
    }
    fields
}

fn fault_of(error: Error) -> Fault {
    match error {
        Error::HeaderName => Fault::FieldName,
        Error::HeaderValue => Fault::FieldValue,
        Error::NewLine => Fault::LineEnd,
        Error::TooManyHeaders => Fault::TooManyFields,
        Error::Version => Fault::Version,
        Error::Status | Error::Token => Fault::StartLine,
    }
}

#[cfg(test)]
mod tests;
