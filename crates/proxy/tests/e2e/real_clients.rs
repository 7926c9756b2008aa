//! The clients that people use, against listeners that speak TLS: HTTP/2 as each has it, and a forward proxy that is itself asked over TLS.
//!
//! A client that is not installed is said, and its test passes over. No client leaves this machine.

mod honest;
mod packages;
mod upgraded;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    process::Command,
    sync::{Arc, Mutex},
};

use ::proxy::plan::{Forward, Listener, Role};

use crate::{
    harness::{
        running::{local, with_admin},
        tls::{Authority, listener_tls},
        *,
    },
    http2_client::speaking,
};

/// No client may take longer, seconds; on a machine that is busy.
const CLIENT_SECONDS_MAX: &str = "120";

type Files = BTreeMap<String, Vec<u8>>;

/// An origin, and a proxy with a reverse listener in front of it and a forward listener, both over TLS.
pub struct House {
    authority: Authority,
    origin: Origin,
    files: Arc<Mutex<Files>>,
    pub proxy: Proxy,
}

impl House {
    fn start() -> House {
        let files = Arc::new(Mutex::new(Files::new()));
        let found = Arc::clone(&files);
        let mut house = House::answering(move |exchange| {
            answer_from(exchange, &found.lock().unwrap());
        });
        house.files = files;
        house
    }

    /// With an origin that does this.
    pub fn answering(script: impl Fn(&mut Exchange) + Send + Sync + 'static) -> House {
        let origin = Origin::start(script);
        let authority = Authority::new();
        let signed = authority.sign("localhost", &["localhost", "127.0.0.1"]);
        let mut forward = Listener::forward(local(), Vec::new());
        forward.role = Role::Forward(Forward {
            connect_ports: (1024..=u16::MAX).collect(),
            ..Forward::for_address(forward.address.ip())
        });
        let mut plan = speaking(with_admin(plan_for(&origin)));
        plan.listeners.push(forward);
        for listener in &mut plan.listeners {
            listener.http2 = true;
            listener.tls = Some(listener_tls(&[&signed]));
        }
        House {
            proxy: Proxy::start(plan),
            authority,
            origin,
            files: Arc::default(),
        }
    }

    /// Of the reverse listener.
    fn url(&self, path: &str) -> String {
        format!(
            "https://localhost:{}{path}",
            self.proxy.ready.listeners[0].port()
        )
    }

    fn forward(&self) -> String {
        format!("https://localhost:{}", self.proxy.ready.listeners[1].port())
    }

    fn at_origin(&self, path: &str) -> String {
        format!("http://{}{path}", self.origin.address)
    }

    pub fn authority(&self) -> String {
        self.authority.path("ca.pem").display().to_string()
    }

    fn put(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.files
            .lock()
            .unwrap()
            .insert(path.to_owned(), body.into());
    }
}

/// A file, or what a client sent with what it sent behind it.
fn answer_from(exchange: &mut Exchange, files: &Files) {
    let (path, method) = (exchange.path().to_owned(), exchange.request.method.clone());
    let path = path.split('?').next().unwrap_or_default();
    if method == "POST" {
        let (body, trailers) = exchange.body();
        let sum = trailers.first("x-sum").unwrap_or("none").to_owned();
        let fields = [
            "Content-Type: application/grpc",
            "Trailer: grpc-status",
            "Transfer-Encoding: chunked",
        ];
        exchange.send(head("200 OK", &fields));
        exchange.send(chunk(body));
        return exchange.send(format!("0\r\nGrpc-Status: 0\r\nX-Sum: {sum}\r\n\r\n"));
    }
    let kind = match path.ends_with('/') || path.ends_with(".html") {
        true => "Content-Type: text/html",
        false => "Content-Type: application/octet-stream",
    };
    let (status, body) = match files.get(path) {
        Some(body) => ("200 OK", &body[..]),
        None => ("404 Not Found", &b""[..]),
    };
    let mut whole = answer(status, &[FRESH, kind], body);
    if method == "HEAD" {
        whole.truncate(whole.len() - body.len());
    }
    exchange.send(whole);
}

