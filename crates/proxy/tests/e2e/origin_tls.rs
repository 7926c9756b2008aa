//! TLS to origins by settings of their own: client certificates, names, keys, whoever is trusted; and that none of it is shared.

use std::{sync::Arc, time::Duration};

use ::proxy::plan::{
    ClientCertificates, Listener, OriginTls, OriginUrl, Parent, PeerAddress, Pin, Plan, Role,
    Route, Rule, Server, Then, Upstream, When,
};
use base::x509;

use super::harness::{
    running::*,
    tls::{Authority, Signed, listener_tls, replace},
    *,
};

/// An https server in front of an origin, and who has signed its certificate.
struct Site {
    authority: Authority,
    shown: Signed,
    behind: Proxy,
    origin: Origin,
}

impl Site {
    /// With a certificate for these names. `asks`: it wants one of clients, signed by the same.
    fn new(names: &[&str], asks: bool) -> Site {
        let authority = Authority::new();
        let shown = authority.sign("site", names);
        let origin = Origin::sending(ok(&["Cache-Control: max-age=60"], "hello"));
        let mut plan = plan_for(&origin);
        let mut tls = listener_tls(&[&shown]);
        tls.clients = asks.then(|| ClientCertificates {
            ca: authority.path("ca.pem"),
            are_required: true,
        });
        plan.listeners[0].tls = Some(tls);
        // Each request comes to the origin.
        plan.rules = vec![Rule {
            then: Then {
                bypass: Some(true),
                ..Then::default()
            },
            name: None,
            when: When::default(),
        }];
        Site {
            behind: Proxy::start(plan),
            authority,
            shown,
            origin,
        }
    }

    fn url(&self) -> OriginUrl {
        OriginUrl {
            tls: true,
            ..url(self.behind.address())
        }
    }

    /// Its own authority alone is trusted.
    fn trusting(&self) -> OriginTls {
        OriginTls {
            ca_file: Some(self.authority.path("ca.pem")),
            only_ca_file: true,
            ..OriginTls::default()
        }
    }

    fn showing(&self, signed: &Signed) -> OriginTls {
        OriginTls {
            certificate: Some(signed.files.clone()),
            ..self.trusting()
        }
    }

    /// A route to it, for a host.
    fn route(&self, host: &str, tls: OriginTls) -> Route {
        Route {
            host: Some(host.to_owned()),
            pass_host: false,
            tls: Some(Arc::new(tls)),
            ..Route::everything_to(self.url())
        }
    }

    fn asked(&self) -> usize {
        self.origin.requests().len()
    }
}

fn plan_of(routes: Vec<Route>) -> Plan {
    let mut plan = plan(Listener::reverse(local(), Vec::new(), url(nobody())));
    plan.listeners[0].role = Role::Reverse(routes);
    // A failure is found out anew.
    plan.cache.unreachable_ttl = Duration::ZERO;
    with_admin(plan)
}

fn get(proxy: &Proxy, host: &str, path: &str) -> Response {
    proxy.ask("GET", path, &[&format!("Host: {host}")])
}

/// Did the proxy have it? The site behind says in Cache-Status what it did, too.
fn is_hit(answer: &Response) -> bool {
    format!("{:?}", answer.fields).contains("loligo; hit")
}

/// 502, the word, and nothing of what the origin has shown.
#[track_caller]
fn refused(answer: &Response, word: &str) {
    assert_eq!(answer.status, 502, "{}", answer.text());
    let told = format!("{:?} {}", answer.fields, answer.text());
    assert!(told.contains(word), "{told}");
    for name in ["site", "127.0.0.1", "sha256", "authority", ".test"] {
        assert!(!answer.text().contains(name), "{told}");
    }
}

#[test]
fn who_has_the_certificate_gets_the_answer_and_nobody_else_his_connection_or_copy() {
    let site = Site::new(&["127.0.0.1"], true);
    let own = site.authority.sign("client", &["client.test"]);
    let stranger = Authority::new();
    let other = stranger.sign("stranger", &["client.test"]);
    let proxy = Proxy::start(plan_of(vec![
        site.route("own", site.showing(&own)),
        site.route("none", site.trusting()),
        site.route("other", site.showing(&other)),
    ]));
    let first = get(&proxy, "own", "/a");
    assert_eq!(first.status, 200, "{}", first.text());
    assert!(is_hit(&get(&proxy, "own", "/a")));
    for round in 0..2 {
        // The connection of the first is in the pool, and its answer is stored under the origin's name.
        for host in ["none", "other"] {
            for path in ["/a", "/b"] {
                let answer = get(&proxy, host, path);
                assert_eq!(
                    answer.status,
                    502,
                    "{host} {path} {round}: {}",
                    answer.text()
                );
                let text = answer.text();
                let words = ["tls_alert_received", "connection_terminated"];
                assert!(words.iter().any(|it| text.contains(it)), "{text}");
            }
        }
        assert_eq!(get(&proxy, "own", &format!("/{round}")).status, 200);
    }
    assert_eq!(site.asked(), 3);
}

