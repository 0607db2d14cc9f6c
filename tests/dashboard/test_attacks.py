# labels: long
"""`slackline dashboard` on an address that others reach, as who has no token would try it: every method, path and way to say a token,
requests that are long, broken, slow or half, many connections, streams that nobody reads. Nothing of the run is said without the
token, others are served meanwhile, memory and files stay bounded."""
import os
import resource
import select
import socket
import sys
import time

sys.dont_write_bytecode = True
from dash import Dashboard, Stream
from folders import Folder
from runner import expect, folder

TOKEN = "abcdefgh-0123456789"
SECRETS = ("1f1b", "a-word-of-the-run", TOKEN, folder)


def raw(port, request, wait=5, end=False):
    """What is answered to bytes; b"" where the connection is closed without a word."""
    parts = []
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as s:
        try:
            s.sendall(request)
            if end:
                s.shutdown(socket.SHUT_WR)
            while part := s.recv(1 << 16):
                parts.append(part)
                if b"\r\n\r\n" in b"".join(parts) and b"Connection: close" not in request:
                    break
        except OSError:  # let go in the middle of it
            pass
        return b"".join(parts)


def ask(port, method, path, *lines):
    return raw(port, "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "Connection: close", "", ""]).encode("latin-1"))


def code_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0


def said_nothing(answer, what):
    expect(not any(secret.encode() in answer for secret in SECRETS), f"{what}: it says something of the run: {answer[:500]!r}")


def test_without_the_token_there_is_401_or_400(d):
    """Without the token there is 401, whatever is asked and however; a broken request is 400 or the end of the connection."""
    paths = ["/", "/events", "/metrics", "/state.json", "/nothing", "//", "/./", "/../", "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "/run.yaml", "/metrics.jsonl",
             "/metrics/", "/metrics%00", "/METRICS", "/state.json/..", "/state.json;x", "*", "http://127.0.0.1/metrics", "/\\..\\run.yaml"]
    for path in paths:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "X"):
            answer = ask(d.port, method, path)
            expect(code_of(answer) in (401, 400), f"{method} {path} without a token: {answer[:100]!r}")
            said_nothing(answer, f"{method} {path}")
    wrong = TOKEN[:-1] + "x"
    for lines in ([f"Authorization: Bearer {wrong}"], [f"Authorization: Bearer {TOKEN}x"], [f"Authorization: Bearer {TOKEN[:-1]}"], [f"Authorization: Bearer  {TOKEN}"], ["Authorization: Bearer"],
                  ["Authorization: Bearer "], [f"Authorization: Basic {TOKEN}"], [f"Authorization: {TOKEN}"], [f"Cookie: slackline-{d.port}={wrong}"], [f"Cookie: token={TOKEN}"],
                  [f"Cookie: slackline-{d.port}="], [f"X-Token: {TOKEN}"], [f"Proxy-Authorization: Bearer {TOKEN}"], [f"Authorization: Bearer {TOKEN.upper()}"],
                  [f"Authorization: Bearer {wrong}", f"Authorization: Basic {TOKEN}"]):
        answer = ask(d.port, "GET", "/state.json", *lines)
        expect(code_of(answer) == 401, f"{lines}: {answer[:100]!r}")
        said_nothing(answer, str(lines))
    for query in (f"token={wrong}", f"token={TOKEN}x", "token", "token=", f"token[]={TOKEN}", f"x=token={TOKEN}", f"token=%00{TOKEN}", f"token={TOKEN}%00x", f"token={wrong}&token={wrong}"):
        answer = ask(d.port, "GET", "/state.json?" + query)
        expect(code_of(answer) in (401, 400), f"?{query}: {answer[:100]!r}")
        said_nothing(answer, query)


def test_with_the_token_all_is_there_and_only_to_be_read(d):
    """With it, by each of the ways, all is there; and still only to be read."""
    for lines, query in (([f"Authorization: Bearer {TOKEN}"], ""), ([f"authorization: bearer {TOKEN}"], ""), ([f"Cookie: a=b; slackline-{d.port}={TOKEN}; c=d"], ""), ([], f"?token={TOKEN}"),
                         ([], f"?a=b&token={TOKEN}")):
        answer = ask(d.port, "GET", "/state.json" + query, *lines)
        expect(code_of(answer) == 200 and b"a-word-of-the-run" in answer, f"{lines} {query}: {answer[:100]!r}")
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
            answer = ask(d.port, method, "/state.json" + query, *lines, "Content-Length: 0")
            expect(code_of(answer) == 405, f"{method} with the token: {answer[:100]!r}")
    bearer = f"Authorization: Bearer {TOKEN}"
    for path in ("/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/run.yaml", "/METRICS", "/metrics/", "//metrics"):
        answer = ask(d.port, "GET", path, bearer)
        expect(code_of(answer) in (400, 404) and b"root:" not in answer and b"pipeline" not in answer, f"{path}: {answer[:100]!r}")
    answer = ask(d.port, "HEAD", "/state.json", bearer)
    expect(code_of(answer) == 200 and answer.split(b"\r\n\r\n", 1)[1] == b"", f"HEAD has no body: {answer[-100:]!r}")
    answer = ask(d.port, "GET", "/", bearer)
    for header in (b"X-Content-Type-Options: nosniff", b"Referrer-Policy: no-referrer", b"Content-Security-Policy: default-src 'none'", b"Cache-Control: no-store"):
        expect(header in answer, f"the page has {header}")
    expect(b"Access-Control" not in answer, "no other origin may read it")


