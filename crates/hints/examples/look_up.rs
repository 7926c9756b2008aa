//! The cost of one look-up by a front: hashing the URL, computing the positions, and reading seven rows, in filters of ten bits an object.
//!
//! `cargo run --release -p hints --example look_up`. Paper 003 (332 MHz PowerPC, four functions, four nodes): 1.28 us interleaved, 1.19 us to
//! 4.39 us with one filter after the other; 1 us for four functions and a look-up.
//!
//! Each line is for one matrix: one that fits a level-2 cache, one that fits a level-3 cache, and one larger than both. Each question waits for
//! the answer to the previous one, because a front does other work in between. *Blocks*: all positions of a name lie within 512 rows, which costs
//! false hits. With `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` the matrices are in huge pages. Results: `docs/measurements.md`.

use std::hint::black_box;
use std::time::Instant;

use hints::bloom::Shape;
use hints::interleaved::Interleaved;
use hints::name::Name;
use twox_hash::XxHash3_64;

/// Rounds, and questions in each.
const ROUNDS: u64 = 200;
const QUESTIONS: u64 = 5_000;
/// Objects inserted at most. A larger matrix stays empty, because a look-up in it costs the same.
const FILLED_MAX: u64 = 5_000_000;

/// A name whose positions are all in one block of 512 rows.
struct Blocked(u64);

impl Name for Blocked {
    fn number(&self) -> u64 {
        self.0
    }

    fn positions(&self, shape: Shape) -> impl Iterator<Item = u32> {
        let blocks = u64::from(shape.bits() / 512);
        let first = (((self.0 >> 32) * blocks) >> 32) as u32 * 512;
        let within = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let within = (within ^ within >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let functions = u32::from(shape.functions()).min(7);
        (0..functions).map(move |i| first + (within >> (9 * i) & 511) as u32)
    }
}

fn main() {
    // As long as an ordinary URL. The number in it changes with each question.
    let mut url = *b"http://www.example.com/some/path/to/an/object-00000000.html";
    let mut hash = |number: u64| {
        url[46..54].copy_from_slice(&number.to_le_bytes());
        XxHash3_64::oneshot_with_seed(42, &url)
    };
    println!(
        "hash alone                    {:6.1} ns",
        nanoseconds(&mut hash)
    );
    for (columns, objects) in [
        (1, 500_000),
        (4, 125_000),
        (64, 8_000),
        (4, 1_000_000),
        (1, 80_000_000),
        (4, 20_000_000),
        (64, 1_250_000),
    ] {
        table(columns, objects, &mut hash, "", |number| number);
        table(columns, objects, &mut hash, ", blocks", Blocked);
    }
}

fn table<N: Name>(
    columns: u32,
    objects: u64,
    mut hash: impl FnMut(u64) -> u64,
    what: &str,
    name: impl Fn(u64) -> N,
) {
    let shape = Shape::for_numbers(objects, 10).expect("so many objects have a filter");
    let all = Interleaved::new(shape, columns);
    let is_filled = u64::from(columns) * objects <= FILLED_MAX;
    if is_filled {
        for number in 0..u64::from(columns) * objects {
            let (column, number) = (number % u64::from(columns), number.to_le_bytes());
            let name = name(XxHash3_64::oneshot(&number));
            for position in name.positions(shape) {
                all.set(column as u32, position, true);
            }
        }
    } else {
        // Touch every page, because the kernel does not provide a page that was never written.
        let rows = 4096 * 8 / all.columns() as usize;
        let positions = (0..shape.bits()).step_by(rows);
        positions.for_each(|position| all.set(0, position, true));
    }
    let time = nanoseconds(|number| all.look_up(&name(hash(number))));
    let found = (0..ROUNDS * QUESTIONS).map(|number| all.look_up(&name(hash(number))).count_ones());
    let found: u32 = found.sum();
    let false_percent = f64::from(found) * 100.0 / (ROUNDS * QUESTIONS * u64::from(columns)) as f64;
    let mib = all.memory_bytes() as f64 / f64::from(1 << 20);
    let found = match is_filled {
        true => format!("; {false_percent:.2} % false"),
        false => String::new(),
    };
    println!("{columns:2} columns, {mib:5.1} MiB{what:8}  {time:6.1} ns{found}");
}

/// Time of one question, hash included. Takes the first decile of the rounds, because other programs disturb some. A round is shorter than a
/// scheduler time slice.
fn nanoseconds(mut ask: impl FnMut(u64) -> u64) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|round| {
            let began = Instant::now();
            let mut answer = 0;
            for number in 0..QUESTIONS {
                // Adds 0, but the processor cannot know that, so the questions depend on each other.
                let number = round * QUESTIONS + number + (answer & black_box(0));
                answer = black_box(ask(black_box(number)));
            }
            began.elapsed().as_secs_f64() * 1e9 / QUESTIONS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 10]
}
