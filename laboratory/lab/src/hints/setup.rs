//! A run in the paper's sizes.
//!
//! Not known here: streams, except for the scale of the paper's sizes (`Measure`).

use super::hinting::{Family, Kind};
use super::printed::{COPIED, FRONT_BYTES, FUNCTIONS, GB, MIB, PERIOD_S, SPACE_MIB};
use super::site::Settings;
use super::stream::Measure;

/// The representation of hints, in the paper's sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Represented {
    /// Every object by its whole name.
    Directory,
    /// A Bloom filter.
    Bloom {
        /// Mebibytes of the bit array.
        space_mib: f64,
        /// Positions of an object.
        functions: u8,
        /// The functions that compute the positions.
        family: Family,
    },
}

/// The memory from which hints are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Paid {
    /// From no cache: hints have memory of their own.
    Nowhere,
    /// From the node's cache: a byte for each bit of the hint space.
    AtNode,
    /// From the node's cache, and from the front's cache as well.
    Everywhere,
}

/// A run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Setup {
    pub node_gb: f64,
    pub front_bytes: f64,
    pub burst_max: Option<u32>,
    pub represented: Represented,
    pub is_eager: bool,
    pub period_s: f64,
    pub paid: Paid,
}

/// The study's bound of replacement bursts, in all figures but Figure 15.
pub(super) const BURST_BOUND: u32 = 10;

impl Represented {
    /// The paper's usual filter.
    pub(super) const BLOOM: Represented = Represented::bloom(SPACE_MIB, FUNCTIONS);

    /// A filter with the paper's functions and a hint space of this size.
    pub(super) const fn bloom(space_mib: f64, functions: u8) -> Represented {
        Represented::Bloom {
            space_mib,
            functions,
            family: Family::Paper,
        }
    }

    fn kind(self, measure: &Measure) -> Kind {
        match self {
            Represented::Directory => Kind::Directory,
            Represented::Bloom {
                space_mib,
                functions,
                family,
            } => Kind::Bloom {
                bytes: measure.space_bytes(space_mib * MIB),
                functions,
                family,
            },
        }
    }
}

impl Setup {
    /// The paper's usual values.
    pub(super) const USUAL: Setup = Setup {
        node_gb: 4.0,
        front_bytes: FRONT_BYTES,
        burst_max: Some(BURST_BOUND),
        represented: Represented::BLOOM,
        is_eager: true,
        period_s: PERIOD_S,
        paid: Paid::Nowhere,
    };

    /// The settings of this run for a stream of this measure.
    pub(super) fn settings(&self, measure: &Measure) -> Settings {
        let kind = self.represented.kind(measure);
        let space_bytes = match kind {
            Kind::Directory => 0,
            Kind::Bloom { bytes, .. } => bytes,
        };
        let (at_node, at_front) = match self.paid {
            Paid::Nowhere => (0, 0),
            // The node has a counter of eight bits for each bit of the array.
            Paid::AtNode => (8 * space_bytes, 0),
            Paid::Everywhere => (8 * space_bytes, space_bytes),
        };
        let node_bytes = measure.cache_bytes(self.node_gb * GB);
        let front_bytes = measure.cache_bytes(self.front_bytes);
        Settings {
            node_bytes: node_bytes.saturating_sub(at_node),
            front_bytes: front_bytes.saturating_sub(at_front),
            burst_max: self.burst_max,
            kind,
            is_eager: self.is_eager,
            period_ms: measure.period_ms(self.period_s),
            copied: COPIED,
        }
    }
}
