# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's PipelineEngine over a link that slows down and recovers while the job trains.

One process per stage, on CPUs over Gloo. The forward of a microbatch takes --op-ms and its backward twice that, as on devices of their own.
The link between stages 0 and 1 is emulated: messages leave --delay-ms later, and the sender continues meanwhile. --given trains without slackline.

    python3 -m venv env && env/bin/pip install torch==2.13.0 deepspeed==0.19.8 ./python
    $ SLACKLINE_LIBRARY=build/libslackline.so env/bin/torchrun --nproc-per-node 4 examples/python/deepspeed_adapt.py
    > swap: link 0-1: a message takes ...
    > step 59: ... ms, loss ...
    > ... ms per step, ... ms over the slow link, ... ms after it recovered; ... changes of order

Times are medians. The losses of both are bit-identical.
"""
import argparse
import os
import statistics
import time

import slackline
import torch
import torch.distributed as dist
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


def batches(microbatches, step=0):
    """Microbatches of (input, target), for ever."""
    while True:
        draw = torch.Generator().manual_seed(step)
        yield from [tuple(torch.randn(4, WIDTH, generator=draw) for _ in range(2)) for _ in range(microbatches)]
        step += 1


def engine_of(stages, microbatches):
    """A PipelineEngine of DeepSpeed."""
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule
    deepspeed.ops.__compatible_ops__.clear()  # compiles nothing
    deepspeed.init_distributed("gloo", verbose=False)
    model = PipelineModule([LayerSpec(Layer, stage) for stage in range(stages)], num_stages=stages, loss_fn=torch.nn.functional.mse_loss,
                           partition_method="uniform")
    return deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config={
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": microbatches, "steps_per_print": 10 ** 6})[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--microbatches", type=int, default=12)
    parser.add_argument("--op-ms", type=float, default=10)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--onset", type=int, default=20, help="first step in which the link between ranks 0 and 1 is slow")
    parser.add_argument("--relief", type=int, default=40, help="first step in which it no longer is")
    parser.add_argument("--delay-ms", type=float, default=60)
    parser.add_argument("--given", action="store_true", help="train without slackline")
    options = parser.parse_args()
    os.environ["DS_ACCELERATOR"] = "cpu"
    engine, Held.op = engine_of(int(os.environ["WORLD_SIZE"]), options.microbatches), options.op_ms / 1e3
    if not options.given:
        slackline.adapt(engine, on_event=lambda event: print(f"{event.kind}: {event.text}", flush=True))
    link = SlowLink(1 - dist.get_rank(), 0.0) if dist.get_rank() < 2 else None
    if link:  # DeepSpeed's own sends wait until the other rank receives
        dist.send = lambda tensor, dst=None, group=None, tag=0, group_dst=None: link.isend(tensor, dst, group, tag, group_dst).wait()
    data, times = batches(options.microbatches), []
    for step in range(options.steps):
        if link:
            link.delay = options.delay_ms / 1e3 if options.onset <= step < options.relief else 0.0
        dist.barrier()
        began = time.monotonic()
        loss = engine.train_batch(data).item()
        times.append((time.monotonic() - began) * 1e3)
        if dist.get_rank() == 0:
            print(f"step {step}: {times[-1]:.0f} ms, loss {loss!r}", flush=True)
    if dist.get_rank() == 0:
        healthy, slow, after = (statistics.median(times[max(at - 8, 0):at] or times) for at in (options.onset, options.relief, options.steps))
        changes = 0 if options.given else len(engine.adaptation.swap_ms)
        print(f"{healthy:.0f} ms per step, {slow:.0f} ms over the slow link, {after:.0f} ms after it recovered; {changes} changes of order", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
