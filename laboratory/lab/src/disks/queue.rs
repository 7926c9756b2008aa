//! The driver's queue: requests wait here, sorted, while the device is busy.
//!
//! The device serves one upward sweep after the other, as in `disksort` of BSD and Solaris: next is the lowest request at or above the
//! last one's place, else the lowest of all. A request therefore also waits for all requests that the sweep meets before it.
//!
//! Not known here: files.   Limits: none on its length; a writer is stopped by its [`Queue::waiting_bytes`].

use std::collections::BTreeMap;

use super::hardware::{Hardware, SECTOR_BYTES, Span, Way};

/// The owner of a request, by which waiting writes are counted. An inode's number, or any other.
pub type Owner = u32;

/// Requests before a device.
pub struct Queue {
    hardware: Box<dyn Hardware>,
    /// Keyed by first sector; a second request for the same place joins the first.
    pending: BTreeMap<(u64, u8), Request>,
    /// The place of the sweep.
    at: u64,
    free_us: f64,
    waiting: Vec<u64>,
    /// Counts of the completed requests.
    pub counts: Counts,
}

/// Counts of completed requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Requests that read.
    pub reads: u64,
    /// Bytes they read.
    pub read_bytes: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes they wrote.
    pub write_bytes: u64,
    /// Time in which a request was being served.
    pub busy_us: f64,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    way: Way,
    span: Span,
    owner: Owner,
}

