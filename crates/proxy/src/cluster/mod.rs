//! A cluster.
pub mod purging;
/// The number of another member, by the order of the configuration: bit `1 << id` of a mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MemberId(pub u8);

impl MemberId {
    /// Its bit in a mask of members.
    pub fn bit(self) -> u64 {
        1 << self.0
    }
}
