//! Content codings as variants: which codings a request accepts, and which one a response has.
//!
//! Browsers write Accept-Encoding in dozens of ways that mean the same few things. Only the set of accepted codings
//! counts here. Order and weights do not: the client can read each coding in the set.
//!
//! Not known here: which variants are stored.

use fields::Fields;

/// The known codings, in the order of the bits of a [`Codings`].
//= rfc9110 §8.4.1   compress, deflate, gzip; br is RFC 7932, zstd is RFC 8878
const NAMES: [&[u8]; 5] = [b"br", b"compress", b"deflate", b"gzip", b"zstd"];

/// A set of known codings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Codings(pub u8);

/// All known codings.
const ALL: Codings = Codings((1 << NAMES.len()) - 1);

/// No coding, which the origin may choose as well.
const IDENTITY: Codings = Codings(1 << NAMES.len());

impl Codings {
    pub(crate) fn union(self, other: Codings) -> Codings {
        Codings(self.0 | other.0)
    }

    pub(crate) fn contains(self, other: Codings) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the codings, sorted.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static [u8]> {
        let is_in = move |(bit, _): &(usize, &&[u8])| self.0 & (1 << bit) != 0;
        NAMES
            .iter()
            .enumerate()
            .filter(is_in)
            .map(|(_, name)| *name)
    }

    fn named(name: &[u8]) -> Option<Codings> {
        //= rfc9110 §8.4.1.1   a recipient SHOULD consider "x-compress" to be equivalent to "compress"
        //= rfc9110 §8.4.1.3   a recipient SHOULD consider "x-gzip" to be equivalent to "gzip"
        let plain = match name {
            [b'x' | b'X', b'-', plain @ ..] if is(plain, b"gzip") || is(plain, b"compress") => {
                plain
            }
            _ => name,
        };
        let at = NAMES.iter().position(|known| is(plain, known))?;
        Some(Codings(1 << at))
    }
}

/// The preferences of an origin among codings, learned from its responses: for each coding, and for no coding, the set it was preferred to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Preferences([u8; Preferences::BYTES]);

impl Preferences {
    pub(crate) const BYTES: usize = NAMES.len() + 1;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// `None` if the bytes are no possible preferences.
    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let is_sound = |(at, over): (usize, &u8)| {
            *over & !(ALL.0 | IDENTITY.0 | 1 << at) == 0 && *over & 1 << at == 0
        };
        bytes
            .iter()
            .enumerate()
            .all(is_sound)
            .then_some(Self(bytes))
    }

    /// Learns from a response: a client accepted `accepted`, and the origin sent `chosen`, one of these codings or no
    /// coding.
    pub(crate) fn learn(&mut self, accepted: Codings, no_identity: bool, chosen: Coding) {
        let chosen = match chosen {
            Coding::Identity => IDENTITY,
            Coding::Known(coding) => coding,
            Coding::Other => return,
        };
        let all = if no_identity {
            accepted
        } else {
            accepted.union(IDENTITY)
        };
        for (at, over) in self.0.iter_mut().enumerate() {
            if chosen.0 == 1 << at {
                *over |= all.0 & !chosen.0;
            }
        }
    }

    fn over(self, coding: usize) -> Codings {
        Codings(self.0.get(coding).copied().unwrap_or_default())
    }

    /// The accepted codings that the origin might choose: those to which it has not always preferred another accepted one.
    pub(crate) fn best(self, accepted: Codings, no_identity: bool) -> Codings {
        let all = if no_identity {
            accepted
        } else {
            accepted.union(IDENTITY)
        };
        let is_in = |set: Codings, at: usize| set.0 & 1 << at != 0;
        let beats = |a: usize, b: usize| is_in(self.over(a), b) && !is_in(self.over(b), a);
        let others =
            |at: usize| (0..Self::BYTES).filter(move |&other| is_in(all, other) && other != at);
        let mut best = Codings(0);
        for at in (0..NAMES.len()).filter(|&at| is_in(accepted, at)) {
            if !others(at).any(|other| beats(other, at)) {
                best.0 |= 1 << at;
            }
        }
        best
    }
}

/// The codings that a request accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accepted {
    /// There is no Accept-Encoding.
    Absent,
    /// It cannot be read with certainty.
    Unclear,
    /// These known codings, and perhaps unknown ones.
    These {
        codings: Codings,
        /// A response without coding is refused.
        no_identity: bool,
    },
}

