//! Several reports as one, from what JSON keeps of them.

/// Reports that can not be joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// There is nothing to join.
    #[error("there is no report to join")]
    Nothing,
}

/// Joins.
pub fn join(
    _name: &str,
    _reports: &[crate::model::SourceReport],
) -> Result<crate::model::SourceReport, JoinError> {
    Err(JoinError::Nothing)
}
