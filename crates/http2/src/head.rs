//! The head of a request or an answer, or trailers: fields out of HPACK, checked (RFC 9113 §8).
//!
//! A head that two parsers could read differently is refused, never repaired: an accepted head may be written as HTTP/1.1 without a
//! change of meaning. Rules that both versions have are those of `http1`.
//!
//! A connection has one [`HeadBuffer`], which keeps its memory from request to request; a [`RequestView`] borrows from it. A
//! plain request therefore allocates nothing.
//!
//! Not known here: streams, frames.   Limits: [`Limits`], counted as each field comes and before it is kept.

use std::ops::Range;

use fields::Fields;
use message::{
    Authority, METHOD_BYTES_MAX, Scheme, Seen, host_text, is_target, is_token, parse_content_length,
};

use crate::error::Fault;
use crate::hpack::{Field, Kind};
use crate::limits::Limits;
use crate::priority::Priority;

/// A request head, checked; borrowed from the connection.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// A token of at most [`METHOD_BYTES_MAX`] bytes, case-sensitive.
    pub method: &'a str,
    /// `None` for CONNECT without `:protocol`.
    pub scheme: Option<Scheme>,
    /// Host and port, valid as `uri-host [":" port]`; of `:authority`, else of Host. With a port for CONNECT.
    pub authority: &'a str,
    /// Begins with `/`, or is `*` for OPTIONS; visible ASCII without a fragment. Empty for CONNECT without `:protocol`.
    pub path: &'a str,
    /// `:protocol` of an extended CONNECT (RFC 8441), such as `websocket`; only where [`crate::Limits::extended_connect`] allows it.
    pub protocol: Option<&'a str>,
    /// The other fields, names in lower case. Crumbs of Cookie are one line; Host is there, and equal to `authority`.
    pub fields: &'a Fields,
    /// The known fields that are present.
    pub seen: Seen,
    /// The length of the body. `None` without `ends`: the body lasts until the stream ends.
    pub content_length: Option<u64>,
    /// There is no body.
    pub ends: bool,
    /// The client waits for 100 (Continue) before it sends the body.
    pub expect_continue: bool,
    /// The client takes trailers (`te: trailers`).
    pub takes_trailers: bool,
    /// The priority in the `priority` field, or the default.
    pub priority: Priority,
    /// Nearly the size of the head in HTTP/1: each field counts 4 bytes more than its text. Crumbs of Cookie are one field.
    pub head_bytes: usize,
}

/// The head of an answer, checked; borrowed from the connection.
#[derive(Clone, Copy, Debug)]
pub struct ResponseView<'a> {
    /// 100 to 999, not 101. Below 200: another head follows.
    pub status: u16,
    /// The fields, names in lower case.
    pub fields: &'a Fields,
    /// The length of the body, or of the body that GET would get. `None` without `ends`: the body lasts until the stream ends.
    pub content_length: Option<u64>,
    /// There is no body.
    pub ends: bool,
}

/// Bytes that a field adds to a head besides its text in HTTP/1: colon, blank, CRLF.
const LINE_BYTES: usize = 4;

/// Bytes that a further crumb of Cookie adds to its field besides its text.
const CRUMB_BYTES: usize = 2;

/// Which part of a message is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Request,
    Response,
    Trailers,
}

/// A head as it is read; its memory is used again for the next one.
#[derive(Default)]
pub(crate) struct HeadBuffer {
    fields: Fields,
    /// Texts of pseudo-fields.
    text: Vec<u8>,
    method: Option<Range<usize>>,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Option<Range<usize>>,
    status: Option<Range<usize>>,
    protocol: Option<Range<usize>>,
    /// Crumbs of Cookie, joined.
    cookie: Vec<u8>,
    seen: Seen,
    content_length: Option<u64>,
    host_lines: u32,
    expects: bool,
    takes_trailers: bool,
    priority: Priority,
    bytes: usize,
    /// Length of all decoded names and values, whether they are kept or not.
    read_bytes: usize,
    count: usize,
    has_regular: bool,
    fault: Option<Fault>,
}

