//! System calls about the cache's files: opens, closes, unlinks, renames, reads, writes.
//!
//! These runs give no other figures, because strace slows a proxy. A proxy with io_uring must be told not to use it
//! (`loligo serve --io-engine threads`), or only the block layer's counts mean anything.
//!
//! Not known here: the load.   Limits: calls about other files (logs) are not counted; a mapped file has no calls at all.
//! Source: paper 000, Tables 1 and 2.

use std::path::Path;

use serde::Serialize;

use crate::failure::Result;
use crate::strace::{CLOSES, OPENS, RENAMES, Strace, UNLINKS};

const READS: [&str; 6] = ["read", "readv", "pread64", "preadv", "preadv2", "sendfile"];
const WRITES: [&str; 5] = ["write", "writev", "pwrite64", "pwritev", "pwritev2"];

/// How often each system call was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    pub opens: u64,
    pub closes: u64,
    pub unlinks: u64,
    pub renames: u64,
    pub reads: u64,
    pub writes: u64,
}

/// The names of the counted system calls.
pub fn names() -> Vec<&'static str> {
    [&OPENS[..], &CLOSES, &UNLINKS, &READS, &WRITES, &RENAMES].concat()
}

/// Ends strace and counts the calls about files below `place`: one count for each span of time, in seconds since 1970.
pub fn count(strace: Strace, place: &Path, spans: &[(f64, f64)]) -> Result<Vec<Calls>> {
    let mut counts = vec![Calls::default(); spans.len()];
    let place = place.display().to_string();
    strace.finish(|at_s, call, about| {
        if !about.starts_with(&place) {
            return;
        }
        for (calls, (from_s, to_s)) in counts.iter_mut().zip(spans) {
            if (*from_s..*to_s).contains(&at_s) {
                calls.count(call);
            }
        }
    })?;
    Ok(counts)
}

impl Calls {
    fn count(&mut self, call: &str) {
        let counters = [
            (&OPENS[..], &mut self.opens),
            (&CLOSES, &mut self.closes),
            (&UNLINKS, &mut self.unlinks),
            (&RENAMES, &mut self.renames),
            (&READS, &mut self.reads),
            (&WRITES, &mut self.writes),
        ];
        for (names, counter) in counters {
            *counter += u64::from(names.contains(&call));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_their_counters() {
        let mut calls = Calls::default();
        for call in [
            "openat", "creat", "close", "unlink", "pread64", "writev", "rename", "poll",
        ] {
            calls.count(call);
        }
        let want = Calls {
            opens: 2,
            closes: 1,
            unlinks: 1,
            renames: 1,
            reads: 1,
            writes: 1,
        };
        assert_eq!(calls, want);
    }
}
