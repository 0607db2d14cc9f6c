#!/usr/bin/env python3
"""Measured over predicted iteration time of the paced example: healthy, slow, adapted, relieved.

Usage: bench/prediction/run.py [BUILD_DIR] [--repeat N] [--write FILE]
Each figure is the median over those iterations of a phase that have all arrivals within 1 ms. The ratio is the median of
ratios. A run with more than 1% of ops over their pace is invalid, and the bench reports that. Goal on an idle machine: 1.03.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--repeat", type=int, default=3)
parser.add_argument("--write")
arguments = parser.parse_args()

ratios, rows = {}, []
for repeat in range(arguments.repeat):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(arguments.build, "slackline"), "train",
                        os.path.join(source, "examples", "slow-link.yaml"), "--out", folder],
                       check=True, stdout=subprocess.DEVNULL)
        summary = json.load(open(os.path.join(folder, "summary.json")))
    overran = summary["overruns"] / summary["ops"]
    if overran > 0.01:
        print(f"run {repeat}: invalid, {100 * overran:.2f}% of the ops overran their pace", file=sys.stderr)
        continue
    for phase in summary["phases"]:
        ratios.setdefault(phase["phase"], []).append(phase)
    error = summary["arrival_error"]
    rows.append(f"| {repeat} | {summary['scheduling']} | {error['p50_us']:.0f} | {error['p99_us']:.0f} | "
                f"{summary['late_iterations']} of {summary['iterations']} | {100 * overran:.2f}% |")

text = ["| phase | schedule | iterations a run | measured ms | predicted ms | measured / predicted |", "|---|---|---|---|---|---|"]
for phase, runs in ratios.items():
    known = [r for r in runs if r["measured_over_predicted"] is not None]
    if not known:
        continue
    median = lambda key: statistics.median(r[key] for r in known)
    text.append(f"| {phase} | {runs[0]['schedule']} | {median('iterations'):.0f} | {median('time_ms'):.1f} | "
                f"{median('predicted_ms'):.1f} | {median('measured_over_predicted'):.4f} |")
text += ["", "| run | communication thread | arrival error p50 us | p99 us | late iterations | overruns |", "|---|---|---|---|---|---|"] + rows
text = "\n".join(text) + "\n"
print(text, end="")
if arguments.write:
    with open(arguments.write, "w") as file:
        file.write("# Prediction against measurement\n\n`bench/prediction/run.py --repeat %d`, %d cores. Medians over "
                   "runs; iterations with an arrival over 1 ms late are left out of predictions.\n\n%s"
                   % (arguments.repeat, os.cpu_count(), text))
sys.exit(0 if ratios else 1)
