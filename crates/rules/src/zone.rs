//! The machine's time zone, which the hours of rules refer to.
//!
//! `TZ` comes first: a name (`Europe/Berlin`), a POSIX rule (`CET-1CEST,M3.5.0,M10.5.0/3`), or a file. Without it `/etc/localtime` is used.
//! Names are looked up in the system's own files (`/usr/share/zoneinfo`), then in a copy inside the program, for images without these
//! files. A machine that sets neither has UTC, as everywhere.
//!
//! Not known here: rules (`rulebook`).

use std::path::Path;

use jiff::tz::{TimeZone, TimeZoneDatabase};

const LOCALTIME: &str = "/etc/localtime";

/// The time zone, and its name for people.
///
/// # Errors
/// The configured zone is unknown: what to do instead.
pub fn zone() -> Result<(TimeZone, String), String> {
    let said = std::env::var_os("TZ").map(|text| text.to_string_lossy().into_owned());
    match (TimeZone::try_system(), said.as_deref()) {
        (Ok(zone), said) => {
            let name = match (zone.iana_name(), said) {
                (Some(name), _) => name.to_owned(),
                (None, Some(said)) => said.to_owned(),
                (None, None) => format!("that of {LOCALTIME}"),
            };
            Ok((zone, name))
        }
        (Err(_), Some(said)) => carried(said).ok_or_else(|| {
            format!(
                "TZ={said} is no time zone that is known here; set TZ to a name such as Europe/Berlin, or take it out, so that \
                 {LOCALTIME} counts"
            )
        }),
        (Err(_), None) if Path::new(LOCALTIME).symlink_metadata().is_err() => {
            Ok((TimeZone::UTC, "UTC, for this machine says none".to_owned()))
        }
        (Err(_), None) => Err(format!(
            "{LOCALTIME} cannot be read as a time zone; link it to a file of /usr/share/zoneinfo, or set TZ to a name such as Europe/Berlin"
        )),
    }
}

/// A zone that the system's files lack, such as an old name (`US/Pacific`), from the copy inside the program.
fn carried(said: &str) -> Option<(TimeZone, String)> {
    let name = said.rsplit_once("zoneinfo/").map_or(said, |(_, name)| name);
    let name = name.trim_start_matches(':');
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    Some((zone, name.to_owned()))
}

/// The name of the time zone that the hours of rules refer to.
///
/// # Errors
/// The configured zone is unknown: what to do instead.
pub fn name_of_zone() -> Result<String, String> {
    zone().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_carries_zones_for_machines_that_lack_them() {
        for said in [
            "Europe/Berlin",
            ":Europe/Berlin",
            "/usr/share/zoneinfo/Europe/Berlin",
        ] {
            let (_, name) = carried(said).unwrap();
            assert_eq!(name, "Europe/Berlin");
        }
        assert!(carried("US/Pacific").is_some());
        assert!(carried("Berlin").is_none() && carried("").is_none());
    }
}
