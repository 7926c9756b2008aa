"""A server of gRPC: messages are bytes. Arguments: a plain address, one with TLS, certificate, key."""
import concurrent.futures, hashlib, json, sys, threading, time
import grpc

told, lock = [], threading.Lock()

def digest(pieces):
    digest = hashlib.sha256()
    for piece in pieces: digest.update(piece)
    return digest.digest()

def down(request, context):
    for number in range(int(request)): yield b"%d" % number

def fail(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, request.decode())

# Until the call ends, by whomever: how much time was left when it began, and then.
def wait(request, context):
    left, began, ended = context.time_remaining(), time.monotonic(), threading.Event()
    def note():
        with lock: told.append([request.decode(), left, left - (time.monotonic() - began)])
        ended.set()
    context.add_callback(note)
    yield b"begun"
    ended.wait(60)

def tell(request, context):
    with lock: return json.dumps(told).encode()

calls = {
    "Unary": grpc.unary_unary_rpc_method_handler(lambda request, context: digest([request])),
    "Down": grpc.unary_stream_rpc_method_handler(down),
    "Up": grpc.stream_unary_rpc_method_handler(lambda requests, context: digest(requests)),
    "Both": grpc.stream_stream_rpc_method_handler(lambda requests, context: requests),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Wait": grpc.unary_stream_rpc_method_handler(wait),
    "Tell": grpc.unary_unary_rpc_method_handler(tell),
}
plain, encrypted, certificate, key = sys.argv[1:]
read = lambda path: open(path, "rb").read()
server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("trial.Calls", calls)])
server.add_secure_port(encrypted, grpc.ssl_server_credentials([(read(key), read(certificate))]))
server.add_insecure_port(plain)
server.start()
server.wait_for_termination()
