#!/usr/bin/env python3
"""The cost of recording a PyTorch script's calls over Gloo: us per call with and without the wrappers, in pairs within one
process, so that both run under the same conditions. With one rank, no call waits for another, and the processor time of a call is
measured; with two, its whole time.

Usage: bench/probe/gloo.py [BUILD_DIR] [--calls N] [--pairs N] [--runs N] [--write docs/results/evidence/probe.md]
Runs under .venv's Python (torch 2.13, tests/requirements.txt) where this one has no torch."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, middle, source, table  # noqa: E402

PROGRAM = """
import json, sys, time, torch, torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
calls, pairs = map(int, sys.argv[1:])
torch.set_num_threads(1)
dist.init_process_group("gloo")
x, op = torch.zeros(2), torch.ops._c10d_functional
slackline = sys.modules["_slackline_gloo"]
assert slackline.probe is not None and slackline.kernels
below = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
wrapped = [(place, name, vars(place)[name], vars(place)[name].__wrapped__) for place, name in ((dist, "all_reduce"), (c10d, "all_reduce"))]
wrapped += [method for method in slackline.methods if method[1] in ("allreduce", "wait")]

def put(seen):  # the wrappers, or what they wrap
    for place, name, wrapper, real in wrapped:
        setattr(place, name, wrapper if seen else real)

def reduce(seen):
    for _ in range(calls):
        dist.all_reduce(x)

def later(seen):
    for _ in range(calls):
        dist.all_reduce(x, async_op=True).wait()

def functional(seen):
    reduce, wait = op.all_reduce.default, op.wait_tensor.default
    if seen:
        for _ in range(calls):
            wait(reduce(x, "sum", "0"))
    else:  # the kernel below ours, called in the same way
        for _ in range(calls):
            wait.redispatch(below, reduce.redispatch(below, x, "sum", "0"))

def timed(work, seen):
    put(seen)
    clock = time.thread_time if dist.get_world_size() == 1 else time.perf_counter
    begin = clock()
    work(seen)
    return (clock() - begin) / calls * 1e6

for work in (reduce, later, functional):
    timed(work, True), timed(work, False)
    found = []
    for pair in range(pairs):  # which is first takes turns
        first = timed(work, pair % 2 == 0)
        second = timed(work, pair % 2 == 1)
        found.append((first, second) if pair % 2 else (second, first))  # without, with
    if dist.get_rank() == 0:
        print(json.dumps([work.__name__, found]))
put(True)
dist.destroy_process_group()
"""
WHAT = {"reduce": "all_reduce of 8 bytes", "later": "the same with async_op, and wait", "functional": "the same as a functional collective, and wait"}


def run(python, environment, arguments, ranks):
    """[(us without, us with)] of each pair, by call."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.py")
        with open(program, "w") as file:
            file.write(PROGRAM)
        words = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), program, str(arguments.calls), str(arguments.pairs)]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", metavar="FILE")
    arguments = parser.parse_args()
    python = os.path.join(source, ".venv", "bin", "python")
    if not os.path.exists(python):
        python = sys.executable
    pairs = {(ranks, name): [] for ranks in (1, 2) for name in WHAT}
    for ranks in (1, 2) * arguments.runs:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "SLACKLINE_PROBE": rings,
                           "LD_PRELOAD": os.path.join(os.path.abspath(arguments.build), "libslackline_probe.so"),
                           "PYTHONPATH": os.path.join(source, "python", "slackline", "seen")}
            for name, values in run(python, environment, arguments, ranks).items():
                pairs[ranks, name] += values
    rows = [[str(ranks), WHAT[name], middle([bare for bare, _ in found]), middle([seen for _, seen in found]),
             middle([seen - bare for bare, seen in found]), middle([seen / bare for bare, seen in found])] for (ranks, name), found in pairs.items()]
    heads = ["ranks", "call", "without the wrappers, us", "with them, us", "**added**, us per call", "ratio"]
    finish(arguments.write, "A call over Gloo", f"""`bench/probe/gloo.py`, {machine()}, load {os.getloadavg()[0]:.1f} at its end. Time of a call of
`torch.distributed`, in us: for one rank the processor time of the calling thread, for two ranks the time of the first. {arguments.runs * arguments.pairs} pairs of
{arguments.calls} calls each, with the wrappers and with the wrapped functions, one right after the other in one process ({arguments.runs} processes), in
alternating order. The last two columns compare within pairs. Cells are the median and the middle half. The wrappers are functions
of the probe. An operation that is posted and then waited for also takes calls of Python, and a functional one only those.

{table(heads, rows)}""")


if __name__ == "__main__":
    main()
