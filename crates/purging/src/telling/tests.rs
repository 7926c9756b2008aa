//! What a member that was away is told.

use super::super::change::Change;
use super::super::journal::{Journal, Limits};
use super::super::medium::Medium;
use super::super::stamp::ORIGINS_MAX;
use super::*;

const A: MemberId = MemberId(0);
const B: MemberId = MemberId(1);
const OWN: Origin = Origin(9);

/// Two members and a journal in memory that carries out commands at once.
struct Desk {
    telling: Telling,
    journal: Journal,
    sent: Vec<(MemberId, Message)>,
    answers: Vec<(Ticket, Outcome)>,
    /// Does the journal become durable? `None`: its disk hangs.
    syncs: Option<bool>,
}

impl Desk {
    fn new(bytes_max: u64) -> Desk {
        let limits = Limits {
            bytes_max,
            age_max_s: 1000,
        };
        let medium = Medium::Memory(std::collections::BTreeMap::new());
        let (journal, _) = Journal::open(medium, limits, OWN, 0).unwrap();
        Desk {
            telling: Telling::new(OWN, Stamp(0), journal.first_stamp(), Box::new([11, 12])),
            journal,
            sent: Vec::new(),
            answers: Vec::new(),
            syncs: Some(true),
        }
    }

    fn run(&mut self, now_ms: u64) {
        while let Some(command) = self.telling.poll() {
            match command {
                Command::Send(to, message) => self.sent.push((to, message)),
                Command::Append(entry) => self.journal.append(&entry, 0).unwrap(),
                Command::Sync(stamp) => {
                    if let Some(is_done) = self.syncs {
                        self.telling.synced(stamp, is_done, now_ms);
                    }
                }
                Command::Find(member, token, heard) => {
                    let place = heard.and_then(|heard| self.journal.position_for(&heard));
                    let place = place.ok_or_else(|| self.journal.heard().clone());
                    self.telling.found(member, token, place);
                }
                Command::Read(member, token, from) => {
                    let brought = self.journal.read(from).unwrap();
                    self.telling.read(member, token, brought, true);
                }
                Command::Answer(ticket, outcome) => self.answers.push((ticket, outcome)),
            }
        }
    }

    fn link(&mut self, links: [bool; 2], now_ms: u64) {
        let links = links.map(|is_linked| (is_linked, u64::from(is_linked)));
        self.telling.tick(&links, now_ms);
        self.run(now_ms);
    }

    fn have(&mut self, member: MemberId, heard: u64, now_ms: u64) {
        let mut vector = Vector::default();
        if heard > 0 {
            vector.hear(OWN, Stamp(heard), 0);
        }
        self.telling.have(member, 7, false, vector, now_ms);
        self.run(now_ms);
    }

    fn order(&mut self, ticket: Ticket, now_ms: u64) {
        let waits = Some(Waits {
            ticket,
            until_ms: now_ms + 5000,
            kept_until_ms: now_ms + 4000,
        });
        let change = Bytes::from_static(b"change");
        self.telling.order(change, 0, waits, now_ms);
        self.run(now_ms);
    }

    /// Messages sent to a member since the last call: a letter for each, entries by their number since the start.
    fn sent_to(&mut self, member: MemberId) -> String {
        let of_member = |(to, _): &mut (MemberId, Message)| *to == member;
        let sent = self
            .sent
            .extract_if(.., of_member)
            .map(|(_, message)| match message {
                Message::Ask => "ask".to_owned(),
                Message::Entry { entry, .. } => (entry.stamp.0 as u32).to_string(),
                Message::Also { token, place, .. } => format!("also {token}.{place}"),
                Message::Upto { token, place, .. } => format!("upto {token}.{place}"),
                Message::Lost { .. } => "lost".to_owned(),
                Message::Told { .. } => "told".to_owned(),
                other => format!("{other:?}"),
            });
        sent.collect::<Vec<_>>().join(" ")
    }

    /// A member acknowledges everything.
    fn enact(&mut self, member: MemberId, now_ms: u64) {
        let token = self.telling.tokens;
        self.telling.enacted(member, token, now_ms);
        self.run(now_ms);
    }

    fn done(&mut self, member: MemberId, stamp: u64, now_ms: u64) {
        let stamp = Stamp((1 << 32) + stamp);
        self.telling.done(member, OWN, stamp, now_ms);
        self.run(now_ms);
    }
}

fn with_both() -> Desk {
    let mut desk = Desk::new(1 << 20);
    desk.link([true, true], 10);
    for member in [A, B] {
        desk.have(member, 0, 10);
        assert_eq!(desk.sent_to(member), "ask told");
        assert!(!desk.telling.is_current(member));
        desk.telling.enacted(member, 1 + u64::from(member.0), 10);
        assert!(desk.telling.is_current(member));
    }
    desk
}

