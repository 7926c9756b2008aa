//! A flash device: parallel channels, pages that are written once, erase blocks that must be emptied first.
//!
//! A page goes to the open erase block of the least busy channel. A page written again leaves a dead copy behind. When erased
//! blocks run out, the block with the fewest live pages is emptied, some pages at each write: its live pages are written again on their
//! channel, then the block is erased. The cost is the write amplification; it depends on where the layer above writes.
//!
//! The figures are assumed, for an ordinary SATA or small NVMe drive with three-bit cells; see docs/lab.md.
//!
//! Not known here: files.   Limits: writes of less than a page cost one; no wear, no trim, no write buffer.

use super::constants::{Constant, Trust};
use super::hardware::{Hardware, SECTOR_BYTES, Served, Span, Way};

const CHANNELS: usize = 8;
const _: () = assert!(CHANNELS <= 1 << u8::BITS);
/// The unit of mapping and of cost.
const PAGE_SECTORS: u64 = 8;
/// Pages of an erase block: 2 MB.
const BLOCK_PAGES: u32 = 512;
/// Physical capacity beyond the offered one, as a share of it.
const SPARE: f64 = 0.07;
const READ_US: f64 = 60.0;
/// Read of a page of a block that is being emptied, as part of a read of several.
const READ_TO_MOVE_US: f64 = 15.0;
/// Write of a page, as part of a program operation over several.
const PROGRAM_US: f64 = 40.0;
const ERASE_US: f64 = 3000.0;
/// Transfer of a page over the bus.
const BUS_PAGE_US: f64 = 5.0;
/// A command and its completion.
const COMMAND_US: f64 = 5.0;
const NOWHERE: u32 = u32::MAX;
/// Cleaning begins when fewer blocks are erased.
const RESERVE_BLOCKS: usize = CHANNELS + 2;
/// With fewer erased blocks, a write waits until another block is erased.
const LAST_BLOCKS: usize = 2;

/// The constants of the device, each with its source.
pub fn constants() -> Vec<Constant> {
    use Trust::Assumed;
    let kib = |sectors: u64| sectors * SECTOR_BYTES / 1024;
    const SHEET: &str = "data sheets of small drives with three-bit cells";
    let erase = format!(
        "{} MB, {} ms",
        kib(u64::from(BLOCK_PAGES) * PAGE_SECTORS) / 1024,
        ERASE_US / 1e3
    );
    vec![
        Constant::new("`CHANNELS`", CHANNELS.to_string(), Assumed, SHEET),
        Constant::new(
            "`PAGE_SECTORS`, `READ_US`, `PROGRAM_US`",
            format!(
                "{} KB, read in {READ_US} us, written in {PROGRAM_US}",
                kib(PAGE_SECTORS)
            ),
            Assumed,
            SHEET,
        ),
        Constant::new(
            "`BUS_PAGE_US`, `COMMAND_US`",
            format!("{BUS_PAGE_US}, {COMMAND_US} us"),
            Assumed,
            SHEET,
        ),
        Constant::new("`BLOCK_PAGES`, `ERASE_US`", erase, Assumed, SHEET),
        Constant::new("`SPARE`", format!("{:.0} %", SPARE * 100.0), Assumed, SHEET),
        Constant::new(
            "`READ_TO_MOVE_US`",
            format!("{READ_TO_MOVE_US} us a page"),
            Assumed,
            "a page of several that are read together",
        ),
    ]
}

/// The modelled device.
#[derive(Debug, Clone)]
pub struct Flash {
    sectors: u64,
    /// The physical place of each page.
    at: Vec<u32>,
    /// The page at each physical place; [`NOWHERE`] if it holds no live page.
    held: Vec<u32>,
    live: Vec<u32>,
    erased: Vec<u32>,
    /// The block each channel writes to, and its next page.
    open: Vec<(u32, u32)>,
    /// The channel of each block: the one that wrote it last.
    channel_of: Vec<u8>,
    channel_free_us: Vec<f64>,
    /// The block being emptied, its next page, and the number of pages examined in one step.
    victim: Option<(u32, u32, u32)>,
    next: usize,
    wanted: u64,
    programmed: u64,
    erases: u64,
}

