//! Requests that are signed for an object store: what goes out, what is shared of what comes back, and what becomes of a refusal.
//!
//! The store here looks at what a signature says, not whether it is right; that is tested with published signatures (`origin/signing/v4`).

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use ::proxy::plan::{CredentialSource, HealthCheck, Http2, Role, Route, Server, Signing, Upstream};
use httpcache::{UnixMillis, format_date};
use tempfile::TempDir;

use super::{
    harness::{client::request, origin::Request, running::*, *},
    origin_http2::translating,
};

/// A store, a proxy before it, and the file of the proxy's credentials.
struct Bucket {
    folder: TempDir,
    proxy: Proxy,
    /// Makes HTTP/1.1 of HTTP/2, where the store is asked by that.
    between: Option<Proxy>,
    store: Origin,
}

fn keys(id: &str) -> String {
    format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = verysecret\n")
}

impl Bucket {
    /// With a key `first`, and a store that answers so.
    fn new(script: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Bucket {
        Bucket::with(false, script)
    }

    fn with(writes: bool, script: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Bucket {
        Bucket::before(Origin::start(script), None, writes)
    }

    /// Which is asked by HTTP/2.
    fn over_http2(script: impl Fn(&mut Exchange) + Send + Sync + 'static) -> Bucket {
        let store = Origin::start(script);
        let between = translating(&store);
        Bucket::before(store, Some(between), true)
    }

    fn before(store: Origin, between: Option<Proxy>, writes: bool) -> Bucket {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("keys"), keys("first")).unwrap();
        let mut plan = plan_for(&store);
        let at = between.as_ref().map_or(store.address, Proxy::address);
        plan.listeners[0].role = Role::Reverse(vec![Route {
            pass_host: false,
            sign: Some(signing(&folder, writes)),
            http2: between.as_ref().map(|_| Http2::Known),
            ..Route::everything_to(url(at))
        }]);
        Bucket {
            proxy: Proxy::start(plan),
            between,
            folder,
            store,
        }
    }

    fn put_keys(&self, text: &str) {
        // As whoever renews it: it is never half there.
        let (new, file) = (
            self.folder.path().join("new"),
            self.folder.path().join("keys"),
        );
        fs::write(&new, text).unwrap();
        fs::rename(new, file).unwrap();
    }

    fn asked(&self) -> usize {
        self.store.requests().len()
    }
}

fn signing(folder: &TempDir, writes: bool) -> Arc<Signing> {
    Arc::new(Signing {
        region: "eu-central-1".to_owned(),
        service: "s3".to_owned(),
        credentials: CredentialSource::File(folder.path().join("keys")),
        writes,
    })
}

/// Whose key has signed it.
fn signer(request: &Request) -> Option<&str> {
    let scheme = "AWS4-HMAC-SHA256 Credential=";
    let (key, scope) = request
        .field("authorization")?
        .strip_prefix(scheme)?
        .split_once('/')?;
    assert!(
        scope.contains("/eu-central-1/s3/aws4_request, SignedHeaders=host;"),
        "{scope}"
    );
    assert_eq!(
        request.field("x-amz-content-sha256"),
        Some("UNSIGNED-PAYLOAD")
    );
    Some(key)
}

/// An answer of a store that says why.
fn error(status: &str, code: &str, more: &[&str]) -> Vec<u8> {
    let body = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>m</Message><HostId>inner.store.test</HostId></Error>"
    );
    // As S3 sends it: chunked, and here in two chunks that part the code.
    let (one, other) = body.split_at(35);
    let mut fields = vec![
        "Transfer-Encoding: chunked",
        "Content-Type: application/xml",
    ];
    fields.extend_from_slice(more);
    [head(status, &fields), chunk(one), chunk(other), chunk("")].concat()
}

const STORED: &[&str] = &["Cache-Control: max-age=60", "ETag: \"1\""];

#[track_caller]
fn told(answer: &Response, status: u16, word: &str) {
    let all = format!("{:?} {}", answer.fields, answer.text());
    assert_eq!(answer.status, status, "{all}");
    assert!(all.contains(word), "{all}");
    for name in ["store.test", "verysecret", "first", "127.0.0.1", "AWS4"] {
        assert!(!all.contains(name), "{all}");
    }
}

