//! A policy chosen by name at start.
//!
//! To add one, add a [`PolicyKind`] and two arms below.

use crate::gdsf::Gdsf;
use crate::lru::Lru;
use crate::policy::Policy;
use crate::threshold::LruThreshold;
use std::fmt;
use std::str::FromStr;

/// The kind of policy, as a value for settings and reports. Written as its name; `lru-threshold=` is followed by the largest size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyKind {
    /// [`Lru`].
    #[default]
    Lru,
    /// [`LruThreshold`].
    LruThreshold {
        /// The largest size admitted.
        size_max: u64,
    },
    /// [`Gdsf`].
    Gdsf,
}

impl PolicyKind {
    /// A new policy of this kind.
    pub fn build(self) -> Selected {
        match self {
            PolicyKind::Lru => Selected::Lru(Lru::new()),
            PolicyKind::LruThreshold { size_max } => {
                Selected::LruThreshold(LruThreshold::new(size_max))
            }
            PolicyKind::Gdsf => Selected::Gdsf(Gdsf::new()),
        }
    }
}

/// The text is not the name of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a replacement policy is \"lru\", \"lru-threshold=SIZE\" or \"gdsf\"")
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        if let Some(size) = text.strip_prefix("lru-threshold=") {
            let size_max = size.parse().map_err(|_| UnknownPolicy)?;
            return Ok(PolicyKind::LruThreshold { size_max });
        }
        match text {
            "lru" => Ok(PolicyKind::Lru),
            "gdsf" => Ok(PolicyKind::Gdsf),
            _ => Err(UnknownPolicy),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyKind::Lru => f.write_str("lru"),
            PolicyKind::LruThreshold { size_max } => write!(f, "lru-threshold={size_max}"),
            PolicyKind::Gdsf => f.write_str("gdsf"),
        }
    }
}

/// The policy chosen at start.
#[derive(Clone, Debug)]
pub enum Selected {
    /// Exact LRU.
    Lru(Lru),
    /// LRU for objects up to a size.
    LruThreshold(LruThreshold),
    /// Greedy dual size frequency.
    Gdsf(Gdsf),
}

/// Calls the method of the chosen policy.
macro_rules! each {
    ($selected:expr, $policy:ident => $call:expr) => {
        match $selected {
            Selected::Lru($policy) => $call,
            Selected::LruThreshold($policy) => $call,
            Selected::Gdsf($policy) => $call,
        }
    };
}

impl Policy for Selected {
    fn admits(&self, size: u64) -> bool {
        each!(self, policy => policy.admits(size))
    }

    fn insert(&mut self, slot: u32, size: u64, id: u64) {
        each!(self, policy => Policy::insert(policy, slot, size, id));
    }

    #[inline]
    fn touch(&mut self, slot: u32) -> bool {
        each!(self, policy => policy.touch(slot))
    }

    fn remove(&mut self, slot: u32) -> bool {
        each!(self, policy => policy.remove(slot))
    }

    fn victim(&mut self) -> Option<u32> {
        each!(self, policy => policy.victim())
    }

    fn len(&self) -> usize {
        each!(self, policy => policy.len())
    }

    fn memory_bytes(&self) -> usize {
        each!(self, policy => policy.memory_bytes())
    }

    fn audit(&self) -> Result<(), String> {
        each!(self, policy => policy.audit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in [
            PolicyKind::Lru,
            PolicyKind::LruThreshold { size_max: 1 << 20 },
            PolicyKind::Gdsf,
        ] {
            let text = kind.to_string();
            assert_eq!(text.parse(), Ok(kind));
            let name = text.split('=').next().unwrap_or_default();
            assert!(UnknownPolicy.to_string().contains(&format!("\"{name}")));
        }
    }

    #[test]
    fn unknown_kinds_are_refused() {
        for text in [
            "",
            "LRU",
            "lru=3",
            "lru-threshold",
            "lru-threshold=",
            "lru-threshold=-1",
            "fifo",
            "sieve",
        ] {
            assert_eq!(text.parse::<PolicyKind>(), Err(UnknownPolicy), "{text:?}");
        }
    }

    #[test]
    fn the_selected_policy_is_the_one_named() {
        let mut policy = PolicyKind::LruThreshold { size_max: 10 }.build();
        assert!(policy.admits(10) && !policy.admits(11));
        policy.insert(4, 10, 0);
        assert_eq!(
            (policy.len(), policy.victim(), policy.is_empty()),
            (1, Some(4), true)
        );
        assert!(PolicyKind::default().build().admits(u64::MAX));
    }
}
