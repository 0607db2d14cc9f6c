#!/usr/bin/env python3
"""How long a run takes to continue after the loss of a host: with fewer ranks (elastic), and with all of them on a spare host; and
how long it takes to grow when the host is back.

Usage: bench/elastic/run.py [BUILD_DIR] [--runs N] [--write docs/results/evidence/scale.md]
Two replicas of two ranks on hosts a and b, a and b and a spare c. Hosts are this machine under other names (namespaces, so this needs
root). b is lost after iteration 30: its ranks are killed, and nothing starts there any more. Measured until the first iteration after
that is complete: the pause of 0.5 s, the tests of all hosts, the start, and that iteration. Then b comes back, where there is no spare;
growing is measured by the run itself (event `resized`): checkpoint, end, start, and the extra time of the first iteration. Medians of
N runs (default: 5). Takes two minutes."""
import argparse
import os
import statistics
import sys
import tempfile
import time

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(folder))
from page import finish, machine, source, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
sys.argv = [sys.argv[0], os.path.abspath(arguments.build), source]  # as runner.py reads them
sys.path[:0] = [os.path.join(source, "tests"), os.path.join(source, "tests", "train")]
from elastic import Elastic, layouts  # noqa: E402
from test_restart_hosts import possible  # noqa: E402
from training import until  # noqa: E402

possible() or sys.exit("namespaces for hosts of their own are not permitted (unshare -u -m)")


def continued(run, starts):
    """When the first iteration after the start number `starts` is complete."""
    def is_complete():
        begun = run.events("start")
        return len(begun) >= starts and len(run.metrics()) > begun[starts - 1]["iteration"]
    assert until(is_complete, 60), run.end()
    return time.monotonic()


def lose(elastic, hosts, grows):
    """Seconds to continue, and with `grows` those to grow, both in one run."""
    elastic.hosts.clear()
    with elastic.start(hosts, "parallel.data=2", "elastic.test_every_s=0.5") as run:
        run.await_iteration(30)
        begun = time.monotonic()
        assert elastic.lose(run, "b"), "no rank was on b"
        took = continued(run, 2) - begun
        if not grows:
            return took, None
        assert layouts(run) == ["1x2"], layouts(run)
        elastic.give_back("b")
        assert until(lambda: len(run.events("resized")) == 2, 60), run.end()
        return took, float(run.events("resized")[1]["took_ms"]) / 1e3


with tempfile.TemporaryDirectory(prefix="slackline-elastic-") as place:
    elastic = Elastic(sys.argv[1], source, place, 10000, 2)
    fewer, grown, spare = [], [], []
    for _ in range(arguments.runs):
        took, grow = lose(elastic, "['a:2', 'b:2']", True)
        fewer.append(took)
        grown.append(grow)
        spare.append(lose(elastic, "['a:2', 'b:2', 'c:2']", False)[0])

rows = [[name, f"{statistics.median(took):.2f} s", f"{min(took):.2f} to {max(took):.2f} s"]
        for name, took in (("continue with one replica of two", fewer), ("continue with both, on the spare host", spare),
                           ("grow when the host is back", grown))]
body = f"""Measured: `bench/elastic/run.py`, {machine()}, one machine that plays all hosts, {arguments.runs} runs each. Two replicas of two ranks; a host of two slots is lost.

{table(["", "median", "range"], rows)}

The model is small, so its checkpoint and its first iteration take milliseconds. A large one adds the time to read its checkpoint, which is the same
in both cases, and the work repeated since then."""
finish(arguments.write, "Continuing with fewer hosts", body)
