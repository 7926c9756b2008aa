//! Object stores that check signatures: a private bucket behind our proxy, which signs the requests.
//!
//! Bucket and objects are also created through the proxy (`writes`).

use std::fs;
use std::path::PathBuf;

use super::{
    Rows,
    asking::{Whole, ask, expect},
    programs::{Origin, Serves, Setup, Started},
};
use crate::failure::{During, Result};
use crate::http::{Client, Request};
use crate::process::CommandLine;
use crate::rivals::{self, Rival, Running, launch};

const KEY: &str = "loligotrial";
const SECRET: &str = "a-secret-of-this-trial";
/// Names for which signatures have been wrong before, as a client writes them.
const NAMES: [&str; 7] = [
    "plain",
    "a%20blank",
    "plus+and%2Bencoded",
    "%C3%A4%E2%82%AC",
    "below/a%2Fslash",
    "equals=and&more;:@!$'()*,",
    "100%25",
];

/// The data that the proxy needs to sign.
pub struct Store {
    run: PathBuf,
}

/// versitygw, with the files in one directory and their metadata in another.
pub fn versitygw(setup: &Setup) -> Result<Started> {
    let [data, beside] = ["data", "beside"].map(|name| setup.run.join(name));
    for folder in [&data, &beside] {
        fs::create_dir_all(folder).during(|| format!("making {}", folder.display()))?;
    }
    let port = setup.address.to_string();
    let (data, beside) = (data.to_string_lossy(), beside.to_string_lossy());
    let args = ["--port", &port, "posix", "--sidecar", &beside, &data];
    let command = CommandLine::new("versitygw", args.map(str::to_owned))
        .with_env("ROOT_ACCESS_KEY", KEY)
        .with_env("ROOT_SECRET_KEY", SECRET);
    started(setup, command)
}

/// MinIO with one directory. Without a configured region it accepts signatures for any region.
pub fn minio(setup: &Setup) -> Result<Started> {
    let data = setup.run.join("data");
    let (address, data) = (setup.address.to_string(), data.to_string_lossy());
    let args = ["server", "--quiet", "--address", &address, &data];
    let command = CommandLine::new("minio", args.map(str::to_owned))
        .with_env("MINIO_ROOT_USER", KEY)
        .with_env("MINIO_ROOT_PASSWORD", SECRET)
        .with_env("MINIO_REGION", "us-east-1");
    started(setup, command)
}

fn started(setup: &Setup, command: CommandLine) -> Result<Started> {
    for (name, secret) in [("keys", SECRET), ("wrong", "no-secret-of-anybody")] {
        let text =
            format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {secret}\n");
        let path = setup.run.join(name);
        fs::write(&path, text).during(|| format!("writing {}", path.display()))?;
    }
    Ok(Started {
        servers: vec![command],
        serves: Serves::Objects(Store {
            run: setup.run.clone(),
        }),
    })
}

impl Store {
    /// A proxy that signs with the credentials of this file.
    fn proxy(&self, origin: &Origin, keys: &str, region: &str) -> Result<Running> {
        let request = rivals::Request {
            workers: 1,
            listener: Some(format!(
                "client-directives = \"obey\"\n[[listener.route]]\norigin = \"http://{}\"\n\
                 sign.aws = {{ region = \"{region}\", credentials = \"file:{}\", writes = true }}\n\
                 [[rule]]\npath = \"/bucket/small\"\nttl = \"1h\"\n",
                origin.address,
                self.run.join(keys).display()
            )),
            ..rivals::Request::of(format!("origins-store-{keys}-{region}"), origin.address)
        };
        launch(Rival::Loligo, &request)
    }
}

fn put(client: &mut Client, target: &str, body: &[u8]) -> Result<()> {
    let request = Request {
        body: Some(body),
        ..Request::of("PUT", target)
    };
    let answer = ask(client, request)?;
    expect(answer.status() == 200, &answer)
}

