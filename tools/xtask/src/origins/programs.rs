//! The origin programs: their requirements, their configuration and their start.
//!
//! Programs of [`Serves::Files`] serve the files below `files` of their run directory, and answer a POST to [`DIGEST`] with the SHA-256 of
//! its body. They close connections that are idle for [`KEPT`], and have one process or a few, as most origins behind a proxy have.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::grpc::{self, Calls};
use super::nghttpd::{self, Alone};
use super::object_store::{self, Store};
use crate::chance::Chance;
use crate::failure::{During, Failure, Result};
use crate::process::{CommandLine, Server, tail};
use crate::{interrupt, ports, procfs, workspace};

/// How long idle connections are kept.
pub const KEPT: Duration = Duration::from_secs(1);
/// The path that answers with the SHA-256 of a request's body.
pub const DIGEST: &str = "/digest";
/// How long a start may take.
const READY_MAX: Duration = Duration::from_secs(20);
/// The length of the small file.
const SMALL_BYTES: usize = 100_000;

/// A program.
pub struct Program {
    /// Its name on the command line.
    pub name: &'static str,
    /// The executables it needs, each with its possible names.
    needs: &'static [&'static [&'static str]],
    /// A Python module it needs, and the package that provides it.
    module: Option<[&'static str; 2]>,
    /// Writes its files, and returns how to start it.
    plan: fn(&Setup) -> Result<Started>,
}

/// All of them.
pub static ALL: [Program; 9] = [
    Program {
        name: "apache",
        needs: &[&["apache2"]],
        module: None,
        plan: apache,
    },
    Program {
        name: "gunicorn",
        needs: &[&["gunicorn"]],
        module: None,
        plan: gunicorn,
    },
    Program {
        name: "node",
        needs: &[&["node"]],
        module: None,
        plan: |setup| node(setup, By::Http1),
    },
    Program {
        name: "node-http2",
        needs: &[&["node"]],
        module: None,
        plan: |setup| node(setup, By::Http2),
    },
    Program {
        name: "php",
        needs: &[PHP, &["nginx"]],
        module: None,
        plan: php,
    },
    Program {
        name: "versitygw",
        needs: &[&["versitygw"]],
        module: None,
        plan: object_store::versitygw,
    },
    Program {
        name: "minio",
        needs: &[&["minio"]],
        module: None,
        plan: object_store::minio,
    },
    Program {
        name: "nghttpd",
        needs: &[&["nghttpd"], &["openssl"]],
        module: None,
        plan: nghttpd::plan,
    },
    Program {
        name: "grpcio",
        needs: &[&["python3"], &["openssl"]],
        module: Some(["grpc", "grpcio"]),
        plan: grpc::grpcio,
    },
];

const PHP: &[&str] = &[
    "php-fpm",
    "php-fpm8.4",
    "php-fpm8.3",
    "php-fpm8.2",
    "php-fpm8.1",
];

/// The address and directory of a program.
pub struct Setup {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its own directory, with `files` in it.
    pub run: PathBuf,
}

/// How it is started.
pub struct Started {
    /// Started one after the other; the last one listens.
    pub servers: Vec<CommandLine>,
    /// What it serves, which decides what is tried.
    pub serves: Serves,
}

/// What a program serves.
pub enum Serves {
    /// Files, and digests of request bodies.
    Files(By),
    /// Objects.
    Objects(Store),
    /// Files, and echoes of request bodies, by HTTP/2 alone.
    Http2Alone(Alone),
    /// Calls of gRPC.
    Calls(Calls),
}

/// The protocol that it speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 alone, without TLS.
    Http2,
}

/// A file that it serves.
pub struct Served {
    /// Its request target.
    pub target: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The files that it serves.
pub struct Files {
    /// The small one.
    pub small: Served,
    /// The large one.
    pub large: Served,
}

/// A program that runs. Dropping it stops it.
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    /// The files it serves.
    pub files: Files,
    /// What it serves, which decides what is tried.
    pub serves: Serves,
    servers: Vec<Server>,
}

impl Program {
    /// The requirement that is not installed, if there is one.
    pub fn lack(&self) -> Option<String> {
        let lacks = |names: &&&[&str]| !names.iter().any(|it| workspace::program(it).is_some());
        if let Some(missing) = self.needs.iter().find(lacks) {
            return Some(format!("{} is not installed", missing[0]));
        }
        let [module, package] = self.module?;
        let is_there = crate::block::tool("python3", &["-c", &format!("import {module}")]).is_ok();
        (!is_there).then(|| format!("the package {package} of Python is not installed"))
    }

