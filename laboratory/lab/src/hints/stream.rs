//! A stream in memory, and the scale of the paper's caches, hint spaces and periods on it.
//!
//! The paper's sizes suit its trace: 17 GB of objects in 12.67 days. A stream with a tenth of the bytes gets caches of a tenth,
//! one with a tenth of the objects hint spaces of a tenth, one that lasts a tenth of the time periods of a tenth. So "4 GB" is on every
//! stream 4 / 17 of its objects' bytes, and figures are comparable.
//!
//! Memory: 24 bytes a request.
//! Not known here: runs.

use serde::Serialize;

use crate::Access;
use crate::generate::UcbLike;

/// A whole stream.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The name in reports.
    pub name: String,
    /// The requests, in order of time.
    pub accesses: Vec<Access>,
    /// Greater than every object's number.
    pub objects_end: usize,
    /// The size of the stream.
    pub measure: Measure,
}

/// A stream's requests, objects, bytes and time; computes its share of the paper's trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measure {
    /// Requests.
    pub requests: u64,
    /// Different objects.
    pub objects: u64,
    /// Bytes of all objects, each with its first size.
    pub object_bytes: u64,
    /// Time from the first to the last request.
    pub span_ms: u64,
    /// Requests that no cache could have answered: the first for an object or for a new version.
    pub first_or_new: u64,
}

const MS_PER_DAY: f64 = 86_400_000.0;

impl Stream {
    /// Measures a stream. A time that steps back, as in logs, is replaced by the one before it.
    pub fn new(name: &str, mut accesses: Vec<Access>) -> Stream {
        let objects_end = accesses.iter().map(|a| a.object as usize + 1).max();
        let mut last: Vec<Option<u32>> = vec![None; objects_end.unwrap_or(0)];
        let mut measure = Measure {
            requests: accesses.len() as u64,
            objects: 0,
            object_bytes: 0,
            span_ms: 0,
            first_or_new: 0,
        };
        for access in &mut accesses {
            measure.span_ms = measure.span_ms.max(access.at_ms);
            access.at_ms = measure.span_ms;
            let last = &mut last[access.object as usize];
            if last.is_none() {
                measure.objects += 1;
                measure.object_bytes += u64::from(access.size_bytes);
            }
            measure.first_or_new += u64::from(*last != Some(access.size_bytes));
            *last = Some(access.size_bytes);
        }
        Stream {
            name: name.to_owned(),
            accesses,
            objects_end: objects_end.unwrap_or(0),
            measure,
        }
    }
}

impl Measure {
    /// The stream's object bytes as a share of the paper's.
    pub fn bytes_share(&self) -> f64 {
        self.object_bytes as f64 / UcbLike::OBJECT_BYTES as f64
    }

    /// The stream's objects as a share of the paper's.
    pub fn objects_share(&self) -> f64 {
        self.objects as f64 / UcbLike::OBJECTS as f64
    }

    /// The stream's duration as a share of the paper's.
    pub fn time_share(&self) -> f64 {
        self.span_ms as f64 / (UcbLike::DAYS * MS_PER_DAY)
    }

    /// Scales a cache of the paper to this stream.
    pub fn cache_bytes(&self, paper_bytes: f64) -> u64 {
        (paper_bytes * self.bytes_share()) as u64
    }

    /// Scales a hint space of the paper to this stream.
    pub fn space_bytes(&self, paper_bytes: f64) -> u64 {
        (paper_bytes * self.objects_share()) as u64
    }

    /// Scales an update period of the paper to this stream.
    pub fn period_ms(&self, paper_s: f64) -> u64 {
        (paper_s * 1000.0 * self.time_share()) as u64
    }

    /// Percent of the requests that an unlimited cache answers.
    pub fn hits_max_percent(&self) -> f64 {
        100.0 - 100.0 * self.first_or_new as f64 / self.requests.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_papers_stream_gets_a_tenth_of_its_caches() {
        let access = |at_ms, object, size_bytes| Access {
            at_ms,
            object,
            server: 0,
            size_bytes,
        };
        let tenth = (UcbLike::OBJECT_BYTES / 10 / 4) as u32;
        let accesses = vec![
            access(0, 0, tenth),
            access(9, 1, tenth),
            access(5, 0, tenth),
            access(20, 2, tenth),
            access(30, 3, tenth),
            access(40, 3, 1),
        ];
        let stream = Stream::new("s", accesses);
        assert_eq!(stream.accesses[2].at_ms, 9, "time does not step back");
        assert_eq!(stream.objects_end, 4);
        let measure = stream.measure;
        assert_eq!((measure.objects, measure.first_or_new), (4, 5));
        assert!((measure.bytes_share() - 0.1).abs() < 1e-9);
        assert_eq!(measure.cache_bytes(4e9), 400_000_000);
    }
}
