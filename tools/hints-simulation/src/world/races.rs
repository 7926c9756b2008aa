//! The ten races of the accelerator's design, each as a fixed schedule.
//!
//! [`race`] plays a schedule without mistakes, and all rules must hold in the end. Then it plays the schedule with each mistake that
//! disables a rule against this race, and the schedule must fail in the way given beside the mistake.
//!
//! In schedules nodes come before fronts: `push(1, 0, name)` is to node 1 by front 0.

use super::*;
use crate::Mistake;
use crate::check;
use crate::node::segment;
use hints::Kind;
use hints::bloom::Shape;
use hints::registrar::Limits;

/// Number of names that may be stored.
const NAMES: usize = 20;
/// A name for every schedule.
const X: u64 = 7;

type Played = Result<(), String>;

/// A world in which only the events of the schedule happen.
struct Scene(World);

fn filter() -> Kind {
    Kind::Bloom(Shape::new(256, 3).unwrap())
}

/// See the module.
fn race(
    begin: impl Fn() -> Scene,
    rules: &[(Mistake, &str)],
    schedule: impl Fn(&mut Scene) -> Played,
) {
    let play = |mistake| {
        hints::mistakes::make_mistake(mistake);
        let mut scene = begin();
        let played = scene.rest().and_then(|()| schedule(&mut scene));
        hints::mistakes::make_mistake(None);
        played.inspect_err(|_| scene.0.story.iter().for_each(|line| println!("  {line}")))
    };
    assert_eq!(play(None), Ok(()));
    for &(mistake, rule) in rules {
        let message = play(Some(mistake)).expect_err(mistake.name());
        let is_it = message.contains(rule);
        assert!(is_it, "{}: {message}", mistake.name());
    }
}

/// Fails a schedule if its race does not happen.
fn expect(is_so: bool, what: &str) -> Played {
    is_so.then_some(()).ok_or_else(|| format!("not so: {what}"))
}

impl Scene {
    fn new(kind: Kind, nodes: usize, fronts: usize) -> Scene {
        Scene::with(kind, nodes, fronts, NAMES, Limits::default())
    }

    fn with(kind: Kind, nodes: usize, fronts: usize, names: usize, limits: Limits) -> Scene {
        let setting = Setting {
            fronts,
            nodes,
            names,
            columns_expected: 2,
            refused_percent: 0,
            loses_pushes: false,
            tells: true,
        };
        let make = Make {
            kind,
            limits,
            stores: 1,
            names_max: names,
            notes_max: 1000,
            share_seed: true,
        };
        Scene(World::new(setting, make, Chance::new(1)))
    }

    /// The registrar takes all reports and notes of the node's stores.
    fn follow(&mut self, node: usize) {
        for store in &mut self.0.nodes[node].stores {
            store.hear();
            store.follow();
            while store.list() {}
        }
    }

    fn fetch(&mut self, node: usize, name: u64) {
        self.0.fetch(node, name);
        self.follow(node);
    }

    fn evict(&mut self, node: usize, name: u64) {
        self.0.nodes[node].store_of(name).remove(name);
        self.follow(node);
    }

    /// Closes an update of all changes, and sends it to all fronts.
    fn update(&mut self, node: usize) {
        self.0.close_updates(node);
        for front in 0..self.0.fronts.len() {
            self.0.node_sends_all(front, node);
        }
    }

    /// The front reads all frames in flight.
    fn read(&mut self, node: usize, front: usize) {
        while !self.0.links[front][node].to_front.is_empty() {
            self.0.front_reads(front, node);
        }
    }

    /// The front registers a name; its push waits in the queue.
    fn register(&mut self, node: usize, front: usize, name: u64) {
        self.0.begin_push(front, node, name);
    }

    /// The front registers a name and pushes it.
    fn push(&mut self, node: usize, front: usize, name: u64) {
        self.register(node, front, name);
        self.0.send_queued();
    }

    /// The oldest push arrives, and so does its answer.
    fn arrive(&mut self, is_refused: bool) {
        let node = self.0.pushes[0].node;
        self.0.take_push(0, is_refused, true);
        self.follow(node);
        while !self.0.answers.is_empty() {
            self.0.answer_arrives();
        }
    }

    /// The node reads all frames in flight.
    fn hear(&mut self, node: usize, front: usize) {
        while !self.0.links[front][node].to_node.is_empty() {
            self.0.node_reads(front, node);
        }
        self.follow(node);
    }