    /// Starts it, and waits until it listens.
    pub fn start(&self, large_bytes: u64) -> Result<Origin> {
        let run = workspace::run_dir().join(format!("origins-{}", self.name));
        if run.exists() {
            fs::remove_dir_all(&run).during(|| format!("clearing {}", run.display()))?;
        }
        let folder = run.join("files");
        fs::create_dir_all(&folder).during(|| format!("making {}", folder.display()))?;
        let file = |name: &str, bytes: usize, seed: u64| {
            let mut chance = Chance::new(seed);
            let bytes: Vec<u8> = (0..bytes).map(|_| chance.below(256) as u8).collect();
            let path = folder.join(name);
            // A file that is days old is fresh for hours by heuristics, if the response states no lifetime.
            let days_ago = SystemTime::now() - Duration::from_secs(10 * 86_400);
            fs::write(&path, &bytes)
                .and_then(|()| fs::File::options().append(true).open(&path))
                .and_then(|file| file.set_modified(days_ago))
                .during(|| format!("writing {}", path.display()))?;
            Ok::<_, Failure>(Served {
                target: format!("/files/{name}"),
                bytes,
            })
        };
        let files = Files {
            small: file("small.bin", SMALL_BYTES, 1)?,
            large: file("large.bin", large_bytes as usize, 2)?,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?));
        let Started { servers, serves } = (self.plan)(&Setup {
            address,
            run: run.clone(),
        })?;
        let mut origin = Origin {
            address,
            files,
            serves,
            servers: Vec::new(),
        };
        let log = run.join("output.log");
        for command in &servers {
            origin.servers.push(command.spawn(&log)?);
        }
        origin.await_port(self.name, &log)?;
        Ok(origin)
    }
}

impl Origin {
    fn await_port(&mut self, name: &str, log: &Path) -> Result<()> {
        let (address, servers) = (self.address, &mut self.servers);
        let roots: Vec<u32> = servers.iter().map(|it| it.identity().pid).collect();
        let mut has_ended = false;
        let listens = interrupt::wait_until(READY_MAX, || {
            has_ended = servers.iter_mut().any(Server::has_ended);
            let answers = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
            has_ended || answers && procfs::listens(&roots, address.port())
        })?;
        match listens && !has_ended {
            true => Ok(()),
            false => Err(Failure::new(format!("{name} does not listen{}", tail(log)))),
        }
    }

    /// Stops it.
    pub fn stop(mut self) -> Result<()> {
        self.stop_now()
    }

    fn stop_now(&mut self) -> Result<()> {
        let mut first_failure = Ok(());
        while let Some(mut server) = self.servers.pop() {
            first_failure = first_failure.and(server.stop());
        }
        first_failure
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Err(failure) = self.stop_now() {
            eprintln!("stopping an origin: {failure}");
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).during(|| format!("writing {}", path.display()))
}

/// The path of the program with one of these names.
fn path_of(names: &[&str]) -> String {
    let found = names.iter().find_map(|name| workspace::program(name));
    found.map_or_else(|| names[0].to_owned(), |path| path.display().to_string())
}

/// The user that programs run as if they refuse to serve as root.
fn unprivileged() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("www-data")
}