def test_broken_requests_cost_their_sender_the_connection(d):
    """Long, broken and half requests cost their sender his connection."""
    for what, request in (("a long path", b"GET /" + b"a" * 300000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"), ("a long header", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 300000 + b"\r\n\r\n"),
                          ("many headers", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 50000 + b"\r\n"), ("a long token", b"GET /?token=" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
                          ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 4), ("nothing", b"\r\n\r\n\r\n"), ("zeros", b"\0" * 5000), ("no version", b"GET /\r\n\r\n"),
                          ("HTTP/9", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n"), ("a negative length", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"),
                          ("two lengths", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"),
                          ("a chunk that is none", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
                          ("a huge chunk", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
                          ("a body", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2000000)):
        before = time.monotonic()
        answer = raw(d.port, request, wait=15, end=True)
        expect(code_of(answer) != 200 and code_of(answer) < 600, f"{what}: {answer[:100]!r}")
        said_nothing(answer, what)
        expect(time.monotonic() - before < 14, f"{what}: over in time")
        expect(d.process.poll() is None, f"{what}: it still runs")
    expect(code_of(ask(d.port, "GET", f"/state.json?token={TOKEN}")) == 200, "others are served behind all of it")


def is_served(d, limit=20.0, at="127.0.0.1"):
    """How long it took until somebody with the token was served, who comes from the address `at`; None: not within the limit."""
    begin = time.monotonic()
    while time.monotonic() - begin < limit:
        try:
            with socket.create_connection(("127.0.0.1", d.port), timeout=5, source_address=(at, 0)) as s:
                s.sendall(f"GET /metrics?token={TOKEN} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                if s.recv(100).startswith(b"HTTP/1.1 200"):
                    return time.monotonic() - begin
        except OSError:
            pass
        time.sleep(0.2)
    return None


def drip(connections, bytes_of):
    """Sends each its next bytes; those that have ended go out of the list."""
    for s in list(connections):
        try:
            ready, _, _ = select.select([s], [], [], 0)
            if ready and not s.recv(1000):
                raise OSError
            s.send(bytes_of)
        except BlockingIOError:
            pass
        except OSError:
            connections.remove(s)
            s.close()


def test_slow_connections_keep_nobody_out(d):
    """400 connections that say nothing, or a byte each second: others get in at once, and each is let go after a while."""
    before, files = d.memory(), len(os.listdir(f"/proc/{d.process.pid}/fd"))
    many = []
    for _ in range(400):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", d.port))
        many.append(s)
    time.sleep(0.5)
    quiet, dripping = many[::2], many[1::2]
    drip(dripping, b"GET /events HTTP/1.1\r\nHost: x\r\nX-")
    drip(quiet, b"")
    held = len(os.listdir(f"/proc/{d.process.pid}/fd")) - files
    expect(0 < held <= 160, f"{held} connections are held of 400")
    expect(d.memory() - before < 30e6, f"which take {(d.memory() - before) / 1e6:.1f} MB")
    took = is_served(d, 20, "127.0.0.2")
    expect(took is not None and took < 5, f"another address is served while they hang: after {took} s")
    begin = time.monotonic()
    while dripping and time.monotonic() - begin < 60:
        drip(dripping, b"a")
        time.sleep(1)
    expect(not dripping, f"who says a byte a second is let go: {len(dripping)} are not after {time.monotonic() - begin:.0f} s")
    expect(is_served(d, 5) is not None, "and their places are free")
    for s in quiet:
        s.close()


def test_unread_streams_keep_nobody_out(d, run):
    """Streams that are opened and never read, more than there are places."""
    before = d.memory()
    readers = []
    for i in range(100):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.settimeout(5)
        s.connect(("127.0.0.1", d.port))
        s.sendall(f"GET /events?token={TOKEN} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        readers.append(s)
    for _ in range(30):
        run.iterate(1, slow_ranks=set(range(0, 64, 2)) if run.iteration % 2 else ())
        time.sleep(0.1)
    grown = d.memory() - before
    expect(grown < 40e6, f"100 streams that nobody reads take {grown / 1e6:.1f} MB")
    expect(is_served(d, 5) is not None, "others are served meanwhile")
    begin, good = time.monotonic(), None
    while time.monotonic() - begin < 90:  # places are free again when those who take nothing are given up
        good = Stream(d, query=f"?token={TOKEN}")
        for _ in range(20):
            good.read(0.1)
            if good.events or (good.headed and " 503 " in good.head):
                break
        if good.events:
            break
        good.close()
        time.sleep(1)
    expect(good.events, f"a reader who reads finds a place in time: {good.head if good.headed else 'no answer'}")
    print(f"a place for who reads after {time.monotonic() - begin:.0f} s")
    for s in readers + [good]:
        s.close()


def given():
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    path = os.path.join(folder, "run")
    run = Folder(path, pipeline=16, data=4)
    run.hold()
    run.start("a-word-of-the-run")
    run.iterate(12)
    with Dashboard(path, "--token", TOKEN, listen="0.0.0.0:0") as dashboard:
        is_served(dashboard)
        yield dashboard, run
    run.release()
