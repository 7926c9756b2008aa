//! Honest clients beside the attacks of `http2_attacked`: what they do runs into no limit of HTTP/2.
//!
//! Each client uploads in small pieces, is refused in the middle of that, asks for 300 things at once, sends many cookies, reads slowly,
//! gives up, keeps a stream for long, and has a tunnel with small writes, as far as it can. Its program is in the folder `honest`, and
//! says each step that has passed. Afterwards no fault was counted. (Go's client opens further connections when one has all its streams.)

use std::process::Stdio;

use super::*;

/// Of `/large`.
const LARGE_BYTES: usize = 4 << 20;

fn house() -> House {
    let gate = Gate::new();
    House::answering(move |exchange| {
        let path = exchange.path().split('?').next().unwrap_or_default();
        let no_store = "Cache-Control: no-store";
        match path {
            "/up" => {
                let (body, _) = exchange.body();
                exchange.send(ok(&[no_store], body.len().to_string()));
            }
            "/refused" => {
                let fields = [no_store, "Connection: close"];
                exchange.send(answer("403 Forbidden", &fields, "no"));
                exchange.close();
                // What is on its way is read, or the reset of the connection would take the answer along.
                let _ = io::copy(&mut exchange.wire.stream(), &mut io::sink());
            }
            "/small" => exchange.send(ok(&[FRESH], "hello")),
            "/large" => exchange.send(ok(&[FRESH], pattern(LARGE_BYTES))),
            "/cookies" => {
                let cookies = exchange.field("cookie").unwrap_or_default();
                let count = cookies.split("; ").filter(|cookie| cookie.contains('='));
                exchange.send(ok(&[no_store], count.count().to_string()));
            }
            "/page" => exchange.send(ok(&["Content-Type: text/html", FRESH], PAGE)),
            "/long" => {
                exchange.send(head("200 OK", &[no_store, "Transfer-Encoding: chunked"]));
                exchange.send(chunk("0"));
                gate.pass();
                (0..100).for_each(|_| exchange.send(chunk("0123456789")));
                exchange.send(chunk(""));
            }
            "/open" => {
                gate.open();
                exchange.send(ok(&[no_store], "opened"));
            }
            _ => exchange.send(answer("404 Not Found", &[no_store], "")),
        }
    })
}

/// Nothing was counted against a client.
fn assert_in_peace(house: &House) {
    let metrics = house.proxy.admin("GET", "/metrics");
    let lines = metrics.text().lines();
    let faults = lines.filter(|line| line.starts_with("loligo_h2_faults_total"));
    let met: Vec<&str> = faults.filter(|line| !line.ends_with(" 0")).collect();
    assert_eq!(met, [""; 0]);
    eventually("it is counted", || {
        (house.proxy.counter("h2_connections") > 0).then_some(())
    });
    assert_eq!(house.proxy.counter("h2_streams_refused"), 0);
}

/// Runs a client with the words that all of them take; it says these steps.
fn play(house: &House, mut client: Command, steps: &[&str]) {
    client.args([house.url(""), house.forward(), house.authority()]);
    assert_eq!(run(&mut client).lines().collect::<Vec<_>>(), steps);
}

