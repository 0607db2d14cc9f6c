#!/usr/bin/env python3
"""Rails: throughput of one and two next to a plain TCP copy and Open MPI on the same interfaces, the time to resume after the
loss of one, and the cost of delegation when nothing is slow.

Usage: bench/rails/run.py [BUILD_DIR] [--repeat N] [--losses N] [--iterations N] [--write FILE]
Needs network namespaces (root, or CAP_SYS_ADMIN and CAP_NET_ADMIN). Goals: one rail at least 0.9 of plain TCP; two rails of 1 Gbit/s at least 1.85 of one;
delegation at most 2% of a paced iteration. Takes about 10 minutes."""
import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(folder))
from page import finish, machine, source, table
from training import Slackline, pipeline

sys.path.insert(0, os.path.join(source, "tests", "net"))
from lab import Lab, permitted

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--repeat", type=int, default=3)
parser.add_argument("--losses", type=int, default=8, help="losses of each kind")
parser.add_argument("--iterations", type=int, default=25)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
programs = os.path.join(os.path.abspath(arguments.build), "bench")
SIZES = {65536: 4000, 1000000: 250, 16000000: 24}  # bytes of a message: number of messages
port = 5000


def read(out):
    first, *log = out.split("\n")
    seconds, count = first.split()
    return int(count) * 8 / 1e6 / float(seconds), [int(line) for line in log if line]  # Mbit/s


def copy(lab, kind, size, count, rails, meanwhile=None):
    """Mbit/s of bench_copy from host 0 to host 1, and the arrival times of its messages. `meanwhile` is called once the copy runs."""
    global port
    port += 16  # a recently closed port may not be free yet
    words = [os.path.join(programs, "bench_copy"), kind]
    rest = [str(port), str(size), str(count), *(lab.address(1, rail) for rail in range(rails))]
    more = {**os.environ, **({"SL_LOG": "1"} if meanwhile else {})}
    receiver = lab.start(1, [*words, "receive", *rest], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=more)
    said = receiver.stderr.readline()
    if said != "ready\n":
        raise SystemExit(f"bench_copy: {said}")
    sender = lab.start(0, [*words, "send", *rest], stderr=subprocess.DEVNULL, env=more)
    if meanwhile:
        meanwhile()
    out = receiver.communicate(timeout=120)[0]
    if sender.wait() or receiver.returncode:
        raise SystemExit(f"bench_copy {kind} failed: {sender.returncode}, {receiver.returncode}")
    return read(out)


def mpi(lab, size, count, rails):
    interfaces = ",".join(lab.interface(rail) for rail in range(rails))
    with tempfile.TemporaryDirectory() as where:
        words = lab.mpirun(where, (1, 1), [os.path.join(programs, "bench_mpi_copy"), str(size), str(count)], interfaces)
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise SystemExit(f"Open MPI: {done.stderr[-1000:]}")
    return read(done.stdout)[0]


def throughput():
    rows, verdicts = [], []
    for mbit in (1000, None):
        with Lab(rails=2, mbit=mbit) as lab:
            found = {}
            for turn in range(arguments.repeat):
                for size, count in SIZES.items():
                    for rails in (1, 2):
                        print(f"throughput: {mbit or 'unlimited'}, {rails} rails, {size}, turn {turn}", file=sys.stderr)
                        found.setdefault((size, rails, "TCP"), []).append(copy(lab, "tcp", size, count, rails)[0])
                        found.setdefault((size, rails, "MPI"), []).append(mpi(lab, size, count, rails))
                        found.setdefault((size, rails, "ours"), []).append(copy(lab, "endpoint", size, count, rails)[0])
                        found.setdefault((size, rails, "proven"), []).append(copy(lab, "proven", size, count, rails)[0])
        median = {key: statistics.median(values) for key, values in found.items()}
        for size in SIZES:
            for rails in (1, 2):
                tcp, other, ours, proven = (median.get((size, rails, who)) for who in ("TCP", "MPI", "ours", "proven"))
                rows.append((f"{mbit} Mbit/s" if mbit else "unlimited", rails, f"{size / 1e6:g} MB", f"{tcp:.0f}", f"{other:.0f}",
                             f"{ours:.0f}", f"{ours / tcp:.3f}", f"{ours / other:.3f}", f"{proven / ours:.3f}",
                             f"{ours / median[size, 1, 'ours']:.3f}" if rails == 2 else ""))
        least = min(median[size, 1, "ours"] / median[size, 1, "TCP"] for size in SIZES)
        two = min(median[size, 2, "ours"] / median[size, 1, "ours"] for size in SIZES)
        verdicts.append(f"{mbit} Mbit/s: one rail at least {least:.3f} of plain TCP, two rails {two:.3f} of one" if mbit
                        else f"unlimited: one rail at least {least:.3f} of plain TCP")
    return (f"Throughput in Mbit/s, median of {arguments.repeat} turns. {'; '.join(verdicts)} (goals: 0.9 and 1.85).\n\n"
            + table(("a rail", "rails", "message", "plain TCP", "Open MPI", "ours", "ours / TCP", "ours / Open MPI", "`auth: frames` / ours",
                     "two rails / one"), rows))


