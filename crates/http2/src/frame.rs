//! Frame headers, read and written (RFC 9113 §4.1).

/// The length of a frame header.
pub(crate) const HEADER_BYTES: usize = 9;

/// The longest payload we accept: we never raise SETTINGS_MAX_FRAME_SIZE (RFC 9113 §6.5.2).
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16_384;

/// The first bytes that a client sends (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    //= rfc9218 §7.1
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Length of the payload, in bytes.
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Header {
    /// `None`: fewer than nine bytes.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Header> {
        let [high, mid, low, kind, flags, a, b, c, d, ..] = *bytes else {
            return None;
        };
        Some(Header {
            len: u32::from_be_bytes([0, high, mid, low]) as usize,
            kind,
            flags,
            //= rfc9113 §4.1   the reserved bit is ignored
            stream: u32::from_be_bytes([a, b, c, d]) & STREAM_MASK,
        })
    }

    pub(crate) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        debug_assert!(self.len < 1 << 24);
        let [_, high, mid, low] = (self.len as u32).to_be_bytes();
        let [a, b, c, d] = self.stream.to_be_bytes();
        out.extend_from_slice(&[high, mid, low, self.kind, self.flags, a, b, c, d]);
    }
}

/// The 31 bits that count in a 32-bit word with a reserved bit.
pub(crate) const STREAM_MASK: u32 = 0x7fff_ffff;

/// Writes a frame with a payload of four bytes, such as RST_STREAM and WINDOW_UPDATE.
pub(crate) fn write_word(kind: u8, stream: u32, word: u32, out: &mut Vec<u8>) {
    let header = Header {
        len: 4,
        kind,
        flags: 0,
        stream,
    };
    header.write(out);
    out.extend_from_slice(&word.to_be_bytes());
}

pub(crate) fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?))
}

/// Writes a field block as one HEADERS frame and as many CONTINUATION frames as it needs.
pub(crate) fn write_block(
    stream: u32,
    parts: [&[u8]; 3],
    ends: bool,
    frame_max: usize,
    out: &mut Vec<u8>,
) {
    let len = parts.iter().map(|part| part.len()).sum::<usize>();
    let end_stream = if ends { flag::END_STREAM } else { 0 };
    if len <= frame_max {
        let header = Header {
            len,
            kind: kind::HEADERS,
            flags: end_stream | flag::END_HEADERS,
            stream,
        };
        header.write(out);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        return;
    }
    let block = parts.concat();
    let last = len.div_ceil(frame_max) - 1;
    for (at, piece) in block.chunks(frame_max).enumerate() {
        let end_headers = if at == last { flag::END_HEADERS } else { 0 };
        let (kind, flags) = match at {
            0 => (kind::HEADERS, end_stream | end_headers),
            _ => (kind::CONTINUATION, end_headers),
        };
        let header = Header {
            len: piece.len(),
            kind,
            flags,
            stream,
        };
        header.write(out);
        out.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        let header = Header {
            len: 0x01_0203,
            kind: kind::HEADERS,
            flags: flag::END_HEADERS,
            stream: 0x7fff_fff1,
        };
        let mut out = Vec::new();
        header.write(&mut out);
        assert_eq!(out, [1, 2, 3, 1, 4, 0x7f, 0xff, 0xff, 0xf1]);
        out[5] |= 0x80;
        assert_eq!(Header::parse(&out), Some(header));
        assert_eq!(Header::parse(&out[..8]), None);
    }

    #[test]
    fn a_long_block_is_continued() {
        let mut out = Vec::new();
        write_block(1, [&[1; 3], &[2; 4], &[3; 5]], true, 5, &mut out);
        let mut seen = Vec::new();
        let mut rest = &out[..];
        while let Some(header) = Header::parse(rest) {
            seen.push((header.kind, header.flags, header.len));
            rest = &rest[HEADER_BYTES + header.len..];
        }
        assert_eq!(seen, [(1, 1, 5), (9, 0, 5), (9, 4, 2)]);
    }
}
