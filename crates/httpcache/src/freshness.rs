//! How long a response is fresh.
//!
//! All times are computed once, when the response arrives, and kept in a [`Standing`]: 26 bytes beside the
//! stored response. Each later question costs an addition and a comparison.
//!
//!   age  = age at arrival + time since arrival          fresh while   lifetime > age
//!
//! Lifetime: s-maxage, else max-age, else Expires - Date, else a percentage ([`Rules`]) of the time since the last modification. Age
//! at arrival: the larger of (arrival - Date) and (Age + delay of the answer).
//!
//! Limits: seconds saturate at 2^31. A response that arrived more than a minute in the future (a clock was set back)
//! counts as infinitely old.
//! Source: RFC 9111 §4.2.

use fields::Fields;

use crate::date::{Dated, UnixMillis, date_of};
use crate::directives::{DELTA_SECONDS_MAX, ResponseDirectives, delta_seconds, pragma_no_cache};
use crate::exchange::{Request, Response};
use crate::rules::Rules;
use crate::validate::stored_tag;

/// The clocks of two cores, or one clock before and after a small correction, may differ by this much.
const CLOCK_TOLERANCE_MS: u64 = 60_000;

/// All facts needed to judge a stored response later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// When the response arrived.
    pub received: UnixMillis,
    /// Its age when it arrived, in seconds: corrected_initial_age. (RFC 9111 §4.2.3)
    pub initial_age_s: u32,
    /// The age up to which it is fresh, in seconds.
    pub lifetime_s: u32,
    /// How long after its lifetime it may be served while it is revalidated, in seconds; 0 = not. (RFC 5861 §3)
    pub stale_while_revalidate_s: u32,
    /// How long after its lifetime it may be served if the origin fails, in seconds; see
    /// [`StandingFlags::HAS_STALE_IF_ERROR`]. (RFC 5861 §4)
    pub stale_if_error_s: u32,
    /// Further facts.
    pub flags: StandingFlags,
}

const _: () = assert!(size_of::<Standing>() <= 40);

/// Facts about a stored response, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StandingFlags(u16);

impl StandingFlags {
    /// Must not be served stale: must-revalidate, proxy-revalidate or s-maxage.
    pub const MUST_REVALIDATE: Self = Self(1);
    /// Must never be served without asking the origin.
    pub const NO_CACHE: Self = Self(1 << 1);
    /// The lifetime is heuristic.
    pub const HEURISTIC: Self = Self(1 << 2);
    /// Has a validator (an entity tag or a modification date).
    pub const HAS_VALIDATOR: Self = Self(1 << 3);
    /// An error: its status is 400 or above.
    pub const NEGATIVE: Self = Self(1 << 4);
    /// Has a Vary field.
    pub const HAS_VARY: Self = Self(1 << 5);
    /// Will not change while fresh (RFC 8246).
    pub const IMMUTABLE: Self = Self(1 << 6);
    /// The origin or the operator has set `stale-if-error`, so its value is the limit even if the origin cannot be
    /// reached.
    pub const HAS_STALE_IF_ERROR: Self = Self(1 << 7);
    /// A targeted field decided (RFC 9213), so listeners that ignore these fields must not use the response.
    pub const TARGETED: Self = Self(1 << 8);
    /// A targeted field was ignored, so listeners that obey these fields must not use the response.
    pub const PASSED_OVER: Self = Self(1 << 9);

    /// True if all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if one bit of `other` is set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The flag that excludes a stored response for listeners that obey targeted fields, or for those that do not. Most
    /// responses have neither flag.
    //= rfc9213 §2.2   a cache with another target list would have stored something else
    pub const fn foreign(obeys_targeted: bool) -> Self {
        match obeys_targeted {
            true => Self::PASSED_OVER,
            false => Self::TARGETED,
        }
    }

    /// The union of both.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits as stored.
    pub const fn bits(self) -> u16 {
        self.0
    }

