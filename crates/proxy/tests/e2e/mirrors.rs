//! Routes that mirror something: paths that are cut, redirects that are followed, texts that are replaced, digests that are checked, tokens
//! that are fetched. Real clients go through presets in `crates/loligo/tests/mirrors.rs`.

use std::sync::{Arc, atomic::AtomicU16, atomic::Ordering::Relaxed};

use proxy::plan::{HostPort, Mirroring, Plan, Replace, Role};
use ring::digest::{SHA256, digest};

use super::harness::{
    Disk, FRESH, Gate, Origin, Proxy, answer, chunk, head, ok, pattern,
    running::{own_host_plan, with_admin},
};

pub fn mirror(origin: &Origin, mirror: Mirroring) -> Plan {
    let mut plan = with_admin(own_host_plan(origin));
    let Role::Reverse(routes) = &mut plan.listeners[0].role else {
        panic!("a reverse listener");
    };
    routes[0].mirror = mirror;
    plan
}

pub fn host(host: &str, port: u16) -> HostPort {
    let (host, port) = (host.to_owned(), Some(port));
    HostPort { host, port }
}

pub fn following(host: HostPort) -> Mirroring {
    Mirroring {
        follow: vec![host],
        ..Mirroring::default()
    }
}

fn replacing(from: &str, to: &str) -> Mirroring {
    Mirroring {
        replace: Some(Replace {
            from: from.to_owned(),
            to: to.to_owned(),
            types: Replace::TYPES.map(str::to_owned).to_vec(),
        }),
        ..Mirroring::default()
    }
}

fn verifying() -> Mirroring {
    Mirroring {
        verify: true,
        ..Mirroring::default()
    }
}

/// Sends clients on.
fn redirect(to: &str) -> Vec<u8> {
    redirect_with(to, &[])
}

pub fn redirect_with(to: &str, fields: &[&str]) -> Vec<u8> {
    let location = format!("Location: {to}");
    let fields = [&[location.as_str()], fields].concat();
    answer("302 Found", &fields, "elsewhere")
}

