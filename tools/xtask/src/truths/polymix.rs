//! A brief PolyMix run through a real loligo, for its profile and for the counts of robots and servers.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::figures;
use crate::failure::{During, Result};
use crate::ports;
use crate::rivals::{Request, Rival, lab_binary, launch};
use crate::size::Bytes;

/// The run's cache; the fill brings twice as much.
const CACHE: Bytes = Bytes(16 << 20);
const MEMORY: Bytes = Bytes(4 << 20);
/// About 40 s, at 100 requests a second.
const ARGUMENTS: &str = "--rate 100 --cache-size 16MiB --time-scale 1/1440 --think-scale 0.02 --robots 50 --http 1.1 --one-address --servers 4 --quiet";

/// The results of a run.
pub struct Run {
    pub profile: PathBuf,
    /// The benchmark's own report; `None` if only a profile was given.
    pub robots: Option<Value>,
}

impl Run {
    /// A profile from elsewhere.
    pub fn of_file(profile: &Path) -> Self {
        Self {
            profile: profile.to_path_buf(),
            robots: None,
        }
    }
}

/// Makes the run.
pub fn run() -> Result<Run> {
    let origin = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?));
    let running = launch(
        Rival::Loligo,
        &Request {
            profile: true,
            cache: CACHE,
            memory: MEMORY,
            ..Request::of("truths-polymix", origin)
        },
    )?;
    let profile = running.run.join("requests.profile");
    let json = running.run.join("robots.json");
    let (proxy, origin) = (format!("http://{}", running.address), origin.to_string());
    eprintln!("polymix {ARGUMENTS}");
    let mut arguments: Vec<&OsStr> = vec!["bench".as_ref(), "polymix".as_ref()];
    arguments.extend(ARGUMENTS.split(' ').map(OsStr::new));
    let own: [&OsStr; 6] = [
        "--proxy".as_ref(),
        proxy.as_ref(),
        "--origin".as_ref(),
        origin.as_ref(),
        "--json".as_ref(),
        json.as_ref(),
    ];
    arguments.extend(own);
    figures::run(&lab_binary(), &arguments, &profile)?;
    running.stop()?;
    let text = fs::read(&json).during(|| format!("reading {}", json.display()))?;
    let robots = serde_json::from_slice(&text).during(|| format!("reading {}", json.display()))?;
    Ok(Run {
        profile,
        robots: Some(robots),
    })
}
