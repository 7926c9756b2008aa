//! The records of a client's connection, without its socket.
//!
//! rustls' unbuffered connection has no buffers, so an idle connection has none. Reads go into [`Scratch`], which a worker's connections
//! share; records are decrypted in place, and the plaintext is copied to the reader. Kept are only bytes that have no other place: the front of an
//! incomplete record, and plaintext for which the reader has no room. Writes are encrypted into a second buffer and given to the socket
//! at once; only the bytes that the socket does not take are kept.
//!
//! rustls makes a record from one slice. So a large piece is encrypted where it lies, and pieces that do not fill a record are first
//! copied together (`Pieces::next`).
//!
//! Not known here: sockets, HTTP.
//!
//! Limits: [`READ_BYTES_MAX`] of records are handled at a time, which also bounds a handshake message; [`SEALED_BYTES_MAX`] are encrypted at a time.

use std::{
    cell::{RefCell, RefMut},
    io::{self, ErrorKind, IoSlice},
    sync::Arc,
};

use bytes::{Buf, BytesMut};
use rustls::{
    CommonState, Error, ServerConfig,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus},
};
use tokio::io::ReadBuf;

use super::names;
use ledger::Ledger;

/// The most plaintext in a record.
//= rfc8446 §5.1   the length MUST NOT exceed 2^14 bytes
const RECORD_BYTES_MAX: usize = 1 << 14;
/// The header before a record's content.
const RECORD_HEAD_BYTES: usize = 5;
/// A piece with at least this much left is not copied as a whole.
const LARGE_BYTES: usize = RECORD_BYTES_MAX / 2;
/// More than the bytes that a record adds to its plaintext, together with a key update before it.
const RECORD_EXTRA_BYTES: usize = 256;
/// The most bytes of records handled at a time. An incomplete record is less than a third of it.
const READ_BYTES_MAX: usize = 64 << 10;
/// The least size of a read, even if the reader has less room: the front of a record alone would be of no use.
const READ_BYTES_MIN: usize = 4 << 10;
/// The most bytes encrypted at a time: four full records, and enough room that the pieces after them are not cut.
const SEALED_BYTES_MAX: usize = 72 << 10;
/// A page. libc copies 4 KiB and more by `rep movsb`. Some processors (seen on AMD) do so at a quarter of the speed if the target lies a few bytes
/// further in its page than the source does in its own. rustls copies each record twice: into a block that begins with a page, and
/// out of it.
const PAGE_BYTES: usize = 4 << 10;
/// Records and pieces that begin at this offset in a page are copied at full speed.
const MIDDLE_BYTES: usize = PAGE_BYTES / 2;
/// The first copy is slow for a piece that begins within this many bytes of a page's end, or in the first few bytes of a page.
const EDGE_BYTES: usize = 512;

/// Buffers that the connections of a worker share, allocated at first use.
#[derive(Default)]
pub struct Scratch {
    read: RefCell<Vec<u8>>,
    sealed: RefCell<Sealed>,
    /// Counts bytes that sockets do not take.
    ledger: Option<Ledger>,
}

/// The buffer in which records are made.
#[derive(Default)]
pub struct Sealed {
    records: Vec<u8>,
    /// Plaintext of one record, in the middle of a page.
    gathered: Vec<u8>,
}

impl Sealed {
    /// The records encrypted last.
    pub fn records(&self, bytes: usize) -> &[u8] {
        &self.records[MIDDLE_BYTES..][..bytes]
    }
}

impl Scratch {
    /// Buffers of a worker; bytes that sockets do not take are counted in this ledger.
    pub fn counting_in(ledger: Ledger) -> Scratch {
        Scratch {
            ledger: Some(ledger),
            ..Scratch::default()
        }
    }

    /// See [`Scratch::counting_in`].
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// The buffer for reads.
    pub fn for_reading(&self) -> RefMut<'_, Vec<u8>> {
        let mut read = self.read.borrow_mut();
        if read.is_empty() {
            *read = vec![0; READ_BYTES_MAX];
        }
        read
    }

    /// The buffer for making records.
    pub fn for_sealing(&self) -> RefMut<'_, Sealed> {
        let mut sealed = self.sealed.borrow_mut();
        if sealed.records.is_empty() {
            sealed.records = vec![0; MIDDLE_BYTES + SEALED_BYTES_MAX];
            sealed.gathered = Vec::with_capacity(MIDDLE_BYTES + RECORD_BYTES_MAX);
        }
        sealed
    }
}

