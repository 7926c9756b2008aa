//! Package managers, and git: over HTTP/2, and by a forward proxy that is asked over TLS.

use std::{fs, path::Path};

use super::*;

#[test]
fn git_clones_over_http2_and_by_a_proxy_over_tls() {
    let house = House::start();
    let dir = tempfile::tempdir().unwrap();
    let git = |words: &[&str]| {
        let mut git = client("git")?;
        let who = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@a.example",
            "-c",
            "init.defaultBranch=main",
        ];
        git.args(who).args(words).current_dir(dir.path());
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", dir.path());
        Some(run(&mut git))
    };
    if git(&["init", "-q", "work"]).is_none() {
        return;
    }
    fs::write(dir.path().join("work/file"), pattern(300_000)).unwrap();
    git(&["-C", "work", "add", "file"]);
    git(&["-C", "work", "commit", "-qm", "one"]);
    git(&["clone", "-q", "--bare", "work", "bare.git"]);
    git(&["-C", "bare.git", "update-server-info"]);
    publish(&house, &dir.path().join("bare.git"), "/bare.git");
    let authority = house.authority();
    let trust = [
        "-c",
        &format!("http.sslCAInfo={authority}")[..],
        "-c",
        "http.version=HTTP/2",
    ];
    let by = [
        format!("http.proxy={}", house.forward()),
        format!("http.proxySSLCAInfo={authority}"),
    ];
    let proxied = ["-c", &by[0][..], "-c", &by[1][..]];
    let streams = house.proxy.counter("h2_streams");
    git(&[
        &trust[..],
        &["clone", "-q", &house.url("/bare.git"), "direct"],
    ]
    .concat());
    assert!(
        house.proxy.counter("h2_streams") > streams,
        "it spoke HTTP/2"
    );
    let url = house.at_origin("/bare.git");
    git(&[&proxied[..], &["clone", "-q", &url, "proxied"]].concat());
    for cloned in ["direct", "proxied"] {
        let file = fs::read(dir.path().join(cloned).join("file")).unwrap();
        assert_same(&file, &pattern(300_000));
    }
}

/// The files of a folder, under this path.
fn publish(house: &House, dir: &Path, path: &str) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = format!("{path}/{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => publish(house, &entry.path(), &path),
            false => house.put(&path, fs::read(entry.path()).unwrap()),
        }
    }
}

/// Made by Python: an archive with one small package for each client, and the digest of it.
fn package(kind: &str, files: &[(&str, &str)]) -> Option<(Vec<u8>, String)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let script = "
import hashlib, io, sys, tarfile, zipfile
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
print(hashlib.sha256(open(path, 'rb').read()).hexdigest())
";
    let mut python = client("python3")?;
    python.args(["-c", script, kind]).arg(&path);
    for (name, text) in files {
        python.args([name, text]);
    }
    let digest = run(&mut python);
    Some((fs::read(path).unwrap(), digest))
}

