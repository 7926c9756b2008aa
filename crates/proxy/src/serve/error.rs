//! Why a proxy does not start.

use std::{io, net::SocketAddr};

use crate::user::UserError;
use cache::opening::StoreError;
use peers::digest::Unmakable;
use plan::User;

/// Why the proxy cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The process cannot listen on an address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A store cannot be used.
    #[error("store: {0}; with `store.required = false` the proxy serves without it")]
    Store(#[from] StoreError),
    /// Our digest cannot be made.
    #[error("{0}")]
    Digest(#[from] Unmakable),
    /// Root's rights could not be given up.
    #[error(transparent)]
    User(#[from] UserError),
    /// A log file cannot be opened.
    #[error("log.access or log.profile: {0}")]
    Log(io::Error),
    /// A log file cannot be opened by the user that the process has become.
    #[error(
        "log.access or log.profile: {source}; they are opened as user {user}, because rotated logs are made anew by it: give it the folder"
    )]
    LogOfUser {
        /// That user.
        user: String,
        /// Why.
        source: io::Error,
    },
    /// The journal of purges cannot be opened.
    #[error("cluster.state: {0}")]
    Purges(io::Error),
    /// Certificates for TLS to origins cannot be used.
    #[error("TLS to origins: {0}")]
    Origins(String),
    /// Certificates of a listener cannot be used.
    #[error("TLS of a listener: {0}")]
    Served(String),
    /// A worker could not start.
    #[error("a worker could not start: {0}")]
    Worker(String),
    /// The previous process could not be replaced, and serves on.
    #[error("this process does not take over: {0}")]
    TakeOver(String),
    /// The new process did not replace this one.
    #[error("{0}")]
    Successor(&'static str),
    /// The runtime could not be built.
    #[error("{0}")]
    Runtime(#[from] io::Error),
}

/// The error for a log that cannot be opened.
pub(super) fn log_error(source: io::Error, user: Option<&User>) -> ServeError {
    match user {
        Some(user) if source.kind() == io::ErrorKind::PermissionDenied => ServeError::LogOfUser {
            user: user.name.clone(),
            source,
        },
        _ => ServeError::Log(source),
    }
}
