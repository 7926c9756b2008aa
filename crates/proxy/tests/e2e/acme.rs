//! Certificates that are ordered from an authority (ACME): a small one, that looks at the proxy as a real one would, and its failures.
//!
//! The authority checks nonces, URLs, the account's key and the challenge. It does not verify signatures of messages.

use std::{
    collections::HashSet,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use proxy::plan::{Acme, ListenerTls, Plan};
use rcgen::date_time_ymd;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};

use crate::harness::{
    Exchange, FRESH, Gate, Origin, Proxy, answer, eventually, ok, plan_for,
    running::{Plans, with_admin},
    tls::{Authority, look_at},
};

/// What the authority does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Good,
    /// 429.
    Limited,
    /// The first nonces of orders are not taken.
    Forgetful,
    /// It does not take the challenge.
    Strict,
    /// It does not answer orders.
    Silent,
    /// It answers orders with anything.
    Mad,
    /// It signs for other names.
    Wrong,
}

#[derive(Default)]
struct State {
    nonces: HashSet<String>,
    given: usize,
    thumbprint: String,
    names: Vec<String>,
    /// By name: what became of the challenge.
    taken: Vec<(String, bool)>,
    chain: Option<String>,
    accounts: usize,
    orders: usize,
    forgotten: usize,
}

/// Where the names lead.
type Target = Mutex<Option<SocketAddr>>;

struct Ca {
    authority: Arc<Authority>,
    origin: Origin,
    state: Arc<Mutex<State>>,
    proxy: Arc<Target>,
}

fn decoded(text: &Value) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD
        .decode(text.as_str().unwrap())
        .unwrap()
}

fn problem(status: &str, kind: &str, nonce: &str) -> Vec<u8> {
    let kind = format!("urn:ietf:params:acme:error:{kind}");
    let body = json!({ "type": kind, "detail": "the authority does not want to" });
    let nonce = format!("Replay-Nonce: {nonce}");
    answer(
        status,
        &[&nonce, "Content-Type: application/problem+json"],
        body.to_string(),
    )
}

impl Ca {
    fn start(mood: Mood) -> Ca {
        Ca::start_held(mood, Gate::new())
    }

    /// Answers for orders wait at the gate.
    fn start_held(mood: Mood, gate: Gate) -> Ca {
        let authority = Arc::new(Authority::new());
        let state: Arc<Mutex<State>> = Arc::default();
        let proxy: Arc<Target> = Arc::default();
        let (signer, kept, to) = (
            Arc::clone(&authority),
            Arc::clone(&state),
            Arc::clone(&proxy),
        );
        let origin = Origin::start(move |exchange| {
            if exchange.path() == "/order" && mood == Mood::Silent {
                gate.pass();
                return;
            }
            respond(exchange, mood, &signer, &kept, &to);
        });
        Ca {
            authority,
            origin,
            state,
            proxy,
        }
    }

    fn orders(&self) -> usize {
        self.state.lock().unwrap().orders
    }

    /// A proxy with a listener that shows what is ordered, in this folder.
    fn plan(&self, origin: &Origin, folder: &Path) -> Plan {
        let mut plan = with_admin(plan_for(origin));
        let acme = Acme {
            directory: format!("http://{}/dir", self.origin.address),
            contact: Some("me@a.example".to_owned()),
            names: vec!["a.example".to_owned(), "b.example".to_owned()],
            state: folder.to_owned(),
        };
        plan.listeners[0].tls = Some(ListenerTls {
            certificates: vec![acme.certificate()],
            is_acme: true,
            ..ListenerTls::default()
        });
        plan.acme = Some(acme);
        plan.timeouts.origin_first_byte = Duration::from_secs(1);
        plan
    }

    fn proxy(&self, plan: &Plan) -> Proxy {
        let proxy = Proxy::start_reloadable(&Plans::of(plan));
        *self.proxy.lock().unwrap() = Some(proxy.address());
        proxy
    }

    /// Is the certificate that is shown one of this authority?
    fn is_shown_by(&self, proxy: &Proxy) -> bool {
        let mut client = self
            .authority
            .client()
            .connect(proxy.address(), "b.example");
        client.shake().is_ok()
    }
}

