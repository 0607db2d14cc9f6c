#!/usr/bin/env python3
"""Op times while messages are sent, by carrier: none, the rank's own network thread, a delegate (the question of Adaptra's
figure 9).

Usage: bench/interference/run.py [BUILD_DIR] [--seconds S] [--rounds N] [--write FILE]
Takes about 4 minutes. The carriers alternate in each round, so that other load on the machine affects all of them equally."""
import argparse
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--seconds", type=float, default=4)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

WHO = {"nobody": "nobody sends", "own": "the rank's network thread", "delegate": "a delegate"}
RATES = (100, 400, 1000)  # MB/s
CASES = [("nobody", 0)] + [(who, rate) for rate in RATES for who in ("own", "delegate")]
found = {case: [] for case in CASES}
for turn in range(arguments.rounds):
    for who, rate in CASES:
        print(f"round {turn}: {who} {rate}", file=sys.stderr)
        done = subprocess.run([os.path.join(arguments.build, "bench", "bench_interference"), who, str(rate),
                               str(arguments.seconds)], stdout=subprocess.PIPE, text=True)
        if done.returncode == 77:
            sys.exit(77)
        done.check_returncode()
        found[who, rate].append(list(map(float, done.stdout.split())))

median = lambda case, column: statistics.median(row[column] for row in found[case])
alone = [median(("nobody", 0), column) for column in range(6)]
longer = lambda case, column: f"{100 * (median(case, column) / alone[column] - 1):+.1f}"
rows = []
for case in CASES:
    who, rate = case
    cells = ["-", "-", "-"] if who == "nobody" else [f"{median(case, 7):.0f}", f"{1e3 * median(case, 6):.0f}", f"{median(case, 8):.2f}"]
    rows.append((WHO[who], rate or "-", cells[0], *(f"{median(case, column):.3f}" for column in (2, 3, 4, 1)), longer(case, 3),
                 longer(case, 1), f"{median(case, 5):.3f}", longer(case, 5), cells[1], cells[2]))
finish(arguments.write, "Interference", f"""\
`bench/interference/run.py --seconds {arguments.seconds:g} --rounds {arguments.rounds}`, {machine()}. A stage of the model (F, I and W of a
microbatch; layers of width 256, 128 tokens; not paced) computes on a core of its own and hands over messages of 1 MB in between, over TCP to a rank that
shares the other cores with whoever else is there. Medians over {arguments.rounds} rounds taken in turns. Handing over is outside of the op: copying
the message, and waiting where the path is slower than the rate. The paper (figure 9, communication on the GPU beside computation): an op of 31 ms takes
61.9 ms.

""" + table(("carried by", "asked MB/s", "carried MB/s", "op ms p10", "p50", "p90", "mean", "p50 longer by %", "mean longer by %",
             "rank's ms an op, handing over included", "longer by %", "handing over us a message", "message arrives after ms"), rows))
