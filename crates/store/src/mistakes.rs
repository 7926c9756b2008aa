//! Deliberate mistakes, one by one, so that the fault simulation can show that it would notice them.
//!
//! Two mistakes are not among them. Accepting records of another epoch: a store that starts empty gets a new secret and a new hash seed as
//! well, so old records would neither verify nor be looked up. Writing again records of a stretch that was swept while it was read: the
//! opening of their region prevents that as well, unless another thread is very fast.
//!
//! Without the feature `mistakes`, which only the simulation turns on, none can be made and the checks compile to nothing.

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Mistake {
    /// Invalidations are not written to the log.
    NoLog,
    /// A scan accepts records older than what the log covers.
    NoHorizon,
    /// Header MACs are not compared.
    NoMac,
    /// A region is used again before its note is durable, and without one.
    EarlyReuse,
    /// Checksums of records are not compared.
    NoChecksum,
    /// The blocks of a fragment are not compared with its table when a part of its body is read.
    NoBlockCheck,
    /// A record is accepted wherever it lies.
    NoPlaceCheck,
    /// An invalidation counts as durable before its commit was flushed.
    AcknowledgeBeforeFlush,
    /// Regions opened since the checkpoint are not scanned.
    NoRegionScan,
    /// A fill that began before an invalidation is published all the same.
    IgnoreBegan,
    /// Predicates are not compared when a record is read.
    NoPredicateCheck,
    /// A scan takes the first record of a key it finds, not the newest.
    ReplacedComesBack,
    /// A log commit writes one copy of its page.
    SingleLogCopy,
    /// Records older than their region's opening are accepted.
    NoOpenedAt,
    /// An extent is free as soon as its record is dropped, even while it is read.
    FreeWhileRead,
    /// An invalidation spares records that wait in a locality buffer.
    KeepWaiting,
    /// A marker that leaves may be followed by one of the same salt.
    SaltAgain,
    /// A primary that the log has invalidated keeps the marker that the checkpoint has.
    MarkerOfPurged,
    /// A note of several regions has only the first of them.
    NoteOfFirst,
    /// The regions of a note under way at a clean stop are noted in smaller parts by the next start.
    NoteInParts,
    /// Regions that a scan finds empty are used in the order in which it finds them.
    EmptyAtOnce,
    /// A thawed store goes on before the superblock says that it is open.
    ThawInSilence,
    /// After the store was handed over this process still finds the records in its index.
    ServeWhatIsGone,
    /// Invalidations of this process after the store was handed over count as durable, and the other process is not told.
    ForgetToTell,
    /// The other process overwrites places that this one still reads.
    NoProtection,
    /// Protected places are free in an allocator that a scan makes anew.
    ProtectionOfBefore,
    /// The other process is told nothing more, once it could not make something durable.
    TellNoMore,
    /// Among the variants that a scan finds, the highest salt counts instead of the newest record.
    HighestSalt,
    /// A record that reinsertion has read is written again although it was purged, put in doubt or replaced meanwhile.
    ReinsertTheDead,
    /// A record that reinsertion has read is written again without comparing its checksum.
    ReinsertUnverified,
    /// A record whose write fails during a scan leaves its key to an older record that the scan finds.
    LostComesBack,
}

impl Mistake {
    /// Mistakes that some thousand seeds must reveal.
    pub const ALL: [Mistake; 29] = [
        Mistake::NoLog,
        Mistake::NoHorizon,
        Mistake::NoMac,
        Mistake::EarlyReuse,
        Mistake::NoChecksum,
        Mistake::NoBlockCheck,
        Mistake::NoPlaceCheck,
        Mistake::AcknowledgeBeforeFlush,
        Mistake::NoRegionScan,
        Mistake::IgnoreBegan,
        Mistake::NoPredicateCheck,
        Mistake::ReplacedComesBack,
        Mistake::SingleLogCopy,
        Mistake::NoOpenedAt,
        Mistake::FreeWhileRead,
        Mistake::KeepWaiting,
        Mistake::SaltAgain,
        Mistake::MarkerOfPurged,
        Mistake::NoteOfFirst,
        Mistake::NoteInParts,
        Mistake::EmptyAtOnce,
        Mistake::ThawInSilence,
        Mistake::ServeWhatIsGone,
        Mistake::ForgetToTell,
        Mistake::NoProtection,
        Mistake::ProtectionOfBefore,
        Mistake::TellNoMore,
        Mistake::ReinsertTheDead,
        Mistake::ReinsertUnverified,
    ];

    /// Mistakes that one seed in some thousands reveals. Where such a seed is known, it is kept as a test.
    pub const SELDOM: [Mistake; 2] = [Mistake::HighestSalt, Mistake::LostComesBack];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mistake::NoLog => "no-log",
            Mistake::NoHorizon => "no-horizon",
            Mistake::NoMac => "no-mac",
            Mistake::EarlyReuse => "early-reuse",
            Mistake::NoChecksum => "no-checksum",
            Mistake::NoBlockCheck => "no-block-check",
            Mistake::NoPlaceCheck => "no-place-check",
            Mistake::AcknowledgeBeforeFlush => "acknowledge-before-flush",
            Mistake::NoRegionScan => "no-region-scan",
            Mistake::IgnoreBegan => "ignore-began",
            Mistake::NoPredicateCheck => "no-predicate-check",
            Mistake::ReplacedComesBack => "replaced-comes-back",
            Mistake::SingleLogCopy => "single-log-copy",
            Mistake::NoOpenedAt => "no-opened-at",
            Mistake::FreeWhileRead => "free-while-read",
            Mistake::KeepWaiting => "keep-waiting",
            Mistake::SaltAgain => "salt-again",
            Mistake::MarkerOfPurged => "marker-of-purged",
            Mistake::NoteOfFirst => "note-of-first",
            Mistake::NoteInParts => "note-in-parts",
            Mistake::EmptyAtOnce => "empty-at-once",
            Mistake::ThawInSilence => "thaw-in-silence",
            Mistake::ServeWhatIsGone => "serve-what-is-gone",
            Mistake::ForgetToTell => "forget-to-tell",
            Mistake::NoProtection => "no-protection",
            Mistake::ProtectionOfBefore => "protection-of-before",
            Mistake::TellNoMore => "tell-no-more",
            Mistake::HighestSalt => "highest-salt",
            Mistake::ReinsertTheDead => "reinsert-the-dead",
            Mistake::ReinsertUnverified => "reinsert-unverified",
            Mistake::LostComesBack => "lost-comes-back",
        }
    }
}

/// Which mistakes to make: none, unless the feature is on and one was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mistakes(u32);

impl Mistakes {
    /// Only this one.
    pub fn only(mistake: Mistake) -> Self {
        Self(1 << mistake as u32)
    }

    #[inline]
    pub(crate) fn make(self, mistake: Mistake) -> bool {
        cfg!(feature = "mistakes") && self.0 & (1 << mistake as u32) != 0
    }
}
