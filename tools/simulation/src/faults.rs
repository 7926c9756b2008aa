//! What a disk does wrong: kinds of faults, how often each comes in a run, how often each came.
//!
//! A *loud* fault is reported as an error, a *silent* one is not. Which are on follows from the seed: some runs have none
//! (crashes alone), some only loud ones, some only silent ones, some both, so that a rule that holds but for one kind
//! is seen under that kind alone.

use crate::random::Random;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal)*) => {
        /// One kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// For reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// Reported done, never lands.
    LostWrite "lost writes"
    /// Reported done, lands elsewhere.
    MisdirectedWrite "misdirected writes"
    /// Brings bytes from elsewhere.
    MisdirectedRead "misdirected reads"
    /// Bits are other than on the disk, this time.
    CorruptRead "corrupt reads"
    /// Bits on the disk change.
    CorruptMedium "corrupt sectors"
    /// A part is read, reported as an error.
    ShortRead "short reads"
    /// A part is written, reported as an error.
    ShortWrite "short writes"
    /// Completes very late.
    Slow "slow operations"
    /// A read fails.
    ReadError "failed reads"
    /// A write fails.
    WriteError "failed writes"
    /// A flush fails; some of what it should have covered is never covered by a later one.
    FlushError "failed flushes"
    /// The operation of a certain number fails.
    NthError "failed n-th operations"
    /// A stretch of time in which all writes fail begins.
    WriteOutage "write outages"
    /// A write that a power cut or a kill left in part.
    TornWrite "torn writes"
}

/// How often each kind came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Kind::ALL.len()]);

impl Counts {
    /// One more.
    pub fn add(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// Those of another run on top.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, n)| *sum += n);
    }

    /// Names and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Kind::ALL.iter().map(|kind| (kind.name(), self.of(*kind)))
    }

    /// How often this one came.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }
}

/// How often each kind comes: once in so many operations that it can befall; 0 is never.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// See [`Kind::LostWrite`].
    pub lost_write: u64,
    /// See [`Kind::MisdirectedWrite`].
    pub misdirected_write: u64,
    /// See [`Kind::MisdirectedRead`].
    pub misdirected_read: u64,
    /// See [`Kind::CorruptRead`].
    pub corrupt_read: u64,
    /// See [`Kind::CorruptMedium`].
    pub corrupt_medium: u64,
    /// See [`Kind::ShortRead`], [`Kind::ShortWrite`].
    pub short: u64,
    /// See [`Kind::Slow`].
    pub slow: u64,
    /// See [`Kind::ReadError`].
    pub read_error: u64,
    /// See [`Kind::WriteError`].
    pub write_error: u64,
    /// See [`Kind::FlushError`].
    pub flush_error: u64,
    /// This operation fails, and each that is a multiple of it.
    pub nth_error: u64,
    /// A write outage begins, once in so many writes.
    pub outage: u64,
}

impl Faults {
    /// Chosen by the seed.
    pub fn choose(random: &mut Random) -> Self {
        let (loud, silent) = random.pick(&[
            (false, false),
            (true, false),
            (false, true),
            (false, true),
            (true, true),
        ]);
        let mut faults = Self {
            slow: 200,
            ..Self::default()
        };
        // Seldom enough that most records live, often enough that each run sees several.
        let mut rate = |n: u64| n / 2 + random.below(n * 2);
        if loud {
            faults.short = rate(300);
            faults.read_error = rate(300);
            faults.write_error = rate(300);
            faults.flush_error = rate(40);
            faults.nth_error = rate(700);
            faults.outage = rate(2000);
        }
        if silent {
            faults.lost_write = rate(150);
            faults.misdirected_write = rate(200);
            faults.misdirected_read = rate(150);
            faults.corrupt_read = rate(100);
            faults.corrupt_medium = rate(150);
        }
        faults
    }

    /// For tests: nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }
}
