//! Whether a response head may be the answer to a request, and which fault it has if not.
//!
//! A robot knows the object: its length, the versions that may be served, their Last-Modified, and whether a cache may have
//! answered at all. Each fault has a name for the report. A run counts only if it has no faults.
//!
//! A stale answer is one whose version ended more than `SLACK_S` before the request was sent. The slack is needed because HTTP's
//! times, and a cache's computations, are in whole seconds. Robots and servers on two machines need clocks that agree to half of it.
//! After a reload, an answer that is older than the reload's is a fault too, even if still fresh: the cache forwarded the newer
//! answer and then served an older one. Both times are the server's, so the robots' clocks do not matter there.
//!
//! Not known here: sockets, bodies (see `answer`).   Source: spec sections 2 and 4; issue 6, "everything is checked".

use std::fmt;

use crate::life::{Life, Version};
use crate::request::{Condition, Method, Request};
use crate::wire::Response;

/// Tolerated difference from clocks and rounding, seconds.
pub const SLACK_S: u64 = 2;
/// An answer made this much earlier than another may still have reached the cache after it.
const OVERTAKEN_MS: u64 = 2_000;

/// What a robot knows before the answer comes.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// The request.
    pub request: Request,
    /// The number of the exchange.
    pub exchange: u64,
    /// When the request was sent, Unix seconds.
    pub sent_s: u64,
    /// When the object changes.
    pub life: Life,
    /// When the server answered the latest reload of this object that was complete before this request was sent: Unix milliseconds,
    /// by the server's clock.
    pub reloaded_ms: Option<u64>,
}

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No connection to the proxy.
    NoConnection,
    /// This machine had no descriptor or port left for a connection. The load generator's fault.
    Exhausted,
    /// Closed before the first byte of an answer, on a new connection.
    Closed,
    /// Took too long.
    TimedOut,
    /// Not an HTTP response.
    Malformed,
    /// A status that the request does not allow.
    Status(u16),
    /// Not made by our servers: no X-Polymix field.
    Foreign,
    /// A version that ended too long ago.
    Stale,
    /// A version that has not begun yet.
    Future,
    /// Last-Modified is not that of the version.
    WrongModified,
    /// The length is not that of the object.
    WrongLength,
    /// A byte of the body differs.
    WrongBytes {
        /// Offset of the byte.
        at: u64,
    },
    /// Content-MD5 is not that of the body.
    WrongChecksum,
    /// The body ended early.
    Truncated,
    /// Something follows the answer.
    Trailing,
    /// A transfer coding, which these servers never use.
    Coded,
    /// A cache answered a reload.
    ReloadFromCache,
    /// A cache answered with a copy older than the answer to a reload that it has forwarded since.
    StaleAfterReload,
    /// A range that was not requested, or one that differs from the requested range.
    WrongRange,
    /// A cache answered with an object that no cache may keep.
    UncachableFromCache,
    /// A cache answered a POST.
    PostFromCache,
    /// 304 to a request without condition.
    UnconditionalNotModified,
    /// 304 though the object is newer than the condition says.
    WrongNotModified,
    /// The robot's own queue is full.
    Overload,
}

impl Fault {
    /// The name of the fault in the report.
    #[must_use]
    pub fn name(&self) -> String {
        let name = match self {
            Self::NoConnection => "no connection",
            Self::Exhausted => EXHAUSTED,
            Self::Closed => "closed without an answer",
            Self::TimedOut => "timed out",
            Self::Malformed => "malformed",
            Self::Status(status) => return format!("status {status}"),
            Self::Foreign => "not from the server",
            Self::Stale => "stale",
            Self::Future => "from the future",
            Self::WrongModified => "wrong Last-Modified",
            Self::WrongLength => "wrong length",
            Self::WrongBytes { .. } => "wrong bytes",
            Self::WrongChecksum => "wrong Content-MD5",
            Self::Truncated => "truncated",
            Self::Trailing => "more than an answer",
            Self::Coded => "transfer coding",
            Self::ReloadFromCache => "reload from cache",
            Self::StaleAfterReload => "stale after a reload",
            Self::WrongRange => "wrong range",
            Self::UncachableFromCache => "uncachable from cache",
            Self::PostFromCache => "POST from cache",
            Self::UnconditionalNotModified => "304 without a condition",
            Self::WrongNotModified => "304 though modified",
            Self::Overload => "robot overloaded",
        };
        name.to_owned()
    }
}

/// The name of the one fault that the proxy never causes.
pub const EXHAUSTED: &str = "no descriptor or port left here";

/// Whether too much load, on either side, can cause a fault of this name. All other faults are wrong at any load.
#[must_use]
pub fn comes_of_load(name: &str) -> bool {
    let of_load = [
        Fault::NoConnection,
        Fault::Exhausted,
        Fault::Closed,
        Fault::TimedOut,
        Fault::Overload,
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(504),
    ];
    of_load.iter().any(|fault| fault.name() == name)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongBytes { at } => write!(f, "wrong bytes from {at} on"),
            other => f.write_str(&other.name()),
        }
    }
}