#[test]
fn go_in_peace() {
    let Some(mut go) = client("go") else { return };
    let house = house();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("main.go");
    fs::write(&source, include_str!("honest/honest.go")).unwrap();
    go.arg("run").arg(&source).current_dir(dir.path());
    go.envs([
        ("GOPROXY", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOFLAGS", ""),
    ]);
    let steps = [
        "pieces",
        "refused",
        "300 at once",
        "cookies",
        "slow reader",
        "given up",
        "long stream",
        "tunnel",
    ];
    play(&house, go, &steps);
    assert_in_peace(&house);
}

#[test]
fn node_in_peace() {
    let Some(mut node) = client("node") else {
        return;
    };
    let house = house();
    node.args(["-e", include_str!("honest/honest.js")]);
    let steps = [
        "pieces",
        "refused",
        "300 at once",
        "cookies",
        "slow reader",
        "given up",
        "long stream",
        "tunnel",
    ];
    play(&house, node, &steps);
    assert_in_peace(&house);
}

#[test]
fn httpx_in_peace() {
    let Some(mut python) = client("python3").filter(|_| has("h2, httpx", "httpx[http2]")) else {
        return;
    };
    let house = house();
    python.args(["-c", include_str!("honest/honest.py")]);
    let steps = [
        "pieces",
        "refused",
        "cookies",
        "slow reader",
        "long stream",
        "300 at once",
    ];
    play(&house, python, &steps);
    assert_in_peace(&house);
}

#[test]
fn java_in_peace() {
    let Some(mut java) = client("java") else {
        return;
    };
    let house = house();
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("Honest.java");
    fs::write(&source, include_str!("honest/Honest.java")).unwrap();
    // It runs for too short a time to be worth compiling well.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        .arg(source);
    let steps = [
        "pieces",
        "300 at once",
        "cookies",
        "slow reader",
        "long stream",
    ];
    play(&house, java, &steps);
    assert_in_peace(&house);
}

fn cookies() -> String {
    let cookies = (0..115).map(|n| format!("name{n}={}", "v".repeat(60)));
    cookies.collect::<Vec<_>>().join("; ")
}

#[test]
fn curl_in_peace() {
    let house = house();
    let curl = |words: &[&str]| {
        let mut curl = client("curl")?;
        curl.args(["-sS", "--http2", "--cacert", &house.authority()]);
        curl.args(words);
        Some(curl)
    };
    let Some(mut upload) = curl(&["-T", ".", "-X", "POST", &house.url("/up")]) else {
        return;
    };
    // From a pipe, what is there at a time.
    let mut upload = upload
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = upload.stdin.take().unwrap();
    (0..2000).for_each(|_| pipe.write_all(&[b'x'; 50]).unwrap());
    drop(pipe);
    let output = upload.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100000");
    let of = |words: &[&str]| run(&mut curl(words).unwrap());
    let cookie = format!("Cookie: {}", cookies());
    assert_eq!(of(&["-H", &cookie, &house.url("/cookies")]), "115");
    let size = "%{size_download}";
    let large = house.url("/large");
    let slow = ["--limit-rate", "4M", "-o", "/dev/null", "-w", size, &large];
    assert_eq!(of(&slow), LARGE_BYTES.to_string());
    let many = house.url("/small?[1-300]");
    let all = of(&["-Z", "--parallel-max", "300", &many]);
    assert_eq!(all, "hello".repeat(300));
    assert_in_peace(&house);
}

#[test]
fn nghttp_in_peace() {
    let house = house();
    let Some(mut nghttp) = client("nghttp") else {
        return;
    };
    // Windows of 255 bytes, and 300 requests at once.
    let mut narrow = client("nghttp").unwrap();
    narrow.args(["-n", "-w", "8", &house.url("/large")]);
    run(&mut narrow);
    nghttp.args(["-n", "-m", "300", "-H", &format!("cookie: {}", cookies())]);
    nghttp.arg(house.url("/small"));
    run(&mut nghttp);
    assert_in_peace(&house);
    if let Some(mut load) = client("h2load") {
        load.args(["-n", "3000", "-c", "1", "-m", "300", &house.url("/small")]);
        let said = run(&mut load);
        assert!(said.contains("3000 succeeded, 0 failed"), "{said}");
        assert_in_peace(&house);
    }
}

/// What the page did is told to the origin in the end: cookies, many at once, a slow reader, and an upload in small pieces where the browser has that.
const PAGE: &str = r#"<!doctype html><script>
for (let n = 0; n < 115; n++) document.cookie = 'name' + n + '=' + 'v'.repeat(60) + '; path=/';
const text = (path, how) => fetch(path, how).then(answer => answer.ok ? answer.text() : Promise.reject(path + ' ' + answer.status));
(async () => {
  const said = [await text('/cookies')];
  const all = await Promise.all(Array.from({ length: 300 }, (_, n) => text('/small?' + n)));
  said.push(all.filter(one => one === 'hello').length);
  const reader = (await fetch('/large')).body.getReader();
  let total = 0;
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) total += piece.value.length;
  said.push(total);
  let left = 1000;
  const body = new ReadableStream({ pull(to) { left-- ? to.enqueue(new Uint8Array(50)) : to.close(); } });
  said.push(await text('/up', { method: 'POST', body, duplex: 'half' }));
  return said.join(' ');
})().catch(why => 'failed: ' + why).then(said => fetch('/said?' + said.replaceAll(' ', '+')));
</script>"#;

#[test]
fn chromium_in_peace() {
    let Some(mut chromium) = client("chromium") else {
        return;
    };
    let house = house();
    let dir = tempfile::tempdir().unwrap();
    let profile = format!("--user-data-dir={}", dir.path().display());
    chromium.env("HOME", dir.path());
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
        "--ignore-certificate-errors",
        &profile,
        &house.url("/page"),
    ]);
    chromium.stdout(Stdio::null()).stderr(Stdio::null());
    let mut browser = chromium.spawn().unwrap();
    let said = eventually("the page is through", || {
        let requests = house.origin.requests();
        let mut targets = requests.iter().map(|request| &request.target);
        targets.find_map(|target| Some(target.strip_prefix("/said?")?.to_owned()))
    });
    // `timeout` passes the signal on.
    let kill = Command::new("kill").arg(browser.id().to_string()).status();
    assert!(kill.unwrap().success());
    browser.wait().unwrap();
    assert_eq!(said, format!("115+300+{LARGE_BYTES}+50000"));
    assert_in_peace(&house);
    eventually("it is counted", || {
        (house.proxy.counter("h2_streams") >= 303).then_some(())
    });
}
