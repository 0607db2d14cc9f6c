# SPDX-License-Identifier: Apache-2.0
"""A script over Gloo that comes to stand in the given way: stands.py KIND RANK [ITERATIONS [PAUSE_MS [LONG_S]]]. RANK makes the mistake in the
middle of a loop of an all_reduce, a ring of isend and recv, and a barrier."""
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from begun import all_have_begun
from torch.nn.parallel import DistributedDataParallel


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.other = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x, both):
        return self.other(self.used(x)) if both else self.used(x)


def spin_forever():
    n = 0
    while True:
        n += 1


def compute_for(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def lock_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def read_nothing():
    end, _ = os.pipe()
    os.read(end, 1)


def mistake(kind, wrong, seconds, groups):
    """Whether the rank leaves the barrier out."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, after = rank == wrong, (wrong + 1) % size
    x = torch.ones(4)
    if kind == "skip-barrier":
        return mine
    if kind == "other-collective" and mine:
        dist.all_reduce(x)
        return True
    if kind == "other-shape":
        dist.all_reduce(torch.ones(0 if mine else 1 << 20))  # Gloo itself ends a job with other sizes
    if kind == "other-root":
        dist.broadcast(torch.ones(1 << 20), src=wrong if mine else after)
    if kind == "receive-without-send" and mine:
        dist.recv(x, src=after, tag=7)
    if kind == "wrong-tag" and mine:
        dist.send(x, dst=after, tag=8)
    if kind == "wrong-tag" and rank == after:
        dist.recv(x, src=wrong, tag=7)
    if kind == "receives":
        dist.recv(x, src=(rank + 1) % size)
    if kind == "cross":
        for group in groups if mine else groups[::-1]:
            dist.all_reduce(x, group=group)
    if kind == "counts" and mine:  # of the microbatches of a pipeline
        dist.recv(x, src=after, tag=1)
    if kind == "ddp":
        model = DistributedDataParallel(Branches())
        model(torch.ones(2, 8), not mine).sum().backward()
    if kind == "stopped" and mine:
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "loop" and mine:
        spin_forever()
    if kind == "lock" and mine:
        lock_twice()
    if kind == "read" and mine:
        read_nothing()
    if kind == "sleep" and mine:
        time.sleep(seconds)
    if kind == "long" and mine:
        compute_for(seconds)
    if kind == "early-end" and mine:
        time.sleep(600)
    return False


def main():
    kind, wrong = sys.argv[1], int(sys.argv[2])
    iterations, pause, seconds = (list(map(float, sys.argv[3:])) + [20, 10, 5][len(sys.argv) - 3:])[:3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(size))) for _ in range(2)]
    all_have_begun()
    for i in range(int(iterations)):
        time.sleep(pause / 1000)
        x = torch.full((16,), float(rank))
        dist.all_reduce(x)
        sent = dist.isend(x, (rank + 1) % size, tag=1)
        dist.recv(x, (rank - 1) % size, tag=1)
        sent.wait()
        if i != int(iterations) // 2 or not mistake(kind, wrong, seconds, groups):
            dist.barrier()
    dist.destroy_process_group()


main()
