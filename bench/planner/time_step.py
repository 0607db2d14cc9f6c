#!/usr/bin/env python3
"""Adaptra, figure 19: the list schedule made in time steps of delta, against the optimum.

Usage: bench/planner/time_step.py [BUILD_DIR] [--write FILE]      the seed of the random profiles: SL_SEED, default 1
Our list schedule needs no time step. A plan in steps is one for times rounded up to multiples of delta, replayed with the
times themselves."""
import argparse
import math
import os
import random
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table
from adaptra import EXAMPLE
from command import Command, folded

SHAPES = ((3, 6), (4, 12), (6, 24), (8, 32))  # ranks, microbatches
STEPS = (1, 2, 3, 5, 10, 20, 30)  # the longest op in steps
PROFILES = 5
SECONDS = 1.0  # of `optimal`


def profile(draw, ranks, microbatches):
    op = {kind: [round(draw.uniform(5, 15), 1) for _ in range(ranks)] for kind in "FIW"}
    links = [{"between": [r, r + 1], "latency_ms": round(draw.uniform(0, 3), 1)} for r in range(ranks - 1)]
    return {"ranks": ranks, "microbatches": microbatches, "times_ms": op, "links.list": links}


def in_steps(keys, steps):
    delta = max(max(column) for column in keys["times_ms"].values()) / steps

    def up(ms):
        return round(delta * math.ceil(ms / delta - 1e-9), 6)
    return keys | {"times_ms": {kind: [up(ms) for ms in column] for kind, column in keys["times_ms"].items()},
                   "links.list": [link | {"latency_ms": up(link["latency_ms"])} for link in keys["links.list"]]}


parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
command = Command(os.path.abspath(arguments.build))
seed = int(os.environ.get("SL_SEED", "1"))
draw, rows, lines, proven, slowest = random.Random(seed), [], [], 0, 0.0
for shape in SHAPES:
    distances = {steps: [] for steps in (*STEPS, None)}
    for _ in range(PROFILES):
        keys = profile(draw, *shape)
        best = command.plan(EXAMPLE, "optimal", keys, SECONDS)
        exact = command.plan(EXAMPLE, "adaptra", keys)
        slowest = max(slowest, exact["solve_ms"])
        proven += best["gap"] == 0
        known = min(best["makespan_ms"], exact["makespan_ms"])
        for steps in STEPS:
            order = command.call(command.arguments(EXAMPLE, "adaptra", in_steps(keys, steps)) + ["--format", "csv"])
            distances[steps].append(100 * (command.simulate(EXAMPLE, order, keys)["makespan_ms"] / known - 1))
        distances[None].append(100 * (exact["makespan_ms"] / known - 1))
    lines += [command.line(EXAMPLE, "adaptra", keys), command.line(EXAMPLE, "optimal", keys, seconds=SECONDS)]
    rows.append((f"{shape[0]} x {shape[1]}", *(f"{statistics.mean(d):.2f}% ({max(d):.2f}%)" for d in distances.values())))
finish(arguments.write, "Adaptra: figure 19 over the time step", f"""\
`bench/planner/time_step.py`, simulated, {machine()}. The distance of the list schedule to the optimum, mean (worst) of {PROFILES}
random profiles per shape (seed {seed}; op times of 5 to 15 ms, latencies up to 3 ms, no memory limit). Columns: the longest op in
time steps. Plans in steps are made with times rounded up to the step, and replayed with the times themselves. The last
column needs no step. The optimum (`optimal`, {SECONDS:g} s) is proven for {proven} of {PROFILES * len(SHAPES)} profiles. Longest planning time
without steps: {slowest:.2f} ms. Published: below 1% at 30 steps, in less than 100 ms.

""" + table(("ranks x microbatches", *(str(steps) for steps in STEPS), "no step"), rows)
       + folded("commands of the last profile of each shape", lines))
