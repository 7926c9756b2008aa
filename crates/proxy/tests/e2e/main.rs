//! The proxy end to end: real sockets on loopback, a real store file, the real I/O engine.
//!
//! Each test is a small play: an origin with a script, a proxy, clients that speak raw bytes (`harness`). They are told
//! by what could go wrong:
//!
//! | file | for |
//! |---|---|
//! | `cache` | what is stored and found again, and what makes it go |
//! | `disk` | crashes, several stores, parts that are lost |
//! | `validation` | what is stale or doubted |
//! | `sharing` | many requests, one fetch; purges racing fetches and reads |
//! | `framing` | messages as RFC 9112 wants them, and those it forbids |
//! | `bodies` | request bodies, interim and early responses |
//! | `forward` | absolute targets, tunnels, upgrades, loops |
//! | `hostile` | origins that die, lie or babble; clients that leave |
//! | `large` | bodies larger than memory should be |

mod bodies;
mod cache;
mod disk;
mod forward;
mod framing;
mod harness;
mod hostile;
mod large;
mod sharing;
mod validation;
