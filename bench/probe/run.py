#!/usr/bin/env python3
"""The cost of the probe: ns per call, recording (goal: under 100) and with timing off (goal: under 30), and of a test that completes nothing,
which programs make in loops (goal: at most 5); and per event of NCCL. For a run of a real
program: calls x cost over run time (goal: under 0.1%), next to the 95% interval of paired runs (goal: upper end under 1%).

Usage: bench/probe/run.py [BUILD_DIR] [--pairs N] [--ranks N] [--size N] [--no-program] [--write docs/results/evidence/probe.md]
Real programs are LAMMPS (a melting crystal) and hpcc (all of its benchmarks, one of which asks MPI_Testany at every step), Debian's with Open MPI, unchanged; left out, and said
to be, where they are not installed."""
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
parser.add_argument("--steps", type=int, default=1200, help="steps of LAMMPS")
parser.add_argument("--no-program", action="store_true", help="measure only the cost of a call")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()


def calls(probe):
    """The least and median cost of a call for each family; and the least cost of recording over all families."""
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
    heads = ["library", "bare, min", "median", "recording, min", "median", "timing off, min", "median",
             "**recording adds**, min", "median", "**timing off adds**, min", "median"]
    finish(arguments.write, "A call", f"""`bench/probe/run.py`, {machine()}, load {os.getloadavg()[0]:.1f}. The call is an MPI_Send of 8 bytes to
MPI_PROC_NULL, in which the library does next to nothing. Times are in ns: 31 rounds of 200,000 calls on one process, three times in turns. Goals: 100 ns
when recording, 30 ns with timing off.

{table(heads, rows)}""")
    return max(float(row[8]) for row in rows)


def tests(probe):
    """What a test that completes nothing costs: pairs within one process."""
    rows = []
    for family in installed():
        program = os.path.join(probe.folder, f"tested-{family}")
        compile_with(found(MPI[family]["cc"]), os.path.join(here, "tested.c"), program, "-O2", "-ldl")
        environment = probe.environment()[1]
        library = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}[family]
        done = subprocess.run([program, library], capture_output=True, text=True, env=environment, check=True)
        for line in done.stdout.splitlines():
            name, bare, added, low, high = line.split(" ")
            rows.append([name, family, bare, f"{float(added):.1f} ({float(low):.1f} to {float(high):.1f})"])
    finish(arguments.write, "A test that completes nothing", f"""`bench/probe/run.py`, {machine()}, load {os.getloadavg()[0]:.1f}. ns per call on one process: 201 pairs of 20,000 calls each by the program's
name and by the library's own, in turns, under the probe. MPI_Testany of four requests. The last column is the median of the pairs' differences, and their middle half.
Goal: at most 5 ns.

{table(["call", "library", "the library's own", "**the probe adds**"], rows)}""")


def events(probe):
    """What the plug-in costs NCCL per event: pairs within one process, which plays the events."""
    rows, plugin, program = [], os.path.join(os.path.abspath(arguments.build), "libnccl-profiler-slackline.so"), os.path.join(probe.folder, "events")
    compile_with(found(["cc", "gcc", "clang"]), os.path.join(here, "events.c"), program, "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-I", os.path.join(source, "src"),
                 "-I", os.path.join(source, "tests"), "-ldl")
    for timing, when in (("device", "during a profile: all events of a collective"), ("on", "otherwise: start and stop of a collective"), ("off", "the same, timing off")):
        done = subprocess.run([program, plugin], capture_output=True, text=True, env=probe.environment(SLACKLINE_PROBE_TIMING=timing)[1], check=True)
        _, count, bare, added, low, high = done.stdout.split()
        rows.append([when, count, bare, f"{added} ({low} to {high})"])
    finish(arguments.write, "An event of NCCL", f"""`bench/probe/run.py`, {machine()}, load {os.getloadavg()[0]:.1f}. ns per event that the profiler plug-in adds, on one process that plays
NCCL's events (no GPU): 101 pairs of 400 collectives each with the plug-in and with a profiler that does nothing, in turns. The last column is the median of
the pairs' differences, and their middle half.

{table(["when", "events", "a profiler that does nothing", "**the plug-in adds**"], rows)}""")


def hpcc_input(folder):
    with open("/usr/share/doc/hpcc/examples/_hpccinf.txt") as file:
        lines = file.read().splitlines()
    lines[5] = f"{arguments.size}         Ns"
    lines[10], lines[11] = "1            Ps", f"{arguments.ranks}            Qs"
    with open(os.path.join(folder, "hpccinf.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


def lammps_words(folder):
    sys.path.insert(0, os.path.join(source, "tests", "notice", "watch"))
    from real import lammps
    return lammps(folder, 20, arguments.steps)


def hpcc_words(folder):
    hpcc_input(folder)
    return [found(["hpcc"])]


def median_interval(values):
    """The 95% interval of the median by order statistics: a disturbed run moves it only a little."""
    ordered, count, tail, place = sorted(values), len(values), 0, 0
    while tail + math.comb(count, place) / 2**count <= 0.025:
        tail += math.comb(count, place) / 2**count
        place += 1
    return ordered[max(place - 1, 0)], ordered[min(count - place, count - 1)]


def program_row(probe, ns, name, words):
    mpi = MPI["openmpi"]
    command = [found(mpi["run"]), *mpi["options"], "-n", str(arguments.ranks), *words]

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
    low, high = median_interval(change)
    seconds = statistics.median(both[False] for both in pairs)
    least = 100 * (min(both[True] for both in pairs) / min(both[False] for both in pairs) - 1)
    return [name, f"{seconds:.2f}", str(made), f"{ns:.0f}", f"{made * ns * 1e-7 / seconds:.4f}%", f"{statistics.median(change):+.2f}%",
            f"{low:+.2f} to {high:+.2f}%", f"{least:+.2f}%"]


def program_cost(probe, ns):
    if not found(MPI["openmpi"]["run"]):
        return print("Open MPI is not installed: real programs are left out", file=sys.stderr)
    rows = []
    for name, binary, words in (("LAMMPS", "lmp", lammps_words), ("hpcc", "hpcc", hpcc_words)):
        if found([binary]):
            rows.append(program_row(probe, ns, name, words(probe.folder)))
        else:
            print(f"{name} is not installed: left out", file=sys.stderr)
    finish(arguments.write, "Real programs", f"""`bench/probe/run.py --pairs {arguments.pairs} --ranks {arguments.ranks} --size {arguments.size}`, {machine()}, load {os.getloadavg()[0]:.1f}. Debian's programs,
unmodified, on {arguments.ranks} ranks of Open MPI (LAMMPS: {arguments.steps} steps). Each pair is an unwatched and a watched run in random order, timed from start to end. Goals: records x
cost below 0.1%, upper end of the interval below 1% (the paper: 0.39% mean, 1.1% worst). hpcc's random access polls MPI_Test or MPI_Testany
several times per update of about 0.6 µs. A poll makes no record unless something is complete, but costs about 15 ns. All of hpcc's change is
in its two MPIRandomAccess times.

{table(["program", "run, s (median)", "records per rank", "ns each (median of the call above)", "records x cost over run time",
        "change of paired runs, median", "95% interval of the median", "fastest compared with fastest"], rows)}""")


with Probe(arguments.build) as opened:
    cost = calls(opened)
    tests(opened)
    events(opened)
    if not arguments.no_program:
        program_cost(opened, cost)
