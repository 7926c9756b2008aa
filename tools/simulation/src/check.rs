//! The rules: which records the store may serve.
//!
//! * R1  Served bytes are those of one version that was inserted under exactly this key and list, and accepted.
//! * R2  That version is not dead: no invalidation of it has been acknowledged, and none was called in this life.
//! * R3  It is not replaced: no later version of the key was accepted in this life, nor is one certainly on the disk, if the
//!   recovery is complete and the policy fills one region after the other.
//! * R6  A version that was softly purged, under the conditions of R2, is served only as stale.
//! * R4  Bytes that the disk returned unspoiled, of a record that is certainly there, verify: the store never overwrites a record
//!   that the index names or a reader reads.
//! * R5  Records that were certainly on the disk, alive and in the index at the end of a life are found in the next one (99 of 100),
//!   except those evicted since.
//!
//! R3 excuses a later version with an unacknowledged invalidation of an earlier life: both may be lost, with the index and the log. It
//! also excuses one that was dropped because it did not verify. R5 excuses records older than the log, which a full scan refuses.
//!
//! R3 and R5 excuse what the disk has spoiled: a scan that cannot read the successor does not know of it, and if the successor's write
//! is lost, an older version may lie intact in the very same place. R1 and R2 excuse nothing.
//!
//! R3 demands no more than the store promises (`docs/store.md`). While the scan is under way, the store serves records of the checkpoint
//! whose successors it may not have found yet. Where records are evicted one by one, a successor may be overwritten before its
//! predecessor, which a full scan then finds. A record that comes back this way is a response that was stored, with its original
//! freshness; an invalidated one never comes back (R2).
//!
//! R3 in recovery: a version accepted before the scan has found its predecessor replaces that one only once it is written; if its
//! write fails, the old version may come back.
//!
//! Not known here: how records were requested. Every function is pure.

use crate::disk::Damage;
use crate::world::{FullKey, State, Version, VersionNumber, World};

/// A record as it would be sent to a client.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The key in the record.
    pub key: &'a [u8],
    /// The metadata in the record.
    pub meta: &'a [u8],
    /// The body in the record.
    pub body: &'a [u8],
    /// Whether the store marks it as stale.
    pub doubted: bool,
}

/// Rules that are known to be broken and do not end a run: bit `n` for rule `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waived(u8);

impl Waived {
    /// Waives the rules with these numbers, 1 to 6.
    pub fn of(rules: &[u8]) -> Self {
        let bits = rules.iter().filter(|rule| (1..=6).contains(*rule));
        Self(bits.fold(0, |sum, rule| sum | 1 << rule))
    }

    /// Whether the rule that a message names is waived.
    pub fn passes(self, message: &str) -> bool {
        let rule = message
            .strip_prefix('R')
            .and_then(|rest| rest.bytes().next());
        rule.is_some_and(|digit| digit.is_ascii_digit() && self.0 >> (digit - b'0').min(7) & 1 == 1)
    }
}

/// Checks that this may be served as `full_key` now (R1 to R3). `knows_all`: the store is able to know everything that is certainly on
/// the disk.
///
/// # Errors
/// The broken rule, with details.
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

/// Checks that this may be served now to an answer that has needed `full_key` since `at`: it was alive then, or was stored later. (If a key
/// has several versions, an older one may lie where the needed one was lost. Answers that need records use keys that name a version.)
///
/// # Errors
/// The broken rule, with details.
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

/// The part of a list before the plus sign. Successive lists under one salt have it in common.
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
            // The versions that it replaced were dropped with it. The index cannot distinguish them from records that a scan may still find.
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

/// Checks unspoiled bytes of `full_key` that do not verify: whether the store is at fault (R4). `place` is their position, given if a
/// recovery is under way, when it may have been that of an older version.
///
/// # Errors
/// If the store is at fault.
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

/// Whether the next life must find this version, if the index has it at the end of this one (R5). To be called after
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

/// Whether this many missing records are too many (R5).
pub fn too_many_missing(missing: u64, expected: u64) -> bool {
    missing > (expected / 100).max(1)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
