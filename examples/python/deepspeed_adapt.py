# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's PipelineEngine over a link that becomes slow and recovers: with its own schedule, and with slackline.adapt.

One process per stage, on CPUs over Gloo. The forward of a microbatch takes --op-ms and its backward twice that, as on devices of their own.
The link between stages 0 and 1 is emulated: messages leave --delay-ms later in some steps, and the sender continues meanwhile.

    python3 -m venv env && env/bin/pip install torch==2.13.0 deepspeed==0.19.8 ./python
    $ SLACKLINE_LIBRARY=build/libslackline.so env/bin/python examples/python/deepspeed_adapt.py
    > TrainSchedule as given: ... ms per step, ... ms over the slow link
    > TrainSchedule, adapted: ... ms per step, ... ms over the slow link, ... changes of order
    > losses of 60 steps at most 0.0e+00 apart
"""
import argparse
import os
import statistics
import sys
import time

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from slow_link import SlowLink

WIDTH = 16


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


class Layer(torch.nn.Module):
    def __init__(self, stage):
        super().__init__()
        torch.manual_seed(100 + stage)
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        return Held.apply(self.layers(x))


def slow_link(rank):
    """The link of ranks 0 and 1; None on other ranks. DeepSpeed's own sends wait until the other rank receives."""
    link = SlowLink(1 - rank, 0.0) if rank < 2 else None
    if link:
        dist.send = lambda tensor, dst=None, group=None, tag=0, group_dst=None: link.isend(tensor, dst, group, tag, group_dst).wait()
    return link


def batches(microbatches, step=0):
    """Microbatches of (input, target), for ever."""
    while True:
        draw = torch.Generator().manual_seed(step)
        yield from [tuple(torch.randn(4, WIDTH, generator=draw) for _ in range(2)) for _ in range(microbatches)]
        step += 1


def made(rank, options, adapt):
    """A PipelineEngine of DeepSpeed."""
    os.environ.update(DS_ACCELERATOR="cpu", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(options.port + adapt))
    torch.set_num_threads(1)
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule
    deepspeed.ops.__compatible_ops__.clear()  # compiles nothing
    deepspeed.init_distributed("gloo", verbose=False)
    model = PipelineModule([LayerSpec(Layer, stage) for stage in range(options.ranks)], num_stages=options.ranks, loss_fn=torch.nn.functional.mse_loss,
                           partition_method="uniform")
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config={
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": options.microbatches, "steps_per_print": 10 ** 6})
    return slackline.adapt(engine) if adapt else engine


def rank_main(rank, options, adapt, results):
    Held.op = options.op_ms / 1e3
    engine, link = made(rank, options, adapt), slow_link(rank)
    data, times, losses = batches(options.microbatches), [], []
    for step in range(options.steps):
        if link:
            link.delay = options.delay_ms / 1e3 if options.onset <= step < options.relief else 0.0
        dist.barrier()
        began = time.monotonic()
        losses.append(engine.train_batch(data).item())
        times.append((time.monotonic() - began) * 1e3)
    results.put((rank, times, losses, len(engine.adaptation.swap_ms) if adapt else 0))
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=12)
    parser.add_argument("--op-ms", type=float, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--onset", type=int, default=20, help="step from which the link between ranks 0 and 1 is slow")
    parser.add_argument("--relief", type=int, default=45)
    parser.add_argument("--delay-ms", type=float, default=60)
    parser.add_argument("--port", type=int, default=29561)
    options = parser.parse_args()
    runs = []
    for adapt, name in ((0, " as given"), (1, ", adapted")):
        results = multiprocessing.get_context("spawn").SimpleQueue()
        multiprocessing.spawn(rank_main, (options, adapt, results), nprocs=options.ranks)
        _, times, losses, swaps = min(results.get() for _ in range(options.ranks))
        runs.append(losses)
        print(f"TrainSchedule{name}: {statistics.median(times[options.onset // 2:options.onset] or times):.0f} ms per step, "
              f"{statistics.median(times[options.relief - 8:options.relief]):.0f} ms over the slow link" + (f", {swaps} changes of order" if adapt else ""), flush=True)
    apart = max(abs(a - b) for a, b in zip(*runs))
    print(f"losses of {len(runs[0])} steps at most {apart:.1e} apart")
    return 0 if apart == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