fn sha256(body: &[u8]) -> String {
    let digest = digest(&SHA256, body);
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

const FILES: &str = "https://files.example/";
const HTML: &str = "Content-Type: text/html";

#[test]
fn a_redirect_is_followed_and_its_end_stored_under_the_clients_url() {
    let files = Origin::start(|exchange| {
        exchange.send(ok(&[FRESH, "Set-Cookie: a=b"], "the file"));
    });
    let at = files.address;
    let origin = Origin::start(move |exchange| {
        exchange.send(redirect(&format!("http://{at}/f?sig=%2fx#part")));
    });
    let plan = mirror(&origin, following(host("127.0.0.1", at.port())));
    let proxy = Proxy::start(plan);
    let fields = ["Cookie: c=d", "Referer: http://x/", "Accept: y"];
    let first = proxy.ask("GET", "/file", &fields);
    assert!(first.cache().ends_with("; detail=private"), "{first:?}");
    assert_eq!(
        (first.status, first.text(), first.is_hit()),
        (200, "the file", false)
    );
    assert_eq!(first.field("set-cookie"), None);
    assert_eq!(origin.last().field("cookie"), Some("c=d"));
    let asked = files.last();
    assert_eq!(asked.target, "/f?sig=%2fx");
    assert_eq!(asked.field("host"), Some(at.to_string().as_str()));
    for private in ["cookie", "referer", "x-forwarded-for", "x-forwarded-host"] {
        assert_eq!(asked.field(private), None, "{private}");
    }
    assert_eq!(asked.field("accept"), Some("y"));
    assert!(!proxy.get("/file").is_hit());
    assert!(proxy.get("/file").is_hit());
    assert_eq!((origin.count("/file"), files.requests().len()), (2, 2));
    let head = proxy.ask("HEAD", "/other", &["Authorization: Basic eA=="]);
    assert_eq!(head.status, 200);
    assert_eq!(files.last().method, "HEAD");
    assert_eq!(files.last().field("authorization"), None);
    proxy.await_count("mirror_redirects_followed", 3);
}

#[test]
fn a_redirect_to_where_nobody_said_goes_to_the_client() {
    let elsewhere = Origin::start(|exchange| exchange.send(ok(&[FRESH], "never")));
    let port = elsewhere.address.port();
    let origin = Origin::start(move |exchange| {
        let to = match exchange.path() {
            "/port" => format!("http://127.0.0.1:{port}/"),
            "/metadata" => "http://169.254.169.254/latest".to_owned(),
            "/user" => format!("http://u:p@127.0.0.1:{port}/"),
            "/name" => format!("http://localhost:{port}/"),
            _ => "file:///etc/passwd".to_owned(),
        };
        exchange.send(redirect(&to));
    });
    let proxy = Proxy::start(mirror(&origin, following(host("*.files.example", 80))));
    for path in ["/port", "/metadata", "/user", "/name", "/file"] {
        let answer = proxy.get(path);
        assert_eq!(answer.status, 302, "{path}");
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

/// A name on the list that leads to this machine: the operator did not mean that.
#[test]
fn a_listed_name_does_not_lead_inward() {
    let inside = Origin::start(|exchange| exchange.send(ok(&[FRESH], "secret")));
    let port = inside.address.port();
    let origin = Origin::start(move |exchange| {
        exchange.send(redirect(&format!("http://localhost:{port}/")));
    });
    let proxy = Proxy::start(mirror(&origin, following(host("localhost", port))));
    let answer = proxy.get("/");
    assert!(answer.status >= 400, "{answer:?}");
    assert!(
        answer.cache().contains("destination_ip_prohibited"),
        "{}",
        answer.cache()
    );
    // Nor to the proxy itself.
    let own = Arc::new(AtomicU16::new(0));
    let port = Arc::clone(&own);
    let origin = Origin::start(move |exchange| {
        exchange.send(redirect(&format!(
            "http://127.0.0.1:{}/",
            port.load(Relaxed)
        )));
    });
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut plan = mirror(&origin, following(host("127.0.0.1", free.port())));
    plan.listeners[0].address = free;
    own.store(free.port(), Relaxed);
    let answer = Proxy::start(plan).get("/");
    assert!(
        answer.cache().contains("proxy_loop_detected"),
        "{}",
        answer.cache()
    );
    assert_eq!(inside.requests().len(), 0);
}

#[test]
fn redirects_that_go_round_end() {
    let origin = Origin::start(|exchange| {
        let path = exchange.path().to_owned();
        match path.strip_prefix("/long/") {
            Some("0") => exchange.send(ok(&[FRESH], "the end")),
            Some(left) => {
                let left: u32 = left.parse().unwrap();
                exchange.send(redirect(&format!("/long/{}", left - 1)));
            }
            None => exchange.send(redirect(&path)),
        }
    });
    let proxy = Proxy::start(mirror(&origin, following(host("x.example", 80))));
    assert_eq!(proxy.get("/round").status, 502);
    assert_eq!(origin.count("/round"), 4);
    assert_eq!(proxy.get("/long/3").text(), "the end");
    assert_eq!(proxy.get("/long/4").status, 502);
}

#[test]
fn a_text_is_replaced_wherever_a_chunk_ends() {
    let body =
        format!("<a href=\"{FILES}a\">{FILES}</a> https://files.exampleX/ {FILES}b https://files");
    let whole = body.clone();
    let origin = Origin::start(move |exchange| {
        let fields = [
            FRESH,
            HTML,
            "ETag: \"1\"",
            "Content-MD5: x",
            "Repr-Digest: sha-256=:x:",
            "Vary: Accept-Encoding, Accept",
            "Transfer-Encoding: chunked",
        ];
        exchange.send(head("200 OK", &fields));
        let size = exchange.path()[1..].parse().unwrap();
        for piece in whole.as_bytes().chunks(size) {
            exchange.send(chunk(piece));
        }
        exchange.send("0\r\n\r\n");
    });
    let proxy = Proxy::start(mirror(&origin, replacing(FILES, "/-/")));
    let expected = body.replace(FILES, "/-/");
    for size in [1, 2, 7, 21, 22, 23, 1000] {
        let path = format!("/{size}");
        let first = proxy.ask("GET", &path, &["Accept-Encoding: gzip"]);
        assert_eq!(first.text(), expected, "{size}");
        for coding in ["Accept-Encoding: br", "Accept-Encoding: gzip"] {
            let again = proxy.ask("GET", &path, &[coding]);
            assert_eq!(again.text(), expected, "{size}");
            assert!(again.is_hit(), "stored as it was replaced, for all codings");
            assert_eq!(again.field("etag"), Some("W/\"1\""));
            assert_eq!(
                again.field("content-length"),
                Some(expected.len().to_string().as_str())
            );
            assert_eq!(again.field("vary"), Some("Accept"));
            for of_the_other in ["content-md5", "repr-digest"] {
                assert_eq!(again.field(of_the_other), None);
            }
        }
        let asked = origin.last();
        assert_eq!(asked.field("accept-encoding"), Some("identity"));
        assert_eq!(asked.nth, 1);
    }
    // A part cannot be looked through: the whole is asked for.
    let part = proxy.ask("GET", "/7", &["Range: bytes=0-3"]);
    assert_eq!((part.status, part.text()), (206, "<a h"));
    let passed = proxy.ask("GET", "/50", &["Range: bytes=0-3"]);
    assert!(matches!(passed.status, 200 | 206), "{passed:?}");
    assert_eq!(origin.last().field("range"), None);
}

#[test]
fn a_body_of_known_length_and_one_of_another_type() {
    let origin = Origin::start(|exchange| {
        let kind = match exchange.path() {
            "/binary" => "Content-Type: application/octet-stream",
            _ => "Content-Type: application/vnd.pypi.simple.v1+json",
        };
        let body = format!("{{\"url\": \"{FILES}x\"}}");
        exchange.send(ok(&[FRESH, kind, "ETag: \"1\""], body));
    });
    let proxy = Proxy::start(mirror(
        &origin,
        replacing(
            FILES,
            "http://mirror.example:8080/very/much/longer/than/before/",
        ),
    ));
    for _ in 0..2 {
        let replaced = proxy.get("/json");
        assert_eq!(
            replaced.text(),
            "{\"url\": \"http://mirror.example:8080/very/much/longer/than/before/x\"}"
        );
        let as_it_is = proxy.get("/binary");
        assert_eq!(as_it_is.text(), format!("{{\"url\": \"{FILES}x\"}}"));
        assert_eq!(as_it_is.field("etag"), Some("\"1\""));
    }
    assert_eq!(origin.requests().len(), 2);
    // HEAD of what is not stored: no length is told that the body would not have.
    let head = proxy.ask("HEAD", "/more", &[]);
    assert_eq!(
        (head.field("content-length"), head.field("etag")),
        (None, Some("W/\"1\""))
    );
}

/// The replaced body is revalidated by the origin's own ETag.
#[test]
fn what_was_replaced_is_revalidated() {
    let origin = Origin::start(|exchange| {
        let fields = [
            "Cache-Control: max-age=0",
            HTML,
            "ETag: \"1\"",
            "Vary: Accept-Encoding",
        ];
        match exchange.field("if-none-match") {
            Some("W/\"1\"") => exchange.send(head("304 Not Modified", &fields)),
            Some(other) => panic!("{other}"),
            None => exchange.send(ok(&fields, format!("to {FILES}a"))),
        }
    });
    let disk = Disk::of_mib(16);
    for on_disk in [false, true] {
        let mut plan = mirror(&origin, replacing(FILES, "/-/"));
        if on_disk {
            plan = disk.under(plan);
            plan.memory_bytes = 0;
        }
        let proxy = Proxy::start(plan);
        let before = origin.count("/");
        for _ in 0..3 {
            let answer = proxy.get("/");
            assert_eq!((answer.status, answer.text()), (200, "to /-/a"));
        }
        let asked: Vec<_> = origin.requests().into_iter().skip(before).collect();
        assert_eq!(asked.len(), 3);
        assert!(
            asked[1..]
                .iter()
                .all(|asked| asked.field("if-none-match").is_some())
        );
        // The client's own condition, in the form that it knows.
        let answer = proxy.ask("GET", "/", &["If-None-Match: W/\"1\""]);
        assert_eq!(answer.status, 304);
    }
}

/// It cannot be looked through, and an unreplaced body must not be kept.
#[test]
fn a_compressed_body_is_passed_on_and_not_stored() {
    let origin = Origin::start(|exchange| {
        exchange.send(ok(
            &[
                FRESH,
                "CDN-Cache-Control: max-age=99",
                HTML,
                "Content-Encoding: gzip",
            ],
            "not really gzip",
        ));
    });
    let proxy = Proxy::start(mirror(&origin, replacing(FILES, "/-/")));
    for _ in 0..2 {
        let answer = proxy.get("/");
        assert_eq!((answer.text(), answer.is_hit()), ("not really gzip", false));
        assert_eq!(answer.field("content-encoding"), Some("gzip"));
    }
    proxy.await_count("mirror_bodies_coded", 2);
}

#[test]
fn a_replaced_body_goes_on_while_it_comes() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |exchange| {
        exchange.send(head("200 OK", &[FRESH, HTML, "Transfer-Encoding: chunked"]));
        exchange.send(chunk(format!("{FILES}1 https://fil")));
        wait.pass();
        exchange.send(chunk("es.example/2"));
        exchange.send("0\r\n\r\n");
    });
    let proxy = Proxy::start(mirror(&origin, replacing(FILES, "/-/")));
    let mut client = proxy.client();
    client.ask("GET", "/", &[]);
    let head = client.read_head();
    assert_eq!(head.field("transfer-encoding"), Some("chunked"));
    // The chunk's size, and what is certain of the first piece.
    let came = client.bytes(b"5\r\n/-/1 ".len());
    assert_eq!(String::from_utf8(came).unwrap(), "5\r\n/-/1 ");
    gate.open();
    let rest = client.bytes(b"\r\n4\r\n/-/2".len());
    assert_eq!(String::from_utf8(rest).unwrap(), "\r\n4\r\n/-/2");
}

#[test]
fn a_body_cut_short_is_not_stored_as_replaced() {
    let origin = Origin::start(|exchange| {
        let body = format!("{FILES}1");
        if exchange.nth() == 1 {
            let length = format!("Content-Length: {}", body.len() + 10);
            exchange.send(head("200 OK", &[FRESH, HTML, &length]));
            exchange.send(body);
            exchange.close();
        } else {
            exchange.send(ok(&[FRESH, HTML], body));
        }
    });
    let proxy = Proxy::start(mirror(&origin, replacing(FILES, "/-/")));
    let mut client = proxy.client();
    client.ask("GET", "/", &[]);
    assert!(client.read_whatever("GET").cut.is_some());
    let again = proxy.get("/");
    assert_eq!((again.text(), again.is_hit()), ("/-/1", false));
}

#[test]
fn a_wrong_digest_is_cut_off_and_not_stored() {
    let blob = pattern(300_000);
    let path = format!("/v2/a/blobs/sha256:{}", sha256(&blob));
    let origin = Origin::start(move |exchange| {
        let mut body = blob.clone();
        if exchange.nth() == 1 {
            body[299_999] ^= 1;
        }
        exchange.send(ok(&[FRESH], body));
    });
    let disk = Disk::of_mib(16);
    let proxy = Proxy::start(disk.under(mirror(&origin, verifying())));
    let mut client = proxy.client();
    client.ask("GET", &path, &[]);
    let cut = client.read_whatever("GET");
    assert!(cut.cut.is_some() && cut.body.len() < 300_000);
    proxy.await_count("mirror_digests_wrong", 1);
    for is_hit in [false, true] {
        let again = proxy.get(&path);
        assert_eq!(sha256(&again.body), path.rsplit(':').next().unwrap());
        assert_eq!(again.is_hit(), is_hit);
    }
    assert_eq!(origin.last().field("range"), None);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_path_is_cut_and_purged_by_the_name_clients_know() {
    let origin = Origin::start(|exchange| {
        let asked = (
            exchange.path().to_owned(),
            exchange.field("host").unwrap().to_owned(),
        );
        exchange.send(ok(&[FRESH], format!("{} {}", asked.0, asked.1)));
    });
    let mut plan = mirror(
        &origin,
        Mirroring {
            strip: "/pypi".to_owned(),
            origin_host: Some("index.example".to_owned()),
            ..Mirroring::default()
        },
    );
    let Role::Reverse(routes) = &mut plan.listeners[0].role else {
        panic!("a reverse listener");
    };
    routes[0].path_prefix = "/pypi".to_owned();
    routes[0].origin.path = "/base".to_owned();
    let proxy = Proxy::start(plan);
    for (path, seen) in [
        ("/pypi/simple/?q", "/base/simple/?q"),
        ("/pypi", "/base/"),
        ("/pypi?q", "/base/?q"),
        ("/pypi/", "/base/"),
    ] {
        assert_eq!(
            proxy.get(path).text(),
            format!("{seen} index.example"),
            "{path}"
        );
        assert!(proxy.get(path).is_hit());
    }
    let url = format!("http://{}/pypi/simple/?q", proxy.address());
    let gone = proxy.admin("DELETE", &format!("/cache?url={}", url.replace('?', "%3F")));
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert!(!proxy.get("/pypi/simple/?q").is_hit());
    assert!(proxy.get("/pypi?q").is_hit());
}

/// A registry that wants a token, and sends clients elsewhere for blobs.
#[test]
fn a_registry_gets_the_token_that_everybody_gets() {
    let blob = b"a layer".to_vec();
    let path = format!("/v2/a/b/blobs/sha256:{}", sha256(&blob));
    let storage = Origin::start(move |exchange| exchange.send(ok(&[FRESH], &blob)));
    let to = storage.address;
    let registry = Origin::start(move |exchange| {
        let at = exchange.field("host").unwrap().to_owned();
        if exchange.path().starts_with("/token") {
            let nth = exchange.nth();
            let token = format!(
                "{{\"token\": \"{}-{nth}\", \"expires_in\": 300}}",
                exchange.path().contains("scope")
            );
            return exchange.send(ok(&["Content-Type: application/json"], token));
        }
        let scope = match exchange.path() {
            "/v2/" => "",
            _ => ",scope=\"repository:a/b:pull\"",
        };
        let good = match scope {
            "" => "Bearer false-1",
            _ => "Bearer true-1",
        };
        if exchange.field("authorization") != Some(good) {
            let challenge = format!(
                "WWW-Authenticate: Bearer realm=\"http://{at}/token\",service=\"registry\"{scope}"
            );
            return exchange.send(answer("401 Unauthorized", &[&challenge], "{}"));
        }
        match exchange.path().contains("/blobs/") {
            true => exchange.send(redirect(&format!("http://{to}/layer"))),
            false => exchange.send(ok(&[FRESH], "a manifest")),
        }
    });
    let plan = mirror(
        &registry,
        Mirroring {
            follow: vec![host("127.0.0.1", to.port())],
            verify: true,
            tokens: Some(Vec::new()),
            ..Mirroring::default()
        },
    );
    let proxy = Proxy::start(plan);
    assert_eq!(proxy.get("/v2/").status, 200);
    assert_eq!(proxy.get("/v2/a/b/manifests/latest").text(), "a manifest");
    let token = "/token?service=registry&scope=repository:a/b:pull";
    assert_eq!(registry.count(token), 1);
    assert_eq!(proxy.get(&path).text(), "a layer");
    assert_eq!(registry.count(token), 1, "the same repository");
    assert_eq!(storage.last().field("authorization"), None);
    assert!(proxy.get(&path).is_hit() && proxy.get("/v2/a/b/manifests/latest").is_hit());
    proxy.await_count("mirror_tokens_fetched", 2);
    // Credentials of a client are its own.
    let own = proxy.ask(
        "GET",
        "/v2/a/b/manifests/other",
        &["Authorization: Bearer own"],
    );
    assert_eq!(own.status, 401);
    proxy.await_count("mirror_tokens_fetched", 2);
}

#[test]
fn a_token_is_not_asked_for_where_nobody_said() {
    let elsewhere = Origin::start(|exchange| exchange.send(ok(&[], "{\"token\":\"x\"}")));
    let to = elsewhere.address;
    let registry = Origin::start(move |exchange| {
        let challenge = format!("WWW-Authenticate: Bearer realm=\"http://{to}/token\"");
        exchange.send(answer("401 Unauthorized", &[&challenge], "{}"));
    });
    let mirroring = |listed: Vec<HostPort>| Mirroring {
        tokens: Some(listed),
        ..Mirroring::default()
    };
    let proxy = Proxy::start(mirror(&registry, mirroring(Vec::new())));
    assert_eq!(proxy.get("/v2/").status, 401);
    assert_eq!(elsewhere.requests().len(), 0);
    // Where it is, a token that is not taken is not asked for for ever.
    let proxy = Proxy::start(mirror(
        &registry,
        mirroring(vec![host("127.0.0.1", to.port())]),
    ));
    assert_eq!(proxy.get("/v2/").status, 401);
    assert_eq!(elsewhere.requests().len(), 1);
}
