//! What the servers offer: four kinds of objects, and the properties of an object, from its name.
//!
//! Everything here is a function of a hash of the object's id, so robots and servers agree without exchanging data.
//!
//! Not known here: time (see `life`), bytes (see `body`), which objects are asked for.
//! Limits: 2^16 servers, 2^48 objects of a kind on each; a page has at most 13 images.
//! Source: spec section 4, the table.

use crate::life::Life;
use crate::random::{exponential, lognormal, mix, uniform, unit, zipf};

pub(crate) const KB: f64 = 1024.0;
const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.0 * DAY;

/// Images of a page, at most: zipf(13).
pub const IMAGES_MAX: u32 = 13;
/// A page's number times this, plus a position, is an image's number.
pub const IMAGES_STRIDE: u64 = 256;
/// Object numbers are below this.
pub const NUMBER_END: u64 = 1 << 48;

/// The kinds of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Requested only as part of a page.
    Image,
    /// A page with images.
    Html,
    /// Rare and large.
    Download,
    /// Everything else.
    Other,
}

impl Kind {
    /// All kinds; the position is the number in URLs.
    pub const ALL: [Self; 4] = [Self::Image, Self::Html, Self::Download, Self::Other];
    /// Kinds that robots request by themselves, with their shares of replies. Their shares of requests have the same proportion;
    /// images follow from the pages.
    pub const DIRECT: [(Self, f64); 3] = [
        (Self::Html, 15.0),
        (Self::Download, 0.5),
        (Self::Other, 19.5),
    ];

    /// Its place in `ALL`.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    fn cachable_share(self) -> f64 {
        match self {
            Self::Image => 0.80,
            Self::Html => 0.90,
            Self::Download => 0.95,
            Self::Other => 0.72,
        }
    }

    /// Share of objects with a checksum.
    fn checksum_share(self) -> f64 {
        //= spec section 4   Content-MD5
        match self {
            Self::Image | Self::Html => 0.01,
            Self::Download => 0.000_1,
            Self::Other => 0.001,
        }
    }

    fn size(self, u: f64) -> f64 {
        match self {
            Self::Image => exponential(4.5 * KB, u),
            Self::Html => exponential(8.5 * KB, u),
            Self::Download => lognormal(300.0 * KB, 300.0 * KB, u),
            Self::Other => lognormal(25.0 * KB, 10.0 * KB, u),
        }
    }

    /// Seconds between two modifications of an object.
    fn cycle(self, u: f64) -> f64 {
        match self {
            Self::Image => lognormal(30.0 * DAY, 7.0 * DAY, u),
            Self::Html => lognormal(7.0 * DAY, DAY, u),
            Self::Download => lognormal(YEAR / 2.0, 30.0 * DAY, u),
            Self::Other => uniform(DAY, YEAR, u),
        }
    }

    /// How far a modification may deviate from its regular time, as a share of the cycle.
    fn variance(self) -> f64 {
        match self {
            Self::Image | Self::Other => 0.50,
            Self::Html | Self::Download => 0.33,
        }
    }
}

/// Names an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// Separates groups of robots: those with the same world know the same objects.
    pub world: u32,
    /// The server that has the object.
    pub server: u16,
    /// The kind of the object.
    pub kind: Kind,
    /// Counts objects of this kind on this server.
    pub number: u64,
}

/// Properties that are drawn independently of each other, each with its own hash.
#[derive(Clone, Copy)]
enum Aspect {
    Size = 1,
    Cachable,
    Cycle,
    Birth,
    Modifications,
    Images,
    Extension,
    Bytes,
    Checksum,
}

impl ObjectId {
    fn hash(self, aspect: Aspect) -> u64 {
        assert!(
            self.number < NUMBER_END,
            "number {} is too large",
            self.number
        );
        let place =
            u64::from(self.world) << 32 | u64::from(self.server) << 8 | self.kind.index() as u64;
        mix(mix(mix(place) ^ self.number).wrapping_add(aspect as u64))
    }

    fn unit(self, aspect: Aspect) -> f64 {
        unit(self.hash(aspect))
    }

    /// Whether a cache may keep the object.
    #[must_use]
    pub fn cachable(self) -> bool {
        self.unit(Aspect::Cachable) < self.kind.cachable_share()
    }

    /// Whether its replies carry Content-MD5.
    #[must_use]
    pub fn has_checksum(self) -> bool {
        self.unit(Aspect::Checksum) < self.kind.checksum_share()
    }

    /// Bytes of the body. A page is at least as long as the list of its images.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // bytes of an object
    pub fn size(self) -> u64 {
        let drawn = self.kind.size(self.unit(Aspect::Size)).max(1.0) as u64;
        drawn.max(crate::body::markup_bytes(self.images()))
    }

