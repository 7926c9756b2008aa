//! Faults that a test can inject on a memory device.
//!
//! A plan is shared: the test keeps a clone and changes it while the device is in use. Operations are counted by
//! kind, and rules name them by number, so a test says "the second write from now fails" and the run repeats exactly.
//! Nothing here waits for a time to pass: a held operation waits until the test releases it, and a test can wait
//! until a given number of operations are held.
//!
//! Holding is for operations through an engine; the `*_sync` calls of start and stop are never held.
//!
//! Limits: 1,024 rules, 1,024 corrupt bytes.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::sync::Notify;

const RULES_MAX: usize = 1024;
/// The error of a failing disk: "input/output error".
const EIO: i32 = 5;

/// The kinds of operation a rule can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `read`
    Read,
    /// `write`
    Write,
    /// `flush`
    Flush,
}

/// How many operations have begun since the device was made, and how many of them a rule affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads begun.
    pub reads: u64,
    /// Writes begun.
    pub writes: u64,
    /// Flushes begun.
    pub flushes: u64,
    /// Operations of any kind that a rule failed, tore or lost.
    pub faults: u64,
}

/// The faults to inject. A cheap handle: all clones share one plan. `nth` counts from now: 0 is the next operation.
#[derive(Clone, Default)]
pub struct FaultPlan(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    released: Condvar,
    changed: Notify,
}

#[derive(Default)]
struct State {
    begun: [u64; 3],
    faults: u64,
    rules: Vec<Rule>,
    transfer_max: [Option<usize>; 3],
    hold: [bool; 3],
    held: usize,
    end: Option<u64>,
    corrupt: Vec<(u64, u8)>,
}

struct Rule {
    operation: Operation,
    first: u64,
    last: u64,
    effect: Effect,
}

#[derive(Clone, Copy)]
enum Effect {
    Fail,
    Tear { keep: usize },
    Lose,
}

/// How an operation begins.
pub(crate) enum Begun {
    Go,
    Fail(io::Error),
    /// Write `keep` bytes, then fail.
    Tear {
        keep: usize,
        error: io::Error,
    },
    /// Report success, write nothing.
    Lose,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The `nth` operation of this kind fails with an input/output error.
    pub fn fail(&self, operation: Operation, nth: u64) {
        self.rule(operation, nth, nth, Effect::Fail);
    }

    /// All operations of this kind fail, from now until `clear`.
    pub fn fail_all(&self, operation: Operation) {
        self.rule(operation, 0, u64::MAX, Effect::Fail);
    }

    /// The `nth` write stops after `keep` bytes, and fails.
    pub fn tear(&self, nth: u64, keep: usize) {
        self.rule(Operation::Write, nth, nth, Effect::Tear { keep });
    }

    /// The `nth` write writes nothing, and reports success.
    pub fn lose(&self, nth: u64) {
        self.rule(Operation::Write, nth, nth, Effect::Lose);
    }

    /// From now, one transfer of this kind moves at most `bytes_max` bytes (at least one): the rest must be asked for.
    pub fn shorten(&self, operation: Operation, bytes_max: usize) {
        self.state().transfer_max[operation as usize] = Some(bytes_max.max(1));
    }

    /// From now, reads find the device ending at byte `at`.
    pub fn end_at(&self, at: u64) {
        self.state().end = Some(at);
    }

    /// From now, reads see byte `at` exclusive-or `mask`.
    pub fn corrupt_byte(&self, at: u64, mask: u8) {
        let mut state = self.state();
        assert!(
            state.corrupt.len() < RULES_MAX,
            "at most {RULES_MAX} corrupt bytes"
        );
        state.corrupt.push((at, mask));
    }

    /// From now, operations of this kind that come through an engine wait before they begin.
    pub fn hold(&self, operation: Operation) {
        self.state().hold[operation as usize] = true;
    }

    /// Lets the held operations of this kind go, and holds no more.
    pub fn release(&self, operation: Operation) {
        self.state().hold[operation as usize] = false;
        self.0.released.notify_all();
        self.0.changed.notify_waiters();
    }

    /// Operations that are held now.
    pub fn held(&self) -> usize {
        self.state().held
    }

    /// Waits until at least `count` operations are held.
    pub async fn until_held(&self, count: usize) {
        self.until(|state| state.held >= count).await;
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        let state = self.state();
        let [reads, writes, flushes] = state.begun;
        Counts {
            reads,
            writes,
            flushes,
            faults: state.faults,
        }
    }

    /// Removes all faults and releases the held operations.
    pub fn clear(&self) {
        let mut state = self.state();
        *state = State {
            begun: state.begun,
            faults: state.faults,
            held: state.held,
            ..State::default()
        };
        drop(state);
        self.0.released.notify_all();
        self.0.changed.notify_waiters();
    }

    fn rule(&self, operation: Operation, from: u64, to: u64, effect: Effect) {
        let mut state = self.state();
        let begun = state.begun[operation as usize];
        state
            .rules
            .retain(|rule| rule.last >= begun || rule.operation != operation);
        assert!(state.rules.len() < RULES_MAX, "at most {RULES_MAX} rules");
        let (first, last) = (begun.saturating_add(from), begun.saturating_add(to));
        state.rules.push(Rule {
            operation,
            first,
            last,
            effect,
        });
    }

