//! Tests of the public interface in one program: it is linked once, and a test that waits does not hold up the others.

mod lru;
mod manners;
mod offered;
mod proxies;
mod workload;
