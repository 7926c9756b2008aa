//! The cost of parsing a head: nanoseconds a call, best of several rounds, on one core.
//!
//! `cargo bench -p http1` measures; under `cargo test` each case runs a few times only. Aim: under 250 ns for
//! a GET of 40 to 150 bytes.

use std::hint::black_box;
use std::time::Instant;

use http1::{Chunk, ChunkedDecoder, Limits, Scratch, parse_request, parse_response, scan_end};

const SHORT: &[u8] = b"GET /1k HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const TYPICAL: &[u8] = b"GET /images/2024/logo-small.png?v=17 HTTP/1.1\r\nHost: www.example.com\r\n\
    User-Agent: curl/8.5.0\r\nAccept: */*\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n\r\n";
const BROWSER: &[u8] = b"GET /articles/a-rather-long-title-of-an-article?utm_source=x HTTP/1.1\r\n\
    Host: www.example.com\r\nConnection: keep-alive\r\nsec-ch-ua: \"Chromium\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
    Content-Type: text/html\r\nContent-Length: 10240\r\nLast-Modified: Wed, 31 Dec 2025 00:00:00 GMT\r\n\
    ETag: \"5f-9\"\r\nCache-Control: max-age=3600\r\nAccept-Ranges: bytes\r\n\r\n";

fn parse(head: &[u8]) -> usize {
    let mut scratch = Scratch::new();
    let view = parse_request(black_box(head), &Limits::default(), &mut scratch);
    view.expect("the head is valid")
        .expect("the head is complete")
        .head_bytes
}

fn bare_httparse(head: &[u8]) -> usize {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    httparse::Request::new(&mut headers)
        .parse(black_box(head))
        .expect("the head is valid")
        .unwrap()
}

fn decode(body: &[u8]) -> usize {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let (mut at, mut bytes) = (0, 0);
    loop {
        match decoder
            .next(black_box(&body[at..]))
            .expect("the body is valid")
        {
            Chunk::Data { start, end } => {
                bytes += end - start;
                at += end;
            }
            Chunk::More { consumed } => at += consumed,
            Chunk::End { .. } => return bytes,
        }
    }
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let (rounds, calls) = if measuring { (15, 200_000) } else { (1, 2) };
    let chunked = [&b"1000\r\n"[..], &[b'x'; 4096], b"\r\n0\r\n\r\n"].concat();
    let cases: [(&str, usize, &dyn Fn() -> usize); 9] = [
        ("request, short", SHORT.len(), &|| parse(SHORT)),
        ("request, typical", TYPICAL.len(), &|| parse(TYPICAL)),
        ("request, browser", BROWSER.len(), &|| parse(BROWSER)),
        ("httparse alone, short", SHORT.len(), &|| {
            bare_httparse(SHORT)
        }),
        ("httparse alone, typical", TYPICAL.len(), &|| {
            bare_httparse(TYPICAL)
        }),
        ("httparse alone, browser", BROWSER.len(), &|| {
            bare_httparse(BROWSER)
        }),
        ("scan_end, browser", BROWSER.len(), &|| {
            scan_end(black_box(BROWSER), 0).unwrap_or(0)
        }),
        ("response, copied", RESPONSE.len(), &|| {
            let head = parse_response(black_box(RESPONSE), &Limits::default(), "GET");
            head.expect("the head is valid")
                .expect("the head is complete")
                .1
        }),
        ("chunked, one of 4 KiB", chunked.len(), &|| decode(&chunked)),
    ];
    for (name, bytes, case) in cases {
        let mut best_ns = f64::INFINITY;
        for _ in 0..rounds {
            let began = Instant::now();
            for _ in 0..calls {
                black_box(case());
            }
            best_ns = best_ns.min(began.elapsed().as_nanos() as f64 / f64::from(calls));
        }
        println!("{name:26} {bytes:5} bytes {best_ns:8.1} ns");
    }
}
