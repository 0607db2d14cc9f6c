#!/usr/bin/env python3
"""The time of adaptra and of the timing model as library calls on one core, and the memory of a large plan.

Usage: bench/planner/speed.py [BUILD_DIR]
Compiles planner.c against the libraries of BUILD_DIR. Goals: 8 ranks, 32 microbatches in 0.3 ms; 64, 1024 in 100 ms;
10 million ops per second through the timing model; `plan` of 128, 2048 within 1 GB."""
import os
import resource
import subprocess
import tempfile

from command import folder, main, source, table

GIGABYTE = 10**9
LARGE = {"ranks": 128, "microbatches": 2048}


def measure(build):
    with tempfile.TemporaryDirectory() as place:
        program = os.path.join(place, "planner")
        libraries = [os.path.join(build, name) for name in ("libsl_plan.a", "libsl_base.a")]
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=c11", "-D_GNU_SOURCE", "-I", os.path.join(source, "src"),
                        os.path.join(folder, "planner.c"), *libraries, "-lyaml", "-ljansson", "-lm", "-ldl", "-lpthread",
                        "-o", program], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def memory_of(command, schedule, output):
    """The command's peak memory in bytes with 1 GB of address space, and whether it succeeded."""
    words = command.arguments("four-ranks.yaml", schedule, LARGE) + ["--format", output, "-o", os.devnull]
    child = subprocess.Popen([command.path, *words], cwd=source, stderr=subprocess.PIPE,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (GIGABYTE, GIGABYTE)))
    error = child.stderr.read().decode().strip()
    _, status, usage = os.wait4(child.pid, 0)
    return usage.ru_maxrss * 1024, status == 0, error


def report(command):
    rows = []
    for line in measure(os.path.dirname(command.path)).splitlines():
        ranks, microbatches, limit, rounds, *times = line.split()
        order, order_least, plan, plan_least, replay, replay_least = map(float, times)
        ops = 3 * int(ranks) * int(microbatches)
        rows.append((ranks, microbatches, ops, limit if limit != "0" else "none", f"{order:.3f}", f"{order_least:.3f}",
                     f"{plan:.3f}", f"{plan_least:.3f}", f"{1e6 * plan_least / ops:.0f}", f"{replay:.3f}",
                     f"{1e-3 * ops / replay_least:.1f}", rounds))
    text = ("## Speed and memory\n\n`bench/planner/speed.py`: library calls on one core, release build; adaptra on uneven stages "
            "with a slow link in the middle. Order: `sl_family.build`; whole plan: `sl_plan_make` (order, checks, lowering, "
            "replay, memory, bound, losses); replay: `sl_replayer_run`, the timing model alone. Goals: 8 x 32 in 0.3 ms, "
            "64 x 1024 in 100 ms, 10 M ops a second through the timing model.\n\n"
            + table(("ranks", "microbatches", "ops", "memory limit", "order ms, median", "least", "whole plan ms, median",
                     "least", "ns an op", "replay ms, median", "replay M ops/s, best", "rounds"), rows))
    rows = []
    for schedule, output in (("adaptra", "json"), ("auto", "text"), ("1f1b", "csv")):
        peak, well, error = memory_of(command, schedule, output)
        line = command.line("four-ranks.yaml", schedule, LARGE)
        rows.append((f"`{line} --format {output} -o /dev/null`", f"{peak / 1e6:.0f}", "yes" if well else f"no: {error}"))
    return text + ("\n128 ranks, 2048 microbatches (786,432 ops) with `ulimit -v` at 1 GB:\n\n"
                   + table(("command", "peak MB", "within 1 GB"), rows) + "\n")


if __name__ == "__main__":
    main(report)
