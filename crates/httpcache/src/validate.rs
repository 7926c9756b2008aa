//! Is a copy still the current one?
//!
//! The same question twice. A client may ask it about its copy, with conditions that we evaluate against a stored
//! response; and we ask it about ours, with conditions that the origin evaluates. The answer "not modified" also brings
//! new header fields for the stored response.
//!
//! Entity tags are compared by their bytes. Backslashes mean nothing in them (RFC 9110 §8.8.3), so their lists are read
//! here and not by the reader of quoted strings. A tag without quotation marks is none.
//!
//! Not known here: methods and statuses. Conditions matter for GET and HEAD and a stored 200 only; the caller sees to it.
//! Source: RFC 9110 §13, §15.4.5; RFC 9111 §3.2, §4.3.

use fields::Fields;

use crate::Rules;
use crate::date::{Dated, Single, date_of, single};
use crate::withheld::{is_cookie, take_cookies, take_withheld};

/// What a client's conditions say about a stored response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Send it: there are no conditions, or the client's copy is another one.
    Send,
    /// The client has it already: 304.
    NotModified,
    /// Only the origin may decide: If-Match or If-Unmodified-Since. Forward the request as it is.
    AskOrigin,
}

/// Evaluates the conditions of a GET or HEAD request against a stored 200. (RFC 9110 §13.2.2)
///
/// `stored` needs a Date if the origin sent none: it stands in for a missing Last-Modified.
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

/// The fields of a 304 made from a stored 200. Age is the caller's.
//= rfc9110 §15.4.5   Content-Location, Date, ETag, Vary, Cache-Control, Expires; Last-Modified in place of an ETag
pub fn not_modified_fields(stored: &Fields) -> Fields {
    const KEPT: [&[u8]; 6] = [
        b"Content-Location",
        b"Date",
        b"ETag",
        b"Vary",
        b"Cache-Control",
        b"Expires",
    ];
    let has_etag = stored.contains(b"etag");
    let mut kept = Fields::new();
    for (name, value) in stored.iter() {
        let is_last_modified = name.eq_ignore_ascii_case(b"last-modified");
        if KEPT.iter().any(|one| name.eq_ignore_ascii_case(one)) || (is_last_modified && !has_etag)
        {
            kept.push(name, value);
        }
    }
    kept
}

/// Adds If-None-Match and If-Modified-Since from the stored response; false if it has nothing to ask with. The client's
/// own conditions must have been removed.
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

/// Removes all conditions. Range goes with If-Range: alone it would ask for a part of what may be another version.
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

/// Does this 304, the answer to a request that carried the validators of `stored` and no others, speak of it?
/// (RFC 9111 §4.3.4)
///
/// A 304 without any validator does: the origin was asked about nothing else. (The RFC would have us throw the stored
/// response away, for the fault of the many servers that leave the validators out.)
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

/// The stored fields, updated by those of the 304. Judge the result anew, as if it had been received whole: [`storable`],
/// [`vary_list`] and [`Standing::of`] may all say something else now.
///
/// Fields that others do not get ([`take_withheld`], [`take_cookies`]) are not in it.
///
/// An Age, or a Date, that the 304 does not repeat is dropped: it told of the exchange before.
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
    // A cookie in a 304 is meant for the one whose request we sent along, unless the operator says that it is for all.
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
    /// With its quotation marks.
    pub(crate) opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// `None` if the text is not one entity tag and nothing else.
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        match Self::split(text)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// The entity tag at the beginning of `text`, and what follows it.
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

/// The members of one line of If-None-Match. Ends at the first that cannot be read.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = Wanted<'a>;

    fn next(&mut self) -> Option<Wanted<'a>> {
        let start = self.0.iter().position(|byte| !b" \t,".contains(byte))?;
        let text = &self.0[start..];
        let (wanted, rest) = match text.strip_prefix(b"*") {
            // Beside others it would be a mistake; alone it means any.
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

/// The stored content depends on them.
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
