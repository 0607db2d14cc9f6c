#!/usr/bin/env python3
"""What the probe costs: ns a call, recording (goal under 100) and with timing off (goal under 30); and a real program's run:
calls x cost over run time (goal under 0.1 %) beside the 95 % interval of paired runs (upper end under 1 %).

Usage: bench/probe/run.py [BUILD_DIR] [--pairs N] [--ranks N] [--size N] [--no-program] [--write FILE]
The real program is hpcc (Debian's, Open MPI), unchanged; left out, and said to be, where it is not installed."""
import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, source, table  # noqa: E402
sys.path.insert(0, os.path.join(source, "tests", "notice", "probe"))
from probing import MPI, Probe, compile_with, found, installed  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--pairs", type=int, default=10)
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--size", type=int, default=1200, help="order of hpcc's linear system")
parser.add_argument("--no-program", action="store_true", help="only the cost of a call")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()


def calls(probe):
    """Least and median cost of a call for each family; the least recording one of all."""
    rows = []
    for family in installed():
        program = os.path.join(probe.folder, f"cost-{family}")
        compile_with(found(MPI[family]["cc"]), os.path.join(here, "cost.c"), program, "-O2")
        seen = {}
        for _ in range(3):
            for timing in (None, "on", "off"):
                environment = dict(os.environ) if timing is None else probe.environment(SLACKLINE_PROBE_TIMING=timing)[1]
                least, median = map(float, subprocess.run([program], capture_output=True, text=True, env=environment, check=True).stdout.split())
                seen.setdefault(timing, []).append((least, median))
        best = {timing: (min(x[0] for x in runs), statistics.median(x[1] for x in runs)) for timing, runs in seen.items()}
        rows.append([family, *(f"{best[t][i]:.1f}" for t in (None, "on", "off") for i in (0, 1)),
                     f"{best['on'][0] - best[None][0]:.1f}", f"{best['on'][1] - best[None][1]:.1f}",
                     f"{best['off'][0] - best[None][0]:.1f}", f"{best['off'][1] - best[None][1]:.1f}"])
    heads = ["library", "bare, least", "median", "recording, least", "median", "timing off, least", "median",
             "**recording costs**, least", "median", "**timing off costs**, least", "median"]
    finish(arguments.write, "A call", f"""`bench/probe/run.py`, {machine()}, load {os.getloadavg()[0]:.1f}. ns of an MPI_Send of 8 bytes to MPI_PROC_NULL, in which the library does next to
nothing; 31 rounds of 200,000 calls on one process, three times in turns. Goals: 100 ns recording, 30 ns with timing off.

{table(heads, rows)}""")
    return max(float(row[8]) for row in rows)


def hpcc_input(folder):
    with open("/usr/share/doc/hpcc/examples/_hpccinf.txt") as file:
        lines = file.read().splitlines()
    lines[5] = f"{arguments.size}         Ns"
    lines[10], lines[11] = "1            Ps", f"{arguments.ranks}            Qs"
    with open(os.path.join(folder, "hpccinf.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


def program_cost(probe, ns):
    mpi = MPI["openmpi"]
    if not found(["hpcc"]) or not found(mpi["run"]):
        return print("hpcc is not installed: the real program is left out", file=sys.stderr)
    hpcc_input(probe.folder)
    command = [found(mpi["run"]), *mpi["options"], "-n", str(arguments.ranks), found(["hpcc"])]

    def run(watched):
        rings, environment = probe.environment() if watched else (None, dict(os.environ))
        start = time.monotonic()
        done = subprocess.run(command, cwd=probe.folder, env=environment, capture_output=True, text=True)
        took = time.monotonic() - start
        assert done.returncode == 0, done.stderr
        made = 0
        if watched:
            made = max(sum(r.lost + len(r.records) for r in probe.rings(rings) if r.rank == rank) for rank in range(arguments.ranks))
        return took, made
    run(False)
    order, pairs, made = random.Random(1), [], 0
    for _ in range(arguments.pairs):
        both = {}
        for watched in order.sample([False, True], 2):
            both[watched], count = run(watched)
            made = max(made, count)
        pairs.append(both)
    change = [100 * (both[True] / both[False] - 1) for both in pairs]
    mean, half = statistics.mean(change), student(len(change) - 1) * statistics.stdev(change) / math.sqrt(len(change))
    seconds = statistics.median(both[False] for both in pairs)
    finish(arguments.write, "A real program", f"""`bench/probe/run.py --pairs {arguments.pairs} --ranks {arguments.ranks} --size {arguments.size}`, {machine()}, load {os.getloadavg()[0]:.1f}. hpcc of Debian (all of its benchmarks), unchanged, on
{arguments.ranks} ranks of Open MPI; pairs of an unwatched and a watched run, in random order. Goals: calls x cost under 0.1 %, the
interval's upper end under 1 % (the paper: 0.39 % mean, 1.1 % worst).

{table(["run, s (median)", "records of a rank", "ns each (median of the call above)", "records x cost over run time", "change of paired runs, mean", "95 % interval"],
       [[f"{seconds:.2f}", str(made), f"{ns:.0f}", f"{made * ns * 1e-7 / seconds:.4f} %", f"{mean:+.2f} %", f"{mean - half:+.2f} to {mean + half:+.2f} %"]])}""")


def student(freedom):
    """The 97.5 % quantile of Student's t, by Hill's expansion (error under 0.2 % from 4 degrees of freedom on)."""
    z = statistics.NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2) + \
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)


with Probe(arguments.build) as opened:
    cost = calls(opened)
    if not arguments.no_program:
        program_cost(opened, cost)
