//! Which policy, and how large a window for the second chance? A study by trace.
//!
//! ```text
//! cargo run --release -p replacement --example second_chance -- bu-1994-95.tsv.zst
//! zstd -dc trace.tsv.zst | cargo run --release -p replacement --example second_chance -- - sizes=ignored
//! ```
//!
//! A path that ends in `.zst` is read through the command `zstd`; `-` is standard input. A line is a request, with tabs
//! between: time, user, machine, URL, bytes, seconds; bytes 0: answered by the browser's own cache.
//!
//! | word | |
//! |---|---|
//! | `sizes=changed` | (the default) a document whose size is not the one stored was changed: a miss, stored anew |
//! | `sizes=ignored` | a document has the size it was first seen with, always: differences are broken transfers |
//! | `browser=silent` | (the default) what the browser answered is left out, a proxy would not have seen it |
//! | `browser=asked` | it is a request too, for the size last seen; left out if there is none (no size is known) |
//!
//! The footprint is the sum over all documents of the largest size seen. Caches have a share of that. A document larger
//! than the cache is a miss and not stored. Sizes are bytes: no headers, no rounding up to chunks.
//!
//! Printed are the document hit ratio, the byte hit ratio, and bytes written to each byte of misses that were stored.
//! The latter is 1 for policies that evict one by one, whatever this costs them in free space torn to pieces, which is
//! not modelled.
//!
//! *Cyclic*: documents lie in a log as long as the cache, written at the front; the hand is just ahead of the front and
//! clears what lies there. What is changed leaves dead bytes behind until the hand comes. With a second chance, a
//! document that is hit while less than W of the log's length from the hand is written again at the front. "twice" asks
//! in addition that it was hit before, since it was written. *Clock* is the other way, for comparison: what was hit
//! since it was written is written again when the hand comes to it, which in a store costs a read as well.

use replacement::{Policy, PolicyKind};
use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::process::{Command, Stdio};

/// Shares of the footprint, percent.
const CACHE_PERCENT: [u64; 4] = [1, 3, 10, 30];
/// Windows, percent of the log.
const WINDOW_PERCENT: [u64; 5] = [10, 25, 40, 50, 75];

/// A request, for a document by number.
#[derive(Clone, Copy)]
struct Request {
    document: u32,
    size: u64,
}

struct Trace {
    requests: Vec<Request>,
    documents: usize,
    footprint: u64,
}

impl Trace {
    fn read(input: impl BufRead, sizes_ignored: bool, browser_asked: bool) -> Result<Self, String> {
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        // Of each document: the size first seen, the last, the largest.
        let mut sizes: Vec<[u64; 3]> = Vec::new();
        let mut requests = Vec::new();
        for (line, text) in input.split(b'\n').enumerate() {
            let text = text.map_err(|error| error.to_string())?;
            // URLs are bytes, which may be any but tab and newline.
            let mut fields = text.split(|&byte| byte == b'\t').skip(3);
            let url = fields.next().filter(|url| !url.is_empty());
            let size = fields.next().and_then(|size| str::from_utf8(size).ok());
            let size = size.and_then(|size| size.trim().parse::<u64>().ok());
            let (Some(url), Some(size)) = (url, size) else {
                return Err(format!("line {} is no request", line + 1));
            };
            let known = numbers.get(url).copied();
            if size == 0 {
                if let Some(document) = known.filter(|_| browser_asked) {
                    let [first, last, _] = sizes[document as usize];
                    let size = if sizes_ignored { first } else { last };
                    requests.push(Request { document, size });
                }
                continue;
            }
            let document = known.unwrap_or_else(|| {
                let document = sizes.len() as u32;
                numbers.insert(url.to_vec(), document);
                sizes.push([size; 3]);
                document
            });
            let [first, last, largest] = &mut sizes[document as usize];
            *last = size;
            *largest = size.max(*largest);
            let size = if sizes_ignored { *first } else { size };
            requests.push(Request { document, size });
        }
        Ok(Trace {
            requests,
            documents: sizes.len(),
            footprint: sizes.iter().map(|[_, _, largest]| largest).sum(),
        })
    }
}

/// What a cache did with a trace.
#[derive(Default)]
struct Score {
    hits: u64,
    hit_bytes: u64,
    stored_bytes: u64,
    rewritten_bytes: u64,
}