    fn set(&mut self, flag: Self, on: bool) {
        if on {
            *self = self.union(flag);
        }
    }
}

impl Standing {
    /// Length of the encoded form.
    pub const BYTES: usize = 26;

    /// The standing of the response to a request that was sent at `asked` and answered at `received`. After a 304,
    /// pass the freshened fields, the stored status, and the times of the exchange with the 304.
    pub fn of(
        request: &Request,
        response: &Response,
        asked: UnixMillis,
        received: UnixMillis,
        rules: &Rules,
    ) -> Self {
        let _ = request; // RFC 9111 lets nothing in the request change how long an answer is fresh.
        let said = ResponseDirectives::parse(response.fields, rules);
        let is_valid = has_validator(response.fields);
        Self::as_said(response, &said, is_valid, (asked, received), rules)
    }

    /// [`Standing::of`] a response whose directives have been parsed. `has_validator`: see [`has_validator`].
    pub(crate) fn as_said(
        response: &Response,
        said: &ResponseDirectives,
        has_validator: bool,
        (asked, received): (UnixMillis, UnixMillis),
        rules: &Rules,
    ) -> Self {
        let date_s = date_of(response.fields, b"date").at();
        let (lifetime_s, heuristic) = lifetime(response, said, (date_s, received), rules);
        let window = |seconds: Option<u32>| seconds.unwrap_or(0).min(rules.ttl_max_s);
        // The operator's stale windows apply to responses that were fresh once: not to errors, nor to responses that
        // are stale from the start.
        let is_graced = lifetime_s > 0
            && response.status < 400
            && !said.no_cache
            && !said.malformed
            && !said.must_not_be_stale();
        let grace = |seconds: u32| (is_graced && seconds > 0).then_some(seconds);
        let while_revalidate = said
            .stale_while_revalidate_s
            .or(grace(rules.stale_while_revalidate_s));
        let if_error = said.stale_if_error_s.or(grace(rules.stale_if_error_s));
        let mut flags = StandingFlags::default();
        flags.set(StandingFlags::MUST_REVALIDATE, said.must_not_be_stale());
        flags.set(StandingFlags::NO_CACHE, said.no_cache || said.malformed);
        flags.set(StandingFlags::HEURISTIC, heuristic);
        flags.set(StandingFlags::HAS_VALIDATOR, has_validator);
        flags.set(StandingFlags::NEGATIVE, response.status >= 400);
        flags.set(StandingFlags::HAS_VARY, response.fields.contains(b"vary"));
        flags.set(StandingFlags::IMMUTABLE, said.immutable);
        flags.set(StandingFlags::HAS_STALE_IF_ERROR, if_error.is_some());
        flags.set(StandingFlags::TARGETED, said.targeted);
        flags.set(StandingFlags::PASSED_OVER, said.passed_over);
        Standing {
            received,
            initial_age_s: initial_age_s(response.fields, date_s, asked, received),
            lifetime_s,
            stale_while_revalidate_s: window(while_revalidate),
            stale_if_error_s: window(if_error),
            flags,
        }
    }

    /// current_age in seconds, which is the value of the Age field. (RFC 9111 §4.2.3)
    pub fn age_s(&self, now: UnixMillis) -> u32 {
        if self.received.0 > now.0.saturating_add(CLOCK_TOLERANCE_MS) {
            return DELTA_SECONDS_MAX;
        }
        let resident_s = now.0.saturating_sub(self.received.0) / 1000;
        saturate(u64::from(self.initial_age_s).saturating_add(resident_s))
    }

    /// May it be served to a request without directives? The hot path checks only this.
    //= rfc9111 §4.2   response_is_fresh = (freshness_lifetime > current_age)
    pub fn is_fresh(&self, now: UnixMillis) -> bool {
        self.is_fresh_for(StandingFlags::default(), now)
    }

