#!/usr/bin/env python3
"""Planned orders of messages against PyTorch's own lowering, predicted on random problems in regime fifo. Prints tables; --write FILE makes
the page.

Usage: bench/messages/run.py [BUILD_DIR] [--write docs/results/evidence/messages.md] [--seed N] [--problems N] [--time-limit S] [--before COMMAND]
Each problem is planned with each kind of communicators by `auto`, and its ops are timed again with the messages where PyTorch's lowering puts
them (`simulate` of the CSV without messages). --before: an earlier slackline, whose plans had the messages of PyTorch's lowering."""
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


def problem(draw):
    """2 to 8 ranks, 1 or 2 stages per rank, up to 4 microbatches per rank; messages take up to an op's time."""
    ranks, placement = draw.randint(2, 8), draw.choice(["linear", "loop", "wave"])
    stages = ranks * (1 if placement == "linear" else 2)
    microbatches = ranks * draw.randint(1, 4)
    times = {kind: [draw.randint(4, 9) for _ in range(stages)] for kind in "FIW"}
    memory = f", memory: {{limit: {draw.choice([1.0, 1.5, 2.0]) * stages}}}" if draw.random() < 0.5 else ""
    latency, transfer = draw.choice([0, 0.5, 2, 10]), draw.choice([0.2, 1, 3])
    return (f"pipeline: {{ranks: {ranks}, stages: {stages}, placement: {placement}, microbatches: {microbatches}, times_ms: {json.dumps(times)}, "
            f"links: {{default: {{latency_ms: {latency}, transfer_ms: {transfer}}}}}{memory}, communication: {{regime: fifo, communicators: COMMUNICATORS}}}}\n")


def run(command, *args):
    done = subprocess.run([command, *args], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} {' '.join(args)}: {done.stderr}")
    return done.stdout


def planned(command, file, *more):
    plan = json.loads(run(command, "plan", file, "--schedule", "auto", "--format", "json", *more))
    return plan["makespan_ms"], plan["solve_ms"]


def measure(folder, number, text):
    rows = {}
    for communicators in COMMUNICATORS:
        file, order = os.path.join(folder, f"{number}.yaml"), os.path.join(folder, "order.csv")
        with open(file, "w") as out:
            out.write(text.replace("COMMUNICATORS", communicators))
        limit = ("--time-limit", str(arguments.time_limit))
        makespan, _ = planned(slackline, file, *limit)
        run(slackline, "plan", file, "--schedule", "auto", "--format", "csv", "-o", order, *limit)
        lowered = json.loads(run(slackline, "simulate", file, "--order", order, "--format", "json"))["makespan_ms"]
        _, solve = planned(slackline, file, "--time-limit", "0")
        row = {"planned": makespan, "lowered": lowered, "solve": solve}
        if arguments.before:
            row["before"], _ = planned(arguments.before, file, *limit)
            _, row["before_solve"] = planned(arguments.before, file, "--time-limit", "0")
        rows[communicators] = row
    return rows


def summary(rows):
    lines = ["| communicators | shorter than PyTorch's lowering of the same ops: problems, median, best | " +
             ("than plans before: problems, median, best, worst | time of the families | " if arguments.before else ""),
             "|---|---|" + ("---|---|" if arguments.before else "")]
    for communicators in COMMUNICATORS:
        mine = [row[communicators] for row in rows]
        gain = [one["lowered"] / one["planned"] for one in mine]
        line = f"| {communicators} | {sum(g > 1 + 1e-9 for g in gain)} of {len(gain)}, {statistics.median(gain):.3f}, {max(gain):.3f} |"
        if arguments.before:
            then = [one["before"] / one["planned"] for one in mine]
            time = sum(one["solve"] for one in mine) / sum(one["before_solve"] for one in mine)
            line += (f" {sum(g > 1 + 1e-9 for g in then)} of {len(then)}, {statistics.median(then):.3f}, {max(then):.3f}, {min(then):.3f} | "
                     f"{time:.2f} |")
        lines.append(line)
    return lines


draw = random.Random(arguments.seed)
with tempfile.TemporaryDirectory() as folder:
    rows = [measure(folder, number, problem(draw)) for number in range(arguments.problems)]
print("\n".join(summary(rows)))
