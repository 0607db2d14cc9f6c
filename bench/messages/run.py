#!/usr/bin/env python3
"""Planned orders of messages against PyTorch's own lowering, predicted on random problems in regime fifo. Prints a table; --write FILE makes
the page.

Usage: bench/messages/run.py [BUILD_DIR] [--write docs/results/evidence/messages.md] [--seed N] [--problems N] [--time-limit S] [--before COMMAND]
Each problem is planned with each kind of communicators: as a published schedule for its placement, and by `auto`. The ops of each plan are
timed again with the messages where PyTorch's lowering puts them (`simulate` of the CSV without messages). --before: the command slackline of
an earlier version, whose plans have the messages of PyTorch's lowering; compares plans, and the CPU time of planning without a search."""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import machine, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--problems", type=int, default=60)
parser.add_argument("--time-limit", type=float, default=1)
parser.add_argument("--before")
arguments = parser.parse_args()
slackline = os.path.join(arguments.build, "slackline")
COMMUNICATORS = ["pipeline", "pair", "direction", "kind"]
PUBLISHED = {"linear": "1f1b", "loop": "interleaved-1f1b", "wave": "zb-v"}


def drawn_problem(draw):
    """2 to 8 ranks, 1 or 2 stages per rank, 1 to 4 microbatches per rank; messages take up to an op's time. Without a memory limit, or with
    one that a published schedule keeps."""
    ranks, placement = draw.randint(2, 8), draw.choice(list(PUBLISHED))
    stages = ranks * (1 if placement == "linear" else 2)
    microbatches = ranks * draw.randint(1, 4)
    times = {kind: [draw.randint(4, 9) for _ in range(stages)] for kind in "FIW"}
    limit = draw.choice([1.0, 1.5, 2.0]) * stages
    latency, transfer = draw.choice([0, 0.5, 2, 10]), draw.choice([0.2, 1, 3])
    memory = draw.random() < 0.5
    return placement, {"ranks": ranks, "stages": stages, "placement": placement, "microbatches": microbatches, "times_ms": times,
                       "links": {"default": {"latency_ms": latency, "transfer_ms": transfer}}}, limit if memory else None


def run(command, *args):
    done = subprocess.run([command, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} {' '.join(args)}: {done.stderr}")
    return done.stdout


def planned(command, file, schedule):
    return json.loads(run(command, "plan", file, "--schedule", schedule, "--format", "json", "--time-limit", str(arguments.time_limit)))


def write(folder, pipeline):
    file = os.path.join(folder, "problem.json")
    with open(file, "w") as out:
        json.dump({"pipeline": pipeline}, out)
    return file


def against_lowering(folder, file, schedule):
    """Makespan with PyTorch's lowering of the plan's own ops, relative to the plan's."""
    order, plan = os.path.join(folder, "order.csv"), planned(slackline, file, schedule)
    ops = [[f"{op['stage']}{op['op']}{op['microbatch']}" for op in plan["ops"] if op["rank"] == rank and op["op"] in "FIWB"]
           for rank in range(plan["ranks"])]
    with open(order, "w") as out:
        out.writelines(",".join(row) + "\n" for row in ops)
    lowered = json.loads(run(slackline, "simulate", file, "--order", order, "--format", "json"))["makespan_ms"]
    return lowered / plan["makespan_ms"], plan["makespan_ms"]


def cpu_time(command, file):
    process = subprocess.Popen([command, "plan", file, "--schedule", "auto", "--time-limit", "0"], stdout=subprocess.DEVNULL)
    used = os.wait4(process.pid, 0)[2]
    return used.ru_utime + used.ru_stime


def times_of_planning(file):
    """CPU times of the whole command, which other processes disturb less than its wall time."""
    found = {slackline: [], arguments.before: []}
    for _ in range(5):
        for command, times in found.items():
            times.append(cpu_time(command, file))
    return [min(times) for times in found.values()]


def measure(folder, placement, pipeline, memory):
    rows = {}
    for communicators in COMMUNICATORS:
        pipeline["communication"] = {"regime": "fifo", "communicators": communicators}
        pipeline.pop("memory", None)
        row = {"published": against_lowering(folder, write(folder, pipeline), PUBLISHED[placement])[0]}
        if memory:
            pipeline["memory"] = {"limit": memory}
        file = write(folder, pipeline)
        row["auto"], makespan = against_lowering(folder, file, "auto")
        if arguments.before:
            row["before"] = planned(arguments.before, file, "auto")["makespan_ms"] / makespan
            row["time"] = times_of_planning(file)
        rows[communicators] = row
    return rows


def gain(rows, communicators, what):
    ratios = [row[communicators][what] for row in rows]
    shorter = sum(ratio > 1 + 1e-9 for ratio in ratios)
    return f"{shorter} of {len(ratios)}", *(f"{ratio:.3f}" for ratio in (statistics.median(ratios), max(ratios), min(ratios)))


def summary(rows):
    names = {"published": "a published schedule's ops: PyTorch's lowering / planned", "auto": "the ops of `auto`: PyTorch's lowering / planned",
             "before": "`auto` of the earlier version / `auto`"}
    found = [(names[what], communicators, *gain(rows, communicators, what)) for what in names if what in rows[0]["pipeline"]
             for communicators in COMMUNICATORS]
    lines = table(["makespan", "communicators", "shorter", "median", "best", "worst"], found)
    if arguments.before:
        pairs = {c: [row[c]["time"] for row in rows] for c in COMMUNICATORS}
        lines += ("\nCPU time of planning without a search (the whole command, the least of five), relative to the earlier version, all problems together: " +
                  ", ".join(f"{c} {sum(a for a, _ in pairs[c]) / sum(b for _, b in pairs[c]):.2f}" for c in COMMUNICATORS) + ".\n")
    return lines


def page(lines):
    command = f"bench/messages/run.py --seed {arguments.seed} --problems {arguments.problems} --time-limit {arguments.time_limit:g}"
    return ("# Planned orders of messages: all tables\n\n"
            f"`{command}{' --before COMMAND' if arguments.before else ''} --write docs/results/evidence/messages.md`, on {machine()}. Random "
            "problems: 2 to 8 ranks, linear, loop, and wave, 1 to 4 microbatches per rank, ops of 4 to 9 ms, latencies of 0 to 10 ms, transfers of "
            "0.2 to 3 ms; half of them with a memory limit for `auto`. All makespans are predicted by the timing model.\n\n" + lines)


draw = random.Random(arguments.seed)
with tempfile.TemporaryDirectory() as folder:
    lines = summary([measure(folder, *drawn_problem(draw)) for _ in range(arguments.problems)])
print(lines)
if arguments.write:
    with open(arguments.write, "w") as out:
        out.write(page(lines))