#[test]
fn what_is_signed_is_stored_and_shared() {
    let bucket = Bucket::new(|exchange| exchange.send(ok(STORED, "private")));
    for _ in 0..3 {
        assert_eq!(bucket.proxy.get("/b/a%20key?x=1%2F2").text(), "private");
    }
    let asked = bucket.store.last();
    assert_eq!((bucket.asked(), signer(&asked)), (1, Some("first")));
    assert_eq!(asked.target, "/b/a%20key?x=1%2F2");
    assert_eq!(
        asked.field("host"),
        Some(&*bucket.store.address.to_string())
    );
}

#[test]
fn an_answer_to_a_clients_own_authorization_is_not_shared() {
    let bucket = Bucket::new(|exchange| exchange.send(ok(STORED, "private")));
    let own = [
        "Authorization: Basic Y2xpZW50",
        "x-amz-security-token: theirs",
        "x-amz-server-side-encryption-customer-key: k",
    ];
    for count in 1..=2 {
        assert_eq!(bucket.proxy.ask("GET", "/a", &own).status, 200);
        assert_eq!(bucket.asked(), count, "it is not stored");
        let asked = bucket.store.last();
        assert_eq!(signer(&asked), Some("first"), "theirs goes nowhere");
        assert_eq!(asked.field("x-amz-security-token"), None);
        let key = "x-amz-server-side-encryption-customer-key";
        assert_eq!(asked.field(key), None);
    }
    bucket.proxy.get("/a");
    assert_eq!(bucket.asked(), 3, "nor is it shared");
    bucket.proxy.get("/a");
    assert_eq!(bucket.asked(), 3);
}

#[test]
fn validations_and_ranges_are_signed_anew() {
    let bucket = Bucket::new(|exchange| {
        let answer = match (exchange.field("if-none-match"), exchange.field("range")) {
            (Some("\"1\""), _) => answer("304 Not Modified", &["ETag: \"1\""], ""),
            (_, Some("bytes=0-1")) => answer(
                "206 Partial Content",
                &["Content-Range: bytes 0-1/7", "ETag: \"1\""],
                "pr",
            ),
            _ => ok(&["Cache-Control: max-age=0", "ETag: \"1\""], "private"),
        };
        exchange.send(answer);
    });
    assert_eq!(bucket.proxy.get("/a").text(), "private");
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(bucket.proxy.get("/a").text(), "private");
    let part = bucket.proxy.ask("GET", "/part", &["Range: bytes=0-1"]);
    assert_eq!((part.status, part.text()), (206, "pr"));
    assert_eq!(bucket.proxy.ask("HEAD", "/head", &[]).status, 200);
    let requests = bucket.store.requests();
    assert!(requests.len() >= 4 && requests.iter().all(|it| signer(it) == Some("first")));
    assert!(requests[1].field("if-none-match").is_some());
    let at = |number: usize| requests[number].field("x-amz-date").map(str::to_owned);
    assert_ne!(at(0), at(1));
}

#[test]
fn a_store_whose_clock_differs_is_asked_once_more_by_its_clock() {
    let ahead = Duration::from_secs(7_200);
    let bucket = Bucket::new(move |exchange| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let at = UnixMillis((now + ahead).as_millis() as u64);
        let date = String::from_utf8_lossy(&format_date(at)).into_owned();
        let date = format!("Date: {date}");
        let hour = |at: &str| at.get(9..11)?.parse::<u64>().ok();
        let signed = exchange.field("x-amz-date").and_then(hour);
        let is_by_ours = signed == Some(now.as_secs() / 3600 % 24);
        exchange.send(match is_by_ours {
            true => error("403 Forbidden", "RequestTimeTooSkewed", &[&date]),
            false => ok(STORED, "private"),
        });
    });
    assert_eq!(bucket.proxy.get("/a").text(), "private");
    assert_eq!(bucket.asked(), 2);
    assert_eq!(bucket.proxy.get("/b").text(), "private");
    assert_eq!(bucket.asked(), 3, "it is known now");
}

#[test]
fn a_refused_key_is_502_and_the_next_one_is_taken() {
    let bucket = Bucket::new(|exchange| {
        exchange.send(match signer(&exchange.request) {
            Some("second") => ok(STORED, "private"),
            _ => error(
                "403 Forbidden",
                "InvalidAccessKeyId",
                &["Cache-Control: max-age=60"],
            ),
        });
    });
    for count in 1..=2 {
        told(&bucket.proxy.get("/a"), 502, "proxy_configuration_error");
        assert_eq!(bucket.asked(), count, "a refusal is not stored");
    }
    bucket.put_keys(&keys("second"));
    eventually("the file is read again", || {
        (bucket.proxy.get("/a").status == 200).then_some(())
    });
}

