//! A stream like that of Digital's proxy, as far as paper 002 describes it.
//!
//! Clients visit pages. A page is on a server and is a document with images. A visiting client requests all of them, one after the
//! other, while other clients do likewise, so that the requests of one visit lie far apart in the stream. A visit is either
//! to a page that was visited before, or to a new page: mostly on the client's present server, else on another one.
//!
//! ```text
//!  visit --- again: the page of the k-th last visit, of any client, with probability in proportion to 1 / k
//!        \-- new page --- the client's server (stays)
//!                     \-- another: a server in proportion to its visits so far, or a new one
//!  an object requested again may have changed meanwhile: then it has another size
//! ```
//!
//! docs/lab-traces.md gives the source of each value; eight of them are fitted to the figures that
//! paper 002 prints (`examples/fit`), the others are taken from the literature or chosen.
//!
//! Memory: 12 bytes an object, 4 a visit and a page's object; some 10 MB for the million requests of the paper.
//! Not known here: caches.
//! Source: paper 002, sections 3.1 and 3.6; Cao, Irani 1997, section 3 (1 / k).

use std::collections::VecDeque;

use polymix::random::{Chance, exponential, lognormal};

use crate::Access;

/// The parameters of the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecLike {
    /// Seed of all random choices.
    pub seed: u64,
    /// How many requests.
    pub requests: u64,
    /// Clients active at any time: as many visits are interleaved.
    pub clients: u32,
    /// Requests a second of all clients together.
    pub rate: f64,
    /// Share of the visits that repeat an earlier visit, of any client.
    pub again: f64,
    /// Only the last `back_max` visits are repeated.
    pub back_max: u32,
    /// Share of the visits that are to one of the popular pages.
    pub popular: f64,
    /// How many popular pages there are.
    pub popular_pages: u32,
    /// The n-th popular page is visited in proportion to 1 / n^slope; below 1.
    pub popular_slope: f64,
    /// Share of the new pages that are on the client's present server.
    pub stays: f64,
    /// Of the new pages on other servers, the share on a server that nobody visited before.
    pub new_server: f64,
    /// A page has from none to this many images, all numbers being equally likely. For a fraction, each page takes one of the two
    /// nearest whole numbers, so that the mean is right.
    pub images_max: f64,
    /// Of a new page's images, the share that another page of the server has too.
    pub image_shared: f64,
    /// Of the repeated requests, the share whose object has changed meanwhile.
    pub changed: f64,
    /// Median of the sizes of small objects, in bytes.
    pub size_median: f64,
    /// Standard deviation of the logarithm of these sizes.
    pub size_spread: f64,
    /// Share of the large objects.
    pub large: f64,
    /// Smallest size of large objects, which follow Pareto's law up to `large_max`.
    pub large_min: f64,
    /// Largest size of large objects.
    pub large_max: f64,
    /// Pareto's exponent.
    pub large_exponent: f64,
}

impl Default for DecLike {
    fn default() -> Self {
        DecLike {
            seed: 1,
            //= paper 002 section 3.1, footnote 3
            requests: 1_058_206,
            clients: 135,
            rate: 10.0,
            again: 0.322,
            back_max: 400_000,
            popular: 0.309,
            popular_pages: 100_000,
            popular_slope: 0.815,
            stays: 0.58,
            new_server: 0.5,
            images_max: 10.0,
            image_shared: 0.1,
            changed: 0.315,
            size_median: 3_090.0,
            size_spread: 0.9,
            large: 0.007,
            large_min: 30_000.0,
            large_max: 4_000_000.0,
            large_exponent: 1.2,
        }
    }
}

/// Number of recent images of a server that a new page may share.
const SHARED_BACK: u64 = 32;

#[derive(Debug, Clone, Copy)]
struct Page {
    server: u32,
    /// Index in `Stream::parts`.
    first: u32,
    len: u32,
}

#[derive(Debug, Default)]
struct Client {
    server: u32,
    left: VecDeque<u32>,
}

/// The requests of a [`DecLike`], one after the other.
#[derive(Debug)]
pub struct Stream {
    like: DecLike,
    chance: Chance,
    clients: Vec<Client>,
    /// Size of each object.
    sizes: Vec<u32>,
    servers_of: Vec<u32>,
    asked: Vec<bool>,
    /// Objects of pages, page after page.
    parts: Vec<u32>,
    pages: Vec<Page>,
    /// The page of each visit, in order.
    visits: Vec<u32>,
    /// Popular pages by rank; `None` until the first visit.
    popular: Vec<Option<u32>>,
    /// By server: its recent images, for sharing.
    images_of: Vec<Vec<u32>>,
    made: u64,
    at_us: f64,
}

impl DecLike {
    /// The stream with these parameters.
    pub fn stream(self) -> Stream {
        let clients = (0..self.clients.max(1)).map(|_| Client::default());
        Stream {
            like: self,
            chance: Chance::new(self.seed),
            clients: clients.collect(),
            sizes: Vec::new(),
            servers_of: Vec::new(),
            asked: Vec::new(),
            parts: Vec::new(),
            pages: Vec::new(),
            visits: Vec::new(),
            popular: vec![None; self.popular_pages as usize + 2],
            images_of: vec![Vec::new()],
            made: 0,
            at_us: 0.0,
        }
    }

