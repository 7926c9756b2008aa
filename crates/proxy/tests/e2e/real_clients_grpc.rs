//! gRPC as its own library speaks it, over HTTP/2 and TLS, to an origin that is asked in HTTP/1.1.
//!
//! The origin translates, as a gateway of gRPC does: messages are the chunks of a body, and the status is in the trailers. What is shown is
//! the proxy's part: messages pass at once and unchanged in both directions, trailers and their absence mean the same on both sides.

use crate::{
    harness::*,
    real_clients::{House, client, has, run},
};

/// A message as gRPC frames it: not compressed, and its length.
fn message(bytes: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
    framed.extend_from_slice(bytes);
    framed
}

const SPEAKS: &str = "Content-Type: application/grpc";

fn begin(exchange: &mut Exchange) {
    let fields = [SPEAKS, "Trailer: grpc-status", "Transfer-Encoding: chunked"];
    exchange.send(head("200 OK", &fields));
}

fn end(exchange: &mut Exchange, trailers: &str) {
    exchange.send(format!("0\r\n{trailers}\r\n\r\n"));
}

/// The service, as an origin of HTTP/1.1 has it. `gate`: between the first message of a stream and the others.
fn serve(exchange: &mut Exchange, gate: &Gate) {
    assert_eq!(exchange.request.method, "POST");
    assert_eq!(exchange.field("content-type"), Some("application/grpc"));
    let path = exchange.path().to_owned();
    let (body, _) = exchange.body();
    match &path[..] {
        "/demo.Service/Echo" => {
            begin(exchange);
            exchange.send(chunk(&body));
            end(exchange, "Grpc-Status: 0\r\nX-Sum: 7");
        }
        // A status behind a message, and one without any.
        "/demo.Service/FailLate" => {
            begin(exchange);
            exchange.send(chunk(message(b"one")));
            end(exchange, "Grpc-Status: 8\r\nGrpc-Message: no%20more");
        }
        "/demo.Service/Fail" => {
            begin(exchange);
            end(exchange, "Grpc-Status: 5\r\nGrpc-Message: not%20here");
        }
        // Without a body at all: what is trailers otherwise is in the head.
        "/demo.Service/FailAtOnce" => {
            let fields = [
                SPEAKS,
                "Grpc-Status: 16",
                "Grpc-Message: who%3F",
                "Content-Length: 0",
            ];
            exchange.send(head("200 OK", &fields));
        }
        "/demo.Service/Open" => {
            gate.open();
            begin(exchange);
            exchange.send(chunk(message(b"opened")));
            end(exchange, "Grpc-Status: 0");
        }
        "/demo.Service/Count" => {
            begin(exchange);
            exchange.send(chunk(message(b"0")));
            gate.pass();
            for n in 1..100 {
                exchange.send(chunk(message(n.to_string().as_bytes())));
            }
            end(exchange, "Grpc-Status: 0");
        }
        // It breaks off in the middle: no status at all.
        "/demo.Service/Break" => {
            begin(exchange);
            exchange.send(chunk(message(b"one")));
            exchange.close();
        }
        path => panic!("{path}"),
    }
}

const SCRIPT: &str = r#"
import sys, grpc
target, ca = sys.argv[1:]
trust = grpc.ssl_channel_credentials(open(ca, 'rb').read())
channel = grpc.secure_channel(target, trust, options=[('grpc.enable_http_proxy', 0)])
def unary(name): return channel.unary_unary('/demo.Service/' + name)
def fails(call, code, details=None):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert details is None or error.details() == details, error
    else:
        raise SystemExit('it did not fail')

answer, call = unary('Echo').with_call(b'ping', timeout=60)
assert answer == b'ping', answer
assert ('x-sum', '7') in [tuple(one) for one in call.trailing_metadata()], call.trailing_metadata()
large = bytes(range(256)) * 4096
assert unary('Echo')(large, timeout=60) == large
# Many at a time on one connection.
calls = [(n, unary('Echo').future(b'%d' % n, timeout=60)) for n in range(50)]
assert all(call.result() == b'%d' % n for n, call in calls)

fails(lambda: unary('Fail')(b'', timeout=60), grpc.StatusCode.NOT_FOUND, 'not here')
fails(lambda: unary('FailAtOnce')(b'', timeout=60), grpc.StatusCode.UNAUTHENTICATED, 'who?')
got = []
def late():
    for one in channel.unary_stream('/demo.Service/FailLate')(b'', timeout=60): got.append(one)
fails(late, grpc.StatusCode.RESOURCE_EXHAUSTED, 'no more')
assert got == [b'one'], got
def breaks():
    for one in channel.unary_stream('/demo.Service/Break')(b'', timeout=60): pass
fails(breaks, grpc.StatusCode.INTERNAL)

# The first message is here before the others are sent: they are sent once we ask for them.
stream = channel.unary_stream('/demo.Service/Count')(b'', timeout=60)
assert next(stream) == b'0'
assert unary('Open')(b'', timeout=60) == b'opened'
assert [int(one) for one in stream] == list(range(1, 100))

# A stream of requests, each a message of its own.
sent = [b'%d' % n * n for n in range(1, 200)]
assert list(channel.stream_stream('/demo.Service/Echo')(iter(sent), timeout=60)) == sent
channel.close()
print('done')
"#;

#[test]
fn grpc_calls_with_trailers_and_streams() {
    let Some(mut python) = client("python3").filter(|_| has("grpc", "grpcio")) else {
        return;
    };
    let gate = Gate::new();
    let house = House::answering(move |exchange| serve(exchange, &gate));
    let target = format!("localhost:{}", house.proxy.ready.listeners[0].port());
    python.args(["-c", SCRIPT, &target, &house.authority()]);
    assert_eq!(run(&mut python), "done");
    house.proxy.await_count("h2_connections", 1);
    eventually("it is counted", || {
        (house.proxy.counter("h2_streams") >= 58).then_some(())
    });
}
