//! A fetch that nobody reads any more: whether it goes on, to be stored, or is stopped.
//!
//! Clients leave downloads all the time. What little is missing is worth fetching, since the next client finds the body stored; a hundred
//! gigabytes that nobody waits for are not.
//!
//! Source: Squid's `quick_abort_min`, `_max` and `_pct`. We differ: one bound in bytes instead of two; a body whose length is not known gets
//! as many bytes more.

/// What becomes of a body that is stored, once all of its readers have left.
#[derive(Default)]
pub(super) struct Unread {
    pub(super) worth: Worth,
    /// The body's length, if it is known.
    pub(super) length: Option<u64>,
    /// A reader has left, when so much of the body had come. A fetch that never had one is not for readers.
    pub(super) left_at: Option<u64>,
}

/// When a body is fetched to its end though nobody reads it.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// If no more bytes than these are missing.
    pub left_bytes: u64,
    /// If this percentage of it has come.
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
    /// Is the rest worth its fetch, when `came` bytes of it are there? Only asked when nobody reads.
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
