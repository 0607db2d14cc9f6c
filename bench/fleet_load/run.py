#!/usr/bin/env python3
"""Live load: a real Redis, the real controller, and the real agents of up to 10,000 nodes on one machine (fleet_load.c). Prints the section;
--write FILE puts it into FILE. --nodes: others than the usual numbers.

Usage: bench/fleet_load/run.py [BUILD_DIR] [--write FILE] [--nodes N,N,...] [--seconds S] [--processes P]"""
import argparse
import json
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import finish, machine, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
parser.add_argument("--nodes", default="100,300,1250,3000,10000")
parser.add_argument("--seconds", type=int, default=60)
parser.add_argument("--processes", type=int, default=1)
arguments = parser.parse_args()


def measure(nodes, per_node, clocks=""):
    words = [os.path.join(arguments.build, "bench", "bench_fleet_load"), nodes, per_node, arguments.processes, arguments.seconds, clocks]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        sys.exit(f"{nodes} nodes: {done.stderr}")
    return json.loads(done.stdout)


def seconds(row, name):
    return f"{row[name]:.1f}" if name in row else "none"


def line(row):
    calm, slow = row["calm"], row["slow"]
    return [row["nodes"], row["ranks"], row["clocks"], f"{calm['requests_per_s']:.0f}", f"{calm['mb_in_per_s'] + calm['mb_out_per_s']:.1f}",
            f"{calm['store_cpu']:.2f}", f"{calm['controller_cpu']:.2f}", f"{slow['controller_cpu']:.2f}", f"{calm['agents_cpu']:.2f}",
            f"{row['agents_late_ms']:.0f}", seconds(row, "onset_s"), seconds(row, "verdict_s")]  # fmt: skip


rows = [measure(int(nodes), 1 if int(nodes) > 1250 else 8) for nodes in arguments.nodes.split(",")]
rows += [measure(nodes, 8, "clocks") for nodes in (100, 1250) if str(nodes) in arguments.nodes.split(",")]
head = ["nodes", "ranks", "clocks", "requests/s", "MB/s", "store", "controller", "controller, slow phase", "all agents", "agents late (ms)",
        "onset after (s)", "verdict after (s)"]  # fmt: skip
text = (f"`bench/fleet_load/run.py build --write docs/results/evidence/scale.md`. Measured on {machine()}, where store, controller and all agents "
        "share the processors.\n\n"
        "A redis-server on a Unix socket, one controller, and the agents of all nodes in one process; an iteration of 200 ms with two calls; from half of the "
        f"{arguments.seconds} s on, one rank computes twice as long. Processor time is in seconds per second. Times are from the onset of the slowdown; the job is not "
        "held. An agent that is late by more than its pace has no processor left on this machine.\n\n" + table(head, [line(row) for row in rows]))  # fmt: skip
finish(arguments.write, "Live load", text)
