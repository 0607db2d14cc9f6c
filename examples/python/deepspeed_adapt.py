# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's PipelineEngine over a link that slows down and recovers while the job trains.

One process per stage, on CPUs over Gloo. The forward of a microbatch takes --op-ms and its backward twice that, as on devices of their own.
The link between stages 0 and 1 is emulated: messages leave --delay-ms later, and the sender continues meanwhile. --given trains without slackline.

    python3 -m venv env && env/bin/pip install torch==2.13.0 deepspeed==0.19.8 ./python
    $ DS_ACCELERATOR=cpu SLACKLINE_LIBRARY=build/libslackline.so env/bin/torchrun --nproc-per-node 4 examples/python/deepspeed_adapt.py
    > swap: link 0-1: a message takes ...
    > step 59: ... ms, loss ...
    > ... ms per step, ... ms over the slow link, ... ms after it recovered; ... changes of order

Times are medians. The losses of both are bit-identical. `batches`, `engine_of` and train_batch are what the job needs without slackline;
slackline.adapt is the one line that it needs with it. All others emulate the devices and the link, and print.
"""
import argparse
import statistics
import time

import deepspeed
import slackline
import torch
import torch.distributed as dist
from deepspeed.pipe import PipelineModule
from slow_link import ROWS, WIDTH, Held, SlowLink, layer


def batches():
    """Microbatches of (input, target), for ever."""
    draw = torch.Generator().manual_seed(7)
    while True:
        yield tuple(torch.randn(ROWS, WIDTH, generator=draw) for _ in range(2))


def engine_of(stages, microbatches):
    layers = [one for stage in range(stages) for one in (layer(stage).float(), Held.apply)]
    model = PipelineModule(layers, num_stages=stages, loss_fn=torch.nn.functional.mse_loss, partition_method="uniform")
    return deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config={
        "train_micro_batch_size_per_gpu": ROWS, "gradient_accumulation_steps": microbatches, "steps_per_print": 10 ** 6})[0]


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
    deepspeed.ops.__compatible_ops__.clear()  # on a CPU, DeepSpeed would compile a collective first
    deepspeed.init_distributed("gloo", verbose=False)
    engine, Held.op = engine_of(dist.get_world_size(), options.microbatches), options.op_ms / 1e3
    if not options.given:
        slackline.adapt(engine, on_event=lambda event: print(f"{event.kind}: {event.text}", flush=True))
    link = SlowLink(1 - dist.get_rank(), 0.0, blocking=True) if dist.get_rank() < 2 else None
    data, times, first = batches(), [], dist.get_rank() == 0
    for step in range(options.steps):
        if link:
            link.delay = options.delay_ms / 1e3 if options.onset <= step < options.relief else 0.0
        dist.barrier()
        began = time.monotonic()
        loss = engine.train_batch(data).item()
        times.append((time.monotonic() - began) * 1e3)
        if first:
            print(f"step {step}: {times[-1]:.0f} ms, loss {loss!r}", flush=True)
    if first:
        healthy, slow, after = (statistics.median(times[max(at - 8, 0):at] or times) for at in (options.onset, options.relief, options.steps))
        changes = 0 if options.given else len(engine.adaptation.swap_ms)
        print(f"{healthy:.0f} ms per step, {slow:.0f} ms over the slow link, {after:.0f} ms after it recovered; {changes} changes of order", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
