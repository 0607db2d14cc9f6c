#!/usr/bin/env python3
"""Random problems: families, search and own bounds against OR-tools CP-SAT. Prints a table; --write FILE makes the page.

Usage: bench/search/run.py [BUILD_DIR] [--write docs/results/evidence/search.md] [--seed N] [--small N] [--large N]
The small ones (up to 8 ranks, 16 microbatches) have a second of search and then 30 s of CP-SAT to prove the optimum; the
large ones (8 to 16 ranks, 16 to 64 microbatches) ten seconds and 60 s, in which CP-SAT starts from our plan. Without
OR-tools the last columns stay empty. Takes up to a quarter of an hour."""
import argparse
import os
import platform
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
parser.add_argument("--small", type=int, default=120)
parser.add_argument("--large", type=int, default=12)
arguments = parser.parse_args()


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def measure(program, rounds, shape, seconds, exact):
    environment = dict(os.environ, SLACKLINE_SOLVER=os.path.abspath(os.path.join(arguments.build, "slackline-solver")))
    environment.setdefault("VIRTUAL_ENV", os.path.join(source, ".venv"))
    done = subprocess.run([program, str(rounds), str(arguments.seed), *map(str, shape), str(seconds), str(exact)], check=True,
                          capture_output=True, text=True, cwd=source, env=environment)
    rows = []
    for line in done.stdout.splitlines():
        if not line.startswith("#"):
            ranks, microbatches, features, *times = line.split()
            rows.append((int(ranks), int(microbatches), features, *map(float, times)))
    return rows


def percent(values):
    return f"{100 * statistics.mean(values):.3f}% | {100 * max(values):.2f}%" if values else "- | -"


def summary(name, rows):
    """All values are relative to CP-SAT's best order, which is never worse than ours because CP-SAT starts from ours."""
    known = [r for r in rows if r[7] > 0]
    optimal = [r for r in known if abs(r[7] - r[8]) < 1e-6]
    own = sum(abs(r[4] - r[5]) < 1e-6 for r in rows)
    return [f"| {name} | {len(rows)} | {len(optimal)} | {own} | " + percent([r[4] / r[7] - 1 for r in optimal]) + " | " +
            percent([r[4] / r[7] - 1 for r in known]) + " | " + percent([r[3] / r[7] - 1 for r in known if r[3] > 0]) + " | " +
            percent([r[7] / r[5] - 1 for r in known]) + f" | {1e3 * statistics.median(r[6] for r in rows):.1f} |"]


with tempfile.TemporaryDirectory() as folder:
    program = os.path.join(folder, "random")
    libraries = [os.path.join(arguments.build, name) for name in ("libsl_plan.a", "libsl_base.a")]
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c11", "-D_GNU_SOURCE", "-I", os.path.join(source, "src"),
                    os.path.join(here, "random.c"), *libraries, "-lyaml", "-ljansson", "-lm", "-lpthread", "-o", program],
                   check=True)
    text = ["| problems | number | optimum known | proven by own bounds | search above optimum: mean | worst | above CP-SAT's best: "
            "mean | worst | best family above: mean | worst | own bound below: mean | worst | median ms |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    if arguments.small:
        text += summary("up to 8 x 16, 1 s", measure(program, arguments.small, (2, 8, 2, 16), 1, 30))
    if arguments.large:
        large = measure(program, arguments.large, (8, 16, 16, 64), 10, 60)
        text += summary("8-16 x 16-64, 10 s", large)
        text += ["", "| ranks | microbatches | kind | best family ms | search ms | own bound ms | gap | search s | CP-SAT after 60 s ms | its bound ms |",
                 "|---|---|---|---|---|---|---|---|---|---|"]
        text += [f"| {r[0]} | {r[1]} | {r[2]} | {r[3] if r[3] > 0 else 'none fits'} | {r[4]} | {r[5]} | {100 * (r[4] / r[5] - 1):.2f}% | {r[6]:.3f} | "
                 f"{r[7] if r[7] > 0 else ''} | {r[8] if r[8] > 0 else ''} |" for r in large]
    text = "\n".join(text) + "\n"
print(text, end="")
if arguments.write:
    with open(arguments.write, "w") as file:
        file.write("# Search on random problems: all tables\n\n"
                   f"`bench/search/run.py --write docs/results/evidence/search.md` (seed {arguments.seed}) on {processor()}, "
                   f"{os.cpu_count()} cores, release build.\n\n"
                   "Half of the problems have uneven op times, two thirds have slow links (some with transfer times, some on one shared wire), and two thirds have a\n"
                   "memory limit. The search is `optimal` without the exact solver. Then CP-SAT starts from the search's plan, so it is never worse. The optimum is known\n"
                   "if CP-SAT's plan meets its bound. Kind: u uneven or e even times, l slow links, s on one wire, m memory limit. CP-SAT's model of a shared wire allows\n"
                   "more than first come, first served, so those optima remain unknown.\n\n" + text)
sys.exit(0)
