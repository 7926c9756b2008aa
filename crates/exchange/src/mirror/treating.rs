//! Changes the last head as the route's settings say, and decides the body's filter.

use std::rc::Rc;

use fields::Fields;
use http1::{Fault, Reject};
use message::{Framing, ResponseHead};

use super::{filter::Filter, settings::Mirror, verify};
use origin::outcome::UpstreamError;
use record::metrics::{self, Counters};

/// Changes a head. Returns the filter for the body, if it needs one.
///
/// # Errors
/// A part arrived although the whole was requested.
pub(super) fn treated(
    counters: &Counters,
    mirror: &Rc<Mirror>,
    method: &str,
    target: &str,
    head: &mut ResponseHead,
) -> Result<Option<Filter>, UpstreamError> {
    let plan = &mirror.plan;
    let (status, fields) = (head.status, &mut head.fields);
    let digest = verify::digest_of(target).filter(|_| plan.verify && status == 200);
    let mut replaces = false;
    if let (Some(replace), Some(needle)) = (&plan.replace, &mirror.needle) {
        // The origin is always asked for the same coding, so its answer does not vary by it.
        forget_coding(fields);
        if let Some(location) = fields.first(b"location").map(<[u8]>::to_vec) {
            fields.set(b"Location", &needle.replaced(&location));
        }
        if status == 304 {
            // The stored body may have had its text replaced.
            weaken(fields);
            forget_digests(fields);
        }
        let has_body = head.framing != Framing::None || method == "HEAD";
        replaces = has_body && replace.takes(fields.first(b"content-type"));
    }
    if status == 206 && mirror.wants_identity(method, target) {
        return Err(Reject::Response(Fault::StatusCode).into());
    }
    if !replaces && digest.is_none() {
        return Ok(None);
    }
    if is_coded(fields) {
        metrics::add(&counters.mirror_bodies_coded, 1);
        for name in [&b"cdn-cache-control"[..], b"loligo-cache-control"] {
            fields.remove(name);
        }
        fields.set(b"Cache-Control", b"no-store");
        return Ok(None);
    }
    let framing = head.framing;
    if replaces {
        weaken(fields);
        forget_digests(fields);
        fields.remove(b"content-length");
        if let Framing::Length(1..) = framing {
            head.framing = Framing::Chunked;
        }
    }
    if method == "HEAD" {
        return Ok(None);
    }
    metrics::add(&counters.mirror_bodies_replaced, u64::from(replaces));
    Ok(Some(Filter::new(mirror, framing, digest, replaces)))
}

/// Is the body compressed?
fn is_coded(fields: &Fields) -> bool {
    let mut codings = fields.members(b"content-encoding");
    codings.any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

/// Makes a strong ETag weak.
//= rfc9110 §8.8.1   a weak validator: the representation is another one, with the same meaning
fn weaken(fields: &mut Fields) {
    if let Some(tag) = fields.first(b"etag").filter(|tag| tag.starts_with(b"\""))
        && fields.count(b"etag") == 1
    {
        let weak = [b"W/", tag].concat();
        fields.set(b"ETag", &weak);
    }
}

/// Removes digests of the origin's unchanged body.
fn forget_digests(fields: &mut Fields) {
    for name in [
        &b"content-md5"[..],
        b"digest",
        b"content-digest",
        b"repr-digest",
    ] {
        fields.remove(name);
    }
}

/// Removes Accept-Encoding from Vary: the origin gets the same Accept-Encoding for every client.
fn forget_coding(fields: &mut Fields) {
    let is_coding = |name: &[u8]| name.eq_ignore_ascii_case(b"accept-encoding");
    if !fields.members(b"vary").any(is_coding) {
        return;
    }
    let left: Vec<_> = fields
        .members(b"vary")
        .filter(|name| !is_coding(name))
        .collect();
    let left = left.join(&b", "[..]);
    match left.is_empty() {
        true => {
            fields.remove(b"vary");
        }
        false => fields.set(b"Vary", &left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    #[test]
    fn vary_without_what_the_origin_never_sees_differ() {
        for (before, after) in [
            ("Accept-Encoding", None),
            ("Accept, accept-encoding", Some("Accept")),
            ("Accept, Cookie", Some("Accept, Cookie")),
            ("*", Some("*")),
        ] {
            let mut fields = fields(&[("Vary", before)]);
            forget_coding(&mut fields);
            assert_eq!(fields.first(b"vary"), after.map(str::as_bytes), "{before}");
        }
    }

    #[test]
    fn only_a_strong_tag_is_weakened() {
        for (before, after) in [("\"a\"", "W/\"a\""), ("W/\"a\"", "W/\"a\""), ("a", "a")] {
            let mut fields = fields(&[("ETag", before)]);
            weaken(&mut fields);
            assert_eq!(fields.first(b"etag"), Some(after.as_bytes()));
        }
    }
}