/// A TLS session, with the bytes that have no other place.
pub struct Session {
    tls: UnbufferedServerConnection,
    /// The front of incomplete records, as rustls left them.
    partial: Vec<u8>,
    /// Decrypted bytes, not read yet.
    plain: BytesMut,
    /// Encrypted bytes, not sent yet.
    unsent: BytesMut,
    /// The client has sent close_notify.
    has_ended: bool,
    is_broken: bool,
    /// The name that the client asked for, until it is taken.
    name: Option<Box<str>>,
}

impl Session {
    /// A session before its handshake.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn new(config: &Arc<ServerConfig>) -> Result<Session, Error> {
        Ok(Session {
            tls: UnbufferedServerConnection::new(Arc::clone(config))?,
            partial: Vec::new(),
            plain: BytesMut::new(),
            unsent: BytesMut::new(),
            has_ended: false,
            is_broken: false,
            name: None,
        })
    }

    /// The parameters agreed on.
    pub fn agreed(&self) -> &CommonState {
        &self.tls
    }

    /// Takes the name that the client asked for.
    pub fn take_name(&mut self) -> Option<Box<str>> {
        self.name.take()
    }

    /// Are there decrypted bytes that were not read?
    pub fn has_plain(&self) -> bool {
        !self.plain.is_empty()
    }

    // Receiving.

    /// The part of `space` to read into, behind the kept front of a record, for a reader with `room` bytes.
    pub fn place_for<'s>(&self, space: &'s mut [u8], room: usize) -> &'s mut [u8] {
        let kept = self.partial.len();
        let end = (kept + room.max(READ_BYTES_MIN)).min(space.len());
        &mut space[kept.min(end)..end]
    }

    /// Handles `read` bytes in [`Self::place_for`]. Plaintext goes to `reader`, or is kept; answers of the handshake wait in [`Self::unsent`].
    ///
    /// # Errors
    /// The records are not valid; the alert waits to be sent.
    pub fn take(
        &mut self,
        space: &mut [u8],
        read: usize,
        mut reader: Option<&mut ReadBuf<'_>>,
    ) -> Result<(), Error> {
        let kept = self.partial.len();
        let records = &mut space[..kept + read];
        records[..kept].copy_from_slice(&self.partial);
        let Session {
            tls, plain, unsent, ..
        } = self;
        let mut give = |bytes: &[u8]| {
            let mut rest = bytes;
            if let (Some(reader), true) = (&mut reader, plain.is_empty()) {
                let (taken, left) = rest.split_at(rest.len().min(reader.remaining()));
                reader.put_slice(taken);
                rest = left;
            }
            plain.extend_from_slice(rest);
        };
        let is_new = self.name.is_none() && tls.is_handshaking();
        let (ended, name) = names::noting(is_new, || advance(tls, records, unsent, &mut give));
        self.name = name.or(self.name.take());
        match ended {
            Ok(Advanced { used, has_ended }) => {
                self.has_ended |= has_ended;
                self.partial.clear();
                match records.len() - used {
                    0 => self.partial = Vec::new(),
                    _ if self.has_ended => {}
                    _ => self.partial.extend_from_slice(&records[used..]),
                }
                if self.partial.len() >= READ_BYTES_MAX {
                    return Err(self.break_off(Error::General("a message is too long".into())));
                }
                Ok(())
            }
            Err(error) => Err(self.break_off(error)),
        }
    }

    fn break_off(&mut self, error: Error) -> Error {
        self.is_broken = true;
        self.partial = Vec::new();
        error
    }

    /// Copies decrypted bytes to the reader; `None`: there are none yet. `Some(0)`: the client has ended the stream.
    ///
    /// # Errors
    /// Earlier records were not valid.
    pub fn read(&mut self, reader: &mut ReadBuf<'_>) -> io::Result<Option<usize>> {
        if self.plain.is_empty() {
            return match (self.has_ended, self.is_broken) {
                (_, true) => Err(ErrorKind::InvalidData.into()),
                (true, false) => Ok(Some(0)),
                (false, false) => Ok(None),
            };
        }
        let taken = self.plain.len().min(reader.remaining());
        reader.put_slice(&self.plain[..taken]);
        drop_front(&mut self.plain, taken);
        Ok(Some(taken))
    }

    // Sending.

    /// Encrypted bytes that wait to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// Removes bytes that were sent.
    pub fn sent(&mut self, bytes: usize) {
        drop_front(&mut self.unsent, bytes);
    }

    /// Keeps records that the socket did not take.
    pub fn keep(&mut self, records: &[u8]) {
        self.unsent.extend_from_slice(records);
    }

    /// Encrypts some of `pieces`, after skipping `skip` bytes. Returns how many bytes were encrypted, and how many bytes of records they made.
    ///
    /// # Errors
    /// Nothing can be sent any more.
    pub fn seal(
        &mut self,
        pieces: &[IoSlice<'_>],
        skip: usize,
        sealed: &mut Sealed,
    ) -> io::Result<(usize, usize)> {
        if self.is_broken {
            return Err(ErrorKind::InvalidData.into());
        }
        let Session { tls, partial, .. } = self;
        // `partial` has no complete record, so rustls uses none of it.
        let UnbufferedStatus { state, .. } = tls.process_tls_records(partial);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            return Err(ErrorKind::BrokenPipe.into());
        };
        let Sealed { records, gathered } = sealed;
        let records = &mut records[MIDDLE_BYTES..];
        let mut pieces = Pieces::behind(pieces, skip);
        let (mut taken, mut made) = (0, 0);
        while records.len() - made >= RECORD_BYTES_MAX + RECORD_EXTRA_BYTES {
            let plain = pieces.next(gathered);
            if plain.is_empty() {
                break;
            }
            made += traffic
                .encrypt(plain, &mut records[made..])
                .map_err(|error| io::Error::new(ErrorKind::BrokenPipe, error))?;
            taken += plain.len();
        }
        Ok((taken, made))
    }

    /// Queues close_notify; later calls have no effect.
    pub fn end(&mut self) {
        if self.is_broken {
            return;
        }
        let Session {
            tls,
            partial,
            unsent,
            ..
        } = self;
        let UnbufferedStatus { state, .. } = tls.process_tls_records(partial);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            let mut record = [0; RECORD_EXTRA_BYTES];
            let bytes = traffic.queue_close_notify(&mut record).unwrap_or(0);
            unsent.extend_from_slice(&record[..bytes]);
        }
    }
}