/// What a machine may say of authorities, which would win over what a test says.
const AUTHORITIES: [&str; 8] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
];

/// Says that something is not here, past the capture of the test runner: a test that passes is not shown otherwise.
fn skip(what: &str, install: &str) {
    let said = format!("SKIPPED: {what} is not installed ({install})\n");
    io::stderr().write_all(said.as_bytes()).unwrap();
}

/// Where a client comes from, if not from a package of its own name.
const PACKAGES: [(&str, &str); 5] = [
    ("java", "apt install openjdk-17-jdk-headless"),
    ("node", "apt install nodejs"),
    ("nghttp", "apt install nghttp2-client"),
    ("h2load", "apt install nghttp2-client"),
    ("pip", "apt install python3-pip"),
];

/// A client, with none of this machine's proxies and authorities; `None`: it is not here, which is said.
pub fn client(name: &str) -> Option<Command> {
    let ask = match name {
        "go" | "openssl" => "version",
        _ => "--version",
    };
    let asked = Command::new(name).arg(ask).output();
    if !asked.is_ok_and(|asked| asked.status.success()) {
        let known = PACKAGES.iter().find(|(client, _)| *client == name);
        let install = known.map_or(format!("apt install {name}"), |(_, how)| (*how).to_owned());
        skip(name, &install);
        return None;
    }
    let mut command = Command::new("timeout");
    command.args([CLIENT_SECONDS_MAX, name]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    for name in AUTHORITIES {
        command.env_remove(name);
    }
    Some(command)
}

/// Does the Python of this machine have these modules? If not, that is said.
pub fn has(modules: &str, package: &str) -> bool {
    let import = format!("import {modules}");
    let asked = Command::new("python3").args(["-c", &import]).output();
    let has = asked.is_ok_and(|asked| asked.status.success());
    if !has {
        skip(package, &format!("pip install '{package}'"));
    }
    has
}

#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (said, told) = [&output.stdout, &output.stderr]
        .map(|it| String::from_utf8_lossy(it))
        .into();
    assert!(output.status.success(), "{command:?}:\n{said}\n{told}");
    said.trim().to_owned()
}

#[test]
fn curl_asks_over_both_protocols_and_by_a_proxy_over_tls() {
    let house = House::start();
    house.put("/hello", "hello");
    house.put("/large", pattern(1 << 20));
    let curl = |words: &[&str]| {
        let mut curl = client("curl")?;
        curl.args(["-sS", "--cacert", &house.authority()])
            .args(words);
        Some(run(&mut curl))
    };
    let told = "%{http_code} %{http_version} %{size_download}";
    for (protocol, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        for (path, size) in [("/hello", 5), ("/large", 1 << 20), ("/large", 1 << 20)] {
            let url = house.url(path);
            let Some(said) = curl(&[protocol, "-o", "/dev/null", "-w", told, &url]) else {
                return;
            };
            assert_eq!(said, format!("200 {version} {size}"));
        }
        let part = curl(&[protocol, "-r", "1-3", &house.url("/hello")]);
        assert_eq!(part.as_deref(), Some("ell"));
        let echo = curl(&[protocol, "-d", "what is sent", &house.url("/echo")]);
        assert_eq!(echo.as_deref(), Some("what is sent"));
        let head = curl(&[protocol, "-I", &house.url("/hello")]).unwrap();
        assert!(head.to_lowercase().contains("content-length: 5"), "{head}");
    }
    let (proxy, authority) = (house.forward(), house.authority());
    let by = ["--proxy", &proxy, "--proxy-cacert", &authority];
    let plain = curl(&[&by[..], &[&house.at_origin("/hello")]].concat());
    assert_eq!(plain.as_deref(), Some("hello"));
    let tunnel = curl(&[&by[..], &["--proxytunnel", &house.at_origin("/hello")]].concat());
    assert_eq!(tunnel.as_deref(), Some("hello"));
    eventually("it is counted", || {
        (house.proxy.counter("h2_streams") >= 6).then_some(())
    });
}

