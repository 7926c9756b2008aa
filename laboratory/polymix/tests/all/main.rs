//! Tests from outside, in one program: it is linked once, and what waits in one of them holds up no other.

mod lru;
mod manners;
mod offered;
mod proxies;
mod workload;
