//! Counters of the kernel, parsed from its text files: `/proc/self`, `/proc/net`, `/sys/dev/block`.
//!
//! Nothing here fails. A value that is missing or malformed is left out: an absent value is not 0. Texts may be cut
//! anywhere, and may have more fields than are known here, as in later kernels.
//!
//! Not known here: the use of a value.

use std::{fs, os::unix::fs::FileTypeExt, os::unix::fs::MetadataExt, path::Path, path::PathBuf};

/// Units of processor time in a second in `/proc`: USER_HZ, which is 100 on all supported machines.
const TICKS_A_SECOND: u64 = 100;
/// Microseconds of one such unit.
const TICK_US: u64 = 1_000_000 / TICKS_A_SECOND;
/// The unit of `/sys/block/*/stat`, whatever the device's own sector size.
const SECTOR_BYTES: u64 = 512;

/// Counters of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessCounts {
    /// Processor time in user mode, microseconds.
    pub user_us: Option<u64>,
    /// Processor time in the kernel, microseconds.
    pub system_us: Option<u64>,
    /// Page faults without I/O.
    pub minor_faults: Option<u64>,
    /// Page faults with I/O.
    pub major_faults: Option<u64>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Voluntary context switches of all threads. Linux keeps them by thread; see [`switches`].
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches of all threads.
    pub involuntary_switches: Option<u64>,
}

impl ProcessCounts {
    /// The counters now.
    pub fn now() -> ProcessCounts {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let counts = ProcessCounts::of(&read("/proc/self/stat"), &read("/proc/self/status"));
        let (voluntary_switches, involuntary_switches) = switches().unzip();
        ProcessCounts {
            voluntary_switches,
            involuntary_switches,
            ..counts
        }
    }

    /// Parses the texts of `stat` and `status`.
    fn of(stat: &str, status: &str) -> ProcessCounts {
        // The process name before the fields may contain anything, also blanks and brackets.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        let field = |at| fields?.split(' ').nth(at)?.trim_end().parse::<u64>().ok();
        let line = |name: &str| number_after(status, name);
        ProcessCounts {
            minor_faults: field(7),
            major_faults: field(9),
            user_us: field(11).and_then(|ticks| ticks.checked_mul(TICK_US)),
            system_us: field(12).and_then(|ticks| ticks.checked_mul(TICK_US)),
            resident_bytes: line("VmRSS:").and_then(|kib| kib.checked_mul(1024)),
            voluntary_switches: line("voluntary_ctxt_switches:"),
            involuntary_switches: line("nonvoluntary_ctxt_switches:"),
        }
    }
}

/// The most threads whose switches are added up; further ones are left out.
const THREADS_MAX: usize = 1024;

/// Context switches of all live threads: voluntary, involuntary. Those of an ended thread are not included, so a total may fall.
fn switches() -> Option<(u64, u64)> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let mut sum = (0, 0);
    for thread in threads.take(THREADS_MAX).flatten() {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        sum.0 += number_after(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        sum.1 += number_after(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
    }
    Some(sum)
}

/// The first number in the line that begins with `name`.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Counters of a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests under way now.
    pub queue: u64,
    /// Time with at least one request under way, microseconds.
    pub busy_us: u64,
    /// Sum of the times of all requests, microseconds.
    pub queue_us: u64,
}

impl DeviceCounts {
    /// Parses the text of `stat`. `None`: it is malformed.
    fn of(stat: &str) -> Option<DeviceCounts> {
        let mut fields = stat
            .split_whitespace()
            .map(|field| field.parse::<u64>().ok());
        let mut all = [0; 11];
        for field in &mut all {
            *field = fields.next()??;
        }
        let [
            reads,
            _,
            read,
            _,
            writes,
            _,
            written,
            _,
            queue,
            busy_ms,
            queue_ms,
        ] = all;
        Some(DeviceCounts {
            reads,
            read_bytes: read.checked_mul(SECTOR_BYTES)?,
            writes,
            write_bytes: written.checked_mul(SECTOR_BYTES)?,
            queue,
            busy_us: busy_ms.checked_mul(1000)?,
            queue_us: queue_ms.checked_mul(1000)?,
        })
    }
}

/// The kernel's statistics file of the block device behind a file or device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceStat(PathBuf);

impl DeviceStat {
    /// The device under a store: a disk, a partition, a loop device, or the one that holds a file. `None`: the kernel has no counters, as
    /// for a file in memory, or on a file system that is not on one block device.
    pub fn of(store: &Path) -> Option<DeviceStat> {
        let found = fs::metadata(store).ok()?;
        let number = match found.file_type().is_block_device() {
            true => found.rdev(),
            false => found.dev(),
        };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let stat = DeviceStat(format!("/sys/dev/block/{major}:{minor}/stat").into());
        stat.now().is_some().then_some(stat)
    }

