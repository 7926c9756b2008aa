//! Replacement policies of the lab: those of the product (crate `replacement`), and four that the product does not offer.
//!
//! | name | |
//! |---|---|
//! | s3-fifo | three queues; newcomers prove themselves in a small one |
//! | sieve | one queue, and a hand that spares what was asked for |
//! | lhd | the least hits to be expected for room and time, as counted so far |
//! | w-tinylfu | a window, and a main part that must be asked for more often |
//!
//! How they compare differs with the trace (docs/lab-traces.md): S3-FIFO beats LRU where sizes are taken to stay and on key-value
//! requests, and loses on streams with many new versions. So they stay here to be compared on the next trace.

mod ghosts;
mod lhd;
mod queues;
mod s3_fifo;
mod sieve;
#[cfg(test)]
mod tests;
mod w_tinylfu;

use std::fmt;
use std::str::FromStr;

use replacement::{Policy, PolicyKind as Offered};

/// Which policy. Written as its name; `lru-threshold=` is followed by the largest size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// One that the product offers.
    Offered(Offered),
    /// S3-FIFO.
    S3Fifo,
    /// SIEVE.
    Sieve,
    /// LHD.
    Lhd,
    /// W-TinyLFU.
    WTinyLfu,
}

impl PolicyKind {
    /// Exact LRU.
    pub const LRU: PolicyKind = PolicyKind::Offered(Offered::Lru);

    /// A fresh policy of this kind.
    pub fn build(self) -> Box<dyn Policy> {
        match self {
            PolicyKind::Offered(kind) => Box::new(kind.build()),
            PolicyKind::S3Fifo => Box::new(s3_fifo::S3Fifo::new()),
            PolicyKind::Sieve => Box::new(sieve::Sieve::new()),
            PolicyKind::Lhd => Box::new(lhd::Lhd::new()),
            PolicyKind::WTinyLfu => Box::new(w_tinylfu::WTinyLfu::new()),
        }
    }
}

/// The text names no policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a replacement policy is \"lru\", \"lru-threshold=BYTES\", \"gdsf\", \"s3-fifo\", \"sieve\", \"lhd\" or \"w-tinylfu\""
)]
pub struct UnknownPolicy;

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        match text {
            "s3-fifo" => Ok(PolicyKind::S3Fifo),
            "sieve" => Ok(PolicyKind::Sieve),
            "lhd" => Ok(PolicyKind::Lhd),
            "w-tinylfu" => Ok(PolicyKind::WTinyLfu),
            offered => offered
                .parse()
                .map(PolicyKind::Offered)
                .map_err(|_| UnknownPolicy),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyKind::Offered(kind) => kind.fmt(f),
            PolicyKind::S3Fifo => f.write_str("s3-fifo"),
            PolicyKind::Sieve => f.write_str("sieve"),
            PolicyKind::Lhd => f.write_str("lhd"),
            PolicyKind::WTinyLfu => f.write_str("w-tinylfu"),
        }
    }
}