fn get(client: &mut Client, target: &str) -> Result<Whole> {
    ask(client, Request::of("GET", target))
}

/// Tries an object store with all names.
pub fn try_all(store: &Store, origin: &Origin, rows: &mut Rows) -> Result<()> {
    let proxy = store.proxy(origin, "keys", "us-east-1")?;
    let mut client = Client::new(proxy.address);
    let client = &mut client;
    let (small, large) = (&origin.files.small.bytes, &origin.files.large.bytes);
    rows.once("loligo", "PUT of bucket and object", || {
        put(client, "/bucket", b"")?;
        put(client, "/bucket/small", small)
    });
    rows.once("loligo", "without a signature", || {
        let answer = get(&mut Client::new(origin.address), "/bucket/small")?;
        expect(answer.status() == 403, &answer)
    });
    rows.once("loligo", "GET, miss, hit, HEAD, range, 304", || {
        let says = |answer: &Whole, what: &str| {
            answer
                .field("cache-status")
                .is_some_and(|it| it.contains(what))
        };
        let miss = get(client, "/bucket/small")?;
        expect(miss.body == *small && says(&miss, "fwd="), &miss)?;
        let hit = get(client, "/bucket/small")?;
        expect(hit.body == *small && says(&hit, "; hit"), &hit)?;
        let head = ask(client, Request::of("HEAD", "/bucket/small"))?;
        expect(head.status() == 200 && head.body.is_empty(), &head)?;
        let with = |fields| Request {
            fields,
            ..Request::of("GET", "/bucket/small")
        };
        let part = ask(client, with(&[("Range", "bytes=10-19")]))?;
        expect(part.status() == 206 && part.body == small[10..20], &part)?;
        let validated = ask(client, with(&[("Cache-Control", "max-age=0")]))?;
        expect(
            validated.body == *small && says(&validated, "fwd-status=304"),
            &validated,
        )
    });
    rows.once("loligo", "names", || {
        for name in NAMES {
            let target = format!("/bucket/names/{name}");
            put(client, &target, name.as_bytes())?;
            let answer = get(client, &target)?;
            expect(
                answer.status() == 200 && answer.body == name.as_bytes(),
                &answer,
            )
            .during(|| name.to_owned())?;
        }
        Ok(())
    });
    rows.once("loligo", "listings, not stored", || {
        let listing = "/bucket?list-type=2&prefix=names%2Fp&delimiter=/";
        for _ in 0..2 {
            let answer = get(client, listing)?;
            let text = String::from_utf8_lossy(&answer.body);
            let is_fresh = !answer
                .field("cache-status")
                .unwrap_or_default()
                .contains("; hit");
            let is_well = text.contains("names/plain") && !text.contains("names/a");
            expect(answer.status() == 200 && is_well && is_fresh, &answer)?;
        }
        Ok(())
    });
    rows.once("loligo", "large body up, range, down", || {
        put(client, "/bucket/large", large)?;
        let part = ask(
            client,
            Request {
                fields: &[("Range", "bytes=1000-1999")],
                ..Request::of("GET", "/bucket/large")
            },
        )?;
        expect(
            part.status() == 206 && part.body == large[1000..2000],
            &part,
        )?;
        let whole = get(client, "/bucket/large")?;
        expect(whole.body == *large, &whole)
    });
    proxy.stop()?;
    for (what, keys, region) in [
        ("wrong key", "wrong", "us-east-1"),
        ("wrong region", "keys", "mars-north-1"),
    ] {
        let proxy = store.proxy(origin, keys, region)?;
        rows.once("loligo", what, || {
            let answer = get(&mut Client::new(proxy.address), "/bucket/small")?;
            let is_told =
                String::from_utf8_lossy(&answer.body).contains("proxy_configuration_error");
            expect(answer.status() == 502 && is_told, &answer)
        });
        proxy.stop()?;
    }
    Ok(())
}
