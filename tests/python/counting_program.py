"""A program over Gloo with two threads, for test_seen_threads.py: one makes calls of torch.distributed, the other counts. Prints, for each rank, the
longest call in ms and how often the other thread counted in it, of those after the first ones, which import modules; then READY-RANK is made.
LATE=SECONDS: rank 1 comes that late to one call."""
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

what, iterations = sys.argv[1], int(sys.argv[2])
late = float(os.environ.get("LATE", 0))
ticks, over = [], threading.Event()
FIRST = 10


def count():
    while not over.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.002)


def call(rank, x):
    if what == "blocking":
        dist.all_reduce(x)
    elif what == "posted":
        dist.all_reduce(x, async_op=True).wait()
    elif rank == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
    else:
        dist.recv(x, 0)
        dist.send(x, 0)


torch.set_num_threads(1)
counter = threading.Thread(target=count)
counter.start()
dist.init_process_group("gloo")
rank, calls = dist.get_rank(), []
for i in range(iterations):
    time.sleep(late if late and rank == 1 and i == iterations // 2 else 0.005)
    begin = time.monotonic()
    call(rank, torch.ones(4))
    calls.append((time.monotonic() - begin, begin))
    if i == FIRST:
        calls.clear()
        open(f"{os.environ['READY']}-{rank}", "w").close()
over.set()
counter.join()
longest, begin = max(calls)
print(f"rank {rank} longest {1e3 * longest:.0f} counted {sum(begin < tick < begin + longest for tick in ticks)}", flush=True)
dist.destroy_process_group()
