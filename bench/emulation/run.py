#!/usr/bin/env python3
"""Accuracy of emulated links by the method of CrossPipe's appendix F.2, on every path.

Usage: bench/emulation/run.py [BUILD_DIR] [--rounds N] [--write FILE]
Goal: 0.2 ms of latency and 2% of bandwidth, at the median. Takes about four minutes with 60 rounds."""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table

PATHS = {"shared": "direct, one host", "tcp": "direct, two hosts (TCP)", "shared-delegated": "delegated, one host",
         "tcp-delegated": "delegated, two hosts (TCP)"}

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--rounds", type=int, default=60)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

latency, bandwidth, worst = [], [], {"latency": {}, "bandwidth": {}}
for path, name in PATHS.items():
    print(name, file=sys.stderr)
    done = subprocess.run([os.path.join(arguments.build, "bench", "bench_emulation"), path, str(arguments.rounds)],
                          stdout=subprocess.PIPE, text=True)
    done.check_returncode()
    base = {}  # by size, without emulation
    for line in done.stdout.splitlines():
        kind, *numbers = line.split()
        ms, gbps, size, expected, p10, p50, p90, p99 = map(float, numbers)
        size = f"{size / 1e6:g} MB"
        if kind == "ping":
            errors = [1e3 * (p - expected) for p in (p10, p50, p90, p99)]
            latency.append((name, f"{ms:g}", f"{gbps:g}" if gbps else "-", size, f"{expected:.3f}", f"{p50:.3f}",
                            *(f"{e:.0f}" for e in errors), f"{errors[1] - base.setdefault(size, errors[1]):.0f}"))
            if expected:
                worst["latency"][name] = max(worst["latency"].get(name, 0), abs(errors[1]))
        elif gbps:
            errors = [100 * (p / expected - 1) for p in (p10, p50, p90, p99)]
            bandwidth.append((name, f"{gbps:g}", f"{ms:g}", size, f"{expected:.3f}", f"{p50:.3f}",
                              *(f"{e:+.2f}" for e in errors)))
            worst["bandwidth"][name] = max(worst["bandwidth"].get(name, 0), abs(errors[1]))
        else:
            bandwidth.append((name, "-", f"{ms:g}", size, "-", f"{p50:.3f}", "", "", "", ""))

said = "; ".join(f"{name}: {worst['latency'][name]:.0f} us and {worst['bandwidth'][name]:.2f}%" for name in worst["latency"])
finish(arguments.write, "Accuracy of emulated links", f"""\
`bench/emulation/run.py --rounds {arguments.rounds}`, {machine()}. Two processes; what is expected is the emulated latency
and the message's time on the link, nothing subtracted: copying, publishing and waking the waiting thread count as errors. (The paper
subtracts what the path takes without emulation; so does the last column.) Goal: the median within 200 us and 2 %. Worst median of the emulated settings: {said}.

Half a round trip of a ping-pong, ms; errors in us:

{table(("path", "latency ms", "Gbit/s", "message", "expected", "median", "error p10", "p50", "p90", "p99",
        "p50 less the path's own"), latency)}
Messages back-to-back (16, posted ahead): time a message, ms; errors in %. The first row of a path is the path itself:

{table(("path", "Gbit/s", "latency ms", "message", "expected", "median", "error p10", "p50", "p90", "p99"), bandwidth)}""")