/// A head that is correct as far as it goes; the body is still to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// 304, as requested.
    NotModified,
    /// 200.
    Object {
        /// A cache had it.
        hit: bool,
        /// The version whose body must follow.
        version: u64,
        /// The part of the body that follows: first byte, and the byte after the last. The whole body unless a range was requested;
        /// empty after HEAD.
        part: (u64, u64),
    },
}

impl Expected {
    /// The version that the request's condition is based on.
    #[must_use]
    pub fn asked(&self) -> Version {
        self.life.version_at(self.sent_s)
    }

    /// The oldest version that is not stale.
    fn oldest(&self) -> u64 {
        self.life
            .version_at(self.sent_s.saturating_sub(SLACK_S))
            .number
    }

    /// Judges a head that came at `now_s`.
    ///
    /// # Errors
    /// The fault of the head.
    pub fn judge(&self, head: &Response, now_s: u64) -> Result<Judged, Fault> {
        match head.status {
            200 | 206 => self.judge_object(head, now_s),
            304 => match (self.request.method, self.request.condition) {
                (Method::Get, Condition::Ims304) => Ok(Judged::NotModified),
                // Also correct if the older version ended just before the request (within the slack).
                (Method::Get, Condition::Ims200) if self.oldest() < self.asked().number => {
                    Ok(Judged::NotModified)
                }
                (Method::Get, Condition::Ims200) => Err(Fault::WrongNotModified),
                _ => Err(Fault::UnconditionalNotModified),
            },
            status => Err(Fault::Status(status)),
        }
    }

    fn judge_object(&self, head: &Response, now_s: u64) -> Result<Judged, Fault> {
        let request = &self.request;
        let cachable = request.id.cachable();
        let (Some(exchange), Some(version)) = (head.exchange, head.version) else {
            return Err(Fault::Foreign);
        };
        if version < self.oldest() {
            return Err(Fault::Stale);
        }
        if version > self.life.version_at(now_s + SLACK_S).number {
            return Err(Fault::Future);
        }
        if cachable && head.modified_s != Some(self.life.version(version).since_s) {
            return Err(Fault::WrongModified);
        }
        let hit = exchange != self.exchange;
        if hit {
            if !cachable {
                return Err(Fault::UncachableFromCache);
            }
            if request.condition == Condition::Reload {
                return Err(Fault::ReloadFromCache);
            }
            if matches!(request.method, Method::Post(_)) {
                return Err(Fault::PostFromCache);
            }
            let before_reload = head
                .made_ms
                .zip(self.reloaded_ms)
                .is_some_and(|(made, reloaded)| made + OVERTAKEN_MS < reloaded);
            if before_reload {
                return Err(Fault::StaleAfterReload);
            }
        }
        let head_only = request.method == Method::Head;
        if head.coded && !head_only {
            return Err(Fault::Coded);
        }
        let (first, end) = self.part(head)?;
        if head.length.is_some_and(|length| length != end - first) {
            return Err(Fault::WrongLength);
        }
        Ok(Judged::Object {
            hit,
            version,
            part: if head_only { (0, 0) } else { (first, end) },
        })
    }