impl HeadBuffer {
    pub(crate) fn begin(&mut self) {
        self.fields.clear();
        self.text.clear();
        self.cookie.clear();
        self.method = None;
        self.scheme = None;
        self.authority = None;
        self.path = None;
        self.status = None;
        self.protocol = None;
        self.seen = Seen::NONE;
        self.content_length = None;
        self.host_lines = 0;
        self.expects = false;
        self.takes_trailers = false;
        self.priority = Priority::default();
        self.bytes = 0;
        self.read_bytes = 0;
        self.count = 0;
        self.has_regular = false;
        self.fault = None;
    }

    /// Takes a field. After the first fault nothing is kept, but the block must be read to its end.
    #[inline]
    pub(crate) fn add(&mut self, field: Field<'_>, part: Part, limits: &Limits) {
        self.read_bytes += field.name.len() + field.value.len();
        if self.fault.is_some() {
            return;
        }
        let of_line = [
            Kind::Method,
            Kind::Scheme,
            Kind::Path,
            Kind::Protocol,
            Kind::Status,
        ];
        //= rfc9113 §8.2.3   crumbs of Cookie are one field, joined by "; "
        let is_crumb = field.kind == Kind::Cookie && self.seen.contains(Seen::COOKIE);
        self.bytes += field.value.len();
        self.bytes += match is_crumb {
            true => CRUMB_BYTES,
            false => field.name.len() + LINE_BYTES,
        };
        // Counts the lines that HTTP/1 would have: method, scheme and path are in the request line.
        self.count += usize::from(!is_crumb && !of_line.contains(&field.kind));
        let taken = if self.bytes > limits.head_bytes_max {
            Err(Fault::HeadTooLarge)
        } else if self.count > limits.fields_max {
            Err(Fault::TooManyFields)
        } else {
            self.take(field, part, limits)
        };
        self.fault = taken.err();
    }

    #[inline]
    fn take(&mut self, field: Field<'_>, part: Part, limits: &Limits) -> Result<(), Fault> {
        let Field {
            name,
            value,
            kind,
            seen,
        } = field;
        let slot = match kind {
            Kind::BadName => return Err(Fault::FieldName),
            Kind::BadValue => return Err(Fault::FieldValue),
            Kind::OfConnection => return Err(Fault::ConnectionField),
            //= rfc9113 §8.3   those of requests are in no answer, and the other way round
            Kind::Status if part != Part::Request => &mut self.status,
            Kind::Method if part != Part::Response => &mut self.method,
            Kind::Scheme if part != Part::Response => &mut self.scheme,
            Kind::Authority if part != Part::Response => &mut self.authority,
            Kind::Path if part != Part::Response => &mut self.path,
            Kind::Protocol if limits.extended_connect && part != Part::Response => {
                &mut self.protocol
            }
            Kind::OtherPseudo
            | Kind::Status
            | Kind::Method
            | Kind::Scheme
            | Kind::Authority
            | Kind::Path
            | Kind::Protocol => return Err(Fault::PseudoUnknown),
            //= rfc9113 §8.2.2   TE may be in a request, and nowhere else
            Kind::Te if part == Part::Response => return Err(Fault::ConnectionField),
            _ => return self.take_regular(name, value, kind, seen),
        };
        //= rfc9113 §8.3   pseudo-fields stand before other fields, each once, and never in trailers
        if self.has_regular || part == Part::Trailers {
            return Err(Fault::PseudoAfterField);
        }
        if slot.is_some() {
            return Err(Fault::PseudoRepeated);
        }
        let start = self.text.len();
        self.text.extend_from_slice(value);
        *slot = Some(start..self.text.len());
        Ok(())
    }

