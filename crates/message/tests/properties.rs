//! The normal form of a URI: writing it twice changes nothing.

use message::Named;
use proptest::prelude::*;

fn normal(path: &str) -> String {
    let uri = format!("http://h{path}");
    let mut out = Vec::new();
    Named::parse(&uri).expect("a URI").write(&mut out);
    String::from_utf8(out).expect("text in, text out")
}

/// What each valid escape stands for, with all else as it is: the only difference that the normal form may drop.
fn meaning(path: &str) -> Vec<Result<u8, u8>> {
    let (mut rest, mut out) = (path.as_bytes(), Vec::new());
    while let [first, after @ ..] = rest {
        let escaped = path_byte(rest);
        out.push(match escaped {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => Ok(byte),
            Some(byte) => Err(byte),
            None => Ok(*first),
        });
        rest = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    out
}

fn path_byte(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"%")?.get(..2)?;
    let digits = std::str::from_utf8(digits).ok()?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

proptest! {
    #[test]
    fn escapes_that_are_none_do_not_become_one(path in "/(%|%3[2-5]|%46|%2f|[2Ffz]){0,12}") {
        let once = normal(&path);
        let again = once.strip_prefix("http://h").expect("the authority is as it was");
        prop_assert_eq!(meaning(&path), meaning(again));
        prop_assert_eq!(normal(again), once.clone());
    }

    #[test]
    fn the_normal_form_is_a_fixed_point(text in "[ -~]{0,40}", tail in "[ -~]{0,12}") {
        for uri in [text, format!("hTTp://H:80{tail}")] {
            if let Some(named) = Named::parse(&uri) {
                let mut once = Vec::new();
                named.write(&mut once);
                let once = String::from_utf8(once).expect("text in, text out");
                let again = Named::parse(&once).expect("the normal form is a URI");
                prop_assert!(again.same_origin(&named));
                let mut twice = Vec::new();
                again.write(&mut twice);
                prop_assert_eq!(once.as_bytes(), &twice[..]);
            }
        }
    }
}
