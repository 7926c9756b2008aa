//! Artificial streams of requests, fitted to what is known of real ones.
//!
//! | stream | fitted to |
//! |---|---|
//! | [`DecLike`] | the counts and words of paper 002 about Digital's proxy |
//! | [`UcbLike`] | the modem users of Berkeley, from the four counts and the hit ratio of paper 003 |
//! | [`PolyMixLike`] | PolyMix-3 and 4, as the benchmark makes its requests (`polymix`), without the network |
//!
//! Equal settings give equal streams.
//!
//! Not known here: caches.

mod dec;
mod polymix;
mod ucb;

pub use self::dec::{DecLike, Stream};
pub use self::polymix::{PolyMixLike, PolyMixStream};
pub use self::ucb::{UcbLike, UcbStream};