fn respond(
    exchange: &mut Exchange,
    mood: Mood,
    authority: &Authority,
    state: &Mutex<State>,
    proxy: &Target,
) {
    let base = format!("http://{}", exchange.field("host").unwrap());
    let path = exchange.path().to_owned();
    if path == "/dir" {
        let body = json!({
            "newNonce": format!("{base}/nonce"), "newAccount": format!("{base}/account"),
            "newOrder": format!("{base}/order"), "revokeCert": format!("{base}/revoke"),
            "keyChange": format!("{base}/key"),
        });
        exchange.send(ok(&[], body.to_string()));
        return;
    }
    let next = {
        let mut state = state.lock().unwrap();
        state.given += 1;
        let nonce = format!("nonce-{}", state.given);
        state.nonces.insert(nonce.clone());
        nonce
    };
    let nonce_line = format!("Replay-Nonce: {next}");
    if path == "/nonce" {
        exchange.send(format!(
            "HTTP/1.1 200 OK\r\n{nonce_line}\r\nContent-Length: 0\r\n\r\n"
        ));
        return;
    }
    let (body, _) = exchange.body();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let protected: Value = serde_json::from_slice(&decoded(&message["protected"])).unwrap();
    assert_eq!(protected["url"], format!("{base}{path}"));
    let mut held = state.lock().unwrap();
    let nonce = protected["nonce"].as_str().unwrap();
    if !held.nonces.remove(nonce) {
        exchange.send(problem("400 Bad Request", "badNonce", &next));
        return;
    }
    let payload = decoded(&message["payload"]);
    let payload: Value = serde_json::from_slice(&payload).unwrap_or(Value::Null);
    let name = path.rsplit('/').next().unwrap().to_owned();
    let (mut status, mut location) = ("200 OK", String::new());
    let body = match path.split('/').nth(1).unwrap() {
        "account" => {
            assert_eq!(payload["termsOfServiceAgreed"], true);
            assert_eq!(payload["contact"], json!(["mailto:me@a.example"]));
            let key = &protected["jwk"];
            // In the order of RFC 7638.
            let text = format!(
                "{{\"crv\":{},\"kty\":{},\"x\":{},\"y\":{}}}",
                key["crv"], key["kty"], key["x"], key["y"]
            );
            let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
            held.thumbprint = BASE64_URL_SAFE_NO_PAD.encode(digest);
            held.accounts += 1;
            (status, location) = ("201 Created", format!("Location: {base}/account/1"));
            json!({ "status": "valid" })
        }
        "order" if path == "/order" => {
            match mood {
                Mood::Limited => {
                    held.orders += 1;
                    exchange.send(problem("429 Too Many Requests", "rateLimited", &next));
                    return;
                }
                Mood::Mad => {
                    held.orders += 1;
                    exchange.send(ok(&[&nonce_line], "<html>{{{"));
                    return;
                }
                Mood::Forgetful if held.forgotten < 2 => {
                    held.forgotten += 1;
                    exchange.send(problem("400 Bad Request", "badNonce", &next));
                    return;
                }
                _ => {}
            }
            assert_eq!(protected["kid"], format!("{base}/account/1"));
            held.orders += 1;
            held.taken.clear();
            held.chain = None;
            let names = payload["identifiers"].as_array().unwrap().iter();
            let names = names.map(|it| it["value"].as_str().unwrap().to_owned());
            held.names = names.collect();
            (status, location) = ("201 Created", format!("Location: {base}/order/1"));
            order(&held, &base)
        }
        "order" => order(&held, &base),
        "authz" => authorization(&held, &base, &name),
        "challenge" => {
            let expected = format!("token-{name}.{}", held.thumbprint);
            drop(held);
            let is_good = mood != Mood::Strict && is_ours(proxy, &name, &expected);
            held = state.lock().unwrap();
            held.taken.push((name.clone(), is_good));
            authorization(&held, &base, &name)["challenges"][1].clone()
        }
        "finalize" => {
            let names = match mood {
                Mood::Wrong => vec!["c.example".to_owned()],
                _ => held.names.clone(),
            };
            let request = decoded(&payload["csr"]);
            held.chain = Some(authority.sign_request(&request, &names, |_| {}));
            order(&held, &base)
        }
        "certificate" => {
            let chain = held.chain.clone().unwrap();
            exchange.send(ok(&[&nonce_line], chain));
            return;
        }
        other => panic!("{other}"),
    };
    let fields = [nonce_line.as_str(), location.as_str()];
    let fields: Vec<&str> = fields.into_iter().filter(|it| !it.is_empty()).collect();
    exchange.send(answer(status, &fields, body.to_string()));
}

