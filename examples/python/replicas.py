# SPDX-License-Identifier: Apache-2.0
"""Replicas of a PyTorch pipeline under DistributedDataParallel: while a rank of one is slow, this replica takes fewer microbatches.

Two processes per replica train a small model in f64 over Gloo, once with PyTorch alone and once with slackline.adapt. Each op is held to
--op-ms, on the last rank of the last replica to twice that from step 40 to 80. A DataLoader gives each replica its share of the samples of a
step. --sums tells who adds the gradients of the replicas.

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
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import Schedule1F1B
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset

RANKS, ROWS = 2, 4  # of a pipeline; rows of a microbatch
ONSET, RELIEF, SETTLED = 40, 80, 20  # steps

# ---- the data ------------------------------------------------------------------------------------------------------------


class Share(Sampler):
    """The samples of this replica in each step: the next ones of an order that all replicas shuffle alike, as many as `schedule.split` says.
    Samples at the end of an epoch that are too few for a step are left out, as by DataLoader's `drop_last`. It reads the split when the
    DataLoader starts, so `batches` starts it again when the split has changed."""

    def __init__(self, schedule, samples):
        self.schedule, self.samples, self.epoch, self.taken = schedule, samples, 0, 0
        self.step = sum(schedule.split) * ROWS  # samples of a step, over all replicas

    def __iter__(self):
        order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(self.epoch)).tolist()
        split, replica = self.schedule.split, self.schedule.replica
        for begin in range(self.taken, self.samples - self.step + 1, self.step):
            first = begin + sum(split[:replica]) * ROWS
            yield order[first:first + split[replica] * ROWS]

    def batches(self, loader):
        """The batches of an epoch."""
        self.taken = 0
        while self.taken <= self.samples - self.step:
            split = self.schedule.split
            for batch in loader:
                yield batch
                self.taken += self.step
                if self.schedule.split != split:
                    break
        self.epoch += 1


# ---- one rank ------------------------------------------------------------------------------------------------------------


def train(options, adapts):
    """Times, splits and mean losses of the steps, and whether no sample was taken twice in an epoch, and none left out but at its end."""
    replica, rank = divmod(dist.get_rank(), RANKS)
    pipelines = [dist.new_group([copy * RANKS + one for one in range(RANKS)]) for copy in range(options.replicas)]
    copies = [dist.new_group([copy * RANKS + one for copy in range(options.replicas)]) for one in range(RANKS)]
    module = layer(rank)
    if options.sums == "DistributedDataParallel":
        module = DistributedDataParallel(module, process_group=copies[rank])
    elif options.sums == "fully_shard":
        fully_shard(module, mesh=DeviceMesh.from_group(copies[rank], "cpu"))
    stage = PacedStage(module, rank, RANKS, torch.device("cpu"), group=pipelines[replica])
    schedule = Schedule1F1B(stage, options.microbatches, loss_fn=torch.nn.functional.mse_loss)
    if adapts:
        # it finds the replicas by the wrapper of the stage's module; a program that sums by itself names their group
        schedule = slackline.adapt(schedule, replicas=copies[rank] if options.sums == "hand" else None)
    else:
        schedule.split, schedule.replica = (options.microbatches,) * options.replicas, replica
    samples = 10 * options.microbatches * options.replicas * ROWS + options.rest
    draw = torch.Generator().manual_seed(7)
    data = TensorDataset(torch.arange(samples), *(torch.randn(samples, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2)))
    share = Share(schedule, samples)
    loader = DataLoader(data, batch_sampler=share)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    times, splits, losses, whole, step = [], [], [], True, 0
    for _ in range(options.epochs):
        taken = []
        for index, x, y in share.batches(loader):
            stage.op = options.op_ms / 1e3 * (2 if ONSET <= step < RELIEF and dist.get_rank() == dist.get_world_size() - 1 else 1)
            splits.append(schedule.split)
            optimizer.zero_grad()
            found = []
            dist.barrier()
            begin = time.monotonic()
            schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None, losses=found)
            if options.sums == "hand":
                for parameter in module.parameters():
                    dist.all_reduce(parameter.grad, group=copies[rank])
                    parameter.grad /= options.replicas
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
        found = sum(everyone, [])
        whole &= len(found) == len(set(found)) == samples - options.rest
    return times, splits, losses, whole


def rank_main(rank, options, store, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS * options.replicas, timeout=timedelta(seconds=120))
    for adapts in (False, True):
        found = train(options, adapts)
        if rank == 0:
            results.put(found)
    dist.barrier()
    dist.destroy_process_group()


# ---- all of them ---------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8, help="of each replica, as given")
    parser.add_argument("--rest", type=int, default=0, help="samples of an epoch that are too few for a step")
    parser.add_argument("--sums", choices=["DistributedDataParallel", "fully_shard", "hand"], default="DistributedDataParallel")
    parser.add_argument("--op-ms", type=float, default=10, help="time of an F, I or W")
    parser.add_argument("--epochs", type=int, default=12, help="of ten steps")
    options = parser.parse_args()
    if options.replicas < 2 or options.microbatches < RANKS or options.epochs * 10 <= RELIEF + SETTLED:
        parser.error(f"at least 2 replicas, {RANKS} microbatches, and {(RELIEF + SETTLED) // 10 + 1} epochs")
    if not 0 <= options.rest < options.replicas * options.microbatches * ROWS:
        parser.error("--rest is a step or more")
    results = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, (options, os.path.join(folder, "store"), results), nprocs=RANKS * options.replicas)
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
