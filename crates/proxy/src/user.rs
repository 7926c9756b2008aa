//! Gives up root's rights.
//!
//! Root may bind low ports and open disks; a process that reads input from outside should be allowed to do neither. So a proxy started
//! as root becomes an ordinary user in between: after sockets were bound and stores opened, and before a thread was started. A thread
//! inherits the rights of the thread that starts it, and the kernel keeps users and capabilities for each thread. Afterwards all
//! threads are checked ([`verify`]).
//!
//! The user opens all later files: logs, the journal of a cluster. So a log that can be opened at the start can also be opened again when
//! it is rotated. A device that is set aside stays open, so it comes back without root's rights. A listener below port 1024 that is added
//! later cannot be bound.
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

/// Why root's rights could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// A step failed.
    #[error("user = \"{user}\": {step}: {source}; {hint}")]
    Step {
        /// The user to become.
        user: String,
        /// The step that failed.
        step: &'static str,
        /// Why.
        source: io::Error,
        /// What the operator can do.
        hint: &'static str,
    },
    /// A thread has other rights than it should.
    #[error("user = \"{user}\": a thread kept more rights: {line:?} in its status")]
    Kept {
        /// The user that the thread should have.
        user: String,
        /// The line of `/proc/self/task/*/status`.
        line: String,
    },
}

/// Becomes this user, with only its group, without capabilities and without a way to get any. Only a process with one thread may call this.
///
/// # Errors
/// A step failed. The process may have only part of the rights and must end.
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
    // This also empties the sets of effective, permitted and ambient capabilities.
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

/// Empties the bounding set of capabilities, for programs started from here. Skipped without that right: `no_new_privs` has the same effect.
fn forget_bounding_set() -> io::Result<()> {
    for bit in 0..CAPABILITIES {
        match thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit))
        {
            // Beyond the kernel's last capability.
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

/// Checks that every thread belongs to the user and has no other rights. Does nothing without `/proc`.
///
/// # Errors
/// A thread does not.
pub fn verify(user: &User) -> Result<(), UserError> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    for task in tasks {
        // The thread may have ended meanwhile.
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

/// The line of a thread's status that shows other rights than the user's.
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
