"""A program over Gloo that trains until it is told to stop, for the tests of real trouble: it knows nothing of being watched. Usage:
real_program.py pipeline|ddp|fsdp STOP: ends, all ranks after the same iteration, once the file STOP is there."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

what, stop = sys.argv[1:]
WIDTH, ROWS, MICROBATCHES = 256, 256, 4  # a message of 256 KiB


class Layer(torch.nn.Module):
    """Some ms of real arithmetic."""

    def __init__(self, turns):
        super().__init__()
        self.linear, self.turns = torch.nn.Linear(WIDTH, WIDTH), turns

    def forward(self, x):
        for _ in range(self.turns):
            x = self.linear(x).tanh()
        return x


def pipeline(rank, size):
    stage = PipelineStage(Layer(3), rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    x, y = torch.randn(ROWS * MICROBATCHES, WIDTH), torch.randn(ROWS * MICROBATCHES, WIDTH)
    return stage.submod, lambda: schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)


def ddp(rank, size):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[Layer(2) for _ in range(4)]))
    x = torch.randn(ROWS, WIDTH)
    return model, lambda: model(x).pow(2).mean().backward()


def fsdp(rank, size):
    from torch.distributed.fsdp import fully_shard
    model = torch.nn.Sequential(*[Layer(2) for _ in range(4)])
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    x = torch.randn(ROWS, WIDTH)
    return model, lambda: model(x).pow(2).mean().backward()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, step = {"pipeline": pipeline, "ddp": ddp, "fsdp": fsdp}[what](rank, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    ends = torch.zeros(1)
    while not ends.item():
        optimizer.zero_grad()
        step()
        optimizer.step()
        ends.fill_(float(rank == 0 and os.path.exists(stop)))
        dist.broadcast(ends, src=0)
    dist.destroy_process_group()
    os._exit(0)  # of DistributedDataParallel's processes some never end by themselves behind this, watched or not


main()
