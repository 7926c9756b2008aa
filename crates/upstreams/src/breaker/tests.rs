//! A breaker with a clock moved by hand, and compared with a slow and obvious model.

use super::*;
use proptest::prelude::*;

const SLOW_START: Duration = Duration::from_secs(10);

/// A breaker, and a clock moved by hand.
struct House {
    breaker: Breaker,
    began: Instant,
    now: Instant,
}

impl House {
    fn new() -> House {
        let now = Instant::now();
        House {
            breaker: Breaker::new(now),
            began: now,
            now,
        }
    }

    fn passes(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn note(&mut self, outcome: Outcome) -> Change {
        self.breaker.note(outcome, false, true, self.now)
    }

    fn admits(&self) -> Admits {
        self.breaker.admits(SLOW_START, self.now)
    }

    fn tries(&mut self, outcome: Outcome) -> Change {
        assert_eq!(self.admits(), Admits::Trial);
        assert!(self.breaker.begin_trial(self.now));
        assert_eq!(self.admits(), Admits::None(None), "one trial at a time");
        assert!(!self.breaker.begin_trial(self.now));
        self.breaker.note(outcome, true, true, self.now)
    }
}

#[test]
fn three_failures_in_a_row_open_it_and_its_share_grows_when_it_is_back() {
    let mut house = House::new();
    for _ in 0..2 {
        assert_eq!(house.note(Outcome::Unreachable), Change::None);
        assert_eq!(house.note(Outcome::Unreachable), Change::None);
        assert_eq!(house.note(Outcome::Well), Change::None);
    }
    house.note(Outcome::Unreachable);
    house.note(Outcome::Unreachable);
    let opened = Change::Opened(Why::Unreachable);
    assert_eq!(house.note(Outcome::Unreachable), opened);
    assert!(matches!(house.admits(), Admits::None(Some(_))));
    house.passes(999);
    assert!(matches!(house.admits(), Admits::None(Some(_))));
    house.passes(1);
    assert_eq!(house.tries(Outcome::Well), Change::Closed);
    assert_eq!(house.admits(), Admits::All(10));
    house.passes(5000);
    assert_eq!(house.admits(), Admits::All(50));
    house.passes(5000);
    assert_eq!(house.admits(), Admits::All(100));
}

#[test]
fn pauses_double_up_to_half_a_minute_until_it_was_well_for_long() {
    let mut house = House::new();
    for _ in 0..FALL {
        house.note(Outcome::Silent);
    }
    for pause_s in [1, 2, 4, 8, 16, 30, 30] {
        house.passes(pause_s * 1000 - 1);
        assert!(matches!(house.admits(), Admits::None(Some(_))), "{pause_s}");
        house.passes(1);
        house.tries(Outcome::Unreachable);
    }
    house.passes(30_000);
    house.tries(Outcome::Well);
    house.passes(29_999);
    for _ in 0..FALL {
        house.note(Outcome::Silent);
    }
    house.passes(29_999);
    assert!(matches!(house.admits(), Admits::None(Some(_))));
    house.passes(1);
    house.tries(Outcome::Well);
    house.passes(30_000);
    for _ in 0..FALL {
        house.note(Outcome::Silent);
    }
    house.passes(1000);
    assert_eq!(house.admits(), Admits::Trial);
}

#[test]
fn more_than_half_of_twenty_bad_answers_open_it() {
    let mut house = House::new();
    for _ in 0..10 {
        assert_eq!(house.note(Outcome::Bad), Change::None);
        assert_eq!(house.note(Outcome::Well), Change::None);
    }
    assert_eq!(house.note(Outcome::Bad), Change::Opened(Why::Errors));

    let mut house = House::new();
    (0..19).for_each(|_| assert_eq!(house.note(Outcome::Bad), Change::None));
    // The failures before are forgotten.
    house.passes(10_000);
    assert_eq!(house.note(Outcome::Bad), Change::None);
}

#[test]
fn twenty_bad_answers_in_a_row_open_it_however_well_it_was_before() {
    let mut house = House::new();
    for _ in 0..20 {
        (0..1000).for_each(|_| assert_eq!(house.note(Outcome::Well), Change::None));
        (0..19).for_each(|_| assert_eq!(house.note(Outcome::Bad), Change::None));
    }
    house.note(Outcome::Well);
    (0..10).for_each(|_| assert_eq!(house.note(Outcome::Bad), Change::None));
    // Kinds of failures count together, even if each kind alone is too rare.
    (0..9).for_each(|n| {
        let kind = [Outcome::Silent, Outcome::Bad][n % 2];
        assert_eq!(house.note(kind), Change::None);
    });
    assert_eq!(house.note(Outcome::Bad), Change::Opened(Why::Errors));
}

#[test]
fn a_judgement_may_be_forbidden_and_a_fact_may_not() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now);
    let mut last = Change::None;
    for _ in 0..40 {
        last = breaker.note(Outcome::Bad, false, false, now);
    }
    assert_eq!(last, Change::Spared);
    assert_eq!(breaker.admits(SLOW_START, now), Admits::All(100));
    for _ in 0..FALL {
        last = breaker.note(Outcome::Unreachable, false, false, now);
    }
    // Errors are spared first; failed connections open the breaker in any case.
    assert_eq!(last, Change::Opened(Why::Unreachable));
    // The server is back and answers badly: a judgement again.
    let later = now + PAUSE_MIN;
    assert!(breaker.begin_trial(later));
    let back = breaker.note(Outcome::Bad, true, false, later);
    assert_eq!(back, Change::Spared);
    assert!(matches!(breaker.admits(SLOW_START, later), Admits::All(10)));
}

