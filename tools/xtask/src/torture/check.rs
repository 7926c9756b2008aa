//! Checks whether an answer is allowed for its request.
//!
//! An [`Inspection`] receives one answer. It takes from `X-Torture` which URL, version and variant the answer claims
//! to be, compares them with the request and the ledger's floor, and compares each byte with the body of that
//! version. The bytes of a broken answer must still be right; an answer that ends by its framing must be complete.
//!
//! Not known here: whether a broken answer is forgiven.

use std::fmt;

use wire::Response;

use super::bodies::{Body, Catalogue, Url, Variant};
use super::ledger::{Floor, Ledger};
use crate::http::{Ended, Receiver};

/// The fault of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// Neither 200 nor the requested 206.
    Status(u16),
    /// Without `X-Torture`.
    Nameless,
    /// The answer is for another URL.
    OtherUrl { id: usize },
    /// The answer is the other variant.
    OtherVariant,
    /// The version is older than allowed.
    Stale { version: u64, floor: Floor },
    /// The version is older than the one that replaced it; not always wrong, see `ledger`.
    Back { version: u64, replaced_by: u64 },
    /// The version is newer than the origin's.
    Unborn { version: u64 },
    /// Not the requested range.
    OtherRange(String),
    /// A byte differs.
    Byte { version: u64, at: u64 },
    /// More bytes than the body has.
    Long { bytes: u64 },
    /// The answer ended by its framing before the end of the body.
    Short { found: u64, expected: u64 },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Nameless => f.write_str("an answer that the origin never gave"),
            Self::OtherUrl { id } => write!(f, "the answer of URL {id}"),
            Self::OtherVariant => f.write_str("the other variant"),
            Self::Stale { version, floor } => write!(
                f,
                "stale: version {version}, not below {} allowed ({})",
                floor.version, floor.why
            ),
            Self::Back {
                version,
                replaced_by,
            } => write!(
                f,
                "back to version {version}, which {replaced_by} had replaced"
            ),
            Self::Unborn { version } => write!(f, "version {version} does not exist yet"),
            Self::OtherRange(range) => write!(f, "another part: {range:?}"),
            Self::Byte { version, at } => {
                write!(f, "byte {at} is not that of version {version}")
            }
            Self::Long { bytes } => write!(f, "longer than {bytes} bytes"),
            Self::Short { found, expected } => {
                write!(f, "a clean end after {found} of {expected} bytes")
            }
        }
    }
}

/// The request, with the bounds for its answer.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub url: Url,
    pub variant: Variant,
    /// [from, to)
    pub range: Option<(u64, u64)>,
    pub floor: Floor,
    /// Hang up after this many bytes.
    pub hang_up_after: u64,
    /// Whether an answer below the soft floor is wrong.
    pub strict: bool,
}

/// The inspection of one answer.
pub struct Inspection<'a> {
    catalogue: &'a Catalogue,
    ledger: &'a Ledger,
    asked: Asked,
    body: Option<Body>,
    at: u64,
    end: u64,
    compared: u64,
    wrong: Option<Wrong>,
    version: u64,
    is_part: bool,
    hit: bool,
    stored: bool,
}

/// Facts about a correct answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub version: u64,
    /// From the store, by Cache-Status.
    pub hit: bool,
    /// Being stored, by Cache-Status.
    pub stored: bool,
    /// The answer has the entire body.
    pub is_all: bool,
    /// The version is below the soft floor.
    pub went_back: bool,
    pub compared_bytes: u64,
}

impl<'a> Inspection<'a> {
    /// The inspection of the answer to this request.
    pub fn new(catalogue: &'a Catalogue, ledger: &'a Ledger, asked: Asked) -> Self {
        Self {
            catalogue,
            ledger,
            asked,
            body: None,
            at: 0,
            end: 0,
            compared: 0,
            wrong: None,
            version: 0,
            is_part: false,
            hit: false,
            stored: false,
        }
    }