LOSSES = {"link set down at the sender": lambda lab, rail: lab.down(rail, 0),
          "link set down at the receiver": lambda lab, rail: lab.down(rail, 1),
          "data vanish (blackhole at the sender)": lambda lab, rail: lab.blackhole(rail, 0),
          "acknowledgements vanish (at the receiver)": lambda lab, rail: lab.blackhole(rail, 1)}


def resume():
    """The longest time without a message around and after the loss of one of two rails during a transfer."""
    draw, stalls = random.Random(int(os.environ.get("SL_SEED", "1"))), {name: [] for name in LOSSES}
    with Lab(rails=2, mbit=1000) as lab:
        for turn in range(arguments.losses):
            for name, lose in LOSSES.items():
                print(f"loss: {name}, turn {turn}", file=sys.stderr)
                moment = []

                def meanwhile():
                    time.sleep(draw.uniform(0.3, 0.7))
                    moment.append(time.monotonic_ns())
                    lose(lab, draw.randrange(2))

                _, arrived = copy(lab, "endpoint", 250000, 1000, 2, meanwhile)
                arrived.sort()
                gaps = [b - a for a, b in zip(arrived, arrived[1:]) if b > moment[0]]
                if arrived[0] < moment[0] and gaps:
                    stalls[name].append(max(gaps) / 1e6)
                lab.restore()
    rows = [(name, len(found), f"{statistics.median(found):.0f}", f"{max(found):.0f}") for name, found in stalls.items() if found]
    every = [stall for found in stalls.values() for stall in found]
    rows.append(("all", len(every), f"{statistics.median(every):.0f}", f"{max(every):.0f}"))
    return (f"Time to resume after one of two rails of 1 Gbit/s is lost in mid-transfer: the longest time without a message "
            f"arriving (0.25 MB each, one a ms before), ms. Silence counts as death after 200 ms.\n\n"
            + table(("loss", "number", "median", "worst"), rows))


def delegation():
    """Paced iterations, direct and delegated in turns, for messages of several sizes."""
    cases = [({"width": 64, "context": 32}, 10.0), ({"width": 128, "context": 128}, 10.0), ({"width": 256, "context": 256}, 30.0),
             ({"width": 512, "context": 512}, 240.0)]
    rows = []
    with Slackline(arguments.build) as slackline:
        for sizes, ms in cases:
            times = {"direct": [], "delegated": []}
            model = {"kind": "gpt2", "layers": 4, "heads": 4, **sizes}
            problem = pipeline(4, 12, ms)
            iterations = max(6, int(arguments.iterations * 10 / ms))
            for turn in range(arguments.repeat):
                for transport in times:
                    print(f"delegation: {sizes}, {transport}, turn {turn}", file=sys.stderr)
                    result = slackline.train(problem, schedule="adaptra", iterations=iterations, model=model, transport=transport)
                    times[transport] += result.times(skip=2)
            direct, delegated = (statistics.median(times[key]) for key in ("direct", "delegated"))
            megabytes = sizes["width"] * sizes["context"] * 4 / 1e6
            rows.append((f"{megabytes:g}", f"{ms:g}", f"{1e3 * megabytes / ms:.1f}", f"{direct:.2f}", f"{delegated:.2f}",
                         f"{100 * (delegated / direct - 1):+.2f}"))
    return ("Cost of delegation with nothing slow: 4 ranks on one host, 12 microbatches, F = I = W; direct and delegated in turns "
            "(goal: at most 2 %; the paper: under 5 % up to 30 B, 17 % at 60 B).\n\n"
            + table(("message MB", "op ms", "MB/s a link and direction while it works", "direct ms", "delegated ms", "longer by %"), rows))


why = permitted()
if why:
    print(f"no laboratory: {why}")
    sys.exit(77)
parts = [throughput(), resume(), delegation()]
finish(arguments.write, "Rails", f"""\
`bench/rails/run.py --repeat {arguments.repeat} --losses {arguments.losses} --iterations {arguments.iterations}`, {machine()}. Two hosts are two network
namespaces, a rail is a pair of interfaces between them, shaped by a token bucket or not at all; sender and receiver share the cores. Copies are from memory
to memory, in turns: plain TCP is one connection a rail, ours an endpoint at each end with checksums, acknowledgements and a queue.

""" + "\n".join(parts))
