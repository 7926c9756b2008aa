//! What a member of the cluster says of the answer that it gives.
//!
//! Its member of Cache-Status (RFC 9211), the last one, says whether it had what it was asked for, and, if the answer is an error, whether
//! that is an error of its own: then another member, or the origin, may do better.
//!
//! Not known here: which member, what is done then.

use fields::Fields;

use crate::{peers::levels, record::metrics::CAUSES};

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
}

/// What the head of a member's answer says.
pub fn of(status: u16, fields: &Fields) -> Answered {
    let (mut had, mut is_own_failure) = (Had::Not, false);
    let member = fields.members(b"cache-status").last();
    for parameter in member.into_iter().flat_map(levels::parameters) {
        match parameter {
            b"hit" | b"hit=?1" => had = Had::It,
            b"fwd=stale" | b"fwd=request" | b"fwd=partial" => had = Had::Stale,
            _ => {
                let detail = parameter.strip_prefix(b"detail=");
                is_own_failure = detail.is_some_and(is_token_of_failure);
            }
        }
    }
    Answered {
        had,
        is_own_failure: is_own_failure && matches!(status, 502..=504),
    }
}

/// Is this the `detail` of an error that a proxy makes itself?
fn is_token_of_failure(detail: &[u8]) -> bool {
    let is_cause = |cause: &&str| *cause != "other" && cause.as_bytes() == detail;
    detail == LACKING.as_bytes() || CAUSES.iter().any(is_cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_of_cache_status_counts() {
        let said = |status: u16, line: &str| {
            let mut fields = Fields::new();
            fields.push(b"Cache-Status", line.as_bytes());
            let Answered {
                had,
                is_own_failure,
            } = of(status, &fields);
            (had, is_own_failure)
        };
        for (status, line, expected) in [
            (200, "n1; hit; ttl=5", (Had::It, false)),
            (200, "\"a;b\"; hit", (Had::It, false)),
            (200, "cdn; hit, n1; fwd=uri-miss; stored", (Had::Not, false)),
            (304, "n1; fwd=stale; fwd-status=304", (Had::Stale, false)),
            (206, "n1; fwd=partial", (Had::Stale, false)),
            (200, "n1; fwd=request", (Had::Stale, false)),
            (200, "\"; hit\"; fwd=vary-miss", (Had::Not, false)),
            (504, "n1; detail=lacking", (Had::Not, true)),
            (502, "n1; fwd=uri-miss; detail=dns_error", (Had::Not, true)),
            (
                503,
                "n1; fwd=stale; detail=connection_refused",
                (Had::Stale, true),
            ),
            // The origin's own word, and a stored one.
            (503, "n1; fwd=uri-miss; detail=status", (Had::Not, false)),
            (503, "n1; hit; ttl=1", (Had::It, false)),
            (404, "n1; fwd=uri-miss; detail=dns_error", (Had::Not, false)),
            (200, "", (Had::Not, false)),
        ] {
            assert_eq!(said(status, line), expected, "{status} {line}");
        }
    }
}
