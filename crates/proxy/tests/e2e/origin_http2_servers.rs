//! Servers of HTTP/2 with bounds of their own: few streams at once, none at all, no HTTP/1.1 beside it; and answers that nobody reads.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use ::proxy::plan::{
    HealthCheck, Http2, OriginTls, OriginUrl, Plan, Role, Route, Server as ServerAt,
};
use bytes::Bytes;
use http::Response;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::{LocalSet, spawn_local},
};
use tokio_rustls::TlsAcceptor;

use super::{
    harness::{
        running::*,
        tls::{Authority, Signed},
        *,
    },
    origin_http2::{Chain, plan_by_h2, translating},
    upstreams::plan_of,
};

/// Starts a server on a thread of its own, where each connection has a task. It ends with the process.
pub fn start_server<F: Future<Output = ()> + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                spawn_local(serve(stream));
            }
        });
    });
    told.recv().unwrap()
}

/// What a server has seen.
#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    open: AtomicUsize,
    open_most: AtomicUsize,
}

/// A server of the crate `h2`, which answers after a while.
#[derive(Clone)]
struct Server {
    seen: Arc<Seen>,
    streams_max: u32,
    takes: Duration,
    tls: Option<TlsAcceptor>,
}

impl Server {
    fn new(streams_max: u32, takes: Duration) -> Server {
        Server {
            seen: Arc::default(),
            streams_max,
            takes,
            tls: None,
        }
    }

    /// It speaks HTTP/2 alone.
    fn with_tls(self, signed: &Signed) -> Server {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = CertificateDer::from_pem_file(&signed.files.chain).unwrap();
        let key = PrivateKeyDer::from_pem_file(&signed.files.key).unwrap();
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![chain], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Server {
            tls: Some(TlsAcceptor::from(Arc::new(config))),
            ..self
        }
    }

    /// It ends with the process.
    fn start(&self) -> SocketAddr {
        let server = self.clone();
        start_server(move |stream| {
            let server = server.clone();
            async move {
                match server.tls.clone() {
                    None => server.serve(stream).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            server.serve(stream).await;
                        }
                    }
                }
            }
        })
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, stream: S) {
        let open = self.seen.open.fetch_add(1, SeqCst) + 1;
        self.seen.open_most.fetch_max(open, SeqCst);
        let mut builder = h2::server::Builder::new();
        builder.max_concurrent_streams(self.streams_max);
        let begun = builder.handshake::<_, Bytes>(stream).await;
        if let Ok(mut connection) = begun {
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let server = self.clone();
                spawn_local(async move {
                    server.seen.requests.fetch_add(1, SeqCst);
                    tokio::time::sleep(server.takes).await;
                    let answer = Response::builder().header("cache-control", "no-store");
                    if let Ok(mut body) = respond.send_response(answer.body(()).unwrap(), false) {
                        let path = request.uri().path().to_owned();
                        let _ = body.send_data(path.into(), true);
                    }
                });
            }
        }
        self.seen.open.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_server_that_takes_few_at_once_gets_more_connections() {
    // None ends before the last one has its connection.
    let server = Server::new(2, Duration::from_millis(1500));
    let proxy = Proxy::start(plan_by_h2(url(server.start()), Http2::Known));
    thread::scope(|scope| {
        for number in 0..60 {
            let proxy = &proxy;
            scope.spawn(move || {
                let path = format!("/{number}");
                let answer = proxy.get(&path);
                assert_eq!((answer.status, answer.text()), (200, &*path));
            });
        }
    });
    assert_eq!(server.seen.requests.load(SeqCst), 60, "none twice");
    assert!(server.seen.open_most.load(SeqCst) >= 30);
}