#[test]
fn go_asks_over_http2_with_trailers_and_by_a_proxy_over_tls() {
    let house = House::start();
    house.put("/hello", "hello");
    house.put("/large", pattern(1 << 20));
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("main.go");
    fs::write(&source, GO).unwrap();
    let Some(mut go) = client("go") else { return };
    go.arg("run").arg(&source).current_dir(dir.path());
    go.args([
        &house.url(""),
        &house.forward(),
        &house.at_origin(""),
        &house.authority(),
    ]);
    go.envs([
        ("GOPROXY", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOFLAGS", ""),
    ]);
    assert_eq!(run(&mut go), "done");
}

/// Fifty at once on one connection, a call with trailers both ways, and a forward proxy over TLS.
const GO: &str = r#"
package main

import (
	"bytes"; "crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "net/http/httptest"; "net/url"; "os"; "sync"
)

func check(ok bool, said ...any) {
	if !ok {
		fmt.Fprintln(os.Stderr, said...)
		os.Exit(1)
	}
}

func main() {
	base, forward, origin := os.Args[1], os.Args[2], os.Args[3]
	pem, err := os.ReadFile(os.Args[4])
	check(err == nil, err)
	roots := x509.NewCertPool()
	check(roots.AppendCertsFromPEM(pem), "no roots")
	trust := &tls.Config{RootCAs: roots}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true}}
	get := func(client *http.Client, url string) (*http.Response, []byte) {
		answer, err := client.Get(url)
		check(err == nil, err)
		body, err := io.ReadAll(answer.Body)
		check(err == nil, err)
		return answer, body
	}
	get(client, base+"/hello")
	var all sync.WaitGroup
	for n := 0; n < 50; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			answer, body := get(client, base+"/large")
			check(answer.Proto == "HTTP/2.0" && len(body) == 1<<20, answer.Proto, len(body))
		}()
	}
	all.Wait()

	message := []byte{0, 0, 0, 0, 4, 'p', 'i', 'n', 'g'}
	reader, writer := io.Pipe()
	call, err := http.NewRequest("POST", base+"/demo.Service/Call", reader)
	check(err == nil, err)
	call.Header.Set("Content-Type", "application/grpc")
	call.Header.Set("TE", "trailers")
	call.Trailer = http.Header{"X-Sum": nil}
	go func() {
		writer.Write(message)
		call.Trailer.Set("X-Sum", "7")
		writer.Close()
	}()
	answer, err := client.Do(call)
	check(err == nil, err)
	body, err := io.ReadAll(answer.Body)
	check(err == nil && bytes.Equal(body, message), err, body)
	check(answer.Trailer.Get("Grpc-Status") == "0" && answer.Trailer.Get("X-Sum") == "7", answer.Trailer)

	by, _ := url.Parse(forward)
	proxied := &http.Client{Transport: &http.Transport{TLSClientConfig: trust.Clone(), Proxy: http.ProxyURL(by)}}
	answer, body = get(proxied, origin+"/hello")
	check(answer.StatusCode == 200 && string(body) == "hello", answer.Status, string(body))

	// As the default transport does: it offers HTTP/2 to the proxy, and sends CONNECT in HTTP/1.1.
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "inside")
	}))
	roots.AddCert(other.Certificate())
	eager := &http.Client{Transport: &http.Transport{TLSClientConfig: trust.Clone(), ForceAttemptHTTP2: true, Proxy: http.ProxyURL(by)}}
	_, body = get(eager, other.URL)
	check(string(body) == "inside", string(body))
	fmt.Println("done")
}
"#;

