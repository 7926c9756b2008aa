//! A request head, from the first byte to the empty line.
//!
//! This is the proxy's hot path: one pass of httparse over the bytes, one walk over the field lines, one check of the
//! line ends, no allocation. A [`RequestView`] borrows from the connection's buffer; [`RequestView::to_owned`] is for
//! requests that outlive the buffer.
//!
//! An incomplete head is refused early if the fault is cheap to see: a first byte that cannot begin a method, a bare
//! LF, an unknown version, a target that is too long. A client that speaks another protocol thus gets its answer at once.
//!
//! Differences from RFC 9112, all of them stricter: bare LF is refused (§2.2 allows it), white space around the words
//! of the request line is refused (§3), a Host with no host in it is refused (§3.2 wants one for targets without
//! authority), several equal Content-Length values are refused (§6.3), bodies of CONNECT and TRACE are refused.
//! HTTP/1.2 and later minor versions are read as 1.1; other major versions are refused with 505.

use std::mem::MaybeUninit;

use fields::Fields;
use httparse::{Error, Header, Status};
use memchr::memchr;
use message::{Framing, METHOD_BYTES_MAX, RequestHead, Seen, Version, host_text, is_target};

use crate::framing::Facts;
use crate::limits::Limits;
use crate::lines;
use crate::reject::{Fault, Reject};

/// The number of field lines that need no allocation. Heads with more are rare: a browser sends twenty.
const AT_HAND: usize = 128;

/// The shortest field line: a letter, a colon, CRLF.
const LINE_BYTES_MIN: usize = 4;

/// Space for the field lines of one parse. It lies on the caller's stack and is not initialised.
pub struct Scratch<'b> {
    headers: [MaybeUninit<Header<'b>>; AT_HAND],
    /// Used for more field lines, and for a version that httparse does not support. Empty and unallocated for all other heads.
    more: Vec<Header<'b>>,
}

impl Scratch<'_> {
    /// Uninitialised space.
    #[inline]
    pub fn new() -> Self {
        Self {
            headers: [const { MaybeUninit::uninit() }; AT_HAND],
            more: Vec::new(),
        }
    }
}

impl<'b> Scratch<'b> {
    /// The space on the stack, and the vector for more.
    pub(crate) fn rooms(
        &mut self,
        limits: &Limits,
    ) -> (&mut [MaybeUninit<Header<'b>>], &mut Vec<Header<'b>>) {
        let at_hand = limits.fields_max.min(AT_HAND);
        (&mut self.headers[..at_hand], &mut self.more)
    }
}

/// Space for the greatest number of field lines that these bytes can contain.
#[cold]
pub(crate) fn room_for<'s, 'b>(
    bytes: &[u8],
    limits: &Limits,
    more: &'s mut Vec<Header<'b>>,
) -> &'s mut [Header<'b>] {
    let lines = limits.fields_max.min(bytes.len() / LINE_BYTES_MIN + 1);
    more.resize(lines, httparse::EMPTY_HEADER);
    more
}

/// Did a head not fit into the space on the stack, and may it have more lines?
pub(crate) fn needs_room<T>(parsed: &httparse::Result<T>, limits: &Limits) -> bool {
    matches!(parsed, Err(Error::TooManyHeaders)) && limits.fields_max > AT_HAND
}

impl Default for Scratch<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// A checked request head that borrows from the connection's buffer.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'s, 'b> {
    /// A token of at most [`METHOD_BYTES_MAX`] bytes, case-sensitive.
    pub method: &'b str,
    /// Visible ASCII without a fragment; [`crate::parse_target`] finds its form.
    pub target: &'b str,
    /// The version that the client states.
    pub version: Version,
    /// The known fields in the head.
    pub seen: Seen,
    /// The value of Host, valid as `uri-host [":" port]`. Always present in HTTP/1.1.
    pub host: Option<&'b str>,
    /// Never [`Framing::UntilClose`].
    pub framing: Framing,
    /// May the connection stay open after this request? An HTTP/1.0 client must ask for it, and must not use an
    /// absolute target, the form sent to a proxy.
    pub keep_alive: bool,
    /// The client waits for 100 (Continue) before it sends the body. False in HTTP/1.0 and without a body.
    pub expect_continue: bool,
    /// The length of the head in the buffer, empty lines before it included; the body begins here.
    pub head_bytes: usize,
    fields: &'s [Header<'b>],
}