#[test]
fn a_server_that_takes_nothing_is_not_connected_to_more_and_more() {
    let server = Server::new(0, Duration::ZERO);
    let proxy = Proxy::start(plan_by_h2(url(server.start()), Http2::Known));
    for _ in 0..20 {
        let answer = proxy.get("/");
        assert_eq!(answer.status, 503, "{}", answer.text());
        let word = "destination_unavailable";
        assert!(answer.text().contains(word), "{}", answer.text());
    }
    assert_eq!(server.seen.requests.load(SeqCst), 0);
    let most = server.seen.open_most.load(SeqCst);
    assert!(most <= 6, "{most} connections at once");
}

/// The only route of the plan.
fn route_of(plan: &mut Plan) -> &mut Route {
    match &mut plan.listeners[0].role {
        Role::Reverse(routes) => &mut routes[0],
        role => panic!("{role:?}"),
    }
}

#[test]
fn checks_ask_servers_that_speak_nothing_else() {
    let authority = Authority::new();
    let server = Server::new(100, Duration::ZERO);
    let server = server.with_tls(&authority.sign("server", &["127.0.0.1"]));
    let at = OriginUrl {
        tls: true,
        ..url(server.start())
    };
    let mut plan = plan_of(vec![ServerAt::at(at)]);
    plan.upstreams[0].http2 = Some(Http2::Negotiated);
    plan.upstreams[0].tls = Some(Arc::new(OriginTls {
        ca_file: Some(authority.path("ca.pem")),
        only_ca_file: true,
        ..OriginTls::default()
    }));
    plan.upstreams[0].health = Some(HealthCheck {
        every: Duration::from_millis(50),
        fall: 1,
        ..HealthCheck::default()
    });
    let tls = plan.upstreams[0].tls.clone();
    let route = route_of(&mut plan);
    route.http2 = Some(Http2::Negotiated);
    route.tls = tls;
    let proxy = Proxy::start(with_admin(plan));
    eventually("it is checked", || {
        (server.seen.requests.load(SeqCst) > 3).then_some(())
    });
    assert_eq!(proxy.get("/a").text(), "/a");
    // Each check has a connection of its own, which ends with it.
    assert!(server.seen.open.load(SeqCst) <= 3);
}

#[test]
fn answers_that_nobody_reads_take_no_room_from_others() {
    let chain = Chain::new(|exchange| {
        exchange.send(ok(&["Cache-Control: no-store"], pattern(3_000_000)));
    });
    // More together than the window of a connection.
    for number in 0..100 {
        let mut client = chain.front.client();
        client.ask("GET", &format!("/{number}"), &["Host: a.example"]);
        assert_eq!(client.read_head().status, 200);
        client.vanish();
    }
    assert_same(&chain.front.get("/last").body, &pattern(3_000_000));
    assert!(chain.back.counter("h2_connections") <= 2);
}

#[test]
fn uploads_count_connections_to_servers_with_settings_of_their_own() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |exchange| {
        if exchange.path() == "/up" {
            exchange.body();
        } else {
            held.pass();
        }
        exchange.send(ok(&["Cache-Control: no-store"], "done"));
    });
    let back = translating(&origin);
    let mut plan = plan_of(vec![ServerAt::at(url(back.address()))]);
    plan.upstreams[0].http2 = Some(Http2::Known);
    route_of(&mut plan).http2 = Some(Http2::Known);
    plan.pool.per_origin_max = 8;
    let proxy = Proxy::start(plan);
    // Half of the connections are in use: a client's uploads get a quarter, and no more.
    let readers: Vec<Client> = (0..4)
        .map(|number| {
            let mut client = proxy.client();
            client.ask("GET", &format!("/{number}"), &["Host: a.example"]);
            client
        })
        .collect();
    gate.arrived(4);
    let uploads: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = proxy.client();
            client.send("POST /up HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhe");
            client
        })
        .collect();
    eventually("a quarter is on its way", || {
        (origin.count("/up") >= 2).then_some(())
    });
    // Longer than whoever waits takes to look again.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(origin.count("/up"), 2);
    gate.open();
    drop((readers, uploads));
}
