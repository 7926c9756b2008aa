//! How a test differs from the specification, in sentences, for readers who compare its figures with published ones.
//!
//! Not known here: results of the test.   Limits: none.   Source: spec sections 2 to 6.

use crate::Mix;
use crate::content::KB;
use crate::phases::Sizing;
use crate::report::Plan;
use crate::robots::robots_for;
use crate::run::{scale_text, servers_for};

/// Directly requested objects for each cachable miss: a third of the replies, of which four in five are cachable.
const DIRECT_SHARE: f64 = 0.35 / 0.80;
/// A hot set is a hundredth of a list, but at least one object. In lists shorter than this it is more than a hundredth.
const HOT_LIST_LEAST: f64 = 100.0;
/// Two of a server's lists have nearly all of its objects.
const LISTS: f64 = 2.0;
/// Mean bytes of a cachable object.
const FILL_BYTES_MEAN: f64 = 10.5 * KB;

/// The differences of this test, a sentence each; empty if it is the workload as specified.
#[must_use]
pub fn left_out(plan: &Plan) -> Vec<String> {
    let mut all = Vec::new();
    let specified = servers_for(plan.rate);
    time(plan, &mut all);
    servers_side(plan, &mut all);
    if plan.servers < specified {
        all.push(format!(
            "{} servers instead of {specified}: fewer lists of objects, so hits come more easily",
            plan.servers
        ));
    }
    let objects = objects_a_list(plan);
    if objects < HOT_LIST_LEAST {
        all.push(format!(
            "a small world: about {objects:.1} objects in a list, so the hot set is larger than a hundredth and lists may be empty",
        ));
    }
    if plan.robots < robots_for(plan.rate) {
        all.push(format!(
            "{} robots instead of {}, each so much faster: fewer connections, shorter queues in robots",
            plan.robots,
            robots_for(plan.rate)
        ));
    }
    if plan.http != "1.0" {
        all.push(format!("HTTP/{} instead of 1.0", plan.http));
    }
    if plan.mix == Mix::Four && !plan.named {
        all.push("servers have addresses instead of names: nothing is looked up".to_owned());
    }
    if plan.one_address && !plan.named {
        all.push("all servers share an address and are told apart by the path".to_owned());
    }
    if plan.range_share > 0.0 {
        all.push(format!(
            "an addition: {} of plain requests ask for a part",
            plan.range_share
        ));
    }
    if !plan.only.is_empty() {
        all.push(format!("only the phases {}", plan.only.join(", ")));
    }
    all
}

/// Effects of a short time scale.
fn time(plan: &Plan, all: &mut Vec<String>) {
    if plan.time_scale < 1.0 {
        let top_s = 4.0 * 3600.0 * plan.time_scale;
        let set_mib = fills(plan) * FILL_BYTES_MEAN / (KB * KB);
        all.push(format!(
            "time scale {}: a top phase of {top_s:.0} s instead of four hours, a working set of about {set_mib:.0} MiB instead of {:.0}; what grows slowly (queues, fragmentation, memory) does not show",
            scale_text(plan.time_scale),
            set_mib / plan.time_scale,
        ));
    }
}

/// What is cheaper about a miss than in the specification.
fn servers_side(plan: &Plan, all: &mut Vec<String>) {
    if plan.think_scale < 1.0 {
        all.push(format!(
            "servers think {:.0} ms instead of 2.5 s: a miss holds connections and memory for so much shorter, {:.0} requests wait for servers instead of {:.0}",
            2500.0 * plan.think_scale,
            // Three in five requests reach a server.
            plan.rate * 0.6 * 2.5 * plan.think_scale,
            plan.rate * 0.6 * 2.5,
        ));
    }
    if plan.delay_ms < 40.0 || plan.loss < 0.000_5 {
        all.push(format!(
            "a network of {} ms and {} % loss to the servers instead of 40 ms and 0.05 %",
            plan.delay_ms,
            100.0 * plan.loss
        ));
    }
}

#[allow(clippy::cast_precision_loss)]
fn fills(plan: &Plan) -> f64 {
    let sizing = Sizing {
        mix: plan.mix,
        rate: plan.rate,
        fill_rate: plan.fill_rate,
        cache_bytes: plan.cache_bytes,
        time_scale: plan.time_scale,
    };
    sizing.working_set_fills() as f64
}

/// Objects of the working set in a list. Lists of downloads, which are few, are not counted.
fn objects_a_list(plan: &Plan) -> f64 {
    fills(plan) * DIRECT_SHARE / f64::from(plan.servers) / LISTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn whole() -> Plan {
        Plan {
            time_scale: 1.0,
            robots: 250,
            servers: 525,
            ..testing::report("a", 100.0).plan
        }
    }

    #[test]
    fn the_whole_workload_leaves_nothing_out() {
        assert_eq!(left_out(&whole()), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_said() {
        let said = |plan: Plan| {
            let all = left_out(&plan);
            assert_eq!(all.len(), 1, "{all:?}");
            all[0].clone()
        };
        let short = Plan {
            time_scale: 0.1,
            rate: 1000.0,
            robots: 2500,
            servers: 750,
            ..whole()
        };
        assert!(said(short).contains("1440 s instead of four hours"));
        let quick = Plan {
            think_scale: 0.02,
            ..whole()
        };
        assert!(said(quick).contains("50 ms instead of 2.5 s"));
        let near = Plan {
            delay_ms: 0.0,
            ..whole()
        };
        assert!(said(near).starts_with("a network of 0 ms"));
        let few = Plan {
            servers: 24,
            ..whole()
        };
        assert!(said(few).starts_with("24 servers instead of 525"));
        let fast = Plan {
            robots: 100,
            ..whole()
        };
        assert!(said(fast).starts_with("100 robots instead of 250"));
        let unnamed = Plan {
            mix: Mix::Four,
            named: false,
            ..whole()
        };
        assert!(said(unnamed).contains("instead of names"));
        let one = Plan {
            one_address: true,
            named: false,
            ..whole()
        };
        assert!(said(one).contains("share an address"));
        let top = Plan {
            only: vec!["top1".to_owned()],
            ..whole()
        };
        assert_eq!(said(top), "only the phases top1");
    }

    #[test]
    fn a_small_world_is_said() {
        let small = Plan {
            time_scale: 1.0 / 400.0,
            ..whole()
        };
        assert!(left_out(&small)[1].starts_with("a small world: about 0.5 objects"));
    }
}
