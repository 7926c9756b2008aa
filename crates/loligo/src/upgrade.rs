//! `loligo upgrade`: the program as it is now takes the place of the running one.
//!
//! The running process does it, asked by its admin interface: it starts the file that it was started from, with the same arguments, and
//! hands everything over (`proxy::upgrade`). So the new process is in the same cgroup, of the same user, and needs no right that the old
//! one does not have. The link between the two is the new one's standard input, which nobody else can reach.
//!
//! Exit status of the command: 0 the new process serves; 1 it was refused, or the proxy does not answer; 2 the address is none.

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

/// Says to a new process that its standard input leads to the one whose place it takes.
const VARIABLE: &str = "LOLIGO_TAKEOVER";

/// Asks for it.
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

/// How this process starts the one that takes its place. To be asked for early: later the file may be another, which is the point of it,
/// and its path is then not told any more.
pub fn launch() -> Launch {
    let program = std::env::current_exe();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    Box::new(move |link| {
        if std::process::id() == 1 {
            // Its end would be the end of all that was started in it.
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
            // Of the service manager: whom it watches over.
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::from(OwnedFd::from(link)))
            .spawn();
        let child = child.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", program.display()))
        })?;
        Ok(Some(child))
    })
}

/// The process whose place this one is to take, if it was started for that.
///
/// # Errors
/// It is not there, or speaks otherwise.
pub fn predecessor() -> Result<Option<Predecessor>, String> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(None);
    }
    let stdin = io::stdin();
    if !rustix::net::sockopt::socket_domain(stdin.as_fd())
        .is_ok_and(|domain| domain == rustix::net::AddressFamily::UNIX)
    {
        // A process that such a one has started, for example a script's.
        return Ok(None);
    }
    let link = stdin.as_fd().try_clone_to_owned();
    let link = link.map_err(|error| error.to_string())?;
    // Nobody else is to read from it, and its end is to be seen.
    File::open("/dev/null")
        .and_then(|null| Ok(rustix::stdio::dup2_stdin(&null)?))
        .map_err(|error| format!("standard input: {error}"))?;
    Predecessor::meet(UnixStream::from(link)).map(Some)
}
