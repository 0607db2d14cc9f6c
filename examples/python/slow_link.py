# SPDX-License-Identifier: Apache-2.0
"""A PyTorch pipeline over a slow link, with its own schedule and with schedules planned for that link.

Four processes over Gloo train a small model in f64 with torch.distributed.pipelining. Each op does its real arithmetic and
is then held to --op-ms, so that ranks without their own devices behave like a cluster. The link between ranks 0 and 1 is
emulated: messages over it, in either direction, leave --delay-ms later, and the sender continues meanwhile.

    python3 -m venv env && env/bin/pip install torch ./python
    $ SLACKLINE_LIBRARY=build/libslackline.so env/bin/python examples/python/slow_link.py
    > PyTorch's 1F1B, healthy link 470+-10% ms 450.0 ms
    > PyTorch's 1F1B, slow link 1065+-10% ms 1050.0 ms
    > slackline's plan for the healthy link, slow link 700+-10% ms 680.0 ms
    > slackline's plan for the slow link, slow link 475+-10% ms 450.0 ms
    > loss ... at most 0.0e+00 apart

The times are measured and predicted; the losses of all schedules are the same.
"""
import argparse
import atexit
import os
import queue
import statistics
import sys
import tempfile
import threading
import time
from datetime import timedelta

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

WIDTH, ROWS = 16, 4  # width of a layer, rows of a microbatch

# ---- emulation ------------------------------------------------------------------------------------------------------------


class SlowLink:
    """Sends to `peer` leave `delay` seconds later, in order, from a thread. The sender continues, as it would with a socket that
    has buffered the message. All other sends are unchanged. `blocking`: dist.send, too, which waits for the receiver otherwise."""

    class Sent:
        def wait(self, timeout=None):
            return True

        def is_completed(self):
            return True

    def __init__(self, peer, delay, blocking=False):
        self.peer, self.delay, self.send = peer, delay, dist.isend
        self.waiting = queue.SimpleQueue()
        thread = threading.Thread(target=self.carry, daemon=True)
        thread.start()
        atexit.register(lambda: (self.waiting.put(None), thread.join(10)))  # a process that ends during a send would abort
        # pipelining uses isend under both names
        dist.isend = dist.distributed_c10d.isend = self.isend
        if blocking:
            dist.send = lambda *arguments, **options: self.isend(*arguments, **options).wait()

    def isend(self, tensor, dst=None, group=None, tag=0, group_dst=None):
        if self.delay == 0 or self.peer not in (dst, group_dst):
            return self.send(tensor, dst=dst, group=group, tag=tag, group_dst=group_dst)
        self.waiting.put((time.monotonic() + self.delay, tensor.detach().clone(), dst, group, tag, group_dst))
        return self.Sent()

    def carry(self):
        under_way = []  # tensors must live until the end of their sends
        for due, tensor, dst, group, tag, group_dst in iter(self.waiting.get, None):
            time.sleep(max(0.0, due - time.monotonic()))
            under_way.append((self.send(tensor, dst=dst, group=group, tag=tag, group_dst=group_dst), tensor))
            under_way = [(work, kept) for work, kept in under_way if not work.is_completed()]


class Held(torch.autograd.Function):
    """Takes `op` seconds in the forward, and twice that in the backward."""
    op = 0.0

    @staticmethod
    def forward(context, x):
        time.sleep(Held.op)
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        time.sleep(2 * Held.op)
        return gradient


class PacedStage(PipelineStage):
    """A stage with ops of at least `op` seconds: F, I and W take one each, a full backward two."""
    op = 0.0

    def held(self, count, work, *arguments, **options):
        until = time.monotonic() + count * self.op
        result = work(*arguments, **options)
        time.sleep(max(0.0, until - time.monotonic()))
        return result

    def forward_one_chunk(self, *arguments, **options):
        return self.held(1, super().forward_one_chunk, *arguments, **options)

    def backward_one_chunk(self, chunk, loss=None, full_backward=True, last_backward=False):
        return self.held(2 if full_backward else 1, super().backward_one_chunk, chunk, loss=loss, full_backward=full_backward,
                         last_backward=last_backward)

    def backward_weight_one_chunk(self, *arguments, **options):
        return self.held(1, super().backward_weight_one_chunk, *arguments, **options)