impl Score {
    fn hit(&mut self, size: u64) {
        self.hits += 1;
        self.hit_bytes += size;
    }

    fn print(&self, name: &str, trace: &Trace) {
        let bytes: u64 = trace.requests.iter().map(|request| request.size).sum();
        println!(
            "  {name:<24} {:>6.2} {:>6.2} {:>6.3}",
            100.0 * self.hits as f64 / trace.requests.len() as f64,
            100.0 * self.hit_bytes as f64 / bytes as f64,
            (self.stored_bytes + self.rewritten_bytes) as f64 / self.stored_bytes as f64,
        );
    }
}

/// A cache of `room` bytes that evicts one by one.
fn replay_policy(trace: &Trace, room: u64, kind: PolicyKind) -> Score {
    let mut policy = kind.build();
    // By document, which is its slot as well.
    let mut sizes: Vec<Option<u64>> = vec![None; trace.documents];
    let (mut used, mut score) = (0, Score::default());
    for &Request { document, size } in &trace.requests {
        let stored = sizes[document as usize];
        if stored == Some(size) {
            policy.touch(document);
            score.hit(size);
            continue;
        }
        if let Some(stored) = stored {
            policy.remove(document);
            sizes[document as usize] = None;
            used -= stored;
        }
        if size > room {
            continue;
        }
        while used + size > room {
            let victim = policy.victim().expect("what is used belongs to someone");
            used -= sizes[victim as usize].take().expect("it was stored");
        }
        policy.insert(document, size, document.into());
        sizes[document as usize] = Some(size);
        used += size;
        score.stored_bytes += size;
    }
    score
}

/// What to do for documents in a log that are in demand.
#[derive(Clone, Copy)]
enum Chance {
    None,
    /// Hit less than so many bytes ahead of the hand, and `twice` so.
    OnUse {
        window: u64,
        twice: bool,
    },
    WhenSwept,
}

/// A document in the log; places count bytes written since the beginning and never wrap.
#[derive(Clone, Copy)]
struct Place {
    first: u64,
    size: u64,
    used: bool,
}

struct Log {
    room: u64,
    front: u64,
    places: Vec<Option<Place>>,
    /// First byte and document, in order; stale ones have another first byte than the document's place.
    order: VecDeque<(u64, u32)>,
    rewritten_bytes: u64,
}

impl Log {
    fn write(&mut self, document: u32, size: u64, chance: Chance) {
        // A place in front may be taken by what the hand spares; then it has to go on.
        self.places[document as usize] = None;
        while let Some(&(first, other)) = self.order.front() {
            if first + self.room >= self.front + size {
                break;
            }
            self.order.pop_front();
            let place = &mut self.places[other as usize];
            let Some(swept) = place.take_if(|place| place.first == first) else {
                continue;
            };
            if matches!(chance, Chance::WhenSwept) && swept.used {
                self.append(other, swept.size);
                self.rewritten_bytes += swept.size;
            }
        }
        self.append(document, size);
    }

    fn append(&mut self, document: u32, size: u64) {
        self.places[document as usize] = Some(Place {
            first: self.front,
            size,
            used: false,
        });
        self.order.push_back((self.front, document));
        self.front += size;
    }
}

/// A cyclic log of `room` bytes.
fn replay_cyclic(trace: &Trace, room: u64, chance: Chance) -> Score {
    let mut score = Score::default();
    let mut log = Log {
        room,
        front: 0,
        places: vec![None; trace.documents],
        order: VecDeque::new(),
        rewritten_bytes: 0,
    };
    for &Request { document, size } in &trace.requests {
        let place = log.places[document as usize].as_mut();
        if let Some(place) = place.filter(|place| place.size == size) {
            score.hit(size);
            let used = std::mem::replace(&mut place.used, true);
            // The hand is one length of the log behind the front.
            let distance = place.first + room - log.front;
            if let Chance::OnUse { window, twice } = chance
                && distance < window
                && (used || !twice)
            {
                log.write(document, size, chance);
                log.rewritten_bytes += size;
            }
            continue;
        }
        log.places[document as usize] = None;
        if size <= room {
            log.write(document, size, chance);
            score.stored_bytes += size;
        }
    }
    score.rewritten_bytes = log.rewritten_bytes;
    score
}