    fn finds(&mut self, node: usize, front: usize, name: u64) -> bool {
        self.0.fronts[front].nodes(name) >> node & 1 == 1
    }

    /// Delivers everything and checks all rules.
    fn rest(&mut self) -> Played {
        for node in 0..self.0.nodes.len() {
            self.follow(node);
            self.0.nodes[node].is_hung = false;
        }
        self.0.deliver_all()?;
        check::at_rest(&mut self.0)
    }

    fn label(&self, node: usize) -> u64 {
        self.0.nodes[node].stores[0].registrar.label()
    }

    /// Two names with a common mark.
    fn alike(&self) -> (u64, u64) {
        let marks = |name| -> BTreeSet<u32> {
            let Kind::Bloom(shape) = filter() else {
                return BTreeSet::new();
            };
            let trace = self.0.nodes[0].stores[0].trace(name);
            shape.positions(trace).collect()
        };
        let names = 0..NAMES as u64;
        let mut pairs = names.flat_map(|a| (0..a).map(move |b| (a, b)));
        let are_alike = |&(a, b): &(u64, u64)| marks(a).intersection(&marks(b)).count() == 1;
        pairs.find(are_alike).expect("a filter is small")
    }
}

#[test]
fn race_1_a_mark_is_cleared_while_a_push_that_has_it_is_under_way() {
    let begin = || Scene::new(filter(), 1, 2);
    race(begin, &[(Mistake::ForgetCleared, "R1")], |scene| {
        let (before, pushed) = scene.alike();
        scene.fetch(0, before);
        scene.rest()?;
        scene.evict(0, before);
        scene.update(0);
        // The front has not read the update yet.
        scene.push(0, 0, pushed);
        expect(scene.finds(0, 0, pushed), "it is registered at once")?;
        scene.read(0, 0);
        expect(!scene.finds(0, 0, pushed), "the update clears its mark")?;
        scene.arrive(false);
        scene.rest()
    });
}

#[test]
fn race_2_a_push_is_refused() {
    let begin = || Scene::new(filter(), 1, 2);
    let rules = [
        (Mistake::KeepWithdrawn, "R2"),
        (Mistake::ForgetWithdrawn, "R2"),
    ];
    race(begin, &rules, |scene| {
        let (there, pushed) = scene.alike();
        scene.fetch(0, there);
        scene.rest()?;
        scene.push(0, 0, pushed);
        scene.arrive(true);
        expect(scene.finds(0, 0, pushed), "nobody has cleared it yet")?;
        // Marks that it has in common with another name stay set.
        scene.rest()
    });
}

#[test]
fn race_2_a_push_is_given_up_and_arrives_all_the_same() {
    for kind in [filter(), Kind::Directory] {
        let begin = || Scene::new(kind, 1, 2);
        race(begin, &[(Mistake::ForgetCleared, "R1")], |scene| {
            scene.push(0, 0, X);
            scene.0.pushes[0].is_given_up = true;
            scene.0.withdraw(0, scene.0.fronts[0].life, 0, X);
            scene.hear(0, 0);
            scene.update(0);
            scene.read(0, 0);
            expect(!scene.finds(0, 0, X), "the node has cleared it")?;
            scene.arrive(false);
            scene.rest()
        });
    }
}

#[test]
fn race_2_the_withdrawal_of_a_refused_push_is_lost_with_its_link() {
    // The withdrawal is sent and not heard, or not sent at all.
    for is_sent in [true, false] {
        let begin = || Scene::new(filter(), 1, 2);
        race(begin, &[(Mistake::ForgetLost, "R2")], |scene| {
            scene.push(0, 0, X);
            if !is_sent {
                scene.0.break_link(0, 0);
            }
            scene.arrive(true);
            if is_sent {
                scene.0.break_link(0, 0);
            }
            expect(!scene.finds(0, 0, X), "nothing is asked of it")?;
            scene.rest()
        });
    }
}

#[test]
fn race_3_what_came_before_a_push_is_evicted_while_that_is_under_way() {
    for kind in [filter(), Kind::Directory] {
        let begin = || Scene::new(kind, 1, 2);
        let rules = [(Mistake::ForgetCleared, "R1"), (Mistake::LabelLate, "R1")];
        race(begin, &rules, |scene| {
            scene.fetch(0, X);
            scene.rest()?;
            scene.register(0, 0, X);
            scene.evict(0, X);
            scene.update(0);
            scene.read(0, 0);
            expect(!scene.finds(0, 0, X), "the update clears it")?;
            // The push is sent only now, with the label that it was registered at.
            scene.0.send_queued();
            scene.arrive(false);
            scene.rest()
        });
    }
}

