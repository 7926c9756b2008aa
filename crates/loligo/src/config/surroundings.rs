//! Does the machine have what a plan needs: files it can open, enough memory, cores for its workers?
//!
//! A start would fail for the same reasons later, after the sockets are bound. With the checks here, `check` finds these problems, too, and
//! reports their lines. Nothing is created or changed.
//!
//! A setting that cannot work is a problem. A setting that works, but probably not as meant, is a note.
//!
//! Not known here: stores (checked in `stores`), and how facts about the machine are found out (`machine`).

use std::collections::BTreeMap;

use commands::units::Size;
use proxy::plan::{AccessLog, LogTarget};

use super::general::Draft;
use super::machine::Machine;
use super::problem::Found;
use super::raw::Block;

/// With more workers than this for each core, they only wait for each other.
const WORKERS_A_CORE_MAX: usize = 4;

/// Checks the logs of listeners that have their own.
pub fn look_at_logs(
    logs: &BTreeMap<usize, Option<AccessLog>>,
    blocks: &[Block],
    machine: &Machine,
    found: &mut Found,
) {
    for (number, log) in logs {
        if let Some(LogTarget::File(path)) = log.as_ref().map(|log| &log.target)
            && let Err(why) = (machine.appendable)(path)
        {
            let problem = blocks[*number].problem("listener.access-log", why);
            found.problems.push(problem);
        }
    }
}

/// Checks everything else. `whole`: the settings as written.
pub fn look(draft: &Draft, whole: &Block, machine: &Machine, found: &mut Found) {
    let problems = &mut found.problems;
    let access = match &draft.access {
        Some(LogTarget::File(path)) => Some(path),
        _ => None,
    };
    for (key, path) in [
        ("log.access", access),
        ("log.profile", draft.plan.logs.profile.as_ref()),
    ] {
        if let Some(path) = path
            && let Err(why) = (machine.appendable)(path)
        {
            problems.push(whole.problem(key, why));
        }
    }
    let ram = machine.ram_bytes;
    for (key, bytes) in [
        ("memory", draft.memory.unwrap_or(0)),
        (
            "limits.transfer-buffer",
            draft.plan.limits.transfer_buffer_bytes,
        ),
    ] {
        if bytes > ram {
            let ram = Size(ram >> 20 << 20);
            let message = format!("this process may use {ram} of memory; give it less than that");
            problems.push(whole.problem(key, message));
        }
    }
    let (workers, cores) = (draft.workers.unwrap_or(1), machine.cores);
    if workers > WORKERS_A_CORE_MAX * cores {
        let plural = if cores == 1 { "" } else { "s" };
        found.notes.push(format!(
            "{workers} workers are more than {cores} core{plural} can use; one a core is the default"
        ));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::config::testing::{complaints, settle};

    #[track_caller]
    fn wrong(text: &str, expected: Expect) {
        expected.assert_eq(&complaints(text));
    }

    #[test]
    fn what_cannot_be_opened_is_told_with_its_line() {
        wrong(
            "[tls]\nca-file = \"/missing/ca.pem\"\n\n[log]\nlevel = \"warn\"\naccess = \"/missing/access.log\"\n\
             profile = \"/missing/profile\"\n",
            expect![[r#"
                loligo.toml:2: tls.ca-file = "/missing/ca.pem": /missing/ca.pem: No such file or directory
                loligo.toml:6: log.access = "/missing/access.log": there is no directory /missing; make it first
                loligo.toml:7: log.profile = "/missing/profile": there is no directory /missing; make it first
            "#]],
        );
    }

    #[test]
    fn more_memory_than_there_is_cannot_be() {
        wrong(
            "memory = \"5GiB\"\nlimits.transfer-buffer = \"8GiB\"\n",
            expect![[r#"
                loligo.toml:1: memory = "5GiB": this process may use 4GiB of memory; give it less than that
                loligo.toml:2: limits.transfer-buffer = "8GiB": this process may use 4GiB of memory; give it less than that
            "#]],
        );
    }

    #[test]
    fn more_workers_than_cores_can_use_are_noted() {
        assert_eq!(settle("workers = 16").unwrap().notes, [""; 0]);
        assert_eq!(
            settle("workers = 17").unwrap().notes,
            ["17 workers are more than 4 cores can use; one a core is the default"]
        );
    }
}
