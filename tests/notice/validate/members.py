"""Rounds of validation as agents start them: a private store, a process a rank, and the report that they leave there.

    with Store() as store:
        with Round(store, members=4) as round:
            round.start(0, rank=0, words=["--gemm"])      # inside=[...] puts words before the command: another host
            ...
            report = round.report()

Everything that was started is ended by its process id."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from runner import build, require

command = os.path.join(build, "slackline")
JOB = "test"


def need_programs():
    require("slackline", "slackline-worker", "redis-server")


class Store:
    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="slackline-validate-")
        self.path = os.path.join(self.folder, "redis.sock")
        self.url = f"unix:{self.path}"
        self.server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir",
                                        self.folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while True:
            try:
                if self.ask("PING") == "PONG":
                    return self
            except OSError:
                pass
            if time.monotonic() > until or self.server.poll() is not None:
                self.__exit__()
                raise RuntimeError("redis-server does not answer")
            time.sleep(0.02)

    def __exit__(self, *_):
        self.server.kill()
        self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *words):
        """One request in Redis's protocol; a bulk or simple string, or None."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.path)
            message = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            client.sendall(message.encode())
            with client.makefile("rb") as answer:
                line = answer.readline().decode().strip()
                if line.startswith("$"):
                    return None if line == "$-1" else answer.read(int(line[1:])).decode()
                if line.startswith("-"):
                    raise RuntimeError(line)
                return line[1:]

    def value(self, key):
        return self.ask("GET", f"slackline:{JOB}:{key}")


class Round:
    number = 0

    def __init__(self, store, members):
        Round.number += 1
        self.store, self.members, self.number, self.process = store, members, str(Round.number), {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.process.values():
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, member, rank=None, words=(), inside=()):
        self.process[member] = subprocess.Popen(
            [*inside, command, "healthcheck", "--join", self.store.url, "--job", JOB, "--round", self.number, "--member",
             str(member), "--members", str(self.members), "--rank", str(member if rank is None else rank), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def report(self, seconds=60):
        """What stands in the store when all have ended; and the exit codes in .codes, errors in .errors."""
        self.codes, self.errors = {}, {}
        until = time.monotonic() + seconds
        for member, process in self.process.items():
            out, self.errors[member] = process.communicate(timeout=max(0.1, until - time.monotonic()))
            assert out == "", f"member {member} printed {out!r}"
            self.codes[member] = process.returncode
        text = self.store.value(f"validation:{self.number}")
        assert text is not None, f"no report: exit codes {self.codes}, {self.errors}"
        return json.loads(text)


def accused(report):
    """Verdicts that name somebody, as ("device", 2), ("host", 0), ("link", 1, 2, both)."""
    found = []
    for one in report["verdicts"]:
        if one["component"] == "link":
            found.append(("link", *one["link"], one["both"]))
        elif one["component"] != "unknown":
            found.append((one["component"], one["rank"]))
    return found


def doubts(report):
    return [one["why"] for one in report["verdicts"] if one["component"] == "unknown"]


def figures(report):
    """For messages: what was measured."""
    return {"devices": [(d["rank"], round(d["gflops"], 1), d["evidence"]["waited"]) for d in report["devices"]],
            "links": [(l["from"], l["to"], l["latency_ms"], l["gb_per_s"]) for l in report["links"]],
            "verdicts": report["verdicts"]}
