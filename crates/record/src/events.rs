//! Events of the profile: device reads and writes, marks, gauges of each second.
//!
//! Any thread may note events. They are gathered under a short lock and handed to the journal once a second, or when
//! there are many. If no profile is wanted, noting an event costs one check of a flag. Callers check [`Events::are_wanted`]
//! before they compute anything expensive.
//!
//! Not known here: where events come from, files, listeners.

use base::clock::Instant;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use profile::{Event, MARK_TEXT_BYTES_MAX, Mark, MarkKind, Read, Write, clamp_us};

use crate::{
    journal::{Journal, JournalWriter},
    live::{Listening, Lost, Wants},
};
use base::clock::Clock;

/// Takes events. The default discards them.
#[derive(Default)]
pub struct Events {
    writer: Mutex<JournalWriter>,
    clock: Clock,
    wants: Wants,
}

/// A read of a device, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct ReadTimes {
    /// When the read was requested.
    pub asked: Instant,
    /// When it was submitted to the device.
    pub given: Instant,
}

impl Events {
    /// Events go to this journal; wall time is that of `clock`.
    pub fn new(journal: &Journal, clock: Clock) -> Events {
        Events {
            writer: Mutex::new(journal.writer()),
            clock,
            wants: journal.wants(),
        }
    }

    /// Does a file or a listener want events now?
    #[inline]
    pub fn are_wanted(&self) -> bool {
        self.wants.profile()
    }

    /// The current time if events are wanted, as the start of a later event.
    #[inline]
    pub fn now_if_wanted(&self) -> Option<Instant> {
        self.are_wanted().then(Instant::now)
    }

    /// Wall time, microseconds since 1970.
    pub fn unix_us(&self) -> u64 {
        self.clock.now().as_micros() as u64
    }

    /// Notes an event.
    pub fn note(&self, event: &Event) {
        if self.are_wanted() {
            self.writer().note_event(event);
        }
    }

    /// Notes a read of `bytes` bytes for `objects` objects that has just been completed.
    pub fn read(&self, store: usize, times: ReadTimes, bytes: usize, objects: usize) {
        let total = times.asked.elapsed();
        self.note(&Event::Read(Read {
            start_unix_us: self.ago(total),
            wait_us: clamp_us(times.given.duration_since(times.asked)),
            total_us: clamp_us(total),
            bytes: bytes as u64,
            objects: u32::try_from(objects).unwrap_or(u32::MAX),
            store: number(store),
        }));
    }

    /// Notes a cluster write that the device has just completed. The times in `write` are filled in here.
    pub fn write(&self, start: Instant, write: Write) {
        let total = start.elapsed();
        self.note(&Event::Write(Write {
            start_unix_us: self.ago(total),
            total_us: clamp_us(total),
            ..write
        }));
    }

    /// Notes a mark. A long text becomes several marks in a row.
    pub fn mark(&self, kind: MarkKind, text: &str) {
        if self.are_wanted() {
            let mut writer = self.writer();
            for mark in marks(self.unix_us(), kind, text) {
                writer.note_event(&Event::Mark(mark));
            }
        }
    }

    /// Hands over the events noted so far, at the end of a second. `lost`: records lost so far.
    pub fn end_second(&self, lost: u64) {
        let at_unix_us = self.unix_us();
        self.writer().end_second(Lost {
            at_unix_us,
            records: lost,
        });
    }

    /// Hands over the events noted so far.
    pub fn flush(&self) {
        self.writer().hand_over_events();
    }

    /// From now on every newly opened file and every new listener gets these bytes first, after the header.
    pub fn open_with(&self, marks: Vec<u8>) {
        self.writer().open_with(marks);
    }

    /// Begins to listen to the profile. `None`: there are too many listeners, or there is no journal.
    pub fn listen(&self) -> Option<Listening> {
        let (sender, listening) = self.wants.listen()?;
        self.writer().let_listen(sender).then_some(listening)
    }

    fn ago(&self, passed: Duration) -> u64 {
        self.clock.now().saturating_sub(passed).as_micros() as u64
    }

    fn writer(&self) -> MutexGuard<'_, JournalWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a store or worker in an event, at most 255.
pub fn number(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}

/// Splits a text into marks of the same time and kind; joined, they give the text.
pub fn marks(at_unix_us: u64, kind: MarkKind, text: &str) -> Vec<Mark> {
    let mut rest = text;
    let mut marks = Vec::new();
    loop {
        let mut end = rest.len().min(MARK_TEXT_BYTES_MAX);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (first, behind) = rest.split_at(end);
        marks.push(Mark {
            at_unix_us,
            kind,
            text: first.to_owned(),
        });
        if behind.is_empty() {
            return marks;
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_in_several_marks_and_whole() {
        for text in ["", "short", &"long ä ".repeat(100)] {
            let marks = marks(7, MarkKind::Start, text);
            let together: String = marks.iter().map(|mark| mark.text.as_str()).collect();
            assert_eq!(together, text);
            let is_one =
                |mark: &Mark| mark.at_unix_us == 7 && mark.text.len() <= MARK_TEXT_BYTES_MAX;
            assert!(marks.iter().all(is_one));
            assert_eq!(marks.len() > 1, text.len() > MARK_TEXT_BYTES_MAX);
        }
    }

    #[test]
    fn nothing_is_noted_for_nobody() {
        let events = Events::default();
        assert!(!events.are_wanted() && events.now_if_wanted().is_none());
        events.mark(MarkKind::Stop, "");
        assert!(events.listen().is_none(), "there is no journal");
        assert!(!events.are_wanted());
    }
}
