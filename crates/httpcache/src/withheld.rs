//! Which fields of a response the others do not get.
//!
//! `private="a, b"` and `no-cache="a, b"` speak of these fields alone: the rest may be stored and used again. So a cache
//! that leaves the listed fields out of what it keeps obeys both, and need not remember them.
//!
//! Which lists are believed: `field_list`. Any other counts as no list at all: private, or no-cache, as a whole.
//!
//! Not known here: that the one who asked gets all fields; the caller sees to it.
//! Source: RFC 9111 §5.2.2.4, §5.2.2.7.

use fields::Fields;

use crate::directives::lists;
use crate::field_list::members;

/// Takes the fields that `private` and `no-cache` list out of a response, and returns them.
pub fn take_withheld(response: &mut Fields) -> Fields {
    let mut taken = Fields::new();
    let mut names: Vec<Vec<u8>> = Vec::new();
    for list in lists(response) {
        names.extend(members(list).map(<[u8]>::to_ascii_lowercase));
    }
    if names.is_empty() {
        return taken;
    }
    response.retain(|name, value| {
        let listed = names.iter().any(|one| name.eq_ignore_ascii_case(one));
        if listed {
            taken.push(name, value);
        }
        !listed
    });
    taken
}

/// Takes the cookies that a response sets, and returns them. What is stored for all sets none
/// ([`Rules::store_set_cookie`](crate::Rules::store_set_cookie)): `public` says that the content is for everybody, and is
/// often written by who does not think of the cookie that a framework adds.
pub fn take_cookies(response: &mut Fields) -> Fields {
    let mut taken = Fields::new();
    response.retain(|name, value| {
        if is_cookie(name) {
            taken.push(name, value);
        }
        !is_cookie(name)
    });
    taken
}

pub(crate) fn is_cookie(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"set-cookie") || name.eq_ignore_ascii_case(b"set-cookie2")
}

/// Is a field of that name withheld?
pub(crate) fn is_withheld(response: &Fields, name: &[u8]) -> bool {
    lists(response).any(|list| members(list).any(|one| one.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    #[test]
    fn cookies_go_others_stay() {
        let mut found =
            fields("A: 1 & SET-cookie: a=b & Set-Cookie2: c & Cookie: d & set-cookie: e");
        let taken = take_cookies(&mut found);
        assert_eq!(found, fields("A: 1 & Cookie: d"));
        assert_eq!(
            taken,
            fields("SET-cookie: a=b & Set-Cookie2: c & set-cookie: e")
        );
    }

    fn check(response: &str, kept: &str, withheld: &str) {
        let mut found = fields(response);
        let taken = take_withheld(&mut found);
        found.remove(b"cache-control");
        assert_eq!(found, fields(kept), "{response}");
        assert_eq!(taken, fields(withheld), "{response}");
    }

    #[test]
    fn listed_fields_are_taken() {
        check(
            "Cache-Control: private=\"a, B\" & A: 1 & C: 3 & b: 2 & a: 4",
            "C: 3",
            "A: 1 & b: 2 & a: 4",
        );
        check("Cache-Control: no-cache=a & A: 1 & C: 3", "C: 3", "A: 1");
        check(
            "Cache-Control: no-cache=\"a\", max-age=1 & Cache-Control: private=\"c\" & A: 1 & C: 3",
            "",
            "A: 1 & C: 3",
        );
        check("Cache-Control: max-age=1 & A: 1", "A: 1", "");
        check("Cache-Control: private & A: 1", "A: 1", "");
        check("Cache-Control: foo=\"a\" & A: 1", "A: 1", "");
    }
}
