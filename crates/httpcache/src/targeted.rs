//! Targeted fields: a Cache-Control for one kind of cache (RFC 9213).
//!
//! The target list is fixed: `Loligo-Cache-Control` for this program, then `CDN-Cache-Control` for caches that work
//! for an origin. The first of them that is a dictionary with members replaces Cache-Control, Expires and Pragma
//! completely. A field that is empty or does not parse is ignored.
//!
//! Both fields are intended for caches that work for the origin. A forward proxy works for its clients, so it obeys neither
//! ([`Rules::targeted`]). An origin that sends `Cache-Control: private, CDN-Cache-Control: max-age=60` knows that its
//! own cache keeps users apart; it does not know this of other caches.
//!
//! Both are forwarded, because the next cache may be a Loligo too, and stored, because the stored fields are judged again
//! after a 304.
//!
//! By the grammar of structured fields, a value of the wrong type counts as absent, and keys are in lower case. So D1
//! and D2 of `directives` do not apply.

use fields::Fields;

use crate::directives::{DELTA_SECONDS_MAX, ResponseDirectives};
use crate::rules::Rules;
use crate::structured::{Value, dictionary};

/// The target list, the most applicable first. (RFC 9213 §2.2)
pub const TARGETED_FIELDS: [&str; 2] = ["loligo-cache-control", "cdn-cache-control"];

impl ResponseDirectives {
    /// Reads the directives of a response: from a valid targeted field if these are obeyed, else from Cache-Control.
    pub fn parse(fields: &Fields, rules: &Rules) -> Self {
        match targeted(fields) {
            Some(targeted) if rules.targeted => targeted,
            passed_over => Self {
                passed_over: passed_over.is_some(),
                ..Self::of_cache_control(fields)
            },
        }
    }
}

/// The directives of the first valid targeted field, if there is one.
//= rfc9213 §2.2   the first field with a valid, non-empty value; Cache-Control and Expires are ignored then
fn targeted(fields: &Fields) -> Option<ResponseDirectives> {
    TARGETED_FIELDS.iter().find_map(|name| {
        let members = dictionary(fields, name.as_bytes())?;
        (!members.is_empty()).then(|| directives(&members))
    })
}

fn directives(members: &[(Vec<u8>, Value)]) -> ResponseDirectives {
    let mut said = ResponseDirectives {
        targeted: true,
        ..ResponseDirectives::default()
    };
    for (name, value) in members {
        note(&mut said, name, *value);
    }
    said
}