#[test]
fn without_credentials_nothing_is_asked() {
    let bucket = Bucket::new(|exchange| exchange.send(ok(STORED, "private")));
    assert_eq!(bucket.proxy.get("/a").status, 200);
    // What was there before stays in force while the file is not there.
    fs::remove_file(bucket.folder.path().join("keys")).unwrap();
    assert_eq!(bucket.proxy.get("/b").status, 200);
    let folder = tempfile::tempdir().unwrap();
    let store = Origin::sending(ok(STORED, "private"));
    let mut plan = plan_for(&store);
    plan.listeners[0].role = Role::Reverse(vec![Route {
        sign: Some(signing(&folder, false)),
        ..Route::everything_to(url(store.address))
    }]);
    let proxy = Proxy::start(plan);
    let answer = proxy.get("/a");
    told(&answer, 503, "proxy_internal_error");
    assert_eq!(answer.fields.get("retry-after"), Some("5"));
    assert_eq!(store.requests().len(), 0);
    fs::write(folder.path().join("keys"), keys("first")).unwrap();
    eventually("the file is read", || {
        (proxy.get("/a").status == 200).then_some(())
    });
}

#[test]
fn what_a_store_says_of_an_object_goes_to_the_client() {
    let bucket = Bucket::new(|exchange| {
        exchange.send(error("403 Forbidden", "AccessDenied", &[]));
    });
    for _ in 0..2 {
        let answer = bucket.proxy.get("/a");
        assert_eq!(answer.status, 403);
        assert!(
            answer.text().ends_with("</HostId></Error>"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(bucket.proxy.ask("HEAD", "/a", &[]).status, 403);
}

#[test]
fn writes_are_refused_unless_they_are_wanted() {
    let script = |exchange: &mut Exchange| {
        if exchange.request.method == "PUT" {
            exchange.body();
        }
        exchange.send(match exchange.path() {
            "/refused" => error("403 Forbidden", "SignatureDoesNotMatch", &[]),
            _ => ok(&[], "written"),
        });
    };
    let put = |target: &str| {
        request(
            "PUT",
            target,
            &["Content-Length: 4", "x-amz-meta-a: 1"],
            "body",
        )
    };
    let reading = Bucket::new(script);
    for method in ["PUT", "POST", "DELETE"] {
        let answer = reading.proxy.ask(method, "/a", &["Content-Length: 0"]);
        told(&answer, 403, "http_request_denied");
    }
    told(
        &reading.proxy.ask("GET", "/a/..%2Fb", &[]),
        400,
        "http_request_denied",
    );
    assert_eq!(reading.asked(), 0);
    let writing = Bucket::with(true, script);
    let mut client = writing.proxy.client();
    let answer = client.send(put("/a")).read("PUT");
    assert_eq!((answer.status, answer.text()), (200, "written"));
    let asked = writing.store.last();
    assert_eq!(signer(&asked), Some("first"));
    assert!(
        asked
            .field("authorization")
            .unwrap()
            .contains(";x-amz-meta-a,")
    );
    assert_eq!(writing.proxy.ask("DELETE", "/a", &[]).status, 200);
    assert_eq!(signer(&writing.store.last()), Some("first"));
    let mut client = writing.proxy.client();
    let refused = client.send(put("/refused")).read("PUT");
    told(&refused, 502, "proxy_configuration_error");
}

#[test]
fn over_http2_signatures_and_refusals_are_the_same() {
    let is_skewed = AtomicBool::new(true);
    let bucket = Bucket::over_http2(move |exchange| {
        let target = exchange.path().to_owned();
        if exchange.request.method == "PUT" {
            exchange.body();
        }
        exchange.send(match &target[..] {
            "/refused" => error("403 Forbidden", "SignatureDoesNotMatch", STORED),
            "/denied" => error("403 Forbidden", "AccessDenied", &[]),
            "/late" if is_skewed.swap(false, Ordering::SeqCst) => {
                let date = "Date: Tue, 15 Nov 1994 08:12:31 GMT";
                error("403 Forbidden", "RequestTimeTooSkewed", &[date])
            }
            _ => ok(STORED, "private"),
        });
    });
    for _ in 0..2 {
        assert_eq!(bucket.proxy.get("/b/a%20key?x=1%2F2").text(), "private");
    }
    let asked = bucket.store.last();
    assert_eq!((bucket.asked(), signer(&asked)), (1, Some("first")));
    let between = bucket.between.as_ref().unwrap();
    let host = between.address().to_string();
    assert_eq!(asked.field("host"), Some(&*host), "what was signed");
    for count in 2..=3 {
        told(
            &bucket.proxy.get("/refused"),
            502,
            "proxy_configuration_error",
        );
        assert_eq!(bucket.asked(), count, "a refusal is not stored");
    }
    let answer = bucket.proxy.get("/denied");
    assert_eq!(answer.status, 403);
    assert!(answer.text().ends_with("</HostId></Error>"), "all of it");
    for (target, status) in [("/a", 200), ("/refused", 502), ("/denied", 403)] {
        let put = request("PUT", target, &["Content-Length: 4"], "body");
        let mut client = bucket.proxy.client();
        assert_eq!(client.send(put).read("PUT").status, status, "{target}");
        assert_eq!(signer(&bucket.store.last()), Some("first"));
    }
    let before = bucket.asked();
    assert_eq!(bucket.proxy.get("/late").text(), "private");
    assert_eq!(
        bucket.asked(),
        before + 2,
        "once more, by the store's clock"
    );
    assert!(between.counter("h2_streams") >= 9);
}

/// A proxy before an upstream of these stores.
fn before_upstream(stores: &[Origin], folder: &TempDir, health: Option<HealthCheck>) -> Proxy {
    fs::write(folder.path().join("keys"), keys("first")).unwrap();
    let server = |store: &Origin| Server {
        at: url(store.address),
        weight: 1,
        backup: false,
    };
    let mut plan = plan_for(&stores[0]);
    let sign = Some(signing(folder, false));
    plan.upstreams = vec![Upstream {
        name: "store".to_owned(),
        servers: stores.iter().map(server).collect(),
        sign: sign.clone(),
        health,
        ..Upstream::default()
    }];
    plan.listeners[0].role = Role::Reverse(vec![Route {
        pass_host: false,
        sign,
        ..Route::everything_to_upstream("store", "/bucket")
    }]);
    Proxy::start(plan)
}

#[test]
fn each_server_of_an_upstream_is_asked_with_a_signature() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [0, 1].map(|_| Origin::sending(ok(&["Cache-Control: no-store"], "private")));
    let proxy = before_upstream(&stores, &folder, None);
    for number in 0..20 {
        assert_eq!(proxy.get(&format!("/{number}")).text(), "private");
    }
    for store in &stores {
        let requests = store.requests();
        assert!(!requests.is_empty(), "both are asked");
        let is_well =
            |it: &Request| signer(it) == Some("first") && it.field("host") == Some("store");
        assert!(requests.iter().all(is_well));
    }
}

#[test]
fn checks_of_a_private_bucket_are_signed_and_a_refused_key_puts_no_server_out() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [Origin::start(|exchange| {
        exchange.send(match signer(&exchange.request) {
            Some("first") => ok(&["Cache-Control: no-store"], "private"),
            Some(_) => error("403 Forbidden", "InvalidAccessKeyId", &[]),
            None => error("403 Forbidden", "AccessDenied", &[]),
        });
    })];
    let check = HealthCheck {
        path: "/bucket/check".to_owned(),
        every: Duration::from_millis(100),
        fall: 1,
        ..HealthCheck::default()
    };
    let proxy = before_upstream(&stores, &folder, Some(check));
    let checked_again = || {
        let (store, before) = (&stores[0], stores[0].count("/bucket/check"));
        // The answer to the first two has been judged when the third one is there.
        eventually("it is checked", || {
            (store.count("/bucket/check") >= before + 3).then_some(())
        });
    };
    checked_again();
    assert_eq!(proxy.get("/a").text(), "private");
    fs::write(folder.path().join("keys"), keys("wrong")).unwrap();
    eventually("the file is read again", || {
        (proxy.get("/a").status == 502).then_some(())
    });
    checked_again();
    told(&proxy.get("/a"), 502, "proxy_configuration_error");
}
