//! The normal form of a URI: writing it twice changes nothing.

use message::Named;
use proptest::prelude::*;

proptest! {
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
