//! The counting filter against a slow, obvious twin: a table of how often each number is in.

use hints::{Counting, Shape, Width};
use proptest::prelude::*;
use std::collections::HashMap;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_that_is_in_is_denied(
        bits in 64u64..4096,
        functions in 1u8..9,
        eight in any::<bool>(),
        steps in prop::collection::vec((any::<bool>(), 0u64..200), 0..2000),
    ) {
        let width = if eight { Width::Eight } else { Width::Four };
        let mut filter = Counting::new(Shape::new(bits, functions).unwrap(), width);
        let mut twin: HashMap<u64, u32> = HashMap::new();
        for (comes, number) in steps {
            if comes {
                filter.insert(number);
                *twin.entry(number).or_default() += 1;
            } else if let Some(count) = twin.get_mut(&number).filter(|count| **count > 0) {
                filter.remove(number);
                *count -= 1;
            }
        }
        prop_assert_eq!(filter.audit(), Ok(()));
        for (number, _) in twin.iter().filter(|(_, count)| **count > 0) {
            prop_assert!(filter.may_have(*number), "{} is in", number);
        }
        if !filter.is_worn() && eight {
            // Without a stuck counter the filter is that of the numbers that are in, and of nothing else.
            let mut anew = Counting::new(filter.bits().shape(), width);
            for (number, count) in &twin {
                (0..*count).for_each(|_| anew.insert(*number));
            }
            prop_assert!(anew.ones() <= filter.ones());
        }
    }
}
