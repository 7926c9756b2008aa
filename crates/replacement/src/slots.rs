//! The size of the policies' tables: they have an entry for each slot, and are doubled for a slot beyond their end.
//!
//! Not known here: the entries.   Limits: slots below [`SLOTS_MAX`] (asserted).

/// The number of possible slots. The two remaining values of a `u32` serve as marks.
pub const SLOTS_MAX: u32 = u32::MAX - 1;

/// The smallest table.
const SLOTS_MIN: usize = 64;

/// The size that a table of `slots` entries must grow to in order to hold `slot`; `None` if it is large enough.
///
/// # Panics
///
/// If `slot` is not below [`SLOTS_MAX`].
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
