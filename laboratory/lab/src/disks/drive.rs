//! A disk of 1999: arm, platters, zones, and the drive's own read-ahead.
//!
//! The time of a request is command overhead, seek, the wait for the sector to come round, and the transfer, track by track.
//! The angle of the platter is modelled, so a request that just misses its sector waits a whole turn: file systems of the time
//! therefore wrote less than the heads could. After a read the drive goes on reading, until the next request, into one of a few
//! segments of its buffer; a read that lies in a segment moves no arm. A write is done once it is on the platter.
//!
//! The drive is the Seagate ST15150W that paper 002 used; docs/lab.md gives the source of every constant. The sustained
//! write rate (4.7 MB/s in section 3.1) follows from them, see the tests.
//!
//! Not known here: files, queues.   Limits: no defects, no thermal recalibration, one request at a time.

use super::constants::{Constant, Trust};
use super::hardware::{Hardware, SECTOR_BYTES, Served, Span, Way};

/// 7,200 turns a minute (paper 002 section 3.1).
const TURN_US: f64 = 60e6 / 7200.0;
/// Cylinders and surfaces of the ST15150.
const CYLINDERS: u64 = 3711;
const HEADS: u64 = 21;
/// Zones, outermost first. Each has equally many cylinders, and sectors a track fall evenly between the two constants. The shape is
/// assumed; the mean gives the drive's 4.3 GB, the outermost zone its peak rate of between 8 and 9 MB/s.
const ZONES: u64 = 11;
const OUTER_TRACK_SECTORS: f64 = 136.0;
const INNER_TRACK_SECTORS: f64 = 80.0;
/// Seek of `d` cylinders: `SETTLE + ROOT * sqrt(d)` up to `KNEE`, linear beyond. Fitted to the drive's 0.8 ms (one
/// cylinder), 8 ms (a third of the stroke, the mean) and 17 ms (the full stroke).
const SETTLE_US: f64 = 600.0;
const ROOT_US: f64 = 217.5;
const KNEE_CYLINDERS: f64 = 400.0;
const SLOPE_US: f64 = 3.64;
/// A head settles longer before a write: the mean is 9 ms instead of 8.
const WRITE_SETTLE_US: f64 = 1000.0;
/// Tracks are shifted against each other by this share of a turn, so that a change of heads (about 1 ms) loses no turn.
const SKEW_TURNS: f64 = 0.14;
/// From the driver's call to the arm's first move: SCSI command and controller of a drive of those years (Ruemmler, Wilkes: An
/// Introduction to Disk Drive Modeling, 1994).
const COMMAND_US: f64 = 1100.0;
/// Fast wide SCSI, 20 MB/s.
const BUS_SECTOR_US: f64 = SECTOR_BYTES as f64 / 20.0;
/// The drive's buffer is 1 MB; how it is divided is assumed.
const SEGMENTS: usize = 4;
const SEGMENT_SECTORS: u64 = 512;

