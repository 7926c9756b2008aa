//! The source of an experiment's disk requests: requests of clients, generated or from a trace, sent through the two caches.
//!
//! A trace is read once beforehand ([`survey`]), to count its contents, choose its caches, and count its disk requests. Later it is read
//! anew for each workload, so that its requests are never in memory all at once.
//!
//! *Choice of caches.* The paper's disk cache kept [`KEPT_SHARE`] of the objects written to it, and its memory cache was a quarter of
//! its size. For a trace that share is applied to the bytes that would be written to an unlimited disk ([`Surveyed::fresh_bytes`]). The
//! modelled disk is the paper's, so neither cache is larger than the paper's.
//!
//! Not known here: managers.
//! Limits: the trace must be readable twice; memory as `trace` needs for each object, and 4 bytes.
//! Source: paper 002, section 3.1.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use super::printed;
use super::workload::{Building, Workload};
use crate::Access;
use crate::cache::{LevelSettings, Method, Settings};
use crate::generate::DecLike;
use crate::trace::{Columns, Format, Skip, Tally, Trace};

/// Share of the objects written that the paper's disk still held at the end.
//= paper 002 section 3.1   note 3: 678,040 writes, 279,875 deletes
pub const KEPT_SHARE: f64 = (printed::WRITES - printed::DELETES) as f64 / printed::WRITES as f64;
const MEMORY_SHARE: u64 = printed::DISK_BYTES / printed::MEMORY_BYTES;

/// Sizes of the two caches in front of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caches {
    /// The memory cache.
    pub memory_bytes: u64,
    /// The disk cache.
    pub disk_bytes: u64,
}

impl Caches {
    /// The paper's caches.
    pub const PAPER: Caches = Caches {
        memory_bytes: printed::MEMORY_BYTES,
        disk_bytes: printed::DISK_BYTES,
    };

    /// The caches for a stream that would write this many bytes to an unlimited disk.
    pub fn for_written(fresh_bytes: u64) -> Caches {
        let disk_bytes = (fresh_bytes as f64 * KEPT_SHARE) as u64;
        let disk_bytes = disk_bytes.clamp(1, printed::DISK_BYTES);
        Caches {
            memory_bytes: (disk_bytes / MEMORY_SHARE).max(1),
            disk_bytes,
        }
    }

    fn settings(self) -> Settings {
        Settings {
            memory: LevelSettings::lru(self.memory_bytes),
            disk: LevelSettings::lru(self.disk_bytes),
        }
    }
}

/// In MiB: `4/256 MiB`.
impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| {
            let mib = bytes as f64 / f64::from(1 << 20);
            let text = if mib < 10.0 {
                format!("{mib:.1}")
            } else {
                format!("{mib:.0}")
            };
            text.trim_end_matches(".0").to_owned()
        };
        write!(f, "{}/{} MiB", mib(self.memory_bytes), mib(self.disk_bytes))
    }
}

/// Where a stream of requests ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// After this many disk requests.
    Requests(usize),
    /// After this many requests of clients.
    Gets(u64),
}

/// A trace file, and how to read it.
#[derive(Debug, Clone)]
pub struct TraceFile {
    /// The file; not standard input, which can be read only once.
    pub path: PathBuf,
    /// `None`: detected.
    pub format: Option<Format>,
    /// Columns of CSV.
    pub columns: Option<Columns>,
    /// Most requests of clients to read.
    pub gets_max: u64,
}

/// A trace after [`survey`], with its caches.
#[derive(Debug, Clone)]
pub struct Surveyed {
    file: TraceFile,
    /// The name in tables and legends: the file's name without endings, and the caches.
    pub name: String,
    /// The format of the file, given or detected.
    pub format: Format,
    /// Requests of clients.
    pub gets: u64,
    /// Different objects.
    pub objects: u64,
    /// Different servers; 1 where the format does not distinguish them.
    pub servers: u64,
    /// Bytes of objects requested for the first time, or with another size than before.
    pub fresh_bytes: u64,
    /// A hash that is equal for equal requests.
    pub fingerprint: u64,
    /// Counts of the file's lines.
    pub tally: Tally,
    /// The two caches.
    pub caches: Caches,
    /// Whether the caches were derived from the trace.
    pub derived: bool,
    /// Disk requests behind these caches.
    pub disk_requests: u64,
    /// Misses larger than the disk cache, which are not written.
    pub too_large: u64,
}

/// A stream of client requests that can be read repeatedly.
#[derive(Debug, Clone)]
pub enum Source {
    /// Generated: the stream that is fitted to the paper's counts and comparisons of managers.
    Fitted {
        /// Another seed gives another stream.
        seed: u64,
    },
    /// Read from a trace.
    Trace(Arc<Surveyed>),
}

/// A key that is equal for equal client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamKey {
    /// A fitted stream, by its seed.
    Fitted(u64),
    /// A trace, by its fingerprint.
    Trace(u64),
}