    /// A size of the distribution: `u` chooses one of the two laws, `v` the size within it.
    fn size(&self, u: f64, v: f64) -> u32 {
        let bytes = if u < self.large {
            // Truncated Pareto's law: the inverse of its distribution function.
            let a = self.large_exponent;
            let cut = 1.0 - (self.large_min / self.large_max).powf(a);
            self.large_min / (1.0 - v * cut).powf(1.0 / a)
        } else {
            // `lognormal` takes the moments of the variate itself.
            let variance = self.size_spread * self.size_spread;
            let mean = self.size_median * (variance / 2.0).exp();
            lognormal(mean, mean * variance.exp_m1().sqrt(), v)
        };
        bytes.round().clamp(1.0, f64::from(u32::MAX - 1)) as u32
    }
}

impl Stream {
    fn new_object(&mut self, server: u32) -> u32 {
        let (u, v) = (self.chance.unit(), self.chance.unit());
        self.sizes.push(self.like.size(u, v));
        self.servers_of.push(server);
        self.asked.push(false);
        u32::try_from(self.sizes.len() - 1)
            .expect("fewer objects than requests, which are made in less than a day")
    }

    /// The server of a client's next new page.
    fn go(&mut self, client: usize) -> u32 {
        let here = self.clients[client].server;
        if !self.visits.is_empty() && self.chance.event(self.like.stays) {
            return here;
        }
        if self.visits.is_empty() || self.chance.event(self.like.new_server) {
            self.images_of.push(Vec::new());
            return (self.images_of.len() - 1) as u32;
        }
        let visit = self.chance.below(self.visits.len() as u64);
        self.pages[self.visits[visit as usize] as usize].server
    }

    /// How many images a new page has.
    fn images(&mut self) -> u64 {
        let (whole, rest) = (self.like.images_max.floor(), self.like.images_max.fract());
        let more = rest > 0.0 && self.chance.event(rest);
        self.chance.below(whole as u64 + u64::from(more) + 1)
    }

    fn new_page(&mut self, server: u32) -> u32 {
        let first = self.parts.len() as u32;
        let document = self.new_object(server);
        self.parts.push(document);
        for _ in 0..self.images() {
            let known = self.images_of[server as usize].len() as u64;
            let image = if known > 0 && self.chance.event(self.like.image_shared) {
                let back = self.chance.below(known.min(SHARED_BACK));
                self.images_of[server as usize][(known - 1 - back) as usize]
            } else {
                let image = self.new_object(server);
                self.images_of[server as usize].push(image);
                image
            };
            self.parts.push(image);
        }
        self.pages.push(Page {
            server,
            first,
            len: self.parts.len() as u32 - first,
        });
        (self.pages.len() - 1) as u32
    }

    /// Zipf's law over continuous ranks: the inverse of its distribution function.
    fn popular_rank(&mut self) -> usize {
        let power = 1.0 - self.like.popular_slope;
        let all = (f64::from(self.like.popular_pages) + 1.0).powf(power) - 1.0;
        let rank = (1.0 + self.chance.unit() * all).powf(1.0 / power);
        (rank as usize).min(self.popular.len() - 1)
    }

    fn visit(&mut self, client: usize) {
        let known = self.visits.len() as u64;
        let kind = self.chance.unit();
        let page = if kind < self.like.popular {
            let rank = self.popular_rank();
            match self.popular[rank] {
                Some(page) => page,
                None => {
                    let server = self.go(client);
                    let page = self.new_page(server);
                    self.popular[rank] = Some(page);
                    page
                }
            }
        } else if known > 0 && kind < self.like.popular + self.like.again {
            //= Cao, Irani 1997   the probability of a reference k requests after the last one is about 1 / k
            let reach = known.min(u64::from(self.like.back_max)) as f64;
            let back = (reach.powf(self.chance.unit()) as u64).clamp(1, known);
            self.visits[(known - back) as usize]
        } else {
            let server = self.go(client);
            self.new_page(server)
        };
        self.visits.push(page);
        let Page { server, first, len } = self.pages[page as usize];
        let client = &mut self.clients[client];
        client.server = server;
        client
            .left
            .extend(&self.parts[first as usize..(first + len) as usize]);
    }
}

