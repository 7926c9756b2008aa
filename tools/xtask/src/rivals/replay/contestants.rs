//! The contestants: Loligo once for each set of settings, and the rivals that differ in which objects they keep.
//!
//! Of variants that differ only in how bytes are moved (nginx with sendfile, Squid's diskd and ufs beside aufs) one takes part.

use std::str::FromStr;

use crate::failure::{Result, fail};
use crate::rivals::Rival;

/// A proxy with settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contestant {
    pub name: String,
    pub rival: Rival,
    /// lines of its configuration
    pub settings: Vec<String>,
}

/// Loligo with settings from the command line: `NAME:key=value,key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    name: String,
    /// lines of TOML
    settings: Vec<String>,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(format!("{name:?}: a name has letters, digits, -, _ and ."));
        }
        let settings = settings.split(',').filter(|it| !it.is_empty());
        let settings = settings.map(|setting| {
            // A value may contain `=` itself, as in second-chance=25.
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("{setting:?} is not key=value"))?;
            let key = match key.contains('.') {
                true => key.to_owned(),
                false => format!("store.{key}"),
            };
            let is_bare = value.parse::<f64>().is_ok() || matches!(value, "true" | "false");
            Ok(match is_bare {
                true => format!("{key} = {value}"),
                false => format!("{key} = {value:?}"),
            })
        });
        Ok(Self {
            name: format!("loligo-{name}"),
            settings: settings.collect::<Result<_, String>>()?,
        })
    }
}

/// The settings of Loligo that are compared by default.
const USUAL: [&str; 4] = [
    "default",
    "second-chance:replacement=second-chance,admission=all",
    "second-hit:admission=second-hit",
    "gdsf:replacement=gdsf,admission=all",
];
const GDSF: [&str; 2] = [
    "cache_replacement_policy heap GDSF",
    "memory_replacement_policy heap GDSF",
];
const LRU: [&str; 2] = [
    "cache_replacement_policy lru",
    "memory_replacement_policy lru",
];

/// All contestants, or those of these names.
pub fn chosen(wanted: &[Wanted], only: &[String]) -> Result<Vec<Contestant>> {
    let usual = || {
        USUAL
            .iter()
            .map(|text| text.parse().expect("they are well-formed"))
    };
    let ours: Vec<Wanted> = match wanted {
        [] => usual().collect(),
        some => some.to_vec(),
    };
    let ours = ours.into_iter().map(|it| Contestant {
        name: it.name,
        rival: Rival::Loligo,
        settings: it.settings,
    });
    let rivals = [
        ("squid-aufs-gdsf", Rival::SquidAufs, &GDSF[..]),
        ("squid-aufs-lru", Rival::SquidAufs, &LRU),
        ("squid-rock", Rival::SquidRock, &[]),
        ("trafficserver", Rival::TrafficServer, &[]),
        ("nginx", Rival::Nginx, &[]),
        ("varnish-file", Rival::VarnishFile, &[]),
        ("haproxy", Rival::Haproxy, &[]),
    ];
    let rivals = rivals.map(|(name, rival, settings)| Contestant {
        name: name.to_owned(),
        rival,
        settings: settings.iter().map(|&line| line.to_owned()).collect(),
    });
    let all: Vec<Contestant> = ours.chain(rivals).collect();
    for (at, one) in all.iter().enumerate() {
        if all[..at].iter().any(|other| other.name == one.name) {
            fail!("{} is there twice", one.name);
        }
    }
    let is_meant = |one: &Contestant, name: &str| name == one.name || name == one.rival.product();
    for name in only {
        if !all.iter().any(|one| is_meant(one, name)) {
            let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
            fail!("nobody is called {name:?}; there are {}", names.join(", "));
        }
    }
    let mut all = all;
    all.retain(|one| only.is_empty() || only.iter().any(|name| is_meant(one, name)));
    Ok(all)
}