    /// [`Self::is_fresh`], but false for responses with a flag in `foreign`.
    #[inline]
    pub fn is_fresh_for(&self, foreign: StandingFlags, now: UnixMillis) -> bool {
        let refused = StandingFlags::NO_CACHE.union(foreign);
        self.lifetime_s > self.age_s(now) && !self.flags.intersects(refused)
    }

    /// Is it fresh, or stale but still within a stale window?
    pub fn is_of_use(&self, now: UnixMillis) -> bool {
        let window_s = self.stale_while_revalidate_s.max(self.stale_if_error_s);
        let may_be_stale = window_s > 0
            && !self
                .flags
                .intersects(StandingFlags::MUST_REVALIDATE.union(StandingFlags::NO_CACHE))
            && self.age_s(now) <= self.lifetime_s.saturating_add(window_s);
        may_be_stale || self.is_fresh(now)
    }

    /// Seconds of freshness left; negative = seconds since it became stale.
    pub fn ttl_s(&self, now: UnixMillis) -> i64 {
        i64::from(self.lifetime_s) - i64::from(self.age_s(now))
    }

    /// Makes it stale at once (soft purge). Its stale windows then count from age 0.
    pub fn expire(&mut self) {
        self.lifetime_s = 0;
    }

    /// Makes it stale from now on, even if the clock is set back. Its stale windows count from now.
    pub fn expire_at(&mut self, now: UnixMillis) {
        let past_s = self.lifetime_s.min(self.age_s(now));
        self.lifetime_s = 0;
        for window_s in [
            &mut self.stale_while_revalidate_s,
            &mut self.stale_if_error_s,
        ] {
            if *window_s > 0 {
                *window_s = window_s.saturating_add(past_s);
            }
        }
    }

    /// The encoded form in the store: little-endian, in the order of the fields.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[0..8].copy_from_slice(&self.received.0.to_le_bytes());
        out[8..12].copy_from_slice(&self.initial_age_s.to_le_bytes());
        out[12..16].copy_from_slice(&self.lifetime_s.to_le_bytes());
        out[16..20].copy_from_slice(&self.stale_while_revalidate_s.to_le_bytes());
        out[20..24].copy_from_slice(&self.stale_if_error_s.to_le_bytes());
        out[24..26].copy_from_slice(&self.flags.0.to_le_bytes());
        out
    }

    /// The inverse of [`Standing::encode`].
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Standing {
            received: UnixMillis(u64::from(word(0)) | u64::from(word(4)) << 32),
            initial_age_s: word(8),
            lifetime_s: word(12),
            stale_while_revalidate_s: word(16),
            stale_if_error_s: word(20),
            flags: StandingFlags(u16::from_le_bytes([bytes[24], bytes[25]])),
        }
    }
}

/// The lifetime in seconds, and whether it is heuristic. (RFC 9111 §4.2.1)
fn lifetime(
    response: &Response,
    said: &ResponseDirectives,
    (date_s, received): (Option<u64>, UnixMillis),
    rules: &Rules,
) -> (u32, bool) {
    let date_s = date_s.unwrap_or(received.seconds());
    let explicit = explicit_lifetime_s(response.fields, said, date_s);
    if let Some(seconds) = rules.ttl_s.filter(|_| !said.malformed) {
        return (seconds.max(rules.ttl_min_s).min(rules.ttl_max_s), false);
    }
    let (lifetime_s, guessed) = match explicit {
        Some(seconds) => (seconds, false),
        None => (heuristic_lifetime_s(response, said, date_s, rules), true),
    };
    let at_least_s = if said.malformed { 0 } else { rules.ttl_min_s };
    let guessed = guessed && lifetime_s > 0;
    (lifetime_s.max(at_least_s).min(rules.ttl_max_s), guessed)
}

