//! `cargo xtask h2spec`: every case of h2spec, including the strict ones, against the program.
//!
//! Plain and over TLS, each *cold* (every request is fetched from the origin, because its answer may not be stored) and *warm* (a GET is
//! a hit in memory, unless a POST before it removed the object). A hit is answered by the connection's own task, a miss by a task of
//! its stream. One case that fails or is skipped is a failure. The table says how many requests reached the origin.
//!
//! Not known here: the cases.   Limits: h2spec waits [`CASE_SECONDS`] for each answer.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::bench::table::Table;
use crate::failure::{During, Result, fail};
use crate::interrupt;
use crate::origin::{self, Origin};
use crate::rivals::front::Protocol;
use crate::rivals::{Request, Rival, build_loligo, launch};
use crate::workspace;

/// Longest wait of a case for an answer.
const CASE_SECONDS: u32 = 5;
/// Long enough for cases about flow control, short enough for one frame.
const OBJECT_BYTES: u64 = 1024;
/// How to install h2spec.
const GET_IT: &str = "h2spec is not installed: go install github.com/summerwind/h2spec/cmd/h2spec@latest, and put $(go env GOPATH)/bin on PATH";

/// What to run.
#[derive(Debug, Args)]
pub struct Options {
    /// Only these sections, such as `http2/6.9` or `hpack`
    sections: Vec<String>,
}

/// The totals in h2spec's last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    cases: u32,
    passed: u32,
}

/// Runs h2spec in all four ways, and prints the counts.
pub fn run(options: &Options) -> Result<()> {
    let Some(program) = workspace::program("h2spec") else {
        fail!("{GET_IT}");
    };
    build_loligo()?;
    let origin = Origin::start(0, 1)?;
    let mut table = Table::new(["port", "cache", "cases", "passed", "fetched", "seconds"]);
    let mut failures = Vec::new();
    for protocol in [Protocol::H2c, Protocol::H2] {
        let label = format!("h2spec-{}", protocol.name());
        let running = launch(
            Rival::Loligo,
            &Request {
                front: Some(protocol),
                ..Request::of(label, origin.address())
            },
        )?;
        running.await_caching(&origin)?;
        let port = running.front.as_ref().expect("it was asked for").address;
        for is_warm in [false, true] {
            interrupt::check()?;
            let cache = if is_warm { "warm" } else { "cold" };
            let path = match is_warm {
                true => origin::path(OBJECT_BYTES, "h2spec"),
                false => origin::passing_path(OBJECT_BYTES, "h2spec"),
            };
            let (before, began) = (origin.served(), Instant::now());
            let said = ask(&program, port.port(), protocol, &path, options)?;
            let Some(counts) = counts_in(&said) else {
                fail!("h2spec ends without its counts:\n{said}");
            };
            let fetched = origin.served() - before;
            table.row([
                protocol.name().into(),
                cache.into(),
                counts.cases.to_string(),
                counts.passed.to_string(),
                fetched.to_string(),
                format!("{:.1}", began.elapsed().as_secs_f64()),
            ]);
            if counts.passed < counts.cases {
                failures.push(format!(
                    "{}, {cache}:\n{}",
                    protocol.name(),
                    what_failed(&said)
                ));
            }
        }
        running.stop()?;
    }
    print!("{}", table.render());
    match failures.is_empty() {
        true => Ok(()),
        false => fail!("{}", failures.join("\n")),
    }
}

fn ask(
    program: &Path,
    port: u16,
    protocol: Protocol,
    path: &str,
    options: &Options,
) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["--strict", "--host", "127.0.0.1", "--path", path]);
    command.args(["--port", &port.to_string()]);
    command.args(["--timeout", &CASE_SECONDS.to_string()]);
    if protocol.is_encrypted() {
        command.args(["--tls", "--insecure"]);
    }
    let output = command
        .args(&options.sections)
        .output()
        .during(|| "running h2spec".into())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// "147 tests, 147 passed, 0 skipped, 0 failed"
fn counts_in(said: &str) -> Option<Counts> {
    let line = said.lines().rev().find(|line| line.contains(" tests, "))?;
    let number = |what: &str| {
        let part = line.split(", ").find(|part| part.ends_with(what))?;
        part.split(' ').next()?.parse().ok()
    };
    Some(Counts {
        cases: number(" tests")?,
        passed: number(" passed")?,
    })
}

/// The part of the output that lists failures again at the end, with the expected results.
fn what_failed(said: &str) -> &str {
    match said.rfind("\nFailures:") {
        Some(at) => &said[at + 1..],
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found() {
        let said = "  1. a\n\nFailures: \n\nb\n\nFinished in 0.1 seconds\n147 tests, 145 passed, 1 skipped, 1 failed\n";
        let (cases, passed) = (147, 145);
        assert_eq!(counts_in(said), Some(Counts { cases, passed }));
        assert!(what_failed(said).starts_with("Failures:"));
        assert_eq!(counts_in("Error: dial tcp"), None);
    }
}
