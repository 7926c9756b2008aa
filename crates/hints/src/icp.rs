//! Messages of the Internet Cache Protocol, version 2.
//!
//! ```text
//!    0  u8   opcode            4  u32  request number          16  4 bytes  sender's address (unused)
//!    1  u8   version, 2        8  u32  options                 20  a query only: 4 bytes, requester's address (unused)
//!    2  u16  length           12  u32  option data             20 or 24  URL, and a NUL
//! ```
//!
//! All numbers are big-endian. A datagram is one message, and its length must be the one in the header. An answer is four bytes shorter than
//! its query, so forging a query's sender gains an attacker nothing.
//!
//! Not known here: sockets, caching, which clients may ask.   Limits: [`MESSAGE_BYTES_MAX`].
//! Source: RFC 2186. Left out: versions other than 2; HIT_OBJ (an object in a datagram), which we neither request nor send; SECHO and DECHO,
//! with which the distance of a host without ICP is measured.

use std::fmt;

//= rfc2186 §2   ICP messages MUST not exceed 16,384 octets in length
/// Bytes of a message at most.
pub const MESSAGE_BYTES_MAX: usize = 16_384;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 20;
const VERSION: u8 = 2;
const REQUESTER_BYTES: usize = 4;

/// The type of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opcode {
    /// Asks whether the receiver has the object.
    Query,
    /// The sender has the object.
    Hit,
    /// The sender does not have it, but would fetch it.
    Miss,
    /// The query was not understood.
    Error,
    /// The sender does not have it, and must not be asked to fetch it.
    MissNoFetch,
    /// The receiver may not ask.
    Denied,
}

impl Opcode {
    /// All, in the order of their numbers.
    pub const ALL: [Opcode; 6] = [
        Opcode::Query,
        Opcode::Hit,
        Opcode::Miss,
        Opcode::Error,
        Opcode::MissNoFetch,
        Opcode::Denied,
    ];

    /// Its number in a message.
    pub fn number(self) -> u8 {
        match self {
            Opcode::Query => 1,
            Opcode::Hit => 2,
            Opcode::Miss => 3,
            Opcode::Error => 4,
            Opcode::MissNoFetch => 21,
            Opcode::Denied => 22,
        }
    }

    /// Its name in the RFC.
    pub fn name(self) -> &'static str {
        match self {
            Opcode::Query => "QUERY",
            Opcode::Hit => "HIT",
            Opcode::Miss => "MISS",
            Opcode::Error => "ERR",
            Opcode::MissNoFetch => "MISS_NOFETCH",
            Opcode::Denied => "DENIED",
        }
    }

    fn of(number: u8) -> Option<Opcode> {
        Opcode::ALL.into_iter().find(|op| op.number() == number)
    }
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Its type.
    pub opcode: Opcode,
    /// The number of the query, which the answer repeats.
    pub request: u32,
    /// The URL, without the final NUL: not empty, no NUL in it.
    pub url: &'a [u8],
}

/// Why a datagram is not a message that we use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Its length is not the one in the header, or is impossible.
    Length,
    /// A version other than 2.
    Version(u8),
    /// An opcode that we do not use.
    Opcode(u8),
    /// The URL is missing, or its only NUL is not at the end of the message.
    Url,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Length => write!(f, "the length is wrong"),
            Malformed::Version(version) => write!(f, "version {version}, not {VERSION}"),
            Malformed::Opcode(number) => write!(f, "opcode {number} is not used"),
            Malformed::Url => write!(f, "the URL is missing, or not ended by a NUL"),
        }
    }
}

impl std::error::Error for Malformed {}

impl<'a> Message<'a> {
    /// Decodes a datagram.
    ///
    /// # Errors
    /// The reason why it is not a message. Never panics, whatever the bytes are.
    pub fn decode(datagram: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let (header, payload) = datagram
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(Malformed::Length)?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if length != datagram.len() || length > MESSAGE_BYTES_MAX {
            return Err(Malformed::Length);
        }
        if header[1] != VERSION {
            return Err(Malformed::Version(header[1]));
        }
        let opcode = Opcode::of(header[0]).ok_or(Malformed::Opcode(header[0]))?;
        let url = match opcode {
            Opcode::Query => payload.get(REQUESTER_BYTES..).ok_or(Malformed::Length)?,
            _ => payload,
        };
        match url.split_last() {
            Some((0, url)) if !url.is_empty() && !url.contains(&0) => Ok(Message {
                opcode,
                request: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
                url,
            }),
            _ => Err(Malformed::Url),
        }
    }

