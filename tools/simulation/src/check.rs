//! The rules: what the store may serve.
//!
//! * R1  Bytes that are served are those of one version that was handed in under exactly that key, and the same list, and taken.
//! * R2  That version is not dead: no invalidation of it has been acknowledged, and none was called in this life.
//! * R3  It is not replaced: no later version of the key was taken in this life. Nor is one on the disk for sure, if the
//!   recovery is complete and the policy fills one region after the other.
//! * R6  Whoever is served what was softly purged, under the conditions of R2, is told so.
//! * R4  Bytes that the disk brought unspoiled, of a record that is certainly there, verify: nobody has written over
//!   what the index still names or a reader still reads.
//! * R5  What was on the disk for sure, alive and in the index when a life ended is found in the next (99 of 100), but
//!   for what was evicted since.
//!
//! R3 excuses what was invalidated without that ever being acknowledged: it may be lost with the index and the invalidation
//! with the log. Likewise what was dropped because it did not verify. R5 excuses what a full scan does not take, because the log does not reach back to it.
//!
//! R3 and R5 excuse what the disk has spoiled: a scan that can't read the successor can't know of it, and if the successor's write is
//! lost, any older version may lie whole in the very same place. R1 and R2 excuse nothing.
//!
//! R3 asks for no more, because the store promises no more (`docs/store.md`): while the scan is under way it serves what the
//! checkpoint has, whose successor may be yet to be found; and where records are evicted one by one, the successor may be
//! overwritten before its predecessor, which a full scan then finds. What comes back is an answer that was stored,
//! with the freshness it had; what was invalidated never does (R2).
//!
//! R3 in recovery: a version taken before the scan has come to its predecessor need not replace it unless it was
//! written; if its write fails the old one may come back.
//!
//! Not known here: how anything was asked for. Every function is pure.

use crate::disk::Damage;
use crate::world::{FullKey, State, Version, VersionNumber, World};

/// A record as it would go to a client.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// From the record.
    pub key: &'a [u8],
    /// From the record.
    pub meta: &'a [u8],
    /// From the record.
    pub body: &'a [u8],
    /// Does the store say that it is stale?
    pub doubted: bool,
}

/// Rules that are known to be broken, so that a run goes on when they are: bit `n` for rule `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waived(u8);

impl Waived {
    /// The rules of these numbers, 1 to 6.
    pub fn of(rules: &[u8]) -> Self {
        let bits = rules.iter().filter(|rule| (1..=6).contains(*rule));
        Self(bits.fold(0, |sum, rule| sum | 1 << rule))
    }

    /// Is what a message complains of to be passed over?
    pub fn passes(self, message: &str) -> bool {
        let rule = message
            .strip_prefix('R')
            .and_then(|rest| rest.bytes().next());
        rule.is_some_and(|digit| digit.is_ascii_digit() && self.0 >> (digit - b'0').min(7) & 1 == 1)
    }
}

/// May this be served as `full_key` now (R1 to R3)? `knows_all`: the store has had the means to know all that is on the
/// disk for sure.
///
/// # Errors
/// Which rule is broken, and how.
pub fn served(
    world: &World,
    damages: &[Damage],
    full_key: FullKey,
    served: Served<'_>,
    knows_all: bool,
) -> Result<VersionNumber, String> {
    let number = is_what_was_stored(world, full_key, served)?;
    is_alive(world, number)?;
    is_told_stale(world, number, served.doubted)?;
    is_not_replaced(world, damages, number, knows_all)?;
    Ok(number)
}

/// May this be served now to one who has needed `full_key` since `at`? It was alive then, or came later. (Of a key with several
/// versions an older one may lie where the one that is needed was lost: those who need records give them keys that name one.)
///
/// # Errors
/// Which rule is broken, and how.
pub fn was_alive(
    world: &World,
    full_key: FullKey,
    served: Served<'_>,
    at: u64,
) -> Result<VersionNumber, String> {
    let number = is_what_was_stored(world, full_key, served)?;
    let has_others = world.full_keys[full_key as usize].versions.len() > 1;
    let killer = world
        .killers(number)
        .filter(|killer| killer.acknowledged || killer.life == world.life)
        .find(|killer| killer.at <= at && !has_others);
    match killer {
        None => Ok(number),
        Some(killer) => Err(format!(
            "R2: version {number} was invalidated at {}, and is served to one who needs it since {at}",
            killer.at
        )),
    }
}

fn is_what_was_stored(
    world: &World,
    full_key: FullKey,
    served: Served<'_>,
) -> Result<VersionNumber, String> {
    let full = &world.full_keys[full_key as usize];
    let name = full.key.escape_ascii();
    if served.key != &*full.key {
        return Err(format!(
            "R1: {name} was looked up, {} is served",
            served.key.escape_ascii()
        ));
    }
    let Some(number) = world.claimed(served.meta) else {
        return Err(format!("R1: metadata of no version is served as {name}"));
    };
    let version = &world.versions[number as usize];
    if version.full_key != full_key || version.stored_in.is_none() {
        return Err(format!(
            "R1: version {number} is served as {name}, under which it was never stored"
        ));
    }
    let asked = full.salt.as_ref().map(|(_, list)| family(list));
    if asked != version.list.as_deref().map(family) {
        return Err(format!(
            "R1: version {number} was stored under the list {:?}, and is served as {name} by {:?}",
            version.list, full.salt
        ));
    }
    if *served.meta != *version.meta {
        return Err(format!(
            "R1: changed metadata of version {number} of {name}"
        ));
    }
    if served.body != version.content.bytes() {
        return Err(format!("R1: a changed body of version {number} of {name}"));
    }
    Ok(number)
}

