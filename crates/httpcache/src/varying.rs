//! Which request fields select among the responses of a resource, from one response to the next.
//!
//! Responses of one resource need not name the same fields. Origins that answer CORS send `Vary: Origin` to requests with Origin,
//! and no Vary otherwise. So a list is kept as long as responses name only fields that are in it. A response with fewer names, or none,
//! is still stored by its request's values of all listed fields, *absent* included, and so only serves requests with the same values.
//!
//! ```text
//!   names nothing new ---------------------------------------------> the list is kept
//!   names something new -------------------------------------------> its own names
//!   replaces a response that named more, for a request that
//!   has a field that is not named any more ------------------------> its own names: the origin has stopped choosing by that field
//! ```
//!
//! So a response without Vary is never served to a request for which a response with Vary was chosen. The default response, which
//! answers requests without the fields, never ends a list.
//!
//! Not known here: where lists and responses are kept.   Source: RFC 9111 §4.1, last paragraph but one.

use fields::Fields;

use crate::codings::{Coding, coding_of};
use crate::vary::{VaryList, VaryStar, vary_list};

/// The list after `response`, an answer to `request`; `None`: no field selects. `before`: the list so far. `replaced`: the fields of the
/// stored response of the same status that was chosen for this request; called only if needed.
pub fn list_after(
    before: Option<&VaryList>,
    request: &Fields,
    response: &Fields,
    replaced: impl FnOnce() -> Option<Fields>,
) -> Result<Option<VaryList>, VaryStar> {
    let named = vary_list(response)?;
    let Some(before) = before else {
        return Ok(learned(named, request, response));
    };
    let names_all = named.as_ref().is_some_and(|it| it.has_names_of(before));
    //= rfc9111 §4.1   resources mistakenly omit the Vary header field from their default response
    let goes_on = names_all
        || before.has_all_of(named.as_ref())
            && !replaced().is_some_and(|it| chooses_no_more(&it, named.as_ref(), request));
    if !goes_on {
        return Ok(learned(named, request, response));
    }
    let list = before.clone();
    // A response that does not name Accept-Encoding and has no coding shows nothing about its origin's preferences.
    let says_coding =
        named.is_some_and(|named| named.has_codings()) || coding_of(response) != Coding::Identity;
    Ok(match says_coding {
        true => learned(Some(list), request, response),
        false => Some(list),
    })
}

fn learned(list: Option<VaryList>, request: &Fields, response: &Fields) -> Option<VaryList> {
    list.map(|mut list| {
        list.learn(request, response);
        list
    })
}

/// Did the previous response for this request name a field that the request has and the new response does not name?
fn chooses_no_more(replaced: &Fields, named: Option<&VaryList>, request: &Fields) -> bool {
    let Ok(Some(list)) = vary_list(replaced) else {
        return false;
    };
    let is_named = |name| named.is_some_and(|list| list.has(name));
    list.names()
        .any(|name| request.contains(name) && !is_named(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    /// The names after a response with this Vary to a request with these fields. `replaced`: the Vary of the response it replaces.
    fn after(before: &str, request: &str, vary: &str, replaced: Option<&str>) -> String {
        let of = |names: &str| fields(&format!("Vary: {names}"));
        let before = vary_list(&of(before)).unwrap();
        let list = list_after(before.as_ref(), &fields(request), &of(vary), || {
            replaced.map(of)
        });
        let list = list.unwrap();
        let names: Vec<_> = list.iter().flat_map(|list| list.names()).collect();
        String::from_utf8(names.join(&b","[..])).unwrap()
    }

    #[test]
    fn a_response_that_names_less_leaves_the_list() {
        assert_eq!(after("", "Host: a", "origin", None), "origin");
        assert_eq!(after("origin", "Host: a", "", None), "origin");
        assert_eq!(after("origin", "Origin: a", "", None), "origin");
        let both = "accept-encoding,origin";
        assert_eq!(after(both, "Host: a", "Accept-Encoding", None), both);
        assert_eq!(after("accept-encoding", "Host: a", both, None), both);
        assert_eq!(after("origin", "Host: a", "foo", None), "foo");
        assert_eq!(after("", "Host: a", "", None), "");
    }

    #[test]
    fn a_response_in_the_place_of_one_that_named_more_ends_the_list() {
        assert_eq!(after("origin", "Origin: a", "", Some("Origin")), "");
        let both = "accept-encoding,origin";
        let narrower = after(both, "Origin: a", "Accept-Encoding", Some(both));
        assert_eq!(narrower, "accept-encoding");
        // The default response ends no list, nor does a response that replaces one without more names.
        assert_eq!(after("origin", "Host: a", "", Some("Origin")), "origin");
        assert_eq!(after("origin", "Origin: a", "", Some("")), "origin");
        let default = after(both, "Accept-Encoding: br", "Accept-Encoding", Some(both));
        assert_eq!(default, both);
        let star = fields("Vary: *");
        assert!(list_after(None, &Fields::new(), &star, || None).is_err());
    }

    #[test]
    fn what_says_nothing_of_codings_teaches_nothing_of_them() {
        let vary = fields("Vary: Accept-Encoding & Content-Encoding: gzip");
        let request = fields("Accept-Encoding: gzip, br");
        let none = || None;
        let first = list_after(None, &request, &vary, none).unwrap().unwrap();
        let next = |response: &str| {
            let response = fields(response);
            list_after(Some(&first), &request, &response, none).unwrap()
        };
        assert_eq!(next("Age: 1").as_ref(), Some(&first));
        assert_ne!(next("Vary: Accept-Encoding").as_ref(), Some(&first));
        // No client gets a coding that it does not accept because of a key that does not name the coding.
        let foreign = next("Content-Encoding: zstd").unwrap();
        assert!(!foreign.continues(&first));
    }
}
