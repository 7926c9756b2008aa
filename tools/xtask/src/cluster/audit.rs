//! Audit of the members' contents and hints: false misses, counted object by object.
//!
//! Every member is asked for every object with `only-if-cached`, which changes nothing: no member fetches or stores. A node
//! answers for itself, a front or an equal for all that it knows of. An object that some member has and a door does not find is a
//! *false miss* of that door; an object that no member has is *lost*.
//!
//! Not known here: what happened before.   Limits: [`ASKERS`] requests at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bed::Bed;
use super::crowd::{Demand, Object};
use super::member::Member;
use super::site::{Role, SITE};
use crate::failure::{Failure, Result, fail};
use crate::http::{Answer, Client, Ended, Request};
use crate::interrupt;

const ASKERS: u64 = 8;
const CACHED_ONLY: &[(&str, &str)] = &[("Cache-Control", "only-if-cached")];
/// The status for `only-if-cached` without a stored response (RFC 9111 §5.2.1.7).
const NOT_CACHED: u16 = 504;

/// Counts of an audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    pub objects: u64,
    /// Objects that no member has.
    pub lost: u64,
    /// Objects that some member has and some door does not find.
    pub missed: u64,
}

/// Asks every member for all objects that a crowd requests repeatedly.
pub fn run(bed: &Bed, demand: Demand) -> Result<Found> {
    let has_cache = |member: &&Member| member.is_running() && member.spec.role != Role::Balancer;
    let members: Vec<&Member> = bed.members.iter().filter(has_cache).collect();
    let (next, found) = (AtomicU64::new(0), Mutex::new(Found::default()));
    let first: Mutex<Option<Failure>> = Mutex::new(None);
    let worker = || {
        let mut clients: Vec<Client> = members
            .iter()
            .map(|member| Client::new(member.at(SITE)))
            .collect();
        let mut own = Found::default();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= demand.objects {
                break;
            }
            let object = Object::of(format!("o{n}"), n, demand.body_bytes);
            let asked = interrupt::check().and_then(|()| {
                let said = clients.iter_mut().map(|client| has(client, &object));
                said.collect::<Result<Vec<bool>>>()
            });
            match asked {
                Ok(said) => own.add(&said, |nth| members[nth].spec.role.is_door()),
                Err(failure) => {
                    first
                        .lock()
                        .expect("no worker panics")
                        .get_or_insert(failure);
                    break;
                }
            }
        }
        let mut all = found.lock().expect("no worker panics");
        all.objects += own.objects;
        all.lost += own.lost;
        all.missed += own.missed;
    };
    std::thread::scope(|scope| {
        for _ in 0..ASKERS {
            scope.spawn(worker);
        }
    });
    match first.into_inner().expect("no worker panics") {
        Some(failure) => Err(failure),
        None => Ok(found.into_inner().expect("no worker panics")),
    }
}

impl Found {
    /// Counts an object, given whether each member has it and which members are doors.
    fn add(&mut self, said: &[bool], is_door: impl Fn(usize) -> bool) {
        let is_anywhere = said.contains(&true);
        let is_missed = said
            .iter()
            .enumerate()
            .any(|(nth, has)| !has && is_door(nth));
        self.objects += 1;
        self.lost += u64::from(!is_anywhere);
        self.missed += u64::from(is_anywhere && is_missed);
    }
}

fn has(client: &mut Client, object: &Object) -> Result<bool> {
    let mut answer = Answer::default();
    let request = Request {
        fields: CACHED_ONLY,
        ..Request::of("GET", &object.path)
    };
    match client.ask_repeatably(request, &mut answer) {
        Ended::Broken { reason, .. } => fail!("{}: {reason}", object.path),
        _ if answer.status == NOT_CACHED => Ok(false),
        _ if object.is_right(&answer) => Ok(true),
        _ => fail!(
            "{}: status {}, {} bytes",
            object.path,
            answer.status,
            answer.body.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_that_does_not_find_what_a_member_has_is_told_from_a_loss() {
        let mut found = Found::default();
        for said in [
            [true, true, false],
            [false, true, false],
            [true, false, false],
            [false, false, false],
        ] {
            found.add(&said, |nth| nth == 0);
        }
        let expected = Found {
            objects: 4,
            lost: 1,
            missed: 1,
        };
        assert_eq!(found, expected);
    }
}
