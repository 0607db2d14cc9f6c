#!/usr/bin/env python3
"""One order with its SEND and RECV cells on real backends, measured and predicted: `slackline train` in regime fifo, MPI_Ssend, and Gloo.

Usage: bench/messages/backends.py [BUILD_DIR] [--iterations N]
Three ranks run gpipe with their receives ahead, as a program might post them. With one communicator for all messages these receives hold the
sends behind them up (340 ms); with more they do not (280 ms). MPI and Gloo run the rows with ops that sleep and a thread per communicator,
which sends and receives in the order of issue. Needs mpicc, mpirun, and PyTorch. Takes about a minute."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import machine, table  # noqa: E402

RANKS, MICROBATCHES, F, B = 3, 4, [40, 20, 40], [10, 10, 10]
ROWS = ["0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3",
        "1RECV_F0,1RECV_F1,1F0,1SEND_F0,1F1,1RECV_F2,1RECV_F3,1SEND_F1,1F2,1SEND_F2,1F3,1SEND_F3,"
        "1RECV_B0,1B0,1RECV_B1,1SEND_B0,1B1,1SEND_B1,1RECV_B2,1B2,1SEND_B2,1RECV_B3,1B3,1SEND_B3",
        "2RECV_F0,2RECV_F1,2F0,2F1,2RECV_F2,2RECV_F3,2F2,2F3,2B0,2SEND_B0,2B1,2SEND_B1,2B2,2SEND_B2,2B3,2SEND_B3"]
COMMUNICATORS = ["pipeline", "pair", "direction", "kind"]
RUN = """
model: {kind: gpt2, layers: 3, width: 64, heads: 4, context: 32}
data: {files: ["%s/docs/*.md"], seed: 1}
parallel: {pipeline: 3}
batch: {microbatches: 4, size: 1}
iterations: %d
schedule: %s
adapt: false
device: {kind: cpu, threads: 1, pace_ms: {F: %s, B: %s, I: 5, W: 5}}
"""


def communicator(kind, rank, peer, sends, name):
    """As regime fifo numbers them (formats.md): of a rank, by peer, direction, and kind of message."""
    parts = {"pipeline": [], "pair": [peer > rank], "direction": [peer > rank, sends], "kind": [peer > rank, sends, name == "F"]}[kind]
    return sum(part << i for i, part in enumerate(parts))


def lines_of(rank, kind):
    """A message's number: microbatch, direction, and the rank it comes from."""
    for cell in ROWS[rank].split(","):
        what, name, microbatch = re.fullmatch(r"\d(SEND_|RECV_|)([FB])(\d)", cell).groups()
        number = lambda sender: (int(microbatch) * 2 + (name == "B")) * RANKS + sender  # noqa: E731
        before = rank - 1 if name == "F" else rank + 1
        if what:
            sends, peer = what == "SEND_", before if what == "RECV_" else 2 * rank - before
            yield f"{'send' if sends else 'receive'} {communicator(kind, rank, peer, sends, name)} {peer} {number(rank if sends else before)}"
        else:
            yield f"op {1000 * (F if name == 'F' else B)[rank]} {number(before) if 0 <= before < RANKS else -1}"


def write_rows(folder, kind):
    for rank in range(RANKS):
        with open(os.path.join(folder, f"row.{rank}"), "w") as out:
            out.writelines(line + "\n" for line in lines_of(rank, kind))


# ---- Gloo: a process per rank

def run_row(lines, distributed, torch):
    """Returns the time of the ops, after all messages."""
    communicators = {int(words[1]) for words in lines if words[0] != "op"}
    arrived, reached, condition = set(), [0], threading.Condition()

    def carry(own):
        data = torch.zeros(8192)
        for i, words in enumerate(lines):
            if words[0] == "op" or int(words[1]) != own:
                continue
            with condition:
                condition.wait_for(lambda i=i: reached[0] > i)
            peer, message = int(words[2]), int(words[3])
            (distributed.send if words[0] == "send" else distributed.recv)(data, peer, tag=message)
            if words[0] == "receive":
                with condition:
                    arrived.add(message)
                    condition.notify_all()

    threads = [threading.Thread(target=carry, args=(own,)) for own in communicators]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for i, words in enumerate(lines):
        with condition:
            reached[0] = i + 1
            condition.notify_all()
            if words[0] == "op":
                condition.wait_for(lambda needed=int(words[2]): needed < 0 or needed in arrived)
        if words[0] == "op":
            time.sleep(int(words[1]) / 1e6)
    took = time.monotonic() - begin
    for thread in threads:
        thread.join()
    return took


