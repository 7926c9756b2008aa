use std::collections::BTreeSet;

use super::*;
use crate::{listener::listener_states, testing};
use plan::{Destinations, Forward, Listener};
use rules::key::{forward_tag, hash_of_key, name_of_key, server_of_key};

fn key_of(listener: &ListenerState, target: &str, host: &str) -> String {
    let mut key = Vec::new();
    let place = locate(listener, "GET", target, Some(host)).ok().unwrap();
    let name_bytes = place.write_key(None, &mut key);
    assert_eq!(name_of_key(&key), &key[..name_bytes]);
    String::from_utf8(key).unwrap()
}

#[test]
fn a_route_is_named_by_its_origin_and_by_whose_host_is_in_the_uri() {
    let origin = plan::OriginUrl {
        tls: true,
        host: "origin".into(),
        port: 443,
        path: "/base".into(),
    };
    let mut listener = Listener::reverse("127.0.0.1:80".parse().unwrap(), Vec::new(), origin);
    let Role::Reverse(routes) = &mut listener.role else {
        panic!("a reverse listener");
    };
    let mut own = routes[0].clone();
    (own.host, own.pass_host) = (Some("own".into()), false);
    routes.insert(0, own);
    let shared = testing::shared_with(vec![listener]);
    let listener = &listener_states(&shared.edition(), shared.cache.hasher())[0];
    for (host, key) in [
        ("own", "GET https://origin/base/a\thttps://origin/base"),
        ("", "GET https://origin/base/a\thttps://origin/base"),
        (
            "Other:81",
            "GET http://other:81/a\thost https://origin/base",
        ),
    ] {
        assert_eq!(key_of(listener, "/a", host), key, "{host}");
    }
}

#[test]
fn a_forward_listeners_tag_is_its_own_rules() {
    let hasher = testing::shared().cache.hasher();
    let tag = |loopback, link_local, allow: &[&str]| {
        let mut listener = Listener::forward("127.0.0.1:80".parse().unwrap(), Vec::new());
        let destinations = Destinations {
            loopback,
            link_local,
            allow: allow.iter().map(|net| net.parse().unwrap()).collect(),
        };
        listener.role = Role::Forward(Forward {
            destinations: destinations.clone(),
            ..Forward::for_address(listener.address.ip())
        });
        let shared = testing::shared_with(vec![listener]);
        let own = forward_tag(&destinations, shared.cache.hasher());
        let listener = &listener_states(&shared.edition(), shared.cache.hasher())[0];
        let key = key_of(listener, "http://h/a", "h");
        assert_eq!(key.as_bytes(), [b"GET http://h/a", &own[..]].concat());
        // Each store has its own hasher, so compare only tags made with the same one.
        String::from_utf8(forward_tag(&destinations, hasher)).unwrap()
    };
    assert_eq!(tag(false, false, &[]), "");
    let all = [
        tag(true, false, &[]),
        tag(false, true, &[]),
        tag(true, true, &[]),
        tag(false, false, &["10.0.0.0/8"]),
        tag(false, false, &["10.0.0.0/8", "192.168.0.0/16"]),
        tag(true, false, &["10.0.0.0/8"]),
    ];
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
    assert!(
        all.iter()
            .all(|tag| tag.len() == 17 && tag.starts_with('\t'))
    );
    let spelt = ["192.168.3.0/16", "10.0.0.0/8", "10.1.0.0/8"];
    assert_eq!(tag(false, false, &spelt), all[4]);
}

#[test]
fn keys_are_taken_apart() {
    let hasher = testing::shared().cache.hasher();
    let name = b"GET http://h:81/a/b?c";
    for (behind, is_direct) in [
        (&b""[..], true),
        (b"\thttp://o:80/x", true),
        (b"\n\x09\0\0\0\0\0\0\0", false),
        (b"\ttag\n\x09\0\0\0\0\0\0\0", false),
        (b"\0\x09", false),
        (b"\ttag\0\x09", false),
    ] {
        let key = [name, behind].concat();
        assert_eq!(name_of_key(&key), name);
        assert_eq!(server_of_key(&key), b"GET http://h:81");
        let hashed = if is_direct { &name[..] } else { &key };
        assert_eq!(hash_of_key(hasher, &key), hasher.hash(hashed));
    }
    assert_eq!(server_of_key(b"GET http://h"), b"GET http://h");
    assert_eq!(server_of_key(b""), b"");
}

#[test]
fn a_purge_names_what_was_typed_what_routes_make_of_it_and_what_rules_cut() {
    use plan::{KeyRule, OriginUrl, Plan, Rule, Then};
    let origin = OriginUrl {
        tls: false,
        host: "o".into(),
        port: 8080,
        path: "/base".into(),
    };
    let address = "127.0.0.1:80".parse().unwrap();
    let mut listener = Listener::reverse(address, Vec::new(), origin);
    for pass_host in [true, false] {
        if let Role::Reverse(routes) = &mut listener.role {
            routes[0].pass_host = pass_host;
        }
        let mut plan = Plan::with_listeners(vec![listener.clone()]);
        plan.rules = vec![Rule {
            then: Then {
                key: Some(KeyRule {
                    ignore_query: vec!["x".into()],
                    ..KeyRule::default()
                }),
                ..Then::default()
            },
            ..Rule::default()
        }];
        let shared = testing::shared_of(plan);
        let listeners = listener_states(&shared.edition(), shared.cache.hasher());
        let names_of = |names| {
            let found = names_of_url(&listeners, "https://W/a?x=1", names).unwrap();
            let found = found.iter().map(|name| str::from_utf8(&name[4..]).unwrap());
            found.collect::<Vec<_>>().join(" ")
        };
        let served = match pass_host {
            true => "http://w/a?x=1 http://w/a",
            false => "http://o:8080/base/a?x=1 http://o:8080/base/a",
        };
        assert_eq!(names_of(Names::OfClients), served);
        let all = names_of(Names::All);
        for name in [
            "https://w/a?x=1 https://w/a",
            "http://w/a?x=1 http://w/a",
            "http://o:8080/base/a?x=1 http://o:8080/base/a",
        ] {
            assert!(all.contains(name), "{all}");
        }
    }
}