    #[inline]
    fn take_regular(
        &mut self,
        name: &[u8],
        value: &[u8],
        kind: Kind,
        seen: Seen,
    ) -> Result<(), Fault> {
        self.has_regular = true;
        let is_repeated = self.seen.intersects(seen);
        self.seen = self.seen | seen;
        match kind {
            Kind::Host => self.host_lines += 1,
            Kind::ContentLength => {
                if is_repeated {
                    return Err(Fault::ContentLength);
                }
                self.content_length =
                    Some(parse_content_length(value).ok_or(Fault::ContentLength)?);
            }
            //= rfc9113 §8.2.2   TE MUST NOT contain any value other than "trailers"
            Kind::Te => match !is_repeated && value.eq_ignore_ascii_case(b"trailers") {
                true => self.takes_trailers = true,
                false => return Err(Fault::Te),
            },
            Kind::Expect => self.expects |= value.eq_ignore_ascii_case(b"100-continue"),
            Kind::Priority => self.priority = self.priority.and_then(value),
            //= rfc9113 §8.2.3   crumbs are joined by "; " before they go where HTTP/2 is not
            Kind::Cookie => {
                if is_repeated {
                    self.cookie.extend_from_slice(b"; ");
                }
                self.cookie.extend_from_slice(value);
                return Ok(());
            }
            _ => {}
        }
        self.fields.push(name, value);
        Ok(())
    }

