#!/usr/bin/env python3
"""The planner at the size of the largest jobs: `plan` of 256 ranks with 4 stages each and 4,096 microbatches (12.6 million ops), its file
plain and packed, `topology` of 4,096 hosts in a fat tree with pods and sites, and `balance` for 100,000 replicas. Each row is one call of the
command, with its time and peak memory as the kernel counts them. Prints the section; --write FILE puts it into FILE.

Usage: bench/scale/planning.py [BUILD_DIR] [--write FILE] [--only WORD]   (WORD: rows whose command contains it)"""
import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import finish, machine, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
parser.add_argument("--only", default="")
arguments = parser.parse_args()
COMMAND = "`bench/scale/planning.py build --write docs/results/evidence/scale.md`"
OPS = 256 * 4 * 4096 * 3


def run(words, text=None):
    """(standard output, seconds, bytes of peak memory)"""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        child = subprocess.Popen([os.path.join(arguments.build, "slackline"), *words], stdin=subprocess.PIPE if text else subprocess.DEVNULL,
                                 stdout=output, stderr=errors)  # fmt: skip
        if text:
            child.stdin.write(text.encode())
            child.stdin.close()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        errors.seek(0)
        output.seek(0)
        if child.returncode:
            sys.exit(f"slackline {' '.join(words)}: {errors.read().decode()}")
        return output.read().decode(), seconds, usage.ru_maxrss * 1024


def pipeline(ranks, chunks, microbatches, limit):
    """Equal stages; every 8th link between ranks is slow, as between sites."""
    slow = "".join(f"      - {{between: [{i}, {i + 1}], latency_ms: 5}}\n" for i in range(7, ranks - 1, 8))
    return (f"pipeline:\n  ranks: {ranks}\n  stages: {ranks * chunks}\n  placement: {'loop' if chunks > 1 else 'linear'}\n"
            f"  microbatches: {microbatches}\n  times_ms: {{F: 1, I: 1, W: 1}}\n"
            f"  memory: {{delta: {{F: 1, I: 0, W: -1}}, limit: {limit}}}\n"
            f"  links:\n    default: {{latency_ms: 0.02, transfer_ms: 0.05}}\n    list:\n{slow}")  # fmt: skip


def fat_tree():
    """4,096 hosts: 2 sites of 16 pods of 128 hosts; 64 replicas of 64 stages, slow hosts and congested links among them."""
    draw = random.Random(1)
    slow = {draw.randrange(4096): draw.choice((0.5, 0.7, 0.9)) for _ in range(40)}
    lines = ["parallel: {tensor: 1, data: 64, pipeline: 64}", "batch: {microbatches: 128}", "times_ms: {F: 20, I: 20, W: 20}", "hosts:"]
    lines += [f"  - {{name: node{i}, speed: {slow.get(i, 1)}}}" for i in range(4096)]
    lines += ["links:", "  default: {latency_ms: 5, bandwidth_gbps: 25}", "  groups:"]
    lines += [f"    - {{hosts: 'node[{2048 * site}-{2048 * site + 2047}]', latency_ms: 0.05, bandwidth_gbps: 100}}" for site in range(2)]
    lines += [f"    - {{hosts: 'node[{128 * pod}-{128 * pod + 127}]', latency_ms: 0.01, bandwidth_gbps: 400}}" for pod in range(32)]
    lines += ["  list:"]
    lines += [f"    - {{between: [node{a}, node{a + 64}], latency_ms: 0.02, bandwidth_gbps: 10}}" for a in draw.sample(range(4000), 20)]
    lines += ["model: {layers: 64, width: 8192, context: 8192, vocabulary: 128256}"]
    return "\n".join(lines) + "\n"


def megabytes(count):
    return f"{count / 1e6:,.0f}"


