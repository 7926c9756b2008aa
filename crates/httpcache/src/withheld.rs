//! Which fields of a response are withheld from other clients.
//!
//! `private="a, b"` and `no-cache="a, b"` concern only these fields; the rest may be stored and reused. A cache that
//! does not store the listed fields obeys both.
//!
//! `field_list` decides which lists can be obeyed. Any other list is ignored: the whole response is private, or no-cache.
//!
//! Not known here: the client that sent the request. The caller gives it all fields.
//! Source: RFC 9111 §5.2.2.4, §5.2.2.7.

use fields::Fields;

use crate::directives::{lists, may_have_lists};
use crate::field_list::members;

/// Removes the fields listed by `private` and `no-cache` from a response, and returns them.
pub fn take_withheld(response: &mut Fields) -> Fields {
    let mut taken = Fields::new();
    let mut names: Vec<Vec<u8>> = Vec::new();
    if !may_have_lists(response) {
        return taken;
    }
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

/// Removes the cookies that a response sets, and returns them. A stored response normally sets none
/// ([`Rules::store_set_cookie`](crate::Rules::store_set_cookie)): `public` means that the content is for everybody,
/// but its author often does not know about a cookie that a framework adds.
pub fn take_cookies(response: &mut Fields) -> Fields {
    let mut taken = Fields::new();
    if !response.contains(b"set-cookie") && !response.contains(b"set-cookie2") {
        return taken;
    }
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

/// Is the field with this name withheld?
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
