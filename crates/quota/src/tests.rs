//! Examples of quotas.

use super::*;
use plan::Rate;

fn quota(what: What, amount: u64, burst: u64, then: Excess) -> plan::Quota {
    plan::Quota {
        name: "q".to_owned(),
        per: Per::Client,
        what,
        rate: Rate {
            amount,
            period: Duration::from_secs(3600),
        },
        burst,
        then,
        keys: plan::QuotaKeys::default(),
    }
}

fn payer(client: &str) -> Payer<'static> {
    Payer {
        client: client.parse().unwrap(),
        host: "A.example.",
        listener: ListenerId(1),
        tag: b"",
    }
}

#[test]
fn clients_of_ipv6_count_by_their_network() {
    let quotas = Quotas::new(&[quota(What::Requests, 1, 1, Excess::Refuse)], None);
    let key = |client: &str| quotas.0[0].key(&payer(client));
    assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
}

#[test]
fn a_host_is_the_same_however_it_is_written() {
    let mut plan = quota(What::Requests, 1, 1, Excess::Refuse);
    plan.per = Per::Host;
    let quotas = Quotas::new(&[plan], None);
    let key = |host| {
        quotas.0[0].key(&Payer {
            host,
            ..payer("::1")
        })
    };
    assert_eq!(key("A.example."), key("a.EXAMPLE"));
    assert_ne!(key("a.example"), key("b.example"));
}

#[test]
fn a_quota_that_has_not_changed_keeps_its_counts() {
    let plan = quota(What::Misses, 3, 2, Excess::Refuse);
    let before = Quotas::new(std::slice::from_ref(&plan), None);
    let other = plan::Quota {
        name: "other".into(),
        ..plan.clone()
    };
    let after = Quotas::new(&[other, plan.clone()], Some(&before));
    assert!(Arc::ptr_eq(&after.0[1], &before.0[0]));
    let changed = plan::Quota { burst: 3, ..plan };
    let after = Quotas::new(&[changed], Some(&before));
    assert!(!Arc::ptr_eq(&after.0[0], &before.0[0]));
}

#[test]
fn chosen_ones_are_found_by_name_and_kind() {
    let named = |name: &str, what| plan::Quota {
        name: name.into(),
        ..quota(what, 1, 1, Excess::Refuse)
    };
    let plan = [
        named("a", What::Connections),
        named("b", What::MissBytes),
        named("c", What::Requests),
        named("d", What::FetchesAtOnce),
    ];
    let quotas = Quotas::new(&plan, None);
    let tolls = quotas.named(&["b".into(), "c".into(), "d".into()]);
    let names = |chosen| {
        let names = quotas.of(chosen).map(|quota| quota.plan.name.as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(tolls.misses), "b d");
    assert_eq!(names(tolls.each), "c");
    assert!(tolls.connections.is_empty());
    assert_eq!(names(Chosen(u64::MAX)), "a b c d");
}

#[test]
fn what_is_counted_at_once_ends() {
    let quotas = Quotas::new(&[quota(What::FetchesAtOnce, 2, 1, Excess::Refuse)], None);
    let quota = &quotas.0[0];
    let enter = || quota.enter(7, Duration::ZERO);
    let (_, place) = enter().unwrap();
    assert!(enter().is_ok());
    assert_eq!(enter(), Err(Full::Busy));
    quota.leave(7, place);
    assert!(enter().is_ok());
    assert_eq!(quota.keys(), 1);
    quota.leave(7, place);
    quota.leave(7, place);
    assert_eq!(quota.keys(), 0);
}
