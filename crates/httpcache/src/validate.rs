//! Whether a copy is still current.
//!
//! A client asks this about its copy, with conditions that the cache evaluates against a stored response. The cache asks the
//! origin about the stored response, with conditions that the origin evaluates. The origin's answer "not modified" also brings
//! new header fields for the stored response.
//!
//! Entity tags are compared by their bytes. A backslash has no special meaning in them (RFC 9110 §8.8.3), so this
//! file has its own reader for lists of tags. A tag without quotation marks is invalid.
//!
//! Not known here: methods and statuses. The caller makes sure that the request is GET or HEAD and that the stored status
//! is 200.
//! Source: RFC 9110 §13, §15.4.5; RFC 9111 §3.2, §4.3.

use fields::Fields;

use crate::date::{Dated, Single, date_of, single};
use crate::rules::Rules;
use crate::withheld::{is_cookie, take_cookies, take_withheld};

/// The result of a client's conditions on a stored response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Send the response: there are no conditions, or the client's copy differs.
    Send,
    /// The client's copy is current: 304.
    NotModified,
    /// Only the origin may decide: If-Match or If-Unmodified-Since. Forward the request unchanged.
    AskOrigin,
}

/// Evaluates the conditions of a GET or HEAD request against a stored 200. (RFC 9110 §13.2.2)
///
/// `stored` must have a Date, the cache's own if the origin sent none: it replaces a missing Last-Modified.
pub fn evaluate(request: &Fields, stored: &Fields) -> Condition {
    //= rfc9111 §4.3.2   must not evaluate conditions that only apply to an origin server: If-Match, If-Unmodified-Since
    if request.contains(b"if-match") || request.contains(b"if-unmodified-since") {
        return Condition::AskOrigin;
    }
    //= rfc9110 §13.1.2   If-None-Match; If-Modified-Since is ignored beside it
    if request.contains(b"if-none-match") {
        let ours = stored_tag(stored);
        let mut lines = request.all(b"if-none-match");
        let matched = lines.any(|line| Tags(line).any(|tag| tag.matches(ours.as_ref())));
        return if matched {
            Condition::NotModified
        } else {
            Condition::Send
        };
    }
    //= rfc9110 §13.1.3   If-Modified-Since; ignored if it is not one valid date
    let Dated::At(since_s) = date_of(request, b"if-modified-since") else {
        return Condition::Send;
    };
    let modified = match date_of(stored, b"last-modified") {
        //= rfc9111 §4.3.2   without Last-Modified use the stored Date
        Dated::Absent => date_of(stored, b"date"),
        dated => dated,
    };
    match modified {
        Dated::At(modified_s) if modified_s <= since_s => Condition::NotModified,
        _ => Condition::Send,
    }
}

/// The fields of a 304 made from a stored 200, without those about the content. The caller sets Age.
///
/// The client may itself be a cache that updates its stored response with these fields. Without them, changes that the origin makes by a
/// 304 (a targeted field, a policy, a member of Cache-Status) would not get beyond the first of two caches.
//= rfc9110 §15.4.5   Content-Location, Date, ETag, Vary, Cache-Control, Expires; no other representation metadata; Last-Modified in place of an ETag
pub fn not_modified_fields(stored: &Fields) -> Fields {
    const OF_THE_CONTENT: [&[u8]; 12] = [
        b"Content-Digest",
        b"Content-Disposition",
        b"Content-Encoding",
        b"Content-Language",
        b"Content-Length",
        b"Content-MD5",
        b"Content-Range",
        b"Content-Type",
        b"Digest",
        b"Repr-Digest",
        b"Trailer",
        // Not about the content, but meant for one client, or only sent with the content.
        b"Set-Cookie",
    ];
    let has_etag = stored.contains(b"etag");
    let mut kept = stored.clone();
    kept.retain(|name, _| {
        let is = |one: &[u8]| name.eq_ignore_ascii_case(one);
        !(OF_THE_CONTENT.iter().any(|one| is(one)) || has_etag && is(b"Last-Modified"))
    });
    kept
}

/// Adds If-None-Match and If-Modified-Since from the stored response. Returns false if it has no validator. The client's
/// own conditions must be removed first.
//= rfc9111 §4.3.1   must send the entity tag, should send Last-Modified
pub fn add_validators(stored: &Fields, request: &mut Fields) -> bool {
    let mut added = false;
    if stored_tag(stored).is_some()
        && let Some(value) = stored.first(b"etag")
    {
        request.set(b"If-None-Match", value);
        added = true;
    }
    if let (Dated::At(_), Some(value)) = (
        date_of(stored, b"last-modified"),
        stored.first(b"last-modified"),
    ) {
        request.set(b"If-Modified-Since", value);
        added = true;
    }
    added
}

/// Removes all conditions. Range is removed with If-Range, since alone it could fetch a part of another version.
pub fn remove_conditions(request: &mut Fields) {
    if request.remove(b"if-range") > 0 {
        request.remove(b"range");
    }
    for name in [
        &b"if-none-match"[..],
        b"if-modified-since",
        b"if-match",
        b"if-unmodified-since",
    ] {
        request.remove(name);
    }
}