impl Queue {
    /// An idle device, time 0.
    pub fn new(hardware: Box<dyn Hardware>) -> Queue {
        Queue {
            hardware,
            pending: BTreeMap::new(),
            at: 0,
            free_us: 0.0,
            waiting: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// The device.
    pub fn hardware(&self) -> &dyn Hardware {
        self.hardware.as_ref()
    }

    /// Adds a write that nobody waits for.
    pub fn write(&mut self, now_us: f64, owner: Owner, span: Span) {
        self.add(now_us, owner, Way::Write, span);
    }

    /// Adds a read that nobody waits for.
    pub fn read_ahead(&mut self, now_us: f64, owner: Owner, span: Span) {
        self.add(now_us, owner, Way::Read, span);
    }

    /// Adds a request and waits for it; returns the time at which it is done.
    pub fn wait(&mut self, now_us: f64, owner: Owner, way: Way, span: Span) -> f64 {
        let key = self.add(now_us, owner, way, span);
        loop {
            let (served, done) = self.serve_next();
            if served == key {
                return done.max(now_us);
            }
        }
    }

    /// Waits until at most `bytes` of the owner's writes are waiting; returns the time at which that is so.
    pub fn wait_below(&mut self, now_us: f64, owner: Owner, bytes: u64) -> f64 {
        self.advance(now_us);
        let mut now = now_us;
        while self.waiting_bytes(owner) > bytes {
            let (_, done) = self.serve_next();
            now = now.max(done);
        }
        now
    }

    /// Waits for all requests; returns the time at which the device is idle.
    pub fn drain(&mut self, now_us: f64) -> f64 {
        let mut now = now_us;
        while !self.pending.is_empty() {
            let (_, done) = self.serve_next();
            now = now.max(done);
        }
        now.max(self.free_us)
    }

    /// Bytes of the owner's writes that have not begun.
    pub fn waiting_bytes(&self, owner: Owner) -> u64 {
        self.waiting.get(owner as usize).copied().unwrap_or(0)
    }

    /// Lets the device work until `now_us`.
    pub fn advance(&mut self, now_us: f64) {
        while self.free_us <= now_us && !self.pending.is_empty() {
            self.serve_next();
        }
    }

    fn add(&mut self, now_us: f64, owner: Owner, way: Way, span: Span) -> (u64, u8) {
        self.advance(now_us);
        if self.pending.is_empty() {
            self.free_us = self.free_us.max(now_us);
        }
        let key = (span.first, u8::from(way == Way::Write));
        let request = Request { way, span, owner };
        if let Some(old) = self.pending.insert(key, request) {
            self.count_waiting(old, false);
            if old.span.sectors > span.sectors
                && let Some(merged) = self.pending.get_mut(&key)
            {
                merged.span = old.span;
            }
        }
        if let Some(&kept) = self.pending.get(&key) {
            self.count_waiting(kept, true);
        }
        key
    }

    fn count_waiting(&mut self, request: Request, more: bool) {
        if request.way == Way::Read {
            return;
        }
        let at = request.owner as usize;
        if at >= self.waiting.len() {
            self.waiting.resize(at + 1, 0);
        }
        let bytes = u64::from(request.span.sectors) * SECTOR_BYTES;
        if more {
            self.waiting[at] += bytes;
        } else {
            self.waiting[at] -= bytes;
        }
    }

    /// Serves the next request of the sweep; returns its key, and the time at which it is done. The queue must not be empty.
    fn serve_next(&mut self) -> ((u64, u8), f64) {
        let next = self
            .pending
            .range((self.at, 0)..)
            .next()
            .or_else(|| self.pending.iter().next())
            .map(|(&key, _)| key);
        let key = next.expect("the caller saw a request in the queue");
        let request = self
            .pending
            .remove(&key)
            .expect("the key was just found in the queue");
        self.count_waiting(request, false);
        let start = self.free_us;
        let served = self.hardware.serve(start, request.way, request.span);
        self.at = request.span.first;
        self.free_us = served.free_us;
        let bytes = u64::from(request.span.sectors) * SECTOR_BYTES;
        match request.way {
            Way::Read => {
                self.counts.reads += 1;
                self.counts.read_bytes += bytes;
            }
            Way::Write => {
                self.counts.writes += 1;
                self.counts.write_bytes += bytes;
            }
        }
        self.counts.busy_us += served.free_us - start;
        (key, served.done_us)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hardware::Served;
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A device that takes a millisecond for each request and notes their order.
    struct Slow(Arc<Mutex<Vec<u64>>>);

    impl Hardware for Slow {
        fn serve(&mut self, start_us: f64, _: Way, span: Span) -> Served {
            self.0.lock().unwrap().push(span.first);
            Served {
                done_us: start_us + 1000.0,
                free_us: start_us + 1000.0,
            }
        }
        fn sectors(&self) -> u64 {
            1000
        }
    }

    fn queue() -> (Queue, Arc<Mutex<Vec<u64>>>) {
        let order = Arc::new(Mutex::new(Vec::new()));
        (Queue::new(Box::new(Slow(Arc::clone(&order)))), order)
    }

    fn at(first: u64) -> Span {
        Span { first, sectors: 1 }
    }

    #[test]
    fn a_reader_waits_for_what_the_sweep_meets() {
        let (mut queue, order) = queue();
        for first in [50, 90, 10, 70] {
            queue.write(0.0, 1, at(first));
        }
        // 50 begins at once; from there the sweep goes up, and 60 comes before 70.
        let done = queue.wait(0.0, 2, Way::Read, at(60));
        assert_eq!(*order.lock().unwrap(), [50, 60]);
        assert!((done - 2000.0).abs() < 1e-6);
        assert!((queue.drain(done) - 5000.0).abs() < 1e-6);
    }

    #[test]
    fn an_idle_device_begins_when_it_is_asked() {
        let (mut queue, _) = queue();
        assert!((queue.wait(5000.0, 1, Way::Read, at(1)) - 6000.0).abs() < 1e-6);
        queue.write(9000.0, 1, at(2));
        assert_eq!(queue.waiting_bytes(1), 512);
        queue.advance(9500.0);
        assert_eq!(queue.waiting_bytes(1), 0);
        assert!((queue.drain(9500.0) - 10_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_same_place_twice_is_written_once() {
        let (mut queue, order) = queue();
        queue.write(0.0, 1, at(5));
        queue.write(0.0, 1, at(7));
        queue.write(0.0, 2, at(7));
        queue.drain(0.0);
        assert_eq!(*order.lock().unwrap(), [5, 7]);
        assert_eq!(queue.counts.writes, 2);
        assert_eq!(queue.waiting_bytes(1) + queue.waiting_bytes(2), 0);
    }
}