#[test]
fn a_purge_is_answered_when_all_have_it() {
    let mut desk = with_both();
    desk.order(1, 20);
    assert_eq!((desk.sent_to(A), desk.sent_to(B)), ("1".into(), "1".into()));
    desk.done(A, 1, 21);
    assert_eq!(desk.answers, []);
    desk.done(B, 1, 22);
    assert_eq!(desk.answers, [(1, Outcome::default())]);
}

#[test]
fn who_has_a_link_and_does_not_answer_is_named() {
    let mut desk = with_both();
    desk.order(1, 20);
    desk.done(A, 1, 21);
    desk.link([true, true], 5019);
    assert_eq!(desk.answers, []);
    desk.link([true, true], 5020);
    let missing = Outcome {
        missing: B.bit(),
        ..Outcome::default()
    };
    assert_eq!(desk.answers, [(1, missing)]);
    desk.done(B, 1, 6000);
    assert_eq!(desk.answers.len(), 1, "an answer is given once");
}

#[test]
fn who_is_away_is_not_waited_for_and_told_when_it_is_back() {
    let mut desk = with_both();
    desk.link([true, false], 100);
    desk.order(1, 900);
    desk.done(A, 1, 901);
    assert_eq!(desk.answers, [], "it may only be late");
    desk.link([true, false], 1000);
    let away = Outcome {
        away: B.bit(),
        ..Outcome::default()
    };
    assert_eq!(desk.answers, [(1, away)]);
    desk.order(2, 1001);
    desk.done(A, 2, 1002);
    assert_eq!(desk.answers[1], (2, away));
    assert_eq!(desk.sent_to(B), "");
    desk.link([true, true], 2000);
    assert!(!desk.telling.is_current(B));
    desk.have(B, 0, 2001);
    assert_eq!(desk.sent_to(B), "ask 1 2 told");
    desk.done(B, 1, 2002);
    desk.done(B, 2, 2002);
    desk.order(3, 2003);
    assert_eq!(desk.sent_to(B), "3", "what comes now follows");
    desk.enact(B, 2004);
    assert!(desk.telling.is_current(B));
}

#[test]
fn who_is_being_told_for_long_is_away_until_it_has_heard_all() {
    let mut desk = with_both();
    desk.link([true, false], 100);
    let missed = WINDOW as u64 + 1;
    for _ in 0..missed {
        let change = Bytes::from_static(b"change");
        desk.telling.order(change, 0, None, 200);
        desk.run(200);
    }
    desk.link([true, true], 2000);
    desk.have(B, 0, 2000);
    desk.sent_to(B);
    desk.order(1, 2001);
    desk.done(A, missed + 1, 2002);
    desk.link([true, true], 2050);
    desk.link([true, true], 3049);
    assert_eq!(desk.answers, [], "it may be told in time");
    desk.link([true, true], 3050);
    let away = Outcome {
        away: B.bit(),
        ..Outcome::default()
    };
    assert_eq!(desk.answers, [(1, away)]);
    for stamp in 1..=missed + 1 {
        desk.done(B, stamp, 3060);
    }
    let last = format!("{} {} told", missed, missed + 1);
    assert_eq!(desk.sent_to(B), last, "also what came meanwhile");
    desk.enact(B, 3070);
    desk.order(2, 5000);
    desk.done(A, missed + 2, 5001);
    desk.link([true, true], 5050);
    assert_eq!(desk.answers.len(), 1, "it is waited for");
    desk.done(B, missed + 2, 5060);
    assert_eq!(desk.answers[1], (2, Outcome::default()));
}

#[test]
fn a_journal_that_is_not_durable_is_said_if_somebody_is_away() {
    let mut desk = with_both();
    desk.syncs = Some(false);
    desk.link([true, false], 100);
    desk.order(1, 2000);
    desk.done(A, 1, 2001);
    assert!(desk.answers[0].1.is_unkept);
}

#[test]
fn our_own_journal_is_waited_for_no_longer_than_is_said() {
    let mut desk = with_both();
    desk.syncs = None;
    desk.link([true, false], 100);
    desk.order(1, 2000);
    desk.done(A, 1, 2001);
    desk.link([true, false], 5999);
    assert_eq!(desk.answers, []);
    desk.link([true, false], 6000);
    assert!(desk.answers[0].1.is_unkept);
}

#[test]
fn who_has_missed_more_than_the_journal_holds_has_lost_it() {
    let mut desk = Desk::new(64 << 10);
    desk.link([true, false], 10);
    desk.have(A, 0, 10);
    desk.enact(A, 10);
    for n in 0..5000 {
        // Each name is on a server of its own, so that no directory can replace them.
        let names = vec![format!("GET http://server-{n}.example/of/its/own").into_bytes()];
        let change = Change::of_unsafe_method(names).encode().unwrap();
        desk.telling.order(change.into(), 0, None, 20 + n);
        desk.run(20 + n);
    }
    desk.link([true, true], 9000);
    desk.have(B, 3, 9001);
    assert_eq!(desk.sent_to(B), "ask lost told");
}