/// The codings that a request accepts.
//= rfc9110 §12.5.3   codings with their weights; 0 means not acceptable; "*" matches any that is not listed; identity is acceptable unless excluded
pub(crate) fn accepted(request: &Fields) -> Accepted {
    if !request.contains(b"accept-encoding") {
        return Accepted::Absent;
    }
    let (mut yes, mut no, mut any, mut identity) = (Codings(0), Codings(0), None, None);
    for member in request.members(b"accept-encoding") {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let is_wanted = match (parts.next(), parts.next()) {
            (None, _) => true,
            (Some(weight), None) => match is_above_zero(weight) {
                Some(is_wanted) => is_wanted,
                None => return Accepted::Unclear,
            },
            _ => return Accepted::Unclear,
        };
        let said_before = if name == b"*" {
            any.replace(is_wanted)
        } else if is(name, b"identity") {
            identity.replace(is_wanted)
        } else if let Some(coding) = Codings::named(name) {
            let before = if yes.contains(coding) {
                Some(true)
            } else {
                None
            };
            let before = if no.contains(coding) {
                Some(false)
            } else {
                before
            };
            let side = if is_wanted { &mut yes } else { &mut no };
            *side = side.union(coding);
            before
        } else {
            None
        };
        if said_before.is_some_and(|before| before != is_wanted) {
            return Accepted::Unclear;
        }
    }
    if any == Some(true) {
        yes = Codings(ALL.0 & !no.0);
    }
    Accepted::These {
        codings: yes,
        no_identity: !identity.or(any).unwrap_or(true),
    }
}

/// The coding of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coding {
    /// No coding.
    Identity,
    /// One known coding.
    Known(Codings),
    /// An unknown coding, or several.
    Other,
}

pub(crate) fn coding_of(response: &Fields) -> Coding {
    let mut members = response.members(b"content-encoding");
    match (members.next(), members.next()) {
        (None, _) => Coding::Identity,
        (Some(name), None) if is(name, b"identity") => Coding::Identity,
        (Some(name), None) => Codings::named(name).map_or(Coding::Other, Coding::Known),
        _ => Coding::Other,
    }
}

/// Is the weight above zero (`q=0.5`, not `q=0.0`)? `None` if it is no weight.
//= rfc9110 §12.4.2   qvalue: 0 with up to three digits behind the point, or 1 with up to three zeros
fn is_above_zero(weight: &[u8]) -> Option<bool> {
    let value = match weight {
        [b'q' | b'Q', b'=', value @ ..] => value,
        _ => return None,
    };
    let (whole, digits) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    match whole {
        b'0' if digits.iter().all(u8::is_ascii_digit) => Some(digits.iter().any(|&d| d != b'0')),
        b'1' if digits.iter().all(|&d| d == b'0') => Some(true),
        _ => None,
    }
}

fn is(name: &[u8], other: &[u8]) -> bool {
    name.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    fn text(value: &str) -> String {
        match accepted(&fields(&format!("Accept-Encoding: {value}"))) {
            Accepted::Absent => "absent".into(),
            Accepted::Unclear => "unclear".into(),
            Accepted::These {
                codings,
                no_identity,
            } => {
                let mut names: Vec<&[u8]> = codings.names().collect();
                if no_identity {
                    names.push(b"!identity");
                }
                String::from_utf8(names.join(&b' ')).unwrap()
            }
        }
    }

    #[test]
    fn what_is_accepted() {
        assert_eq!(text("gzip, deflate, br, zstd"), "br deflate gzip zstd");
        assert_eq!(text("ZSTD, Br;Q=1.000 ,x-gzip ; q=0.001"), "br gzip zstd");
        assert_eq!(text("gzip;q=0, br"), "br");
        assert_eq!(text("*"), "br compress deflate gzip zstd");
        assert_eq!(text("*;q=0.5, br;q=0"), "compress deflate gzip zstd");
        assert_eq!(text("gzip, *;q=0"), "gzip !identity");
        assert_eq!(text("gzip, *;q=0, identity"), "gzip");
        assert_eq!(text("identity;q=0"), "!identity");
        assert_eq!(text(""), "");
        assert_eq!(text("identity, foo, dcb"), "");
        for unclear in [
            "gzip;q=2",
            "gzip;q=0.0001",
            "gzip;q=",
            "gzip;q",
            "gzip;x=1",
            "gzip;q=1;q=1",
            "gzip;q=1.5",
            "gzip, x-gzip;q=0",
            "*, *;q=0",
            "gzip;q=-1",
        ] {
            assert_eq!(text(unclear), "unclear", "{unclear}");
        }
        assert_eq!(accepted(&fields("Host: a")), Accepted::Absent);
    }

    #[test]
    fn what_it_is_coded_with() {
        let coding = |text: &str| coding_of(&fields(text));
        assert_eq!(coding("Host: a"), Coding::Identity);
        assert_eq!(coding("Content-Encoding: identity"), Coding::Identity);
        assert_eq!(
            coding("Content-Encoding: X-GZIP"),
            coding("Content-Encoding: gzip")
        );
        assert_ne!(
            coding("Content-Encoding: br"),
            coding("Content-Encoding: gzip")
        );
        assert_eq!(coding("Content-Encoding: gzip, br"), Coding::Other);
        assert_eq!(coding("Content-Encoding: dcb"), Coding::Other);
    }
}
