//! Settings of single mechanisms of the store, for experiments: `[experimental]`.
//!
//! An operator needs none of them, so the reference leaves them out. Each switches one mechanism off, or gives it another size, so that
//! `cargo xtask rivals paper000 --ablation` can measure what it is worth (docs/rivals.md).
//!
//! Rules kept here, and nowhere else:
//!   X1  eviction ends below the share at which it begins

use std::time::Duration;

use proxy::plan::{Bounds, LocalityMode, Storing, Unit};

use super::problem::Problem;
use super::raw::{Block, Given, Value};
use super::rows::{Row, Takes, rows};
use super::values::number;

/// The name of the table, with its dot.
pub const SCOPE: &str = "experimental.";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const CLUSTER: Bounds = bounds(Unit::Bytes, [64 * KIB, MIB, 16 * MIB]);
const FRAGMENT: Bounds = bounds(Unit::Bytes, [16 * KIB, MIB, 8 * MIB]);
const GROUP: Bounds = bounds(Unit::Bytes, [0, 64 * KIB, MIB]);
const BUFFERS: Bounds = bounds(Unit::Count, [0, 128, 128]);
const HIGH: Bounds = bounds(Unit::Count, [2, 97, 99]);
const LOW: Bounds = bounds(Unit::Count, [1, 95, 98]);

const fn bounds(unit: Unit, [min, default, max]: [u64; 3]) -> Bounds {
    Bounds {
        unit,
        min,
        default,
        max,
    }
}

/// All of them.
pub fn rows() -> Vec<Row<Storing>> {
    let mut rows = rows![Storing:
        /// Objects longer than this are stored in pieces of it, each with a read and a write of its own. A power of two.
        "experimental.fragment": "a size, 16KiB to 8MiB", "1MiB" => fragment_bytes = |given| power_of_two(given, FRAGMENT);
        /// How far a read goes on beyond its object, where reads are lazy (`store.lazy-reads`). 0: not at all.
        "experimental.group-reads": "a size, 0B to 1MiB", "64KiB" => group_bytes = |given| small(given, GROUP);
        /// The servers whose objects are gathered in memory, to lie together on the disk. `auto`: 128, while reads are lazy.
        "experimental.locality-buffers": "`auto`, or a number, 0 to 128", "auto" => locality = locality;
        /// The used share of the store at which eviction begins, in percent, with a policy that evicts object by object.
        "experimental.high-watermark": "a number, 2 to 99", "97" => watermarks.high_percent = |given| percent(given, HIGH);
        /// The share at which it ends.
        "experimental.low-watermark": "a number, 1 to 98", "95" => watermarks.low_percent = |given| percent(given, LOW);
    ];
    rows.push(Row {
        key: format!("{SCOPE}cluster"),
        form: "a size, 64KiB to 16MiB, or `none`".to_owned(),
        default: "1MiB".to_owned(),
        doc: "Objects are gathered up to this size into one write. A power of two. `none`: each is a write of its own.",
        takes: Takes::Own(Box::new(cluster)),
    });
    rows
}

fn cluster(storing: &mut Storing, given: &Given) -> Result<(), String> {
    match &given.value {
        Value::Text(text) if text == "none" => storing.cluster_deadline = Duration::ZERO,
        _ => storing.cluster_bytes = power_of_two(given, CLUSTER)?,
    }
    Ok(())
}

fn small(given: &Given, bounds: Bounds) -> Result<u32, String> {
    let number = number(given, bounds)?;
    Ok(u32::try_from(number).expect("the bounds above are below 4 GiB"))
}

fn power_of_two(given: &Given, bounds: Bounds) -> Result<u32, String> {
    let bytes = small(given, bounds)?;
    match bytes.is_power_of_two() {
        true => Ok(bytes),
        false => Err("expected a power of two, such as 64KiB, 256KiB or 1MiB".to_owned()),
    }
}

fn percent(given: &Given, bounds: Bounds) -> Result<u8, String> {
    Ok(number(given, bounds)? as u8)
}

fn locality(given: &Given) -> Result<LocalityMode, String> {
    match &given.value {
        Value::Text(text) if text == "auto" => Ok(LocalityMode::Measured),
        _ => Ok(LocalityMode::Servers(number(given, BUFFERS)? as u8)),
    }
}

/// X1
pub fn check(storing: &Storing, whole: &Block, problems: &mut Vec<Problem>) {
    let watermarks = storing.watermarks;
    if watermarks.low_percent >= watermarks.high_percent {
        let key = ["high-watermark", "low-watermark"].map(|name| format!("{SCOPE}{name}"));
        let at = key.iter().find(|key| whole.says(key)).unwrap_or(&key[0]);
        let message = format!(
            "eviction would begin at {} % and end at {} %; the high watermark must be above the low one",
            watermarks.high_percent, watermarks.low_percent
        );
        problems.push(whole.problem(at, message));
    }
}

#[cfg(test)]
mod tests {
    use proxy::plan::Plan;

    use super::*;
    use crate::config::testing::settle;

    fn storing(line: &str) -> Storing {
        let text = format!("store.path = \"/x/a\"\n[experimental]\n{line}\n");
        settle(&text).unwrap().plan.storing
    }

    #[test]
    fn each_mechanism_can_be_switched_off_alone() {
        let usual = Plan::with_listeners(Vec::new()).storing;
        let all = [
            storing("cluster = \"none\""),
            storing("fragment = \"16KiB\""),
            storing("group-reads = 0"),
            storing("locality-buffers = 0"),
        ];
        assert_eq!(all[0].cluster_deadline, Duration::ZERO);
        assert_eq!(all[1].fragment_bytes, 16 << 10);
        assert_eq!(all[2].group_bytes, 0);
        assert_eq!(all[3].locality, LocalityMode::Servers(0));
        assert!(all.iter().all(|one| *one != usual));
        assert_eq!(
            storing("locality-buffers = \"auto\"\ncluster = \"1MiB\""),
            usual
        );
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        for (line, told) in [
            (
                "cluster = \"100KiB\"",
                "loligo.toml:3: experimental.cluster = \"100KiB\": expected a power of two",
            ),
            (
                "fragment = \"4KiB\"",
                "loligo.toml:3: experimental.fragment = \"4KiB\": must be from 16KiB to 8MiB",
            ),
            (
                "high-watermark = 90",
                "eviction would begin at 90 % and end at 95 %",
            ),
            (
                "locality-buffer = 4",
                "did you mean \"experimental.locality-buffers\"",
            ),
        ] {
            let text = format!("store.path = \"/x/a\"\n[experimental]\n{line}\n");
            let problems = settle(&text).err().unwrap();
            let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
            assert!(said.join("\n").contains(told), "{said:?}");
        }
        let both = storing("high-watermark = 80\nlow-watermark = 70");
        assert_eq!(both.watermarks.high_percent, 80);
    }
}
