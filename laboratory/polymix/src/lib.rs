//! The PolyMix workload: what a day of web traffic does to a proxy, in an afternoon or in a minute.
//!
//! Robots request objects through the proxy under test; servers compute them. Everything about an object (size, cachability, when it
//! changes, each of its bytes) is a function of its name and the time. A robot therefore knows the right answer without asking
//! the servers, and compares all of it.
//!
//! ```text
//!  phases --> clock --> robots --- popularity, request     (what to ask, and when)
//!                         |  \---- answer, check           (was it right?) --> stats --> report
//!                       proxy under test
//!                         |
//!                       server --- content, life, body, name   (what is right; robots use it too)
//! ```
//!
//! | file | story |
//! |---|---|
//! | `random` | random numbers from a seed; distributions by inverse transform |
//! | `content` | the kinds of objects, with sizes and cachability |
//! | `life` | when an object changes: Last-Modified and Expires |
//! | `body` | an object's bytes, and their checksum |
//! | `name`, `dns` | URLs of objects, addresses of servers, and a name server for them |
//! | `network` | delay and loss on the servers' side |
//! | `popularity` | which object is requested: new or old, hot or not, the working set |
//! | `ideal` | what an ideal cache would answer |
//! | `lru` | what an exact LRU of the cache's size would answer |
//! | `request` | request types and methods |
//! | `phases` | the phases, from framp to dec2 |
//! | `clock` | when a robot intends to send, under a load that changes |
//! | `wire`, `range` | heads of requests and responses; parts of objects |
//! | `answer`, `check` | reading an answer; whether it is correct |
//! | `server`, `robots` | the two halves, on tokio |
//! | `stats`, `times`, `series` | counts of a phase; times of one sort; counts moment by moment |
//! | `cores` | CPU time of a thread |
//! | `report` | the report of a run: JSON that can be read back, text; joining the parts of a run |
//! | `pages` | tables and figures: of a run, of several side by side, of a search |
//! | `left_out` | how a test differs from the specification |
//! | `search` | the rate to try next, and whether a proxy sustained it |
//! | `run` | both halves and the phases: one test |
//!
//! Source: POLYMIX-SPEC, from Web Polygraph 4.9.0 (workloads polymix-3 and polymix-4). We differ: the network is imitated by
//! the servers; life cycles shrink with the time scale. What a test leaves out, its report says (`left_out`).
#![forbid(unsafe_code)]

pub mod answer;
pub mod body;
pub mod check;
pub mod clock;
pub mod content;
pub mod cores;
pub mod dns;
pub mod ideal;
pub mod left_out;
pub mod life;
pub mod lru;
pub mod name;
pub mod network;
pub mod pages;
pub mod phases;
pub mod popularity;
pub mod random;
pub mod range;
pub mod report;
pub mod request;
pub mod robots;
pub mod run;
pub mod search;
pub mod series;
pub mod server;
pub mod stats;
#[cfg(test)]
mod testing;
pub mod times;
pub mod wire;

/// Which of the two workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Mix {
    /// PolyMix-3, of the third and fourth cache-off: GET only.
    Three,
    /// PolyMix-4: POST, HEAD, aborts, and small objects preferred.
    Four,
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Three => "PolyMix-3",
            Self::Four => "PolyMix-4",
        })
    }
}
