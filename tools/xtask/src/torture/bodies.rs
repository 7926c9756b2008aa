//! The origin's contents: some thousands of URLs, and for each version of each the bytes of its body.
//!
//! A URL is a number; its kind and the length of its body follow from the seed and the number, its bytes from these and
//! the version. So the reader of an answer that claims to be version 7 of URL 12 can compare every byte of it, from any
//! offset, without having seen it before. A body begins with a line that identifies it, as far as there is room.
//!
//! Hostile bodies are made of pieces of the store itself ([`Leftovers`]): whole records of other objects, at every
//! alignment. A store that scans its disk for records must not mistake them for its own.
//!
//! Further URLs are for clients of HTTP/2 (`streams`): they have one version only, and numbers from [`Catalogue::len`] on.
//!
//! Limits: [`URLS`]; bodies of [`LARGE`].

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::chance::{Chance, mix};

/// Bounds of the number of URLs.
const URLS: Range<u64> = 200..20_000;
/// Approximate mean size of a URL's body.
const MEAN_BYTES: u64 = 40 << 10;
const SMALL: Range<u64> = 1 << 10..60 << 10;
/// Bodies that mostly have more than one fragment.
pub const LARGE: Range<u64> = 300 << 10..3 << 20;
/// Bodies read over HTTP/2, each in one record; together larger than the memory.
const LASTING_BYTES: Range<u64> = 600_000..800_000;
/// These bodies take 1/`LASTING_SHARE` of the store.
const LASTING_SHARE: u64 = 5;
/// Records begin at multiples of this, in a store with the smallest chunks.
const CHUNK: usize = 512;
/// One piece of the store within a hostile body: a small record, or the beginning of a larger one.
const PIECE: usize = 2 * CHUNK;
/// One byte more than a piece, so that each piece begins at another offset within a chunk.
const STRIDE: u64 = PIECE as u64 + 1;

/// How the origin answers a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Fresh for a day.
    Plain,
    /// As `Plain`, with two variants by Accept-Encoding.
    Varied,
    /// Fresh for a second, then validated by its ETag.
    Brief,
    /// Not to be stored.
    Unstored,
    /// Fresh for a day; its body is full of records.
    Hostile,
    /// Fresh for a day, without a validator, and never another version.
    Lasting,
}

/// A variant; URLs without variants have the first one only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Identity,
    Gzip,
}

impl Variant {
    /// The name in `Accept-Encoding` and in `X-Torture`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
        }
    }

    /// The variant of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Identity, Self::Gzip]
            .into_iter()
            .find(|v| v.name() == name)
    }
}

/// One URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Url {
    pub id: usize,
    pub kind: Kind,
    pub bytes: u64,
}

impl Url {
    /// The URL's path. Some are long, so that keys of all lengths occur.
    pub fn path(&self) -> String {
        let tail = match self.id % 7 {
            0 => "x".repeat(self.id % 300),
            _ => String::new(),
        };
        format!("/o/{}/{tail}", self.id)
    }

    /// Whether the origin sends an ETag.
    pub fn is_tagged(&self) -> bool {
        match self.kind {
            Kind::Brief => true,
            Kind::Lasting => false,
            Kind::Plain | Kind::Varied | Kind::Unstored | Kind::Hostile => {
                !self.id.is_multiple_of(3)
            }
        }
    }

    /// Whether the origin sends the body in chunks, without its length.
    pub fn is_chunked(&self) -> bool {
        self.id.is_multiple_of(5)
    }

    /// Whether a stored answer may be served from the store for the rest of the run.
    pub fn lasts(&self) -> bool {
        !matches!(self.kind, Kind::Brief | Kind::Unstored)
    }
}

/// All URLs of a run.
#[derive(Debug)]
pub struct Catalogue {
    seed: u64,
    count: usize,
    lasting: usize,
    leftovers: OnceLock<Arc<Leftovers>>,
}

impl Catalogue {
    /// As many URLs as fill somewhat less than half of a store.
    pub fn new(seed: u64, store_bytes: u64) -> Self {
        let count = (store_bytes / 5 * 2 / MEAN_BYTES).clamp(URLS.start, URLS.end);
        Self {
            seed,
            count: count as usize,
            lasting: (store_bytes / LASTING_SHARE / LASTING_BYTES.end).max(1) as usize,
            leftovers: OnceLock::new(),
        }
    }

    /// The number of URLs, numbered from 0, without those for HTTP/2.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The number of all URLs.
    pub fn len_of_all(&self) -> usize {
        self.count + self.lasting
    }