#[test]
fn node_asks_over_http2() {
    let house = House::start();
    house.put("/hello", "hello");
    let Some(mut node) = client("node") else {
        return;
    };
    let script = r#"
const http2 = require('http2'), fs = require('fs');
const [base, ca] = process.argv.slice(1);
const session = http2.connect(base, { ca: fs.readFileSync(ca) });
session.on('error', why => { console.error(why); process.exit(1); });
const ask = (head, body) => new Promise((done, fail) => {
  const stream = session.request(head, { endStream: body === undefined });
  let status, text = '', trailers = {};
  stream.on('response', head => status = head[':status']);
  stream.on('trailers', fields => trailers = fields);
  stream.on('data', piece => text += piece);
  stream.on('end', () => done([status, text, trailers['grpc-status']].join(' ')));
  stream.on('error', fail);
  if (body !== undefined) stream.end(body);
});
(async () => {
  const all = await Promise.all(Array.from({ length: 20 }, () => ask({ ':path': '/hello' })));
  all.push(await ask({ ':path': '/echo', ':method': 'POST', te: 'trailers' }, 'ping'));
  console.log([...new Set(all)].join('|'), session.alpnProtocol);
  session.close();
})();
"#;
    node.args(["-e", script, &house.url(""), &house.authority()]);
    assert_eq!(run(&mut node), "200 hello |200 ping 0 h2");
}

#[test]
fn python_asks_over_tls_and_by_a_proxy_over_tls() {
    let house = House::start();
    house.put("/hello", "hello");
    let Some(mut python) = client("python3") else {
        return;
    };
    let script = r#"
import http.client, ssl, sys, urllib.parse
base, forward, origin, ca = sys.argv[1:]
trust = ssl.create_default_context(cafile=ca)
def port(url): return urllib.parse.urlsplit(url).port
one = http.client.HTTPSConnection('localhost', port(base), context=trust)
for _ in range(3):
    one.request('GET', '/hello')
    answer = one.getresponse()
    assert (answer.status, answer.read()) == (200, b'hello')
by = http.client.HTTPSConnection('localhost', port(forward), context=trust)
by.request('GET', origin + '/hello')
assert by.getresponse().read() == b'hello'
print('done')
"#;
    let words = [
        &house.url(""),
        &house.forward(),
        &house.at_origin(""),
        &house.authority(),
    ];
    python.args(["-c", script]).args(words);
    assert_eq!(run(&mut python), "done");
}

#[test]
fn httpx_asks_over_http2_and_by_a_proxy_over_tls() {
    let house = House::start();
    house.put("/hello", "hello");
    house.put("/large", pattern(1 << 20));
    let Some(mut python) = client("python3").filter(|_| has("h2, httpx", "httpx[http2]")) else {
        return;
    };
    let script = r#"
import asyncio, httpx, ssl, sys
base, forward, origin, ca = sys.argv[1:]
trust = ssl.create_default_context(cafile=ca)
with httpx.Client(http2=True, verify=trust, trust_env=False) as client:
    for _ in range(3):
        answer = client.get(base + '/hello')
        assert (answer.http_version, answer.text) == ('HTTP/2', 'hello'), answer
    assert client.post(base + '/echo', content=b'ping').content == b'ping'
async def many():
    async with httpx.AsyncClient(http2=True, verify=trust, trust_env=False, timeout=60) as client:
        answers = await asyncio.gather(*(client.get(base + '/large') for _ in range(30)))
        assert {(len(one.content), one.http_version) for one in answers} == {(1 << 20, 'HTTP/2')}
asyncio.run(many())
# Older ones cannot be told whom to trust as a proxy.
if 'proxy' in httpx.Client.__init__.__kwdefaults__:
    with httpx.Client(proxy=httpx.Proxy(forward, ssl_context=trust), trust_env=False) as client:
        assert client.get(origin + '/hello').text == 'hello'
print('done')
"#;
    let words = [
        &house.url(""),
        &house.forward(),
        &house.at_origin(""),
        &house.authority(),
    ];
    python.args(["-c", script]).args(words);
    assert_eq!(run(&mut python), "done");
}