/// The constants of the drive, each with its source.
pub fn constants() -> Vec<Constant> {
    use Trust::{Assumed, Known, Measured, Paper};
    let tracks =
        format!("{ZONES}, of {OUTER_TRACK_SECTORS} to {INNER_TRACK_SECTORS} sectors a track");
    let seek = format!(
        "{} ms + {} ms x sqrt(d) up to {KNEE_CYLINDERS} cylinders, then {SLOPE_US} us each",
        SETTLE_US / 1e3,
        ROOT_US / 1e3
    );
    let segments = format!("{SEGMENTS} of {} KB", SEGMENT_SECTORS * SECTOR_BYTES / 1024);
    let bus = format!("{} MB/s", SECTOR_BYTES as f64 / BUS_SECTOR_US);
    vec![
        Constant::new(
            "`TURN_US`",
            format!("{:.0} rpm", 60e6 / TURN_US),
            Paper,
            "section 3.1",
        ),
        Constant::new(
            "`CYLINDERS`, `HEADS`",
            format!("{CYLINDERS}, {HEADS}"),
            Known,
            "geometry of the ST15150 (4.3 GB)",
        ),
        Constant::new(
            "`ZONES`",
            tracks,
            Assumed,
            "equal zones; the mean from the capacity, the outermost from 8 to 9 MB/s (known)",
        ),
        Constant::new(
            "`SETTLE_US`, `ROOT_US`, `KNEE_CYLINDERS`, `SLOPE_US`",
            seek,
            Known,
            "0.8 ms for one, 8 ms mean, 17 ms over all",
        ),
        Constant::new(
            "`WRITE_SETTLE_US`",
            format!("{} ms", WRITE_SETTLE_US / 1e3),
            Known,
            "9 ms mean for writes",
        ),
        Constant::new(
            "`SKEW_TURNS`",
            SKEW_TURNS.to_string(),
            Assumed,
            "a head switch loses no turn",
        ),
        Constant::new(
            "`COMMAND_US`",
            format!("{} ms", COMMAND_US / 1e3),
            Known,
            "Ruemmler and Wilkes 1994",
        ),
        Constant::new("`BUS_SECTOR_US`", bus, Known, "fast wide SCSI"),
        Constant::new(
            "`SEGMENTS`, `SEGMENT_SECTORS`",
            segments,
            Assumed,
            "its division; 1 MB is known",
        ),
        Constant::new(
            "write cache",
            "off",
            Measured,
            "Figure 3: a create takes two waits for the platter",
        ),
        Constant::new(
            "order of requests",
            "one sweep after the other",
            Known,
            "`disksort`",
        ),
    ]
}

/// The modelled drive.
#[derive(Debug, Clone)]
pub struct Drive {
    cylinder: u64,
    zones: Vec<Zone>,
    total: u64,
    /// The contents of the buffer, oldest first.
    segments: Vec<Segment>,
    seeks: u64,
    seek_us: f64,
    turn_us: f64,
    transfer_us: f64,
    buffered: u64,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    first_sector: u64,
    first_cylinder: u64,
    track_sectors: u64,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    end: u64,
    /// When the read-ahead into this segment began; it ends at the next request or when the segment is full.
    growing_since_us: Option<f64>,
}

/// The place of a sector.
#[derive(Debug, Clone, Copy)]
struct Place {
    cylinder: u64,
    track: u64,
    /// Index on the track, and the number of sectors of the track.
    sector: u64,
    track_sectors: u64,
}

impl Place {
    /// The angle at which the sector begins, as a share of a turn.
    fn angle(self) -> f64 {
        (self.sector as f64 / self.track_sectors as f64 + self.track as f64 * SKEW_TURNS).fract()
    }
}

impl Drive {
    /// The drive of paper 002, with the arm at the outer edge and an empty buffer.
    pub fn of_1999() -> Drive {
        let mut zones = Vec::new();
        let mut first_sector = 0;
        for zone in 0..ZONES {
            let share = zone as f64 / (ZONES - 1) as f64;
            let track_sectors = (OUTER_TRACK_SECTORS
                + share * (INNER_TRACK_SECTORS - OUTER_TRACK_SECTORS))
                .round() as u64;
            let first_cylinder = CYLINDERS * zone / ZONES;
            zones.push(Zone {
                first_sector,
                first_cylinder,
                track_sectors,
            });
            let cylinders = CYLINDERS * (zone + 1) / ZONES - first_cylinder;
            first_sector += cylinders * HEADS * track_sectors;
        }
        Drive {
            cylinder: 0,
            zones,
            total: first_sector,
            segments: Vec::new(),
            seeks: 0,
            seek_us: 0.0,
            turn_us: 0.0,
            transfer_us: 0.0,
            buffered: 0,
        }
    }

    /// The drive's capacity in bytes.
    pub fn bytes(&self) -> u64 {
        self.total * SECTOR_BYTES
    }

