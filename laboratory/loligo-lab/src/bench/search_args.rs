//! The arguments of `loligo bench search`.
//!
//! Not known here: how a search proceeds.   Limits: rates from `--least` to `--most`.

use clap::Args;
use commands::out::OutFlags;
use polymix::phases::Sizing;
use polymix::run::Test;
use polymix::search::{Bounds, Conditions};

use super::args::{RobotFlags, new_world, positive, size};

/// The phases of a step: the cache is filled, the peak held once.
const PHASES: [&str; 5] = ["framp", "fill", "fexit", "inc1", "top1"];
/// The top phases of the workload as it was, seconds.
const TOP_S: f64 = 4.0 * 3_600.0;

#[derive(Args, Debug)]
pub struct SearchFlags {
    #[command(flatten)]
    pub robot: RobotFlags,

    /// Size of the proxy's cache; each fill brings twice as much. 0 fills only as much as the working set
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub cache_size: u64,

    /// The first rate, requests a second
    #[arg(long, value_name = "R", default_value = "100", value_parser = positive)]
    pub first: f64,

    /// Not below this rate [default: a hundredth of the first]
    #[arg(long, value_name = "R", value_parser = positive)]
    pub least: Option<f64>,

    /// Not above this rate
    #[arg(long, value_name = "R", default_value = "100000", value_parser = positive)]
    pub most: f64,

    /// How narrow the gap between stood and not stood must be, as a share of the rate
    #[arg(long, value_name = "SHARE", default_value = "0.05", value_parser = positive)]
    pub tolerance: f64,

    /// Seconds that the peak is held; the other phases and the working set go with it
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = positive)]
    pub top: f64,

    /// Mean response must be below this, milliseconds [default: 3000 times --think-scale, at least 100]
    #[arg(long, value_name = "MS", value_parser = positive)]
    pub response_limit: Option<f64>,

    /// The document hit ratio may be so many points below what is offered
    #[arg(long, value_name = "POINTS", default_value = "2", value_parser = positive)]
    pub hit_points: f64,

    /// Seconds between two steps, for the proxy to come to rest
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = positive)]
    pub pause: f64,

    /// What to call the proxy
    #[arg(long, value_name = "NAME", default_value = "")]
    pub label: String,

    #[command(flatten)]
    pub out: OutFlags,

    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

impl SearchFlags {
    /// The bounds of the search, or why the arguments make no sense.
    pub fn bounds(&self) -> Result<Bounds, String> {
        let least = self.least.unwrap_or(self.first / 100.0);
        if !(least <= self.first && self.first <= self.most) {
            return Err(format!(
                "--first {} is not between --least {least} and --most {}",
                self.first, self.most
            ));
        }
        Ok(Bounds {
            first: self.first,
            least,
            most: self.most,
            tolerance: self.tolerance,
        })
    }

    /// The conditions that a load must meet.
    pub fn conditions(&self) -> Conditions {
        let usual = Conditions::for_think_scale(self.robot.workload.think_scale);
        Conditions {
            response_ms_max: self.response_limit.unwrap_or(usual.response_ms_max),
            hit_points: self.hit_points,
        }
    }

    /// The test for a step.
    pub fn test(&self, step: usize, rate: f64) -> Test {
        let test = self.robot.test(rate, self.top / TOP_S);
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        Test {
            sizing: Sizing {
                cache_bytes: self.cache_size,
                ..test.sizing
            },
            // Objects that no other step has requested.
            world: new_world().wrapping_add(step << 24),
            only: PHASES.map(str::to_owned).to_vec(),
            ..test
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        flags: SearchFlags,
    }

    fn typed(arguments: &str) -> SearchFlags {
        let words = ["x", "--proxy", "127.0.0.1:3128"];
        Typed::parse_from(words.into_iter().chain(arguments.split_whitespace())).flags
    }

    #[test]
    fn the_top_gives_the_time_scale() {
        let test = typed("--top 60").test(0, 200.0);
        assert!((test.sizing.time_scale - 1.0 / 240.0).abs() < 1e-12);
        let test = typed("--time-scale 1/1440").test(0, 200.0);
        assert!((test.sizing.time_scale - 1.0 / 1440.0).abs() < 1e-12);
    }

    #[test]
    fn limits_scale_unless_they_are_given() {
        let limit = |arguments: &str| typed(arguments).conditions().response_ms_max;
        assert!((limit("") - 3_000.0).abs() < 1e-9);
        assert!((limit("--think-scale 0.1") - 300.0).abs() < 1e-9);
        assert!((limit("--think-scale 0.1 --response-limit 50") - 50.0).abs() < 1e-9);
    }

    #[test]
    fn every_step_has_objects_of_its_own_and_all_its_phases() {
        let flags = typed("");
        assert_ne!(flags.test(0, 10.0).world, flags.test(1, 10.0).world);
        let sizing = flags.test(0, 10.0).sizing;
        let known: Vec<_> = polymix::phases::phases(&sizing)
            .iter()
            .map(|phase| phase.name)
            .collect();
        assert!(PHASES.iter().all(|name| known.contains(name)));
    }

    #[test]
    fn bounds_are_in_order() {
        assert!(typed("--first 100").bounds().is_ok());
        assert!(typed("--first 100 --most 50").bounds().is_err());
        assert!(typed("--first 100 --least 200").bounds().is_err());
    }
}