/// Lists that follow one another under one salt are of one family: what is before the plus sign.
fn family(list: &[u8]) -> &[u8] {
    list.split(|&byte| byte == b'+').next().unwrap_or(list)
}

fn is_alive(world: &World, number: VersionNumber) -> Result<(), String> {
    let killer = world
        .killers(number)
        .find(|killer| killer.acknowledged || killer.life == world.life);
    match killer {
        None => Ok(()),
        Some(killer) => Err(format!(
            "R2: version {number} of key {} began at {}, was invalidated at {} ({}, life {} of {}, {:?}) and is served",
            world.versions[number as usize].full_key,
            world.versions[number as usize].began,
            killer.at,
            if killer.acknowledged {
                "acknowledged"
            } else {
                "in this life"
            },
            killer.life,
            world.life,
            killer.target,
        )),
    }
}

fn is_told_stale(world: &World, number: VersionNumber, doubted: bool) -> Result<(), String> {
    let doubter = world
        .doubters(number)
        .find(|doubter| doubter.acknowledged || doubter.life == world.life);
    match doubter {
        Some(doubter) if !doubted => Err(format!(
            "R6: version {number} of key {} was softly purged at {} (life {} of {}, {:?}) and is served as fresh",
            world.versions[number as usize].full_key,
            doubter.at,
            doubter.life,
            world.life,
            doubter.target,
        )),
        _ => Ok(()),
    }
}

fn is_not_replaced(
    world: &World,
    damages: &[Damage],
    number: VersionNumber,
    knows_all: bool,
) -> Result<(), String> {
    let full_key = world.versions[number as usize].full_key;
    let versions = &world.full_keys[full_key as usize].versions;
    let later = versions.iter().rev().take_while(|&&later| later != number);
    for &later in later {
        let version = &world.versions[later as usize];
        if version.forgotten_in > 0 {
            // With it went what it had replaced, and the index no longer tells that from what may be found.
            return Ok(());
        }
        let mut killers = world.killers(later);
        if killers.any(|killer| !killer.acknowledged && killer.life < world.life) {
            continue;
        }
        let written = |state: State| matches!(state, State::Written | State::Durable);
        let was_written = version.copies.iter().any(|copy| written(copy.state));
        let in_this_life =
            version.stored_in == Some(world.life) && (!version.stored_in_recovery || was_written);
        if was_written && world.is_damaged(later, damages) {
            return Ok(());
        }
        if in_this_life || (knows_all && was_written) {
            let old = &world.versions[number as usize];
            return Err(format!(
                "R3: version {number} of key {full_key} is served (life {:?}, {}), but version {later} (life {:?}, {}) has replaced it; \
                 this is life {}",
                old.stored_in.unwrap_or(0),
                places(old),
                version.stored_in.unwrap_or(0),
                places(version),
                world.life
            ));
        }
    }
    Ok(())
}

fn places(version: &Version) -> String {
    let copies: Vec<_> = version
        .copies
        .iter()
        .map(|copy| {
            format!(
                "{:?} at {:?} by write {}",
                copy.state, copy.range, copy.number
            )
        })
        .collect();
    copies.join(", ")
}

/// Bytes were read for `full_key`, unspoiled, and do not verify. Is that the store's doing (R4)? `place`: where, if a
/// recovery is under way, and it may have been an older version's place.
///
/// # Errors
/// It is.
pub fn unverified(
    world: &World,
    damages: &[Damage],
    full_key: FullKey,
    place: Option<u64>,
    why: &str,
) -> Result<(), String> {
    let Some(newest) = world.newest(full_key) else {
        return Err(format!("R4: a record of a key never stored: {why}"));
    };
    let version = &world.versions[newest as usize];
    let present = version.present_in == world.life;
    let is_its_place = |place| version.copies.iter().any(|copy| copy.range.start == place);
    if present && place.is_none_or(is_its_place) && !world.is_damaged(newest, damages) {
        return Err(format!(
            "R4: version {newest} of key {full_key} ({}) does not verify, though the disk did nothing to it: {why}",
            places(&world.versions[newest as usize])
        ));
    }
    Ok(())
}

/// Must the next life find this version, if the index has it at the end of this one (R5)? To be asked after
/// [`World::end_life`].
pub fn must_survive(world: &World, damages: &[Damage], number: VersionNumber) -> bool {
    let full_key = world.versions[number as usize].full_key;
    let full = &world.full_keys[full_key as usize];
    (full.plain || full.salt.is_some())
        && !world.may_be_hidden(number)
        && world.newest(full_key) == Some(number)
        && world.is_there(number)
        && world.killers(number).next().is_none()
        && !world.is_damaged(number, damages)
}

/// Is that many of that many not found too many (R5)?
pub fn too_many_missing(missing: u64, expected: u64) -> bool {
    missing > (expected / 100).max(1)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
