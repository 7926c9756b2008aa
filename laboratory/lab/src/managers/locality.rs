//! Locality buffers: objects of one server are gathered and written together.
//!
//! Not known here: where objects are written.   Limits: the number and size of the buffers are settings; an object larger than a buffer
//! is written alone.
//! Source: paper 002, section 3.6. The paper does not say which buffer is the victim, nor how large buffers are: here the least recently
//! used one is the victim, and the size is a setting.

use crate::DiskRequest;

/// Objects of one server.
#[derive(Debug, Default)]
struct Buffer {
    server: u32,
    objects: Vec<DiskRequest>,
    bytes: u32,
    used: u64,
}

/// The buffers.
pub struct Buffers {
    buffers: Vec<Buffer>,
    most: usize,
    bytes_max: u32,
    clock: u64,
    round_up: u32,
}

impl Buffers {
    /// Up to `most` buffers, none in use yet. Sizes of objects are rounded up to multiples of `round_up` bytes.
    pub fn new(most: usize, bytes_max: u32, round_up: u32) -> Buffers {
        Buffers {
            buffers: Vec::new(),
            most: most.max(1),
            bytes_max,
            clock: 0,
            round_up,
        }
    }

    /// Whether the object is in a buffer.
    pub fn has(&self, request: &DiskRequest) -> bool {
        self.of(request.server).is_some_and(|at| {
            self.buffers[at]
                .objects
                .iter()
                .any(|o| o.object == request.object)
        })
    }

    /// Removes an object from its buffer; `false` if it is in none.
    pub fn remove(&mut self, request: &DiskRequest) -> bool {
        let Some(at) = self.of(request.server) else {
            return false;
        };
        let bytes = self.bytes(request);
        let buffer = &mut self.buffers[at];
        let Some(place) = buffer
            .objects
            .iter()
            .position(|o| o.object == request.object)
        else {
            return false;
        };
        buffer.objects.remove(place);
        buffer.bytes -= bytes;
        true
    }

    /// Adds an object, and returns the objects that must be written now, in order.
    pub fn add(&mut self, request: DiskRequest) -> Vec<DiskRequest> {
        self.clock += 1;
        let bytes = self.bytes(&request);
        let mut out = Vec::new();
        //= paper 002 section 3.6   the server's buffer if there is one, else a victim's
        let at = match self.of(request.server) {
            Some(at) => at,
            None if self.buffers.len() < self.most => {
                self.buffers.push(Buffer::default());
                self.buffers.len() - 1
            }
            None => {
                let oldest = (0..self.buffers.len()).min_by_key(|&at| self.buffers[at].used);
                let at = oldest.expect("there is at least one buffer");
                out = self.empty(at);
                at
            }
        };
        self.buffers[at].server = request.server;
        self.buffers[at].used = self.clock;
        if self.buffers[at].bytes > 0 && self.buffers[at].bytes + bytes > self.bytes_max {
            out.extend(self.empty(at));
        }
        let buffer = &mut self.buffers[at];
        buffer.objects.push(request);
        buffer.bytes += bytes;
        if buffer.bytes >= self.bytes_max {
            out.extend(self.empty(at));
        }
        out
    }

    /// Removes and returns all objects.
    pub fn drain(&mut self) -> Vec<DiskRequest> {
        (0..self.buffers.len())
            .flat_map(|at| self.empty(at))
            .collect()
    }

    fn empty(&mut self, at: usize) -> Vec<DiskRequest> {
        let buffer = &mut self.buffers[at];
        buffer.bytes = 0;
        std::mem::take(&mut buffer.objects)
    }

    fn of(&self, server: u32) -> Option<usize> {
        self.buffers
            .iter()
            .position(|b| b.server == server && b.used > 0)
    }

    fn bytes(&self, request: &DiskRequest) -> u32 {
        super::stored_bytes(request.size_bytes).div_ceil(self.round_up) * self.round_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskOp;

    fn write(object: u32, server: u32, size_bytes: u32) -> DiskRequest {
        DiskRequest {
            op: DiskOp::Write,
            object,
            server,
            size_bytes,
        }
    }

    fn objects(out: &[DiskRequest]) -> Vec<u32> {
        out.iter().map(|o| o.object).collect()
    }

    #[test]
    fn the_victim_is_the_server_unused_for_longest() {
        let mut buffers = Buffers::new(2, 8192, 512);
        assert!(buffers.add(write(1, 10, 100)).is_empty());
        assert!(buffers.add(write(2, 20, 100)).is_empty());
        assert!(buffers.add(write(3, 10, 100)).is_empty());
        assert_eq!(objects(&buffers.add(write(4, 30, 100))), [2]);
        assert!(buffers.has(&write(3, 10, 100)) && !buffers.has(&write(2, 20, 100)));
        assert!(buffers.remove(&write(1, 10, 100)));
        assert_eq!(objects(&buffers.drain()), [3, 4]);
    }

    #[test]
    fn a_full_buffer_is_written() {
        let mut buffers = Buffers::new(2, 2048, 512);
        assert!(buffers.add(write(1, 10, 900)).is_empty());
        assert_eq!(
            objects(&buffers.add(write(2, 10, 1000))),
            [1],
            "1024 and 1536 are too much"
        );
        assert_eq!(objects(&buffers.add(write(3, 10, 9000))), [2, 3]);
        assert!(buffers.drain().is_empty());
    }
}