    /// Checks a complete block as a request. `ends`: the stream ends with it.
    pub(crate) fn finish_request(&mut self, ends: bool) -> Result<(), Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.seen.contains(Seen::COOKIE) {
            self.fields.push(b"cookie", &self.cookie);
        }
        let method = self.text_of(&self.method).ok_or(Fault::PseudoMissing)?;
        if !is_token(method.as_bytes()) || method.len() > METHOD_BYTES_MAX {
            return Err(Fault::Method);
        }
        let is_connect = method == "CONNECT";
        let is_options = method == "OPTIONS";
        //= rfc9113 §8.5   CONNECT has no :scheme and no :path;  rfc8441 §4   with :protocol it has both
        let is_tunnel = is_connect && self.protocol.is_none();
        if self.protocol.is_some() && !is_connect {
            return Err(Fault::Connect);
        }
        if is_tunnel && (self.scheme.is_some() || self.path.is_some()) {
            return Err(Fault::Connect);
        }
        if !is_tunnel {
            let scheme = self.text_of(&self.scheme).ok_or(Fault::PseudoMissing)?;
            Scheme::parse(scheme).ok_or(Fault::Scheme)?;
            let path = self.text_of(&self.path).ok_or(Fault::PseudoMissing)?;
            //= rfc9113 §8.3.1   :path starts with "/", or is "*" of OPTIONS
            let is_path = path.starts_with('/') && is_target(path.as_bytes());
            if !(is_path || (is_options && path == "*")) {
                return Err(Fault::Path);
            }
            if let Some(protocol) = self.text_of(&self.protocol)
                && !is_token(protocol.as_bytes())
            {
                return Err(Fault::Connect);
            }
        }
        if is_connect && (self.content_length.is_some() || (ends && is_tunnel)) {
            return Err(Fault::Connect);
        }
        if ends && self.content_length.is_some_and(|length| length > 0) {
            return Err(Fault::LengthDiffers);
        }
        self.settle_authority(is_tunnel)
    }

    /// Checks a complete block as a response head and returns its status. `ends`: the stream ends with it; `is_alone`: no body can follow.
    pub(crate) fn finish_response(&mut self, ends: bool, is_alone: bool) -> Result<u16, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.seen.contains(Seen::COOKIE) {
            self.fields.push(b"cookie", &self.cookie);
        }
        let status = self.text_of(&self.status).ok_or(Fault::PseudoMissing)?;
        //= rfc9113 §8.3.2   three digits;  §8.6   there is no 101
        let is_status = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        let status = status.parse().ok().filter(|_| is_status);
        let status: u16 = status
            .filter(|it| *it >= 100 && *it != 101)
            .ok_or(Fault::Status)?;
        if status < 200 && ends {
            return Err(Fault::HeadMissing);
        }
        let has_body = !is_alone && !matches!(status, 204 | 304);
        if ends && has_body && self.content_length.is_some_and(|length| length > 0) {
            return Err(Fault::LengthDiffers);
        }
        Ok(status)
    }

    //= rfc9113 §8.3.1   Host and :authority that differ: malformed; an intermediary writes Host from :authority
    fn settle_authority(&mut self, is_tunnel: bool) -> Result<(), Fault> {
        if self.host_lines > 1 {
            return Err(Fault::HostDiffers);
        }
        let host = self.fields.first(b"host");
        match (&self.authority, host) {
            (Some(range), Some(host)) if !self.text[range.clone()].eq_ignore_ascii_case(host) => {
                return Err(Fault::HostDiffers);
            }
            (None, Some(host)) if !is_tunnel => {
                let start = self.text.len();
                self.text.extend_from_slice(host);
                self.authority = Some(start..self.text.len());
            }
            (None, _) => return Err(Fault::AuthorityMissing),
            (Some(_), _) => {}
        }
        let has_host = host.is_some();
        let authority = self.authority.clone().unwrap_or_default();
        let text = host_text(&self.text[authority.clone()]).ok_or(Fault::Authority)?;
        if is_tunnel && Authority::parse(text).is_none_or(|authority| authority.port.is_none()) {
            return Err(Fault::Connect);
        }
        if !has_host {
            self.fields.push(b"host", &self.text[authority]);
            self.seen = self.seen | Seen::HOST;
        }
        Ok(())
    }

    /// Checks a complete block as trailers.
    pub(crate) fn finish_trailers(&mut self) -> Result<(), Fault> {
        match self.fault {
            Some(fault) => Err(fault),
            //= rfc9110 §6.5.1   fields of framing and routing have no place in trailers
            None if self.seen.intersects(Seen::HOST | Seen::CONTENT_LENGTH) => {
                Err(Fault::FieldName)
            }
            None => {
                if self.seen.contains(Seen::COOKIE) {
                    self.fields.push(b"cookie", &self.cookie);
                }
                Ok(())
            }
        }
    }

    /// Length of the names and values decoded so far.
    pub(crate) fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    pub(crate) fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    pub(crate) fn priority(&self) -> Priority {
        self.priority
    }

    /// Is the method HEAD, so that the answer has no body?
    pub(crate) fn is_head(&self) -> bool {
        self.text_of(&self.method) == Some("HEAD")
    }

    /// Is the method CONNECT, so that the stream is a tunnel?
    pub(crate) fn is_connect(&self) -> bool {
        self.text_of(&self.method) == Some("CONNECT")
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The checked request; call after [`HeadBuffer::finish_request`].
    pub(crate) fn view(&self, ends: bool) -> RequestView<'_> {
        RequestView {
            method: self.text_of(&self.method).unwrap_or_default(),
            scheme: self.text_of(&self.scheme).and_then(Scheme::parse),
            authority: self.text_of(&self.authority).unwrap_or_default(),
            path: self.text_of(&self.path).unwrap_or_default(),
            protocol: self.text_of(&self.protocol),
            fields: &self.fields,
            seen: self.seen,
            content_length: self.content_length,
            ends,
            expect_continue: self.expects && !ends,
            takes_trailers: self.takes_trailers,
            priority: self.priority,
            head_bytes: self.bytes,
        }
    }

    /// The checked response head; call after [`HeadBuffer::finish_response`].
    pub(crate) fn response(&self, ends: bool) -> ResponseView<'_> {
        let status = self.text_of(&self.status).and_then(|it| it.parse().ok());
        ResponseView {
            status: status.unwrap_or_default(),
            fields: &self.fields,
            content_length: self.content_length,
            ends,
        }
    }

    /// Gives back the memory.
    pub(crate) fn release_buffers(&mut self) {
        *self = HeadBuffer::default();
    }

    /// Heap memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.fields.memory_bytes() + self.text.capacity() + self.cookie.capacity()
    }

    fn text_of(&self, range: &Option<Range<usize>>) -> Option<&str> {
        // Bytes that are not UTF-8 become "", which the checks of token, target, scheme and authority refuse.
        let bytes = &self.text[range.clone()?];
        Some(std::str::from_utf8(bytes).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