#[test]
fn a_trial_that_tells_nothing_makes_room_for_the_next() {
    let mut house = House::new();
    for _ in 0..FALL {
        house.note(Outcome::Unreachable);
    }
    house.passes(1000);
    assert!(house.breaker.begin_trial(house.now));
    // Requests sent before it was opened do not show the present state.
    assert_eq!(house.note(Outcome::Well), Change::None);
    assert_eq!(house.admits(), Admits::None(None));
    house.breaker.give_up_trial(house.now);
    assert_eq!(house.tries(Outcome::Well), Change::Closed);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Passes(u64),
    Answer(Outcome),
    Trial(Outcome),
    LosesTrial,
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    use Outcome::{Bad, Silent, Unreachable, Well};
    prop_oneof![4 => Just(Well), 3 => Just(Bad), 2 => Just(Silent), 2 => Just(Unreachable)]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u64..3000).prop_map(Step::Passes),
        1 => (0u64..40_000).prop_map(Step::Passes),
        20 => outcomes().prop_map(Step::Answer),
        4 => outcomes().prop_map(Step::Trial),
        1 => Just(Step::LosesTrial),
    ]
}

/// The slow and obvious model: everything that has happened since it was last closed.
#[derive(Default)]
struct Model {
    answers: Vec<(Instant, Outcome)>,
    open: Option<(Why, Instant)>,
    pause_s: u64,
    closed: Option<Instant>,
}

impl Model {
    fn verdict(&self, began: Instant, now: Instant) -> Option<Why> {
        let last_are = |outcome| {
            let last = self.answers.iter().rev().take(FALL as usize);
            self.answers.len() >= FALL as usize && last.clone().all(|(_, it)| *it == outcome)
        };
        // The window counts whole seconds.
        let second = |at: Instant| at.duration_since(began).as_secs();
        let recent = || {
            let is_recent = |(at, _): &&(Instant, Outcome)| second(*at) + 10 > second(now);
            self.answers.iter().filter(is_recent)
        };
        let bad = recent().filter(|(_, it)| *it != Outcome::Well).count();
        let last_bad = self.answers.iter().rev();
        let in_a_row = last_bad.take_while(|(_, it)| *it != Outcome::Well).count();
        if self.answers.last()?.1 == Outcome::Well {
            None
        } else if last_are(Outcome::Unreachable) {
            Some(Why::Unreachable)
        } else if last_are(Outcome::Silent) {
            Some(Why::Silent)
        } else if recent().count() >= SAMPLE_MIN as usize && bad * 2 > recent().count()
            || in_a_row.min(bad) >= SAMPLE_MIN as usize
        {
            Some(Why::Errors)
        } else {
            None
        }
    }

    fn opens(&mut self, why: Why, now: Instant) {
        self.open = Some((why, now + Duration::from_secs(self.pause_s)));
        self.pause_s = (self.pause_s * 2).min(30);
        self.answers.clear();
    }
}

proptest! {
    #[test]
    fn a_flapping_server_is_as_the_model_says(steps in prop::collection::vec(steps(), 1..400)) {
        let mut house = House::new();
        let mut model = Model { pause_s: 1, ..Model::default() };
        for step in steps {
            match step {
                Step::Passes(ms) => house.passes(ms),
                Step::Answer(outcome) => {
                    let change = house.note(outcome);
                    if model.open.is_some() {
                        prop_assert_eq!(change, Change::None);
                    } else {
                        model.answers.push((house.now, outcome));
                        match model.verdict(house.began, house.now) {
                            None => prop_assert_eq!(change, Change::None),
                            Some(why) => {
                                prop_assert_eq!(change, Change::Opened(why));
                                let well = |at: Instant| house.now - at >= Duration::from_secs(30);
                                if model.closed.is_none_or(well) {
                                    model.pause_s = 1;
                                }
                                model.opens(why, house.now);
                            }
                        }
                    }
                }
                Step::Trial(_) | Step::LosesTrial => {
                    let is_due = model.open.is_some_and(|(_, until)| house.now >= until);
                    prop_assert_eq!(house.breaker.begin_trial(house.now), is_due);
                    match step {
                        Step::Trial(outcome) if is_due => {
                            house.breaker.note(outcome, true, true, house.now);
                            match outcome {
                                Outcome::Well => {
                                    (model.open, model.closed) = (None, Some(house.now));
                                }
                                Outcome::Bad => model.opens(Why::Errors, house.now),
                                Outcome::Silent => model.opens(Why::Silent, house.now),
                                Outcome::Unreachable => model.opens(Why::Unreachable, house.now),
                            }
                        }
                        Step::LosesTrial if is_due => {
                            house.breaker.give_up_trial(house.now);
                            if let Some((_, until)) = &mut model.open {
                                *until = house.now;
                            }
                        }
                        _ => {}
                    }
                }
            }
            let wanted = match (model.open, model.closed) {
                (Some((_, until)), _) if house.now >= until => Admits::Trial,
                (Some((_, until)), _) => Admits::None(Some(until)),
                (None, None) => Admits::All(100),
                (None, Some(closed)) => {
                    let ms = (house.now - closed).as_millis() as u32;
                    Admits::All((ms / 100).clamp(10, 100))
                }
            };
            prop_assert_eq!(house.admits(), wanted);
        }
    }
}
