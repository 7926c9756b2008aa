//! What clients speak, as metrics and profile tell it.

use std::time::Duration;

use device::{Device, FaultPlan, Operation};
use profile::{Class, Encryption, Flags, Protocol, StageName};
use proxy::plan::Listener;

use crate::{
    harness::{
        FRESH, Origin, Proxy, await_hit_by_read, eventually, ok, pattern, plan_for,
        profiled::Profile,
        running::{own_host_plan, with_admin},
        tls::{Authority, listener_tls},
    },
    http2_client::{Client, HOST, play, speaking},
    http2_raw::{RST_STREAM, Raw, frame, get},
};

#[test]
fn each_protocol_and_encryption_is_counted_and_recorded() {
    let authority = Authority::new();
    let signed = authority.sign("a", &[HOST]);
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let profile = Profile::new();
    let mut plan = profile.under(speaking(with_admin(plan_for(&origin))));
    let plain: Listener = plan.listeners[0].clone();
    plan.listeners[0].tls = Some(listener_tls(&[&signed]));
    plan.listeners.push(plain);
    let proxy = Proxy::start(plan);

    let remembering = authority.client().remembering();
    for is_resumed in [false, true] {
        let mut connection = remembering.connect(proxy.address(), HOST);
        assert_eq!(connection.get("/a", HOST).status(), "200");
        assert_eq!(connection.is_resumed(), is_resumed);
    }
    let mut old = authority
        .client()
        .only_tls12()
        .connect(proxy.address(), HOST);
    assert_eq!(old.get("/a", HOST).status(), "200");
    let host = format!("Host: {HOST}");
    let mut plain = crate::harness::Client::connect(proxy.ready.listeners[1]);
    for _ in 0..2 {
        assert_eq!(plain.ask("GET", "/a", &[&host]).read("GET").status, 200);
    }
    play(async {
        let client = Client::tls(proxy.address(), &authority).await;
        assert_eq!(client.get("/a").await.status, 200);
        let mut wanted = vec![
            "loligo_protocol_connections_open{protocol=\"HTTP/2\",tls=\"TLSv1.3\",session=\"full\"} 1\n"
                .to_owned(),
        ];
        for (labels, requests) in [
            (r#"protocol="HTTP/1.1",tls="none",session="none""#, 2),
            (r#"protocol="HTTP/1.1",tls="TLSv1.2",session="full""#, 1),
            (r#"protocol="HTTP/1.1",tls="TLSv1.3",session="full""#, 1),
            (r#"protocol="HTTP/1.1",tls="TLSv1.3",session="resumed""#, 1),
            (r#"protocol="HTTP/2",tls="TLSv1.3",session="full""#, 1),
        ] {
            wanted.push(format!(
                "loligo_protocol_requests_total{{{labels}}} {requests}\n"
            ));
            wanted.push(format!("loligo_protocol_connections_total{{{labels}}} 1\n"));
        }
        // A request is counted when its answer has gone out, which the client may have seen before.
        eventually("each is counted in its row", || {
            let metrics = proxy.admin("GET", "/metrics");
            let has = |line: &String| metrics.text().contains(line.as_str());
            wanted.iter().all(has).then_some(())
        });
    });
    drop((old, plain));
    eventually("nothing is open", || {
        let metrics = proxy.admin("GET", "/metrics");
        let mut open = metrics
            .text()
            .lines()
            .filter(|line| line.starts_with("loligo_protocol_connections_open{"));
        open.all(|line| line.ends_with(" 0")).then_some(())
    });
    let records = profile.records(proxy);
    let told: Vec<_> = (records.iter())
        .map(|record| {
            (
                record.http_client,
                record.encryption,
                record.flags.contains(Flags::TLS_CLIENT),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (Protocol::Http11, Encryption::Tls13, true),
            (Protocol::Http11, Encryption::Tls13Resumed, true),
            (Protocol::Http11, Encryption::Tls12, true),
            (Protocol::Http11, Encryption::None, false),
            (Protocol::Http11, Encryption::None, false),
            (Protocol::Http2, Encryption::Tls13, true),
        ]
    );
}

#[test]
fn a_hit_that_is_reset_while_it_is_read_has_sent_nothing() {
    let origin = Origin::sending(ok(&[FRESH], pattern(20_000)));
    let faults = FaultPlan::new();
    let device = Device::faulty(64 << 20, faults.clone());
    let profile = Profile::new();
    let mut plan = profile.under(speaking(with_admin(own_host_plan(&origin))));
    plan.memory_bytes = 0;
    plan.storing.read_wait = Duration::from_secs(60);
    let proxy = Proxy::start_on(plan, device);
    proxy.get("/a");
    await_hit_by_read(&proxy, "/a");

    faults.hold(Operation::Read);
    let mut raw = Raw::connect(proxy.address());
    assert!(raw.send(&get(1, "/a")));
    eventually("it is read", || (faults.held() > 0).then_some(()));
    let cancel = u32::from(h2::Reason::CANCEL);
    assert!(raw.send(&frame(RST_STREAM, 0, 1, &cancel.to_be_bytes())));
    eventually("it is reset", || {
        (proxy.counter("h2_resets") == 1).then_some(())
    });
    faults.release(Operation::Read);
    eventually("it is over", || {
        (proxy.counter("client_aborts") == 1).then_some(())
    });
    let records = profile.records(proxy);
    let record = records.last().unwrap();
    assert_eq!((record.class, record.status), (Class::DiskHit, 200));
    assert!(record.flags.contains(Flags::CLIENT_ABORTED));
    assert_eq!(record.bytes_out, 0);
    let reply = record.stages[StageName::ProxyReply as usize];
    assert!(reply.is_none(), "{reply:?}");
}
