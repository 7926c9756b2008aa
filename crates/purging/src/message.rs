//! The messages between two members about purges.
//!
//! The *teller* has opened the link, the *follower* has accepted it. Every member is both, on two links.
//!
//! ```text
//! teller                                   follower
//! 1 ASK                                 →                       how far have you heard?
//!                                       ←  2 HAVE round | u8 1 if its journal is new | vector
//! 3 ENTRY u8 1 if somebody is away | u8 number of them that its origin could not tell | the hash of each name | entry
//!                                       →                       a purge, in the order of its origin
//! 4 LOST vector                         →                       something that you lack cannot be told: drop what is stored
//! 8 ALSO token | place u64 | change     →                       of a summary: a purge that does not say which it is
//! 9 UPTO token | number of ALSO | vector   →                    that was the summary: you have heard so much
//! 5 TOLD round | token | u8 1 if the teller itself has been told   →   that was all
//!                                       ←  6 DONE origin | stamp          it is durable here; both 0: one ALSO is
//!                                       ←  7 ENACTED token                all before that TOLD is durable here
//! ```
//!
//! HAVE may also come unasked: after a start, after a suspension of the process, or when an entry shows that an earlier one is missing.
//! Numbers have 8 bytes, little-endian.
//!
//! Not known here: when each message is sent.

use bytes::Bytes;

use super::{
    journal::Entry,
    stamp::{Origin, Stamp, Vector},
};

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// How far have you heard?
    Ask,
    /// I have heard this much; tell me the rest.
    Have {
        /// Repeated in TOLD.
        round: u64,
        /// The follower has no journal from before this start.
        is_fresh: bool,
        /// The last purge of each origin that is durable at the follower.
        heard: Vector,
    },
    /// A purge.
    Entry {
        /// Is a member away, so that the journal must be durable too?
        keep: bool,
        /// Name hashes of the members that the origin could not tell. Members that can reach them will tell them.
        untold: Vec<u64>,
        /// The purge.
        entry: Entry,
    },
    /// Some purges that you lack are not in the journal any more.
    Lost {
        /// What you will have heard once you have dropped all stored objects.
        heard: Vector,
    },
    /// A change of a summary. It is not heard before UPTO.
    Also {
        /// The number of this telling.
        token: u64,
        /// Number of [`Message::Also`] before it in this telling, so that a lost one is noticed.
        place: u64,
        /// The encoded change.
        change: Bytes,
    },
    /// The end of a summary.
    Upto {
        /// The number of this telling.
        token: u64,
        /// Number of [`Message::Also`] before it in this telling.
        place: u64,
        /// What you have heard now.
        heard: Vector,
    },
    /// You have been told all that you lacked.
    Told {
        /// The round from HAVE.
        round: u64,
        /// Repeated in ENACTED.
        token: u64,
        /// Has the teller itself been told all purges since it started?
        is_sure: bool,
    },
    /// A purge is durable here.
    Done {
        /// Its origin.
        origin: Origin,
        /// Its number.
        stamp: Stamp,
    },
    /// All that was told before that TOLD is durable here.
    Enacted {
        /// The token from TOLD.
        token: u64,
    },
}

