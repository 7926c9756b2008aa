//! Load by wrk: one thread, keep-alive connections, exact figures through its Lua interface.
//!
//! wrk prints rounded figures for people; a `done` function prints the exact ones on one line for this program. A static request costs
//! wrk least, so a single URL has no `request` function; random and unique ids need one, and that lowers wrk's maximal rate.
//!
//! wrk shares the cores with the server it measures, in the same way for every server. It is not pinned: a server with two
//! workers uses both cores, and a pinned wrk would slow one worker and leave the other idle. CPU per request is read from
//! the server's processes, so it does not include wrk's own share.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::workspace;

/// A response that takes longer counts as an error.
const TIMEOUT_S: u32 = 10;
/// Most bytes that a head adds to a body: a greater surplus means that bodies are too long.
const HEAD_BYTES_MAX: u64 = 2_000;

/// The objects to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objects {
    /// One object, over and over.
    One { id: String },
    /// `<prefix>0` to `<prefix><count - 1>`, at random.
    Random {
        prefix: String,
        count: u64,
        seed: u64,
    },
    /// `<prefix>0`, `<prefix>1` and so on, each once.
    Unique { prefix: String },
    /// `fresh_percent` of the requests are for a new object each, `<prefix>f0` and so on; the others are for `<prefix>0` to
    /// `<prefix><count - 1>`, at random.
    Mixed {
        prefix: String,
        count: u64,
        fresh_percent: u64,
        seed: u64,
    },
}

/// One run of wrk.
#[derive(Debug, Clone)]
pub struct Load {
    pub address: SocketAddr,
    /// Use TLS; the certificate is not verified.
    pub is_encrypted: bool,
    pub connections: u32,
    pub time: Duration,
    pub bytes: u64,
    pub objects: Objects,
}

/// The figures of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub requests: u64,
    pub received_bytes: u64,
    pub seconds: f64,
    /// status over 399, sockets that failed, time-outs
    pub errors: u64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p98_us: f64,
    pub p99_us: f64,
}

impl Figures {
    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}

const DONE: &str = r#"
function done(s, latency, requests)
  local e = s.errors
  io.write(string.format("xtask %d %d %d %d %.1f %.1f %.1f %.1f\n", s.requests, s.bytes, s.duration,
    e.status + e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(98), latency:percentile(99)))
end
"#;

/// The script for these objects.
fn script(objects: &Objects, bytes: u64) -> String {
    match objects {
        Objects::One { .. } => DONE.to_owned(),
        Objects::Random {
            prefix,
            count,
            seed,
        } => format!(
            r#"local head
function init(args)
  math.randomseed({seed})
  head = "GET /size/{bytes}/{prefix}"
  tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
end
function request()
  return head .. math.random(0, {last}) .. tail
end
{DONE}"#,
            last = count.saturating_sub(1)
        ),
        Objects::Mixed {
            prefix,
            count,
            fresh_percent,
            seed,
        } => format!(
            r#"local head
local n = -1
function init(args)
  math.randomseed({seed})
  head = "GET /size/{bytes}/{prefix}"
  tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
end
function request()
  if math.random(100) > {fresh_percent} then
    return head .. math.random(0, {last}) .. tail
  end
  n = n + 1
  return head .. "f" .. n .. tail
end
{DONE}"#,
            last = count.saturating_sub(1)
        ),
        Objects::Unique { prefix } => format!(
            r#"local head
local n = -1
function init(args)
  head = "GET /size/{bytes}/{prefix}"
  tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
end
function request()
  n = n + 1
  return head .. n .. tail
end
{DONE}"#
        ),
    }
}

