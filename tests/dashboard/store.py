"""A Redis server of a test's own, and a job in it as its agents and the watch in charge write (src/notice/message/messages.h)."""
import json
import os
import shutil
import socket
import struct
import subprocess
import time

from runner import folder

unix = os.path.join(folder, "redis.sock")
url = "unix:" + unix if shutil.which("redis-server") else None


def start_server():
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", unix, "--save", "", "--appendonly", "no", "--dir", folder],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(200):
        if os.path.exists(unix):
            return server
        time.sleep(0.05)
    raise RuntimeError("redis-server does not begin")


STATUS = {"state": "tracking", "slow": False, "nodes": 125, "ranks": 1000, "period_calls": 2, "iterations": 10, "iteration_ms": 100.0, "level_ms": 100.0,
          "healthy_ms": None, "onset_iteration": None, "suspects": [], "verdicts": [], "calls": 5, "records_lost": 0, "holds": 0, "holds_closed": 0,
          "held_ms": 0.0, "onsets": 0, "reliefs": 0, "store_connected": True, "program": "big"}
HEAD = "<IIIIqiiqdd128s72s"  # sl_message_head, of version 2
SEND, CALL = 1, 6  # SL_CALL_MPI_Send, SL_RECORD_CALL


class Store:
    """As the agents write: slackline:JOB:NAME."""

    def __init__(self, job):
        self.socket, self.job = socket.socket(socket.AF_UNIX), job
        self.socket.connect(unix)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        line = self.file.readline()
        if line[:1] == b"-":
            raise RuntimeError(line)
        if line[:1] == b"$" and int(line[1:]) >= 0:
            self.file.read(int(line[1:]) + 2)

    def name(self, key):
        return f"slackline:{self.job}:{key}"

    def set(self, key, value, lasts_ms):
        self.ask("SET", self.name(key), value, "PX", lasts_ms)

    def append(self, log, value):
        self.ask("XADD", self.name(log), "MAXLEN", "~", "8192", "*", "b", value)

    def beat(self, node, ranks, size):
        said = json.dumps({"node": node, "host": node, "clock": "c", "now": 1, "calls": 10, "lost": 0, "validate": 1,
                           "ranks": [{"rank": r, "pid": 1000 + r, "size": size, "period": 2, "cpus": "0"} for r in ranks]})
        self.append("nodes", said)
        self.set(f"node:{node}", said, 5000)

    def iterations_bytes(self, node, blocks):
        """A head of 256 bytes, then blocks of rank, number, ms."""
        head = struct.pack(HEAD, 0x736C6D67, 2, 1, len(blocks), 0, 0, 0, 0, -1, -1, node.encode(), b"")
        return head + b"".join(struct.pack("<iiiiqqqqq", r, 1000 + r, 1, 2, n, n * 10**8, n * 10**8 + int(ms * 1e6), int(ms * 1e6), 64) for r, n, ms in blocks)

    def iterations(self, node, blocks):
        self.append("iterations", self.iterations_bytes(node, blocks))

    def profile_bytes(self, node, turn, rank, sends, last):
        """Sends of a rank: to whom, bytes, ns."""
        head = struct.pack(HEAD, 0x736C6D67, 2, 2, len(sends), turn, rank, int(last), 0, -1, -1, node.encode(), b"")
        return head + b"".join(struct.pack("<BBHiiiQQqqqQ", CALL, SEND, 0, 7, rank, to, 0, size, 1000, 1000 + took, -1, 0) for to, size, took in sends)

    def profile(self, node, turn, rank, sends, last=True):
        self.append("profiles", self.profile_bytes(node, turn, rank, sends, last))

    def status(self, **more):
        self.set("status", json.dumps({**STATUS, **more}), 10000)

    def spoiled_status(self, spoil):
        self.set("status", json.dumps(spoil(STATUS)), 10000)
