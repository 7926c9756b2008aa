//! A node and simple fronts: what each front believes after it has applied all frames. The view's own tests and the simulation use a real
//! front.

use std::collections::BTreeSet;

use super::*;

/// A front as a set of marks.
#[derive(Default)]
struct Believer {
    marks: BTreeSet<u64>,
    label: u64,
}

impl Believer {
    fn enact(&mut self, frame: Frame) {
        match frame {
            Frame::Full(full) => {
                if full.page == 0 || matches!(full.content, Page::Bitmap(_)) {
                    self.marks.clear();
                }
                match full.content {
                    Page::Numbers(numbers) => self.marks.extend(numbers),
                    Page::Bitmap(bytes) => {
                        let set = |p: &u64| bytes[*p as usize / 8] >> (p % 8) & 1 == 1;
                        self.marks.extend((0..bytes.len() as u64 * 8).filter(set));
                    }
                }
                self.label = full.label;
            }
            Frame::Update(update) => {
                assert_eq!(update.label, self.label + 1, "nothing is left out");
                for entry in update.entries {
                    match entry.set {
                        true => self.marks.insert(entry.mark),
                        false => self.marks.remove(&entry.mark),
                    };
                }
                self.label = update.label;
            }
            other => panic!("{other:?}"),
        }
    }

    fn catch_up(&mut self, registrar: &mut Registrar, front: Front) {
        registrar.close_update();
        while let Some(frame) = registrar.next_frame(front) {
            self.enact(frame);
        }
    }

    fn known(&self) -> Known {
        Known {
            incarnation: 1,
            label: self.label,
        }
    }
}

const A: Front = Front(0);
const B: Front = Front(1);

fn node() -> Registrar {
    Registrar::new(0, Kind::Directory, 1, Limits::default())
}

fn followed() -> (Registrar, Believer, Believer) {
    let mut node = node();
    let (mut a, mut b) = (Believer::default(), Believer::default());
    assert!(node.subscribe(A, None) && node.subscribe(B, None));
    a.catch_up(&mut node, A);
    b.catch_up(&mut node, B);
    (node, a, b)
}

fn marks(believer: &Believer) -> Vec<u64> {
    believer.marks.iter().copied().collect()
}

#[test]
fn the_pusher_is_spared_and_the_others_are_told() {
    let (mut node, mut a, mut b) = followed();
    node.came(&7u64, By::Front(A, a.known()));
    node.came(&8u64, By::Node);
    a.catch_up(&mut node, A);
    b.catch_up(&mut node, B);
    assert_eq!((marks(&a), marks(&b)), (vec![8], vec![7, 8]));
    node.left(&7u64);
    a.catch_up(&mut node, A);
    b.catch_up(&mut node, B);
    assert_eq!((marks(&a), marks(&b)), (vec![8], vec![8]));
    assert_eq!(node.figures().spared, 1);
}

//= paper 003 section 5   an exception is made when the previous clear has not reached the accelerator before it pushed the object
#[test]
fn the_pusher_is_told_of_what_was_cleared_behind_its_label() {
    let (mut node, mut a, _) = followed();
    node.came(&7u64, By::Node);
    a.catch_up(&mut node, A);
    // The name leaves. Before the front hears of it, it registers the name again and pushes.
    node.left(&7u64);
    node.close_update();
    let known = a.known();
    a.marks.insert(7);
    node.came(&7u64, By::Front(A, known));
    a.catch_up(&mut node, A);
    assert_eq!(marks(&a), [7]);
    assert_eq!(node.figures().told_pushers, 1);
}

#[test]
fn the_pusher_is_told_of_what_its_full_copy_has_wiped() {
    let (mut node, mut a, _) = followed();
    let known = a.known();
    a.marks.insert(7);
    node.subscribe(A, None);
    a.catch_up(&mut node, A);
    node.came(&7u64, By::Front(A, known));
    a.catch_up(&mut node, A);
    assert_eq!(marks(&a), [7]);
}

#[test]
fn what_was_withdrawn_is_cleared_unless_it_is_there() {
    let (mut node, mut a, _) = followed();
    node.came(&7u64, By::Node);
    a.marks.extend([7, 8]);
    node.withdrawn(&7u64);
    node.withdrawn(&8u64);
    a.catch_up(&mut node, A);
    assert_eq!(marks(&a), [7]);
}

#[test]
fn an_expected_name_counts_as_pushed_once() {
    let (mut node, mut a, mut b) = followed();
    node.expect(&7u64, A, a.known());
    node.came(&7u64, By::Node);
    a.catch_up(&mut node, A);
    assert!(a.marks.is_empty(), "it has registered it by itself");
    node.left(&7u64);
    node.came(&7u64, By::Node);
    a.catch_up(&mut node, A);
    b.catch_up(&mut node, B);
    assert_eq!((marks(&a), marks(&b)), (vec![7], vec![7]));
}

