//! Opens a stream by its name.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lab::Access;
use lab::generate::{DecLike, PolyMixLike, UcbLike};
use lab::requests::{Gathering, Requests};
use lab::trace::{Tally, Trace};
use lab::versions::{Settling, Versions};

use super::args::{Made, MadeFlags, PolymixNumber, StreamFlags};

/// The result of a stream read to its end: its name, and for a file the tally of its lines.
pub struct Ended {
    pub name: String,
    pub tally: Option<Tally>,
}

/// Hands every request of a stream to `each`, until `each` fails.
pub fn each(
    name: &str,
    flags: &StreamFlags,
    mut each: impl FnMut(Access) -> io::Result<()>,
) -> Result<Ended, String> {
    let bar = spinner(name, flags.quiet);
    let mut counted = 0u64;
    let mut settling = Settling::new(flags.versions);
    let mut tell = |access: Access| {
        counted += 1;
        if counted.is_multiple_of(1 << 14) {
            bar.set_position(counted);
        }
        each(settling.settle(access)).map_err(|e| e.to_string())
    };
    let made = match name {
        "dec" => Some(Made::Dec),
        "polymix" => Some(Made::Polymix),
        "ucb" => Some(Made::Ucb),
        _ => None,
    };
    let ended = match made {
        Some(made) => {
            make(made, &flags.made).try_for_each(&mut tell)?;
            Ended {
                name: name.to_owned(),
                tally: None,
            }
        }
        None => {
            let mut trace = Trace::open(Path::new(name), flags.format, flags.columns)
                .map_err(|e| e.to_string())?;
            for access in trace.by_ref() {
                tell(access.map_err(|e| e.to_string())?)?;
            }
            let file = Path::new(name).file_name().unwrap_or_default();
            Ended {
                name: format!("{} ({})", file.to_string_lossy(), trace.format()),
                tally: Some(trace.tally().clone()),
            }
        }
    };
    bar.finish_and_clear();
    Ok(ended)
}

/// All requests of a stream, in memory or, if they are too many, in a file.
pub fn all(name: &str, flags: &StreamFlags) -> Result<(Requests<Access>, Ended), String> {
    let mut gathering = Gathering::default();
    let ended = each(name, flags, |access| gathering.add(access))?;
    Ok((gathering.finish().map_err(|e| e.to_string())?, ended))
}

/// The requests of a synthetic stream.
pub fn make(made: Made, flags: &MadeFlags) -> Box<dyn Iterator<Item = Access>> {
    match made {
        Made::Dec => {
            let usual = DecLike::default();
            let requests = flags.requests.unwrap_or(usual.requests);
            Box::new(
                DecLike {
                    seed: flags.seed,
                    requests,
                    ..usual
                }
                .stream(),
            )
        }
        Made::Polymix => {
            let usual = PolyMixLike::default();
            let like = PolyMixLike {
                mix: flags.polymix.mix(),
                seed: flags.seed,
                requests: flags.requests.unwrap_or(usual.requests),
                rate: flags.rate,
                time_scale: flags.time_scale,
            };
            Box::new(like.stream())
        }
        Made::Ucb => {
            let requests = flags.requests.unwrap_or(UcbLike::REQUESTS);
            let mut like = UcbLike::default().scaled(requests as f64 / UcbLike::REQUESTS as f64);
            like.visits.seed = flags.seed;
            like.visits.requests = requests;
            Box::new(like.stream())
        }
    }
}

/// How much of a stream to use.
pub struct Scaled {
    /// The share of its requests.
    pub share: f64,
    /// The seed of synthetic streams.
    pub seed: u64,
    pub quiet: bool,
}

/// The name of a stream, and its requests in memory: the first ones of a file; a synthetic stream with fewer clients and as many fewer objects.
pub fn scaled_stream(name: &str, wanted: &Scaled) -> Result<(String, Vec<Access>), String> {
    let usual = PolyMixLike::default();
    let all_requests = match name {
        "dec" => DecLike::default().requests,
        "ucb" => UcbLike::REQUESTS,
        _ => usual.requests,
    };
    let flags = StreamFlags {
        format: None,
        columns: None,
        versions: Versions::Any,
        made: MadeFlags {
            seed: wanted.seed,
            requests: Some(((all_requests as f64 * wanted.share) as u64).max(1)),
            polymix: PolymixNumber::Three,
            rate: usual.rate * wanted.share,
            time_scale: usual.time_scale,
        },
        quiet: wanted.quiet,
    };
    let mut accesses = Vec::new();
    let ended = each(name, &flags, |access| {
        accesses.push(access);
        Ok(())
    })?;
    if ended.tally.is_some() {
        accesses.truncate(((accesses.len() as f64 * wanted.share) as usize).max(1));
    }
    Ok((ended.name, accesses))
}

/// A spinner that counts requests, on a terminal only.
pub fn spinner(name: &str, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} requests, {elapsed}");
    let bar = ProgressBar::new_spinner().with_message(name.to_owned());
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A bar of `len` steps, on a terminal only.
pub fn bar(name: &str, len: u64, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len}, {eta} left");
    let bar = ProgressBar::new(len).with_message(name.to_owned());
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}