impl Source {
    /// The name in tables and legends.
    pub fn name(&self) -> &str {
        match self {
            Source::Fitted { .. } => "fitted",
            Source::Trace(surveyed) => &surveyed.name,
        }
    }

    /// The key that distinguishes this stream from others.
    pub fn key(&self) -> StreamKey {
        match self {
            Source::Fitted { seed } => StreamKey::Fitted(*seed),
            Source::Trace(surveyed) => StreamKey::Trace(surveyed.fingerprint),
        }
    }

    /// Whether the stream distinguishes servers.
    pub fn has_servers(&self) -> bool {
        match self {
            Source::Fitted { .. } => true,
            Source::Trace(surveyed) => surveyed.servers > 1,
        }
    }

    /// The disk requests behind these caches. `keep`: keep the requests, not only their counts. `seed` matters for generated streams.
    pub fn workload(
        &self,
        caches: Caches,
        until: Until,
        seed: u64,
        keep: bool,
    ) -> io::Result<Workload> {
        let mut method = Method::new(&caches.settings());
        let mut building = Building::new(keep);
        let mut take = |access: &Access| {
            let ends = match until {
                Until::Requests(n) => building.len() >= n as u64,
                Until::Gets(n) => method.counts().gets >= n,
            };
            if ends || building.has_failed() {
                return false;
            }
            method.get(access, |request| building.add(request));
            true
        };
        match self {
            Source::Fitted { .. } => {
                let like = DecLike {
                    seed,
                    requests: u64::MAX,
                    ..DecLike::default()
                };
                let _all = like.stream().all(|access| take(&access));
            }
            Source::Trace(surveyed) => {
                surveyed.file.each(take)?;
            }
        }
        let counts = method.counts();
        building.finish(counts.gets, counts.memory_hits)
    }
}

impl TraceFile {
    /// Calls `take` with each request until it returns `false`. Returns the trace, with its counts, and the number of requests taken.
    fn each(&self, mut take: impl FnMut(&Access) -> bool) -> io::Result<(Trace, u64)> {
        let mut trace =
            Trace::open(&self.path, self.format, self.columns).map_err(io::Error::other)?;
        let mut gets = 0;
        while gets < self.gets_max {
            let Some(access) = trace.next() else { break };
            if !take(&access.map_err(io::Error::other)?) {
                break;
            }
            gets += 1;
        }
        Ok((trace, gets))
    }

    /// The file's name up to its first dot.
    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let end = name.find('.').filter(|&at| at > 0).unwrap_or(name.len());
        name[..end].to_owned()
    }

    fn wrong(&self, what: &str) -> io::Error {
        let path = self.path.display();
        io::Error::new(io::ErrorKind::InvalidInput, format!("{path}: {what}"))
    }
}

/// Surveys a trace. The result has one entry for each of `caches`; without any, one entry with caches that suit the trace.
pub fn survey(file: &TraceFile, caches: &[Caches]) -> io::Result<Vec<Surveyed>> {
    if file.path.as_os_str() == "-" {
        return Err(file.wrong("a trace is read more than once, so it must be in a file"));
    }
    let mut last: Vec<u32> = Vec::new();
    let (mut objects, mut fresh_bytes, mut fingerprint) = (0, 0u64, 0);
    let (trace, gets) = file.each(|access| {
        let at = access.object as usize;
        if last.len() <= at {
            last.resize(at + 1, u32::MAX);
        }
        objects += u64::from(last[at] == u32::MAX);
        if last[at] != access.size_bytes {
            last[at] = access.size_bytes;
            fresh_bytes += u64::from(access.size_bytes);
        }
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&access.object.to_le_bytes());
        bytes[4..8].copy_from_slice(&access.server.to_le_bytes());
        bytes[8..].copy_from_slice(&access.size_bytes.to_le_bytes());
        fingerprint = XxHash3_64::oneshot_with_seed(fingerprint, &bytes);
        true
    })?;
    drop(last);
    let tally = trace.tally().clone();
    if gets == 0 {
        return Err(file.wrong(&no_requests(&tally)));
    }
    if fresh_bytes == 0 {
        return Err(file.wrong("all its objects are empty; a disk has nothing to do with them"));
    }
    let derived = caches.is_empty();
    let caches = match caches {
        [] => vec![Caches::for_written(fresh_bytes)],
        given => given.to_vec(),
    };
    let mut methods: Vec<Method> = caches.iter().map(|c| Method::new(&c.settings())).collect();
    let (trace, _) = file.each(|access| {
        methods.iter_mut().for_each(|m| m.get(access, |_| {}));
        true
    })?;
    let surveyed = caches.iter().zip(&methods).map(|(&caches, method)| {
        let counts = method.counts();
        if counts.disk_requests() == 0 {
            return Err(file.wrong(&format!(
                "with caches of {caches} nothing is written to disk: every object is larger"
            )));
        }
        Ok(Surveyed {
            file: file.clone(),
            name: format!("{} {caches}", file.name()),
            format: trace.format(),
            gets,
            objects,
            servers: trace.servers() as u64,
            fresh_bytes,
            fingerprint,
            tally: tally.clone(),
            caches,
            derived,
            disk_requests: counts.disk_requests(),
            too_large: counts.too_large,
        })
    });
    surveyed.collect()
}