fn study(trace: &Trace) {
    println!(
        "{} requests for {} documents, footprint {} bytes",
        trace.requests.len(),
        trace.documents,
        trace.footprint
    );
    for percent in CACHE_PERCENT {
        let room = trace.footprint * percent / 100;
        println!("\ncache {percent} % of the footprint, {room} bytes\n");
        println!(
            "  {:<24} {:>6} {:>6} {:>6}",
            "", "hit %", "byte %", "writes"
        );
        for kind in [
            PolicyKind::Lru,
            PolicyKind::S3Fifo,
            PolicyKind::Sieve,
            PolicyKind::WTinyLfu,
            PolicyKind::Gdsf,
        ] {
            replay_policy(trace, room, kind).print(&kind.to_string(), trace);
        }
        replay_cyclic(trace, room, Chance::None).print("cyclic", trace);
        for twice in [false, true] {
            for percent in WINDOW_PERCENT {
                let window = room * percent / 100;
                let chance = Chance::OnUse { window, twice };
                let name = format!(
                    "cyclic, W {percent} %{}",
                    if twice { ", twice" } else { "" }
                );
                replay_cyclic(trace, room, chance).print(&name, trace);
            }
        }
        replay_cyclic(trace, room, Chance::WhenSwept).print("clock", trace);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words
        .next()
        .ok_or("which trace? A path, or - for standard input")?;
    let (mut sizes_ignored, mut browser_asked) = (false, false);
    for word in words {
        match word.as_str() {
            "sizes=changed" => sizes_ignored = false,
            "sizes=ignored" => sizes_ignored = true,
            "browser=silent" => browser_asked = false,
            "browser=asked" => browser_asked = true,
            _ => return Err(format!("{word} is not known here").into()),
        }
    }
    let mut unpacking = None;
    let input: Box<dyn Read> = if path == "-" {
        Box::new(stdin().lock())
    } else if path.ends_with(".zst") {
        let mut zstd = Command::new("zstd");
        let mut child = zstd
            .args(["-dc", "--", &path])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("zstd has no output")?;
        unpacking = Some(child);
        Box::new(output)
    } else {
        Box::new(File::open(&path)?)
    };
    let trace = Trace::read(BufReader::new(input), sizes_ignored, browser_asked)?;
    if let Some(mut child) = unpacking
        && !child.wait()?.success()
    {
        return Err("zstd could not unpack the trace".into());
    }
    study(&trace);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(documents: &[u32]) -> Trace {
        let request = |&document| Request { document, size: 1 };
        Trace {
            requests: documents.iter().map(request).collect(),
            documents: 10,
            footprint: 10,
        }
    }

    #[test]
    fn the_log_forgets_in_order_but_for_second_chances() {
        // 0 is hit with the hand right behind it, then displaced or not by 4.
        let trace = trace(&[0, 1, 2, 3, 0, 4, 0]);
        let hits = |chance| replay_cyclic(&trace, 4, chance).hits;
        let window = |window, twice| Chance::OnUse { window, twice };
        assert_eq!(hits(Chance::None), 1);
        assert_eq!(hits(window(0, false)), 1);
        assert_eq!(hits(window(1, false)), 2);
        assert_eq!(hits(window(1, true)), 1);
        assert_eq!(hits(Chance::WhenSwept), 2);
        assert_eq!(
            replay_cyclic(&trace, 4, window(1, false)).rewritten_bytes,
            1
        );
    }

    #[test]
    fn lines_are_read_as_documented() {
        let text = b"0\tu\tm\ta\t10\t1\n0\tu\tm\t\xff\t0\t0\n0\tu\tm\ta\t0\t0\n0\tu\tm\ta\t12\t1\n";
        let sizes = |ignored, asked| -> Vec<u64> {
            let trace = Trace::read(&text[..], ignored, asked).unwrap();
            assert_eq!(trace.footprint, 12);
            trace.requests.iter().map(|request| request.size).collect()
        };
        assert_eq!(sizes(false, false), [10, 12]);
        assert_eq!(sizes(true, true), [10, 10, 10]);
        assert!(Trace::read(&b"0\tu\n"[..], false, false).is_err());
    }
}
