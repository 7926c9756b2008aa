//! The results of runs.

use std::fmt;

use crate::world::Counts;

/// The numbers of one run or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of runs.
    pub seeds: u64,
    /// Counts of events.
    pub counts: Counts,
    /// A digest of all answers: two runs of one seed have the same.
    pub digest: u64,
    /// Virtual time, seconds.
    pub seconds: u64,
}

impl Report {
    /// Adds another's numbers.
    pub fn merge(&mut self, other: &Report) {
        self.seeds += other.seeds;
        self.seconds += other.seconds;
        self.digest ^= other.digest.rotate_left((self.seeds % 64) as u32);
        let (sum, of) = (&mut self.counts, &other.counts);
        for (sum, n) in sum.all_mut().into_iter().zip(of.all()) {
            *sum += n.1;
        }
    }
}

impl Counts {
    /// Names and counts.
    pub fn all(&self) -> [(&'static str, u64); 12] {
        [
            ("requests", self.requests),
            ("requests by HTTP/2", self.over_h2),
            ("tunnels", self.tunnels),
            ("answers compared", self.compared),
            ("hits", self.hits),
            ("hits after a restart", self.recovered_hits),
            ("partial answers", self.parts),
            ("broken answers", self.broken),
            ("refusals", self.refused),
            ("purges and unsafe methods", self.purges),
            ("requests at origins", self.asked),
            ("starts", self.lives),
        ]
    }

    fn all_mut(&mut self) -> [&mut u64; 12] {
        [
            &mut self.requests,
            &mut self.over_h2,
            &mut self.tunnels,
            &mut self.compared,
            &mut self.hits,
            &mut self.recovered_hits,
            &mut self.parts,
            &mut self.broken,
            &mut self.refused,
            &mut self.purges,
            &mut self.asked,
            &mut self.lives,
        ]
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The rule, with details.
    pub message: String,
    /// The events of the resource, if the rule is about one.
    pub story: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(f, "  {line}")?;
        }
        let Failure { seed, message, .. } = self;
        writeln!(f, "seed {seed}: {message}")?;
        write!(f, "again: cargo xtask sim --proxy --seed {seed}")
    }
}