    fn place(&self, sector: u64) -> Place {
        let at = self.zones.partition_point(|z| z.first_sector <= sector) - 1;
        let zone = self.zones[at];
        let inside = sector - zone.first_sector;
        let track = inside / zone.track_sectors;
        Place {
            cylinder: zone.first_cylinder + track / HEADS,
            track: zone.first_cylinder * HEADS + track,
            sector: inside % zone.track_sectors,
            track_sectors: zone.track_sectors,
        }
    }

    fn seek_us(&self, to: u64) -> f64 {
        let distance = self.cylinder.abs_diff(to) as f64;
        if distance == 0.0 {
            0.0
        } else if distance <= KNEE_CYLINDERS {
            SETTLE_US + ROOT_US * distance.sqrt()
        } else {
            SETTLE_US + ROOT_US * KNEE_CYLINDERS.sqrt() + SLOPE_US * (distance - KNEE_CYLINDERS)
        }
    }

    /// Stops the read-ahead, if there is one, and computes how far it came.
    fn stop_reading_ahead(&mut self, now_us: f64) {
        let Some(at) = self
            .segments
            .iter()
            .position(|s| s.growing_since_us.is_some())
        else {
            return;
        };
        let segment = self.segments[at];
        let since = segment.growing_since_us.unwrap_or(now_us);
        let place = self.place(segment.end.min(self.total - 1));
        let rate = place.track_sectors as f64 / (TURN_US * (1.0 + SKEW_TURNS));
        let more = ((now_us - since).max(0.0) * rate) as u64;
        let end = (segment.end + more)
            .min(segment.first + SEGMENT_SECTORS)
            .min(self.total)
            .max(segment.end);
        if end > segment.end {
            self.cylinder = self.place(end - 1).cylinder;
        }
        self.segments[at].end = end;
        self.segments[at].growing_since_us = None;
    }

    fn forget(&mut self, span: Span) {
        self.segments
            .retain(|s| s.end <= span.first || span.end() <= s.first);
    }

    /// Moves the arm, waits for the sector and transfers; returns the time at which the last sector has passed.
    fn move_and_transfer(&mut self, start_us: f64, way: Way, span: Span) -> f64 {
        let place = self.place(span.first);
        let mut seek = self.seek_us(place.cylinder);
        if seek > 0.0 {
            self.seeks += 1;
        }
        if way == Way::Write && seek > 0.0 {
            seek += WRITE_SETTLE_US;
        }
        let there = start_us + seek;
        let wait = (place.angle() - (there / TURN_US).fract()).rem_euclid(1.0) * TURN_US;
        let tracks = (place.sector + u64::from(span.sectors) - 1) / place.track_sectors;
        let turns =
            f64::from(span.sectors) / place.track_sectors as f64 + tracks as f64 * SKEW_TURNS;
        self.cylinder = self.place(span.end() - 1).cylinder;
        self.seek_us += seek;
        self.turn_us += wait;
        self.transfer_us += turns * TURN_US;
        there + wait + turns * TURN_US
    }
}