    /// The counters now; `None`: the device is gone.
    pub fn now(&self) -> Option<DeviceCounts> {
        DeviceCounts::of(&fs::read_to_string(&self.0).ok()?)
    }
}

/// Counters of the machine's network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NetworkCounts {
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// Connections dropped because a listen queue was full.
    pub listen_overflows: Option<u64>,
}

impl NetworkCounts {
    /// The counters now.
    pub fn now() -> NetworkCounts {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        NetworkCounts {
            retransmits: in_table(&read("/proc/net/snmp"), "Tcp:", "RetransSegs"),
            listen_overflows: in_table(&read("/proc/net/netstat"), "TcpExt:", "ListenOverflows"),
        }
    }
}

/// A value in a text of pairs of lines: names, then values, both lines beginning with `table`.
fn in_table(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|found| found == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// The machine's memory, bytes.
pub fn ram_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    number_after(&text, "MemTotal:")?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str =
        "7 (a) b (c) R 1 1 1 0 -1 4194304 101 5 3 2 250 50 0 0 20 0 1 0 195312 3133440\n";
    const STATUS: &str = "Name:\tx\nVmRSS:\t    2048 kB\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
    const DISK: &str = "  10 1 80 5 20 2 160 9 3 70 140 0 0 0 0 4 4\n";
    const SNMP: &str =
        "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn RetransSegs InErrs\nTcp: 200 -1 42 0\n";

    #[test]
    fn a_process_is_read() {
        let counts = ProcessCounts::of(STAT, STATUS);
        let expected = ProcessCounts {
            user_us: Some(2_500_000),
            system_us: Some(500_000),
            minor_faults: Some(101),
            major_faults: Some(3),
            resident_bytes: Some(2 << 20),
            voluntary_switches: Some(12),
            involuntary_switches: Some(3),
        };
        assert_eq!(counts, expected);
        assert_eq!(ProcessCounts::of("", "VmRSS:"), ProcessCounts::default());
    }

    #[test]
    fn it_sees_itself() {
        let counts = ProcessCounts::now();
        assert!(counts.user_us.is_some() && counts.minor_faults > Some(0));
        assert!(counts.resident_bytes > Some(1 << 20), "{counts:?}");
        assert!(counts.voluntary_switches.is_some());
        assert!(ram_bytes() > counts.resident_bytes);
    }

    #[test]
    fn a_device_is_read_in_bytes_and_microseconds() {
        let counts = DeviceCounts::of(DISK).unwrap();
        let expected = DeviceCounts {
            reads: 10,
            read_bytes: 40_960,
            writes: 20,
            write_bytes: 81_920,
            queue: 3,
            busy_us: 70_000,
            queue_us: 140_000,
        };
        assert_eq!(counts, expected);
        for odd in [
            "",
            "1 2 3",
            "a b c d e f g h i j k",
            "18446744073709551615 ".repeat(11).as_str(),
        ] {
            assert_eq!(DeviceCounts::of(odd), None, "{odd}");
        }
    }

    #[test]
    fn what_has_no_device_has_no_counts() {
        assert_eq!(DeviceStat::of(Path::new("/nowhere/at/all")), None);
        assert_eq!(
            DeviceStat::of(Path::new("/proc/self/stat")),
            None,
            "in memory"
        );
        // The root file system may or may not be on a block device with counters.
        if let Some(stat) = DeviceStat::of(Path::new("/")) {
            assert!(stat.now().is_some());
        }
    }

    #[test]
    fn tables_are_read_by_name() {
        assert_eq!(in_table(SNMP, "Tcp:", "RetransSegs"), Some(42));
        assert_eq!(in_table(SNMP, "Tcp:", "MaxConn"), None, "-1 is no count");
        assert_eq!(in_table(SNMP, "Tcp:", "Retrans"), None);
        assert_eq!(in_table(SNMP, "TcpExt:", "RetransSegs"), None);
        assert_eq!(in_table("Tcp: RetransSegs\n", "Tcp:", "RetransSegs"), None);
    }

    proptest! {
        #[test]
        fn texts_that_are_cut_or_mixed_up_are_no_panic(cut in 0usize..400, noise in "\\PC{0,40}") {
            let whole = [STAT, STATUS, DISK, SNMP, &noise].concat();
            let text: String = whole.chars().take(cut).collect();
            let text = text.as_str();
            let _ = (ProcessCounts::of(text, text), DeviceCounts::of(text));
            let _ = in_table(text, "Tcp:", "RetransSegs");
            let _ = in_table(&noise, "", &noise);
        }
    }
}
