//! Targeted fields (RFC 9213) end to end.

use crate::harness::*;

#[test]
fn a_targeted_field_decides_and_is_passed_on() {
    let cases: [(&[&str], bool); 6] = [
        (
            &["Cache-Control: no-store", "CDN-Cache-Control: max-age=60"],
            true,
        ),
        (
            &["Cache-Control: max-age=60", "CDN-Cache-Control: no-store"],
            false,
        ),
        (
            &[
                "CDN-Cache-Control: no-store",
                "Loligo-Cache-Control: max-age=60",
            ],
            true,
        ),
        (
            &[
                "CDN-Cache-Control: max-age=60",
                "Loligo-Cache-Control: private",
            ],
            false,
        ),
        (
            &[
                "Cache-Control: no-store",
                "CDN-Cache-Control: max-age=60, &",
            ],
            false,
        ),
        (&["Cache-Control: max-age=60", "CDN-Cache-Control:"], true),
    ];
    for (fields, stored) in cases {
        let origin = Origin::start(move |exchange| exchange.send(ok(fields, "hello")));
        let disk = Disk::of_mib(4);
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        for hit in [false, stored] {
            let answer = proxy.get("/a");
            assert_eq!(answer.is_hit(), hit, "{fields:?}: {}", answer.cache());
            for field in fields {
                let (name, value) = field.split_once(':').unwrap();
                assert_eq!(answer.field(name), Some(value.trim()), "{fields:?}");
            }
        }
        proxy.stop();
        let proxy = Proxy::start(disk.under(plan_for(&origin)));
        assert_eq!(proxy.get("/a").is_hit(), stored, "{fields:?}");
    }
}

#[test]
fn it_still_decides_after_a_304() {
    let origin = Origin::start(|exchange| match exchange.field("if-none-match") {
        Some(_) => exchange.send(head("304 Not Modified", &["ETag: \"1\""])),
        None => exchange.send(ok(
            &[
                "ETag: \"1\"",
                "Cache-Control: no-store",
                "Loligo-Cache-Control: max-age=60",
                "Age: 100",
            ],
            "hello",
        )),
    });
    let proxy = Proxy::before(&origin);
    proxy.get("/a");
    assert!(proxy.get("/a").cache().contains("fwd-status=304"));
    assert!(proxy.get("/a").is_hit());
}
