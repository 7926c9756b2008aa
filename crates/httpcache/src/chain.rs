//! Binding a response to the redirects that led to it: the strictest response of the whole chain decides.
//!
//! The client asked for one resource and gets the one at the end of the redirects that the cache followed. So each response of the chain
//! also answers the client's request, and its prohibitions hold for the end as well: its directives, its lifetime and its Vary become
//! fields of the end. Code that stores, shares, validates or forwards the end then obeys them, and so do downstream caches.
//!
//! | in a redirect | at the end |
//! |---|---|
//! | `no-store`, unreadable directives, `Vary: *` | `no-store` |
//! | `private`; Set-Cookie, Authorization or Cookie without the directive that would permit sharing | `private` |
//! | `no-cache`, `must-revalidate`, `proxy-revalidate` | the same |
//! | a lifetime that ends before the end's own | `max-age` |
//! | `Vary` | the same |
//!
//! A 304 replaces fields of the stored response, which was bound when it was stored. So if the 304 has no lifetime or no Vary of its own, a
//! redirect's unexpired lifetime or its Vary is not added.
//!
//! A redirect without directives adds nothing: redirects seldom state a lifetime, and the end has its own.
//!
//! Not known here: which code follows redirects, and where they lead.

use crate::date::UnixMillis;
use crate::directives::ResponseDirectives;
use crate::exchange::{Request, Response};
use crate::freshness::{Standing, has_explicit_lifetime};
use crate::rules::Rules;
use crate::storable::{sets_cookie, speaks_of_reuse, understood};
use crate::targeted::TARGETED_FIELDS;
use crate::vary::vary_list;
use fields::Fields;

/// A response of the chain, a redirect or the end, and when it arrived.
pub struct Hop<'a> {
    /// The response.
    pub response: Response<'a>,
    /// When it arrived.
    pub received: UnixMillis,
}

/// The prohibitions that a redirect adds to the end. `request` is the client's: its credentials and cookies count for each response, even
/// if a server of the chain did not see them.
pub fn bind(request: &Request, hop: &Hop<'_>, end: &Hop<'_>, rules: &Rules) -> Bound {
    let Response { status, fields } = hop.response;
    let said = ResponseDirectives::parse(fields, rules);
    let is_for_all = said.shared_on_purpose();
    let end_fields = end.response.fields;
    let end_said = ResponseDirectives::parse(end_fields, rules);
    let is_silent = |said: &ResponseDirectives, hop: &Hop<'_>| {
        !speaks_of_reuse(said, hop.response.fields, Some(hop.received))
    };

    //= rfc9111 §3.5   the first server has seen the credentials, and where it sends may depend on them
    let is_authorised =
        request.fields.contains(b"authorization") && !is_for_all && !said.must_revalidate;
    // The redirect's must-revalidate is copied to the end, where it must not permit sharing an answer to Authorization.
    let is_lent = request.fields.contains(b"authorization")
        && said.must_revalidate
        && !end_said.shared_on_purpose()
        && !end_said.must_revalidate;
    let is_guessed = rules.cookie_bars_guess
        && request.fields.contains(b"cookie")
        && (is_silent(&said, hop) || is_silent(&end_said, end));
    let sets_cookie = sets_cookie(fields) && !is_for_all && !rules.store_set_cookie;
    let is_overlooked = said.must_understand && understood(status);
    let no_store = (said.no_store || said.must_understand) && !is_overlooked
        || said.malformed
        || vary_list(fields).is_err();

    let mut words: Vec<String> = [
        (no_store, "no-store"),
        (
            said.private || is_authorised || is_lent || is_guessed || sets_cookie,
            "private",
        ),
        (said.no_cache, "no-cache"),
        (said.must_revalidate, "must-revalidate"),
        (said.proxy_revalidate, "proxy-revalidate"),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .map(|(_, word)| word.to_owned())
    .collect();

    let standing = |hop: &Hop<'_>| {
        let times = (hop.received, hop.received);
        Standing::of(request, &hop.response, times.0, times.1, rules)
    };
    let left_s = |standing: &Standing| standing.lifetime_s.saturating_sub(standing.initial_age_s);
    let is_told = has_explicit_lifetime(&said, fields);
    let is_end_told = has_explicit_lifetime(&end_said, end_fields);
    let is_304 = end.response.status == 304;
    if is_304 && !is_end_told {
        // The stored response keeps its lifetime, unless this redirect adds other directives or has no lifetime left.
        if !words.is_empty() || is_told && left_s(&standing(hop)) == 0 {
            words.push("max-age=0".to_owned());
        }
    } else if is_told {
        let (hop, end) = (standing(hop), standing(end));
        if left_s(&hop) < left_s(&end) {
            let max_age_s = left_s(&hop).saturating_add(end.initial_age_s);
            words.push(format!("max-age={max_age_s}"));
            if end_said.s_maxage_s.is_some() {
                words.push(format!("s-maxage={max_age_s}"));
            }
        }
    }
    // A 304 without Vary leaves the stored list as it is, which was bound when it was stored.
    let keeps_list = is_304 && !end_fields.contains(b"vary");
    let names = fields.members(b"vary").filter(|_| !keeps_list);
    Bound {
        directives: words.join(", ").into_bytes(),
        vary: names.map(<[u8]>::to_vec).collect(),
    }
}

