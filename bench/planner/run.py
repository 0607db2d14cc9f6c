#!/usr/bin/env python3
"""How long adaptra takes to plan, as a library call: the order alone, and the whole plan with timing, bound and losses.

Usage: bench/planner/run.py [BUILD_DIR] [--write FILE]
Compiles planner.c against the libraries of BUILD_DIR. Goals: 8 ranks, 32 microbatches in 0.3 ms; 64, 1024 in 100 ms.
"""
import argparse
import os
import platform
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
arguments = parser.parse_args()


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


with tempfile.TemporaryDirectory() as folder:
    program = os.path.join(folder, "planner")
    libraries = [os.path.join(arguments.build, name) for name in ("libsl_plan.a", "libsl_base.a")]
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c11", "-D_GNU_SOURCE", "-I", os.path.join(source, "src"),
                    os.path.join(here, "planner.c"), *libraries, "-lyaml", "-ljansson", "-lm", "-lpthread", "-o", program],
                   check=True)
    measured = subprocess.run([program], check=True, capture_output=True, text=True).stdout

text = ["| ranks | microbatches | ops | memory limit | order ms | slowest | whole plan ms | slowest | ns an op | rounds |",
        "|---|---|---|---|---|---|---|---|---|---|"]
for line in measured.splitlines():
    ranks, microbatches, limit, rounds, *times = line.split()
    order, order_worst, plan, plan_worst = map(float, times)
    ops = 3 * int(ranks) * int(microbatches)
    text.append(f"| {ranks} | {microbatches} | {ops} | {limit if limit != '0' else 'none'} | {order:.3f} | {order_worst:.3f} | "
                f"{plan:.3f} | {plan_worst:.3f} | {1e6 * plan / ops:.0f} | {rounds} |")
text = "\n".join(text) + "\n"
print(text, end="")
if arguments.write:
    with open(arguments.write, "w") as file:
        file.write(f"# Time to plan\n\n`bench/planner/run.py --write docs/results/planner.md` on {processor()}, one core, release "
                   "build. Medians of library calls for adaptra on uneven stages with a slow link in the middle: the order "
                   "alone (`sl_family.build`), and the whole plan (`sl_plan_make`: order, checks, lowering, replay, memory, "
                   "bound, losses).\n\n" + text)
sys.exit(0)