impl Flash {
    /// A device of this capacity, all of it erased.
    pub fn new(bytes: u64) -> Flash {
        let pages = bytes.div_ceil(PAGE_SECTORS * SECTOR_BYTES);
        let blocks = ((pages as f64 * (1.0 + SPARE)) as u64).div_ceil(u64::from(BLOCK_PAGES))
            as u32
            + 2 * RESERVE_BLOCKS as u32;
        let mut erased: Vec<u32> = (0..blocks).rev().collect();
        let open: Vec<(u32, u32)> = (0..CHANNELS)
            .map(|_| (erased.pop().expect("there are spare blocks"), 0))
            .collect();
        let mut channel_of = vec![0; blocks as usize];
        for (channel, &(block, _)) in (0..).zip(&open) {
            channel_of[block as usize] = channel;
        }
        Flash {
            sectors: pages * PAGE_SECTORS,
            at: vec![NOWHERE; pages as usize],
            held: vec![NOWHERE; (blocks * BLOCK_PAGES) as usize],
            live: vec![0; blocks as usize],
            erased,
            open,
            channel_of,
            channel_free_us: vec![0.0; CHANNELS],
            victim: None,
            next: 0,
            wanted: 0,
            programmed: 0,
            erases: 0,
        }
    }

    /// Bytes of pages written so far, including moved pages.
    pub fn programmed_bytes(&self) -> u64 {
        self.programmed * PAGE_SECTORS * SECTOR_BYTES
    }

    /// Writes a page on the least busy channel; returns the time at which the write is done.
    fn write(&mut self, page: u32, start_us: f64) -> f64 {
        if self.erased.len() < RESERVE_BLOCKS {
            self.clean_some(start_us);
        }
        let from = self.next;
        self.next = (from + 1) % CHANNELS;
        let least = |best: usize, at: usize| {
            let at = (from + at) % CHANNELS;
            let free = |channel: usize| self.channel_free_us[channel].max(start_us);
            if free(at) < free(best) { at } else { best }
        };
        let channel = (1..CHANNELS).fold(from, least);
        self.program(channel, page, start_us)
    }

    fn program(&mut self, channel: usize, page: u32, start_us: f64) -> f64 {
        if self.open[channel].1 == BLOCK_PAGES {
            let block = self
                .erased
                .pop()
                .expect("cleaning keeps erased blocks in reserve");
            self.open[channel] = (block, 0);
            self.channel_of[block as usize] = channel as u8;
        }
        let (block, place) = self.open[channel];
        self.open[channel].1 += 1;
        let old = self.at[page as usize];
        if old != NOWHERE {
            self.held[old as usize] = NOWHERE;
            self.live[(old / BLOCK_PAGES) as usize] -= 1;
        }
        let new = block * BLOCK_PAGES + place;
        self.at[page as usize] = new;
        self.held[new as usize] = page;
        self.live[block as usize] += 1;
        self.programmed += 1;
        self.busy(channel, start_us, PROGRAM_US + BUS_PAGE_US)
    }

    fn busy(&mut self, channel: usize, start_us: f64, for_us: f64) -> f64 {
        let free = &mut self.channel_free_us[channel];
        *free = free.max(start_us) + for_us;
        *free
    }

    /// Continues to empty a block. Each written page moves so many pages that the block is erased by the time the room it yields is
    /// used up.
    fn clean_some(&mut self, start_us: f64) {
        loop {
            let (victim, from, step) = self.victim.unwrap_or_else(|| self.choose());
            let end = BLOCK_PAGES.min(from + step);
            let channel = usize::from(self.channel_of[victim as usize]);
            for place in from..end {
                let page = self.held[(victim * BLOCK_PAGES + place) as usize];
                if page != NOWHERE {
                    let read = self.busy(channel, start_us, READ_TO_MOVE_US + BUS_PAGE_US);
                    self.program(channel, page, read);
                }
            }
            self.victim = Some((victim, end, step));
            if end == BLOCK_PAGES {
                self.victim = None;
                self.erased.push(victim);
                self.erases += 1;
                self.busy(channel, start_us, ERASE_US);
            }
            if self.erased.len() >= LAST_BLOCKS {
                return;
            }
        }
    }

