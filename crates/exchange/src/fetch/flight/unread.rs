//! Decides whether a fetch without readers goes on, to be stored, or is stopped.
//!
//! Clients often leave downloads. A small rest is worth fetching, since the next client then finds the body stored; a rest of a hundred
//! gigabytes without a reader is not.
//!
//! Source: Squid's `quick_abort_min`, `_max` and `_pct`. We differ: one bound in bytes instead of two; a body of unknown length may
//! receive as many bytes again after its reader left.

/// Whether the fetch of a stored body goes on when all of its readers have left.
#[derive(Default)]
pub(super) struct Unread {
    pub(super) worth: Worth,
    /// The body's length, if it is known.
    pub(super) length: Option<u64>,
    /// Bytes of the body that had arrived when the last reader left. `None`: no reader has left, so the fetch is not stopped.
    pub(super) left_at: Option<u64>,
}

/// When a body without readers is fetched to its end.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// If at most so many bytes are missing.
    pub left_bytes: u64,
    /// If this percentage of the body has arrived.
    pub percent: u32,
}

impl Default for Worth {
    /// Always.
    fn default() -> Self {
        Worth {
            left_bytes: u64::MAX,
            percent: 0,
        }
    }
}

impl Unread {
    /// Is the rest worth fetching when `came` bytes are there? Called only without readers.
    pub(super) fn is_worth_it(&self, came: u64) -> bool {
        let Some(left_at) = self.left_at else {
            return true;
        };
        let (most, percent) = (self.worth.left_bytes, u128::from(self.worth.percent));
        match self.length {
            Some(length) => {
                length.saturating_sub(came) <= most
                    || u128::from(came) * 100 >= u128::from(length) * percent
            }
            None => percent == 0 || came.saturating_sub(left_at) <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_at(left_at: u64, length: Option<u64>) -> Unread {
        Unread {
            worth: Worth {
                left_bytes: 100,
                percent: 90,
            },
            length,
            left_at: Some(left_at),
        }
    }

    #[test]
    fn little_that_is_missing_is_fetched() {
        let unread = left_at(0, Some(1000));
        assert!(!unread.is_worth_it(10));
        assert!(!unread.is_worth_it(899));
        assert!(unread.is_worth_it(900));
        assert!(left_at(0, Some(100)).is_worth_it(1));
    }

    #[test]
    fn most_that_is_there_is_not_given_up() {
        let unread = left_at(0, Some(1_000_000));
        assert!(!unread.is_worth_it(899_999));
        assert!(unread.is_worth_it(900_000));
    }

    #[test]
    fn a_body_of_unknown_length_gets_a_little_more() {
        let unread = left_at(5000, None);
        assert!(unread.is_worth_it(5100));
        assert!(!unread.is_worth_it(5101));
    }

    #[test]
    fn what_nobody_has_left_goes_on() {
        let unread = Unread {
            left_at: None,
            ..left_at(0, Some(1000))
        };
        assert!(unread.is_worth_it(1));
    }

    #[test]
    fn no_percentage_and_nothing_said_stop_nothing() {
        let mut unread = left_at(0, None);
        unread.worth.percent = 0;
        assert!(unread.is_worth_it(1 << 40));
        unread.length = Some(u64::MAX);
        assert!(unread.is_worth_it(0));
        unread.worth = Worth::default();
        assert!(unread.is_worth_it(0));
    }
}