/// The lifetime set by the origin, in seconds. `date_s`: Date, else the time of arrival.
pub(crate) fn explicit_lifetime_s(
    fields: &Fields,
    said: &ResponseDirectives,
    date_s: u64,
) -> Option<u32> {
    if said.malformed {
        return Some(0);
    }
    //= rfc9111 §4.2.1   s-maxage, then max-age, then Expires
    said.s_maxage_s
        .or(said.max_age_s)
        .or_else(|| match date_of(fields, b"expires") {
            _ if said.targeted => None,
            Dated::Absent => None,
            //= rfc9111 §5.3   an invalid date, especially "0", has already expired
            Dated::Invalid => Some(0),
            Dated::At(expires_s) => Some(saturate(expires_s.saturating_sub(date_s))),
        })
}

/// (RFC 9111 §4.2.2)
fn heuristic_lifetime_s(
    response: &Response,
    said: &ResponseDirectives,
    date_s: u64,
    rules: &Rules,
) -> u32 {
    debug_assert!(
        !has_explicit_lifetime(said, response.fields),
        "an explicit lifetime is never overruled"
    );
    let by_rule = kept_by_rule(response.status, rules);
    let allowed = heuristically_cacheable(response.status) || said.public || by_rule;
    //= rfc9111 §5.4   Pragma in a response means nothing certain: reason enough not to guess
    if !allowed || (!said.targeted && pragma_no_cache(response.fields)) {
        return 0;
    }
    if by_rule {
        return rules.error_ttl_s;
    }
    let guess_s = match date_of(response.fields, b"last-modified") {
        Dated::At(modified_s) => {
            let fraction = u64::from(rules.heuristic_fraction_percent);
            date_s.saturating_sub(modified_s).saturating_mul(fraction) / 100
        }
        Dated::Absent | Dated::Invalid => 0,
    };
    let guess_s = saturate(guess_s).min(rules.heuristic_max_s);
    match response.status {
        _ if guess_s > 0 => guess_s,
        400.. if heuristically_cacheable(response.status) => rules.negative_ttl_s,
        400.. => 0,
        _ => rules.default_ttl_s,
    }
}

/// corrected_initial_age (RFC 9111 §4.2.3)
fn initial_age_s(
    fields: &Fields,
    date_s: Option<u64>,
    asked: UnixMillis,
    received: UnixMillis,
) -> u32 {
    let apparent_s = match date_s {
        Some(date_s) => received.seconds().saturating_sub(date_s),
        None => 0,
    };
    let delay_s = received.0.saturating_sub(asked.0) / 1000;
    let corrected_s = u64::from(age_value(fields)).saturating_add(delay_s);
    saturate(apparent_s.max(corrected_s))
}

/// The Age field, 0 if there is none.
//= rfc9111 §5.1   use the first member, discard the others; if that is invalid, ignore the field
fn age_value(fields: &Fields) -> u32 {
    fields
        .members(b"age")
        .next()
        .and_then(delta_seconds)
        .unwrap_or(0)
}

/// Has the response a validator?
pub(crate) fn has_validator(fields: &Fields) -> bool {
    stored_tag(fields).is_some() || date_of(fields, b"last-modified").at().is_some()
}

fn saturate(seconds: u64) -> u32 {
    u32::try_from(seconds)
        .unwrap_or(u32::MAX)
        .min(DELTA_SECONDS_MAX)
}

/// Is the status cacheable without explicit permission?
//= rfc9110 §15.1   heuristically cacheable; 206 is left out because it is judged as a 200
pub(crate) fn heuristically_cacheable(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Is it a failure of the origin that the operator wants stored?
//= rfc9111 §3   a cache extension that allows the response to be cached: here the operator is it
pub(crate) fn kept_by_rule(status: u16, rules: &Rules) -> bool {
    rules.error_ttl_s > 0 && matches!(status, 500 | 502 | 503 | 504)
}

/// Does the origin set a lifetime, even zero or an unreadable one? If so, no heuristic replaces it.
pub(crate) fn has_explicit_lifetime(said: &ResponseDirectives, fields: &Fields) -> bool {
    let expires = !said.targeted && fields.contains(b"expires");
    said.s_maxage_s.is_some() || said.max_age_s.is_some() || expires
}

#[cfg(test)]
mod tests;
