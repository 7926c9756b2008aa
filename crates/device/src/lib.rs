//! Bytes to and from one file or block device: io_uring, threads, memory, faults
