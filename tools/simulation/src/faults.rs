//! Faults of a disk: their kinds, their rates in a run, and how often each occurred.
//!
//! A *loud* fault is reported as an error, a *silent* one is not. The seed decides which are on: some runs have none (only crashes), some
//! only loud ones, some only silent ones, some both. A rule that fails under one kind only is thus tested under that kind alone.

use crate::random::Random;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// The name in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// A write is reported done, but never lands.
    LostWrite "lost writes"
    /// A write is reported done, but lands elsewhere.
    MisdirectedWrite "misdirected writes"
    /// A read returns bytes from elsewhere.
    MisdirectedRead "misdirected reads"
    /// A read returns changed bits; the disk still has the right ones.
    CorruptRead "corrupt reads"
    /// Bits on the disk change.
    CorruptMedium "corrupt sectors"
    /// Only a part is read; reported as an error.
    ShortRead "short reads"
    /// Only a part is written; reported as an error.
    ShortWrite "short writes"
    /// An operation completes very late.
    Slow "slow operations"
    /// A read fails.
    ReadError "failed reads"
    /// A write fails.
    WriteError "failed writes"
    /// A flush fails; some writes that it should have covered are never covered by a later one.
    FlushError "failed flushes"
    /// The operation with a certain number fails.
    NthError "failed n-th operations"
    /// A period begins in which all writes fail.
    WriteOutage "write outages"
    /// A power cut or a kill left only a part of a write.
    TornWrite "torn writes"
}

/// How often each kind occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Kind::ALL.len()]);

impl Counts {
    /// Counts a fault.
    pub fn add(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(sum, n)| *sum += n);
    }

    /// Names and counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Kind::ALL.iter().map(|kind| (kind.name(), self.of(*kind)))
    }

    /// How often this kind occurred.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }
}

/// Rates of faults: a fault occurs once in this many operations that it can affect; 0 means never.
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
    /// The operation with this number fails, and each whose number is a multiple of it.
    pub nth_error: u64,
    /// A write outage begins once in this many writes.
    pub outage: u64,
}

impl Faults {
    /// Rates chosen by the seed.
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
        // Rare enough that most records survive, frequent enough that each run sees several faults.
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

    /// No faults, for tests.
    pub fn none() -> Self {
        Self::default()
    }
}
