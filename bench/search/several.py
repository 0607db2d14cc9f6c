#!/usr/bin/env python3
"""Problems with memory limits, slow links and 1 to 3 stages per rank: plans of `auto` against the best known.

Usage: bench/search/several.py [BUILD_DIR] [--seconds S] [--seed N] [--first N] [--problems N] [--exact] [--save]
Prints a table of each plan after S seconds on two cores: its value, its distance to the best known value, and the
proven gap. The best known values and bounds of seed 1 are in several.txt, and --save puts better ones there: with
--seconds 60, from longer searches. --exact: with OR-tools CP-SAT if it is installed, as in the command."""
import argparse
import os
import statistics
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
known_file = os.path.join(here, "several.txt")
parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--seconds", type=float, default=1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--first", type=int, default=0)
parser.add_argument("--problems", type=int, default=24)
parser.add_argument("--exact", action="store_true")
parser.add_argument("--save", action="store_true")
arguments = parser.parse_args()


def read_known():
    """{(seed, problem): [best value, best bound]} in ms."""
    known = {}
    for line in open(known_file) if os.path.exists(known_file) else []:
        if not line.startswith("#"):
            seed, problem, value, bound = line.split()
            known[int(seed), int(problem)] = [float(value), float(bound)]
    return known


def write_known(known):
    with open(known_file, "w") as file:
        file.write("# Seed, problem, best known value and bound in ms (several.py --save).\n")
        for (seed, problem), (value, bound) in sorted(known.items()):
            file.write(f"{seed} {problem} {value:.6f} {bound:.6f}\n")


def measure():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "several")
        libraries = [os.path.join(arguments.build, name) for name in ("libsl_plan.a", "libsl_base.a")]
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c11", "-D_GNU_SOURCE", "-I", os.path.join(source, "src"),
                        os.path.join(here, "several.c"), *libraries, "-lyaml", "-ljansson", "-lm", "-lpthread", "-o", program],
                       check=True)
        environment = dict(os.environ, SLACKLINE_SOLVER=os.path.abspath(os.path.join(arguments.build, "slackline-solver")))
        environment.setdefault("VIRTUAL_ENV", os.path.join(source, ".venv"))
        command = [program, *map(str, (arguments.seed, arguments.first, arguments.problems, arguments.seconds,
                                       int(arguments.exact)))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=source, env=environment) as child:
            yield from (line.split() for line in child.stdout)
        if child.returncode:
            raise SystemExit("the measurement failed")


known = read_known()
above, gaps = [], []
print("| | ranks | stages | microbatches | placement | limit | plan ms | above the best known | bound ms | gap | s |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|")
for number, ranks, stages, microbatches, placement, limit, *times in measure():
    value, bound, seconds = map(float, times)
    best = known.setdefault((arguments.seed, int(number)), [value, bound])
    above.append(value / min(best[0], value) - 1)
    gaps.append(value / bound - 1)
    best[:] = min(best[0], value), max(best[1], bound)
    print(f"| {number} | {ranks} | {stages} | {microbatches} | {placement} | {limit} | {value:.3f} | {above[-1]:.2%} | "
          f"{bound:.3f} | {gaps[-1]:.2%} | {seconds:.2f} |", flush=True)
print(f"\nAbove the best known: mean {statistics.mean(above):.3%}, worst {max(above):.2%}. "
      f"Proven gap: mean {statistics.mean(gaps):.2%}, worst {max(gaps):.2%}.")
if arguments.save:
    write_known(known)