fn order(state: &State, base: &str) -> Value {
    let is_taken = |name: &String| state.taken.contains(&(name.clone(), true));
    let status = match &state.chain {
        Some(_) => "valid",
        None if state.taken.iter().any(|(_, is_good)| !is_good) => "invalid",
        None if state.names.iter().all(is_taken) => "ready",
        None => "pending",
    };
    let identifiers = state.names.iter();
    let identifiers = identifiers.map(|name| json!({ "type": "dns", "value": name }));
    let authorizations = state.names.iter();
    let authorizations = authorizations.map(|name| format!("{base}/authz/{name}"));
    json!({
        "status": status,
        "identifiers": identifiers.collect::<Vec<_>>(),
        "authorizations": authorizations.collect::<Vec<_>>(),
        "finalize": format!("{base}/finalize"),
        "certificate": state.chain.as_ref().map(|_| format!("{base}/certificate")),
    })
}

fn authorization(state: &State, base: &str, name: &str) -> Value {
    let taken = state.taken.iter().find(|(of, _)| of == name);
    let status = match taken {
        None => "pending",
        Some((_, true)) => "valid",
        Some((_, false)) => "invalid",
    };
    let error = (status == "invalid").then(|| {
        json!({ "type": "urn:ietf:params:acme:error:unauthorized", "detail": "nobody is there" })
    });
    let challenge = |kind: &str| {
        json!({
            "type": kind, "url": format!("{base}/challenge/{name}"), "token": format!("token-{name}"),
            "status": status, "error": error,
        })
    };
    json!({
        "status": status,
        "identifier": { "type": "dns", "value": name },
        "challenges": [challenge("http-01"), challenge("tls-alpn-01"), challenge("dns-01")],
    })
}