    /// The n-th URL for HTTP/2, in turn.
    pub fn lasting(&self, n: u64) -> Url {
        self.url(self.count + (n % self.lasting as u64) as usize)
    }

    /// The URL of this number.
    pub fn url(&self, id: usize) -> Url {
        let mut chance = Chance::new(self.seed ^ mix(id as u64));
        if id >= self.count {
            return Url {
                id,
                kind: Kind::Lasting,
                bytes: LASTING_BYTES.start + chance.below(LASTING_BYTES.end - LASTING_BYTES.start),
            };
        }
        let kind = match chance.below(100) {
            0..66 => Kind::Plain,
            66..76 => Kind::Varied,
            76..86 => Kind::Brief,
            86..92 => Kind::Unstored,
            _ => Kind::Hostile,
        };
        let bytes = match chance.below(1000) {
            0..15 => 0,
            15..30 => LARGE.start + chance.below(LARGE.end - LARGE.start),
            // Logarithmic: as many between 1 and 2 KiB as between 30 and 60.
            _ => {
                let octaves = (SMALL.end as f64 / SMALL.start as f64).log2();
                (SMALL.start as f64 * (chance.unit() * octaves).exp2()) as u64
            }
        };
        Url { id, kind, bytes }
    }

    /// The URL of a path.
    pub fn url_of_path(&self, path: &str) -> Option<Url> {
        let id = path.strip_prefix("/o/")?.split('/').next()?.parse().ok()?;
        (id < self.len_of_all()).then(|| self.url(id))
    }

    /// A random URL, a few of them far more often than the others; no hostile one before there are leftovers.
    pub fn pick(&self, chance: &mut Chance) -> Url {
        loop {
            let at = chance.unit().powi(3) * self.count as f64;
            let url = self.url((at as usize).min(self.count - 1));
            if self.is_ready(&url) {
                return url;
            }
        }
    }

    /// Whether the URL's bytes are known: hostile bodies need leftovers.
    pub fn is_ready(&self, url: &Url) -> bool {
        url.kind != Kind::Hostile || self.leftovers.get().is_some()
    }

    /// Sets the leftovers, if they are not set yet.
    pub fn leftovers(&self, bytes: impl FnOnce() -> Option<Vec<u8>>) {
        if self.leftovers.get().is_none()
            && let Some(leftovers) = bytes().and_then(Leftovers::new)
        {
            // Only one thread sets them; if two did, the first value would stay.
            let _ = self.leftovers.set(Arc::new(leftovers));
        }
    }

    /// The body of one version.
    pub fn body(&self, url: &Url, version: u64, variant: Variant) -> Body {
        let salt = match variant {
            Variant::Identity => 0,
            Variant::Gzip => 1,
        };
        let seed = mix(self.seed ^ mix(url.id as u64 ^ mix(version ^ mix(salt))));
        let mut line =
            format!("torture {} v{version} {}\n", url.path(), variant.name()).into_bytes();
        line.truncate(usize::try_from(url.bytes).unwrap_or(usize::MAX));
        Body {
            seed,
            bytes: url.bytes,
            line,
            leftovers: match url.kind {
                Kind::Hostile => self.leftovers.get().cloned(),
                _ => None,
            },
        }
    }
}

/// Part of a store's data area.
#[derive(Debug)]
pub struct Leftovers(Vec<u8>);

impl Leftovers {
    /// `None` if the bytes are empty.
    fn new(mut bytes: Vec<u8>) -> Option<Self> {
        bytes.truncate(bytes.len() / PIECE * PIECE);
        bytes.iter().any(|b| *b != 0).then_some(Self(bytes))
    }

    fn byte(&self, choice: u64, at: usize) -> u8 {
        // A piece may begin at any chunk but the last.
        let starts = (self.0.len() / CHUNK - 1) as u64;
        self.0[(choice % starts) as usize * CHUNK + at]
    }
}

/// The bytes of one version of one URL.
#[derive(Debug, Clone)]
pub struct Body {
    seed: u64,
    bytes: u64,
    line: Vec<u8>,
    leftovers: Option<Arc<Leftovers>>,
}

