//! Writes and flushes in order, for log commits, notes and the end of a checkpoint.
//!
//! A script is a list of stages. The writes of one stage go out together; a flush goes out when everything before it has been
//! reported done. The first failure ends the script.

use bytes::Bytes;
use std::collections::VecDeque;

/// One stage.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Independent of each other. Offsets from the start of the store.
    Writes(VecDeque<(u64, Bytes)>),
    Flush,
}

/// The next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Write(u64, Bytes),
    Flush,
}

#[derive(Debug)]
pub(crate) struct Script {
    stages: VecDeque<Stage>,
    outstanding: usize,
    /// A flush is outstanding.
    flushing: bool,
    failed: bool,
}

impl Script {
    pub(crate) fn new(stages: impl IntoIterator<Item = Stage>) -> Self {
        Self {
            stages: stages.into_iter().collect(),
            outstanding: 0,
            flushing: false,
            failed: false,
        }
    }

    /// Writes, then a flush.
    pub(crate) fn write_and_flush(writes: impl IntoIterator<Item = (u64, Bytes)>) -> Self {
        Self::new([Stage::Writes(writes.into_iter().collect()), Stage::Flush])
    }

    /// The next step, if one can begin now.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.failed || self.flushing {
            return None;
        }
        loop {
            match self.stages.front_mut()? {
                Stage::Writes(writes) => {
                    if let Some((offset, data)) = writes.pop_front() {
                        self.outstanding += 1;
                        return Some(Step::Write(offset, data));
                    }
                    if self.outstanding > 0 {
                        return None;
                    }
                    self.stages.pop_front();
                }
                Stage::Flush => {
                    if self.outstanding > 0 {
                        return None;
                    }
                    self.stages.pop_front();
                    self.outstanding += 1;
                    self.flushing = true;
                    return Some(Step::Flush);
                }
            }
        }
    }

    /// A step was carried out. `Some` at the end of the script: whether all steps succeeded.
    pub(crate) fn done(&mut self, ok: bool) -> Option<bool> {
        self.outstanding -= 1;
        // A flush is outstanding alone, so this is the flush.
        self.flushing = false;
        self.failed |= !ok;
        if self.outstanding > 0 {
            return None;
        }
        let left = self.stages.iter().any(|stage| match stage {
            Stage::Writes(writes) => !writes.is_empty(),
            Stage::Flush => true,
        });
        if self.failed {
            Some(false)
        } else {
            (!left).then_some(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        let write = |at| (at, Bytes::new());
        Script::new([
            Stage::Writes([write(1), write(2)].into()),
            Stage::Flush,
            Stage::Writes([write(3)].into()),
            Stage::Flush,
        ])
    }

    #[test]
    fn a_flush_waits_for_the_writes_before_it() {
        let mut script = script();
        assert!(matches!(script.next(), Some(Step::Write(1, _))));
        assert!(matches!(script.next(), Some(Step::Write(2, _))));
        assert!(script.next().is_none());
        assert_eq!(script.done(true), None);
        assert!(script.next().is_none());
        assert_eq!(script.done(true), None);
        assert!(matches!(script.next(), Some(Step::Flush)));
        assert!(script.next().is_none());
        assert_eq!(script.done(true), None);
        assert!(matches!(script.next(), Some(Step::Write(3, _))));
        assert_eq!(script.done(true), None);
        assert!(matches!(script.next(), Some(Step::Flush)));
        assert_eq!(script.done(true), Some(true));
    }

    #[test]
    fn a_failure_ends_it_when_nothing_is_outstanding() {
        let mut script = script();
        assert!(script.next().is_some() && script.next().is_some());
        assert_eq!(script.done(false), None);
        assert!(script.next().is_none());
        assert_eq!(script.done(true), Some(false));
    }
}