    /// The verdict, after the end of the answer.
    pub fn verdict(self, ended: &Ended) -> Result<Seen, Wrong> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if *ended == Ended::Whole && self.at != self.end {
            return Err(Wrong::Short {
                found: self.at,
                expected: self.end,
            });
        }
        Ok(Seen {
            version: self.version,
            hit: self.hit,
            stored: self.stored,
            went_back: self.version < self.asked.floor.replaced,
            is_all: *ended == Ended::Whole && !self.is_part,
            compared_bytes: self.compared,
        })
    }

    fn look_at_head(&mut self, head: &Response) -> Result<(), Wrong> {
        let asked = self.asked;
        self.is_part = head.status == 206;
        if head.status != 200 && !(self.is_part && asked.range.is_some()) {
            return Err(Wrong::Status(head.status));
        }
        let claim = head.fields.first("x-torture").ok_or(Wrong::Nameless)?;
        let mut words = claim.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (id, version, variant) = (
            word().parse::<usize>().map_err(|_| Wrong::Nameless)?,
            word().parse::<u64>().map_err(|_| Wrong::Nameless)?,
            Variant::of_name(word()).ok_or(Wrong::Nameless)?,
        );
        if id != asked.url.id {
            return Err(Wrong::OtherUrl { id });
        }
        if variant != asked.variant {
            return Err(Wrong::OtherVariant);
        }
        if version < asked.floor.version {
            return Err(Wrong::Stale {
                version,
                floor: asked.floor,
            });
        }
        if asked.strict && version < asked.floor.replaced {
            return Err(Wrong::Back {
                version,
                replaced_by: asked.floor.replaced,
            });
        }
        if version > self.ledger.version(id) {
            return Err(Wrong::Unborn { version });
        }
        self.version = version;
        let body = self.catalogue.body(&asked.url, version, variant);
        self.end = body.len();
        if let (true, Some((from, to))) = (self.is_part, asked.range) {
            let range = head.fields.first("content-range").unwrap_or_default();
            if range != format!("bytes {from}-{}/{}", to - 1, body.len()) {
                return Err(Wrong::OtherRange(range.to_owned()));
            }
            (self.at, self.end) = (from, to);
        }
        self.body = Some(body);
        let status = head.fields.first("cache-status").unwrap_or_default();
        let mut parameters = status.split(';').map(str::trim);
        self.hit = parameters.clone().any(|p| p == "hit");
        self.stored = parameters.any(|p| p == "stored");
        Ok(())
    }

    fn look_at_body(&mut self, piece: &[u8]) -> Result<(), Wrong> {
        let Some(body) = &self.body else {
            return Ok(());
        };
        if self.at + piece.len() as u64 > self.end {
            return Err(Wrong::Long { bytes: self.end });
        }
        if let Some(at) = body.differs(self.at, piece) {
            let version = self.version;
            return Err(Wrong::Byte { version, at });
        }
        self.at += piece.len() as u64;
        self.compared += piece.len() as u64;
        Ok(())
    }
}