impl Body {
    /// The length of the body.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Fills `out` with the bytes from `offset` on.
    pub fn fill(&self, offset: u64, out: &mut [u8]) {
        let mut at = offset;
        let mut rest = &mut out[..];
        while !rest.is_empty() {
            // Up to the next multiple of 8; then the noise is made in whole words.
            let n = (8 - (at % 8) as usize).min(rest.len());
            let word = mix(self.seed.wrapping_add(at / 8)).to_le_bytes();
            let from = (at % 8) as usize;
            rest[..n].copy_from_slice(&word[from..from + n]);
            at += n as u64;
            rest = &mut rest[n..];
        }
        if let Some(leftovers) = &self.leftovers {
            for (n, byte) in out.iter_mut().enumerate() {
                let at = offset + n as u64 + self.seed % STRIDE;
                let within = (at % STRIDE) as usize;
                if within < PIECE {
                    *byte = leftovers.byte(mix(self.seed ^ (at / STRIDE)), within);
                }
            }
        }
        let line = self.line.iter().skip(offset as usize);
        for (byte, of_line) in out.iter_mut().zip(line) {
            *byte = *of_line;
        }
    }

    /// The offset of the first wrong byte of `found`, which was read from `offset` on.
    pub fn differs(&self, offset: u64, found: &[u8]) -> Option<u64> {
        const PART: usize = 16 << 10;
        let mut expected = [0; PART];
        for (n, part) in found.chunks(PART).enumerate() {
            let at = offset + (n * PART) as u64;
            let expected = &mut expected[..part.len()];
            self.fill(at, expected);
            if expected != part {
                let within = expected.iter().zip(part).position(|(a, b)| a != b);
                return within.map(|w| at + w as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_the_same_from_every_offset() {
        let catalogue = Catalogue::new(1, 256 << 20);
        catalogue.leftovers(|| Some((0..9000_u32).map(|n| n as u8 | 1).collect()));
        for kind in [Kind::Plain, Kind::Hostile] {
            let url = (0..catalogue.len())
                .map(|id| catalogue.url(id))
                .find(|u| u.kind == kind && u.bytes > 5000)
                .unwrap();
            let body = catalogue.body(&url, 3, Variant::Identity);
            let mut whole = vec![0; 5000];
            body.fill(0, &mut whole);
            assert!(whole.starts_with(b"torture /o/"), "{kind:?}");
            for offset in [0, 1, 7, 8, 20, 40, 333, 4999] {
                assert_eq!(body.differs(offset, &whole[offset as usize..]), None);
            }
            whole[4321] ^= 1;
            assert_eq!(body.differs(100, &whole[100..]), Some(4321));
        }
    }

    #[test]
    fn versions_variants_and_urls_differ() {
        let catalogue = Catalogue::new(1, 256 << 20);
        let bytes = |id, version, variant| {
            let url = Url {
                bytes: 2000,
                kind: Kind::Plain,
                id,
            };
            let mut out = vec![0; 1000];
            catalogue.body(&url, version, variant).fill(1000, &mut out);
            out
        };
        let first = bytes(5, 1, Variant::Identity);
        assert_ne!(first, bytes(5, 2, Variant::Identity));
        assert_ne!(first, bytes(5, 1, Variant::Gzip));
        assert_ne!(first, bytes(6, 1, Variant::Identity));
    }

    #[test]
    fn all_kinds_and_sizes_are_there_and_paths_lead_back() {
        let catalogue = Catalogue::new(9, 256 << 20);
        let urls: Vec<Url> = (0..catalogue.len()).map(|id| catalogue.url(id)).collect();
        for kind in [
            Kind::Plain,
            Kind::Varied,
            Kind::Brief,
            Kind::Unstored,
            Kind::Hostile,
        ] {
            assert!(urls.iter().any(|u| u.kind == kind), "{kind:?}");
        }
        assert!(urls.iter().any(|u| u.bytes == 0));
        assert!(urls.iter().any(|u| u.bytes > LARGE.start));
        let lasting: Vec<Url> = (0..catalogue.lasting as u64)
            .map(|n| catalogue.lasting(n))
            .collect();
        let total: u64 = lasting.iter().map(|u| u.bytes).sum();
        assert!(total > 40 << 20 && total < 52 << 20, "{total}");
        assert_eq!(
            catalogue.lasting(lasting.len() as u64),
            catalogue.lasting(0)
        );
        let total: u64 = urls.iter().map(|u| u.bytes).sum();
        assert!(total < 160 << 20, "{total}");
        for url in urls.into_iter().chain(lasting) {
            assert_eq!(catalogue.url_of_path(&url.path()), Some(url));
        }
        assert_eq!(catalogue.url_of_path("/o/99999999/"), None);
    }
}
