//! Root's rights are given up.
//!
//! Root may bind low ports and open disks; what comes in from outside should meet a process that may do neither. So a proxy that is
//! started as root becomes an ordinary user between the two: sockets are bound and stores open, and no thread has been started yet.
//! Threads inherit what the one before them is; the kernel knows users and capabilities by thread. Afterwards all threads are
//! looked at ([`verify`]).
//!
//! What is opened later is opened by the user: logs, the journal of a cluster. That way a log that can be opened at the start can also be
//! opened anew when it is rotated. A device that is set aside stays open, so it comes back without root. A listener below port 1024 that
//! is added later cannot be bound.
//!
//! Not known here: names of users (`loligo::config`).

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use plan::User;

/// Bits that a set of capabilities has.
const CAPABILITIES: u32 = 64;

/// Why root's rights are still there.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// A step.
    #[error("user = \"{user}\": {step}: {source}; {hint}")]
    Step {
        /// Whom it should become.
        user: String,
        /// What failed.
        step: &'static str,
        /// Why.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// A thread that is not what it should be.
    #[error("user = \"{user}\": a thread kept more rights: {line:?} in its status")]
    Kept {
        /// Whom it should be.
        user: String,
        /// The line of `/proc/self/task/*/status`.
        line: String,
    },
}

/// Becomes this user, with its group alone, without any capability and without a way to get one. The only thread must call it.
///
/// # Errors
/// A step failed; the process may be something in between and must end.
pub fn become_user(user: &User) -> Result<(), UserError> {
    let failed = |step, hint| {
        move |source: io::Error| UserError::Step {
            user: user.name.clone(),
            step,
            source,
            hint,
        }
    };
    assert_ne!(user.uid, 0, "root is not given up for root");
    assert_ne!(user.gid, 0, "root's group is not given up for itself");
    assert!(
        threads() <= 1,
        "only a single thread can give up its rights for all"
    );
    forget_bounding_set().map_err(failed(
        "its capabilities",
        "start with CAP_SETPCAP, or as that user",
    ))?;
    let may_not = "start as root with CAP_SETUID and CAP_SETGID, or as that user";
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let to_io = io::Error::from;
    thread::set_thread_groups(&[])
        .map_err(to_io)
        .map_err(failed("its groups", may_not))?;
    thread::set_thread_res_gid(gid, gid, gid)
        .map_err(to_io)
        .map_err(failed("its group", may_not))?;
    // The kernel empties the sets of effective, permitted and ambient capabilities with that.
    thread::set_thread_res_uid(uid, uid, uid)
        .map_err(to_io)
        .map_err(failed("its number", may_not))?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    thread::set_capabilities(None, none)
        .and_then(|()| thread::set_no_new_privs(true))
        .map_err(to_io)
        .map_err(failed("its capabilities", may_not))
}

/// What no program started from here may ever have. Without the right to do so it is left alone: `no_new_privs` has the same effect.
fn forget_bounding_set() -> io::Result<()> {
    for bit in 0..CAPABILITIES {
        match thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit))
        {
            // The kernel knows no more of them.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(Errno::PERM) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Threads of this process; 0 without `/proc`.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Looks whether every thread is that user and nothing more. Without `/proc` there is nothing to look at.
///
/// # Errors
/// One is not.
pub fn verify(user: &User) -> Result<(), UserError> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    for task in tasks {
        // It may have ended meanwhile.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else {
            continue;
        };
        if let Some(line) = kept(&status, user) {
            let (user, line) = (user.name.clone(), line.to_owned());
            return Err(UserError::Kept { user, line });
        }
    }
    Ok(())
}

/// The line of a thread's status that says more than it should.
fn kept<'a>(status: &'a str, user: &User) -> Option<&'a str> {
    let all = |words: &str, number: u32| {
        words
            .split_whitespace()
            .all(|word| word == number.to_string())
    };
    status.lines().find(|line| match line.split_once(':') {
        Some(("Uid", words)) => !all(words, user.uid),
        Some(("Gid", words)) => !all(words, user.gid),
        Some(("Groups", words)) => !words.trim().is_empty(),
        Some(("CapInh" | "CapPrm" | "CapEff" | "CapAmb", words)) => {
            words.trim().bytes().any(|b| b != b'0')
        }
        Some(("NoNewPrivs", words)) => words.trim() != "1",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tloligo\nUid:\t64\t64\t64\t64\nGid:\t65\t65\t65\t65\nGroups:\t \nCapInh:\t0000000000000000\n\
                          CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t1\n";

    #[test]
    fn more_rights_than_the_users_are_seen() {
        let user = User {
            name: "loligo".into(),
            uid: 64,
            gid: 65,
        };
        assert_eq!(kept(STATUS, &user), None);
        for (from, to) in [
            ("64\t64\t64\t64", "64\t64\t0\t64"),
            ("65\t65\t65\t65", "0\t65\t65\t65"),
            ("Groups:\t ", "Groups:\t0 6"),
            ("CapPrm:\t0000000000000000", "CapPrm:\t0000000000000400"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
        ] {
            let status = STATUS.replace(from, to);
            assert!(kept(&status, &user).is_some(), "{status}");
        }
    }
}