impl Message {
    /// Does it tell purges?
    pub fn tells(&self) -> bool {
        use Message::{Also, Entry, Lost, Upto};
        matches!(self, Entry { .. } | Also { .. } | Upto { .. } | Lost { .. })
    }

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Message::Ask => begun(1, &[]),
            Message::Have {
                round,
                is_fresh,
                heard,
            } => {
                let mut out = begun(2, &[*round]);
                out.push(u8::from(*is_fresh));
                with(out, heard)
            }
            Message::Entry {
                keep,
                untold,
                entry,
            } => {
                // A cluster has 64 members.
                let mut out = vec![3, u8::from(*keep), untold.len() as u8];
                out.extend(untold.iter().flat_map(|name| name.to_le_bytes()));
                out.extend(entry.encode());
                out
            }
            Message::Lost { heard } => with(begun(4, &[]), heard),
            Message::Told {
                round,
                token,
                is_sure,
            } => {
                let mut out = begun(5, &[*round, *token]);
                out.push(u8::from(*is_sure));
                out
            }
            Message::Done { origin, stamp } => begun(6, &[origin.0, stamp.0]),
            Message::Enacted { token } => begun(7, &[*token]),
            Message::Also {
                token,
                place,
                change,
            } => {
                let mut out = begun(8, &[*token, *place]);
                out.extend(change);
                out
            }
            Message::Upto {
                token,
                place,
                heard,
            } => with(begun(9, &[*token, *place]), heard),
        }
    }

    /// Decodes a message; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let (kind, rest) = bytes.split_first()?;
        let mut rest = rest;
        let message = match kind {
            1 => Message::Ask,
            2 => Message::Have {
                round: number(&mut rest)?,
                is_fresh: switch(&mut rest)?,
                heard: vector(&mut rest)?,
            },
            3 => Message::Entry {
                keep: switch(&mut rest)?,
                untold: numbers(&mut rest)?,
                entry: Entry::decode(std::mem::take(&mut rest))?,
            },
            4 => Message::Lost {
                heard: vector(&mut rest)?,
            },
            5 => Message::Told {
                round: number(&mut rest)?,
                token: number(&mut rest)?,
                is_sure: switch(&mut rest)?,
            },
            6 => Message::Done {
                origin: Origin(number(&mut rest)?),
                stamp: Stamp(number(&mut rest)?),
            },
            7 => Message::Enacted {
                token: number(&mut rest)?,
            },
            8 => Message::Also {
                token: number(&mut rest)?,
                place: number(&mut rest)?,
                change: Bytes::copy_from_slice(std::mem::take(&mut rest)),
            },
            9 => Message::Upto {
                token: number(&mut rest)?,
                place: number(&mut rest)?,
                heard: vector(&mut rest)?,
            },
            _ => return None,
        };
        rest.is_empty().then_some(message)
    }
}

/// The beginning of a message: its kind and these numbers.
fn begun(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    out
}

/// Appends a vector.
fn with(mut out: Vec<u8>, vector: &Vector) -> Vec<u8> {
    vector.encode(&mut out);
    out
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u64::from_le_bytes(*number))
}

fn switch(rest: &mut &[u8]) -> Option<bool> {
    let (switch, behind) = rest.split_first()?;
    *rest = behind;
    (*switch < 2).then_some(*switch == 1)
}

fn numbers(rest: &mut &[u8]) -> Option<Vec<u64>> {
    let (count, behind) = rest.split_first()?;
    *rest = behind;
    (0..*count).map(|_| number(rest)).collect()
}

fn vector(rest: &mut &[u8]) -> Option<Vector> {
    let (vector, behind) = Vector::decode(rest)?;
    *rest = behind;
    Some(vector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all() -> Vec<Message> {
        let mut heard = Vector::default();
        heard.hear(Origin(1), Stamp(2), 3);
        vec![
            Message::Ask,
            Message::Have {
                round: 1,
                is_fresh: true,
                heard: heard.clone(),
            },
            Message::Entry {
                keep: false,
                untold: vec![7, 8],
                entry: Entry {
                    origin: Origin(1),
                    stamp: Stamp(2),
                    before: Stamp(1),
                    unix_s: 4,
                    change: bytes::Bytes::new(),
                },
            },
            Message::Upto {
                token: 3,
                place: 4,
                heard: heard.clone(),
            },
            Message::Lost { heard },
            Message::Told {
                round: 1,
                token: 2,
                is_sure: true,
            },
            Message::Done {
                origin: Origin(9),
                stamp: Stamp(8),
            },
            Message::Enacted { token: 5 },
        ]
    }

    #[test]
    fn of_a_summary_any_bytes_are_a_change() {
        let also = Message::Also {
            token: 1,
            place: 2,
            change: Bytes::from_static(b"abc"),
        };
        assert_eq!(Message::decode(&also.encode()), Some(also));
        assert_eq!(Message::decode(&[8, 0]), None);
    }

    #[test]
    fn every_message_is_understood_and_nothing_shorter() {
        for message in all() {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes).as_ref(), Some(&message));
            for cut in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..cut]), None, "{message:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(Message::decode(&message.encode()), Some(message));
            }
        }
    }
}
