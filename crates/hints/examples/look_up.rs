//! What a front's question costs: hashing a URL, its trace, and the look-up of seven rows, in filters of one million objects of ten bits each.
//!
//! `cargo run --release -p hints --example look_up`. Paper 003 (332 MHz PowerPC, four functions, four nodes): 1.28 us interleaved, 1.19 us to
//! 4.39 us with one filter after the other; 1 us for four functions and a look-up.

use std::hint::black_box;
use std::time::Instant;

use hints::bloom::{Bits, Shape};
use hints::interleaved::Interleaved;
use twox_hash::XxHash3_64;

const OBJECTS: u64 = 1_000_000;
const ROUNDS: u64 = 2_000_000;

fn main() {
    let shape = Shape::for_numbers(OBJECTS, 10).expect("a million objects have a filter");
    // Of the length of an ordinary URL. The number in it changes, as the next question is another one.
    let mut url = *b"http://www.example.com/some/path/to/an/object-00000000.html";
    let mut hash = |number: u64| {
        url[46..54].copy_from_slice(&number.to_le_bytes());
        XxHash3_64::oneshot_with_seed(42, &url)
    };
    let none = nanoseconds(&mut hash);
    println!("hash alone                 {none:7.1} ns");
    for columns in [1, 4, 64] {
        let all = Interleaved::new(shape, columns);
        for column in 0..columns {
            for number in 0..OBJECTS / u64::from(columns) {
                for position in shape.positions(number * 64 + u64::from(column)) {
                    all.set(column, position, true);
                }
            }
        }
        let mib = all.memory_bytes() >> 20;
        let both = nanoseconds(|number| all.look_up(&hash(number)));
        println!("interleaved, {columns:2} columns    {both:7.1} ns with the hash, {mib} MiB");
    }
    for columns in [1, 4] {
        let plain: Vec<Bits> = (0..columns)
            .map(|column| {
                let mut bits = Bits::new(shape);
                (0..OBJECTS / columns).for_each(|number| bits.insert(number * 64 + column));
                bits
            })
            .collect();
        let both = nanoseconds(|number| {
            let hash = hash(number);
            let each = plain.iter().enumerate();
            each.fold(0, |mask, (at, bits)| {
                mask | u64::from(bits.may_have(hash)) << at
            })
        });
        println!("one after the other, {columns}     {both:7.1} ns with the hash");
    }
}

/// Of a question, the median of five rounds.
fn nanoseconds(mut ask: impl FnMut(u64) -> u64) -> f64 {
    let mut rounds: Vec<f64> = (0..5)
        .map(|round| {
            let began = Instant::now();
            for number in 0..ROUNDS {
                black_box(ask(black_box(round * ROUNDS + number)));
            }
            began.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[2]
}