/// Apache with prefork: a process for each connection. A CGI script answers with the digest.
fn apache(setup: &Setup) -> Result<Started> {
    let (run, script) = (setup.run.display(), setup.run.join("digest"));
    write(
        &script,
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\nCache-Control: no-store\\r\\n\\r\\n'\nprintf %s \"$(sha256sum | cut -d ' ' -f 1)\"\n",
    )?;
    crate::block::tool("chmod", &["755", &script.to_string_lossy()])?;
    let modules = ["mpm_prefork", "authz_core", "alias", "cgi"];
    let modules =
        modules.map(|it| format!("LoadModule {it}_module /usr/lib/apache2/modules/mod_{it}.so\n"));
    let user = unprivileged().map(|it| format!("User {it}\nGroup {it}\n"));
    let text = format!(
        "ServerRoot {run}
ServerName localhost
PidFile {run}/pid
ErrorLog {run}/error.log
{modules}{user}Listen {address}
KeepAlive On
KeepAliveTimeout {kept}
MaxKeepAliveRequests 0
StartServers 5
MaxRequestWorkers 150
DocumentRoot {run}
<Directory {run}>
  Require all granted
</Directory>
ScriptAlias /digest {script}
",
        modules = modules.concat(),
        user = user.unwrap_or_default(),
        address = setup.address,
        kept = KEPT.as_secs(),
        script = script.display(),
    );
    let conf = setup.run.join("apache.conf");
    write(&conf, &text)?;
    let args = ["-DFOREGROUND", "-f", &conf.to_string_lossy()].map(str::to_owned);
    Ok(Started {
        servers: vec![CommandLine::new("apache2", args)],
        serves: Serves::Files(By::Http1),
    })
}

/// gunicorn with threads in two processes; files are sent chunked, without a known length.
fn gunicorn(setup: &Setup) -> Result<Started> {
    write(
        &setup.run.join("app.py"),
        r#"import hashlib, os

HERE = os.path.dirname(os.path.abspath(__file__))

def app(environ, start):
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    if path == "/digest":
        digest = hashlib.sha256()
        for piece in iter(lambda: environ["wsgi.input"].read(65536), b""):
            digest.update(piece)
        body = digest.hexdigest().encode()
        start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")])
        return [body]
    name = os.path.join(HERE, "files", os.path.basename(path))
    if not path.startswith("/files/") or not os.path.isfile(name):
        start("404 Not Found", [("Content-Length", "0")])
        return []
    tag = '"%x"' % os.stat(name).st_mtime_ns
    fields = [("ETag", tag), ("Cache-Control", "max-age=60")]
    if environ.get("HTTP_IF_NONE_MATCH") == tag:
        start("304 Not Modified", fields)
        return []
    fields.append(("Content-Type", "application/octet-stream"))
    if os.path.getsize(name) < 1000000:
        fields.append(("Content-Length", str(os.path.getsize(name))))
    start("200 OK", fields)
    if method == "HEAD":
        return []
    def pieces():
        with open(name, "rb") as file:
            yield from iter(lambda: file.read(65536), b"")
    return pieces()
"#,
    )?;
    let args = [
        "--workers",
        "2",
        "--worker-class",
        "gthread",
        "--threads",
        "4",
        "--keep-alive",
        &KEPT.as_secs().to_string(),
        "--chdir",
        &setup.run.to_string_lossy(),
        "--bind",
        &setup.address.to_string(),
        "app:app",
    ];
    Ok(Started {
        servers: vec![CommandLine::new("gunicorn", args)],
        serves: Serves::Files(By::Http1),
    })
}

