//! A policy that goes by records and not by places leaves scattered holes. How much of the store may lie idle in them?

use crate::common::{MIB, Random, Shell, body};

const HOT: u64 = 2_000;
const SMALL: u64 = 4_000;

/// Small records that are asked for again and again, wherever they came to lie, and large ones that are not.
fn churn(shell: &mut Shell, rounds: u64) {
    let mut random = Random(1);
    let large = u64::from(shell.store.fragment_bytes());
    let mut hot: Vec<u64> = (0..HOT).collect();
    for n in 0..rounds {
        let size = match random.below(20) {
            0 => large * 3 / 4 + random.below(large / 4),
            1 => large / 8 + random.below(large / 4),
            _ => 500 + random.below(SMALL),
        };
        shell.put(&n.to_le_bytes(), &body(n, 0, size as usize));
        shell.complete_all();
        if size < 500 + SMALL {
            let at = random.below(HOT) as usize;
            hot[at] = n;
        }
        for _ in 0..4 {
            let again = hot[random.below(HOT) as usize];
            shell.get(&again.to_le_bytes());
        }
    }
}

#[test]
fn room_is_not_evicted_in_vain() {
    let mut shell = Shell::with_policy(16 * MIB, "gdsf");
    churn(&mut shell, 20_000);
    let figures = shell.store.figures();
    let used = 100 - figures.ready_chunks * 100 / figures.total_chunks;
    assert!(
        used >= 80,
        "{used} % in use, {} free pieces, {} records cleared with stretches",
        figures.free_pieces,
        figures.stretch_evictions
    );
    assert!(figures.stretch_evictions > 0, "nothing was scattered");
    shell.store.audit().unwrap();
}