    /// Counts an operation and says what happens to it.
    pub(crate) fn begin(&self, operation: Operation) -> Begun {
        let mut state = self.state();
        let number = state.begun[operation as usize];
        state.begun[operation as usize] += 1;
        let applies = |rule: &&Rule| {
            rule.operation == operation && (rule.first..=rule.last).contains(&number)
        };
        let Some(effect) = state.rules.iter().find(applies).map(|rule| rule.effect) else {
            return Begun::Go;
        };
        state.faults += 1;
        let error = io::Error::from_raw_os_error(EIO);
        match effect {
            Effect::Fail => Begun::Fail(error),
            Effect::Tear { keep } => Begun::Tear { keep, error },
            Effect::Lose => Begun::Lose,
        }
    }

    /// Is an operation of this kind to be held now?
    pub(crate) fn holds(&self, operation: Operation) -> bool {
        self.state().hold[operation as usize]
    }

    /// Waits on this thread while operations of this kind are held.
    pub(crate) fn wait_blocking(&self, operation: Operation) {
        let mut state = self.state();
        if !state.hold[operation as usize] {
            return;
        }
        state.held += 1;
        self.0.changed.notify_waiters();
        while state.hold[operation as usize] {
            state = self.0.released.wait(state).expect(NO_PANIC);
        }
        state.held -= 1;
    }

    /// Waits as a task while operations of this kind are held.
    pub(crate) async fn wait(&self, operation: Operation) {
        self.state().held += 1;
        self.0.changed.notify_waiters();
        let _held = Held(self);
        self.until(|state| !state.hold[operation as usize]).await;
    }

    async fn until(&self, met: impl Fn(&State) -> bool) {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if met(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// How much of a read transfer is moved.
    pub(crate) fn clip_read(&self, at: u64, len: usize) -> usize {
        let state = self.state();
        let left = state.end.map_or(len, |end| {
            usize::try_from(end.saturating_sub(at)).unwrap_or(len)
        });
        len.min(left)
            .min(state.transfer_max[Operation::Read as usize].unwrap_or(len))
    }

    /// How much of a write transfer is moved.
    pub(crate) fn clip_write(&self, len: usize) -> usize {
        len.min(self.state().transfer_max[Operation::Write as usize].unwrap_or(len))
    }

    /// Names the bytes to spoil among `len` read from byte `at`: offset and mask.
    pub(crate) fn corrupt(&self, at: u64, len: usize, mut spoil: impl FnMut(usize, u8)) {
        for (position, mask) in &self.state().corrupt {
            match position
                .checked_sub(at)
                .and_then(|offset| usize::try_from(offset).ok())
            {
                Some(offset) if offset < len => spoil(offset, *mask),
                _ => {}
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "the holder of a fault plan's lock panics only on a test's own mistake";

/// Counts a held task down, also if it is dropped while it waits.
struct Held<'a>(&'a FaultPlan);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state().held -= 1;
    }
}

impl std::fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultPlan")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, IoFault};

    #[test]
    fn the_nth_fails_and_the_next_does_not() {
        let plan = FaultPlan::new();
        let device = Device::faulty(4096, plan.clone());
        plan.fail(Operation::Write, 1);
        device.write_all_sync(0, b"a").unwrap();
        assert!(matches!(
            device.write_all_sync(0, b"b"),
            Err(IoFault::Device { .. })
        ));
        device.write_all_sync(1, b"c").unwrap();
        let mut out = [0; 2];
        device.read_exact_sync(0, &mut out).unwrap();
        assert_eq!(&out, b"ac");
        assert_eq!(
            plan.counts(),
            Counts {
                reads: 1,
                writes: 3,
                flushes: 0,
                faults: 1
            }
        );
    }

    #[test]
    fn a_torn_write_leaves_its_beginning_and_a_lost_one_nothing() {
        let plan = FaultPlan::new();
        let device = Device::faulty(4096, plan.clone());
        plan.tear(0, 3);
        plan.lose(1);
        assert!(device.write_all_sync(0, b"squid").is_err());
        assert!(device.write_all_sync(8, b"squid").is_ok());
        let mut out = [0; 13];
        device.read_exact_sync(0, &mut out).unwrap();
        assert_eq!(&out, b"squ\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn short_transfers_are_continued_and_a_corrupt_byte_is_seen() {
        let plan = FaultPlan::new();
        let device = Device::faulty(4096, plan.clone());
        plan.shorten(Operation::Write, 3);
        plan.shorten(Operation::Read, 2);
        device.write_all_sync(100, b"cephalopod").unwrap();
        plan.corrupt_byte(104, 0x20);
        let mut out = [0; 10];
        device.read_exact_sync(100, &mut out).unwrap();
        assert_eq!(&out, b"cephAlopod");
        plan.clear();
        device.read_exact_sync(100, &mut out).unwrap();
        assert_eq!(&out, b"cephalopod");
    }

    #[test]
    fn everything_fails_until_cleared() {
        let plan = FaultPlan::new();
        let device = Device::faulty(4096, plan.clone());
        plan.fail_all(Operation::Read);
        plan.fail_all(Operation::Flush);
        for _ in 0..3 {
            assert!(device.read_exact_sync(0, &mut [0; 4]).is_err());
            assert!(device.flush_sync().is_err());
        }
        plan.clear();
        device.read_exact_sync(0, &mut [0; 4]).unwrap();
        device.flush_sync().unwrap();
    }

    #[test]
    fn an_early_end_is_short() {
        let plan = FaultPlan::new();
        let device = Device::faulty(4096, plan.clone());
        plan.end_at(1000);
        let fault = device.read_exact_sync(900, &mut [0; 200]).unwrap_err();
        assert!(matches!(fault, IoFault::Short { got: 100, .. }), "{fault}");
    }
}
