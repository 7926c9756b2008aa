//! The proxy end to end: real sockets on loopback, a real store file, the real I/O engine.
//!
//! Each test is a small play: an origin with a script, a proxy, clients that speak raw bytes (`harness`). They are told
//! by what could go wrong:
//!
//! | file | for |
//! |---|---|
//! | `cache` | what is stored and found again, and what makes it go |
//! | `disk` | crashes, several stores, parts that are lost |
//! | `purge` | purges by prefix and tag, soft ones, over crashes and against fetches |
//! | `rules` | the operator's cache rules |
//! | `validation` | what is stale or doubted |
//! | `sharing` | many requests, one fetch; purges racing fetches and reads |
//! | `framing` | messages as RFC 9112 wants them, and those it forbids |
//! | `bodies` | request bodies, early responses |
//! | `negative` | failures that are remembered |
//! | `smuggling`, `forged` | requests and responses that two readers could read differently |
//! | `targeted` | fields for caches like us |
//! | `interim` | interim responses |
//! | `head` | HEAD, and what its answers mean for what is stored |
//! | `access` | where a client may make the proxy go, and what an origin is told of it |
//! | `forward` | absolute targets, tunnels, upgrades, loops |
//! | `hostile` | origins that die, lie or babble; clients that leave |
//! | `ranges` | parts of what is stored and of what arrives |
//! | `parts` | parts of what is not stored, or not wholly |
//! | `large` | bodies larger than memory should be |
//! | `workers` | several threads that accept |

mod access;
mod bodies;
mod cache;
mod disk;
mod forged;
mod forward;
mod framing;
mod harness;
mod head;
mod hostile;
mod interim;
mod large;
mod negative;
mod parts;
mod purge;
mod ranges;
mod rules;
mod rules_parts;
mod sharing;
mod smuggling;
mod targeted;
mod validation;
mod waiters;
mod workers;