/// The result of [`advance`].
struct Advanced {
    /// Bytes of the input that were used.
    used: usize,
    /// The client has sent close_notify.
    has_ended: bool,
}

/// Handles `records` as far as they are complete. Bytes to be sent go to `unsent`, plaintext to `give`.
fn advance(
    tls: &mut UnbufferedServerConnection,
    records: &mut [u8],
    unsent: &mut BytesMut,
    give: &mut dyn FnMut(&[u8]),
) -> Result<Advanced, Error> {
    let (mut used, mut has_ended) = (0, false);
    loop {
        let UnbufferedStatus { mut discard, state } = tls.process_tls_records(&mut records[used..]);
        let goes_on = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    give(record.payload);
                }
                true
            }
            // Before the handshake is complete. Readers ask whether it is.
            Ok(ConnectionState::ReadEarlyData(mut early)) => {
                while let Some(record) = early.next_record() {
                    give(record?.payload);
                }
                true
            }
            Ok(ConnectionState::EncodeTlsData(data)) => {
                encode(data, unsent)?;
                true
            }
            // `unsent` is sent in order, and nothing overtakes it.
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                true
            }
            Ok(ConnectionState::PeerClosed) => {
                has_ended = true;
                true
            }
            Ok(_) => false,
            Err(error) => {
                used += discard;
                say_why(tls, &mut records[used..], unsent);
                return Err(error);
            }
        };
        used += discard;
        if !goes_on {
            return Ok(Advanced { used, has_ended });
        }
    }
}

/// Encodes the alert after an error. Stops once there is none left, because rustls would then examine the invalid records again.
fn say_why(tls: &mut UnbufferedServerConnection, rest: &mut [u8], unsent: &mut BytesMut) {
    while tls.wants_write() {
        let Ok(ConnectionState::EncodeTlsData(data)) = tls.process_tls_records(rest).state else {
            return;
        };
        if encode(data, unsent).is_err() {
            return;
        }
    }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, unsent: &mut BytesMut) -> Result<(), Error> {
    let failed = |error: EncodeError| Error::General(error.to_string());
    let bytes = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(wanted)) => wanted.required_size,
        Err(error) => return Err(failed(error)),
        Ok(_) => return Ok(()),
    };
    let at = unsent.len();
    unsent.resize(at + bytes, 0);
    data.encode(&mut unsent[at..]).map_err(failed)?;
    Ok(())
}

/// Frees the memory when nothing is left.
fn drop_front(bytes: &mut BytesMut, count: usize) {
    bytes.advance(count);
    if bytes.is_empty() {
        *bytes = BytesMut::new();
    }
}

fn place_in_page(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize % PAGE_BYTES
}

/// See [`PAGE_BYTES`].
fn begins_at_an_edge(bytes: &[u8]) -> bool {
    (place_in_page(bytes) + EDGE_BYTES) % PAGE_BYTES < EDGE_BYTES + RECORD_HEAD_BYTES
}

