//! How a cluster member has answered, by its response fields.
//!
//! The last member of Cache-Status (RFC 9211) is the answering member's own. It says whether the object was in its cache, and whether the
//! response is an error of its own; then another member, or the origin, may do better. A response without Cache-Status counts as a refusal
//! of its own, because every response from its store or from an origin carries one.
//!
//! Not known here: which member answered, and what follows from it.

use fields::Fields;

use peers::levels;
use record::metrics::CAUSES;

/// The `detail` of the error "I do not hold it, and was told not to fetch it".
pub const LACKING: &str = "lacking";

/// Did the member have the object?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Had {
    /// Served from its cache.
    It,
    /// It had it, but had to validate it at its origin, or to fetch a part of it.
    Stale,
    /// It did not have it: the hint was wrong, or there was none.
    Not,
}

/// What the response fields tell of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Did the member have it?
    pub had: Had,
    /// The response is an error or refusal made by the member, not a response of the origin.
    pub is_own_failure: bool,
    /// The error is that the member's origin did not answer in time.
    pub is_late: bool,
}

/// The `detail` of such an error.
pub const LATE: &str = "connection_read_timeout";
/// The `detail` of refusals, which are not failures of an origin.
const REFUSALS: [&str; 3] = [LACKING, "only-if-cached", "http_request_denied"];

/// Reads the fields of a member's response.
pub fn of(fields: &Fields) -> Answered {
    let member = fields.members(b"cache-status").last();
    let (mut had, mut is_own_failure, mut is_late) = (Had::Not, member.is_none(), false);
    for parameter in member.into_iter().flat_map(levels::parameters) {
        match parameter {
            b"hit" | b"hit=?1" => had = Had::It,
            b"fwd=stale" | b"fwd=request" | b"fwd=partial" => had = Had::Stale,
            _ => {
                if let Some(detail) = parameter.strip_prefix(b"detail=") {
                    is_own_failure = is_token_of_failure(detail);
                    is_late = detail == LATE.as_bytes();
                }
            }
        }
    }
    Answered {
        had,
        is_own_failure,
        is_late,
    }
}

/// Is this the `detail` of an error that a proxy makes itself?
fn is_token_of_failure(detail: &[u8]) -> bool {
    let is_cause = |cause: &&str| *cause != "other" && cause.as_bytes() == detail;
    let is_refusal = |refusal: &&str| refusal.as_bytes() == detail;
    REFUSALS.iter().any(is_refusal) || CAUSES.iter().any(is_cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_of_cache_status_counts() {
        let said = |line: &str| {
            let mut fields = Fields::new();
            fields.push(b"Cache-Status", line.as_bytes());
            let answered = of(&fields);
            (answered.had, answered.is_own_failure)
        };
        for (line, expected) in [
            ("n1; hit; ttl=5", (Had::It, false)),
            ("\"a;b\"; hit", (Had::It, false)),
            ("cdn; hit, n1; fwd=uri-miss; stored", (Had::Not, false)),
            ("n1; fwd=stale; fwd-status=304", (Had::Stale, false)),
            ("n1; fwd=partial", (Had::Stale, false)),
            ("n1; fwd=request", (Had::Stale, false)),
            ("\"; hit\"; fwd=vary-miss", (Had::Not, false)),
            ("n1; detail=lacking", (Had::Not, true)),
            ("n1; detail=proxy_loop_detected", (Had::Not, true)),
            ("n1; detail=http_request_denied", (Had::Not, true)),
            ("n1; fwd=uri-miss; detail=dns_error", (Had::Not, true)),
            (
                "n1; fwd=stale; detail=connection_refused; ttl=1",
                (Had::Stale, true),
            ),
            // A status from the origin, and a stored response.
            ("n1; fwd=uri-miss; detail=status", (Had::Not, false)),
            ("n1; hit; ttl=-1; detail=stale-if-error", (Had::It, false)),
        ] {
            assert_eq!(said(line), expected, "{line}");
        }
    }

    #[test]
    fn what_bears_no_cache_status_is_of_the_member_alone() {
        assert!(of(&Fields::new()).is_own_failure);
    }

    #[test]
    fn an_origin_that_is_late_is_told_from_one_that_cannot_be_reached() {
        let is_late = |line: &str| {
            let mut fields = Fields::new();
            fields.push(b"Cache-Status", line.as_bytes());
            of(&fields).is_late
        };
        assert!(is_late("n1; fwd=stale; detail=connection_read_timeout"));
        assert!(!is_late("n1; fwd=stale; detail=connection_timeout"));
    }
}
