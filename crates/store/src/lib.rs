//! The object store as a state machine: index, cluster write, eviction, record format