/// How many bytes further the next middle of a page is.
fn to_middle(bytes: &[u8]) -> usize {
    (MIDDLE_BYTES + PAGE_BYTES - place_in_page(bytes)) % PAGE_BYTES
}

/// Plaintext in pieces, to be cut into records.
struct Pieces<'a> {
    rest: &'a [IoSlice<'a>],
    /// Bytes of the first piece that are used already.
    skip: usize,
}

impl<'a> Pieces<'a> {
    fn behind(pieces: &'a [IoSlice<'a>], skip: usize) -> Pieces<'a> {
        let mut pieces = Pieces { rest: pieces, skip };
        pieces.drop_empty();
        pieces
    }

    fn drop_empty(&mut self) {
        while let Some((first, rest)) = self.rest.split_first()
            && self.skip >= first.len()
        {
            self.skip -= first.len();
            self.rest = rest;
        }
    }

    fn front(&self) -> &'a [u8] {
        self.rest.first().map_or(&[], |first| &first[self.skip..])
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let taken = &self.front()[..count];
        self.skip += count;
        self.drop_empty();
        taken
    }

    /// The plaintext of the next record; empty after the last. Of a large piece only so much is copied that the number of records
    /// stays minimal and the rest of the piece begins in the middle of a page.
    fn next<'g>(&mut self, gathered: &'g mut Vec<u8>) -> &'g [u8]
    where
        'a: 'g,
    {
        let front = self.front();
        if front.len() >= LARGE_BYTES || self.rest.len() <= 1 {
            let is_long = front.len() > RECORD_BYTES_MAX;
            let max = match is_long && begins_at_an_edge(front) {
                true => RECORD_BYTES_MAX - MIDDLE_BYTES,
                false => RECORD_BYTES_MAX,
            };
            return self.take(front.len().min(max));
        }
        gathered.resize(MIDDLE_BYTES, 0);
        loop {
            let is_in = gathered.len() - MIDDLE_BYTES;
            let room = RECORD_BYTES_MAX - is_in;
            let large = self.front();
            let front = large.len();
            let copied = match front {
                0 => 0,
                LARGE_BYTES.. => {
                    let records = (is_in + front).div_ceil(RECORD_BYTES_MAX);
                    let behind = (records - 1) * RECORD_BYTES_MAX;
                    let least = front.saturating_sub(behind).min(room);
                    let best = least + to_middle(&large[least..]);
                    if best < room.min(front) { best } else { least }
                }
                _ => front.min(room),
            };
            gathered.extend_from_slice(self.take(copied));
            if copied == 0 || copied < front || copied == room {
                return &gathered[MIDDLE_BYTES..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_tests::slices;

    fn records(lens: &[usize]) -> Vec<usize> {
        let all: Vec<u8> = (0..lens.iter().sum()).map(|at: usize| at as u8).collect();
        let slices = slices(&all, lens);
        let (mut pieces, mut gathered) = (Pieces::behind(&slices, 0), Vec::new());
        let (mut sizes, mut seen) = (Vec::new(), Vec::new());
        loop {
            let record = pieces.next(&mut gathered);
            if record.is_empty() {
                break;
            }
            sizes.push(record.len());
            seen.extend_from_slice(record);
        }
        assert!(seen == all, "all of it, in order: {lens:?}");
        sizes
    }

    #[test]
    fn large_pieces_are_not_copied_and_small_ones_share_a_record() {
        let full = RECORD_BYTES_MAX;
        for (pieces, expected) in [
            (&[][..], 0),
            (&[0, 0], 0),
            (&[10], 1),
            (&[300, 10_000], 1),
            // A head and a body: as many records as without the head.
            (&[300, 102_400], 7),
            (&[300, full], 2),
            (&[300, 2 * full - 100], 3),
            // Each frame makes two records, one of them for its header.
            (&[9, full, 9, full, 9, 4096], 5),
            (&[0, 9, 0, full, 0], 2),
            // Answers of middle size share records.
            (&[100, 10_240, 100, 10_240], 2),
        ] {
            let sizes = records(pieces);
            assert_eq!(sizes.len(), expected, "{pieces:?}: {sizes:?}");
            assert!(sizes.iter().all(|&size| size <= full), "{sizes:?}");
        }
    }

    #[test]
    fn pieces_are_taken_up_again_anywhere() {
        let slices = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"de")];
        for (skip, left) in [(0, "abcde"), (2, "cde"), (3, "de"), (4, "e"), (5, "")] {
            let mut gathered = Vec::new();
            let mut pieces = Pieces::behind(&slices, skip);
            assert_eq!(pieces.next(&mut gathered), left.as_bytes(), "{skip}");
        }
    }
}
