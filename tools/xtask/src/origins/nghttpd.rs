//! nghttpd, a server that speaks only HTTP/2, plain and with TLS, and pads its frames. Its implementation is unrelated to Node's.
//!
//! It serves files and echoes request bodies. It supports neither ETag nor ranges, so stored responses are validated by their date.

use super::{
    Rows,
    asking::{Whole, ask, expect},
    programs::{Origin, Serves, Setup, Started},
};
use crate::failure::Result;
use crate::http::{Client, Request};
use crate::ports;
use crate::process::CommandLine;
use crate::rivals::front::{Certificate, KeyKind};
use crate::rivals::{self, Rival, launch};

/// The data needed to send it requests.
pub struct Alone {
    /// The server's port with TLS.
    encrypted: u16,
    certificate: Certificate,
}

/// Two servers; the last one is plain.
pub fn plan(setup: &Setup) -> Result<Started> {
    let certificate = Certificate::of(&setup.run);
    certificate.make(KeyKind::P256)?;
    let encrypted = ports::free()?;
    let (address, run) = (setup.address.ip().to_string(), setup.run.to_string_lossy());
    let server = |rest: &[&str]| {
        let mut args = vec!["--address", &address, "--htdocs", &run];
        args.extend(["--echo-upload", "--padding", "200"]);
        args.extend(rest);
        CommandLine::new("nghttpd", args)
    };
    let key = certificate.key.to_string_lossy();
    let chain = certificate.chain.to_string_lossy();
    Ok(Started {
        servers: vec![
            server(&[&encrypted.to_string(), &key, &chain]),
            server(&["--no-tls", &setup.address.port().to_string()]),
        ],
        serves: Serves::Http2Alone(Alone {
            encrypted,
            certificate,
        }),
    })
}

/// Sends requests plain and over TLS.
pub fn try_all(of: &Alone, origin: &Origin, rows: &mut Rows) -> Result<()> {
    let plain = format!(
        "origin = \"http://{}\"\nhttp2 = \"prior-knowledge\"\n",
        origin.address
    );
    let encrypted = format!(
        "origin = \"https://localhost:{}\"\nhttp2 = true\ntls.ca-file = \"{}\"\n",
        of.encrypted,
        of.certificate.chain.display()
    );
    for (way, route) in [("h2c", plain), ("TLS", encrypted)] {
        let request = rivals::Request {
            workers: 1,
            listener: Some(format!(
                "client-directives = \"obey\"\n[[listener.route]]\n{route}"
            )),
            ..rivals::Request::of(format!("origins-nghttpd-{way}"), origin.address)
        };
        let proxy = launch(Rival::Loligo, &request)?;
        ask_for_all(&mut Client::new(proxy.address), (way, origin), rows);
        proxy.stop()?;
    }
    Ok(())
}

fn ask_for_all(client: &mut Client, (way, origin): (&str, &Origin), rows: &mut Rows) {
    let (small, large) = (&origin.files.small, &origin.files.large);
    let says = |answer: &Whole, what: &str| {
        let said = answer.field("cache-status");
        said.is_some_and(|it| it.contains(what))
    };
    rows.once(
        "loligo",
        &format!("{way}: GET, miss, hit, HEAD, 304"),
        || {
            for what in ["fwd=", "; hit"] {
                let answer = ask(client, Request::of("GET", &small.target))?;
                expect(answer.body == small.bytes && says(&answer, what), &answer)?;
            }
            let head = ask(client, Request::of("HEAD", &small.target))?;
            expect(head.status() == 200 && head.body.is_empty(), &head)?;
            let again = Request {
                fields: &[("Cache-Control", "max-age=0")],
                ..Request::of("GET", &small.target)
            };
            let validated = ask(client, again)?;
            let is_validated = says(&validated, "fwd-status=304");
            expect(validated.body == small.bytes && is_validated, &validated)
        },
    );
    rows.once("loligo", &format!("{way}: large body down"), || {
        let answer = ask(client, Request::of("GET", &large.target))?;
        expect(
            answer.status() == 200 && answer.body == large.bytes,
            &answer,
        )
    });
    rows.once("loligo", &format!("{way}: large body up, and back"), || {
        let request = Request {
            body: Some(&large.bytes),
            ..Request::of("POST", "/echo")
        };
        let answer = ask(client, request)?;
        expect(
            answer.status() == 200 && answer.body == large.bytes,
            &answer,
        )
    });
}
