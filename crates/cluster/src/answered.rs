//! What a member of the cluster says of the answer that it gives.
//!
//! Its member of Cache-Status (RFC 9211), the last one, says whether it had what it was asked for, and whether the answer is an error of
//! its own: then another member, or the origin, may do better. An answer without Cache-Status is a refusal of the member's own, too:
//! whatever it has from its store or an origin bears its member of it.
//!
//! Not known here: which member, what is done then.

use fields::Fields;

use peers::levels;
use record::metrics::CAUSES;

/// The `detail` of an answer that says: I do not have it, and was told not to fetch it.
pub const LACKING: &str = "lacking";

/// Did it have what it was asked for?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Had {
    /// It has served it from its cache.
    It,
    /// It had it, and had to ask its origin whether it is still true, or for a part of it.
    Stale,
    /// It did not: the hint was wrong, or there was none.
    Not,
}

/// What an answer says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Did the member have it?
    pub had: Had,
    /// It is an error, or a refusal, of the member's own: nothing that the origin has said.
    pub is_own_failure: bool,
    /// That error is that its origin did not answer in time.
    pub is_late: bool,
}

/// The `detail` of such an answer.
pub const LATE: &str = "connection_read_timeout";
/// Tokens of refusals that are no failures of an origin.
const REFUSALS: [&str; 3] = [LACKING, "only-if-cached", "http_request_denied"];

/// What the head of a member's answer says.
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
            // The origin's own word, and a stored one.
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