impl Iterator for Stream {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        if self.made == self.like.requests {
            return None;
        }
        self.made += 1;
        self.at_us += exponential(1e6 / self.like.rate, self.chance.unit());
        let client = self.chance.below(self.clients.len() as u64) as usize;
        if self.clients[client].left.is_empty() {
            self.visit(client);
        }
        let object = self.clients[client].left.pop_front()?;
        let at = object as usize;
        if std::mem::replace(&mut self.asked[at], true) && self.chance.event(self.like.changed) {
            let (u, v) = (self.chance.unit(), self.chance.unit());
            let size = self.like.size(u, v);
            // A new version must differ in size, or a cache could not tell it from the old one.
            self.sizes[at] = if size == self.sizes[at] {
                size + 1
            } else {
                size
            };
        }
        Some(Access {
            at_ms: (self.at_us / 1000.0) as u64,
            object,
            server: self.servers_of[at],
            size_bytes: self.sizes[at],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Counts, LevelSettings, Requests, Settings};
    use crate::managers::{self, Kind};
    use crate::paper::experiment::{Job, Model};
    use crate::paper::workload::Workload;
    use crate::trace::Summary;

    fn counts(seed: u64) -> Counts {
        let like = DecLike {
            seed,
            ..DecLike::default()
        };
        let mut requests = Requests::new(&Settings::default(), like.stream());
        requests.by_ref().for_each(drop);
        *requests.counts()
    }

    #[test]
    fn the_papers_counts_come_out() {
        let found = counts(DecLike::default().seed);
        for ((name, found), (_, printed)) in found.printed().iter().zip(Counts::PAPER.printed()) {
            let off = *found as f64 / printed as f64 - 1.0;
            assert!(off.abs() < 0.02, "{name}: {found} for {printed}");
        }
    }

    /// The disk requests that the stream makes with a disk cache of this size, up to this many.
    fn load(disk_bytes: u64, disk_requests: usize) -> Workload {
        let mut requests = Requests::new(
            &Settings {
                disk: LevelSettings::lru(disk_bytes),
                ..Settings::default()
            },
            DecLike::default().stream(),
        );
        let of_disk = requests.by_ref().take(disk_requests).collect();
        let Counts {
            gets, memory_hits, ..
        } = *requests.counts();
        Workload::new(gets, memory_hits, of_disk)
    }

    fn rate(kind: Kind, utilisation: f64, load: &Workload) -> f64 {
        let job = Job {
            kind,
            settings: managers::Settings::default(),
            utilisation,
            model: Model::Disk1999,
        };
        job.run(load, |_| true).unwrap().gets_per_s
    }

    #[test]
    fn streams_are_slow_in_a_full_file_and_locality_buffers_put_that_off() {
        let load = load(2 << 30, 1_000_000);
        let rate = |kind, utilisation| rate(kind, utilisation, &load);
        let buddy = rate(Kind::Buddy, 0.71);
        let (empty, full) = (rate(Kind::Stream, 0.71), rate(Kind::Stream, 0.95));
        //= paper 002 section 3.4   below 72 % two times as fast as BUDDY, at 95 % comparable
        assert!(empty > 2.0 * buddy, "{empty} {buddy}");
        assert!(full < 0.65 * empty, "{full} {empty}");
        //= paper 002 section 3.6   at 76 % 2.5 times
        let gain = rate(Kind::LazyReadsLoc, 0.76) / rate(Kind::LazyReads, 0.76);
        assert!(gain > 1.7, "{gain}");
        let gain = rate(Kind::StreamLoc, 0.71) / rate(Kind::StreamPacketizer, 0.71);
        assert!((gain - 1.28).abs() < 0.08, "{gain}");
    }

    #[test]
    fn new_versions_are_most_of_the_deletes() {
        // Without new versions all deletes come from LRU, in the order of writing, and no stream slows down as its file fills.
        let counts = counts(DecLike::default().seed);
        let share = counts.replaced as f64 / counts.deletes as f64;
        assert!((share - 0.61).abs() < 0.02, "{share}");
    }

    #[test]
    fn a_seed_repeats_to_the_digit() {
        assert_eq!(counts(7), counts(7));
        assert_ne!(counts(7), counts(8));
    }

    #[test]
    fn popularity_is_zipfs() {
        let summary = Summary::of(DecLike::default().stream());
        let slope = summary.popularity_slope.unwrap();
        assert!((0.6..0.85).contains(&slope), "{slope}");
    }

    #[test]
    fn servers_come_in_bursts_that_are_interleaved() {
        // Of two successive requests few are to one server; within a few hundred, the length of a visit, many are.
        let servers: Vec<u32> = DecLike::default()
            .stream()
            .take(200_000)
            .map(|a| a.server)
            .collect();
        let share = |within: usize| {
            let again = (within..servers.len())
                .filter(|&at| servers[at - within..at].contains(&servers[at]))
                .count();
            again as f64 / (servers.len() - within) as f64
        };
        let (next, soon) = (share(1), share(200));
        assert!(next < 0.1 && soon > 0.6, "{next} {soon}");
    }

    #[test]
    fn sizes_have_the_median_and_the_largest_that_are_set() {
        let summary = Summary::of(DecLike::default().stream());
        let percentile = |p| {
            summary
                .size_percentiles
                .iter()
                .find(|x| x.0 == p)
                .unwrap()
                .1
        };
        assert!((percentile(50) as f64 / 3_090.0 - 1.0).abs() < 0.03);
        assert!((1_500_000..=4_000_000).contains(&percentile(100)));
    }
}