/// The reason why a trace has no request.
fn no_requests(tally: &Tally) -> String {
    let mut text = format!("no requests to a cache in {} lines", tally.lines);
    let skipped = Skip::ALL.iter().zip(&tally.skipped);
    for (skip, count) in skipped.filter(|&(_, &count)| count > 0) {
        text += &format!("; {count} {}", skip.words());
    }
    if tally.bad > 0 {
        text += &format!("; {} not understood", tally.bad);
    }
    if let Some(first) = tally.bad_shown.first() {
        text += &format!(", the first is line {first}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests for objects of some servers, as CSV.
    fn trace(dir: &tempfile::TempDir, text: &str) -> TraceFile {
        let path = dir.path().join("some.csv");
        std::fs::write(&path, text).unwrap();
        TraceFile {
            path,
            format: Some(Format::Csv),
            columns: None,
            gets_max: u64::MAX,
        }
    }

    fn lines(rows: &[(u32, u32, u32)]) -> String {
        let rows = rows.iter().enumerate();
        let rows = rows.map(|(at, (o, s, size))| format!("{at},{o},{s},{size}\n"));
        "at_ms,object,server,size_bytes\n".to_owned() + &rows.collect::<String>()
    }

    #[test]
    fn caches_are_in_the_papers_proportion_and_not_larger() {
        assert!((KEPT_SHARE - 0.587).abs() < 0.001);
        let caches = Caches::for_written(1 << 30);
        assert_eq!(caches.to_string(), "150/601 MiB");
        assert_eq!(Caches::for_written(u64::MAX), Caches::PAPER);
        assert_eq!(Caches::PAPER.to_string(), "512/2048 MiB");
        let small = Caches {
            memory_bytes: 4 << 20,
            disk_bytes: 5 << 19,
        };
        assert_eq!(small.to_string(), "4/2.5 MiB");
    }

    #[test]
    fn a_survey_counts_and_a_workload_is_that_of_the_method() {
        let dir = tempfile::tempdir().unwrap();
        // Object 2 comes again with another size; then object 1 has left the memory for one object, and is read from disk.
        let rows = [(1, 7, 100), (2, 8, 100), (2, 8, 50), (1, 7, 100)];
        let file = trace(&dir, &lines(&rows));
        let caches = Caches {
            memory_bytes: 100,
            disk_bytes: 300,
        };
        let surveyed = survey(&file, &[caches]).unwrap().remove(0);
        assert_eq!(
            (surveyed.gets, surveyed.objects, surveyed.servers),
            (4, 2, 2)
        );
        assert_eq!((surveyed.fresh_bytes, surveyed.disk_requests), (250, 5));
        assert!(surveyed.name.starts_with("some 0/0"), "{}", surveyed.name);
        let source = Source::Trace(Arc::new(surveyed));
        let all = Until::Gets(u64::MAX);
        let load = source.workload(caches, all, 1, true).unwrap();
        let counts = load.counts;
        assert_eq!((counts.writes, counts.reads, counts.deletes), (3, 1, 1));
        assert_eq!((load.requests.len(), counts.replaced), (5, 1));
        let some = source.workload(caches, Until::Requests(2), 1, false);
        assert_eq!(some.unwrap().counts.gets, 2);
        // Equal traces have equal keys, different ones have different keys.
        let again = survey(&file, &[caches]).unwrap().remove(0);
        assert_eq!(Source::Trace(Arc::new(again)).key(), source.key());
        let first = TraceFile {
            gets_max: 3,
            ..file
        };
        let first = survey(&first, &[]).unwrap().remove(0);
        assert!(first.derived && first.gets == 3);
        assert_ne!(Source::Trace(Arc::new(first)).key(), source.key());
    }

    #[test]
    fn what_is_no_use_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let said = |text: &str, caches: &[Caches]| {
            let e = survey(&trace(&dir, text), caches).unwrap_err();
            e.to_string()
        };
        assert!(said(&lines(&[(1, 1, 0)]), &[]).contains("all its objects are empty"));
        let nothing = said("at_ms,object,size_bytes\nx,y\n", &[]);
        assert!(nothing.contains("no requests to a cache"), "{nothing}");
        assert!(nothing.contains("1 not understood"), "{nothing}");
        let tiny = Caches {
            memory_bytes: 1,
            disk_bytes: 1,
        };
        assert!(said(&lines(&[(1, 1, 9)]), &[tiny]).contains("every object is larger"));
        let stdin = TraceFile {
            path: "-".into(),
            ..trace(&dir, "")
        };
        let e = survey(&stdin, &[]).unwrap_err().to_string();
        assert!(e.contains("must be in a file"), "{e}");
    }
}
