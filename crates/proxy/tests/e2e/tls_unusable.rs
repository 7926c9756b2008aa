//! Certificates that cannot be used, among others that can.

use std::{fs, time::Duration};

use crate::{
    harness::{
        FRESH, Origin, Proxy, eventually, ok,
        running::Plans,
        tls::{Authority, look_at, replace},
    },
    tls::tls_plan,
};

#[test]
fn a_certificate_that_cannot_be_used_does_not_stop_the_others() {
    let authority = Authority::new();
    let origin = Origin::sending(ok(&[FRESH], b"hello"));
    let first = authority.sign("first", &["first.example"]);
    let (bad, good) = (
        authority.sign("bad", &["bad.example"]),
        authority.sign("good", &["good.example"]),
    );
    let key = fs::read_to_string(&bad.files.key).unwrap();
    fs::remove_file(&bad.files.key).unwrap();
    let mut plan = tls_plan(&origin, &[&first, &bad, &good]);
    plan.timeouts.certificate_files = Duration::from_millis(20);
    let proxy = Proxy::start_reloadable(&Plans::of(&plan));
    let shown = |name| look_at(proxy.address(), name, &[]).unwrap().0;
    let troubles = || {
        let status = proxy.admin("GET", "/status").text().to_owned();
        status.contains("certificate_troubles").then_some(status)
    };
    assert_eq!(shown("first.example"), first.certificate);
    assert_eq!(shown("good.example"), good.certificate);
    assert_eq!(shown("bad.example"), first.certificate, "the first one");
    let told = troubles().expect("it is told");
    assert!(told.contains("bad.key: cannot be read"), "{told}");
    let reloaded = proxy.admin("POST", "/reload");
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert!(reloaded.text().contains("bad.key"), "{}", reloaded.text());
    // The file comes: it is read without a reload.
    replace(&bad.files.key, &key);
    eventually("it is shown", || {
        (shown("bad.example") == bad.certificate).then_some(())
    });
    assert_eq!(troubles(), None);
    // It breaks while another one is renewed: what was read before stays.
    replace(&bad.files.key, "nonsense");
    let renewed = authority.sign("good", &["good.example"]);
    eventually("the other is renewed", || {
        (shown("good.example") == renewed.certificate).then_some(())
    });
    assert_eq!(shown("bad.example"), bad.certificate);
    let told = troubles().expect("it is told");
    assert!(told.contains("what was read before is shown"), "{told}");
}
