//! The ways in which the bytes of a record can be wrong.

/// Why bytes are not the record that was asked for. Drop the record, see [`crate::Store::forget`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Corrupt {
    /// Shorter than a header, or not as long as the header says.
    #[error("the record has the wrong length")]
    Length,
    /// No record begins there.
    #[error("no record begins there")]
    Magic,
    /// A record of another format.
    #[error("a record of another format version")]
    Version,
    /// The header was not written by this store, or changed since.
    #[error("the header's MAC does not match")]
    Mac,
    /// Written before the store last started empty.
    #[error("a record of another epoch")]
    Epoch,
    /// Another object's record, whole and in its place: the index takes two keys for one. Do not drop it.
    #[error("a record of another key")]
    Hash,
    /// Purged by a predicate since its fill began, or older than what the store accepts.
    #[error("the record was invalidated")]
    Invalidated,
    /// A record that belongs elsewhere: a misdirected read or write.
    #[error("a record of another place")]
    Place,
    /// Key, metadata, table or body changed.
    #[error("the checksum does not match")]
    Checksum,
    /// Something other than zeros behind the body.
    #[error("the padding is not zero")]
    Padding,
}
