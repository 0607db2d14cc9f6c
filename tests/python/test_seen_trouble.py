# labels: slow alone net torch
"""PyTorch over Gloo in real trouble, under `python -m slackline watch`: a pipeline, and DistributedDataParallel, on two nodes (network
namespaces, a torchrun in each), where the way from one to the other gets slow: the link is named; and fully_shard on one node, where a rank gets a
processor quota: the rank is named, with the quota. Both run on, and end well."""
import os
import sys

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
from runner import expect, folder, skip, source
from seeing import TORCHRUN  # goes on under .venv's Python
from star import Star, permitted
from trouble import Quota
from waiting import until

import json
import subprocess

PROGRAM = os.path.join(here, "real_program.py")
LIMIT = 150  # s; for what takes a few
os.environ["PYTHONPATH"] = os.path.join(source, "python")


def watch(name):
    return [sys.executable, "-m", "slackline", "watch", "--http", "off", "--out", os.path.join(folder, name), "--"]


class Run:
    """What was started, as its events tell; ended at the end whatever happens."""

    def __init__(self, name, processes):
        self.name, self.processes, self.stop = name, processes, os.path.join(folder, name + ".stop")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def events(self):
        try:
            with open(os.path.join(folder, self.name, "events.jsonl")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def until(self, holds, what, after=0):
        """How many events there are up to the first behind `after` that holds; None, and a failure: there is none."""
        def found():
            return next((number for number, event in enumerate(self.events()[after:], after + 1) if holds(event)), None)
        until(lambda: found() or any(process.poll() is not None for process in self.processes), LIMIT, 0.1)
        number = found()
        expect(number, f"{self.name}: {what} was not said:\n" + "\n".join(map(json.dumps, self.events())) + "\n" + said(self.name))
        return number

    def ends(self):
        open(self.stop, "w").close()
        codes = [process.wait(60) for process in self.processes]
        expect(codes == [0] * len(codes), f"{self.name}: ended with {codes}\n{said(self.name)}")


def said(name):
    with open(os.path.join(folder, name + ".err")) as file:
        return file.read()


def is_kind(kind):
    return lambda event: event["kind"] == kind


def a_slow_way_between_two_nodes(name, mbit):
    """Ranks 0 and 1 are on one, 2 and 3 on the other; a pipeline sends from 1 to 2 and back, DistributedDataParallel sums over all."""
    way = [1, 2], [0, 3], [0, 2], [1, 3]  # ranks of a node share its card: all these go the slow way
    with Star(hosts=2, mbit=1000) as star:
        words = lambda host: [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "2", "--node-rank", str(host), "--master-addr", star.address(0),
                              "--master-port", "29511", "--no-python", *watch(name), sys.executable, PROGRAM, name, os.path.join(folder, name + ".stop")]
        with open(os.path.join(folder, name + ".err"), "w") as log, \
             Run(name, [star.start(host, words(host), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0"}) for host in (0, 1)]) as run:
            after = run.until(lambda event: event["kind"] == "profiled" and event.get("reference"), "what is healthy")
            if after is None:
                return
            star.slow(0, 1, mbit)
            after = run.until(lambda event: event["kind"] == "verdict" and event.get("link") in way, "the link from rank 1 to rank 2", after)
            if after is None:
                return
            wrong = [event for event in run.events() if event["kind"] == "verdict" and event.get("link") not in (None, *way)]
            expect(not wrong, f"{name}: other links are named: {wrong}")
            star.restore()
            if run.until(is_kind("relief"), "the relief", after):
                run.ends()
    with open(os.path.join(folder, name, "report.json")) as file:
        report = json.load(file)
    expect((report["ranks"], report["nodes"], report["exit_code"]) == (4, 2, 0), f"{name}: {report['ranks']} ranks on {report['nodes']} nodes, {report['exit_code']}")


def process_of(rank):
    """The script's process of a rank."""
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as line, open(f"/proc/{number}/environ", "rb") as environment:
                if PROGRAM.encode() in line.read().split(b"\0") and f"RANK={rank}".encode() in environment.read().split(b"\0"):
                    return int(number)
        except OSError:
            pass
    return None


def test_a_rank_under_a_quota_is_named():
    name = "fsdp"
    with open(os.path.join(folder, name + ".err"), "w") as log, \
         Run(name, [subprocess.Popen([*watch(name), *TORCHRUN, "--standalone", "--nproc-per-node", "4", PROGRAM, "fsdp", os.path.join(folder, name + ".stop")],
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)]) as run:
        after = run.until(lambda event: event["kind"] == "profiled" and event.get("reference"), "what is healthy")
        if after is None:
            return
        with Quota(process_of(2), 0.1):
            after = run.until(lambda event: event["kind"] == "verdict" and event.get("rank") == 2 and "quota" in event["seen"], "rank 2 and its quota", after)
            wrong = [event for event in run.events() if event["kind"] == "verdict" and event.get("rank") not in (None, 2)]
            expect(not wrong, f"{name}: other ranks are named: {wrong}")
        if after and run.until(is_kind("relief"), "the relief", after):
            run.ends()


def test_a_slow_way_between_two_nodes_is_named():
    if why := permitted():
        skip(why)
    a_slow_way_between_two_nodes("pipeline", 100)
    a_slow_way_between_two_nodes("ddp", 20)