# ---- one rank --------------------------------------------------------------------------------------------------------------


def layer(stage):
    """A layer with the same weights in every run."""
    torch.manual_seed(100 + stage)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH)).double()


def train(schedule, stage, microbatches, iterations):
    """Seconds of each iteration on the slowest rank, and the mean loss of each (on the last rank)."""
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
    draw = torch.Generator().manual_seed(7)
    x, y = (torch.randn(microbatches * ROWS, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))
    times, losses = [], []
    for _ in range(iterations):
        optimizer.zero_grad()
        found = []
        dist.barrier()
        begin = time.monotonic()
        schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None, losses=found)
        took = torch.tensor(time.monotonic() - begin, dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        optimizer.step()
        times.append(took.item())
        losses.append(torch.stack(found).mean().item() if stage.is_last else None)
    return times, losses


def rank_main(rank, options, runs, store, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=options.ranks, timeout=timedelta(seconds=120))
    link = SlowLink(1 - rank, 0.0) if rank < 2 else None
    PacedStage.op = options.op_ms / 1e3
    loss_of = torch.nn.functional.mse_loss
    for name, delay_ms, plan in runs:
        if link:
            link.delay = delay_ms / 1e3
        stage = PacedStage(layer(rank), rank, options.ranks, torch.device("cpu"))
        if plan is None:
            schedule = Schedule1F1B(stage, options.microbatches, loss_fn=loss_of)
        else:
            schedule = plan.schedule(stage, loss_fn=loss_of)
        times, losses = train(schedule, stage, options.microbatches, options.iterations + 1)
        if rank == options.ranks - 1:
            results.put((name, times[1:], losses))  # the first sets up connections
    dist.barrier()
    dist.destroy_process_group()


# ---- all of them -----------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=12)
    parser.add_argument("--op-ms", type=float, default=10, help="time of an F, I or W")
    parser.add_argument("--delay-ms", type=float, default=60, help="one way, of the link between ranks 0 and 1")
    parser.add_argument("--iterations", type=int, default=7, help="measured, of each run")
    options = parser.parse_args()
    if options.ranks < 2:
        parser.error("a link needs two ranks")
    if options.microbatches < options.ranks:
        parser.error("PyTorch's 1F1B needs as many microbatches as ranks")

    problem = {"pipeline": {"ranks": options.ranks, "microbatches": options.microbatches,
                            "times_ms": {kind: options.op_ms for kind in "FIW"},
                            "links": {"list": [{"between": [0, 1], "latency_ms": 0}]}}}
    slow = {"pipeline.links.list.0.latency_ms": options.delay_ms}
    healthy_plan = slackline.plan(problem, "adaptra")
    slow_plan = slackline.plan(problem, "adaptra", changes=slow)
    ours, theirs = "slackline's plan", "PyTorch's 1F1B"
    rows = [(f"{theirs}, healthy link", 0.0, None, slackline.plan(problem, "1f1b")),
            (f"{theirs}, slow link", options.delay_ms, None, slackline.plan(problem, "1f1b", changes=slow)),
            (f"{ours} for the healthy link, slow link", options.delay_ms, healthy_plan,
             slackline.simulate(problem, healthy_plan.csv(), changes=slow)),
            (f"{ours} for the slow link, slow link", options.delay_ms, slow_plan, slow_plan)]

    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        runs = [row[:3] for row in rows]
        multiprocessing.spawn(rank_main, (options, runs, os.path.join(folder, "store"), results), nprocs=options.ranks)
    print(f"{'schedule':<48} {'measured':>10} {'predicted':>10} {'forwards held by rank 0':>24}")
    found = []
    for name, _, _, predicted in rows:
        ran, times, losses = results.get()
        assert ran == name
        found.append(losses)
        print(f"{name:<48} {statistics.median(times) * 1e3:>7.1f} ms {predicted.makespan_ms:>7.1f} ms "
              f"{predicted.peak_memory[0]:>24g}")
    apart = max(abs(a - b) for losses in found for a, b in zip(losses, found[0]))
    print(f"loss {found[0][0]:.6f} to {found[0][-1]:.6f}, at most {apart:.1e} apart")
    return 0 if apart <= 1e-12 else 1


if __name__ == "__main__":
    sys.exit(main())