/// Node with one process and its event loop. With HTTP/2 it does not speak HTTP/1.1.
fn node(setup: &Setup, by: By) -> Result<Started> {
    let script = setup.run.join("server.js");
    let (address, kept_ms) = (setup.address, KEPT.as_millis());
    let (module, ends) = match by {
        By::Http1 => ("http", format!("server.keepAliveTimeout = {kept_ms};")),
        By::Http2 => (
            "http2",
            format!(
                "server.on(\"session\", (session) => session.setTimeout({kept_ms}, () => session.close()));"
            ),
        ),
    };
    let text = format!(
        r#"const http = require("{module}"), fs = require("fs"), path = require("path"), crypto = require("crypto");
const server = http.createServer((request, response) => {{
  if (request.url === "/digest") {{
    const digest = crypto.createHash("sha256");
    request.on("data", (piece) => digest.update(piece));
    request.on("end", () => {{
      response.setHeader("Cache-Control", "no-store");
      response.end(digest.digest("hex"));
    }});
    return;
  }}
  const file = path.join(__dirname, "files", path.basename(request.url));
  let stat;
  try {{ stat = fs.statSync(file); }} catch {{ response.statusCode = 404; return response.end(); }}
  const tag = `"${{stat.mtimeMs}}-${{stat.size}}"`;
  response.setHeader("ETag", tag);
  response.setHeader("Cache-Control", "max-age=60");
  if (request.headers["if-none-match"] === tag) {{ response.statusCode = 304; return response.end(); }}
  response.setHeader("Content-Length", stat.size);
  if (request.method === "HEAD") return response.end();
  fs.createReadStream(file).pipe(response);
}});
{ends}
server.listen({port}, "{host}");
"#,
        port = address.port(),
        host = address.ip(),
    );
    write(&script, &text)?;
    Ok(Started {
        servers: vec![CommandLine::new("node", [script.to_string_lossy()])],
        serves: Serves::Files(by),
    })
}

/// nginx, which serves the files itself and passes the digest to php-fpm.
fn php(setup: &Setup) -> Result<Started> {
    let run = setup.run.display();
    write(
        &setup.run.join("digest.php"),
        "<?php\n$digest = hash_init('sha256');\nhash_update_stream($digest, fopen('php://input', 'r'));\nheader('Cache-Control: no-store');\nheader('Content-Type: text/plain');\necho hash_final($digest);\n",
    )?;
    let user = unprivileged();
    let owned = user.map(|it| format!("user = {it}\ngroup = {it}\nlisten.owner = {it}\n"));
    let fpm = setup.run.join("fpm.conf");
    write(
        &fpm,
        &format!(
            "[global]\npid = {run}/fpm.pid\nerror_log = {run}/fpm.log\ndaemonize = no\n[www]\nlisten = {run}/fpm.sock\n{owned}pm = static\npm.max_children = 4\nphp_admin_value[post_max_size] = 0\n",
            owned = owned.unwrap_or_default(),
        ),
    )?;
    let conf = setup.run.join("nginx.conf");
    let user = user.map(|it| format!("user {it};\n")).unwrap_or_default();
    let mut text = format!(
        "{user}worker_processes 1;\ndaemon off;\npid {run}/nginx.pid;\nerror_log {run}/error.log warn;\nevents {{ worker_connections 1000; }}
http {{
  access_log off;
  keepalive_timeout {kept}s;
  client_max_body_size 0;
",
        kept = KEPT.as_secs(),
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        text += &format!("  {kind}_temp_path {run}/{kind};\n");
    }
    text += &format!(
        "  server {{
    listen {address};
    root {run};
    location / {{ add_header Cache-Control max-age=60; }}
    location = /digest {{
      fastcgi_pass unix:{run}/fpm.sock;
      fastcgi_param SCRIPT_FILENAME {run}/digest.php;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
    }}
  }}
}}
",
        address = setup.address,
    );
    write(&conf, &text)?;
    let fpm_args = ["--nodaemonize", "--fpm-config", &fpm.to_string_lossy()].map(str::to_owned);
    let nginx_args = [
        "-p".to_owned(),
        run.to_string(),
        "-c".to_owned(),
        conf.display().to_string(),
    ];
    Ok(Started {
        servers: vec![
            CommandLine::new(&path_of(PHP), fpm_args),
            CommandLine::new("nginx", nginx_args),
        ],
        serves: Serves::Files(By::Http1),
    })
}
