//! The request that is sent to an origin.
//!
//! Not known here: the destination's connection, the client.

use std::borrow::Cow;

use fields::Fields;
use httpcache::RangeSpec;
use message::{RequestHead, Seen, Version};

use crate::{edition::Edition, mirror::settings::asks_for_less, request::target::Asked};
use http1::head_lines;

/// The request's head: request line, Host first (RFC 9110 §7.2), the fields, our Via. `version`: that of the client's request.
pub fn request(
    edition: &Edition,
    method: &str,
    version: Version,
    asked: &Asked,
    fields: &Fields,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    http1::write_request_line(method, &asked.target, &mut out);
    head_lines::write_field(b"Host", asked.host.as_bytes(), &mut out);
    let wants_identity =
        (asked.mirror.as_ref()).is_some_and(|mirror| mirror.wants_identity(method, &asked.target));
    if wants_identity {
        for (name, value) in fields.iter() {
            if !name.eq_ignore_ascii_case(b"host") && !asks_for_less(name) {
                head_lines::write_field(name, value, &mut out);
            }
        }
        head_lines::write_field(b"Accept-Encoding", b"identity", &mut out);
    } else {
        fields.write_without(b"host", &mut out);
    }
    head_lines::write_field(b"Via", &via_of(edition, version), &mut out);
    out.extend_from_slice(b"\r\n");
    out
}

/// The client's fields without the hop-by-hop ones.
pub fn end_to_end(request: &Fields) -> Fields {
    let mut fields = request.clone();
    message::remove_hop_by_hop(&mut fields);
    fields.remove(b"proxy-authorization");
    fields
}

/// Sets the Range field to this part.
pub fn set_range(fields: &mut Fields, spec: RangeSpec) {
    let mut value = Vec::new();
    spec.write(&mut value);
    fields.set(b"Range", &value);
}

/// Asks for trailers.
//= rfc9110 §10.1.4   TE is for this hop alone, so Connection names it; trailers are passed on
pub fn ask_for_trailers(fields: &mut Fields) {
    fields.push(b"Connection", b"TE");
    fields.push(b"TE", b"trailers");
}

/// The client's fields, without conditions and range.
pub fn plain_fields(request: &Fields) -> Fields {
    let mut fields = end_to_end(request);
    httpcache::remove_conditions(&mut fields);
    fields.remove(b"range");
    fields
}

/// Our Via member for a message received in this version.
//= rfc9110 §7.6.3   received-protocol is that of the message received, not of the one sent
pub fn via_of(edition: &Edition, version: Version) -> Cow<'_, [u8]> {
    match version {
        Version::Http11 => {
            let line = edition.via_line.trim_ascii_end();
            Cow::Borrowed(line.get(b"Via: ".len()..).unwrap_or_default())
        }
        Version::Http10 => Cow::Owned([b"1.0 ", own_via_name(edition)].concat()),
        Version::Http2 => Cow::Owned([b"2.0 ", own_via_name(edition)].concat()),
    }
}

/// Our name in Via, without the version: `NAME (TAG)`.
fn own_via_name(edition: &Edition) -> &[u8] {
    let line = edition.via_line.trim_ascii_end();
    line.get(b"Via: 1.1 ".len()..).unwrap_or_default()
}

/// Has this proxy forwarded the request before?
//= rfc9110 §7.6.3   Via shows a loop
//= rfc8586 §3   and so does CDN-Loop, if somebody on the way strips Via
pub fn is_back(edition: &Edition, loop_id: &str, head: &RequestHead) -> bool {
    let (seen, fields) = (head.seen, &head.fields);
    seen.intersects(Seen::VIA) && fields.members(b"via").any(|hop| is_own_via(edition, hop))
        || seen.intersects(Seen::CDN_LOOP)
            && fields
                .members(b"cdn-loop")
                .any(|id| id == loop_id.as_bytes())
}

/// Did this proxy write this member of a Via field?
fn is_own_via(edition: &Edition, hop: &[u8]) -> bool {
    let version = |version: &[u8]| hop.strip_prefix(version) == Some(own_via_name(edition));
    version(b"1.1 ") || version(b"1.0 ") || version(b"2.0 ")
}