#[test]
fn the_name_of_the_settings_is_asked_for_and_looked_for() {
    let site = Site::new(&["site.test"], false);
    let named = |name: &str| OriginTls {
        name: Some(name.to_owned()),
        ..site.trusting()
    };
    let proxy = Proxy::start(plan_of(vec![
        site.route("right", named("site.test")),
        site.route("wrong", named("else.test")),
        site.route("none", site.trusting()),
    ]));
    assert_eq!(get(&proxy, "right", "/a").status, 200);
    // Its copy is of another site, as far as is known.
    refused(&get(&proxy, "wrong", "/a"), "tls_certificate_error");
    refused(&get(&proxy, "none", "/b"), "tls_certificate_error");
    assert_eq!(site.asked(), 1);
}

#[test]
fn a_wrong_key_is_refused_and_nothing_is_sent_to_it() {
    let site = Site::new(&["127.0.0.1"], false);
    let pin = |certificate: &[u8]| Pin::of(x509::key(certificate).unwrap());
    let (own, authority) = (
        pin(&site.shown.certificate),
        pin(&site.authority.certificate),
    );
    let pinned = |pins: &[Pin]| OriginTls {
        pins: pins.to_vec(),
        ..site.trusting()
    };
    let unverified = |pins: &[Pin]| OriginTls {
        pins: pins.to_vec(),
        is_unverified: true,
        ..OriginTls::default()
    };
    let proxy = Proxy::start(plan_of(vec![
        site.route("next", pinned(&[Pin([7; 32]), own])),
        site.route("wrong", pinned(&[Pin([7; 32])])),
        // Whoever has signed it, and was trusted for that.
        site.route("authority", pinned(&[authority])),
        site.route("alone", unverified(&[own])),
        // Nobody was.
        site.route("alone-wrong", unverified(&[authority])),
    ]));
    // Twice: nothing is stored of it.
    let wrong = ["wrong", "alone-wrong", "wrong", "alone-wrong"];
    for (path, host) in wrong.into_iter().enumerate() {
        refused(
            &get(&proxy, host, &format!("/{}", path % 2)),
            "tls_certificate_error",
        );
    }
    assert_eq!(site.asked(), 0);
    assert_eq!(get(&proxy, "next", "/0").status, 200);
    assert_eq!(get(&proxy, "alone", "/1").status, 200);
    assert_eq!(get(&proxy, "authority", "/2").status, 200);
}

#[test]
fn only_those_of_the_settings_are_trusted_unless_nothing_is_verified() {
    let site = Site::new(&["127.0.0.1"], false);
    let other = Authority::new();
    let trusting = |authority: &Authority| OriginTls {
        ca_file: Some(authority.path("ca.pem")),
        only_ca_file: true,
        ..OriginTls::default()
    };
    let anybody = OriginTls {
        is_unverified: true,
        ..OriginTls::default()
    };
    let mut plan = plan_of(vec![
        site.route("right", trusting(&site.authority)),
        site.route("wrong", trusting(&other)),
        site.route("anybody", anybody),
    ]);
    // For all origins that have no settings of their own.
    plan.tls.ca_file = Some(site.authority.path("ca.pem"));
    let proxy = Proxy::start(plan);
    assert_eq!(get(&proxy, "anybody", "/a").status, 200);
    refused(&get(&proxy, "wrong", "/a"), "tls_certificate_error");
    assert!(
        !is_hit(&get(&proxy, "right", "/a")),
        "its copy may be of anybody"
    );
    let status: serde_json::Value =
        serde_json::from_str(proxy.admin("GET", "/status").text()).unwrap();
    let unverified = &status["configuration"]["unverified"];
    assert_eq!(*unverified, serde_json::json!([site.url().to_string()]));
}

#[test]
fn a_certificate_whose_time_is_over_is_refused() {
    let mut site = Site::new(&["127.0.0.1"], false);
    let ended = site.authority.sign_with("ended", &["127.0.0.1"], |params| {
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    });
    let mut plan = plan_for(&site.origin);
    plan.listeners[0].tls = Some(listener_tls(&[&ended]));
    site.behind = Proxy::start(plan);
    let proxy = Proxy::start(plan_of(vec![site.route("a", site.trusting())]));
    refused(&get(&proxy, "a", "/a"), "tls_certificate_error");
}