/// The prohibitions of a redirect, as fields of the end.
#[derive(Debug)]
pub struct Bound {
    directives: Vec<u8>,
    vary: Vec<Vec<u8>>,
}

impl Bound {
    /// Adds the prohibitions to the fields of the end.
    pub fn add_to(&self, end: &mut Fields) {
        if !self.directives.is_empty() {
            end.push(b"Cache-Control", &self.directives);
            for name in TARGETED_FIELDS {
                //= rfc9213 §2.2   where there is one, Cache-Control does not count
                if end.contains(name.as_bytes()) {
                    end.push(name.as_bytes(), &self.directives);
                }
            }
        }
        if !self.vary.is_empty() {
            end.push(b"Vary", &self.vary.join(&b", "[..]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EPOCH, Exchange};

    /// Checks the directives added to the end, for `REQUEST | HOP` and the end.
    fn check(text: &str, end: &str, expected: &str) {
        let rules = Rules {
            cookie_bars_guess: true,
            ..Rules::default()
        };
        let way = Exchange::parse(text);
        let last = Exchange::parse(&format!("GET | {end}"));
        let hop = |response| Hop {
            response,
            received: EPOCH,
        };
        let bound = bind(
            &way.request(),
            &hop(way.response()),
            &hop(last.response()),
            &rules,
        );
        let found = String::from_utf8(bound.directives).unwrap();
        assert_eq!(found, expected, "{text} | {end}");
    }

    #[test]
    fn what_is_forbidden_on_the_way_is_forbidden() {
        let end = "200 Cache-Control: public, max-age=60";
        check("GET | 302", end, "");
        check("GET | 302 Cache-Control: no-store", end, "no-store");
        check(
            "GET | 302 Cache-Control: private, no-cache",
            end,
            "private, no-cache",
        );
        check("GET | 302 Vary: *", end, "no-store");
        check("GET | 302 Cache-Control: x=\"", end, "no-store");
        check("GET | 302 Set-Cookie: a=b", end, "private");
        check("GET | 302 Set-Cookie: a=b & Cache-Control: public", end, "");
        check(
            "GET | 302 Cache-Control: max-age=60, must-revalidate",
            end,
            "must-revalidate",
        );
    }

    #[test]
    fn credentials_count_for_each_answer() {
        let end = "200 Cache-Control: public, max-age=60";
        check("GET Authorization: x | 307", end, "private");
        check(
            "GET Authorization: x | 307 Cache-Control: max-age=60",
            end,
            "private",
        );
        check("GET Authorization: x | 307 Cache-Control: public", end, "");
        // A redirect's promise to revalidate is not the end's, and must not permit sharing the end.
        let firm = "GET Authorization: x | 307 Cache-Control: must-revalidate";
        check(
            firm,
            "200 Cache-Control: max-age=60",
            "private, must-revalidate",
        );
        check(
            firm,
            "200 Cache-Control: must-revalidate",
            "must-revalidate",
        );
        check(firm, end, "must-revalidate");
        check("GET Cookie: x | 302", end, "private");
        check(
            "GET Cookie: x | 302 Cache-Control: max-age=0",
            end,
            "private, max-age=0",
        );
        check(
            "GET Cookie: x | 302 Cache-Control: max-age=60",
            "200 Cache-Control: max-age=0 & ETag: \"a\"",
            "private",
        );
        check("GET Cookie: x | 302 Cache-Control: max-age=60", end, "");
        check(
            "GET Cookie: x | 302 Cache-Control: max-age=60",
            "200 Last-Modified: @-10000",
            "private, max-age=60",
        );
    }

    #[test]
    fn the_lifetime_that_ends_first_counts() {
        let hop = "GET | 302 Cache-Control: max-age=60";
        check(hop, "200 Cache-Control: max-age=100", "max-age=60");
        check(
            hop,
            "200 Cache-Control: max-age=100 & Age: 30",
            "max-age=90",
        );
        check(
            hop,
            "200 Cache-Control: s-maxage=100",
            "max-age=60, s-maxage=60",
        );
        check(hop, "200 Date: @0 & Expires: @100", "max-age=60");
        check(hop, "200 Cache-Control: max-age=60", "");
        check(hop, "200 Last-Modified: @-10000", "max-age=60");
        // A redirect never makes a response storable.
        check(hop, "500", "");
        check(hop, "200", "");
        // The stored response keeps its own lifetime.
        check(hop, "304 ETag: \"a\"", "");
        check(
            "GET | 302 Cache-Control: max-age=0",
            "304 ETag: \"a\"",
            "max-age=0",
        );
        check(
            "GET | 302 Cache-Control: max-age=60, no-cache",
            "304 ETag: \"a\"",
            "no-cache, max-age=0",
        );
        check("GET | 302", "304 ETag: \"a\"", "");
        check(
            "GET | 302 Date: @0 & Expires: @5",
            "200 Cache-Control: max-age=100",
            "max-age=5",
        );
    }

    #[test]
    fn a_304_without_vary_leaves_the_list_that_is_stored() {
        for (end, expected) in [("304", 0), ("304 Vary: Accept", 2), ("200", 1)] {
            let way = Exchange::parse("GET | 302 Vary: Foo");
            let last = Exchange::parse(&format!("GET | {end}"));
            let hop = |response| Hop {
                response,
                received: EPOCH,
            };
            let (way_hop, end_hop) = (hop(way.response()), hop(last.response()));
            let bound = bind(&way.request(), &way_hop, &end_hop, &Rules::default());
            let mut fields = last.response().fields.clone();
            bound.add_to(&mut fields);
            assert_eq!(fields.members(b"vary").count(), expected, "{end}");
        }
    }

    #[test]
    fn it_stands_beside_what_the_end_says() {
        let mut end = crate::testing::fields(
            "Cache-Control: max-age=9 & CDN-Cache-Control: max-age=9 & Vary: Accept",
        );
        let bound = Bound {
            directives: b"no-store".to_vec(),
            vary: vec![b"Foo".to_vec()],
        };
        bound.add_to(&mut end);
        let rules = Rules::default();
        assert!(ResponseDirectives::parse(&end, &rules).no_store);
        assert!(ResponseDirectives::of_cache_control(&end).no_store);
        assert_eq!(end.members(b"vary").count(), 2);
    }
}