impl Hardware for Drive {
    fn serve(&mut self, start_us: f64, way: Way, span: Span) -> Served {
        assert!(
            span.end() <= self.total,
            "sector {} of {}",
            span.end(),
            self.total
        );
        let ready = start_us + COMMAND_US;
        if way == Way::Read
            && let Some(at) = self
                .segments
                .iter()
                .position(|s| s.first <= span.first && span.first <= s.end)
        {
            let held = self.segments[at];
            if held.growing_since_us.is_some() || span.end() <= held.end {
                self.stop_reading_ahead(ready);
                let mut segment = self.segments.remove(at);
                let end = segment.end;
                let mut done = ready + f64::from(span.sectors) * BUS_SECTOR_US;
                if span.end() > end {
                    // The heads are at the end of the segment: the rest comes at their pace.
                    let rest = (span.end() - end) as f64;
                    let place = self.place(end);
                    done = done.max(
                        ready + rest / place.track_sectors as f64 * TURN_US * (1.0 + SKEW_TURNS),
                    );
                    segment.end = span.end();
                    segment.first = segment
                        .first
                        .max(span.end().saturating_sub(SEGMENT_SECTORS / 2));
                    self.cylinder = self.place(segment.end - 1).cylinder;
                }
                if held.growing_since_us.is_some() {
                    segment.growing_since_us = Some(done);
                }
                self.segments.push(segment);
                self.buffered += 1;
                return Served {
                    done_us: done,
                    free_us: done,
                };
            }
        }
        self.stop_reading_ahead(ready);
        let done = self.move_and_transfer(ready, way, span);
        match way {
            Way::Write => self.forget(span),
            Way::Read => {
                self.forget(span);
                if self.segments.len() == SEGMENTS {
                    self.segments.remove(0);
                }
                self.segments.push(Segment {
                    first: span.first,
                    end: span.end(),
                    growing_since_us: Some(done),
                });
            }
        }
        Served {
            done_us: done,
            free_us: done,
        }
    }

    fn sectors(&self) -> u64 {
        self.total
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("seeks", self.seeks as f64),
            ("seeking (s)", self.seek_us / 1e6),
            ("turning (s)", self.turn_us / 1e6),
            ("transferring (s)", self.transfer_us / 1e6),
            ("reads from the drive's buffer", self.buffered as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, sectors: u32) -> Span {
        Span { first, sectors }
    }

    #[test]
    fn it_holds_4_3_gigabytes() {
        let bytes = Drive::of_1999().sectors() * SECTOR_BYTES;
        assert!((4.2e9..4.4e9).contains(&(bytes as f64)), "{bytes}");
    }

    #[test]
    fn sustained_writes_are_those_the_paper_measured() {
        // Clusters of 128 KB in sequence, over the first half of the disk.
        let mut drive = Drive::of_1999();
        let (mut now, mut at) = (0.0, 0);
        while at < drive.sectors() / 2 {
            now = drive.serve(now, Way::Write, span(at, 256)).free_us;
            at += 256;
        }
        let rate = at as f64 * 512.0 / now;
        assert!((4.4..5.0).contains(&rate), "{rate} MB/s; paper 002: 4.7");
    }

    #[test]
    fn a_random_read_takes_seek_and_half_a_turn() {
        let mut drive = Drive::of_1999();
        let (mut now, mut at) = (0.0, 12345u64);
        let reads = 2000;
        for _ in 0..reads {
            at = at
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1442);
            let sector = (at >> 20) % (drive.sectors() - 16);
            now = drive
                .serve(now + 137.0, Way::Read, span(sector, 16))
                .free_us;
        }
        let mean_ms = now / 1e3 / f64::from(reads);
        assert!((12.5..15.5).contains(&mean_ms), "{mean_ms}");
    }

    #[test]
    fn what_follows_a_read_comes_from_the_buffer() {
        let mut drive = Drive::of_1999();
        let first = drive.serve(0.0, Way::Read, span(500_000, 16)).done_us;
        let next = drive
            .serve(first + 1000.0, Way::Read, span(500_016, 16))
            .done_us;
        assert!(next - first - 1000.0 < 3000.0, "{}", next - first);
        // After a write to these sectors the buffer is stale and must not be used.
        let written = drive.serve(next, Way::Write, span(500_016, 16)).done_us;
        let again = drive.serve(written, Way::Read, span(500_016, 16)).done_us;
        assert!(again - written > 5000.0, "{}", again - written);
    }

    #[test]
    fn rewriting_a_sector_takes_a_turn() {
        let mut drive = Drive::of_1999();
        let first = drive.serve(0.0, Way::Write, span(1000, 16)).done_us;
        let second = drive.serve(first, Way::Write, span(1000, 16)).done_us;
        assert!((second - first - TURN_US).abs() < 1.0, "{}", second - first);
    }
}