#[test]
fn a_renewed_certificate_is_shown_after_a_reload_and_a_bad_one_never() {
    let site = Site::new(&["127.0.0.1"], true);
    let stranger = Authority::new();
    let shown = stranger.sign("client", &["client.test"]);
    let plan = plan_of(vec![site.route("a", site.showing(&shown))]);
    let plans = Plans::of(&plan);
    let proxy = Proxy::start_reloadable(&plans);
    assert_eq!(get(&proxy, "a", "/1").status, 502);
    // Another's certificate, in the place of the one that nobody there knows.
    let right = site.authority.sign("client", &["client.test"]);
    let text = |path| std::fs::read_to_string(path).unwrap();
    replace(&shown.files.chain, &text(&right.files.chain));
    let answer = proxy.admin("POST", "/reload");
    assert_ne!(answer.status, 200);
    assert!(
        answer.text().contains("is not the key of the certificate"),
        "{}",
        answer.text()
    );
    assert_eq!(get(&proxy, "a", "/2").status, 502, "the one before stays");
    replace(&shown.files.key, &text(&right.files.key));
    let answer = proxy.admin("POST", "/reload");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(get(&proxy, "a", "/3").status, 200);
    // What is there no more is told, and what was read stays in service, on new connections too.
    std::fs::remove_file(&shown.files.key).unwrap();
    let answer = proxy.admin("POST", "/reload");
    assert!(
        answer.text().contains("cannot be read"),
        "{}",
        answer.text()
    );
    assert_eq!(get(&proxy, "a", "/4").status, 200);
}

#[test]
fn a_key_of_another_certificate_refuses_the_start() {
    let site = Site::new(&["127.0.0.1"], true);
    let mut own = site.authority.sign("client", &["client.test"]);
    own.files.key = site.shown.files.key.clone();
    let plan = plan_of(vec![site.route("a", site.showing(&own))]);
    let refused = ::proxy::start(plan, |_, _| panic!("it must not come up"));
    let why = refused.unwrap_err().to_string();
    assert!(
        why.contains("TLS to origins: ") && why.contains("is not the key of"),
        "{why}"
    );
}

#[test]
fn servers_of_an_upstream_and_parents_have_settings_of_their_own() {
    let site = Site::new(&["site.test"], true);
    let own = site.authority.sign("client", &["client.test"]);
    let tls = Arc::new(OriginTls {
        name: Some("site.test".to_owned()),
        ..site.showing(&own)
    });
    let mut plan = plan_of(vec![Route {
        tls: Some(Arc::clone(&tls)),
        ..Route::everything_to_upstream("app", "")
    }]);
    plan.upstreams = vec![Upstream {
        name: "app".to_owned(),
        servers: vec![Server::at(site.url())],
        tls: Some(Arc::clone(&tls)),
        health: Some(::proxy::plan::HealthCheck {
            every: Duration::from_millis(100),
            fall: 1,
            ..::proxy::plan::HealthCheck::default()
        }),
        ..Upstream::default()
    }];
    let proxy = Proxy::start(plan);
    assert_eq!(get(&proxy, "a", "/a").status, 200);
    // Its checks are made so, too.
    eventually("its check", || (site.origin.count("/") > 0).then_some(()));
    assert_eq!(get(&proxy, "a", "/b").status, 200);

    let authority = Authority::new();
    let far = authority.sign("far", &["parent.test"]);
    let mut parent = forward_plan(&[]);
    let mut listener = listener_tls(&[&far]);
    listener.clients = Some(ClientCertificates {
        ca: authority.path("ca.pem"),
        are_required: true,
    });
    parent.listeners[0].tls = Some(listener);
    let parent = Proxy::start(parent);
    let shown = authority.sign("leaf", &["leaf.test"]);
    let mut leaf = forward_plan(&[]);
    leaf.parents = vec![Parent {
        name: "far".to_owned(),
        at: PeerAddress {
            host: "127.0.0.1".to_owned(),
            port: parent.address().port(),
        },
        direct: ::proxy::plan::Direct::Never,
        tls: Some(Arc::new(OriginTls {
            ca_file: Some(authority.path("ca.pem")),
            only_ca_file: true,
            name: Some("parent.test".to_owned()),
            certificate: Some(shown.files),
            ..OriginTls::default()
        })),
        ..Parent::default()
    }];
    let leaf = Proxy::start(leaf);
    let origin = Origin::sending(ok(&[], "far away"));
    let answer = leaf.ask("GET", &format!("http://{}/a", origin.address), &[]);
    assert_eq!((answer.status, answer.text()), (200, "far away"));
}