#[test]
fn race_4_two_fronts_push_one_name_to_two_nodes() {
    let begin = || Scene::new(filter(), 2, 2);
    race(begin, &[(Mistake::TellPusherOnly, "R1")], |scene| {
        scene.push(0, 0, X);
        scene.push(1, 1, X);
        expect(!scene.finds(1, 0, X), "it knows its own push alone")?;
        scene.arrive(false);
        scene.arrive(false);
        scene.rest()?;
        expect(
            scene.finds(0, 1, X) && scene.finds(1, 0, X),
            "all know both",
        )
    });
}

#[test]
fn race_4_two_fronts_push_one_name_to_one_node() {
    for kind in [filter(), Kind::Directory] {
        let begin = || Scene::new(kind, 1, 3);
        let rules = [(Mistake::TellPusherOnly, "R1"), (Mistake::PushesLast, "R2")];
        race(begin, &rules, |scene| {
            scene.push(0, 0, X);
            scene.push(0, 1, X);
            scene.arrive(false);
            scene.arrive(false);
            scene.rest()?;
            expect(scene.finds(0, 2, X), "the third is told")?;
            // The node stored the name once, so it leaves once.
            scene.evict(0, X);
            scene.rest()?;
            expect(!scene.finds(0, 0, X), "it has left")?;
            // The name comes and leaves within one update.
            scene.push(0, 0, X);
            scene.arrive(false);
            scene.evict(0, X);
            scene.rest()
        });
    }
}

#[test]
fn race_5_a_front_starts_anew_and_a_push_of_its_former_life_arrives() {
    for kind in [filter(), Kind::Directory] {
        let begin = || Scene::new(kind, 1, 2);
        race(begin, &[(Mistake::ForgetFullCopy, "R1")], |scene| {
            scene.push(0, 0, X);
            scene.0.restart_front(0);
            scene.rest()?;
            expect(!scene.finds(0, 0, X), "its full copy does not have it")?;
            scene.arrive(false);
            scene.rest()
        });
    }
}

#[test]
fn race_6_a_node_starts_anew_without_what_it_had() {
    for kind in [filter(), Kind::Directory] {
        let begin = || Scene::new(kind, 1, 2);
        race(begin, &[(Mistake::KeepColumn, "R2")], |scene| {
            scene.fetch(0, X);
            scene.rest()?;
            let label = scene.label(0);
            scene.0.restart_node_with(0, vec![BTreeSet::new()]);
            scene.follow(0);
            // The other front is told first, and the labels of the new life reach those of the former life.
            while scene.label(0) < label {
                scene.fetch(0, X + 1);
                scene.evict(0, X + 1);
                scene.0.deliver(1, 0);
            }
            expect(!scene.finds(0, 0, X), "the node is not linked")?;
            scene.rest()
        });
    }
}

#[test]
fn race_6_a_node_starts_anew_and_a_push_for_its_former_life_arrives() {
    for kind in [filter(), Kind::Directory] {
        let begin = || Scene::new(kind, 1, 2);
        race(begin, &[(Mistake::ForgetIncarnation, "R1")], |scene| {
            for _ in 0..5 {
                scene.fetch(0, X + 1);
                scene.evict(0, X + 1);
                scene.rest()?;
            }
            let label = scene.label(0);
            scene.push(0, 0, X);
            scene.0.restart_node_with(0, vec![BTreeSet::new()]);
            scene.rest()?;
            expect(scene.label(0) < label, "the labels begin again")?;
            expect(!scene.finds(0, 0, X), "its column is another one")?;
            scene.arrive(false);
            scene.rest()
        });
    }
}

#[test]
fn race_7_an_update_is_lost_or_comes_late_or_twice() {
    let spoil: [fn(&mut VecDeque<Vec<u8>>); 3] = [
        |queue| drop(queue.remove(1)),
        |queue| queue.swap(0, 1),
        |queue| queue.push_back(queue[0].clone()),
    ];
    for spoil in spoil {
        let begin = || Scene::new(filter(), 1, 2);
        race(begin, &[(Mistake::IgnoreGap, "node 0 ")], |scene| {
            scene.fetch(0, X);
            scene.update(0);
            scene.evict(0, X);
            scene.fetch(0, X + 1);
            scene.update(0);
            scene.fetch(0, X + 2);
            scene.update(0);
            let queue = &mut scene.0.links[0][0].to_front;
            expect(queue.len() == 3, "three updates are on their way")?;
            spoil(queue);
            scene.read(0, 0);
            let is_up = scene.0.links[0][0].is_up;
            scene.rest()?;
            expect(!is_up, "the front has closed the link")
        });
    }
}

