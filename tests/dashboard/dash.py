"""A dashboard as a test meets it: started on a free port, asked over plain sockets, its stream read as a browser reads it."""
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
from urllib.parse import urlsplit

from runner import build, expect, require
from waiting import until

require("slackline")
command = os.path.join(build, "slackline")
# The address sanitizer keeps what is freed in a quarantine, 256 MB by default: memory would grow by that much whatever the program does.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1")))}


class Dashboard:
    def __init__(self, *words, listen="127.0.0.1:0", before=()):
        self.process = subprocess.Popen([*before, command, "dashboard", *words, "--listen", listen], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.url = self.process.stdout.readline().strip()
        parts = urlsplit(self.url)
        self.host, self.port, self.query = parts.hostname, parts.port, parts.query

    def ask(self, path="/", method="GET", headers=None):
        """Status, headers, text."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def state(self):
        return json.loads(self.ask("/state.json" + (f"?{self.query}" if self.query else ""))[2])

    def until(self, holds, what, limit=30):
        """The state, once it is as wanted."""
        state = until(lambda: next(filter(holds, [self.state()]), None), limit, 0.05)
        if state is None:
            state = self.state()
            expect(False, f"{what}: not within {limit} s: {state['state']} ({state['why']}) {state['head']} suspects {state['suspects']}")
        return state

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self, with_signal=signal.SIGTERM):
        self.process.send_signal(with_signal)
        code = self.process.wait(20)
        self.errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Stream:
    """A reader of /events: `events` has (id, name, data)."""

    def __init__(self, dashboard, last=None, buffer=None, query=""):
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.connect(("127.0.0.1", dashboard.port))
        resumed = f"Last-Event-ID: {last}\r\n" if last else ""
        self.socket.sendall(f"GET /events{query} HTTP/1.1\r\nHost: localhost\r\n{resumed}\r\n".encode())
        self.raw, self.text, self.headed, self.events, self.ended = b"", "", False, [], False

    def read(self, wait=0.2):
        ready, _, _ = select.select([self.socket], [], [], wait)
        if not ready:
            return
        try:
            part = self.socket.recv(1 << 20)
        except ConnectionError:
            part = b""
        self.ended |= not part
        self.raw += part
        if not self.headed and b"\r\n\r\n" in self.raw:
            head, self.raw = self.raw.split(b"\r\n\r\n", 1)
            self.head, self.headed = head.decode(), True
        while self.headed and (match := re.match(rb"([0-9a-fA-F]+)\r\n", self.raw)):  # chunks
            size = int(match[1], 16)
            if len(self.raw) < match.end() + size + 2 or size == 0:
                break
            self.text += self.raw[match.end():match.end() + size].decode()
            self.raw = self.raw[match.end() + size + 2:]
        while "\n\n" in self.text:
            one, self.text = self.text.split("\n\n", 1)
            fields = dict(line.split(": ", 1) for line in one.split("\n") if ": " in line)
            if "data" in fields:
                self.events.append((fields["id"], fields["event"], json.loads(fields["data"])))

    def until(self, holds, what, limit=30):
        until(lambda: holds(self.events) or self.ended or self.read(), limit, 0)
        met = bool(holds(self.events))
        expect(met, f"{what}: {[(e[0], e[1]) for e in self.events][-5:]}")
        return met

    def close(self):
        self.socket.close()
