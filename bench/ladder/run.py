#!/usr/bin/env python3
"""The ladder's worst-case cost against the best choice in hindsight, next to Falcon's rule and two naive rules.

Usage: bench/ladder/run.py [BUILD] [--write docs/results/evidence/adapting.md]"""
import argparse
import json
import os
import subprocess
import sys

source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(source, "bench"))
import page  # noqa: E402

SEED, STARTS, STEPS = 1, 40, 20000
FALCON = [2.0, 2.9, 3.7]  # known bounds of its rule for 1 to 3 strategies


def seconds(value):
    return f"{value:.4g} s"


def ladder(rungs):
    return ", ".join(f"{seconds(cost)} leaves {100 * loss:.3g}%" for cost, loss in sorted(rungs))


def report(build):
    command = [os.path.join(build, "bench", "bench_ladder"), str(SEED), str(STARTS), str(STEPS)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    rows = []
    for index, ours in enumerate(found["ours"]):
        proven = 2 if index == 0 else 4
        ratios = [found[rule][index]["ratio"] for rule in ("falcon", "at_once", "never")]
        known = f"{FALCON[index]:.1f}" if index < len(FALCON) else ""
        assert ours["ratio"] <= proven * (1 + 1e-9), ours
        rows.append([index + 1, f"**{ours['ratio']:.2f}**", proven, f"{ratios[0]:.2f}", known, f"{ratios[1]:,.0f}",
                     f"{ratios[2]:,.0f}", ladder(ours["ladder"])])
    head = ["strategies", "ladder, worst found", "proven", "Falcon's rule, worst found", "known of it",
            "the most effective at once", "never", "the ladder's worst case (all is lost without)"]
    words = " ".join(["bench_ladder", *command[1:]])
    return f"""Simulated: exact arithmetic, no run. Lost time and costs together over those of the best choice in hindsight, at the
worst duration of one incident, for the worst ladder that a search finds ({STARTS} x {STEPS:,} steps a cell, seed {SEED}; costs from
1 s to 1 h, a costlier strategy leaves less). The two naive rules have no bound: their columns are for durations from 1 s to a day.
Falcon's rule climbs every rung when the time lost has come to its cost; its supremum is one more than the number of strategies.
`{words}`, through `bench/ladder/run.py`.

{page.table(head, rows)}"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--write", metavar="FILE")
    given = parser.parse_args()
    page.finish(given.write, "The ladder against hindsight", report(given.build))


if __name__ == "__main__":
    main()