/// Does this 304 confirm `stored`? The request must have carried the validators of `stored` and no others. (RFC 9111
/// §4.3.4)
///
/// A 304 without any validator confirms it, since the origin was asked about nothing else. (By the RFC the stored response
/// would then be lost too often, because many servers leave validators out.)
pub fn validates(stored: &Fields, not_modified: &Fields) -> bool {
    if not_modified.contains(b"etag") {
        //= rfc9111 §4.3.4   a strong validator must be the same; else a weak one must correspond
        return match (stored_tag(not_modified), stored_tag(stored)) {
            (Some(theirs), Some(ours)) if theirs.weak => theirs.opaque == ours.opaque,
            (Some(theirs), Some(ours)) => theirs.strongly_equals(&ours),
            _ => false,
        };
    }
    match date_of(not_modified, b"last-modified") {
        Dated::Absent => true,
        Dated::Invalid => false,
        theirs => theirs == date_of(stored, b"last-modified"),
    }
}

/// The stored fields, updated by those of the 304. Judge the result like a new response, because [`storable`],
/// [`vary_list`] and [`Standing::of`] may have changed.
///
/// The result does not contain withheld fields ([`take_withheld`], [`take_cookies`]).
///
/// Age and Date are dropped unless the 304 has them, since they belong to the earlier exchange.
///
/// [`storable`]: crate::storable()
/// [`vary_list`]: crate::vary_list
/// [`Standing::of`]: crate::Standing::of
//= rfc9111 §3.2   add each field, replacing those that are present, with exceptions
pub fn freshen(stored: &Fields, not_modified: &Fields, rules: &Rules) -> Fields {
    let updates = |name: &[u8]| {
        !is_cookie(name) && !keeps_its_value(name) && !is_hop_by_hop(name, not_modified)
    };
    let mut fresh = stored.clone();
    fresh.retain(|name, _| {
        let outdated = name.eq_ignore_ascii_case(b"age") || name.eq_ignore_ascii_case(b"date");
        let replaced = updates(name) && not_modified.contains(name);
        !outdated && !replaced
    });
    for (name, value) in not_modified.iter().filter(|(name, _)| updates(name)) {
        fresh.push(name, value);
    }
    // A cookie in a 304 is meant for the client whose request was forwarded, unless the operator declares cookies
    // common to all clients.
    if rules.store_set_cookie {
        replace_cookies(&mut fresh, not_modified);
    } else {
        take_cookies(&mut fresh);
    }
    take_withheld(&mut fresh);
    fresh
}

/// An entity tag (RFC 9110 §8.8.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntityTag<'a> {
    pub(crate) weak: bool,
    /// The tag with its quotation marks.
    pub(crate) opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads one entity tag; `None` if the text is anything else.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        match Self::split(text)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// Splits off the entity tag at the beginning of `text`.
    fn split(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (weak, rest) = match text.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let inside = rest.strip_prefix(b"\"")?;
        let len = inside.iter().position(|&byte| !is_etagc(byte))?;
        let (opaque, rest) = rest.split_at(len + 2);
        (inside[len] == b'"').then_some((EntityTag { weak, opaque }, rest))
    }

    //= rfc9110 §8.8.3.2   strong comparison: both not weak
    pub(crate) fn strongly_equals(&self, other: &EntityTag) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }
}

/// The entity tag of a response, if it has exactly one.
pub(crate) fn stored_tag(fields: &Fields) -> Option<EntityTag<'_>> {
    match single(fields, b"etag") {
        Single::Value(value) => EntityTag::parse(value),
        Single::Absent | Single::Conflicting => None,
    }
}

/// A member of If-None-Match.
enum Wanted<'a> {
    Any,
    Tag(EntityTag<'a>),
}

impl Wanted<'_> {
    //= rfc9110 §13.1.2   the weak comparison function
    fn matches(&self, ours: Option<&EntityTag>) -> bool {
        match self {
            Wanted::Any => true,
            Wanted::Tag(tag) => ours.is_some_and(|ours| ours.opaque == tag.opaque),
        }
    }
}

/// The members of one line of If-None-Match. Stops at the first invalid one.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = Wanted<'a>;

    fn next(&mut self) -> Option<Wanted<'a>> {
        let start = self.0.iter().position(|byte| !b" \t,".contains(byte))?;
        let text = &self.0[start..];
        let (wanted, rest) = match text.strip_prefix(b"*") {
            // `*` alone means any tag; among other members it is invalid.
            Some(rest) if rest.trim_ascii().is_empty() => (Wanted::Any, rest),
            Some(_) => return None,
            None => EntityTag::split(text).map(|(tag, rest)| (Wanted::Tag(tag), rest))?,
        };
        self.0 = rest;
        Some(wanted)
    }
}

fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

/// Does the field describe the stored content, so that a 304 must not change it?
//= rfc9111 §3.2   Content-Length, fields that the stored response depends upon, Content-Range
fn keeps_its_value(name: &[u8]) -> bool {
    const KEPT: [&[u8]; 3] = [b"content-length", b"content-encoding", b"content-range"];
    KEPT.iter().any(|one| name.eq_ignore_ascii_case(one))
}

//= rfc9111 §3.1   Connection, the fields it lists, those removed before forwarding, those of the proxy
fn is_hop_by_hop(name: &[u8], message: &Fields) -> bool {
    const HOP_BY_HOP: [&[u8]; 11] = [
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    ];
    HOP_BY_HOP.iter().any(|one| name.eq_ignore_ascii_case(one))
        || message
            .members(b"connection")
            .any(|listed| name.eq_ignore_ascii_case(listed))
}

fn replace_cookies(fresh: &mut Fields, not_modified: &Fields) {
    for name in [&b"Set-Cookie"[..], b"Set-Cookie2"] {
        if not_modified.contains(name) {
            fresh.remove(name);
            not_modified
                .all(name)
                .for_each(|value| fresh.push(name, value));
        }
    }
}

#[cfg(test)]
mod tests;
