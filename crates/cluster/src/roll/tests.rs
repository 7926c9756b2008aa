//! The rules of the table at the head of `roll`, one by one and in any order.

use super::*;
use plan::MEMBERS_MAX;

const FORGET_MS: u64 = 1000;

fn at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 3130))
}

fn now(ms: u64, linked: &[MemberId]) -> Now {
    let mask = linked.iter().fold(0, |mask, id| mask | id.bit());
    Now {
        linked: mask,
        trusted: mask,
        ms,
    }
}

fn said(name: &str, incarnation: u64) -> Said<'_> {
    Said { name, incarnation }
}

fn discovering() -> Roll {
    Roll::new("own", &[], MEMBERS_MAX, FORGET_MS)
}

impl Roll {
    fn turn(&self, id: MemberId) -> u64 {
        self.entry(id).map_or(0, |entry| entry.who.turn)
    }

    /// The member at this address tells its name in a handshake.
    fn meet(&mut self, address: SocketAddr, said: Said<'_>, now: Now) -> Verdict {
        let id = self.at(address).expect("somebody is called there");
        self.met(id, self.turn(id), said, now)
    }

    /// The members as text: number, name, address.
    fn told(&self) -> Vec<String> {
        self.audit();
        let told = |(id, entry): (MemberId, &Entry)| {
            let at = match entry.who.is_called {
                true => entry.who.at.host.clone(),
                false => "?".to_owned(),
            };
            format!("{} {} {at}", id.0, entry.who.name)
        };
        self.entries().map(told).collect()
    }

    /// Checks the invariants at the head of `roll`.
    fn audit(&self) {
        let all: Vec<&Entry> = self.entries().map(|(_, entry)| entry).collect();
        let names: BTreeSet<&str> = all.iter().map(|entry| &*entry.who.name).collect();
        assert_eq!(names.len(), all.len(), "{all:?}");
        assert!(!names.contains(&*self.own));
        let addresses: Vec<_> = all.iter().filter_map(|entry| entry.address).collect();
        let different: BTreeSet<_> = addresses.iter().collect();
        assert_eq!(different.len(), addresses.len(), "{all:?}");
    }
}

#[test]
fn what_the_name_has_gets_places_and_then_names() {
    let mut roll = discovering();
    roll.listed(&[at(1), at(2), at(3)], now(0, &[]));
    assert_eq!(
        roll.told(),
        [
            "0 10.0.0.1:3130 10.0.0.1",
            "1 10.0.0.2:3130 10.0.0.2",
            "2 10.0.0.3:3130 10.0.0.3"
        ]
    );
    assert_eq!(
        roll.meet(at(1), said("own", 9), now(1, &[])),
        Verdict::Leaves
    );
    assert_eq!(roll.meet(at(2), said("b", 1), now(1, &[])), Verdict::Stays);
    roll.is_own(MemberId(2), roll.turn(MemberId(2)));
    assert_eq!(roll.told(), ["1 b 10.0.0.2"]);
    // From then on own addresses are ignored.
    roll.listed(&[at(1), at(2), at(3)], now(2, &[]));
    assert_eq!(roll.told(), ["1 b 10.0.0.2"]);
    let told: Vec<MemberId> = roll.changes().iter().map(|(id, _)| *id).collect();
    assert_eq!(told, [0, 1, 2, 0, 1, 2].map(MemberId));
    assert_eq!(roll.changes(), []);
}

#[test]
fn one_that_has_left_the_name_and_has_no_link_is_forgotten_after_a_while() {
    let mut roll = discovering();
    roll.listed(&[at(1), at(2)], now(0, &[]));
    let (a, b) = (MemberId(0), MemberId(1));
    roll.meet(at(1), said("a", 1), now(0, &[]));
    roll.meet(at(2), said("b", 1), now(0, &[]));
    roll.listed(&[at(2)], now(100, &[a, b]));
    roll.tick(now(5000, &[a, b]));
    assert_eq!(roll.mask(), 0b11, "its link is up");
    roll.tick(now(5000 + FORGET_MS - 1, &[]));
    assert_eq!(roll.mask(), 0b11, "it may be back soon");
    roll.tick(now(5000 + FORGET_MS, &[]));
    assert_eq!(roll.told(), ["1 b 10.0.0.2"], "b is in the name");
    // The place that has been free for longer is used first.
    roll.listed(&[at(2), at(9)], now(9000, &[]));
    assert_eq!(roll.told(), ["1 b 10.0.0.2", "2 10.0.0.9:3130 10.0.0.9"]);
}

