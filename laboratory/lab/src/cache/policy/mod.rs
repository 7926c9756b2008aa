//! Replacement policies of the lab: those of the product (crate `replacement`), and four that the product does not offer.
//!
//! | name | |
//! |---|---|
//! | s3-fifo | three queues; newcomers prove themselves in a small one |
//! | sieve | one queue, and a hand that spares requested objects |
//! | lhd | evicts by the expected hits per byte and time, estimated from past requests |
//! | w-tinylfu | a window, and a main part for objects requested more often |
//!
//! Their order differs with the trace (docs/lab-traces.md): S3-FIFO beats LRU where the sizes of objects do not change and on key-value
//! requests, and loses on streams with many new versions. They stay in the lab for comparisons on further traces.

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

/// A replacement policy. Written as its name; `lru-threshold=` is followed by the largest size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// A policy of the product.
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

/// The text is not the name of a policy.
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