impl Receiver for Inspection<'_> {
    fn head(&mut self, head: &Response) -> bool {
        self.wrong = self.look_at_head(head).err();
        self.wrong.is_none()
    }

    fn body(&mut self, piece: &[u8]) -> bool {
        self.wrong = self.look_at_body(piece).err();
        self.wrong.is_none() && self.compared < self.asked.hang_up_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::bodies::Kind;
    use crate::torture::ledger::Deed;
    use std::time::Instant;

    /// URL 1 in a catalogue of its own, at version 3; 2 was acknowledged.
    struct Case {
        catalogue: Catalogue,
        ledger: Ledger,
        url: Url,
        range: Option<(u64, u64)>,
        strict: bool,
    }

    impl Case {
        fn new() -> Self {
            let catalogue = Catalogue::new(4, 16 << 20);
            let ledger = Ledger::new(catalogue.len());
            let now = Instant::now();
            let deed = Deed {
                method: "PURGE",
                asked: now,
                answered: now,
            };
            ledger.purged(1, ledger.raise(1), deed);
            ledger.raise(1);
            let url = Url {
                id: 1,
                kind: Kind::Plain,
                bytes: 3000,
            };
            Self {
                catalogue,
                ledger,
                url,
                range: None,
                strict: false,
            }
        }

        fn bytes(&self, version: u64) -> Vec<u8> {
            let mut out = vec![0; 3000];
            self.catalogue
                .body(&self.url, version, Variant::Identity)
                .fill(0, &mut out);
            out
        }

        fn try_answer(
            &self,
            status: u16,
            fields: &[(&str, &str)],
            body: &[u8],
            ended: Ended,
        ) -> Result<Seen, Wrong> {
            let asked = Asked {
                url: self.url,
                variant: Variant::Identity,
                range: self.range,
                floor: self.ledger.floor(&self.url, false, Instant::now()),
                hang_up_after: u64::MAX,
                strict: self.strict,
            };
            let mut inspection = Inspection::new(&self.catalogue, &self.ledger, asked);
            let line = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
            let head = Response {
                status,
                minor: 1,
                fields: wire::Fields(fields.iter().map(line).collect()),
            };
            if inspection.head(&head) {
                for piece in body.chunks(700) {
                    if !inspection.body(piece) {
                        break;
                    }
                }
            }
            inspection.verdict(&ended)
        }

        fn of(&self, claim: &str, body: &[u8], ended: Ended) -> Result<Seen, Wrong> {
            self.try_answer(200, &[("X-Torture", claim)], body, ended)
        }
    }

    fn broken() -> Ended {
        Ended::Broken {
            after_head: true,
            reason: String::new(),
        }
    }

    #[test]
    fn what_the_origin_has_is_right() {
        let case = Case::new();
        for version in [2, 3] {
            let claim = format!("1 {version} identity");
            let fields = [
                ("x-torture", claim.as_str()),
                ("cache-status", "loligo; hit; ttl=3"),
            ];
            let seen = case.try_answer(200, &fields, &case.bytes(version), Ended::Whole);
            assert_eq!(
                seen,
                Ok(Seen {
                    version,
                    hit: true,
                    stored: false,
                    is_all: true,
                    went_back: false,
                    compared_bytes: 3000
                })
            );
        }
    }

    #[test]
    fn an_old_version_after_the_acknowledgement_is_found() {
        let case = Case::new();
        let wrong = case.of("1 1 identity", &case.bytes(1), Ended::Whole);
        assert!(
            matches!(wrong, Err(Wrong::Stale { version: 1, .. })),
            "{wrong:?}"
        );
        // The old bytes under the name of a new version.
        let wrong = case.of("1 2 identity", &case.bytes(1), Ended::Whole);
        assert!(
            matches!(wrong, Err(Wrong::Byte { at: 0..30, .. })),
            "{wrong:?}"
        );
        let wrong = case.of("1 4 identity", &case.bytes(4), Ended::Whole);
        assert_eq!(wrong, Err(Wrong::Unborn { version: 4 }));
    }

    #[test]
    fn going_back_behind_a_replacement_is_noticed() {
        let mut case = Case::new();
        case.ledger.replaced(1, 3, Instant::now());
        let bytes = case.bytes(2);
        let seen = case.of("1 2 identity", &bytes, Ended::Whole).unwrap();
        assert!(seen.went_back);
        case.strict = true;
        let wrong = case.of("1 2 identity", &bytes, Ended::Whole);
        assert!(matches!(wrong, Err(Wrong::Back { .. })), "{wrong:?}");
    }

    #[test]
    fn one_wrong_bit_is_found_wherever_it_is() {
        let case = Case::new();
        for at in [0, 1, 699, 700, 2999] {
            for ended in [Ended::Whole, broken()] {
                let mut body = case.bytes(3);
                body[at] ^= 0x10;
                let (version, at) = (3, at as u64);
                assert_eq!(
                    case.of("1 3 identity", &body, ended),
                    Err(Wrong::Byte { version, at })
                );
            }
        }
    }

    #[test]
    fn a_short_body_must_not_end_cleanly() {
        let case = Case::new();
        for length in [0, 1, 2999] {
            let body = &case.bytes(3)[..length];
            assert_eq!(
                case.of("1 3 identity", body, Ended::Whole),
                Err(Wrong::Short {
                    found: length as u64,
                    expected: 3000
                })
            );
            let seen = case.of("1 3 identity", body, broken()).unwrap();
            assert!(!seen.is_all);
        }
        let mut long = case.bytes(3);
        long.push(0);
        let wrong = case.of("1 3 identity", &long, Ended::Whole);
        assert_eq!(wrong, Err(Wrong::Long { bytes: 3000 }));
    }

    #[test]
    fn another_urls_answer_is_found() {
        let case = Case::new();
        let other = case.of("2 3 identity", &case.bytes(3), Ended::Whole);
        assert_eq!(other, Err(Wrong::OtherUrl { id: 2 }));
        let variant = case.of("1 3 gzip", &case.bytes(3), Ended::Whole);
        assert_eq!(variant, Err(Wrong::OtherVariant));
        // The bytes of another URL under the name of this one.
        let mut body = vec![0; 3000];
        let url = Url { id: 2, ..case.url };
        case.catalogue
            .body(&url, 3, Variant::Identity)
            .fill(0, &mut body);
        let wrong = case.of("1 3 identity", &body, Ended::Whole);
        assert!(matches!(wrong, Err(Wrong::Byte { .. })), "{wrong:?}");
        let nameless = case.try_answer(200, &[], b"", Ended::Whole);
        assert_eq!(nameless, Err(Wrong::Nameless));
        let status = case.try_answer(502, &[], b"", Ended::Whole);
        assert_eq!(status, Err(Wrong::Status(502)));
    }

    #[test]
    fn a_part_is_the_part_that_was_asked_for() {
        let mut case = Case::new();
        let bytes = case.bytes(3);
        let fields =
            |range: &'static str| [("x-torture", "1 3 identity"), ("content-range", range)];
        let right = fields("bytes 100-199/3000");
        let unasked = case.try_answer(206, &right, &bytes[100..200], Ended::Whole);
        assert_eq!(unasked, Err(Wrong::Status(206)));
        case.range = Some((100, 200));
        let seen = case.try_answer(206, &right, &bytes[100..200], Ended::Whole);
        assert!(!seen.unwrap().is_all);
        let shifted = case.try_answer(206, &right, &bytes[101..201], Ended::Whole);
        assert_eq!(
            shifted,
            Err(Wrong::Byte {
                version: 3,
                at: 100
            })
        );
        let other = fields("bytes 100-198/3000");
        let wrong = case.try_answer(206, &other, &bytes[100..199], Ended::Whole);
        assert!(matches!(wrong, Err(Wrong::OtherRange(_))));
        let short = case.try_answer(206, &right, &bytes[100..150], Ended::Whole);
        assert!(matches!(short, Err(Wrong::Short { .. })));
        // The whole body is a correct answer to a request for a range.
        assert!(case.of("1 3 identity", &bytes, Ended::Whole).is_ok());
    }
}