/// Looks at the proxy as an authority does.
fn is_ours(proxy: &Target, name: &str, expected: &str) -> bool {
    let address = eventually("the proxy serves", || *proxy.lock().unwrap());
    let Ok((shown, protocol, _)) = look_at(address, name, &[b"acme-tls/1"]) else {
        return false;
    };
    let digest = ring::digest::digest(&ring::digest::SHA256, expected.as_bytes());
    // 1.3.6.1.5.5.7.1.31, critical; an octet string in an octet string.
    let extension = [
        &[
            0x06, 8, 0x2b, 6, 1, 5, 5, 7, 1, 31, 1, 1, 0xff, 4, 34, 4, 32,
        ][..],
        digest.as_ref(),
    ];
    let extension = extension.concat();
    let has = shown.windows(extension.len()).any(|it| it == extension);
    has && protocol.as_deref() == Some(b"acme-tls/1")
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// An old certificate of the authority, of which less than a third of its time is left.
fn put_old(ca: &Ca, plan: &Plan) {
    let acme = plan.acme.as_ref().unwrap();
    let signed = ca
        .authority
        .sign_with("old", &["a.example", "b.example"], |params| {
            let now = SystemTime::now();
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = (now + Duration::from_secs(30 * 86_400)).into();
        });
    let text =
        [&signed.files.chain, &signed.files.key].map(|file| fs::read_to_string(file).unwrap());
    fs::create_dir_all(&acme.state).unwrap();
    let text = format!("directory: {}\n{}", acme.directory, text.concat());
    fs::write(acme.certificate().chain, text).unwrap();
}

#[test]
fn a_certificate_is_ordered_shown_and_still_there_after_a_restart() {
    let ca = Ca::start(Mood::Good);
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("acme");
    let plan = ca.plan(&origin, &state);
    let proxy = ca.proxy(&plan);
    eventually("it is shown", || ca.is_shown_by(&proxy).then_some(()));
    let mut client = ca.authority.client().connect(proxy.address(), "a.example");
    assert_eq!(client.get("/", "a.example").body, b"hello");
    proxy.await_count("acme_issued", 1);
    assert_eq!(proxy.counter("acme_failures"), 0);
    assert_eq!(mode(&state), 0o700);
    for file in ["account.json", "certificate.pem", "attempt.json"] {
        assert_eq!(mode(&state.join(file)), 0o600, "{file}");
    }
    // Nobody but the authority is shown a challenge, and now nobody is.
    assert!(look_at(proxy.address(), "a.example", &[b"acme-tls/1"]).is_err());
    proxy.stop();
    let proxy = ca.proxy(&plan);
    assert!(ca.is_shown_by(&proxy), "at once");
    proxy.stop();
    let state = ca.state.lock().unwrap();
    assert_eq!((state.accounts, state.orders), (1, 1));
}

#[test]
fn it_is_renewed_in_time_by_the_same_account() {
    let ca = Ca::start(Mood::Forgetful);
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let folder = tempfile::tempdir().unwrap();
    let plan = ca.plan(&origin, folder.path());
    put_old(&ca, &plan);
    for orders in 1..=2 {
        let proxy = ca.proxy(&plan);
        assert!(ca.is_shown_by(&proxy), "the old one is shown meanwhile");
        let shown = || look_at(proxy.address(), "a.example", &[]).unwrap().0;
        eventually("it is renewed", || {
            (proxy.counter("acme_issued") == 1).then_some(())
        });
        let old = fs::read_to_string(ca.authority.path("old.pem")).unwrap();
        let old = CertificateDer::from_pem_slice(old.as_bytes()).unwrap();
        eventually("the new one is shown", || (shown() != old).then_some(()));
        proxy.stop();
        let state = ca.state.lock().unwrap();
        assert_eq!((state.accounts, state.orders), (1, orders));
        drop(state);
        // As if its time had gone by.
        put_old(&ca, &plan);
        fs::remove_file(folder.path().join("attempt.json")).unwrap();
    }
}

#[test]
fn an_authority_that_fails_leaves_what_is_there_and_is_not_asked_again_soon() {
    for mood in [
        Mood::Limited,
        Mood::Strict,
        Mood::Silent,
        Mood::Mad,
        Mood::Wrong,
    ] {
        let gate = Gate::new();
        let ca = Ca::start_held(mood, gate.clone());
        let origin = Origin::sending(ok(&[FRESH], "hello"));
        let folder = tempfile::tempdir().unwrap();
        let plan = ca.plan(&origin, folder.path());
        put_old(&ca, &plan);
        let proxy = ca.proxy(&plan);
        eventually("it has failed", || {
            (proxy.counter("acme_failures") == 1).then_some(())
        });
        gate.open();
        assert!(ca.is_shown_by(&proxy), "{mood:?}");
        assert_eq!(proxy.counter("acme_issued"), 0, "{mood:?}");
        let orders = ca.orders();
        proxy.stop();
        // Nor by a process that begins anew.
        let proxy = ca.proxy(&plan);
        assert!(ca.is_shown_by(&proxy), "{mood:?}");
        assert_eq!(proxy.counter("acme_failures"), 0, "{mood:?}");
        proxy.stop();
        assert_eq!(ca.orders(), orders, "{mood:?}");
    }
}

#[test]
fn without_an_authority_the_proxy_serves_with_a_certificate_of_its_own() {
    let ca = Ca::start(Mood::Mad);
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let folder = tempfile::tempdir().unwrap();
    let proxy = ca.proxy(&ca.plan(&origin, folder.path()));
    let (shown, _, _) = look_at(proxy.address(), "a.example", &[]).unwrap();
    assert!(shown.windows(9).any(|it| it == b"b.example"));
    eventually("it has failed", || {
        (proxy.counter("acme_failures") == 1).then_some(())
    });
}
