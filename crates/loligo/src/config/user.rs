//! `user` and `group`: the account to which a process that was started as root changes.
//!
//! Names are looked up in `/etc/passwd` and `/etc/group`, which [`Machine`] provides; accounts of a directory service must be named by
//! number. This avoids the C library's lookup, which would load modules.
//!
//! Not known here: how the change is made (`proxy::plan::User`).

use proxy::plan::User;

use super::machine::Machine;
use super::problem::Found;
use super::raw::Block;

/// The default user, if there is one of this name.
const DEFAULT: &str = "loligo";

/// The user to change to, if any. `whole`: the settings as written.
pub fn settle(
    (name, group): (Option<&str>, Option<&str>),
    whole: &Block,
    machine: &Machine,
    found: &mut Found,
) -> Option<User> {
    let Some(name) = name else {
        if group.is_some() {
            let message = "needs user = as well: the group of whom?";
            found.problems.push(whole.problem("group", message));
            return None;
        }
        if !machine.is_root {
            return None;
        }
        let user =
            account(&machine.users, DEFAULT).and_then(|(uid, gid)| ordinary(DEFAULT, uid, gid?));
        if user.is_none() {
            found.notes.push(
                "it was started as root and stays root: name a user for it, user = \"nobody\", or say user = \"root\"".to_owned(),
            );
        }
        return user;
    };
    let of_user = account(&machine.users, name);
    let of_group = group.map(|group| (group, account(&machine.groups, group)));
    let (key, message) = match (of_user, of_group) {
        (Some((0, _)), _) => return None,
        (None, _) => {
            let how = format!("useradd --system {name}");
            (
                "user",
                format!(
                    "there is no such user in /etc/passwd: make it ({how}), or give its number"
                ),
            )
        }
        (_, Some((_, None))) => (
            "group",
            "there is no such group in /etc/group: make it, or give its number".to_owned(),
        ),
        (Some((uid, _)), Some((_, Some((gid, _))))) | (Some((uid, Some(gid))), None) => {
            let user = ordinary(name, uid, gid);
            match user {
                Some(_) if machine.is_root => return user,
                Some(_) => {
                    found.fitted.push(format!("user = \"{name}\" is for a process that is started as root; this one stays what it is"));
                    return None;
                }
                None => {
                    let key = if group.is_some() { "group" } else { "user" };
                    (
                        key,
                        "its group is root's, which has some of root's rights: name another group"
                            .to_owned(),
                    )
                }
            }
        }
        (Some((_, None)), None) => (
            "user",
            "a user without a name in /etc/passwd needs group = as well".to_owned(),
        ),
    };
    found.problems.push(whole.problem(key, message));
    None
}

fn ordinary(name: &str, uid: u32, gid: u32) -> Option<User> {
    (uid != 0 && gid != 0).then(|| User {
        name: name.to_owned(),
        uid,
        gid,
    })
}

/// The number of an account, and the field after it: a user's group. An account given by number need not be in the file.
fn account(file: &str, name: &str) -> Option<(u32, Option<u32>)> {
    let number: Option<u32> = name.parse().ok();
    let found = file.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (its_name, own) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        let is_it = number.map_or(its_name == name, |number| number == own);
        is_it.then(|| (own, fields.next().and_then(|text| text.parse().ok())))
    });
    found.or_else(|| Some((number?, None)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{machine, raw};
    use super::super::{Settled, into_plan};
    use super::*;

    fn as_root(text: &str, users: &str) -> Result<Settled, String> {
        let machine = Machine {
            is_root: true,
            users: machine().users + users,
            ..machine()
        };
        into_plan(&raw(text).unwrap(), &machine).map_err(|problems| problems[0].to_string())
    }

    fn numbers(text: &str) -> Option<(u32, u32)> {
        let user = as_root(text, "").unwrap().plan.user;
        user.map(|user| (user.uid, user.gid))
    }

    #[test]
    fn users_and_groups_by_name_or_number() {
        assert_eq!(numbers("user = \"proxy\""), Some((13, 14)));
        assert_eq!(numbers("user = 13"), Some((13, 14)));
        assert_eq!(numbers("user = \"proxy\"\ngroup = \"adm\""), Some((13, 4)));
        assert_eq!(numbers("user = 10001\ngroup = 10001"), Some((10001, 10001)));
        assert_eq!(numbers("user = \"root\""), None);
    }

    #[test]
    fn without_a_word_it_is_loligo_or_said() {
        let there = as_root("", "loligo:x:70:71::/:/bin/false\n").unwrap();
        assert_eq!(there.plan.user.map(|user| user.uid), Some(70));
        let not_there = as_root("", "").unwrap();
        assert_eq!(not_there.plan.user, None);
        assert!(
            not_there.notes[0].contains("stays root"),
            "{:?}",
            not_there.notes
        );
        assert!(as_root("user = \"root\"", "").unwrap().notes.is_empty());
    }

    #[test]
    fn somebody_elses_process_stays_what_it_is() {
        let settled = into_plan(&raw("user = \"proxy\"").unwrap(), &machine()).unwrap();
        assert_eq!(settled.plan.user, None);
        assert!(settled.fitted[0].contains("stays what it is"));
        let quiet = into_plan(&raw("").unwrap(), &machine()).unwrap();
        assert!(quiet.notes.is_empty() && quiet.plan.user.is_none());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, why) in [
            ("user = \"squid\"", "no such user"),
            ("user = \"proxy\"\ngroup = \"web\"", "no such group"),
            ("user = \"proxy\"\ngroup = \"root\"", "root's"),
            ("user = 10001", "needs group"),
            ("group = \"adm\"", "needs user"),
            ("user = \"a b\"", "expected a name"),
            ("user = -1", "no such user"),
            ("user = 4294967296", "no such user"),
        ] {
            let said = as_root(text, "").unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
