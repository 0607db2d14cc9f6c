#!/usr/bin/env python3
"""The time to divide microbatches among replicas: slackline next to a heap that assigns one after the other, OR-tools
CP-SAT, scipy's milp (HiGHS) and Falcon's table 6.

Usage: bench/balance/run.py [BUILD_DIR] [--limit SECONDS] [--python FILE] [--write docs/results/evidence/adapting.md]
16 microbatches per replica; times of 10 ms within 2%, one in ten slower by up to 4 times; 31 rounds, each with its own times.
--python: an interpreter with ortools and scipy (python3 -m venv V && V/bin/pip install ortools==9.15.6755 scipy; default
.venv/bin/python). A missing solver is left out, and the page names it. Solvers get the times in whole ns and up to --limit
seconds. Takes two minutes."""
import argparse
import json
import os
import subprocess
import sys

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(folder))
from page import finish, machine, source, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--limit", type=float, default=10.0)
parser.add_argument("--python", default=os.path.join(source, ".venv", "bin", "python"))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

PAPER = {16: 0.01, 32: 0.01, 64: 0.01, 128: 0.11, 256: 6.78, 512: 35.93}  # Falcon, table 6: s
SIZES = [2, *PAPER, 4096, 32768, 100000]
bench = os.path.join(arguments.build, "bench", "bench_balance")
SOLVERS = {"cp-sat": ("CP-SAT", "ortools.sat.python.cp_model"), "milp": ("milp", "scipy.optimize")}


def seconds(micro):
    return f"{micro:.3g} µs" if micro < 1000 else f"{micro / 1e3:.3g} ms" if micro < 1e6 else f"{micro / 1e6:.3g} s"


def call(*words, text=None):
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


def is_there(module):
    return os.path.exists(arguments.python) and subprocess.run([arguments.python, "-c", f"import {module}"],
                                                               capture_output=True).returncode == 0


def solve(solver, replicas, microbatches):
    """A solver's time for one round's times, and its makespan relative to that of `slackline balance`."""
    times = [round(1e6 * float(line)) for line in call(bench, "print", str(replicas)).split()]
    text = "".join(f"{time}\n" for time in times)
    proven, took, makespan = call(arguments.python, os.path.join(folder, "solvers.py"), solver, str(microbatches),
                                  str(arguments.limit), text=text).splitlines()[-1].split()  # HiGHS may print above it
    ours = json.loads(call(os.path.join(arguments.build, "slackline"), "balance", "--microbatches", str(microbatches),
                           "--times", "@-", text=text))["makespan_ms"]
    if int(makespan) < 0:
        return f"no split in {arguments.limit:g} s"
    longer = int(makespan) / ours - 1
    assert longer >= 0, f"{replicas} replicas: {solver} {makespan}, slackline {ours}"
    if proven == "1" and longer < 1e-6:
        return seconds(1e6 * float(took))
    said = seconds(1e6 * float(took)) if proven == "1" else f"not proven in {arguments.limit:g} s"
    return f"{said}, {'the same' if longer == 0 else f'{100 * longer:.2g}% longer'}"


solvers, rows = [name for name in SOLVERS if is_there(SOLVERS[name][1])], []
for size in SIZES:
    line = call(bench, str(size)).split()
    microbatches, ours, most, heap, differ = int(line[1]), float(line[3]), float(line[4]), float(line[6]), int(line[8])
    assert differ == 0, f"{size} replicas: {differ} splits differ from the heap's"
    paper = PAPER.get(size)
    rows.append([size, microbatches, seconds(ours), seconds(most), seconds(heap),
                 *(solve(name, size, microbatches) if 2 < size <= 512 else "-" for name in solvers),
                 f"{paper} s" if paper else "-", f"{paper * 1e6 / ours:,.0f} x" if paper else "-"])
missing = [SOLVERS[name][0] for name in SOLVERS if name not in solvers]
body = f"""`bench/balance/run.py --limit {arguments.limit:g}`, {machine()}.

The exact least largest iteration time, 16 microbatches a replica; times of 10 ms within 2 %, one replica in ten slower by up
to 4 times. Time of one processor, medians and most of 31 rounds, each with times of its own; solvers by the clock, on all
processors. The heap gives one microbatch after the other to the replica that is done first with one more: the same splits in all
rounds. Solvers (OR-tools CP-SAT, scipy's milp with HiGHS) get one round's times in whole ns; none found a shorter
split{", and " + " and ".join(missing) + " was not installed here" if missing else ""}. Falcon's table 6 is a quadratic program on other hardware, and minimises the
variance: for 7 and 11 ms and 4 microbatches that is (2, 2) and 22 ms instead of (3, 1) and 21 ms.

""" + table(["replicas", "microbatches", "slackline", "most", "heap", *(SOLVERS[name][0] for name in solvers), "Falcon, table 6",
             "Falcon / slackline"], rows)
finish(arguments.write, "Microbatch balance", body)
