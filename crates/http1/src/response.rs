//! A response head, from the first byte to the empty line.
//!
//! Responses come from origins on misses and go into the cache, so the head is copied out at once. What is
//! ambiguous is refused, and the client gets 502. Two things are healed. Several Content-Length lines with the very same
//! digits become one, as RFC 9110 §8.6 allows. White space between a name and its colon goes, as RFC 9112 §5.1 demands; but
//! where the name is one that says how long the body is, readers that take the line and readers that do not would part
//! ways, so there it is refused.
//!
//! A response that cannot have a body but announces one (204 with Content-Length: 5, say) is taken without a
//! body, and its connection is not used again: whatever follows is not a response of ours.

use fields::Fields;
use httparse::{Error, Header, Status};
use message::{Seen, Version};

use crate::framing::Facts;
use crate::request::{Scratch, to_fields};
use crate::{Fault, Framing, Limits, Reject, lines};

/// A response head.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase as it came; empty if there was none or it was not ASCII.
    pub reason: String,
    /// As the origin says.
    pub version: Version,
    /// The field lines as they came, repeated equal Content-Length lines joined.
    pub fields: Fields,
    /// Where the body ends. A response that ends with the connection may be cut short without a sign.
    pub framing: Framing,
    /// May the connection be used again behind this response? Never with [`Framing::UntilClose`].
    pub keep_alive: bool,
    /// The length of the head in the buffer; the body begins here.
    pub head_bytes: usize,
}

/// Parses the response head at the start of `buf`. `to` is the method of the request this answers: HEAD and
/// CONNECT have no body. Heads of 1xx are returned like others, with [`Framing::None`].
///
/// `Ok(None)` means that more bytes are needed, and that `buf` is shorter than `limits.head_bytes_max`; see
/// [`crate::scan_end`]. At most that many bytes are looked at.
///
/// # Errors
/// Always [`Reject::Response`]: close the connection to the origin, answer the client with 502.
pub fn parse_response(
    buf: &[u8],
    limits: &Limits,
    to: &str,
) -> Result<Option<ResponseHead>, Reject> {
    parse(buf, limits, to).map_err(Reject::Response)
}

fn parse(buf: &[u8], limits: &Limits, to: &str) -> Result<Option<ResponseHead>, Fault> {
    let bytes = &buf[..buf.len().min(limits.head_bytes_max)];
    // httparse would skip empty lines; before a response there are none.
    if let Some(b'\r' | b'\n') = bytes.first() {
        return Err(Fault::LineEnd);
    }
    let mut scratch = Scratch::new();
    let mut response = httparse::Response::new(&mut []);
    //= rfc9112 §5.1   a proxy MUST remove any such whitespace from a response message
    let parsed = httparse::ParserConfig::default()
        .allow_spaces_after_header_name_in_responses(true)
        .parse_response_with_uninit_headers(&mut response, bytes, scratch.lines(limits));
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
    Ok(Some(ResponseHead {
        status,
        reason: response.reason.unwrap_or_default().to_owned(),
        version,
        fields: own_fields(response.headers, &facts, head_bytes),
        framing,
        keep_alive: is_sound && framing != Framing::UntilClose && keep_alive(&facts, version),
        head_bytes,
    }))
}

/// Does white space stand behind the name of a field of `bytes` that says where the body ends?
fn hides_length(line: &Header<'_>, bytes: &[u8]) -> bool {
    let name = line.name.as_bytes();
    // The name lies in `bytes`: httparse copies nothing.
    let end = name.as_ptr() as usize - bytes.as_ptr() as usize + name.len();
    let decides = Seen::CONTENT_LENGTH.union(Seen::TRANSFER_ENCODING);
    bytes.get(end) != Some(&b':') && Seen::of(name).intersects(decides)
}

/// The framing, and whether what was announced agrees with it.
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
