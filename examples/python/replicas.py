# SPDX-License-Identifier: Apache-2.0
"""Two replicas of a PyTorch pipeline under DistributedDataParallel: while a rank of one is slow, it takes fewer microbatches.

Four processes over Gloo train a small model in f64, once with PyTorch alone and once with slackline.adapt. Each op is held to
--op-ms, on the last rank of replica 1 to twice that from step 40 to 80. A DataLoader gives each replica its share of the samples of a step.

    python3 -m venv env && env/bin/pip install torch ./python
    $ SLACKLINE_LIBRARY=build/libslackline.so env/bin/python examples/python/replicas.py
    > PyTorch alone, healthy 285+-10% ms, microbatches 8 and 8
    > PyTorch alone, slow 530+-10% ms, microbatches 8 and 8
    > adapted, slow 380+-15% ms
    > adapted, recovered 275+-12% ms, microbatches 8 and 8
    > each sample once per epoch
    > mean losses at most ... apart

The times are medians of a step. The losses are the same up to rounding, since each step is the mean over the same samples.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from slow_link import WIDTH, PacedStage, layer
from torch.distributed.pipelining import Schedule1F1B
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset

RANKS, REPLICAS, ROWS = 2, 2, 4  # of a pipeline; pipelines; rows of a microbatch
ONSET, RELIEF, SETTLED = 40, 80, 20  # steps

# ---- the data ------------------------------------------------------------------------------------------------------------


class Share(Sampler):
    """The samples of this replica in each step: the next ones of an order that all replicas shuffle alike, as many as `schedule.split` says.
    It reads the split when the DataLoader starts, so `batches` starts it again when the split has changed."""

    def __init__(self, schedule, samples):
        self.schedule, self.samples, self.epoch, self.taken = schedule, samples, 0, 0

    def __iter__(self):
        order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        split, replica = self.schedule.split, self.schedule.replica
        for step in range(self.taken, self.samples, sum(split) * ROWS):
            first = step + sum(split[:replica]) * ROWS
            yield order[first:first + split[replica] * ROWS]

    def batches(self, loader):
        """The batches of an epoch."""
        self.taken = 0
        while self.taken < self.samples:
            split = self.schedule.split
            for batch in loader:
                yield batch
                self.taken += sum(split) * ROWS
                if self.schedule.split != split:
                    break
        self.epoch += 1


# ---- one rank ------------------------------------------------------------------------------------------------------------


def train(options, adapts):
    """Times, splits and mean losses of the steps, and whether each sample was taken once per epoch."""
    replica, rank = divmod(dist.get_rank(), RANKS)
    pipelines = [dist.new_group([copy * RANKS + one for one in range(RANKS)]) for copy in range(REPLICAS)]
    copies = [dist.new_group([copy * RANKS + one for copy in range(REPLICAS)]) for one in range(RANKS)]
    module = DistributedDataParallel(layer(rank), process_group=copies[rank])
    stage = PacedStage(module, rank, RANKS, torch.device("cpu"), group=pipelines[replica])
    schedule = Schedule1F1B(stage, options.microbatches, loss_fn=torch.nn.functional.mse_loss)
    if adapts:
        schedule = slackline.adapt(schedule)  # finds the replicas by the stage's module
    else:
        schedule.split, schedule.replica = (options.microbatches,) * REPLICAS, replica
    samples = 10 * options.microbatches * REPLICAS * ROWS
    draw = torch.Generator().manual_seed(7)
    data = TensorDataset(torch.arange(samples), *(torch.randn(samples, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2)))
    share = Share(schedule, samples)
    loader = DataLoader(data, batch_sampler=share)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    times, splits, losses, whole, step = [], [], [], True, 0
    for _ in range(options.epochs):
        taken = []
        for index, x, y in share.batches(loader):
            stage.op = options.op_ms / 1e3 * (2 if ONSET <= step < RELIEF and (replica, rank) == (1, RANKS - 1) else 1)
            splits.append(schedule.split)
            optimizer.zero_grad()
            found = []
            dist.barrier()
            begin = time.monotonic()
            schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None, losses=found)
            took = torch.tensor(time.monotonic() - begin)
            dist.all_reduce(took, dist.ReduceOp.MAX)
            loss = sum(found, torch.zeros((), dtype=torch.float64)).detach()
            dist.all_reduce(loss)
            optimizer.step()
            times.append(took.item() * 1e3)
            losses.append(loss.item() / sum(splits[-1]))  # the mean over the microbatches of all replicas
            taken += index.tolist() if stage.is_last else []
            step += 1
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, taken)
        whole &= sorted(sum(everyone, [])) == list(range(samples))
    return times, splits, losses, whole


def rank_main(rank, options, store, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS * REPLICAS, timeout=timedelta(seconds=120))
    for adapts in (False, True):
        found = train(options, adapts)
        if rank == 0:
            results.put(found)
    dist.barrier()
    dist.destroy_process_group()


# ---- all of them ---------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--microbatches", type=int, default=8, help="of each replica")
    parser.add_argument("--op-ms", type=float, default=10, help="time of an F, I or W")
    parser.add_argument("--epochs", type=int, default=12, help="of ten steps")
    options = parser.parse_args()
    if options.microbatches < RANKS or options.epochs * 10 <= RELIEF + SETTLED:
        parser.error(f"at least {RANKS} microbatches, and more than {(RELIEF + SETTLED) // 10} epochs")
    results = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, (options, os.path.join(folder, "store"), results), nprocs=RANKS * REPLICAS)
    runs = [results.get() for _ in range(2)]
    for name, (times, splits, _, _) in zip(("PyTorch alone", "adapted"), runs):
        for what, first, last in (("healthy", ONSET - 5, ONSET), ("slow", ONSET + SETTLED, RELIEF), ("recovered", RELIEF + SETTLED, len(times))):
            print(f"{name + ', ' + what:<24} {statistics.median(times[first:last]):>6.1f} ms, microbatches {' and '.join(map(str, splits[last - 1]))}")
    whole = all(run[3] for run in runs)
    print("each sample once per epoch" if whole else "samples were left out, or taken twice")
    apart = max(abs(a - b) for a, b in zip(runs[0][2], runs[1][2]))
    print(f"mean losses at most {apart:.1e} apart")
    return 0 if whole and apart <= 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
