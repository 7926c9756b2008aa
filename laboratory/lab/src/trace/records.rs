//! Formats of binary records.
//!
//! ```text
//! oracle   libCacheSim's oracleGeneral, 24 bytes, little-endian:
//!           0 time s u32     4 object u64     12 size u32     16 next access i64
//! dec      DEC proxy traces, second version: a header of 8192 bytes, then 60 bytes each, little-endian:
//!           0 event µs   4 server µs   8 last modified   12 time s   16 time µs   20 client   24 server   28 port
//!          32 path      36 query      40 size           44 URL      48 status u16   50 type u8   51 flags u8
//!          52 method u32   56 protocol u32                                         (the others u32)
//! ucb      UC Berkeley Home IP traces, 60 bytes, big-endian, then the URL:
//!           0 request s, µs   8 first byte s, µs   16 last byte s, µs   24 client u32, port u16   30 server u32, port u16
//!          36 client flags u8   37 server flags u8   38 if-modified-since   42 expires   46 last-modified
//!          50 head bytes   54 body bytes   58 URL bytes u16
//! ```
//!
//! Source: libCacheSim's documentation; `proxytrace.h` and `logparse.cc` as ns-2 carries them (indep-utils/webtrace-conv). No
//! trace of the last two was at hand: they are tested with records made after these layouts.

use std::io::{self, BufRead, Read as _};

use super::entry::{Entry, Parsed, judge};
use super::lines::ucb_request;
use super::names::{name, name_on};

/// Length of the header before the first record of a DEC trace.
pub(crate) const DEC_HEADER_BYTES: usize = 8192;
const DEC_RECORD_BYTES: usize = 60;
const UCB_RECORD_BYTES: usize = 60;
const ORACLE_RECORD_BYTES: usize = 24;
/// The methods, by their numbers in DEC traces.
const DEC_METHODS: [&[u8]; 5] = [b"NONE", b"GET", b"POST", b"HEAD", b"CONNECT"];

/// Fills `buffer` as far as the source has bytes; returns how many it had.
fn fill(source: &mut dyn BufRead, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match source.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(len)
}

/// Reads a record of fixed length: `None` at the end; an incomplete record is bad.
fn record<const LEN: usize>(
    source: &mut dyn BufRead,
    parse: impl FnOnce(&[u8; LEN], &mut dyn BufRead) -> io::Result<Parsed>,
) -> io::Result<Option<Parsed>> {
    let mut bytes = [0; LEN];
    match fill(source, &mut bytes)? {
        0 => Ok(None),
        len if len < LEN => Ok(Some(Parsed::Bad("the last record is cut off"))),
        _ => parse(&bytes, source).map(Some),
    }
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    le32(bytes, at).swap_bytes()
}

/// The next record of an oracleGeneral trace.
pub(crate) fn oracle(source: &mut dyn BufRead) -> io::Result<Option<Parsed>> {
    record::<ORACLE_RECORD_BYTES>(source, |bytes, _| {
        Ok(Parsed::Request(Entry {
            at_us: u64::from(le32(bytes, 0)) * 1_000_000,
            object: name(&bytes[4..12]),
            server: name(b""),
            size_bytes: Some(u64::from(le32(bytes, 12))),
        }))
    })
}

/// The next record of a DEC trace.
pub(crate) fn dec(source: &mut dyn BufRead) -> io::Result<Option<Parsed>> {
    record::<DEC_RECORD_BYTES>(source, |bytes, _| Ok(dec_record(bytes)))
}

fn dec_record(bytes: &[u8; DEC_RECORD_BYTES]) -> Parsed {
    let Some(method) = DEC_METHODS.get(le32(bytes, 52) as usize) else {
        return Parsed::Bad("a method that there is not");
    };
    let micros = le32(bytes, 16);
    if micros >= 1_000_000 {
        return Parsed::Bad("a second of more than a million microseconds");
    }
    let status = u64::from(u16::from_le_bytes([bytes[48], bytes[49]]));
    let server = name(&bytes[24..32]);
    let object = match le32(bytes, 44) {
        0 => name_on(server, &bytes[32..40]),
        _ => name(&bytes[44..48]),
    };
    match judge(method, status, u64::from(le32(bytes, 40))) {
        Ok(size_bytes) => Parsed::Request(Entry {
            at_us: u64::from(le32(bytes, 12)) * 1_000_000 + u64::from(micros),
            object,
            server,
            size_bytes,
        }),
        Err(skip) => Parsed::Skipped(skip),
    }
}

/// The next record of a Home IP trace.
pub(crate) fn ucb(source: &mut dyn BufRead) -> io::Result<Option<Parsed>> {
    record::<UCB_RECORD_BYTES>(source, |bytes, source| {
        let url_bytes = u16::from_be_bytes([bytes[58], bytes[59]]);
        let mut line = vec![0; usize::from(url_bytes)];
        if fill(source, &mut line)? < line.len() {
            return Ok(Parsed::Bad("the last record is cut off"));
        }
        let micros = be32(bytes, 4);
        if micros >= 1_000_000 {
            return Ok(Parsed::Bad("a second of more than a million microseconds"));
        }
        let at_us = u64::from(be32(bytes, 0)) * 1_000_000 + u64::from(micros);
        let mut words = line
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        Ok(match (words.next(), words.next()) {
            (Some(method), Some(url)) => ucb_request(
                at_us,
                &bytes[30..36],
                method,
                url,
                u64::from(be32(bytes, 54)),
            ),
            (Some(url), None) => ucb_request(
                at_us,
                &bytes[30..36],
                b"GET",
                url,
                u64::from(be32(bytes, 54)),
            ),
            (None, _) => Parsed::Bad("no URL"),
        })
    })
}

