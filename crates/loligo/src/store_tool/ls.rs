//! `loligo store ls`: the stored objects, one a line with all its fragments.
//!
//! Lines are printed as records are read, in the order of their places, so that the first ones appear at once whatever the size
//! of the store.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use httpcache::{StandingFlags, UnixMillis};
use store::Corrupt;

use super::args::LsFlags;
use super::opened::ReadStore;
use super::output::{Failure, note};
use super::reading::NoHead;
use super::show;
use super::stored::{Key, Listed, is_in_reach};

/// Counts of listed and skipped records, reported at the end.
#[derive(Default)]
struct Passed {
    listed: u64,
    bytes: u64,
    damaged: u64,
    out_of_reach: u64,
}

impl Passed {
    fn tell(&self, flags: &LsFlags) {
        if io::stdout().is_terminal() && !flags.json {
            note(format_args!(
                "{}, {}",
                show::count(self.listed, "object"),
                show::size(self.bytes)
            ));
        }
        if self.out_of_reach > 0 {
            note(format_args!(
                "{} not listed: variants that cannot be selected any more, to be evicted in their turn",
                show::count(self.out_of_reach, "record")
            ));
        }
        if self.damaged > 0 {
            note(format_args!(
                "{} could not be read: loligo store verify {}",
                show::count(self.damaged, "record"),
                flags.path.display()
            ));
        }
    }
}

pub fn ls(flags: &LsFlags) -> Result<(), Failure> {
    let store = ReadStore::open_whole(&flags.path, false)?;
    let now = UnixMillis(show::now_ms());
    let mut out = BufWriter::new(io::stdout().lock());
    if !flags.json {
        let long = if flags.long {
            "  stored, type, fragments, place"
        } else {
            ""
        };
        writeln!(out, "status       size    age   fresh  url{long}")?;
    }
    let prefix = flags.prefix.as_deref().unwrap_or_default().as_bytes();
    let mut passed = Passed::default();
    store.heads(|place, head| {
        if flags.limit.is_some_and(|limit| passed.listed >= limit) {
            return Ok(ControlFlow::Break(()));
        }
        let head = match head {
            Ok(head) => head,
            Err(NoHead::Corrupt(Corrupt::Invalidated)) => return Ok(ControlFlow::Continue(())),
            Err(_) => {
                passed.damaged += 1;
                return Ok(ControlFlow::Continue(()));
            }
        };
        let key = Key::of(&head.key);
        if head.fragment.is_some() || !key.uri.starts_with(prefix) {
            return Ok(ControlFlow::Continue(()));
        }
        if !is_in_reach(&store.inspection, head.primary, &key) {
            passed.out_of_reach += 1;
            return Ok(ControlFlow::Continue(()));
        }
        let listed = Listed::of(&store.inspection, &head);
        passed.listed += 1;
        passed.bytes += listed.body_bytes();
        if flags.json {
            let mut object = listed.json(now);
            object["offset"] = store.inspection.offset(place).into();
            object["len"] = store.inspection.len(place).into();
            writeln!(out, "{object}")?;
        } else {
            write!(out, "{}", line(&listed, now))?;
            if flags.long {
                let offset = store.inspection.offset(place);
                write!(
                    out,
                    "{}",
                    more(&listed, offset, store.inspection.len(place))
                )?;
            }
            writeln!(out)?;
        }
        // A user may be watching: flush often.
        if passed.listed % 64 == 1 {
            out.flush()?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    out.flush()?;
    drop(out);
    passed.tell(flags);
    Ok(())
}

fn line(listed: &Listed<'_>, now: UnixMillis) -> String {
    let (status, age, fresh) = match &listed.object {
        Some(object) => {
            let standing = &object.standing;
            let ttl = standing.ttl_s(now);
            let sign = if ttl > 0 { '+' } else { '-' };
            let fresh = if standing.flags.contains(StandingFlags::NO_CACHE) {
                "ask".to_owned()
            } else {
                format!("{sign}{}", show::span(ttl.unsigned_abs()))
            };
            let age = show::span(u64::from(standing.age_s(now)));
            (object.status.to_string(), age, fresh)
        }
        None => ("?".to_owned(), "?".to_owned(), "?".to_owned()),
    };
    let incomplete = match listed.fragments {
        Some((there, all)) if there < all => format!(" (only {there} of {all} fragments)"),
        _ => String::new(),
    };
    format!(
        "{status:>6} {:>10} {age:>6} {fresh:>7}  {}{incomplete}",
        show::size(listed.body_bytes()),
        listed.name()
    )
}

fn more(listed: &Listed<'_>, offset: u64, len: usize) -> String {
    let content_type = listed
        .object
        .as_ref()
        .map_or_else(String::new, |object| show::harmless(object.content_type()));
    let fragments = listed.fragments.map_or_else(String::new, |(_, all)| {
        format!(", {}", show::count(all.into(), "fragment"))
    });
    format!(
        "  {}, {}{fragments}, {len} bytes at {offset}",
        show::date(listed.head.stored_unix_ms),
        if content_type.is_empty() {
            "no type"
        } else {
            &content_type
        },
    )
}
