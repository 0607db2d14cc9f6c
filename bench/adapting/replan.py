#!/usr/bin/env python3
"""Plans of a running job with slow links and devices: makespans of planners with increasing effort, against a proven lower
bound, and the cost of their work.

Usage: bench/adapting/replan.py [BUILD_DIR] [--problems N] [--seed N] [--long OPS] [--cost] [--write docs/results/evidence/adapting.md]
Random problems of 4 to 16 ranks and 8 to 64 microbatches, half of them with F = I = W. --long: work of the long search (100
million replayed ops take about a second). --cost: only the cost of work and of whole 5 ms plans. Takes two minutes."""
import argparse
import os
import statistics
import subprocess
import sys

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(folder))
from page import finish, machine, source, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--problems", type=int, default=240)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--long", type=int, default=100_000_000)
parser.add_argument("--cost", action="store_true")
parser.add_argument("--write", metavar="FILE")
given = parser.parse_args()
program = os.path.join(given.build, "bench", "bench_replan")
PLANNERS = ("adaptra", "all families", "5 ms", "1 s")  # columns 5 to 8 of a line, before the bound; times follow


def call(*words):
    return subprocess.run([program, *map(str, words)], check=True, capture_output=True, text=True).stdout.splitlines()


def ratios(rows, planner):
    return [row[5 + planner] / row[9] for row in rows if row[5 + planner] > 0]


def summary(name, rows):
    cells = []
    for planner in range(len(PLANNERS)):
        found = ratios(rows, planner)
        proven = sum(ratio < 1 + 1e-9 for ratio in found)
        cells += [f"{statistics.median(found):.3f} / {statistics.mean(found):.4f} / {max(found):.3f}", proven]
    return [name, len(rows), *cells]


def cost_table():
    rows = [line.split() for line in call("cost")]
    return table(["ranks", "microbatches", "ops", "ns per op replayed", "a plan of 5 ms, ms"], rows)


def section():
    names = call("names")
    troubles, memories = names[:5], names[5:]
    rows = [[float(cell) for cell in line.split()] for line in call(given.problems, given.seed, given.long)]
    head = ["", "problems"] + [cell for planner in PLANNERS for cell in (f"{planner}: median / mean / worst", "proven")]
    by_trouble = table(head, [summary(name, [row for row in rows if row[0] == kind]) for kind, name in enumerate(troubles)] +
                       [summary("all", rows)])
    by_memory = table(head, [summary(name, [row for row in rows if row[1] == kind]) for kind, name in enumerate(memories)])
    unfit = sum(row[5] < 0 for row in rows)
    took = [sorted(row[column] for row in rows) for column in (10, 11)]
    return f"""\
Simulated: `bench/adapting/replan.py --write docs/results/evidence/adapting.md` (seed {given.seed}), {machine()}.

{len(rows)} random problems of 4 to 16 ranks and 8 to 64 microbatches; half have F = I = W = 10 ms, the others 6 to 14 ms per op. A slow
link takes 10 to 60 ms one way, up to 8 ms of them on the wire, in one direction or both; a slow device takes 1.2 to 2 times as
long. Memory is in activations per rank, R the number of ranks. The running order is `adaptra`'s from before the trouble. Planners:
`adaptra` alone (no schedule within the memory: {unfit}), all families and the running order, and `sl_replan` with work for about 5 ms and
about 1 s. Makespans are ratios to the proven lower bound; *proven*: equal to it. The bound is not always reached by the best
schedule.

{by_trouble}
By memory per rank:

{by_memory}
Families take {statistics.median(took[0]):.2f} ms of the processor (median; 95%: {took[0][int(0.95 * len(rows))]:.1f} ms), the plan of 5 ms {statistics.median(took[1]):.2f} ms (95%:
{took[1][int(0.95 * len(rows))]:.1f} ms), less if the bound is met. What work costs (uneven times, two slow links, a slow device, memory R):

{cost_table()}"""


if given.cost:
    print(cost_table(), end="")
else:
    finish(given.write, "Plans of a running job", section())