#[test]
fn nghttp_asks_for_many_at_a_time() {
    let house = House::start();
    house.put("/hello", "hello");
    house.put("/large", pattern(1 << 20));
    let nghttp = |words: &[&str]| {
        let mut nghttp = client("nghttp")?;
        Some(run(nghttp.arg("--no-verify-peer").args(words)))
    };
    let (hello, large) = (house.url("/hello"), house.url("/large"));
    let Some(said) = nghttp(&[&hello]) else {
        return;
    };
    assert_eq!(said, "hello");
    let posted = house.authority.path("posted");
    fs::write(&posted, pattern(100_000)).unwrap();
    let data = format!("--data={}", posted.display());
    let echoed = nghttp(&[&data, &house.url("/echo")]).unwrap();
    assert_eq!(
        echoed.len(),
        String::from_utf8_lossy(&pattern(100_000)).trim().len()
    );
    let told = nghttp(&["-n", "--stat", "--multiply=20", &hello, &large]).unwrap();
    let ending = |path: &str| {
        let lines = told.lines().filter(|line| line.ends_with(path));
        lines.filter(|line| line.contains(" 200 ")).count()
    };
    assert_eq!((ending("/hello"), ending("/large")), (20, 20), "{told}");
    // A small window, and priorities.
    let small = ["-n", "--stat", "-w", "10", "-W", "12", "-m", "5", &large];
    let told = nghttp(&small).unwrap();
    assert_eq!(told.matches(" 200 ").count(), 5, "{told}");
}

#[test]
fn h2load_gets_all_of_a_burst_right() {
    const REQUESTS: usize = 4000;
    let house = House::start();
    house.put("/hello", "hello");
    house.put("/large", pattern(100_000));
    for (path, requests, bytes) in [("/hello", REQUESTS, 5), ("/large", REQUESTS / 10, 100_000)] {
        let Some(mut h2load) = client("h2load") else {
            return;
        };
        h2load.args(["-c", "4", "-m", "100", "-n", &requests.to_string()]);
        let said = run(h2load.arg(house.url(path)));
        for line in [
            &format!("{requests} succeeded, 0 failed, 0 errored, 0 timeout"),
            &format!("status codes: {requests} 2xx, 0 3xx, 0 4xx, 0 5xx"),
            &format!("({}) data", requests * bytes),
        ] {
            assert!(said.contains(line), "{line}: {said}");
        }
        assert_eq!(house.origin.count(path), 1);
    }
}

#[test]
fn chromium_draws_a_page_over_http2_also_by_a_proxy_over_tls() {
    let house = House::start();
    let page = "<!DOCTYPE html><body><script>
fetch('/hello').then(answer => answer.text()).then(text => {
  const all = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
  document.body.textContent = 'got ' + text + ' by ' + all.map(one => one.nextHopProtocol).join(' ');
});
</script>";
    house.put("/page.html", page);
    house.put("/hello", "hello");
    let proxy = format!("--proxy-server={}", house.forward());
    for (url, more, by) in [
        (house.url("/page.html"), &[][..], "got hello by h2 h2"),
        (
            house.at_origin("/page.html"),
            &[&proxy[..], "--proxy-bypass-list=<-loopback>"],
            "got hello by h2 h2",
        ),
    ] {
        let Some(mut chromium) = client("chromium") else {
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        chromium.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ]);
        chromium.args([
            "--ignore-certificate-errors",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ]);
        chromium.arg(format!("--user-data-dir={}", dir.path().display()));
        let drawn = run(chromium.args(more).arg(&url));
        assert!(drawn.contains(by), "{drawn}");
    }
}
