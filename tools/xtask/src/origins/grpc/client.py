"""Calls of all kinds, and what came of them: a line of JSON each. Arguments: an address, how many calls, and what is trusted, or nothing."""
import concurrent.futures, hashlib, json, os, sys, threading, time
import grpc

address, calls, trusted = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
CLIENTS, PATIENCE_S = 8, 60

def channel():
    if not trusted: return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(open(trusted[0], "rb").read()), options)

channels = [channel() for _ in range(2)]

def method(kind, name, number=0):
    return getattr(channels[number % len(channels)], kind)("/trial.Calls/" + name)

def unary(number):
    # Now and then a long one.
    sent = b"%d" % number * (100_000 if number % 500 == 0 else 1)
    got = method("unary_unary", "Unary", number)(sent, timeout=PATIENCE_S)
    assert got == hashlib.sha256(sent).digest(), got

def down(number):
    got = [int(one) for one in method("unary_stream", "Down", number)(b"%d" % (number % 40), timeout=PATIENCE_S)]
    assert got == list(range(number % 40)), got

def up(number):
    sent = [b"%d" % one * (1 + number % 50) for one in range(number % 40)]
    got = method("stream_unary", "Up", number)(iter(sent), timeout=PATIENCE_S)
    assert got == hashlib.sha256(b"".join(sent)).digest(), got

def both(number):
    sent = [b"%d" % one * (1 + number % 50) for one in range(1 + number % 20)]
    # Each is sent when the one before has come back.
    turn, got = threading.Semaphore(1), []
    def messages():
        for one in sent:
            assert turn.acquire(timeout=PATIENCE_S)
            yield one
    for one in method("stream_stream", "Both", number)(messages(), timeout=PATIENCE_S):
        got.append(one)
        turn.release()
    assert got == sent, got

def status(number):
    try: method("unary_unary", "Fail")(b"not here %d" % number, timeout=PATIENCE_S)
    except grpc.RpcError as error:
        assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "not here %d" % number), error
    else: raise AssertionError("it did not fail")

def ended(name):
    """How much time the server thought was left, when the call began and when it ended."""
    for _ in range(100):
        told = json.loads(method("unary_unary", "Tell")(b"", timeout=PATIENCE_S))
        found = [one[1:] for one in told if one[0] == name]
        if found: return found[0]
        time.sleep(0.1)
    raise AssertionError("the server did not hear of the end of " + name)

def deadline(number):
    name = "deadline %d of %d" % (number, os.getpid())
    try: list(method("unary_stream", "Wait")(name.encode(), timeout=0.7))
    except grpc.RpcError as error: assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    left, at_end = ended(name)
    assert left is not None and left < 1, "the server has %s s" % left

def cancel(number):
    name = "cancel %d of %d" % (number, os.getpid())
    call = method("unary_stream", "Wait")(name.encode(), timeout=PATIENCE_S)
    assert next(call) == b"begun"
    call.cancel()
    left, at_end = ended(name)
    assert PATIENCE_S + 1 > left and at_end > PATIENCE_S / 2, "%s s were left, %s at its end" % (left, at_end)

def tried(what, call, count):
    began, wrong = time.monotonic(), []
    def one(number):
        try: call(number)
        except Exception as error: wrong.append(" ".join(("%s: %s" % (type(error).__name__, error)).split())[:500])
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool: list(pool.map(one, range(count)))
    row = {"what": what, "asked": count, "failed": len(wrong), "seconds": time.monotonic() - began, "why": wrong[0] if wrong else None}
    print(json.dumps(row), flush=True)

of_each = calls // 4
tried("unary", unary, of_each)
tried("server stream", down, of_each)
tried("client stream", up, of_each)
tried("both ways", both, calls - 3 * of_each)
tried("status and its words", status, 10)
tried("deadlines", deadline, 4)
tried("cancelled", cancel, 4)
for one in channels: one.close()
