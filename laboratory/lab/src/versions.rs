//! When a repeated request with another size is for a new version of the object.
//!
//! A trace has sizes, but no versions. A size that differs by a few bytes is often the same document with another header counted in,
//! or an aborted transfer. [`Versions`] therefore says which difference makes a new version; every other request gets the size that the
//! object already has.
//!
//! Memory: 4 bytes for each object number.
//! Not known here: caches, traces.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::Access;

/// No request has named the object yet.
const UNSEEN: u32 = u32::MAX;

/// Which change of size makes a new version. Written as `any`, `over=N` or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versions {
    /// Any change of size.
    #[default]
    Any,
    /// A change by more than this many bytes.
    Over(u32),
    /// No change: an object keeps its first size.
    Never,
}

/// The text is not a rule for new versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a new version is \"any\" other size, one that differs by more than \"over=BYTES\", or \"none\""
)]
pub struct UnknownVersions;

impl FromStr for Versions {
    type Err = UnknownVersions;

    fn from_str(text: &str) -> Result<Self, UnknownVersions> {
        match (text, text.strip_prefix("over=")) {
            ("any", _) => Ok(Versions::Any),
            ("none", _) => Ok(Versions::Never),
            (_, Some(bytes)) => bytes
                .parse()
                .map(Versions::Over)
                .map_err(|_| UnknownVersions),
            _ => Err(UnknownVersions),
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Versions::Any => f.write_str("any"),
            Versions::Over(bytes) => write!(f, "over={bytes}"),
            Versions::Never => f.write_str("none"),
        }
    }
}

impl Serialize for Versions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Gives each request the size of the version it is for.
#[derive(Debug)]
pub struct Settling {
    versions: Versions,
    /// Size of the present version, by object.
    sizes: Vec<u32>,
}

impl Settling {
    /// At the beginning of a stream.
    pub fn new(versions: Versions) -> Self {
        Settling {
            versions,
            sizes: Vec::new(),
        }
    }

    /// The next request of the stream, with the size of its version.
    pub fn settle(&mut self, access: Access) -> Access {
        let object = access.object as usize;
        if self.sizes.len() <= object {
            self.sizes.resize(object + 1, UNSEEN);
        }
        let held = &mut self.sizes[object];
        let apart = held.abs_diff(access.size_bytes);
        let is_new = match self.versions {
            Versions::Any => true,
            Versions::Over(bytes) => *held == UNSEEN || apart > bytes,
            Versions::Never => *held == UNSEEN,
        };
        if is_new {
            *held = access.size_bytes;
        }
        Access {
            size_bytes: *held,
            ..access
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(versions: &str, sizes: &[u32]) -> Vec<u32> {
        let mut settling = Settling::new(versions.parse().unwrap());
        let access = |&size_bytes| Access {
            at_ms: 0,
            object: 3,
            server: 0,
            size_bytes,
        };
        let sizes = sizes.iter().map(access);
        sizes.map(|it| settling.settle(it).size_bytes).collect()
    }

    #[test]
    fn a_difference_counts_from_the_present_version() {
        let sizes = [100, 116, 117, 110, 150, 134, 133];
        assert_eq!(settled("any", &sizes), sizes);
        assert_eq!(settled("none", &sizes), [100; 7]);
        assert_eq!(
            settled("over=16", &sizes),
            [100, 100, 117, 117, 150, 150, 133]
        );
        assert_eq!(settled("over=0", &sizes), sizes);
    }

    #[test]
    fn they_are_read_as_they_are_written() {
        for versions in [Versions::Any, Versions::Over(16), Versions::Never] {
            assert_eq!(versions.to_string().parse(), Ok(versions));
        }
        for text in ["", "over", "over=", "over=-1", "all"] {
            assert_eq!(text.parse::<Versions>(), Err(UnknownVersions));
        }
    }
}