/// Skips the header of a DEC trace.
pub(crate) fn skip_dec_header(source: &mut dyn BufRead) -> io::Result<()> {
    io::copy(&mut source.take(DEC_HEADER_BYTES as u64), &mut io::sink()).map(drop)
}

/// Whether this may be the start of a DEC trace: its first record has a time in the nineties.
pub(crate) fn looks_like_dec(start: &[u8]) -> bool {
    start
        .get(DEC_HEADER_BYTES..DEC_HEADER_BYTES + DEC_RECORD_BYTES)
        .is_some_and(|bytes| {
            nineties(le32(bytes, 12))
                && le32(bytes, 16) < 1_000_000
                && le32(bytes, 52) < DEC_METHODS.len() as u32
        })
}

/// Whether this may be the start of a Home IP trace: by the times and the port, which is always 80.
pub(crate) fn looks_like_ucb(start: &[u8]) -> bool {
    start.len() >= UCB_RECORD_BYTES
        && nineties(be32(start, 0))
        && be32(start, 4) < 1_000_000
        && start[34..36] == [0, 80]
}

/// Whether this may be the start of an oracleGeneral trace: two records with ascending times and plausible sizes.
pub(crate) fn looks_like_oracle(start: &[u8]) -> bool {
    const SIZE_MAX: u32 = 1 << 31;
    if start.len() < 2 * ORACLE_RECORD_BYTES {
        return start.len() == ORACLE_RECORD_BYTES;
    }
    let records: Vec<&[u8]> = start.chunks_exact(ORACLE_RECORD_BYTES).take(64).collect();
    records
        .windows(2)
        .all(|pair| le32(pair[0], 0) <= le32(pair[1], 0))
        && records.iter().all(|record| le32(record, 12) < SIZE_MAX)
}

fn nineties(seconds: u32) -> bool {
    (631_152_000..946_684_800).contains(&seconds)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::trace::entry::Skip;

    pub(crate) fn oracle_record(time_s: u32, object: u64, size_bytes: u32) -> Vec<u8> {
        let mut bytes = time_s.to_le_bytes().to_vec();
        bytes.extend(object.to_le_bytes());
        bytes.extend(size_bytes.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    }

    pub(crate) fn dec_bytes(method: u32, status: u16, size_bytes: u32, url: u32) -> Vec<u8> {
        let mut words = [0u32; 12];
        (words[3], words[4]) = (841_281_180, 123_456);
        (words[6], words[7], words[8]) = (77, 80, 501);
        (words[10], words[11]) = (size_bytes, url);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(status.to_le_bytes());
        bytes.extend([1, 16]);
        bytes.extend(method.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes
    }

    pub(crate) fn ucb_bytes(body_bytes: u32, url: &str) -> Vec<u8> {
        let mut bytes = vec![0; UCB_RECORD_BYTES];
        bytes[0..4].copy_from_slice(&848_278_028u32.to_be_bytes());
        bytes[4..8].copy_from_slice(&829_593u32.to_be_bytes());
        bytes[30..34].copy_from_slice(&[207, 36, 205, 194]);
        bytes[34..36].copy_from_slice(&80u16.to_be_bytes());
        bytes[54..58].copy_from_slice(&body_bytes.to_be_bytes());
        bytes[58..60].copy_from_slice(&(url.len() as u16).to_be_bytes());
        bytes.extend(url.as_bytes());
        bytes
    }

    fn all(bytes: &[u8], next: fn(&mut dyn BufRead) -> io::Result<Option<Parsed>>) -> Vec<Parsed> {
        let mut source = bytes;
        std::iter::from_fn(|| next(&mut source).unwrap()).collect()
    }

    #[test]
    fn oracle_general() {
        let mut bytes = [oracle_record(5, 77, 100), oracle_record(6, 78, 200)].concat();
        assert!(looks_like_oracle(&bytes));
        bytes.push(0);
        let found = all(&bytes, oracle);
        let Parsed::Request(entry) = found[1] else {
            panic!("{found:?}")
        };
        assert_eq!((entry.at_us, entry.size_bytes), (6_000_000, Some(200)));
        assert_eq!(entry.object, name(&78u64.to_le_bytes()));
        assert_eq!(found[2], Parsed::Bad("the last record is cut off"));
    }

    #[test]
    fn digital() {
        let records = [
            dec_bytes(1, 200, 4321, 99),
            dec_bytes(2, 200, 1, 99),
            dec_bytes(9, 200, 1, 99),
        ]
        .concat();
        let found = all(&records, dec);
        let Parsed::Request(entry) = found[0] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (entry.at_us, entry.size_bytes),
            (841_281_180_123_456, Some(4321))
        );
        assert_eq!(found[1], Parsed::Skipped(Skip::Method));
        assert!(matches!(found[2], Parsed::Bad(_)));
        let whole = [vec![0; DEC_HEADER_BYTES], records].concat();
        assert!(looks_like_dec(&whole) && !looks_like_oracle(&whole[DEC_HEADER_BYTES..]));
    }

    #[test]
    fn berkeley() {
        let bytes = [
            ucb_bytes(844, "GET 123.gif HTTP/1.0"),
            ucb_bytes(0, "GET 123.gif HTTP/1.0"),
        ]
        .concat();
        assert!(looks_like_ucb(&bytes));
        let found = all(&bytes, ucb);
        let [Parsed::Request(first), Parsed::Request(second)] = found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (first.at_us, first.size_bytes),
            (848_278_028_829_593, Some(844))
        );
        assert_eq!((second.object, second.size_bytes), (first.object, None));
        assert_eq!(
            all(&bytes[..70], ucb),
            [Parsed::Bad("the last record is cut off")]
        );
    }
}
