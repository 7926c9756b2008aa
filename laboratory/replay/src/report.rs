//! The results of a replay, as values and as a table.

use std::net::SocketAddr;

use page::{Table, bytes_text};
use serde::{Deserialize, Serialize};

use crate::bench::{Counts, Finished, Stop};
use crate::player::Settings;

/// Figures of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the row.
    pub trace: String,
    /// The proxy's address.
    pub proxy: SocketAddr,
    /// The origin's address.
    pub origin: SocketAddr,
    /// First part of all names.
    pub world: String,
    /// Requests at the same time.
    pub connections: usize,
    /// Requests in the row.
    pub requests: u64,
    /// Bytes of its different objects, each counted once.
    pub object_bytes: u64,
    /// Counts of the part that only fills the cache.
    pub warming: Counts,
    /// Counts of the part that counts.
    pub counted: Counts,
    /// The first faults.
    pub examples: Vec<String>,
    /// Why the replay ended before the row did.
    pub cut_short: Option<String>,
}

impl Report {
    pub(crate) fn of(settings: &Settings, origin: SocketAddr, finished: Finished) -> Self {
        let cut_short = finished.stopped.map(|stop| match stop {
            Stop::Failing => "too many requests in a row failed".to_owned(),
            Stop::Asked => "interrupted".to_owned(),
            Stop::Unreadable(why) | Stop::Device(why) => why,
        });
        Self {
            trace: settings.trace.clone(),
            proxy: settings.proxy,
            origin,
            world: settings.world.clone(),
            connections: settings.connections,
            requests: settings.requests,
            object_bytes: settings.object_bytes,
            warming: finished.warming,
            counted: finished.counted,
            examples: finished.examples,
            cut_short,
        }
    }

    /// Answers with bytes other than the origin's, in the whole replay.
    pub fn wrong(&self) -> u64 {
        self.warming.wrong + self.counted.wrong
    }

    /// Failed requests in the whole replay.
    pub fn failed(&self) -> u64 {
        self.warming.failed + self.counted.failed
    }

    /// Object hit ratio of the part that counts.
    pub fn object_hit_percent(&self) -> f64 {
        percent(self.counted.hits, self.counted.requests)
    }

    /// Byte hit ratio of the part that counts.
    pub fn byte_hit_percent(&self) -> f64 {
        percent(self.counted.hit_bytes, self.counted.bytes)
    }

    /// Bytes written to devices for each requested byte, if they were counted.
    pub fn written_per_byte(&self) -> Option<f64> {
        let device = self.counted.device?;
        Some(device.written as f64 / self.counted.bytes.max(1) as f64)
    }

    /// The results as a table.
    pub fn table(&self) -> Table {
        let counts = &self.counted;
        let caption = format!(
            "{} through {}: {} of {} requests counted, {:.0} s",
            self.trace, self.proxy, counts.requests, self.requests, counts.seconds
        );
        let mut table = Table::new(&caption, &["", "requests", "%", "bytes", "%"]);
        let mut row = |what: &str, requests: u64, bytes: u64| {
            table.row([
                what.to_owned(),
                requests.to_string(),
                format!("{:.2}", percent(requests, counts.requests)),
                bytes_text(bytes as f64),
                format!("{:.2}", percent(bytes, counts.bytes)),
            ]);
        };
        row("asked for", counts.requests, counts.bytes);
        row("hits", counts.hits, counts.hit_bytes);
        if counts.confirmed > 0 {
            row(
                "confirmed by the origin",
                counts.confirmed,
                counts.confirmed_bytes,
            );
        }
        row("misses", counts.misses, counts.missed_bytes);
        row("origin", counts.origin.requests, counts.origin.bytes);
        if let Some(device) = counts.device {
            let mut row = |what: &str, bytes: u64| {
                let cells = [
                    what.to_owned(),
                    String::new(),
                    String::new(),
                    bytes_text(bytes as f64),
                    format!("{:.2}", percent(bytes, counts.bytes)),
                ];
                table.row(cells);
            };
            row("written to devices", device.written);
            row("read from devices", device.read);
        }
        let mut count = |what: &str, requests: u64| {
            let cells = [
                what.to_owned(),
                requests.to_string(),
                format!("{:.2}", percent(requests, counts.requests)),
            ];
            table.row(cells);
        };
        count("failed", counts.failed);
        count("wrong bytes", counts.wrong);
        for (why, requests) in &counts.failures {
            count(&format!("  {why}"), *requests);
        }
        for (what, requests) in [
            ("failed while filling", self.warming.failed),
            ("wrong bytes while filling", self.warming.wrong),
            ("sent again", counts.sent_again),
            ("origin asked, nobody waiting", counts.origin.unasked),
            ("connections the origin refused", counts.origin.refused),
        ] {
            if requests > 0 {
                count(what, requests);
            }
        }
        table
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}
