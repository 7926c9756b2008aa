//! `loligo upgrade`: the installed program takes the place of the running process.
//!
//! This command asks the running process, by its admin interface. That process starts the file it was started from, with the same arguments,
//! and hands everything over (`proxy::upgrade`). So the new process has the same cgroup and user, and needs no right that the old one does
//! not have. The link between the two is the new process's standard input, which no other process can reach.
//!
//! Exit status of the command: 0 the new process serves; 1 it was refused, or the proxy does not answer; 2 the address is malformed.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use proxy::{Launch, Predecessor};

use crate::cli::UpgradeFlags;
use crate::settle::EXIT_UNREADABLE;
use crate::top::ask::{self, Place};

/// Tells a new process that its standard input is the link to its predecessor.
const VARIABLE: &str = "LOLIGO_TAKEOVER";

/// Asks the proxy to upgrade.
pub fn run(flags: &UpgradeFlags) -> ExitCode {
    let place = match Place::parse(flags.url.as_deref().unwrap_or(ask::URL)) {
        Ok(place) => place,
        Err(why) => {
            eprintln!("loligo: {why}");
            return ExitCode::from(EXIT_UNREADABLE);
        }
    };
    match place.post_patiently("/upgrade") {
        Ok((200, words)) => {
            commands::print(&crate::reload::shown(&words));
            ExitCode::SUCCESS
        }
        Ok((status, words)) => {
            for line in crate::reload::shown(&words).lines() {
                eprintln!("loligo: {line}");
            }
            if status == 404 {
                eprintln!("loligo: this proxy is older than `loligo upgrade`; restart it");
            }
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("loligo: {why}");
            ExitCode::FAILURE
        }
    }
}

/// How this process starts its successor. Call early: an upgrade replaces the program's file, after which the system no longer reports its
/// path.
pub fn launch() -> Launch {
    let program = std::env::current_exe();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    Box::new(move |link| {
        if std::process::id() == 1 {
            // The end of process 1 would end all processes of its container.
            return Err(io::Error::other(
                "this is the first process of its container, with which all others end; start another container instead",
            ));
        }
        let program: &PathBuf = program.as_ref().map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the program's file is not known: {error}"),
            )
        })?;
        let child = Command::new(program)
            .args(&arguments)
            .env(VARIABLE, "1")
            // The service manager's variable with the process that its watchdog is for.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(link)))
            .spawn();
        let child = child.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", program.display()))
        })?;
        Ok(Some(child))
    })
}

/// The process whose place this one is to take, if this one was started for that.
///
/// # Errors
/// The predecessor does not answer, or speaks another protocol.
pub fn predecessor() -> Result<Option<Predecessor>, String> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(None);
    }
    let stdin = io::stdin();
    if !rustix::net::sockopt::socket_domain(stdin.as_fd())
        .is_ok_and(|domain| domain == rustix::net::AddressFamily::UNIX)
    {
        // The variable was inherited, for example from a script that the new process ran.
        return Ok(None);
    }
    let link = stdin.as_fd().try_clone_to_owned();
    let link = link.map_err(|error| error.to_string())?;
    // Replace standard input, so that nothing else reads from the link and its end is noticed.
    File::open("/dev/null")
        .and_then(|null| Ok(rustix::stdio::dup2_stdin(&null)?))
        .map_err(|error| format!("standard input: {error}"))?;
    Predecessor::meet(UnixStream::from(link)).map(Some)
}