def gloo_worker(folder, rank, iterations):
    import torch
    import torch.distributed as distributed
    distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=RANKS)
    with open(os.path.join(folder, f"row.{rank}")) as file:
        lines = [line.split() for line in file]
    for _ in range(iterations):
        distributed.barrier()
        took = torch.tensor(run_row(lines, distributed, torch), dtype=torch.float64)
        distributed.all_reduce(took, op=distributed.ReduceOp.MAX)
        if rank == 0:
            print(f"{1e3 * took.item():.3f}", flush=True)
    distributed.destroy_process_group()


# ---- measuring

def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=170, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def median(text):
    return statistics.median([float(line) for line in text.split()][1:])


def predicted(folder, kind):
    file = os.path.join(folder, "problem.json")
    with open(file, "w") as out:
        json.dump({"pipeline": {"ranks": RANKS, "microbatches": MICROBATCHES, "times_ms": {"F": F, "B": B, "I": 5, "W": 5},
                                "communication": {"regime": "fifo", "communicators": kind}}}, out)
    return json.loads(run(slackline, "simulate", file, "--order", os.path.join(folder, "order.csv"), "--format", "json"))["makespan_ms"]


def ssend(folder):
    return median(run("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n",
                      str(RANKS), os.path.join(folder, "ssend"), folder, str(arguments.iterations)))


def gloo(folder):
    if os.path.exists(os.path.join(folder, "rendezvous")):
        os.remove(os.path.join(folder, "rendezvous"))
    words = [sys.executable, os.path.abspath(__file__), "--iterations", str(arguments.iterations), "--gloo", folder, "--rank"]
    ranks = [subprocess.Popen([*words, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(RANKS)]
    texts = [rank.communicate(timeout=170)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("a rank over Gloo failed")
    return median(texts[0])


def train(folder, kind):
    """From the ops alone: the first begins when the iteration does, after the previous one's updates."""
    file, out = os.path.join(folder, "run.yaml"), os.path.join(folder, "run")
    with open(file, "w") as written:
        written.write(RUN % (source, arguments.iterations, os.path.join(folder, "order.csv"), F, B))
    text = run(slackline, "train", file, "--out", out, "--overwrite", "--set", f"communication={{regime: fifo, communicators: {kind}}}")
    found = re.search(r"ops predicted [\d.]+ ms, measured ([\d.]+) ms", text)
    return float(found.group(1))


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "order.csv"), "w") as out:
            out.writelines(row + "\n" for row in ROWS)
        run("mpicc", "-O2", "-o", os.path.join(folder, "ssend"), os.path.join(here, "ssend.c"), "-lpthread")
        rows = []
        for kind in COMMUNICATORS:
            write_rows(folder, kind)
            times = [predicted(folder, kind), train(folder, kind), ssend(folder), gloo(folder)]
            rows.append((kind, *(f"{ms:.1f}" for ms in times), *(f"{100 * (ms / times[0] - 1):+.1f}%" for ms in times[1:])))
    print(f"On {machine()}; medians of {arguments.iterations - 1} iterations, ms, and their distance from the prediction.\n")
    print(table(["communicators", "predicted", "train", "MPI_Ssend", "Gloo", "train", "MPI_Ssend", "Gloo"], rows))


parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--iterations", type=int, default=11)
parser.add_argument("--gloo", help=argparse.SUPPRESS)
parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
arguments = parser.parse_args()
slackline = os.path.join(arguments.build, "slackline")
if arguments.gloo:
    gloo_worker(arguments.gloo, arguments.rank, arguments.iterations)
else:
    main()