impl<'s, 'b> RequestView<'s, 'b> {
    /// The field lines as (name, value) in order. Values have no white space around them.
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> + use<'s, 'b> {
        self.fields
            .iter()
            .map(|field| (field.name.as_bytes(), field.value))
    }

    /// The value of the first line of this name.
    pub fn first(&self, name: &[u8]) -> Option<&'b [u8]> {
        let is_name = |field: &&Header| field.name.as_bytes().eq_ignore_ascii_case(name);
        self.fields.iter().find(is_name).map(|field| field.value)
    }

    /// A copy of the field lines.
    pub fn to_fields(&self) -> Fields {
        to_fields(self.fields, self.head_bytes)
    }

    /// A copy that does not borrow from the buffer.
    pub fn to_owned(&self) -> RequestHead {
        RequestHead {
            method: self.method.to_owned(),
            target: self.target.to_owned(),
            version: self.version,
            fields: self.to_fields(),
            seen: self.seen,
            host: self.host.map(str::to_owned),
            framing: self.framing,
            keep_alive: self.keep_alive,
            expect_continue: self.expect_continue,
        }
    }
}

/// Parses the request head at the start of `buf`.
///
/// `Ok(None)` means that more bytes are needed, and that `buf` is shorter than `limits.head_bytes_max`; see
/// [`crate::scan_end`] for when to parse again. At most that many bytes are examined.
///
/// # Errors Always [`Reject::Request`]: answer with its status and close, because it is unknown where the next request
/// begins.
#[inline]
pub fn parse_request<'s, 'b>(
    buf: &'b [u8],
    limits: &Limits,
    scratch: &'s mut Scratch<'b>,
) -> Result<Option<RequestView<'s, 'b>>, Reject> {
    parse(buf, limits, scratch).map_err(Reject::Request)
}

fn parse<'s, 'b>(
    buf: &'b [u8],
    limits: &Limits,
    scratch: &'s mut Scratch<'b>,
) -> Result<Option<RequestView<'s, 'b>>, Fault> {
    let window = &buf[..buf.len().min(limits.head_bytes_max)];
    let skipped = lines::leading_empty_lines(window)?;
    let bytes = &window[skipped..];

    let mut request = httparse::Request::new(&mut []);
    let (at_hand, more) = scratch.rooms(limits);
    let mut parsed = request.parse_with_uninit_headers(bytes, at_hand);
    if needs_room(&parsed, limits) {
        request = httparse::Request::new(room_for(bytes, limits, more));
        parsed = request.parse(bytes);
    } else if parsed == Err(Error::Version) {
        parsed = parse_later_minor(&mut request, bytes, limits, more);
    }
    let head = match parsed {
        Ok(Status::Complete(len)) => &bytes[..len],
        Ok(Status::Partial) => {
            judge_part(bytes, limits)?;
            return if window.len() < limits.head_bytes_max {
                Ok(None)
            } else {
                Err(too_large(bytes))
            };
        }
        Err(error) => return Err(fault_of(error, request.method.is_some(), bytes)),
    };
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err(Fault::StartLine);
    };
    let version = lines::version(request.version);
    let fields: &'s [Header<'b>] = request.headers;

    if !lines::ends_are_strict(head) {
        return Err(Fault::LineEnd);
    }
    if method.len() > METHOD_BYTES_MAX {
        return Err(Fault::MethodTooLong);
    }
    if target.len() > limits.target_bytes_max {
        return Err(Fault::TargetTooLong);
    }
    if !is_target(target.as_bytes()) {
        return Err(Fault::Target);
    }
    let facts = Facts::gather(fields)?;
    let framing = framing(&facts, version, method)?;
    Ok(Some(RequestView {
        method,
        target,
        version,
        seen: facts.seen,
        host: host(&facts, version)?,
        framing,
        keep_alive: keep_alive(&facts, version, target),
        expect_continue: expects_continue(&facts, version, framing),
        head_bytes: skipped + head.len(),
        fields,
    }))
}