def plans(folder, rows):
    large, linear = os.path.join(folder, "large.yaml"), os.path.join(folder, "linear.yaml")
    with open(large, "w") as file:
        file.write(pipeline(256, 4, 4096, 1300))
    with open(linear, "w") as file:
        file.write(pipeline(128, 1, 2048, 300))
    for name, problem, ops in (("256 x 4 x 4,096", large, OPS), ("128 x 2,048", linear, 128 * 2048 * 3)):
        schedule = "interleaved-1f1b" if problem == large else "adaptra"
        out = os.path.join(folder, "plan.")
        calls = [(f"plan --schedule {schedule}", ["plan", problem, "--schedule", schedule, "--format", "csv", "-o", out + "csv"], "csv"),
                 ("plan (auto)", ["plan", problem, "--format", "csv", "-o", out + "csv"], "csv"),
                 (f"plan --schedule {schedule} -o plan.json", ["plan", problem, "--schedule", schedule, "-o", out + "json"], "json"),
                 (f"plan --schedule {schedule} -o plan.json.gz", ["plan", problem, "--schedule", schedule, "-o", out + "json.gz"], "json.gz"),
                 ("simulate --order plan.csv", ["simulate", problem, "--order", out + "csv", "--format", "csv", "-o", out + "again"], None),
                 ("simulate --order plan.json.gz", ["simulate", problem, "--order", out + "json.gz", "--format", "csv", "-o", out + "again"], None)]  # fmt: skip
        for what, words, ending in calls:
            if arguments.only and arguments.only not in f"{name} {what}":
                continue
            _, seconds, memory = run(words)
            size = megabytes(os.path.getsize(out + ending)) if ending else ""
            rows.append((name, f"`{what}`", f"{seconds:.1f}", megabytes(memory), f"{memory / ops:.0f}", f"{1e9 * seconds / ops:.0f}", size,
                         gap_of(out + ending) if ending in ("json", "json.gz") else ""))
        for ending in ("csv", "json", "json.gz", "again"):
            if os.path.exists(out + ending):
                os.remove(out + ending)


def gap_of(path):
    """From the first lines of the file: the gap to the bound."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        for line in file:
            if '"gap"' in line:
                return f"{100 * float(line.split(':')[1].strip().rstrip(',')):.2f}%"
    return ""


def others(rows):
    answers = []
    if not arguments.only or arguments.only in "topology":
        output, seconds, memory = run(["topology", "-", "--format", "json"], fat_tree())
        answer = json.loads(output)
        answers.append(("`topology`, 4,096 hosts, 2 sites of 16 pods, 64 replicas of 64 stages", f"{seconds:.1f}", megabytes(memory),
                        f"{answer['present_ms']:.0f} to {answer['iteration_ms']:.0f} ms, gap {100 * answer['gap']:.1f}%"))  # fmt: skip
    if not arguments.only or arguments.only in "balance":
        draw = random.Random(1)
        times = ",".join(f"{draw.uniform(5, 15):.6f}" for _ in range(100_000))
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(times)
            file.flush()
            output, seconds, memory = run(["balance", "--microbatches", "3200000", "--times", "@" + file.name])
        answer = json.loads(output)
        answers.append(("`balance`, 100,000 replicas, 3.2 million microbatches", f"{seconds:.2f}", megabytes(memory),
                        f"{answer['even_ms']:.1f} to {answer['makespan_ms']:.1f} ms, optimal"))  # fmt: skip
    return answers


def section():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        plans(folder, rows)
    return (f"{COMMAND}, on {machine()}; simulated, nothing trains. Memory is the peak of the process. 256 x 4 x 4,096: ranks, stages per rank, "
            f"microbatches; a plan has {OPS / 1e6:.1f} million ops.\n\n"
            + table(("ranks, microbatches", "command", "s", "peak MB", "bytes per op", "ns per op", "file MB", "gap"), rows)
            + "\n" + table(("command", "s", "peak MB", "answer"), others(rows)))  # fmt: skip


finish(arguments.write, "Planning", section())
