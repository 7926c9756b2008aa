//! Bytes to and from one file or block device.
//!
//! A [`Device`] is opened once, locked, and shared by all workers; each worker has one [`Engine`] on it:
//!
//! ```text
//!   open      path -> Device: create, preallocate, lock, find alignment, go direct or say why not
//!     signature   foreign signatures on it (pure: which marks, where)
//!     holders     which process or mount holds a busy device
//!   passed    from one process to another, open and locked
//!   device    the opened thing, and blocking transfers for start, stop and the thread pool
//!   buffer    4096-aligned memory with a short free list per thread
//!   filling   the same, read while it is being filled
//!   transfer  which bytes one operation still has to move (pure: alignment, short transfers, end of file)
//!   engine    read, write, flush as futures, over one of
//!     uring     io_uring: one ring a worker, one submission a scheduler turn     (table: what is in flight)
//!     threads   a pread/pwrite pool for each device, where io_uring is refused
//!     inline    at once, on the caller's thread: memory devices in tests
//!   latency   how long reads take
//!   arena     memory whose bytes go to sockets without a copy: no device, but a mapping
//!   socket    unacknowledged bytes of a socket: no device, but a system call without a safe wrapper
//!   health    whether reads finish at all
//!     filesystem  which file systems accept a submission without blocking
//!   faults    faults that a test can inject on a memory device
//! ```
//!
//! Ownership, the rule that keeps the `unsafe` here sound: **from submission to completion the engine owns the
//! buffer and the device**, whatever happens to the waiter. Dropping a waiter drops only the answer.
//!
//! Not known here: objects, records, time, HTTP.
//!
//! Limits: Linux only. No resizing. One transfer moves at most 1 GiB (longer ones are continued). At most
//! [`IN_FLIGHT_MAX`] operations of an engine are with the kernel and [`QUEUE_MAX`] more may wait; beyond that the
//! answer is [`IoFault::Busy`].
//!
//! Source: the only crate with `unsafe`, see `docs/decisions`.

mod arena;
mod buffer;
mod device;
#[cfg(feature = "simulation")]
mod disk;
mod engine;
mod fault;
mod faults;
mod filesystem;
mod filling;
mod head;
mod health;
mod held;
mod holders;
mod inline;
mod latency;
mod open;
mod open_error;
mod passed;
mod pool;
mod signature;
#[cfg(feature = "simulation")]
pub mod simulated;
mod socket;
mod table;
mod threads;
mod transfer;
mod uring;

pub use arena::Arena;
pub use buffer::{ALIGN_BYTES, AlignedBuf};
pub use device::Device;
pub use engine::{Engine, EngineError, EngineKind};
pub use fault::IoFault;
pub use faults::{Counts, FaultPlan, Operation};
pub use filling::{Filling, FillingPool};
pub use health::Health;
pub use holders::Process;
pub use latency::Latency;
pub use open::{Access, OpenOptions, Opened};
pub use open_error::OpenError;
pub use passed::Passport;
pub use signature::{SPAN_BYTES, Signature, foreign};
pub use socket::unacknowledged_bytes;
pub use table::{IN_FLIGHT_MAX, QUEUE_MAX};
pub use uring::uring_available;
