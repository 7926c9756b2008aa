//! The messages of the handshake between two members.
//!
//! ```text
//!   opener   -> hello     purpose, own name, incarnation and address, name of the acceptor, a nonce
//!   acceptor -> answer    own name and incarnation, a nonce, a proof
//!   opener   -> proof
//!   acceptor -> verdict   one byte
//! ```
//!
//! Each message except the verdict begins with its length, two bytes. All numbers are little-endian. The acceptor proves first, to any peer: a
//! proof over a nonce of 32 bytes reveals nothing of the key. Only a peer that has proved the key learns whether the acceptor knows it.
//!
//! Not known here: sockets, time, members.
//! Limits: [`MESSAGE_BYTES_MAX`] bytes a message, [`NAME_BYTES_MAX`] a name.

/// Bytes of a proof, and of a nonce.
pub const PROOF_BYTES: usize = 32;

/// The beginning of every hello and answer.
const MAGIC: &[u8; 8] = b"loligo-c";
/// The version of the handshake, and of the protocol that follows it.
pub const VERSION: u16 = 1;
/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 512;
/// The longest name.
pub const NAME_BYTES_MAX: usize = 64;

/// The use of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A link: frames.
    Frames,
    /// HTTP requests to the listener of this name.
    Http(Vec<u8>),
}

/// The first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The use of the connection.
    pub purpose: Purpose,
    /// The opener's nonce.
    pub nonce: [u8; PROOF_BYTES],
    /// Number of the opener's process.
    pub incarnation: u64,
    /// The opener's name.
    pub from: Vec<u8>,
    /// The address at which the opener accepts members, as text: `10.0.0.11:3130`.
    pub at: Vec<u8>,
    /// The name by which the opener knows the acceptor; empty: it knows only the address.
    pub to: Vec<u8>,
}

/// The second message, without its proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The acceptor's nonce.
    pub nonce: [u8; PROOF_BYTES],
    /// Number of the acceptor's process.
    pub incarnation: u64,
    /// The acceptor's name.
    pub name: Vec<u8>,
}

/// The verdict, which ends the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Welcome {
    /// The connection may be used.
    Yes,
    /// The opener did not prove the key.
    NoProof,
    /// The acceptor knows no member of the opener's name.
    Unknown,
    /// The acceptor's name is not the one in the hello.
    OtherName,
    /// The acceptor has no such listener.
    NoListener,
    /// The acceptor is shutting down, or overloaded.
    Busy,
}

const WELCOMES: [(Welcome, u8); 6] = [
    (Welcome::Yes, 1),
    (Welcome::NoProof, 2),
    (Welcome::Unknown, 3),
    (Welcome::OtherName, 4),
    (Welcome::NoListener, 5),
    (Welcome::Busy, 6),
];

impl Welcome {
    /// Its byte.
    pub fn code(self) -> u8 {
        let of = WELCOMES.iter().find(|(welcome, _)| *welcome == self);
        of.map_or(0, |(_, code)| *code)
    }

    /// The verdict of a byte.
    pub fn of(code: u8) -> Option<Welcome> {
        let of = WELCOMES.iter().find(|(_, known)| *known == code);
        of.map(|(welcome, _)| *welcome)
    }
}

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoMessage {
    /// They do not belong to this handshake.
    Foreign,
    /// They are of another version.
    Version(u16),
    /// They are cut short, or too long.
    Malformed,
}

impl Hello {
    /// Encodes it, without the length.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin();
        let (kind, listener): (u8, &[u8]) = match &self.purpose {
            Purpose::Frames => (1, b""),
            Purpose::Http(listener) => (2, listener),
        };
        out.push(kind);
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        for name in [listener, &self.from, &self.at, &self.to] {
            put_name(&mut out, name);
        }
        out
    }

    /// Decodes it.
    ///
    /// # Errors
    /// The bytes are not a hello.
    pub fn decode(bytes: &[u8]) -> Result<Hello, NoMessage> {
        let mut rest = after_beginning(bytes)?;
        let [kind] = take_array(&mut rest)?;
        let nonce = take_array(&mut rest)?;
        let incarnation = u64::from_le_bytes(take_array(&mut rest)?);
        let listener = take_name(&mut rest)?;
        let (from, at) = (take_name(&mut rest)?, take_name(&mut rest)?);
        let to = take_name(&mut rest)?;
        let purpose = match (kind, listener.is_empty()) {
            (1, true) => Purpose::Frames,
            (2, false) => Purpose::Http(listener),
            _ => return Err(NoMessage::Malformed),
        };
        let hello = Hello {
            purpose,
            nonce,
            incarnation,
            from,
            at,
            to,
        };
        ended(rest, hello)
    }
}