/// Runs wrk to its end. Errors and answers of wrong length are failures.
pub fn run(load: &Load, dir: &Path) -> Result<Figures> {
    let Some(wrk) = workspace::program("wrk") else {
        fail!("wrk is not installed");
    };
    fs::create_dir_all(dir).during(|| format!("making {}", dir.display()))?;
    let lua = dir.join(format!("load-{}.lua", load.address.port()));
    fs::write(&lua, script(&load.objects, load.bytes))
        .during(|| format!("writing {}", lua.display()))?;
    let id = match &load.objects {
        Objects::One { id } => id.as_str(),
        _ => "",
    };
    let url = format!(
        "{}://{}{}",
        if load.is_encrypted { "https" } else { "http" },
        load.address,
        crate::origin::path(load.bytes, id)
    );
    let mut child = Command::new(wrk)
        .args(["-t1", "--latency", "-s"])
        .arg(&lua)
        .args([
            format!("-c{}", load.connections),
            format!("-d{}s", load.time.as_secs().max(1)),
            format!("--timeout={TIMEOUT_S}s"),
            url,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .during(|| "starting wrk".into())?;
    let limit = load.time + Duration::from_secs(u64::from(TIMEOUT_S) + 20);
    let ended = interrupt::wait_until(limit, || !matches!(child.try_wait(), Ok(None)));
    if !matches!(ended, Ok(true)) {
        // The process may end by itself in the meantime.
        let _ = child.kill();
    }
    // The output is a page of text and fits a pipe's buffer, so wrk never waits for a reader.
    let output = child
        .wait_with_output()
        .during(|| "waiting for wrk".into())?;
    if !ended? {
        fail!("wrk did not end in time");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(figures) = parse(&text) else {
        fail!(
            "wrk said nothing useful: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    check(&figures, load)?;
    Ok(figures)
}

fn parse(text: &str) -> Option<Figures> {
    let line = text.lines().find_map(|l| l.strip_prefix("xtask "))?;
    let n: Vec<f64> = line
        .split(' ')
        .map(|w| w.parse().ok())
        .collect::<Option<_>>()?;
    let [
        requests,
        bytes,
        duration_us,
        errors,
        p50_us,
        p90_us,
        p98_us,
        p99_us,
    ] = n[..]
    else {
        return None;
    };
    Some(Figures {
        requests: requests as u64,
        received_bytes: bytes as u64,
        seconds: duration_us / 1e6,
        errors: errors as u64,
        p50_us,
        p90_us,
        p98_us,
        p99_us,
    })
}

fn check(figures: &Figures, load: &Load) -> Result<()> {
    if figures.errors > 0 {
        fail!(
            "{} errors in {} requests to {}",
            figures.errors,
            figures.requests,
            load.address
        );
    }
    if figures.requests == 0 {
        fail!("{} answered nothing", load.address);
    }
    // Bytes of answers cut off by the end of the run are counted too: at most one answer a connection.
    let least = load.bytes * figures.requests;
    let most = (load.bytes + HEAD_BYTES_MAX) * (figures.requests + u64::from(load.connections));
    if !(least..=most).contains(&figures.received_bytes) {
        fail!(
            "{} answered {} requests with {} bytes in all: not {} each",
            load.address,
            figures.requests,
            figures.received_bytes,
            load.bytes
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(bytes: u64) -> Load {
        Load {
            address: "127.0.0.1:1".parse().unwrap(),
            is_encrypted: false,
            connections: 64,
            time: Duration::from_secs(1),
            bytes,
            objects: Objects::One { id: "x".into() },
        }
    }

    #[test]
    fn the_line_for_us_is_found_among_those_for_people() {
        let text = "Running 1s test\n  10 requests\nxtask 10 12000 2000000 0 55.0 70.0 88.0 90.5\n";
        let figures = parse(text).unwrap();
        assert_eq!((figures.requests, figures.received_bytes), (10, 12_000));
        assert_eq!((figures.rate(), figures.p99_us), (5.0, 90.5));
        assert_eq!(parse("Running 1s test"), None);
    }

    #[test]
    fn errors_and_wrong_lengths_are_failures() {
        let good = parse("xtask 10 12000 2000000 0 55.0 70.0 88.0 90.5").unwrap();
        assert!(check(&good, &load(1_000)).is_ok());
        assert!(check(&good, &load(100_000)).is_err());
        assert!(check(&Figures { errors: 1, ..good }, &load(1_000)).is_err());
        assert!(
            check(
                &Figures {
                    requests: 0,
                    ..good
                },
                &load(1_000)
            )
            .is_err()
        );
    }

    #[test]
    fn unique_ids_are_counted_and_random_ones_bounded() {
        let unique = Objects::Unique {
            prefix: "m-1-".into(),
        };
        assert!(script(&unique, 10).contains("GET /size/10/m-1-\""));
        let random = Objects::Random {
            prefix: "d".into(),
            count: 100,
            seed: 7,
        };
        assert!(script(&random, 10).contains("math.random(0, 99)"));
        let mixed = Objects::Mixed {
            prefix: "x".into(),
            count: 10,
            fresh_percent: 75,
            seed: 7,
        };
        let text = script(&mixed, 10);
        assert!(text.contains("math.random(100) > 75") && text.contains("math.random(0, 9)"));
    }
}
