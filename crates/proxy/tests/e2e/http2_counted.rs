//! What clients speak, as metrics and profile tell it.

use profile::{Encryption, Flags, Protocol};
use proxy::plan::Listener;

use crate::{
    harness::{
        FRESH, Origin, Proxy, eventually, ok, plan_for,
        profiled::Profile,
        running::with_admin,
        tls::{Authority, listener_tls},
    },
    http2_client::{Client, HOST, play, speaking},
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
