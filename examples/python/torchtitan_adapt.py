# SPDX-License-Identifier: Apache-2.0
"""Torchtitan's Trainer with its Llama debug model, over a link that slows down and recovers while the job trains.

One process per pipeline rank. torchtitan 0.3.0 expects GPUs, on which this is untested; on CPUs, tests/torch/torchtitan_cpu.py stands
in for what is missing, and runs the example. --frozen measures and reports, but keeps the given order.

    python3 -m venv env && env/bin/pip install torch==2.13.0 torchtitan==0.3.0 ./python
    $ SLACKLINE_LIBRARY=build/libslackline.so env/bin/torchrun --nproc-per-node 4 tests/torch/torchtitan_cpu.py examples/python/torchtitan_adapt.py
    > step 5: ... ms, loss ...
    > swap: link 0-1: a message takes ...
    > 1F1B: ... ms per step, ... ms over the slow link, ... ms after it recovered; ... changes of order

Times are medians. The losses of both are bit-identical. `configuration`, `build` and `train` are the job without slackline; with it, it needs one
line more, `slackline.adapt`. All others emulate the link, and print.
"""
import argparse
import os
import statistics
import time

import slackline
import torch.distributed as dist
from slow_link import SlowLink


def configuration(options):
    """torchtitan's own, as a pipeline. Backwards of recomputed activations cannot be split, so nothing is recomputed."""
    from torchtitan.models.llama3.config_registry import llama3_debugmodel
    config = llama3_debugmodel()
    config.parallelism.pipeline_parallel_degree = int(os.environ["WORLD_SIZE"])
    config.parallelism.pipeline_parallel_schedule = options.schedule
    config.training.local_batch_size, config.training.seq_len, config.training.steps = options.microbatches, 16, options.steps
    config.activation_checkpoint = None
    return config


def measured(trainer, options):
    """Makes the link of ranks 0 and 1 slow in some steps. Returns the times of the steps, which the last rank prints with the losses."""
    link = SlowLink(1 - dist.get_rank(), 0.0) if dist.get_rank() < 2 else None
    times, log, train_step = [], trainer.metrics_processor.log, trainer.train_step

    def timed_step(data):
        if link:
            link.delay = options.delay_ms / 1e3 if options.onset < trainer.step <= options.relief else 0.0
        dist.barrier()
        began = time.monotonic()
        train_step(data)
        times.append((time.monotonic() - began) * 1e3)

    def logged(step, loss, *rest, **more):
        if dist.get_rank() == dist.get_world_size() - 1:
            print(f"step {step}: {times[-1] if times else 0:.0f} ms, loss {loss!r}", flush=True)
        log(step, loss, *rest, **more)
    trainer.train_step, trainer.metrics_processor.log = timed_step, logged
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedule", default="1F1B")
    parser.add_argument("--microbatches", type=int, default=12)
    parser.add_argument("--steps", type=int, default=44)
    parser.add_argument("--onset", type=int, default=14, help="last step before the link between ranks 0 and 1 is slow")
    parser.add_argument("--relief", type=int, default=32, help="last step in which it is")
    parser.add_argument("--delay-ms", type=float, default=150)
    parser.add_argument("--frozen", action="store_true", help="keep the given order")
    options = parser.parse_args()
    trainer = slackline.adapt(configuration(options).build(), frozen=options.frozen, on_event=lambda event: print(f"{event.kind}: {event.text}", flush=True))
    times = measured(trainer, options)
    trainer.train()
    if dist.get_rank() == dist.get_world_size() - 1:
        healthy, slow, after = (statistics.median(times[at - 8:at] or [0]) for at in (options.onset, options.relief, options.steps))
        print(f"{options.schedule}: {healthy:.0f} ms per step, {slow:.0f} ms over the slow link, {after:.0f} ms after it recovered; "
              f"{len(trainer.adaptation.swap_ms)} changes of order", flush=True)
    trainer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