/// Parses the head of a request in HTTP/1.2 or a later minor version, which httparse refuses with [`Error::Version`].
//= rfc9110 §2.5   a higher minor version of the same major one is read as the highest that we know
#[cold]
fn parse_later_minor<'s, 'b>(
    request: &mut httparse::Request<'s, 'b>,
    bytes: &'b [u8],
    limits: &Limits,
    space: &'s mut Vec<Header<'b>>,
) -> httparse::Result<usize> {
    // Parse a copy of the request line that says HTTP/1.1; the buffer itself is read-only.
    let word_at = memchr::memmem::find(bytes, b" HTTP/1.").map_or(bytes.len(), |at| at + 1);
    let (line, rest) = bytes.split_at(word_at.min(bytes.len()));
    if !lines::is_later_minor(rest) {
        return Err(Error::Version);
    }
    let copy = [line, b"HTTP/1.1\r\n\r\n"].concat();
    let mut as_known = httparse::Request::new(&mut []);
    if as_known.parse(&copy)?.is_partial() {
        return Err(Error::Version);
    }
    let text = |len, at: usize| std::str::from_utf8(&bytes[at..at + len]).ok();
    let method_len = as_known.method.map_or(0, str::len);
    let target_len = as_known.path.map_or(0, str::len);
    request.method = text(method_len, 0);
    request.path = text(target_len, method_len + 1);
    request.version = Some(1);
    match &rest[lines::MINOR_AT + 1..] {
        [] | [b'\r'] => Ok(Status::Partial),
        [b'\r', b'\n', fields @ ..] => {
            let room = room_for(fields, limits, space);
            let parsed = httparse::parse_headers(fields, room)?;
            let Status::Complete((len, headers)) = parsed else {
                return Ok(Status::Partial);
            };
            let count = headers.len();
            request.headers = &mut space[..count];
            Ok(Status::Complete(bytes.len() - fields.len() + len))
        }
        _ => Err(Error::NewLine),
    }
}

//= rfc9112 §3.2   missing in HTTP/1.1, more than one, or invalid: 400
#[inline]
fn host<'b>(facts: &Facts<'b>, version: Version) -> Result<Option<&'b str>, Fault> {
    if !facts.seen.contains(Seen::HOST) {
        return if version == Version::Http10 {
            Ok(None)
        } else {
            Err(Fault::HostMissing)
        };
    }
    if facts.repeated.contains(Seen::HOST) {
        return Err(Fault::HostRepeated);
    }
    host_text(facts.host).map(Some).ok_or(Fault::HostInvalid)
}

#[inline]
fn framing(facts: &Facts, version: Version, method: &str) -> Result<Framing, Fault> {
    if !facts
        .seen
        .intersects(Seen::CONTENT_LENGTH.union(Seen::TRANSFER_ENCODING))
    {
        return Ok(Framing::None);
    }
    //= rfc9112 §6.1   a server may reject a request that contains both; we do
    if facts.has_length_and_coding() {
        return Err(Fault::LengthAndCoding);
    }
    if facts.repeated.contains(Seen::CONTENT_LENGTH) {
        return Err(Fault::ContentLengthRepeated);
    }
    //= rfc9112 §6.1   Transfer-Encoding in HTTP/1.0: the framing is faulty
    if facts.seen.contains(Seen::TRANSFER_ENCODING) && version == Version::Http10 {
        return Err(Fault::CodingInHttp10);
    }
    let framing = if facts.is_chunked()? {
        Framing::Chunked
    } else {
        facts
            .content_length()?
            .map_or(Framing::None, Framing::Length)
    };
    //= rfc9110 §9.3.6   CONNECT has no content: bytes behind it belong to the tunnel
    //= rfc9110 §9.3.8   a client must not send content in TRACE
    let bodiless = matches!(method, "CONNECT" | "TRACE");
    if bodiless && !matches!(framing, Framing::None | Framing::Length(0)) {
        return Err(Fault::BodyForbidden);
    }
    Ok(framing)
}