    /// The block with the fewest live pages, its first page, and how many of its pages to examine in one step.
    fn choose(&self) -> (u32, u32, u32) {
        let mut written = vec![true; self.live.len()];
        let open = self.open.iter().map(|(block, _)| block);
        for &block in self.erased.iter().chain(open) {
            written[block as usize] = false;
        }
        let victim = (0..self.live.len() as u32)
            .filter(|&block| written[block as usize])
            .min_by_key(|&block| self.live[block as usize])
            .expect("a device has more blocks than channels");
        let room = (BLOCK_PAGES - self.live[victim as usize]).max(1);
        (victim, 0, BLOCK_PAGES.div_ceil(room) + 1)
    }
}

impl Hardware for Flash {
    fn serve(&mut self, start_us: f64, way: Way, span: Span) -> Served {
        assert!(span.end() <= self.sectors, "beyond the end");
        let start = start_us + COMMAND_US;
        let mut done = start;
        for page in span.first / PAGE_SECTORS..span.end().div_ceil(PAGE_SECTORS) {
            let finished = match way {
                Way::Read => {
                    let at = self.at[page as usize];
                    // A page that was never written is not read from a channel.
                    if at == NOWHERE {
                        start
                    } else {
                        let channel = self.channel_of[(at / BLOCK_PAGES) as usize];
                        self.busy(usize::from(channel), start, READ_US + BUS_PAGE_US)
                    }
                }
                Way::Write => {
                    self.wanted += 1;
                    self.write(page as u32, start)
                }
            };
            done = done.max(finished);
        }
        Served {
            done_us: done,
            free_us: start,
        }
    }

    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn write_amplification(&self) -> f64 {
        self.programmed as f64 / self.wanted.max(1) as f64
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![("erases", self.erases as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 256 << 20;

    fn write_all(flash: &mut Flash, order: impl Iterator<Item = u64>) -> f64 {
        let mut now = 0.0;
        for page in order {
            let span = Span {
                first: page * PAGE_SECTORS,
                sectors: PAGE_SECTORS as u32,
            };
            now = flash.serve(now, Way::Write, span).done_us;
        }
        now
    }

    #[test]
    fn writing_in_order_moves_nothing() {
        let mut flash = Flash::new(BYTES);
        let pages = flash.sectors / PAGE_SECTORS;
        write_all(&mut flash, (0..4).flat_map(|_| 0..pages));
        assert!(
            flash.write_amplification() < 1.05,
            "{}",
            flash.write_amplification()
        );
        assert!(flash.erases > 0);
    }

    #[test]
    fn writing_at_random_moves_a_lot() {
        let mut flash = Flash::new(BYTES);
        let pages = flash.sectors / PAGE_SECTORS;
        let mut n = 1u64;
        let order = (0..4 * pages).map(|_| {
            n = n
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (n >> 33) % pages
        });
        write_all(&mut flash, order);
        assert!(
            flash.write_amplification() > 2.0,
            "{}",
            flash.write_amplification()
        );
        let live: u32 = flash.live.iter().sum();
        assert_eq!(
            live as usize,
            flash.at.iter().filter(|&&at| at != NOWHERE).count()
        );
    }

    #[test]
    fn channels_work_side_by_side() {
        let mut flash = Flash::new(BYTES);
        let wide = Span {
            first: 0,
            sectors: PAGE_SECTORS as u32 * CHANNELS as u32,
        };
        let narrow = Span {
            first: 0,
            sectors: PAGE_SECTORS as u32,
        };
        let one = flash.serve(0.0, Way::Write, narrow).done_us;
        let eight = flash.serve(1000.0, Way::Write, wide).done_us - 1000.0;
        assert!((one - eight).abs() < 1.0, "{one} {eight}");
        // Pages written in parallel are read in parallel.
        let one = flash.serve(2000.0, Way::Read, narrow).done_us - 2000.0;
        let eight = flash.serve(3000.0, Way::Read, wide).done_us - 3000.0;
        assert!((one - eight).abs() < 1.0, "{one} {eight}");
    }
}
