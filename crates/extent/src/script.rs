//! The small language of our example tests, which keeps them independent of the interface.
//!
//! ```text
//! a=take 10         allocate 10 chunks and call them a
//! a=reserve 5..9    take exactly these chunks
//! free a            give a back
//! free 5..9         give back any used chunks
//! ```
//!
//! Steps are separated by commas. The answer lists the extents that are still held or were refused ("b none"), then the free pieces. The space is
//! audited after every step.

use crate::{Chunk, Chunks, Extent, Unified};
use std::collections::BTreeMap;

/// Runs `script` on a fresh space of `total` chunks.
pub(crate) fn run(total: u32, script: &str) -> String {
    let mut space = Unified::new_all_free(Chunks(total));
    let mut held: BTreeMap<&str, Option<Extent>> = BTreeMap::new();
    for step in script.split(',').map(str::trim) {
        if let Some((name, command)) = step.split_once('=') {
            let taken = match command.split_once(' ').expect("a command and its argument") {
                ("take", len) => space.allocate(Chunks(len.parse().expect("a length"))),
                ("reserve", run) => Some(extent(run)).filter(|&e| space.reserve(e)),
                _ => panic!("unknown command: {step}"),
            };
            held.insert(name, taken);
        } else {
            let what = step.strip_prefix("free ").expect("free, or name=command");
            space.free(match held.remove(what) {
                Some(taken) => taken.expect("it was refused"),
                None => extent(what),
            });
        }
        space
            .audit()
            .unwrap_or_else(|wrong| panic!("after {step:?}: {wrong}"));
    }
    let mut answer = String::new();
    for (name, taken) in held {
        let taken = taken.map_or("none".into(), |e| e.to_string());
        answer += &format!("{name} {taken}, ");
    }
    let pieces: Vec<String> = space.free_pieces().iter().map(Extent::to_string).collect();
    answer
        + "free "
        + &if pieces.is_empty() {
            "nothing".into()
        } else {
            pieces.join(" ")
        }
}

fn extent(run: &str) -> Extent {
    let (first, end) = run.split_once("..").expect("first..end");
    Extent::between(
        Chunk(first.parse().expect("a chunk")),
        Chunk(end.parse().expect("a chunk")),
    )
}