#[inline]
fn keep_alive(facts: &Facts, version: Version, target: &str) -> bool {
    //= rfc9112 §9.3   close; else HTTP/1.1; else keep-alive, unless we are its proxy
    !facts.close && (version == Version::Http11 || (facts.keep_alive && target.starts_with('/')))
}

//= rfc9110 §10.1.1   100-continue in an HTTP/1.0 request, or without content, is ignored
#[inline]
fn expects_continue(facts: &Facts, version: Version, framing: Framing) -> bool {
    facts.seen.contains(Seen::EXPECT)
        && version == Version::Http11
        && !matches!(framing, Framing::None | Framing::Length(0))
        && facts.expect.eq_ignore_ascii_case(b"100-continue")
}

/// Refuses a partial head that no further bytes can make valid. httparse has found no fault so far.
#[cold]
fn judge_part(part: &[u8], limits: &Limits) -> Result<(), Fault> {
    if !lines::ends_are_strict_so_far(part) {
        return Err(Fault::LineEnd);
    }
    let method_len = memchr(b' ', part).unwrap_or(part.len());
    if method_len > METHOD_BYTES_MAX {
        return Err(Fault::MethodTooLong);
    }
    let rest = part.get(method_len + 1..).unwrap_or_default();
    let target_len = memchr(b' ', rest).unwrap_or(rest.len());
    if target_len > limits.target_bytes_max {
        return Err(Fault::TargetTooLong);
    }
    Ok(())
}

fn too_large(part: &[u8]) -> Fault {
    if lines::has_line(part) {
        Fault::HeadTooLarge
    } else {
        Fault::TargetTooLong
    }
}

#[cold]
fn fault_of(error: Error, has_method: bool, bytes: &[u8]) -> Fault {
    match error {
        Error::HeaderName => Fault::FieldName,
        Error::HeaderValue => Fault::FieldValue,
        Error::NewLine => Fault::LineEnd,
        Error::TooManyHeaders => Fault::TooManyFields,
        Error::Version => version_fault(bytes),
        Error::Token if has_method => Fault::Target,
        Error::Token | Error::Status => Fault::StartLine,
    }
}

/// Is the third word, as far as it has arrived, a version?
//= rfc9110 §15.6.6   505: a major version that the server does not support
fn version_fault(bytes: &[u8]) -> Fault {
    let word = bytes.splitn(3, |&b| b == b' ').nth(2).unwrap_or_default();
    let is_version = word.iter().take(9).enumerate().all(|(at, byte)| match at {
        5 | 7 => byte.is_ascii_digit(),
        _ => *byte == b"HTTP/#.#\r"[at],
    });
    if is_version {
        Fault::Version
    } else {
        Fault::StartLine
    }
}

/// Room for lines that are added before a message is forwarded: X-Forwarded-For and the like, Via.
const ROOM_LINES: usize = 4;
const ROOM_BYTES: usize = 128;

pub(crate) fn to_fields(lines: &[Header<'_>], head_bytes: usize) -> Fields {
    // A blank is written after each colon, which the message may not have.
    let bytes = head_bytes + lines.len() + ROOM_BYTES;
    let mut fields = Fields::with_capacity(lines.len() + ROOM_LINES, bytes);
    for line in lines {
        fields.push(line.name.as_bytes(), line.value);
    }
    fields
}

#[cfg(test)]
mod tests;