//= rfc9213 §2.1   values that violate the type of the directive are not to be consumed
fn note(said: &mut ResponseDirectives, name: &[u8], value: Value) {
    let seconds = match value {
        // A negative number is no delta-seconds, so it counts as 0, which is stale.
        Value::Integer(number) => {
            let number = u32::try_from(number.max(0)).unwrap_or(u32::MAX);
            Some(number.min(DELTA_SECONDS_MAX))
        }
        _ => None,
    };
    let set = value == Value::Boolean(true);
    let named = value == Value::String;
    match name {
        b"max-age" => said.max_age_s = seconds,
        b"s-maxage" => said.s_maxage_s = seconds,
        b"stale-while-revalidate" => said.stale_while_revalidate_s = seconds,
        b"stale-if-error" => said.stale_if_error_s = seconds,
        b"no-store" => said.no_store = set,
        b"no-cache" => (said.no_cache, said.no_cache_fields) = (set || named, named),
        b"private" => (said.private, said.private_fields) = (set || named, named),
        b"must-revalidate" => said.must_revalidate = set,
        b"proxy-revalidate" => said.proxy_revalidate = set,
        b"no-transform" => said.no_transform = set,
        b"public" => said.public = set,
        b"immutable" => said.immutable = set,
        b"must-understand" => said.must_understand = set,
        //= rfc9213 §2.2   unrecognized extension directives are ignored
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Exchange, at, fields};
    use crate::{Rules, Standing, storable};

    fn said(text: &str) -> ResponseDirectives {
        ResponseDirectives::parse(&fields(text), &Rules::default())
    }

    #[test]
    fn the_first_valid_field_counts_and_alone() {
        for (text, max_age_s) in [
            (
                "Cache-Control: max-age=1 & CDN-Cache-Control: max-age=2",
                Some(2),
            ),
            (
                "CDN-Cache-Control: max-age=2 & Loligo-Cache-Control: max-age=3",
                Some(3),
            ),
            (
                "CDN-Cache-Control: max-age=2 & Loligo-Cache-Control: max-age=3,",
                Some(2),
            ),
            (
                "CDN-Cache-Control: max-age=2 & Loligo-Cache-Control:",
                Some(2),
            ),
            ("Cache-Control: max-age=1 & CDN-Cache-Control:", Some(1)),
            (
                "Cache-Control: max-age=1 & CDN-Cache-Control: max-age=[2]",
                Some(1),
            ),
            (
                "Cache-Control: max-age=1 & CDN-Cache-Control: Max-Age=2",
                Some(1),
            ),
            ("Cache-Control: max-age=1 & CDN-Cache-Control: none", None),
            (
                "Cache-Control: max-age=1 & Other-Cache-Control: max-age=2",
                Some(1),
            ),
        ] {
            assert_eq!(said(text).max_age_s, max_age_s, "{text}");
        }
        assert!(!said("Cache-Control: no-store & CDN-Cache-Control: none").no_store);
        assert!(!said("Cache-Control: \"no-store & CDN-Cache-Control: none").malformed);
    }

    #[test]
    fn values_of_another_type_are_absent() {
        let cdn = |value: &str| said(&format!("CDN-Cache-Control: {value}"));
        for value in [
            "max-age=\"60\"",
            "max-age=60.0",
            "max-age=x",
            "max-age",
            "max-age=(60)",
        ] {
            assert_eq!(cdn(value).max_age_s, None, "{value}");
        }
        assert_eq!(cdn("max-age=60;x=y").max_age_s, Some(60));
        assert_eq!(cdn("max-age=-1").max_age_s, Some(0));
        assert_eq!(cdn("max-age=60, max-age=30").max_age_s, Some(30));
        assert_eq!(cdn("max-age=30, max-age=60").max_age_s, Some(60));
        assert_eq!(
            cdn("max-age=999999999999999").max_age_s,
            Some(DELTA_SECONDS_MAX)
        );
        assert!(
            !cdn("no-store=?0").no_store && !cdn("no-store=1").no_store && cdn("no-store").no_store
        );
        assert!(cdn("private=\"a, b\"").private && cdn("no-cache=\"a\"").no_cache_fields);
        assert!(!cdn("private=a").private);
        assert!(cdn("must-revalidate").must_not_be_stale());
    }

    fn outcome(text: &str) -> String {
        let exchange = Exchange::parse(text);
        let rules = Rules::default();
        let (request, response) = (exchange.request(), exchange.response());
        match storable(&request, &response, &rules) {
            Err(why) => why.as_str().to_owned(),
            Ok(()) => Standing::of(&request, &response, at(0), at(0), &rules)
                .lifetime_s
                .to_string(),
        }
    }

    #[test]
    fn cache_control_expires_and_pragma_have_no_say_then() {
        for (text, expected) in [
            (
                "GET | 200 Cache-Control: no-store & CDN-Cache-Control: max-age=60",
                "60",
            ),
            (
                "GET | 200 Cache-Control: private & CDN-Cache-Control: max-age=60",
                "60",
            ),
            (
                "GET | 200 Cache-Control: max-age=60 & CDN-Cache-Control: no-store",
                "no-store",
            ),
            (
                "GET | 200 Cache-Control: max-age=60 & CDN-Cache-Control: private",
                "private",
            ),
            (
                "GET | 200 Cache-Control: s-maxage=9 & CDN-Cache-Control: max-age=60",
                "60",
            ),
            (
                "GET | 200 Date: @0 & Expires: @90 & CDN-Cache-Control: max-age=60",
                "60",
            ),
            (
                "GET | 200 Date: @0 & Expires: @90 & ETag: \"a\" & CDN-Cache-Control: none",
                "0",
            ),
            (
                "GET | 200 Date: @0 & Expires: @90 & Last-Modified: @-100 & CDN-Cache-Control: none",
                "10",
            ),
            (
                "GET | 200 Date: @0 & Pragma: no-cache & Last-Modified: @-100 & CDN-Cache-Control: none",
                "10",
            ),
            (
                "GET | 302 Date: @0 & Expires: @90 & CDN-Cache-Control: none",
                "status",
            ),
            (
                "GET Authorization: x | 200 Cache-Control: public & CDN-Cache-Control: max-age=60",
                "authorization",
            ),
            (
                "GET Authorization: x | 200 CDN-Cache-Control: max-age=60, public",
                "60",
            ),
            (
                "GET | 200 Date: @0 & CDN-Cache-Control: max-age=\"60\"",
                "no-freshness",
            ),
        ] {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }
}
