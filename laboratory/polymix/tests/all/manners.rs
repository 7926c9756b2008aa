//! Small proxies, correct ones and ones that cheat.
//!
//! Simple: a thread a connection, one request a connection, HTTP/1.0. The cache stores responses with `Cache-Control: public` until
//! they expire.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustls::pki_types::PrivateKeyDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

/// The behaviour of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Forwards everything.
    Plain,
    /// Caches correctly.
    Cache,
    /// Answers reloads from the cache.
    IgnoresReload,
    /// Stores private responses.
    KeepsPrivate,
    /// Answers every GET with the object of another URL.
    MixesUp,
    /// Changes a byte of the body.
    Spoils,
    /// Cuts off the last byte.
    CutsShort,
    /// Answers every request with 304.
    NeverModified,
    /// Forwards a reload, but keeps its old copy.
    ForgetsReload,
    /// Answers a range request with another range, and labels it so.
    OtherRange,
    /// Answers a range request with the bytes of another range, labelled as the requested one.
    ShiftsRange,
    /// Answers every request with a range.
    PartsOnly,
    /// Cuts off the last byte of a range.
    CutsRange,
    /// Answers 502.
    Breaks,
    /// Closes the connection without an answer.
    HangsUp,
}

/// Stored answers by URL, and the number of hits.
#[derive(Default)]
pub struct Cache {
    kept: Mutex<HashMap<String, Vec<u8>>>,
    pub hits: AtomicU64,
    /// Servers that were contacted, by address and port.
    pub hosts: Mutex<BTreeSet<String>>,
}

/// Starts a proxy. It lives as long as the test process.
pub fn proxy(manner: Manner) -> (SocketAddr, Arc<Cache>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let cache = Arc::new(Cache::default());
    let shared = Arc::clone(&cache);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let cache = Arc::clone(&shared);
            std::thread::spawn(move || {
                let _ = serve(stream, manner, &cache);
            });
        }
    });
    (address, cache)
}

/// A TLS front for another proxy, with the number of resumed sessions. It lives as long as the test process.
pub fn encrypted(behind: SocketAddr) -> (SocketAddr, Arc<AtomicU64>) {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let resumed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&resumed);
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                let _ = relay(StreamOwned::new(session, tcp), behind, &counted);
            });
        }
    });
    (address, resumed)
}

fn relay(
    mut client: StreamOwned<ServerConnection, TcpStream>,
    behind: SocketAddr,
    resumed: &AtomicU64,
) -> std::io::Result<()> {
    let Some((_, request)) = receive(&mut client)? else {
        return Ok(());
    };
    if client.conn.handshake_kind() == Some(HandshakeKind::Resumed) {
        resumed.fetch_add(1, Relaxed);
    }
    let mut proxy = TcpStream::connect(behind)?;
    proxy.write_all(&request)?;
    std::io::copy(&mut proxy, &mut client)?;
    client.conn.send_close_notify();
    client.flush()
}

/// Reads a request: its head, and all its bytes.
fn receive(client: &mut impl Read) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    let head_end = loop {
        let n = client.read(&mut piece)?;
        if n == 0 {
            return Ok(None);
        }
        request.extend_from_slice(&piece[..n]);
        if let Some(end) = find(&request, b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&request[..head_end]).into_owned();
    let length = field(&text, "Content-Length").map_or(0, |value| value.parse().unwrap());
    while request.len() < head_end + length {
        let n = client.read(&mut piece)?;
        request.extend_from_slice(&piece[..n]);
    }
    Ok(Some((text, request)))
}