#[test]
fn pip_gets_a_wheel_over_tls_and_by_a_proxy_over_tls() {
    let house = House::start();
    let wheel = package(
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
    let (Some((wheel, digest)), Some(_)) = (wheel, client("pip")) else {
        return;
    };
    let name = "demo-1.0-py3-none-any.whl";
    let page = format!("<!DOCTYPE html><a href=\"/files/{name}#sha256={digest}\">{name}</a>");
    house.put("/simple/demo/", page);
    house.put(&format!("/files/{name}"), wheel);
    let (authority, forward) = (house.authority(), house.forward());
    for (index, more) in [
        (house.url("/simple/"), &[][..]),
        (house.at_origin("/simple/"), &["--proxy", &forward]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut pip = client("pip").unwrap();
        pip.args(["--isolated", "download", "--no-deps", "--no-cache-dir"]);
        pip.args(["--disable-pip-version-check", "--cert", &authority]);
        pip.args(["--index-url", &index]).args(more);
        run(pip.arg("-d").arg(dir.path()).arg("demo"));
        assert!(dir.path().join(name).exists());
    }
    // The proxy had asked for it on behalf of the other listener, under another URL.
    assert!(house.origin.count(&format!("/files/{name}")) <= 2);
}

#[test]
fn npm_gets_a_package_over_tls_and_by_a_proxy_over_tls() {
    let house = House::start();
    let manifest = "{\"name\":\"demo\",\"version\":\"1.0.0\"}";
    let tarball = package("tar.gz", &[("package/package.json", manifest)]);
    let (Some((tarball, _)), Some(_)) = (tarball, client("npm")) else {
        return;
    };
    house.put("/demo/-/demo-1.0.0.tgz", tarball);
    for (base, forward) in [
        (house.url(""), None),
        (house.at_origin("/by"), Some(house.forward())),
    ] {
        let tarball = match &forward {
            None => house.url("/demo/-/demo-1.0.0.tgz"),
            Some(_) => house.at_origin("/demo/-/demo-1.0.0.tgz"),
        };
        let metadata = format!(
            "{{\"name\":\"demo\",\"dist-tags\":{{\"latest\":\"1.0.0\"}},\"versions\":{{\"1.0.0\":{{\"name\":\"demo\",\"version\":\"1.0.0\",\"dist\":{{\"tarball\":\"{tarball}\"}}}}}}}}"
        );
        let path = if forward.is_some() {
            "/by/demo"
        } else {
            "/demo"
        };
        house.put(path, metadata);
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("package.json"),
            "{\"name\":\"user\",\"version\":\"1.0.0\"}",
        )
        .unwrap();
        let mut npm = client("npm").unwrap();
        npm.args([
            "install",
            "demo@1.0.0",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
        ]);
        npm.args([
            "--registry",
            &format!("{base}/"),
            "--cafile",
            &house.authority(),
            "--cache",
        ]);
        npm.arg(dir.path().join("cache")).current_dir(dir.path());
        if let Some(forward) = &forward {
            npm.args(["--proxy", forward, "--noproxy", ""]);
            npm.env("NODE_EXTRA_CA_CERTS", house.authority());
        }
        run(&mut npm);
        assert!(dir.path().join("node_modules/demo/package.json").exists());
    }
}

#[test]
fn cargo_gets_a_crate_over_tls_and_by_a_proxy_over_tls() {
    let house = House::start();
    let manifest = "[package]\nname = \"demo\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    let files = [
        ("demo-1.0.0/Cargo.toml", manifest),
        ("demo-1.0.0/src/lib.rs", ""),
    ];
    let (Some((body, digest)), Some(_)) = (package("tar.gz", &files), client("cargo")) else {
        return;
    };
    let line = format!(
        "{{\"name\":\"demo\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{digest}\",\"features\":{{}},\"yanked\":false}}\n"
    );
    house.put("/crates/demo/1.0.0/download", body);
    for (base, proxy) in [
        (house.url("/index"), String::new()),
        (
            house.at_origin("/by"),
            format!("proxy = \"{}\"\n", house.forward()),
        ),
    ] {
        let (path, dl) = match proxy.is_empty() {
            true => ("/index", house.url("/crates")),
            false => ("/by", house.at_origin("/crates")),
        };
        house.put(
            &format!("{path}/config.json"),
            format!("{{\"dl\": \"{dl}\"}}"),
        );
        house.put(&format!("{path}/de/mo/demo"), line.clone());
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("src/lib.rs", "");
        write(
            "Cargo.toml",
            "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ndemo = \"1\"\n[workspace]\n",
        );
        let authority = house.authority();
        write(
            "home/config.toml",
            &format!(
                "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+{base}/\"\n[http]\ncainfo = \"{authority}\"\nproxy-cainfo = \"{authority}\"\n{proxy}"
            ),
        );
        let mut cargo = client("cargo").unwrap();
        cargo.arg("fetch").current_dir(dir.path());
        cargo
            .env("CARGO_HOME", dir.path().join("home"))
            .env_remove("CARGO_TARGET_DIR");
        run(cargo.env_remove("RUSTUP_TOOLCHAIN"));
    }
    assert!(
        house.proxy.counter("h2_streams") >= 3,
        "cargo speaks HTTP/2"
    );
}

#[test]
fn apt_gets_a_package_over_tls_and_by_a_proxy_over_tls() {
    let house = House::start();
    let text = b"not really a package".to_vec();
    let hash = |text: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("text"), text).unwrap();
        let mut sum = client("sha256sum")?;
        let said = run(sum.arg(dir.path().join("text")));
        Some(said.split(' ').next().unwrap_or_default().to_owned())
    };
    let (Some(digest), Some(_)) = (hash(&text), client("apt-get")) else {
        return;
    };
    let packages = format!(
        "Package: demo\nVersion: 1.0\nArchitecture: amd64\nMaintainer: x <x@example.org>\nFilename: pool/demo_1.0_amd64.deb\nSize: {}\nSHA256: {digest}\nDescription: x\n\n",
        text.len(),
    );
    let release = format!(
        "Origin: x\nSuite: stable\nCodename: stable\nDate: Wed, 01 Jan 2020 00:00:00 UTC\nArchitectures: amd64\nComponents: main\nSHA256:\n {} {} main/binary-amd64/Packages\n",
        hash(packages.as_bytes()).unwrap(),
        packages.len()
    );
    house.put("/debian/dists/stable/Release", release);
    house.put("/debian/dists/stable/main/binary-amd64/Packages", packages);
    house.put("/debian/pool/demo_1.0_amd64.deb", text);
    let forward = house.forward();
    for (base, proxy) in [(house.url(""), "DIRECT"), (house.at_origin(""), &forward)] {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for part in [
            "etc/apt.conf.d",
            "etc/preferences.d",
            "etc/sources.list.d",
            "state/lists/partial",
            "cache/archives/partial",
        ] {
            fs::create_dir_all(at(part)).unwrap();
        }
        fs::write(at("status"), "").unwrap();
        let source = format!("deb [trusted=yes arch=amd64] {base}/debian stable main\n");
        fs::write(at("etc/sources.list"), source).unwrap();
        let options = [
            format!("Dir::Etc={}", at("etc").display()),
            format!("Dir::State={}", at("state").display()),
            format!("Dir::State::status={}", at("status").display()),
            format!("Dir::Cache={}", at("cache").display()),
            "APT::Architecture=amd64".to_owned(),
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            format!("Acquire::http::Proxy={proxy}"),
            "Acquire::https::Proxy=DIRECT".to_owned(),
            format!("Acquire::https::CAInfo={}", house.authority()),
        ];
        for words in [&["update"][..], &["download", "demo"]] {
            let mut apt = client("apt-get").unwrap();
            for option in &options {
                apt.args(["-o", option]);
            }
            run(apt.args(words).current_dir(dir.path()));
        }
        assert!(at("demo_1.0_amd64.deb").exists());
    }
}