#[test]
fn a_member_with_another_address_is_the_same_member() {
    let mut roll = discovering();
    roll.listed(&[at(1)], now(0, &[]));
    roll.meet(at(1), said("a", 1), now(0, &[]));
    let (occupant, turn) = {
        let who = &roll.entry(MemberId(0)).unwrap().who;
        (who.occupant, who.turn)
    };
    roll.listed(&[at(7)], now(10_000, &[MemberId(0)]));
    // The link of the member's earlier process has not ended yet.
    let linked = now(10_000, &[MemberId(0)]);
    assert_eq!(roll.meet(at(7), said("a", 2), linked), Verdict::Waits);
    let unlinked = now(13_000, &[]);
    assert_eq!(roll.meet(at(7), said("a", 2), unlinked), Verdict::Leaves);
    assert_eq!(roll.told(), ["0 a 10.0.0.7"]);
    let who = &roll.entry(MemberId(0)).unwrap().who;
    assert_eq!(who.occupant, occupant);
    assert_ne!(who.turn, turn);
}

#[test]
fn two_addresses_of_one_process_are_one_member() {
    let mut roll = discovering();
    let v6 = "[fd00::1]:3130".parse().unwrap();
    roll.listed(&[at(1), v6], now(0, &[]));
    assert_eq!(roll.meet(at(1), said("a", 1), now(0, &[])), Verdict::Stays);
    // The member's link does not beat yet.
    assert_eq!(roll.meet(v6, said("a", 1), now(1, &[])), Verdict::Leaves);
    assert_eq!(roll.told(), ["0 a 10.0.0.1"]);
    roll.listed(&[v6], now(2, &[]));
    assert_eq!(roll.told(), ["0 a 10.0.0.1"], "listed by its other address");
    roll.tick(now(2 + 2 * FORGET_MS, &[]));
    assert_eq!(roll.mask(), 1);
}

#[test]
fn an_address_that_another_member_has_now() {
    let mut roll = discovering();
    roll.listed(&[at(1)], now(0, &[]));
    roll.meet(at(1), said("a", 1), now(0, &[]));
    assert_eq!(
        roll.meet(at(1), said("b", 1), now(900, &[])),
        Verdict::Leaves
    );
    // `a` stays a member without an address, so that answers to purges name it.
    assert_eq!(roll.told(), ["0 a ?", "1 10.0.0.1:3130 10.0.0.1"]);
    assert_eq!(
        roll.meet(at(1), said("b", 1), now(900, &[])),
        Verdict::Stays
    );
    roll.listed(&[at(1), at(2)], now(901, &[MemberId(1)]));
    let unlinked = now(902, &[MemberId(1)]);
    assert_eq!(roll.meet(at(2), said("a", 2), unlinked), Verdict::Leaves);
    assert_eq!(roll.told(), ["0 a 10.0.0.2", "1 b 10.0.0.1"]);
}

#[test]
fn a_stranger_with_the_key_is_a_member_at_once() {
    let mut roll = discovering();
    assert_eq!(roll.knocked(said("own", 5), at(4), now(0, &[])), None);
    let a = roll.knocked(said("a", 1), at(1), now(0, &[])).unwrap();
    assert_eq!(roll.told(), ["0 a 10.0.0.1"]);
    assert_eq!(roll.knocked(said("a", 1), at(1), now(0, &[])), Some(a));
    // The look-up of the name has its address, too.
    roll.listed(&[at(1), at(2)], now(1, &[]));
    assert_eq!(
        roll.knocked(said("b", 1), at(2), now(1, &[])),
        Some(MemberId(1))
    );
    assert_eq!(roll.told(), ["0 a 10.0.0.1", "1 b 10.0.0.2"]);
    // It comes back at another address, which the look-up does not have yet.
    roll.listed(&[at(2)], now(2, &[]));
    assert_eq!(roll.knocked(said("a", 2), at(3), now(2, &[])), Some(a));
    assert_eq!(roll.told(), ["0 a 10.0.0.3", "1 b 10.0.0.2"]);
    // An address in the look-up wins over the one that the member tells.
    assert_eq!(
        roll.knocked(said("b", 2), at(8), now(2, &[])),
        Some(MemberId(1))
    );
    assert_eq!(roll.told(), ["0 a 10.0.0.3", "1 b 10.0.0.2"]);
}

#[test]
fn members_of_the_configuration_stay() {
    let member = |name: &str, host: &str| ClusterMember {
        name: name.into(),
        at: PeerAddress {
            host: host.into(),
            port: 3130,
        },
    };
    let configured = [member("a", "10.0.0.1"), member("b", "b.example")];
    let mut roll = Roll::new("own", &configured, MEMBERS_MAX, FORGET_MS);
    roll.listed(&[at(1), at(2), at(3)], now(0, &[]));
    assert_eq!(roll.mask(), 0b1111, "the first is known by its address");
    // The member of the second place is at the address of its configured name.
    assert_eq!(roll.meet(at(2), said("b", 1), now(0, &[])), Verdict::Leaves);
    assert_eq!(roll.told().len(), 3);
    roll.listed(&[at(3)], now(1, &[]));
    roll.tick(now(10 * FORGET_MS, &[]));
    roll.listed(&[], now(10 * FORGET_MS, &[]));
    roll.tick(now(20 * FORGET_MS, &[]));
    assert_eq!(roll.told(), ["0 a 10.0.0.1", "1 b b.example"]);
}

