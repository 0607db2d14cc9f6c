#!/usr/bin/env python3
"""The overhead of the runtime: measured over predicted iteration time of paced runs on perfect links, next to PyTorch's
_PipelineScheduleRuntime over Gloo with ops padded to the same times, on the same orders, in turns.

Usage: bench/overhead/run.py [BUILD_DIR] [--iterations N] [--rounds N] [--write FILE]
PyTorch's side needs .venv (python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt) and is left out
without it, with a note. Goal: at most 1.02. Takes about 5 minutes."""
import argparse
import os
import statistics
import subprocess
import sys

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(folder))
from page import finish, machine, source, table
from training import Slackline, Unavailable, pipeline

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--iterations", type=int, default=20)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

RANKS, MICROBATCHES, MS, SKIP = 4, 12, 10.0, 3
SCHEDULES = [("1f1b", "linear"), ("zb-h1", "linear"), ("interleaved-1f1b", "loop"), ("zb-v", "wave")]
# ops of 10 ms each: a rank with two stages does twice the work
python = os.path.join(source, ".venv", "bin", "python")


def with_torch():
    probe = "import torch, sys; print(torch.__version__); sys.exit(not torch.__version__.startswith('2.13.'))"
    if not os.path.exists(python):
        return None
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def torch_times(slackline, problem, order):
    path = os.path.join(slackline.folder, "torch-order.csv")
    with open(path, "w") as file:
        file.write(order)
    stages = RANKS * (1 if problem.keys["placement"] == "linear" else 2)
    done = subprocess.run([python, os.path.join(folder, "torch_runtime.py"), *map(str, (arguments.iterations, RANKS, stages,
                           MICROBATCHES, *problem.keys["times_ms"].values(), path))], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"PyTorch's side failed:\n{done.stderr[-2000:]}")
    *times, overruns = done.stdout.split("\n")[:-1]
    words = overruns.split()
    return list(map(float, times))[SKIP:], int(words[1]) / int(words[3])


version = with_torch()
if not version:
    print("no .venv with torch 2.13: PyTorch's side is left out", file=sys.stderr)
rows, worst, missing = [], 0, []
with Slackline(arguments.build) as slackline:
    cases = []
    for schedule, placement in SCHEDULES:
        problem = pipeline(RANKS, MICROBATCHES, MS * (1 if placement == "linear" else 2), placement)
        plan, order = slackline.plan(problem, schedule)
        cases.append((schedule, problem, order, slackline.simulate(problem, order)["makespan_ms"], {"ours": [], "torch": []},
                      {"ours": [], "torch": []}))
    for turn in range(arguments.rounds):
        for schedule, problem, order, predicted, times, overruns in cases:
            print(f"round {turn}: {schedule}", file=sys.stderr)
            try:
                result = slackline.train(problem, order=order, iterations=arguments.iterations)
                times["ours"] += [row["time_ms"] for row in result.rows[SKIP:]]  # includes late ones, because PyTorch's are not marked
                overruns["ours"].append(result.overruns())
            except Unavailable as error:
                if turn == 0:
                    missing.append(f"{schedule}: {error}")
            if version:
                found, over = torch_times(slackline, problem, order)
                times["torch"] += found
                overruns["torch"].append(over)
    for schedule, problem, order, predicted, times, overruns in cases:
        cells = [schedule, f"{predicted:.0f}"]
        for side in ("ours", "torch"):
            if not times[side]:
                cells += ["-", "-", "-", "-"]
                continue
            middle = statistics.median(times[side])
            p90 = sorted(times[side])[len(times[side]) * 9 // 10]
            cells += [f"{middle:.1f}", f"{middle / predicted:.4f}", f"{p90 / predicted:.4f}", f"{100 * max(overruns[side]):.2f}"]
            if side == "ours":
                worst = max(worst, middle / predicted)
        rows.append(cells)

finish(arguments.write, "Overhead of the runtime", f"""\
`bench/overhead/run.py --iterations {arguments.iterations} --rounds {arguments.rounds}`, {machine()}. {RANKS} ranks, {MICROBATCHES} microbatches, every op
{MS:g} ms (B 20), links without delay, messages of 8192 bytes; both sides run the same order file in turns, {arguments.rounds} rounds of {arguments.iterations}
iterations, the first {SKIP} of each left out, no other. Time: from the first F of stage 0 to the end of the last op on any rank; predicted:
`slackline simulate`. Ours: `slackline train`, worst median {worst:.4f} (goal: 1.02). PyTorch {version or '(absent)'}: `_PipelineScheduleRuntime` over Gloo, each op padded
to its time by an absolute sleep. Overruns: ops whose real work took longer than their time, in the worst round.

""" + table(("schedule", "predicted ms", "ours ms", "over predicted", "p90", "overruns %", "PyTorch ms", "over predicted", "p90",
             "overruns %"), rows) + "".join(f"- not run by this build: {line}\n" for line in missing))
