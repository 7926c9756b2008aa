//! Why a proxy does not come up.

use std::{io, net::SocketAddr};

use crate::user::UserError;
use cache::opening::StoreError;
use peers::digest::Unmakable;
use plan::User;

/// Why the proxy cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The store.
    #[error("store: {0}; with `store.required = false` the proxy serves without it")]
    Store(#[from] StoreError),
    /// Our digest.
    #[error("{0}")]
    Digest(#[from] Unmakable),
    /// Root's rights are still there.
    #[error(transparent)]
    User(#[from] UserError),
    /// A log file.
    #[error("log.access or log.profile: {0}")]
    Log(io::Error),
    /// The same, of a process that was root.
    #[error(
        "log.access or log.profile: {source}; they are opened as user {user}, because rotated logs are made anew by it: give it the folder"
    )]
    LogOfUser {
        /// Whom the process has become.
        user: String,
        /// Why.
        source: io::Error,
    },
    /// The journal of purges.
    #[error("cluster.state: {0}")]
    Purges(io::Error),
    /// Certificates for TLS to origins.
    #[error("TLS to origins: {0}")]
    Origins(String),
    /// Certificates of a listener.
    #[error("TLS of a listener: {0}")]
    Served(String),
    /// A worker.
    #[error("a worker could not start: {0}")]
    Worker(String),
    /// Another process's place could not be taken. It serves on.
    #[error("this process does not take over: {0}")]
    TakeOver(String),
    /// Another process was to take this one's place.
    #[error("{0}")]
    Successor(&'static str),
    /// The runtime.
    #[error("{0}")]
    Runtime(#[from] io::Error),
}

/// A log cannot be opened.
pub(super) fn log_error(source: io::Error, user: Option<&User>) -> ServeError {
    match user {
        Some(user) if source.kind() == io::ErrorKind::PermissionDenied => ServeError::LogOfUser {
            user: user.name.clone(),
            source,
        },
        _ => ServeError::Log(source),
    }
}