#[test]
fn race_7_a_front_is_away_for_longer_than_updates_are_kept() {
    let limits = Limits {
        entries: 6,
        history: 6,
        ..Limits::default()
    };
    let begin = || Scene::with(filter(), 1, 2, NAMES, limits);
    race(
        begin,
        &[(Mistake::SkipForgotten, "without an end")],
        |scene| {
            scene.fetch(0, X);
            scene.rest()?;
            scene.0.break_link(0, 0);
            scene.evict(0, X);
            for name in 0..5 {
                scene.fetch(0, name);
                scene.update(0);
            }
            scene.rest()
        },
    );
}

#[test]
fn race_8_counts_are_made_anew_while_things_change() {
    // One mark a name: a counter of four bits is stuck at its sixteenth name.
    let kind = Kind::Bloom(Shape::new(64, 1).unwrap());
    let begin = || Scene::with(kind, 1, 2, 2000, Limits::default());
    let rules = [
        (Mistake::AnewBare, "R1"),
        (Mistake::AnewQuietly, "R2"),
        (Mistake::ResumeAcrossAnew, "R2"),
    ];
    race(begin, &rules, |scene| {
        let Kind::Bloom(shape) = kind else {
            return Ok(());
        };
        let store = &scene.0.nodes[0].stores[0];
        let mark = |name: &u64| shape.positions(store.trace(*name)).next();
        let crowd: Vec<u64> = (0..2000).filter(|name| mark(name) == mark(&0)).collect();
        let crowd = &crowd[..16];
        let first = |at: usize| crowd.iter().copied().find(|&name| segment(name) == at);
        let (Some(listed), Some(last)) = (first(0), first(3)) else {
            return Err("the crowd is in all segments".into());
        };
        for &name in crowd {
            scene.0.fetch(0, name);
        }
        let store = &mut scene.0.nodes[0].stores[0];
        store.follow();
        expect(
            !store.is_settled(),
            "the counter sticks, and all is counted anew",
        )?;
        scene.update(0);
        scene.read(0, 0);
        scene.read(0, 1);
        scene.0.break_link(1, 0);
        // These names are not counted yet, so their leaving is not noted.
        let store = &mut scene.0.nodes[0].stores[0];
        for &name in crowd.iter().filter(|&&name| name != listed && name != last) {
            store.remove(name);
        }
        expect(store.list(), "the first segment is counted")?;
        store.remove(listed);
        store.follow();
        scene.update(0);
        scene.read(0, 0);
        let is_found = scene.finds(0, 0, last);
        expect(is_found, "").map_err(|_| "R1: half of the counts are told")?;
        scene.0.nodes[0].stores[0].remove(last);
        scene.rest()?;
        expect(!scene.finds(0, 1, last), "nobody has it")
    });
}

#[test]
fn race_9_a_purge_comes_between_the_fetch_and_the_push() {
    for kind in [filter(), Kind::Directory] {
        let begin = || Scene::new(kind, 1, 2);
        let rules = [(Mistake::KeepLeft, "R2"), (Mistake::KeepWithdrawn, "R2")];
        race(begin, &rules, |scene| {
            scene.fetch(0, X);
            scene.rest()?;
            scene.push(0, 0, X + 1);
            // Both are purged. The fetch began before the purge, so the node refuses the push.
            scene.evict(0, X);
            scene.arrive(true);
            expect(scene.finds(0, 0, X) && scene.finds(0, 0, X + 1), "not told")?;
            scene.rest()
        });
    }
}

#[test]
fn race_10_what_has_expired_stays_hinted_and_is_replaced() {
    let begin = || Scene::new(Kind::Directory, 1, 2);
    race(begin, &[(Mistake::TellReplaced, "R3")], |scene| {
        scene.fetch(0, X);
        scene.rest()?;
        let label = scene.label(0);
        // A front asks the node for it; the node validates it and stores the newer version.
        expect(scene.finds(0, 0, X), "it is a hint as before")?;
        scene.fetch(0, X);
        scene.rest()?;
        expect(scene.label(0) == label, "there is nothing to tell")?;
        scene.evict(0, X);
        scene.rest()
    });
}