fn serve(mut client: TcpStream, manner: Manner, cache: &Cache) -> std::io::Result<()> {
    let Some((text, request)) = receive(&mut client)? else {
        return Ok(());
    };
    let url = text.split(' ').nth(1).unwrap().to_owned();
    let reload = field(&text, "Pragma").is_some();
    let range = field(&text, "Range");
    let plain_get =
        text.starts_with("GET ") && field(&text, "If-Modified-Since").is_none() && range.is_none();
    let may_answer =
        plain_get && manner != Manner::Plain && (!reload || manner == Manner::IgnoresReload);
    let key = if manner == Manner::MixesUp {
        "the same".to_owned()
    } else {
        url
    };
    let stored = cache.kept.lock().unwrap().get(&key).cloned();
    let mut answer = match stored.filter(|stored| may_answer && is_fresh(stored)) {
        Some(answer) => {
            cache.hits.fetch_add(1, Relaxed);
            answer
        }
        None => {
            let host = field(&text, "Host").unwrap();
            cache.hosts.lock().unwrap().insert(host.clone());
            let answer = ask(&host, &asked(manner, &request, range.as_deref()))?;
            let head = String::from_utf8_lossy(&answer).into_owned();
            let public = field(&head, "Cache-Control").is_some_and(|v| v == "public");
            let keep = public || manner == Manner::KeepsPrivate;
            if plain_get && keep && head.contains(" 200 OK") {
                let mut kept = cache.kept.lock().unwrap();
                if manner != Manner::ForgetsReload || !kept.contains_key(&key) {
                    kept.insert(key, answer.clone());
                }
            }
            answer
        }
    };
    // The origin closed without an answer.
    let Some(last) = answer.len().checked_sub(1) else {
        return Ok(());
    };
    match manner {
        Manner::Spoils => answer[last] ^= 1,
        Manner::CutsShort => answer.truncate(last),
        Manner::CutsRange if range.is_some() => answer.truncate(last),
        Manner::NeverModified => answer = b"HTTP/1.0 304 Not Modified\r\n\r\n".to_vec(),
        Manner::Breaks => answer = b"HTTP/1.0 502 Bad Gateway\r\n\r\n".to_vec(),
        Manner::HangsUp => answer.clear(),
        Manner::ShiftsRange => {
            // The origin was asked for a range one byte later; label its bytes as the range that the client requested.
            if let Some((first, end)) = range.as_deref().and_then(bounds) {
                let from = format!("bytes {}-{}/", first + 1, end + 1);
                replace(&mut answer, &from, &format!("bytes {first}-{end}/"));
            }
        }
        _ => {}
    }
    client.write_all(&answer)
}

/// Whether the answer has not expired. An answer without Expires, which only a cheating proxy stores, never does.
fn is_fresh(answer: &[u8]) -> bool {
    let head = String::from_utf8_lossy(answer);
    let expires = field(&head, "Expires").map(|text| httpdate::parse_http_date(&text).unwrap());
    expires.is_none_or(|expires| SystemTime::now() < expires)
}

/// The request that the proxy sends to the origin.
fn asked(manner: Manner, request: &[u8], range: Option<&str>) -> Vec<u8> {
    let mut request = request.to_vec();
    match (manner, range) {
        (Manner::OtherRange | Manner::ShiftsRange, Some(range)) => {
            let (first, last) = bounds(range).unwrap();
            let later = format!("bytes={}-{}", first + 1, last + 1);
            replace(&mut request, range, &later);
        }
        (Manner::PartsOnly, None) => {
            replace(&mut request, "Accept: ", "Range: bytes=0-0\r\nAccept: ");
        }
        _ => {}
    }
    request
}

fn replace(message: &mut Vec<u8>, from: &str, to: &str) {
    if let Some(at) = find(message, from.as_bytes()) {
        message.splice(at..at + from.len(), to.bytes());
    }
}

/// Parses `bytes=3-7`.
fn bounds(range: &str) -> Option<(u64, u64)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Sends one request to the origin; the connection is closed afterwards.
fn ask(host: &str, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut origin = TcpStream::connect(host)?;
    let mut text = request.to_vec();
    replace(&mut text, "keep-alive", "close");
    origin.write_all(&text)?;
    let mut answer = Vec::new();
    origin.read_to_end(&mut answer)?;
    Ok(answer)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn field(head: &str, name: &str) -> Option<String> {
    let head = head.split("\r\n\r\n").next()?;
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim().to_owned())
}