#[test]
fn a_purge_that_comes_while_one_is_replayed_is_not_left_out() {
    let mut desk = with_both();
    desk.link([true, false], 100);
    for ticket in 1..=300 {
        desk.order(ticket, 2000);
    }
    desk.link([true, true], 3000);
    desk.have(B, 0, 3000);
    let begun = desk.sent_to(B);
    assert!(
        begun.ends_with(" 256"),
        "no more than a window at once: {begun}"
    );
    desk.order(301, 3001);
    let mut rest = Vec::new();
    for n in 1..=301 {
        desk.done(B, n, 3002);
        rest.extend(desk.sent_to(B).split_whitespace().map(str::to_owned));
    }
    let expected: Vec<String> = (257..=301)
        .map(|n: u32| n.to_string())
        .chain(["told".into()])
        .collect();
    assert_eq!(rest, expected);
}

#[test]
fn a_link_that_ended_between_two_looks_begins_anew() {
    let mut desk = with_both();
    desk.telling.tick(&[(true, 1), (true, 2)], 50);
    desk.run(50);
    assert!(!desk.telling.is_current(B) && desk.telling.is_current(A));
    assert_eq!(desk.sent_to(B), "ask");
    desk.telling
        .tick(&[(true, 1), (true, 2)], 50 + ASKED_AGAIN_MS);
    desk.run(50 + ASKED_AGAIN_MS);
    assert_eq!(desk.sent_to(B), "ask", "nothing was answered");
    // An old answer does not count.
    desk.telling.enacted(B, 2, 2000);
    assert!(!desk.telling.is_current(B));
}

#[test]
fn who_was_told_all_by_us_but_not_by_another_is_asked_anew() {
    let mut desk = with_both();
    desk.telling.others_could_not_tell(&[12, 13]);
    assert!(desk.telling.is_current(A) && !desk.telling.is_current(B));
    desk.telling.tick(&[(true, 1), (true, 1)], 11);
    desk.run(11);
    assert_eq!(
        (desk.sent_to(A), desk.sent_to(B)),
        ("".into(), "ask".into())
    );
    desk.telling.others_could_not_tell(&[12]);
    desk.telling.tick(&[(true, 1), (true, 1)], 12);
    desk.run(12);
    assert_eq!(desk.sent_to(B), "", "it was asked already");
}

#[test]
fn an_entry_names_those_that_are_not_told() {
    let mut desk = with_both();
    desk.link([true, false], 100);
    desk.order(1, 101);
    let entry = desk.sent.pop().map(|(_, message)| message);
    assert!(
        matches!(&entry, Some(Message::Entry { keep: true, untold, .. }) if untold == &[12]),
        "{entry:?}"
    );
}

/// A full vector forgets an origin for each new one, so no member has then heard all that both had.
#[test]
fn who_has_heard_of_too_many_origins_loses_what_it_lacks_once() {
    let of = |origins: std::ops::Range<usize>| {
        let mut vector = Vector::default();
        for origin in origins {
            vector.hear(Origin(origin as u64), Stamp(1), origin as u64);
        }
        vector
    };
    let (here, there) = (of(0..ORIGINS_MAX), of(1..ORIGINS_MAX + 1));
    let mut desk = with_both();
    desk.telling.have(A, 7, false, there, 20);
    let Some(Command::Find(A, token, Some(_))) = desk.telling.poll() else {
        panic!("nothing is looked for");
    };
    desk.telling.found(A, token, Err(here.clone()));
    let lost = desk.telling.poll();
    assert!(
        matches!(&lost, Some(Command::Send(A, Message::Lost { heard })) if *heard == here),
        "{lost:?}"
    );
    match desk.telling.poll() {
        Some(Command::Find(A, _, Some(heard))) => assert!(heard.covers(&here), "lost once more"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn others_are_asked_to_tell_one_that_has_gone_before_it_had_a_purge() {
    let mut desk = with_both();
    desk.order(1, 20);
    desk.done(B, 1, 21);
    desk.link([false, true], 22);
    assert!(!desk.telling.are_others_to_tell(), "it may come back");
    desk.link([false, true], 22 + AWAY_AFTER_MS);
    assert_eq!(desk.answers.len(), 1);
    assert!(desk.telling.are_others_to_tell());
    assert!(!desk.telling.are_others_to_tell(), "once");
    // The next purge names the members that it was not sent to.
    desk.order(2, 30 + AWAY_AFTER_MS);
    desk.link([false, true], 31 + AWAY_AFTER_MS);
    assert!(!desk.telling.are_others_to_tell());
}
