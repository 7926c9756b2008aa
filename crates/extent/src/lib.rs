//! Free-space management: the UNIFIED allocator and its rivals
