//! Presets of mirrors with real clients, against small origins: immutable files come from the origin once.
//!
//! If a client is not installed, its test says so and passes. Python makes the archives.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

/// Content type and body, by path.
type Files = BTreeMap<String, (&'static str, Vec<u8>)>;

/// Serves files, and counts how often each was asked for. Its thread ends with the test.
struct Origin {
    address: SocketAddr,
    files: Arc<Mutex<Files>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Origin {
            address: listener.local_addr().unwrap(),
            files: Arc::default(),
            asked: Arc::default(),
        };
        let (files, asked) = (Arc::clone(&origin.files), Arc::clone(&origin.asked));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (files, asked) = (Arc::clone(&files), Arc::clone(&asked));
                thread::spawn(move || answer(stream.unwrap(), &files, &asked));
            }
        });
        origin
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn put(&self, path: &str, kind: &'static str, body: impl Into<Vec<u8>>) {
        let mut files = self.files.lock().unwrap();
        files.insert(path.to_owned(), (kind, body.into()));
    }

    fn count(&self, path: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| *asked == path).count()
    }
}

/// One request a connection.
fn answer(mut stream: TcpStream, files: &Mutex<Files>, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else {
        return;
    };
    let end = lines.find(|line| line.as_ref().is_ok_and(String::is_empty));
    if end.is_none() {
        return;
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(path.clone());
    let found = files.lock().unwrap().get(&path).cloned();
    let (status, (kind, body)) = match found {
        Some(found) => ("200 OK", found),
        None => ("404 Not Found", ("text/plain", Vec::new())),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    if !first.starts_with("HEAD") {
        let _ = stream.write_all(&body);
    }
}

/// A mirror with one preset.
struct Mirror {
    child: Child,
    url: String,
    _dir: TempDir,
}

impl Mirror {
    fn start(preset: &str, upstream: &[String]) -> Mirror {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("loligo.toml");
        let text = format!(
            "workers = 1\nstore.path = \"none\"\n[[listener]]\naddress = \"{address}\"\npreset = \"{preset}\"\nupstream = {upstream:?}\npublic = \"http://{address}\"\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["serve", "--admin", "127.0.0.1:0", "-c"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready, ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
        }
        thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        Mirror {
            child,
            url: format!("http://{address}"),
            _dir: dir,
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is this client installed? If not, prints a line.
fn is_here(client: &str, ask: &str) -> bool {
    let output = Command::new(client).arg(ask).output();
    let is_here = output.is_ok_and(|output| output.status.success());
    if !is_here {
        eprintln!("SKIPPED: {client} is not installed");
    }
    is_here
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An archive of files, made by Python; its bytes.
fn archive(kind: &str, files: &[(&str, &str)]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let script = "
import io, sys, tarfile, zipfile
kind, path, *rest = sys.argv[1:]
files = list(zip(rest[::2], rest[1::2]))
if kind == 'zip':
    with zipfile.ZipFile(path, 'w') as out:
        for name, text in files: out.writestr(name, text)
else:
    with tarfile.open(path, 'w:gz') as out:
        for name, text in files:
            info = tarfile.TarInfo(name); info.size = len(text)
            out.addfile(info, io.BytesIO(text.encode()))
";
    let mut command = Command::new("python3");
    command.args(["-c", script, kind]).arg(&path);
    for (name, text) in files {
        command.args([name, text]);
    }
    run(&mut command);
    std::fs::read(path).unwrap()
}

fn sha256(body: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("body");
    std::fs::write(&path, body).unwrap();
    let script =
        "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";
    run(Command::new("python3").args(["-c", script]).arg(path))
}

/// Runs a client twice, each time in a new folder, so that it has no files of its own.
fn anew(mut play: impl FnMut(&Path)) {
    for _ in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        play(dir.path());
    }
}

#[test]
fn pip_gets_a_wheel_twice_and_the_origin_gives_it_once() {
    if !is_here("python3", "--version") {
        return;
    }
    if !Command::new("python3")
        .args(["-m", "pip", "--version"])
        .output()
        .unwrap()
        .status
        .success()
    {
        return eprintln!("SKIPPED: pip is not installed");
    }
    let (index, files) = (Origin::start(), Origin::start());
    let wheel = archive(
        "zip",
        &[
            ("demo/__init__.py", "x = 1\n"),
            (
                "demo-1.0.dist-info/METADATA",
                "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
            ),
            (
                "demo-1.0.dist-info/WHEEL",
                "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            ),
            ("demo-1.0.dist-info/RECORD", ""),
        ],
    );
    let name = "demo-1.0-py3-none-any.whl";
    let (url, digest) = (files.url(), sha256(&wheel));
    let page =
        format!("<!DOCTYPE html><a href=\"{url}/packages/{name}#sha256={digest}\">{name}</a>");
    index.put("/simple/demo/", "text/html", page);
    files.put(
        &format!("/packages/{name}"),
        "application/octet-stream",
        wheel,
    );
    let mirror = Mirror::start("pypi", &[index.url(), files.url()]);
    anew(|dir| {
        run(Command::new("python3")
            .args([
                "-m",
                "pip",
                "--isolated",
                "download",
                "--no-deps",
                "--no-cache-dir",
            ])
            .args([
                "--disable-pip-version-check",
                "--index-url",
                &format!("{}/simple/", mirror.url),
            ])
            .arg("-d")
            .arg(dir)
            .arg("demo"));
        assert!(dir.join(name).exists());
    });
    let asked = (
        index.count("/simple/demo/"),
        files.count(&format!("/packages/{name}")),
    );
    assert_eq!(asked, (1, 1));
}

#[test]
fn go_gets_a_module_twice_and_the_origin_gives_it_once() {
    if !is_here("go", "version") || !is_here("python3", "--version") {
        return;
    }
    let origin = Origin::start();
    let (base, text) = (
        "/example.org/demo/@v",
        "module example.org/demo\n\ngo 1.16\n",
    );
    let zip = archive(
        "zip",
        &[
            ("example.org/demo@v1.0.0/go.mod", text),
            ("example.org/demo@v1.0.0/demo.go", "package demo\n"),
        ],
    );
    origin.put(&format!("{base}/list"), "text/plain", "v1.0.0\n");
    let info = "{\"Version\":\"v1.0.0\",\"Time\":\"2020-01-01T00:00:00Z\"}";
    origin.put(&format!("{base}/v1.0.0.info"), "application/json", info);
    origin.put(&format!("{base}/v1.0.0.mod"), "text/plain", text);
    origin.put(&format!("{base}/v1.0.0.zip"), "application/zip", zip);
    let mirror = Mirror::start("go", &[origin.url()]);
    anew(|dir| {
        std::fs::write(dir.join("go.mod"), "module example.org/user\n").unwrap();
        run(Command::new("go")
            .args(["mod", "download", "example.org/demo@v1.0.0"])
            .current_dir(dir)
            .envs([
                ("GOPROXY", mirror.url.as_str()),
                ("GOSUMDB", "off"),
                ("GOTOOLCHAIN", "local"),
            ])
            .env("GOFLAGS", "-modcacherw -mod=mod")
            .env("GOPATH", dir.join("go"))
            .env("GOMODCACHE", dir.join("modules")));
        assert!(dir.join("modules/example.org/demo@v1.0.0/demo.go").exists());
    });
    for end in ["info", "mod", "zip"] {
        assert_eq!(origin.count(&format!("{base}/v1.0.0.{end}")), 1, "{end}");
    }
}

#[test]
fn cargo_gets_a_crate_twice_and_the_origin_gives_it_once() {
    if !is_here("cargo", "--version") || !is_here("python3", "--version") {
        return;
    }
    let (index, crates) = (Origin::start(), Origin::start());
    let manifest = "[package]\nname = \"demo\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let body = archive(
        "tar.gz",
        &[
            ("demo-1.0.0/Cargo.toml", manifest),
            ("demo-1.0.0/src/lib.rs", ""),
        ],
    );
    let line = format!(
        "{{\"name\":\"demo\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{}\",\"features\":{{}},\"yanked\":false}}\n",
        sha256(&body)
    );
    let config = format!("{{\"dl\": \"{}/crates\"}}", crates.url());
    index.put("/config.json", "application/json", config);
    index.put("/de/mo/demo", "text/plain", line);
    crates.put("/crates/demo/1.0.0/download", "application/x-tar", body);
    let mirror = Mirror::start("cargo", &[index.url(), format!("{}/crates", crates.url())]);
    anew(|dir| {
        let write = |path: &str, text: &str| {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("src/lib.rs", "");
        write(
            "Cargo.toml",
            "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ndemo = \"1\"\n[workspace]\n",
        );
        write(
            "home/config.toml",
            &format!(
                "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+{}/\"\n",
                mirror.url
            ),
        );
        run(Command::new("cargo")
            .arg("fetch")
            .current_dir(dir)
            .env("CARGO_HOME", dir.join("home"))
            .env_remove("CARGO_TARGET_DIR"));
    });
    let asked = (index.count("/config.json"), index.count("/de/mo/demo"));
    assert_eq!(asked, (1, 1));
    assert_eq!(crates.count("/crates/demo/1.0.0/download"), 1);
}

#[test]
fn npm_gets_a_package_twice_and_the_origin_gives_it_once() {
    if !is_here("npm", "--version") || !is_here("python3", "--version") {
        return;
    }
    let origin = Origin::start();
    let manifest = "{\"name\":\"demo\",\"version\":\"1.0.0\"}";
    let tarball = archive("tar.gz", &[("package/package.json", manifest)]);
    let metadata = format!(
        "{{\"name\":\"demo\",\"dist-tags\":{{\"latest\":\"1.0.0\"}},\"versions\":{{\"1.0.0\":{{\"name\":\"demo\",\"version\":\"1.0.0\",\"dist\":{{\"tarball\":\"{}/demo/-/demo-1.0.0.tgz\"}}}}}}}}",
        origin.url()
    );
    origin.put("/demo", "application/vnd.npm.install-v1+json", metadata);
    origin.put(
        "/demo/-/demo-1.0.0.tgz",
        "application/octet-stream",
        tarball,
    );
    let mirror = Mirror::start("npm", &[origin.url()]);
    anew(|dir| {
        std::fs::write(
            dir.join("package.json"),
            "{\"name\":\"user\",\"version\":\"1.0.0\"}",
        )
        .unwrap();
        run(Command::new("npm")
            .args([
                "install",
                "demo@1.0.0",
                "--no-audit",
                "--no-fund",
                "--no-update-notifier",
            ])
            .args(["--registry", &format!("{}/", mirror.url), "--cache"])
            .arg(dir.join("cache"))
            .current_dir(dir));
        assert!(dir.join("node_modules/demo/package.json").exists());
    });
    assert_eq!(
        (
            origin.count("/demo"),
            origin.count("/demo/-/demo-1.0.0.tgz")
        ),
        (1, 1)
    );
}

#[test]
fn apt_gets_lists_and_a_package_twice_and_the_origin_gives_it_once() {
    if !is_here("apt-get", "--version") || !is_here("python3", "--version") {
        return;
    }
    let origin = Origin::start();
    let package = b"not really a package".to_vec();
    let packages = format!(
        "Package: demo\nVersion: 1.0\nArchitecture: amd64\nMaintainer: x <x@example.org>\nFilename: pool/demo_1.0_amd64.deb\nSize: {}\nSHA256: {}\nDescription: x\n\n",
        package.len(),
        sha256(&package)
    );
    let release = format!(
        "Origin: x\nSuite: stable\nCodename: stable\nDate: Wed, 01 Jan 2020 00:00:00 UTC\nArchitectures: amd64\nComponents: main\nSHA256:\n {} {} main/binary-amd64/Packages\n",
        sha256(packages.as_bytes()),
        packages.len()
    );
    origin.put("/debian/dists/stable/Release", "text/plain", release);
    origin.put(
        "/debian/dists/stable/main/binary-amd64/Packages",
        "text/plain",
        packages,
    );
    origin.put(
        "/debian/pool/demo_1.0_amd64.deb",
        "application/octet-stream",
        package,
    );
    let mirror = Mirror::start("apt", &[origin.url()]);
    anew(|dir| {
        for part in [
            "etc/apt.conf.d",
            "etc/preferences.d",
            "etc/sources.list.d",
            "state/lists/partial",
            "cache/archives/partial",
        ] {
            std::fs::create_dir_all(dir.join(part)).unwrap();
        }
        std::fs::write(dir.join("status"), "").unwrap();
        let source = format!(
            "deb [trusted=yes arch=amd64] {}/debian stable main\n",
            mirror.url
        );
        std::fs::write(dir.join("etc/sources.list"), source).unwrap();
        let options = [
            format!("Dir::Etc={}", dir.join("etc").display()),
            format!("Dir::State={}", dir.join("state").display()),
            format!("Dir::State::status={}", dir.join("status").display()),
            format!("Dir::Cache={}", dir.join("cache").display()),
            "APT::Architecture=amd64".to_owned(),
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::http::Proxy=DIRECT".to_owned(),
        ];
        let apt = |words: &[&str]| {
            let mut command = Command::new("apt-get");
            for option in &options {
                command.args(["-o", option]);
            }
            run(command.args(words).current_dir(dir));
        };
        apt(&["update"]);
        apt(&["download", "demo"]);
        assert!(dir.join("demo_1.0_amd64.deb").exists());
    });
    assert_eq!(origin.count("/debian/dists/stable/Release"), 1);
    assert_eq!(origin.count("/debian/pool/demo_1.0_amd64.deb"), 1);
}
