# labels: long alone
"""A job on a Redis server that strangers share: what they order is not done, and is said once and counted; what the job itself
orders is done; and no list of processes, and no environment of a process that is started, shows password or key.

The seal is computed here anew, from what src/notice/store/seal.h says."""
import glob
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
from probing import MPI, found, installed
from runner import build, expect, folder, require, skip
from waiting import until

command = os.path.join(build, "slackline")
require("slackline", "slackline-worker", "libslackline_probe.so", "redis-server")
if "openmpi" not in installed():
    skip("Open MPI is missing")
PASSWORD, KEY = "a-password-nobody-sees", "a-key-that-strangers-lack"
version = re.search(r"^id +(\S+)$", subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout, re.M).group(1)


class Server:
    """redis-server with a password on a free port, and one connection to it."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(["redis-server", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.process.stdin.write(f'port {self.port}\nbind 127.0.0.1\nrequirepass {PASSWORD}\nsave ""\ndir {folder}\n'.encode())
        self.process.stdin.close()
        self.connection = until(self.connect, 20)
        self.file = self.connection.makefile("rb")
        self.ask("AUTH", PASSWORD)

    def connect(self):
        try:
            return socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            return None

    def ask(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.answer()

    def answer(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"$":
            return None if int(rest) < 0 else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(max(int(rest), 0))]
        if kind == b"-":
            raise RuntimeError(line)
        return rest


def seal(name, content, counter):
    head = struct.pack("<8s32s64sQQ", b"slseal1", version.encode(), b"test", 4711, counter)
    text = head + bytes(32) + hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest()
    return head + hmac.new(KEY.encode(), text, hashlib.sha256).digest()


def order(server, name, counter, **what):
    """Appends an order; counter 0: without a seal."""
    content = json.dumps(what).encode()
    server.ask("XADD", name, "*", "b", content, *(["s", seal(name, content, counter)] if counter else []))


def processes():
    """Of all processes that can be seen: words and environment."""
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/cmdline", "rb") as words, open(path + "/environ", "rb") as variables:
                yield int(path[6:]), words.read(), variables.read()
        except OSError:
            pass


def validating():
    return [words for _, words, _ in processes() if b"--validate" in words]


def last_beat(server, name):
    entries = server.ask("XREVRANGE", name, "+", "-", "COUNT", "1")
    return json.loads(entries[0][1][1]) if entries else None


def check(server, folder, watch):
    jobs = until(lambda: [n for n in server.ask("SCAN", "0", "COUNT", "1000")[1] if n.endswith(b":nodes")], 60)
    nodes = jobs[0].decode()
    orders = nodes[:-len("nodes")] + "orders"
    beat = until(lambda: (b := last_beat(server, nodes)) and len(b["ranks"]) == 2 and b["calls"] > 100 and b, 60)
    members = [{"node": beat["node"], "rank": r["rank"], "pid": r["pid"], "gemm": 1} for r in beat["ranks"]]
    soon = {beat["node"]: time.monotonic_ns() + 20 * 10**9}
    wanted = {"kind": "validate", "round": 77, "until": soon, "links": "0-1", "deadline_ms": 15000, "members": members}
    order(server, orders, 0, **wanted)
    order(server, orders, 0, kind="hold", round=78, until=soon)
    time.sleep(1.5)
    expect(not validating(), "a stranger's order starts nothing")
    views = server.ask("EXISTS", nodes[:-len("nodes")] + "views")
    expect(views == b"0", "a stranger's order holds nothing")
    order(server, orders, 1, **wanted)
    expect(until(lambda: len(validating()) == 2, 30), "the job's order is obeyed")
    for pid, words, variables in processes():
        expect(PASSWORD.encode() not in words and KEY.encode() not in words, f"process {pid} shows a secret: {words}")
        expect(PASSWORD.encode() not in variables, f"process {pid} has the password in its environment")
        expect(KEY.encode() not in variables or pid == watch.pid, f"process {pid} has inherited the key: {words}")
    watch.send_signal(signal.SIGTERM)
    _, said = watch.communicate(timeout=120)
    expect(said.count("not sealed with its key") == 1, f"strangers are told of once: {said}")
    with open(os.path.join(folder, "out", "report.json")) as file:
        report = json.load(file)
    expect(report["ranks"] == 2 and report["status"]["calls"] > 100, f"the job was watched: {report}")  # its status may be from after they ended


def test_only_the_jobs_own_orders_are_obeyed_and_no_secret_is_shown():
    program, address = os.path.join(folder, "loop"), os.path.join(folder, "address")
    subprocess.run([found(MPI["openmpi"]["cc"]), "-w", "-O1", "-o", program, os.path.join(here, "loop.c")], check=True)
    server = Server(folder)
    with open(address, "w") as file:
        file.write(f"redis://:{PASSWORD}@127.0.0.1:{server.port}\n")
    run = [found(MPI["openmpi"]["run"]), *MPI["openmpi"]["options"], "-np", "2", program, "100000", "5000"]
    watch = subprocess.Popen([command, "watch", "--redis", "@" + address, "--http", "off", "--out", os.path.join(folder, "out"), "--", *run],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "SLACKLINE_KEY": KEY})
    try:
        check(server, folder, watch)
    finally:
        if watch.poll() is None:
            watch.kill()
            watch.communicate()
        server.process.kill()
        server.process.wait()