    /// Encodes the message, replacing the content of `out`. False if the URL is empty, has a NUL, or is too long; `out` is then useless.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        out.clear();
        let requester = match self.opcode {
            Opcode::Query => REQUESTER_BYTES,
            _ => 0,
        };
        let length = HEADER_BYTES + requester + self.url.len() + 1;
        if length > MESSAGE_BYTES_MAX || self.url.is_empty() || self.url.contains(&0) {
            return false;
        }
        out.extend([self.opcode.number(), VERSION]);
        out.extend((length as u16).to_be_bytes());
        out.extend(self.request.to_be_bytes());
        // There are no options, and the address fields are unused.
        out.resize(HEADER_BYTES + requester, 0);
        out.extend(self.url);
        out.push(0);
        true
    }

    /// An answer to this query.
    pub fn answer(&self, opcode: Opcode) -> Message<'a> {
        Message { opcode, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(opcode: Opcode, url: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let request = 0x0102_0304;
        let is_message = Message {
            opcode,
            request,
            url,
        }
        .encode(&mut out);
        assert!(is_message);
        out
    }

    #[test]
    fn a_query_byte_by_byte() {
        let expected = [&[1, 2, 0, 34, 1, 2, 3, 4][..], &[0; 16], b"http://a/", &[0]];
        assert_eq!(bytes(Opcode::Query, b"http://a/"), expected.concat());
    }

    #[test]
    fn what_is_written_is_read() {
        for opcode in Opcode::ALL {
            let datagram = bytes(opcode, b"http://a/");
            let message = Message::decode(&datagram).unwrap();
            assert_eq!(message.opcode, opcode);
            assert_eq!(message.request, 0x0102_0304);
            assert_eq!(message.url, b"http://a/");
        }
    }

    #[test]
    fn an_answer_is_shorter_than_its_query() {
        let query = bytes(Opcode::Query, b"x");
        let asked = Message::decode(&query).unwrap();
        let mut answer = Vec::new();
        assert!(asked.answer(Opcode::Denied).encode(&mut answer));
        assert_eq!(answer.len() + 4, query.len());
    }

    #[test]
    fn lengths_and_ends_are_checked() {
        let good = bytes(Opcode::Query, b"http://a/");
        for len in 0..good.len() {
            assert_eq!(Message::decode(&good[..len]), Err(Malformed::Length));
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Message::decode(&bytes).map(|message| message.opcode)
        };
        assert_eq!(with(0, 0), Err(Malformed::Opcode(0)));
        assert_eq!(with(0, 23), Err(Malformed::Opcode(23)));
        assert_eq!(with(1, 3), Err(Malformed::Version(3)));
        assert_eq!(with(2, 1), Err(Malformed::Length));
        assert_eq!(with(33, b'x'), Err(Malformed::Url));
        assert_eq!(with(25, 0), Err(Malformed::Url));
        // A header alone, a query without a URL, and an answer without one.
        let of_length = |opcode: u8, len: u8| {
            let mut bytes = vec![0; usize::from(len)];
            (bytes[0], bytes[1], bytes[3]) = (opcode, 2, len);
            Message::decode(&bytes).map(|message| message.opcode)
        };
        assert_eq!(of_length(1, 20), Err(Malformed::Length));
        assert_eq!(of_length(1, 24), Err(Malformed::Url));
        assert_eq!(of_length(1, 25), Err(Malformed::Url));
        assert_eq!(of_length(2, 20), Err(Malformed::Url));
    }

    #[test]
    fn what_no_message_can_carry_is_not_written() {
        let mut out = Vec::new();
        let mut encode = |url: &[u8]| {
            let message = Message {
                opcode: Opcode::Query,
                request: 1,
                url,
            };
            message.encode(&mut out)
        };
        assert!(!encode(b""));
        assert!(!encode(b"a\0b"));
        assert!(!encode(&[b'a'; MESSAGE_BYTES_MAX - 24]));
        assert!(encode(&[b'a'; MESSAGE_BYTES_MAX - 25]));
    }
}