impl Answer {
    /// Encodes it, without length and proof.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin();
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        put_name(&mut out, &self.name);
        out
    }

    /// Decodes it, without the proof.
    ///
    /// # Errors
    /// The bytes are not an answer.
    pub fn decode(bytes: &[u8]) -> Result<Answer, NoMessage> {
        let mut rest = after_beginning(bytes)?;
        let nonce = take_array(&mut rest)?;
        let incarnation = u64::from_le_bytes(take_array(&mut rest)?);
        let name = take_name(&mut rest)?;
        let answer = Answer {
            nonce,
            incarnation,
            name,
        };
        ended(rest, answer)
    }
}

fn begin() -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes()].concat()
}

fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    let name = &name[..name.len().min(NAME_BYTES_MAX)];
    out.push(name.len() as u8);
    out.extend_from_slice(name);
}

fn after_beginning(bytes: &[u8]) -> Result<&[u8], NoMessage> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or(NoMessage::Foreign)?;
    match u16::from_le_bytes(take_array(&mut rest)?) {
        VERSION => Ok(rest),
        other => Err(NoMessage::Version(other)),
    }
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], NoMessage> {
    let (array, after) = rest.split_first_chunk().ok_or(NoMessage::Malformed)?;
    *rest = after;
    Ok(*array)
}

fn take_name(rest: &mut &[u8]) -> Result<Vec<u8>, NoMessage> {
    let [length] = take_array(rest)?;
    let length = usize::from(length);
    if length > NAME_BYTES_MAX || length > rest.len() {
        return Err(NoMessage::Malformed);
    }
    let (name, after) = rest.split_at(length);
    *rest = after;
    Ok(name.to_vec())
}

fn ended<T>(rest: &[u8], message: T) -> Result<T, NoMessage> {
    match rest.is_empty() {
        true => Ok(message),
        false => Err(NoMessage::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(purpose: Purpose) -> Hello {
        Hello {
            purpose,
            nonce: [7; PROOF_BYTES],
            incarnation: 5,
            from: b"n1".to_vec(),
            at: b"10.0.0.11:3130".to_vec(),
            to: b"n2".to_vec(),
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_not_when_cut() {
        for purpose in [Purpose::Frames, Purpose::Http(b"1".to_vec())] {
            let hello = hello(purpose);
            let bytes = hello.encode();
            assert_eq!(Hello::decode(&bytes), Ok(hello));
            for end in 0..bytes.len() {
                assert!(Hello::decode(&bytes[..end]).is_err(), "{end}");
            }
            assert!(Hello::decode(&[&bytes[..], b"x"].concat()).is_err());
        }
        let answer = Answer {
            nonce: [9; PROOF_BYTES],
            incarnation: 6,
            name: b"n2".to_vec(),
        };
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn another_version_is_told_from_something_foreign() {
        let mut bytes = hello(Purpose::Frames).encode();
        bytes[MAGIC.len()] = 9;
        assert_eq!(Hello::decode(&bytes), Err(NoMessage::Version(9)));
        assert_eq!(
            Hello::decode(b"GET / HTTP/1.1\r\n"),
            Err(NoMessage::Foreign)
        );
    }

    #[test]
    fn the_longest_messages_fit() {
        let name = vec![b'n'; NAME_BYTES_MAX];
        let hello = Hello {
            purpose: Purpose::Http(name.clone()),
            nonce: [0; PROOF_BYTES],
            incarnation: 0,
            from: name.clone(),
            at: name.clone(),
            to: name,
        };
        assert!(hello.encode().len() + PROOF_BYTES <= MESSAGE_BYTES_MAX);
        for (welcome, code) in WELCOMES {
            assert_eq!((Welcome::of(code), welcome.code()), (Some(welcome), code));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_that_is_written_the_same_or_none(
            any in proptest::collection::vec(any::<u8>(), 0..200),
            kind in 0u8..4,
        ) {
            let _ = (Hello::decode(&any), Answer::decode(&any));
            let bytes = [&begin()[..], &[kind], &any].concat();
            if let Ok(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(hello.encode(), bytes.clone());
            }
            if let Ok(answer) = Answer::decode(&bytes) {
                prop_assert_eq!(answer.encode(), bytes);
            }
        }
    }
}
