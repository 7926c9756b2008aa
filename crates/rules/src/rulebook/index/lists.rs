//! A list of rules for each value, all in one allocation.

/// Lists of rules by value, each in order.
#[derive(Debug, Default)]
pub struct Lists {
    /// Where the list of each value begins; a last entry holds the end.
    starts: Vec<u32>,
    rules: Vec<u32>,
}

impl Lists {
    /// Lists for `values` values. `pairs`: a value and a rule each, sorted by rule.
    pub fn new(values: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let mut starts = vec![0u32; values + 1];
        for (value, _) in pairs.clone() {
            starts[value as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut ends = starts.clone();
        let mut rules = vec![0; *starts.last().unwrap_or(&0) as usize];
        for (value, rule) in pairs {
            let end = &mut ends[value as usize];
            rules[*end as usize] = rule;
            *end += 1;
        }
        Lists { starts, rules }
    }

    /// The rules of a value.
    #[inline]
    pub fn of(&self, value: u32) -> &[u32] {
        let at = value as usize;
        &self.rules[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// Is `rule` in the list of this value?
    #[inline]
    pub fn has(&self, value: u32, rule: u32) -> bool {
        self.of(value).binary_search(&rule).is_ok()
    }
}
