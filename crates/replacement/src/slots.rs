//! How far the tables of the policies reach: they have an entry a slot, and double when a slot beyond them comes.
//!
//! Not known here: what an entry is.   Limits: slots below [`SLOTS_MAX`] (asserted).

/// The number of slots possible; the two numbers above serve as marks.
pub const SLOTS_MAX: u32 = u32::MAX - 1;

/// Tables begin with this many slots.
const SLOTS_MIN: usize = 64;

/// How many slots a table of `slots` must have to hold `slot`; None: it does already.
///
/// # Panics
///
/// If there can be no such slot.
#[inline]
pub fn slots_to_hold(slot: u32, slots: usize) -> Option<usize> {
    assert!(slot < SLOTS_MAX, "slot {slot} is out of range");
    let needed = slot as usize + 1;
    (needed > slots).then(|| needed.max(2 * slots).clamp(SLOTS_MIN, SLOTS_MAX as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_double_and_hold_what_comes() {
        assert_eq!(slots_to_hold(0, 0), Some(SLOTS_MIN));
        assert_eq!(slots_to_hold(63, 64), None);
        assert_eq!(slots_to_hold(64, 64), Some(128));
        assert_eq!(slots_to_hold(1000, 64), Some(1001));
        assert_eq!(
            slots_to_hold(SLOTS_MAX - 1, SLOTS_MAX as usize - 1),
            Some(SLOTS_MAX as usize)
        );
    }
}
