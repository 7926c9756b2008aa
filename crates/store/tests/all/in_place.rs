//! Bodies that lie in their place already when they are stored.

use crate::common::{MIB, Shell, body};
use bytes::{Buf, Bytes, BytesMut};
use store::{BodyLayout, Fragment, InPlace, NewRecord, Outcome, Settings};

/// A body with room around it.
struct Memory {
    bytes: BytesMut,
    before: usize,
    body: usize,
    shared: Option<Bytes>,
}

impl Memory {
    fn new(layout: BodyLayout, body: &[u8]) -> Memory {
        // Not zero: the store clears what it does not use.
        let mut bytes = BytesMut::from(&vec![0xaa; layout.record + 4096][..]);
        let address = bytes.as_ptr().addr();
        bytes.advance(address.next_multiple_of(4096) - address);
        bytes.truncate(layout.record);
        bytes[layout.before..][..body.len()].copy_from_slice(body);
        Memory {
            bytes,
            before: layout.before,
            body: body.len(),
            shared: None,
        }
    }
}

impl InPlace for Memory {
    fn around(&mut self) -> (&mut [u8], &mut [u8]) {
        let (before, rest) = self.bytes.split_at_mut(self.before);
        (before, &mut rest[self.body..])
    }

    fn share(&mut self) -> Bytes {
        let shared = std::mem::take(&mut self.bytes).freeze();
        self.shared = Some(shared.clone());
        shared
    }
}

fn record<'a>(shell: &Shell, key: &'a [u8], fragment: Option<Fragment>) -> NewRecord<'a> {
    let hash = shell.hash(key);
    NewRecord {
        hash,
        primary: hash,
        key,
        meta: if fragment.is_some() { b"" } else { b"meta" },
        body: &[],
        fragment,
        total: None,
        began: shell.store.sequence(),
        server: 0,
    }
}

#[test]
fn a_body_in_place_is_written_from_there_and_read_back() {
    let mut shell = Shell::new(512 * MIB, Settings::default());
    let fragment = Fragment {
        fetch_id: 7,
        number: 0,
    };
    for (n, len, fragment) in [
        (0, 300_000, None),
        (1, 900_000, None),
        (2, 900_000, Some(fragment)),
        (3, 262_145, Some(fragment)),
    ] {
        let key = format!("key-{n}").into_bytes();
        let body = body(n, 0, len);
        let record = record(&shell, &key, fragment);
        let layout = shell.store.layout_of(&record, len as u64).unwrap();
        let mut memory = Memory::new(layout, &body);
        let record = NewRecord {
            body: &[&body],
            ..record
        };
        let inserted = (shell.store).insert_laid(&record, &mut memory, shell.now_ms);
        assert_eq!(inserted.outcome, Outcome::Stored);
        let writes: Vec<_> = inserted.writes.into_iter().collect();
        let shared = memory
            .shared
            .expect("it is in place, so it is written from there");
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0].data.as_ptr(), shared.as_ptr());
        let end = layout.before + len;
        assert!(writes[0].data[end..].iter().all(|b| *b == 0), "padding");
        // While it is written, and after.
        assert_eq!(shell.get(&key).unwrap().body, body);
        shell.pending.extend(writes);
        shell.complete_all();
        assert_eq!(shell.get(&key).unwrap().body, body);
    }
    shell.settle();
    shell.close();
    shell.reopen();
    assert_eq!(shell.get(b"key-1").unwrap().body, body(1, 0, 900_000));
}

/// A record with this body, and where the body lies in it.
fn with_layout<'a>(shell: &Shell, body: &'a [&'a [u8]]) -> (NewRecord<'a>, BodyLayout) {
    let record = NewRecord {
        body,
        ..record(shell, b"key", None)
    };
    let bytes = body.iter().map(|piece| piece.len() as u64).sum();
    let layout = shell.store.layout_of(&record, bytes).unwrap();
    (record, layout)
}

/// So it is if a marker came meanwhile.
#[test]
fn a_body_that_lies_elsewhere_is_copied() {
    let mut shell = Shell::new(512 * MIB, Settings::default());
    let body = body(1, 0, 300_000);
    let pieces: [&[u8]; 1] = [&body];
    let (record, right) = with_layout(&shell, &pieces);
    let mut memory = Memory::new(
        BodyLayout {
            before: right.before + 1,
            ..right
        },
        &body,
    );
    let inserted = (shell.store).insert_laid(&record, &mut memory, shell.now_ms);
    assert_eq!(inserted.outcome, Outcome::Stored);
    assert!(memory.shared.is_none());
    assert!(memory.bytes[..right.before].iter().all(|b| *b == 0xaa));
    shell.pending.extend(inserted.writes);
    assert_eq!(shell.get(b"key").unwrap().body, body);
    shell.settle();
    assert_eq!(shell.get(b"key").unwrap().body, body);
}

#[test]
fn a_body_in_place_that_comes_too_late_is_not_stored() {
    let mut shell = Shell::new(512 * MIB, Settings::default());
    let body = body(1, 0, 300_000);
    let pieces: [&[u8]; 1] = [&body];
    let (record, layout) = with_layout(&shell, &pieces);
    let mut memory = Memory::new(layout, &body);
    shell.purge(b"key");
    let inserted = (shell.store).insert_laid(&record, &mut memory, shell.now_ms);
    assert_eq!(inserted.outcome, Outcome::Invalidated);
    assert!(memory.shared.is_none(), "so it may be tried again");
    shell.pending.extend(inserted.writes);
    assert!(shell.get(b"key").is_none());
}
