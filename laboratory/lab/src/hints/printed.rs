//! The figures that paper 003 prints of its trace study: parameters, and values in text and captions. The plots are lost.
//!
//! Source: paper 003, section 4.

/// Bytes of a megabyte of a hint space, which is a power of two.
pub(super) const MIB: f64 = 1_048_576.0;
/// Bytes of a gigabyte of a cache.
pub(super) const GB: f64 = 1e9;
/// Memory caches of fronts, in bytes: this one for Figures 8, 9, 11 and 14, the large one for Figures 10, 12 and 13.
pub(super) const FRONT_BYTES: f64 = 0.256 * GB;
/// See [`FRONT_BYTES`].
pub(super) const LARGE_FRONT_BYTES: f64 = 0.512 * GB;
/// The usual hint space in MiB, and the one of Figure 10.
pub(super) const SPACE_MIB: f64 = 4.0;
/// See [`SPACE_MIB`].
pub(super) const LARGE_SPACE_MIB: f64 = 10.0;
/// The usual number of hint entries per object.
pub(super) const FUNCTIONS: u8 = 4;
/// The usual update period.
pub(super) const PERIOD_S: f64 = 3600.0;
/// Caches of nodes in GB.
pub(super) const NODE_GB: [f64; 6] = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
/// Hint spaces in MiB.
pub(super) const SPACES_MIB: [f64; 7] = [0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
/// Update periods in seconds.
pub(super) const PERIODS_S: [f64; 6] = [1.0, 60.0, 600.0, 1800.0, 3600.0, 7200.0];
/// Objects in the largest replacement burst, and in one on average.
pub(super) const BURST_MAX: f64 = 2300.0;
/// See [`BURST_MAX`].
pub(super) const BURST_MEAN: f64 = 3.0;
/// Figure 14, with Bloom filters: by how many points the false-hit ratio is higher with a period of an hour than with one of a second,
/// by the node's cache in GB.
pub(super) const PERIOD_POINTS: [(f64, f64); 2] = [(4.0, 0.07), (6.0, 0.04)];
/// Figure 15: by how many percent a bound of ten raises the front's hits, at least.
pub(super) const BOUND_PERCENT: f64 = 5.0;
/// Bytes of a directory's entry at the front.
pub(super) const DIRECTORY_ENTRY_BYTES: u64 = 68;
/// Share of a node's hits that are copied to the front (section 3).
pub(super) const COPIED: f64 = 0.25;