    /// The part that a head announces. A server may always send the whole object instead.
    fn part(&self, head: &Response) -> Result<(u64, u64), Fault> {
        let size = self.request.id.size();
        match (head.status, self.request.condition, head.range) {
            (200, _, _) => Ok((0, size)),
            (_, Condition::Range { first, last }, Some(range))
                if (range.first, range.last, range.size) == (first, last, size) =>
            {
                Ok((first, last + 1))
            }
            _ => Err(Fault::WrongRange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Kind, ObjectId};
    use crate::range::ContentRange;

    const NOW_S: u64 = 1_700_000_000;

    fn object(cachable: bool) -> ObjectId {
        (1..)
            .map(|number| ObjectId {
                world: 1,
                server: 0,
                kind: Kind::Other,
                number,
            })
            .find(|id| id.cachable() == cachable)
            .unwrap()
    }

    fn expected(id: ObjectId, condition: Condition, method: Method) -> Expected {
        let request = Request {
            id,
            offered: false,
            offered_lru: false,
            condition,
            method,
            abort: false,
            repeat: false,
        };
        Expected {
            request,
            exchange: 5,
            sent_s: NOW_S,
            life: id.life(1.0),
            reloaded_ms: None,
        }
    }

    /// A correct answer, from a server or a cache.
    fn right(expected: &Expected, exchange: u64) -> Response {
        let version = expected.asked();
        Response {
            status: 200,
            length: Some(expected.request.id.size()),
            exchange: Some(exchange),
            version: Some(version.number),
            modified_s: expected.request.id.cachable().then_some(version.since_s),
            ..Response::default()
        }
    }

    #[track_caller]
    fn fault(expected: &Expected, spoil: impl Fn(&mut Response)) -> Fault {
        let mut head = right(expected, 5);
        spoil(&mut head);
        expected.judge(&head, NOW_S + 3).unwrap_err()
    }

    #[test]
    fn right_answers_are_right() {
        let basic = expected(object(true), Condition::Basic, Method::Get);
        for (exchange, hit) in [(5, false), (4, true)] {
            let judged = basic.judge(&right(&basic, exchange), NOW_S).unwrap();
            let version = basic.asked().number;
            assert_eq!(
                judged,
                Judged::Object {
                    hit,
                    version,
                    part: (0, basic.request.id.size()),
                }
            );
        }
    }

    #[test]
    fn wrong_heads_have_names() {
        let basic = expected(object(true), Condition::Basic, Method::Get);
        assert_eq!(
            fault(&basic, |h| h.version = h.version.map(|v| v - 1)),
            Fault::Stale
        );
        assert_eq!(
            fault(&basic, |h| h.version = h.version.map(|v| v + 1)),
            Fault::Future
        );
        assert_eq!(
            fault(&basic, |h| h.modified_s = Some(1)),
            Fault::WrongModified
        );
        assert_eq!(fault(&basic, |h| h.length = Some(1)), Fault::WrongLength);
        assert_eq!(fault(&basic, |h| h.exchange = None), Fault::Foreign);
        assert_eq!(fault(&basic, |h| h.coded = true), Fault::Coded);
        assert_eq!(fault(&basic, |h| h.status = 502), Fault::Status(502));
        assert_eq!(
            fault(&basic, |h| h.status = 304),
            Fault::UnconditionalNotModified
        );
    }

    #[test]
    fn parts_must_be_the_ones_asked_for() {
        let range = Condition::Range { first: 3, last: 7 };
        let ranged = expected(object(true), range, Method::Get);
        let size = ranged.request.id.size();
        let mut head = right(&ranged, 4);
        let whole = ranged.judge(&head, NOW_S).unwrap();
        assert!(matches!(whole, Judged::Object { part, .. } if part == (0, size)));
        (head.status, head.length) = (206, Some(5));
        let mut judge = |first, last, size| {
            head.range = Some(ContentRange { first, last, size });
            ranged.judge(&head, NOW_S)
        };
        let part = judge(3, 7, size).unwrap();
        assert!(matches!(
            part,
            Judged::Object {
                part: (3, 8),
                hit: true,
                ..
            }
        ));
        for (first, last, size) in [(3, 8, size), (2, 6, size), (3, 7, size + 1)] {
            assert_eq!(judge(first, last, size), Err(Fault::WrongRange));
        }
        head.range = None;
        assert_eq!(ranged.judge(&head, NOW_S), Err(Fault::WrongRange));
        let basic = expected(object(true), Condition::Basic, Method::Get);
        assert_eq!(fault(&basic, |h| h.status = 206), Fault::WrongRange);
    }

    #[test]
    fn what_is_older_than_a_reload_is_stale() {
        let mut basic = expected(object(true), Condition::Basic, Method::Get);
        let mut head = right(&basic, 4);
        head.made_ms = Some(50_000);
        assert!(basic.judge(&head, NOW_S).is_ok());
        basic.reloaded_ms = Some(50_000 + OVERTAKEN_MS);
        assert!(basic.judge(&head, NOW_S).is_ok());
        basic.reloaded_ms = Some(50_001 + OVERTAKEN_MS);
        assert_eq!(basic.judge(&head, NOW_S), Err(Fault::StaleAfterReload));
    }

    #[test]
    fn caches_that_answer_what_they_must_not_are_caught() {
        let from_cache = |h: &mut Response| h.exchange = Some(4);
        let uncachable = expected(object(false), Condition::Basic, Method::Get);
        assert_eq!(fault(&uncachable, from_cache), Fault::UncachableFromCache);
        let reload = expected(object(true), Condition::Reload, Method::Get);
        assert_eq!(fault(&reload, from_cache), Fault::ReloadFromCache);
        let post = expected(object(true), Condition::Basic, Method::Post(3));
        assert_eq!(fault(&post, from_cache), Fault::PostFromCache);
    }

    #[test]
    fn not_modified_is_right_only_where_asked_for() {
        let head = Response {
            status: 304,
            ..Response::default()
        };
        let judge = |condition| expected(object(true), condition, Method::Get).judge(&head, NOW_S);
        assert_eq!(judge(Condition::Ims304), Ok(Judged::NotModified));
        assert_eq!(judge(Condition::Ims200), Err(Fault::WrongNotModified));
        assert_eq!(
            judge(Condition::Reload),
            Err(Fault::UnconditionalNotModified)
        );
    }

    #[test]
    fn a_version_may_outlive_its_time_by_the_slack_only() {
        let mut late = expected(object(true), Condition::Basic, Method::Get);
        let old = late.asked();
        let mut head = right(&late, 4);
        head.version = Some(old.number);
        late.sent_s = old.until_s + SLACK_S - 1;
        assert!(late.judge(&head, late.sent_s).is_ok());
        late.sent_s = old.until_s + SLACK_S;
        assert_eq!(late.judge(&head, late.sent_s), Err(Fault::Stale));
    }
}
