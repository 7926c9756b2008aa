//! The computer with a modelled disk, and the settings of its kernel.
//!
//! Not known here: the disk.   Sources: docs/lab.md, which gives a source for each number, or says that it is assumed.

use super::constants::{Constant, Trust};

/// The constants of the paper's machine, each with its source.
pub fn constants() -> Vec<Constant> {
    use Trust::{Assumed, Known, Measured};
    let ultra = Machine::ultra_1();
    let flush = format!(
        "every {} s one of {} parts of memory",
        ultra.flush_every_us / 1e6,
        ultra.flush_parts
    );
    let writes = format!(
        "{}, {} KB a file",
        ultra.write_high_bytes >> 10,
        ultra.write_low_bytes >> 10
    );
    let memory = format!(
        "{} MB; 1/{}",
        MEMORY_BYTES >> 20,
        MEMORY_BYTES / ultra.page_cache_bytes
    );
    let work = format!(
        "{}, {}, {}, {} us",
        ultra.page_us, ultra.call_us, ultra.name_us, ultra.request_io_us
    );
    let search = format!("{} us; {:.0} MB/s", ultra.entry_us, 1.0 / ultra.byte_us);
    let meta = format!(
        "{:.0} % of memory",
        100.0 * ultra.meta_cache_bytes as f64 / MEMORY_BYTES as f64
    );
    vec![
        Constant::new(
            "`cluster_blocks`",
            ultra.cluster_blocks.to_string(),
            Measured,
            "known as `maxcontig`; only so 4.7 MB/s (section 3.1)",
        ),
        Constant::new(
            "the rest of a block waits for the daemon",
            flush,
            Known,
            "`autoup`",
        ),
        Constant::new(
            "`write_high_bytes`, `write_low_bytes`",
            writes,
            Known,
            "`ufs_HW`, `ufs_LW`",
        ),
        Constant::new(
            "`MEMORY_BYTES`; `page_cache_bytes`",
            memory,
            Assumed,
            "a common Ultra-1",
        ),
        Constant::new("`meta_cache_bytes`", meta, Known, "`bufhwm`"),
        Constant::new(
            "`entry_us`; `byte_us`",
            search,
            Known,
            "lmbench on an Ultra-1",
        ),
        Constant::new(
            "`page_us`, `call_us`, `name_us`, `request_io_us`",
            work,
            Assumed,
            "as lmbench shows for such machines",
        ),
        Constant::new(
            "`request_us`",
            format!("{} us", ultra.request_us),
            Assumed,
            "the paper's simulator for a request",
        ),
    ]
}

/// The costs of the machine's own work, and the settings of its kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The machine's name in reports.
    pub name: &'static str,
    /// Cost of a request to the manager, before any system call.
    pub request_us: f64,
    /// Cost of a read, write or close call.
    pub call_us: f64,
    /// Cost of an open or unlink, without the search of directories.
    pub name_us: f64,
    /// Cost of mapping, faulting and releasing a page.
    pub page_us: f64,
    /// Cost of copying a byte.
    pub byte_us: f64,
    /// Cost of starting a device request and taking its interrupt.
    pub request_io_us: f64,
    /// Cost of an entry in the linear search of a directory.
    pub entry_us: f64,
    /// Memory for pages of files.
    pub page_cache_bytes: u64,
    /// Memory for blocks of inodes, bitmaps and indirect blocks.
    pub meta_cache_bytes: u64,
    /// Most blocks that the file system reads or writes as one request.
    pub cluster_blocks: u32,
    /// A writer stops when more bytes of its file than this wait at the device.
    pub write_high_bytes: u64,
    /// A stopped writer goes on when at most this many bytes wait.
    pub write_low_bytes: u64,
    /// Interval of the flush daemon.
    pub flush_every_us: f64,
    /// The flush daemon goes through one of this many parts of memory each time.
    pub flush_parts: usize,
}

/// The paper does not say how much memory its machine had. A common Ultra-1 is assumed, of which the kernel and the tables of the
/// simulated caches (half a million URLs) leave a quarter for pages of files.
const MEMORY_BYTES: u64 = 64 << 20;

impl Machine {
    /// The machine of paper 002: an Ultra-1 under Solaris.
    pub fn ultra_1() -> Machine {
        Machine {
            name: "Ultra-1, Solaris UFS",
            request_us: 400.0,
            call_us: 40.0,
            name_us: 200.0,
            page_us: 60.0,
            byte_us: 1.0 / 85.0,
            request_io_us: 150.0,
            entry_us: 0.28,
            page_cache_bytes: MEMORY_BYTES / 4,
            meta_cache_bytes: MEMORY_BYTES / 50,
            cluster_blocks: 16,
            write_high_bytes: 384 << 10,
            write_low_bytes: 256 << 10,
            flush_every_us: 5e6,
            flush_parts: 6,
        }
    }

    /// A machine of today with the same file system, for devices of today. About a hundred times as fast.
    pub fn of_today() -> Machine {
        Machine {
            name: "machine of today, the same file system",
            request_us: 1.0,
            call_us: 0.5,
            name_us: 3.0,
            page_us: 0.5,
            byte_us: 1.0 / 8000.0,
            request_io_us: 4.0,
            entry_us: 0.003,
            write_high_bytes: 16 << 20,
            write_low_bytes: 8 << 20,
            ..Machine::ultra_1()
        }
    }
}