#[test]
fn there_is_no_place_for_more_than_a_cluster_can_have() {
    let mut roll = discovering();
    let many: Vec<SocketAddr> = (0..MEMBERS_MAX as u8 + 5).map(at).collect();
    roll.listed(&many, now(0, &[]));
    assert_eq!((roll.mask().count_ones(), roll.unplaced()), (63, 5));
    assert_eq!(roll.knocked(said("late", 1), at(200), now(0, &[])), None);
    // A member that is there wins over one that has gone.
    roll.meet(at(1), said("b", 1), now(0, &[]));
    assert_eq!(roll.meet(at(1), said("c", 1), now(1, &[])), Verdict::Leaves);
    assert_eq!(roll.meet(at(1), said("c", 1), now(1, &[])), Verdict::Stays);
    assert!(roll.named("b").is_none() && roll.named("c").is_some());
    // The next look-up finds free places.
    roll.listed(&many[10..], now(FORGET_MS, &[]));
    assert_eq!(roll.unplaced(), 5);
    roll.listed(&many[10..], now(FORGET_MS, &[]));
    assert_eq!(roll.unplaced(), 0);
    roll.audit();
}

#[test]
fn an_answer_of_a_connection_that_is_out_of_date_changes_nothing() {
    let mut roll = discovering();
    roll.listed(&[at(1)], now(0, &[]));
    let turn = roll.turn(MemberId(0));
    roll.meet(at(1), said("a", 1), now(0, &[]));
    roll.meet(at(1), said("b", 1), now(0, &[]));
    let before = roll.told();
    let late = roll.met(MemberId(0), turn, said("own", 1), now(0, &[]));
    assert_eq!(late, Verdict::Leaves);
    assert_eq!(roll.told(), before);
}

/// Members come, go, move, change their names and addresses in any order. The invariants hold, and in the end the members are those that are
/// there and answer.
#[test]
fn any_order_of_events_ends_with_those_that_are_there() {
    for seed in 0..300u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut throw = |most: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % most
        };
        let mut roll = discovering();
        // For each address, the number of the member there and of its process.
        let mut there = [None; 6];
        let mut ms = 0;
        for step in 0..200 {
            ms += throw(700);
            let address = throw(6) as usize;
            match throw(5) {
                0 => {
                    let name = throw(6);
                    if !there.iter().flatten().any(|(other, _)| *other == name) {
                        there[address] = Some((name, step));
                    }
                }
                1 => there[address] = None,
                2 => {
                    let listed = (0..6).filter(|n| there[*n].is_some());
                    let listed: Vec<SocketAddr> = listed.map(|n| at(n as u8)).collect();
                    roll.listed(&listed, linked(&roll, &there, ms));
                }
                3 => {
                    if let Some((name, process)) = there[address] {
                        let name = format!("m{name}");
                        let now = linked(&roll, &there, ms);
                        roll.knocked(said(&name, process), at(address as u8), now);
                    }
                }
                _ => call_all(&mut roll, &there, ms),
            }
            roll.audit();
        }
        let listed = (0..6).filter(|n| there[*n].is_some());
        let listed: Vec<SocketAddr> = listed.map(|n| at(n as u8)).collect();
        for _ in 0..4 {
            ms += FORGET_MS;
            roll.listed(&listed, linked(&roll, &there, ms));
            call_all(&mut roll, &there, ms);
        }
        let told: BTreeSet<String> = roll
            .told()
            .iter()
            .map(|it| it[it.find(' ').unwrap()..].into())
            .collect();
        let meant = (0..6).filter_map(|n| Some(format!(" m{} 10.0.0.{n}", there[n]?.0)));
        assert_eq!(told, meant.collect::<BTreeSet<_>>(), "seed {seed}");
    }
}

type There = [Option<(u64, u64)>; 6];

/// A member has a link if it is at its known address.
fn linked(roll: &Roll, there: &There, ms: u64) -> Now {
    let linked = roll.entries().filter(|(_, entry)| {
        let address = (0..6).find(|n| entry.address == Some(at(*n as u8)));
        let there = address.and_then(|n| there[n]);
        there.is_some_and(|(name, process)| {
            *entry.who.name == *format!("m{name}") && entry.incarnation == Some(process)
        })
    });
    let linked: Vec<MemberId> = linked.map(|(id, _)| id).collect();
    now(ms, &linked)
}

fn call_all(roll: &mut Roll, there: &There, ms: u64) {
    for (n, one) in there.iter().enumerate() {
        let address = at(n as u8);
        if let (Some((name, process)), Some(_)) = (one, roll.at(address)) {
            let name = format!("m{name}");
            let now = linked(roll, there, ms);
            roll.meet(address, said(&name, *process), now);
            roll.audit();
        }
    }
}