#[test]
fn who_comes_back_gets_what_it_missed_or_a_full_copy() {
    let (mut node, mut a, _) = followed();
    let known = a.known();
    node.unsubscribe(A);
    node.came(&7u64, By::Node);
    node.close_update();
    node.subscribe(A, Some(known));
    assert!(matches!(node.next_frame(A), Some(Frame::Update(_))));
    node.subscribe(A, Some(known));
    a.catch_up(&mut node, A);
    assert_eq!(marks(&a), [7]);
    // There is no subscriber: changes are recorded for a while,
    node.unsubscribe(A);
    node.unsubscribe(B);
    node.came(&8u64, By::Node);
    node.close_update();
    node.subscribe(A, Some(a.known()));
    assert!(matches!(node.next_frame(A), Some(Frame::Update(_))));
    node.subscribe(A, Some(a.known()));
    a.catch_up(&mut node, A);
    assert_eq!(marks(&a), [7, 8]);
    // but not for ever.
    let known = a.known();
    node.unsubscribe(A);
    let many = Limits::default().history as u64 + 10;
    (100..100 + many).for_each(|number| node.came(&number, By::Node));
    assert!(node.history_entries + node.log.len() <= Limits::default().history);
    assert!(!node.is_noting);
    node.subscribe(A, Some(known));
    assert!(matches!(node.next_frame(A), Some(Frame::Full(_))));
    // Another incarnation.
    let foreign = Known {
        incarnation: 2,
        ..a.known()
    };
    node.subscribe(A, Some(foreign));
    assert!(matches!(node.next_frame(A), Some(Frame::Full(_))));
}

#[test]
fn who_falls_behind_gets_a_full_copy_and_memory_stays_bounded() {
    let limits = Limits {
        entries: 10,
        history: 20,
        ..Limits::default()
    };
    let mut node = Registrar::new(0, Kind::Directory, 1, limits);
    let mut a = Believer::default();
    node.subscribe(A, None);
    a.catch_up(&mut node, A);
    for number in 0..1000u64 {
        node.came(&number, By::Node);
        assert!(node.history_entries <= 20 && node.log.len() < 10);
    }
    a.catch_up(&mut node, A);
    assert_eq!(a.marks.len(), 1000);
    assert_eq!(node.figures().fell_behind, 1);
    assert_eq!(node.figures().entries_max, 10);
}

#[test]
fn what_was_told_stays_told_while_everything_is_made_anew() {
    for kind in [
        Kind::Directory,
        Kind::Bloom(Shape::new(1 << 12, 4).unwrap()),
    ] {
        let mut node = Registrar::new(0, kind, 1, Limits::default());
        let mut a = Believer::default();
        node.subscribe(A, None);
        (0..50u64).for_each(|number| node.came(&number, By::Node));
        a.catch_up(&mut node, A);
        let before = marks(&a);
        node.begin_anew();
        (0..20u64).for_each(|number| node.came(&number, By::Node));
        node.left(&3u64);
        a.catch_up(&mut node, A);
        assert_eq!(marks(&a), before);
        // A front that subscribes meanwhile is told the same.
        let mut b = Believer::default();
        node.subscribe(B, None);
        b.catch_up(&mut node, B);
        assert_eq!(marks(&b), before);
        (20..40u64).for_each(|number| node.came(&number, By::Node));
        node.end_anew();
        a.catch_up(&mut node, A);
        b.catch_up(&mut node, B);
        assert_eq!(marks(&a), marks(&b));
        assert!(marks(&a).iter().all(|&mark| node.is_told(mark)));
        assert!(a.marks.len() < before.len());
        assert_eq!(node.names(), 39);
    }
}

/// Seed 58 of the simulation: the front was away at the end of a rebuilding, went on from its label, and believed in removed names for ever.
#[test]
fn who_was_away_when_everything_was_made_anew_gets_a_full_copy() {
    let (mut node, mut a, mut b) = followed();
    node.came(&7u64, By::Node);
    a.catch_up(&mut node, A);
    node.begin_anew();
    node.unsubscribe(A);
    node.end_anew();
    node.came(&8u64, By::Node);
    b.catch_up(&mut node, B);
    node.subscribe(A, Some(a.known()));
    a.catch_up(&mut node, A);
    assert_eq!((marks(&a), marks(&b)), (vec![8], vec![8]));
}

#[test]
fn subscribers_and_expectations_are_bounded() {
    let mut node = node();
    let fronts = (0..).map(Front).take(SUBSCRIBERS_MAX + 1);
    let accepted: Vec<bool> = fronts.map(|front| node.subscribe(front, None)).collect();
    assert_eq!(
        accepted.iter().filter(|&&is_in| is_in).count(),
        SUBSCRIBERS_MAX
    );
    for number in 0..EXPECTED_MAX as u64 + 10 {
        node.expect(&number, A, Known::default());
    }
    assert_eq!(node.figures().expected_lost, 10);
    assert_eq!(node.expected.by.len(), EXPECTED_MAX);
}
