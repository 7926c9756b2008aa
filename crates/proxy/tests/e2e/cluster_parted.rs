//! A purge while two members cannot reach each other, and a third reaches both.

use super::harness::{
    Disk, FRESH, Origin, Proxy,
    cable::Cable,
    cluster::{addresses, await_hint, cluster, front, member},
    eventually, ok, plan_for,
};

/// The way to the holder stops just before the purge, so it is sent there as to any member with a link.
#[test]
fn a_third_tells_what_was_sent_and_has_not_arrived() {
    let origin = Origin::start(|exchange| {
        let text = format!("version {}", exchange.nth());
        exchange.send(ok(&[FRESH], text));
    });
    let all = addresses(4);
    let disk = Disk::of_mib(16);
    let cable = Cable::lay(all[3], all[0]);
    let holder = Proxy::start(disk.under(member(plan_for(&origin), 0, &all[..3])));
    let mut plan = member(plan_for(&origin), 1, &all[..3]);
    cluster(&mut plan).members[0].at.host = all[3].ip().to_string();
    let asked = Proxy::start(plan);
    let third = Proxy::start(front(plan_for(&origin), 2, &all[..3]));
    for member in [&asked, &third] {
        eventually("all are linked", || {
            let answer = member.admin("DELETE", "/cache?url=http://nobody.example/");
            (answer.status == 200 && !answer.text().contains("away")).then_some(())
        });
    }
    assert_eq!(holder.get("/a").text(), "version 1");
    await_hint(&third, "http://test.example/a", "n1");
    assert_eq!(third.get("/a").text(), "version 1");

    cable.stop();
    let answer = asked.admin("DELETE", "/cache?url=http://test.example/a");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("n1"), "{}", answer.text());
    eventually("the third passes the holder over", || {
        (third.get("/a").text() == "version 2").then_some(())
    });
    eventually("the holder was told", || {
        let answer = holder.ask("GET", "/a", &["Cache-Control: only-if-cached"]);
        (!answer.is_hit()).then_some(())
    });
}