    /// Number of images on the page.
    #[must_use]
    pub fn images(self) -> u32 {
        match self.kind {
            Kind::Html => zipf(IMAGES_MAX, self.unit(Aspect::Images)),
            _ => 0,
        }
    }

    /// The image at a position of this page. An image belongs to one page only.
    #[must_use]
    pub fn image(self, position: u32) -> Self {
        assert!(self.kind == Kind::Html, "only pages have images");
        Self {
            kind: Kind::Image,
            number: (self.number * IMAGES_STRIDE + u64::from(position)) % NUMBER_END,
            ..self
        }
    }

    /// When the object changes. `scale` shortens its life cycle along with the test.
    #[must_use]
    pub fn life(self, scale: f64) -> Life {
        Life::new(
            self.kind.cycle(self.unit(Aspect::Cycle)) * scale,
            self.kind.variance(),
            self.unit(Aspect::Birth),
            self.hash(Aspect::Modifications),
        )
    }

    /// The end of the object's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        let choices: &[(f64, &str)] = match self.kind {
            Kind::Image => &[(1.0 / 3.0, ".gif"), (2.0 / 3.0, ".jpeg"), (1.0, ".png")],
            Kind::Html => &[(0.6, ".html"), (1.0, ".htm")],
            Kind::Download => &[(0.4, ".exe"), (0.7, ".zip"), (1.0, ".gz")],
            Kind::Other => &[],
        };
        let u = self.unit(Aspect::Extension);
        choices.iter().find(|(end, _)| u < *end).map_or("", |c| c.1)
    }

    /// The seed from which the bytes of a version are computed.
    #[must_use]
    pub fn seed(self, version: u64) -> u64 {
        mix(self.hash(Aspect::Bytes) ^ mix(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(kind: Kind) -> impl Iterator<Item = ObjectId> {
        (0..200_000).map(move |n| ObjectId {
            world: 7,
            server: (n % 100) as u16,
            kind,
            number: n / 100,
        })
    }

    #[allow(clippy::cast_precision_loss)]
    fn mean(kind: Kind, of: impl Fn(ObjectId) -> f64) -> f64 {
        objects(kind).map(of).sum::<f64>() / objects(kind).count() as f64
    }

    #[track_caller]
    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found / expected - 1.0).abs() < tolerance,
            "{found} is not {expected} within {tolerance}"
        );
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn sizes_are_those_of_the_table() {
        for (kind, mean_kb) in [
            (Kind::Image, 4.5),
            (Kind::Html, 8.5),
            (Kind::Download, 300.0),
            (Kind::Other, 25.0),
        ] {
            near(mean(kind, |id| id.size() as f64) / KB, mean_kb, 0.015);
        }
    }

    #[test]
    fn exponential_sizes_have_the_right_quartiles() {
        let mut sizes: Vec<_> = objects(Kind::Image).map(ObjectId::size).collect();
        sizes.sort_unstable();
        for quarter in 1..4_u32 {
            let share = f64::from(quarter) / 4.0;
            #[allow(clippy::cast_precision_loss)]
            let found = sizes[sizes.len() * quarter as usize / 4] as f64;
            near(found, exponential(4.5 * KB, share), 0.02);
        }
    }

    #[test]
    fn cachability_is_that_of_the_table() {
        for kind in Kind::ALL {
            let share = mean(kind, |id| f64::from(u8::from(id.cachable())));
            near(share, kind.cachable_share(), 0.01);
        }
    }

    #[test]
    fn few_have_a_checksum() {
        let share = |kind| mean(kind, |id| f64::from(u8::from(id.has_checksum())));
        near(share(Kind::Image), 0.01, 0.1);
        near(share(Kind::Other), 0.001, 0.3);
        assert!(share(Kind::Download) < 0.000_3);
    }

    #[test]
    fn size_and_cachability_are_independent() {
        let (mut yes, mut no) = ((0, 0), (0, 0));
        for id in objects(Kind::Image) {
            let side = if id.cachable() { &mut yes } else { &mut no };
            side.0 += id.size();
            side.1 += 1;
        }
        #[allow(clippy::cast_precision_loss)]
        near(
            yes.0 as f64 / f64::from(yes.1),
            no.0 as f64 / f64::from(no.1),
            0.03,
        );
    }

    #[test]
    fn pages_have_four_and_a_half_images_of_their_own() {
        near(mean(Kind::Html, |id| f64::from(id.images())), 4.45, 0.01);
        let page = objects(Kind::Html).nth(500).unwrap();
        assert_eq!(page.image(0), page.image(0));
        assert_ne!(page.image(0), page.image(1));
    }

    #[test]
    fn extensions_have_their_shares() {
        let exe = mean(Kind::Download, |id| {
            f64::from(u8::from(id.extension() == ".exe"))
        });
        near(exe, 0.4, 0.02);
        assert_eq!(objects(Kind::Other).next().unwrap().extension(), "");
    }
}
