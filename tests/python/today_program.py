"""What scripts of today's PyTorch do over Gloo besides DistributedDataParallel and pipelines, on 4 ranks, for test_seen_today.py: it
knows nothing of being watched. Prints what every rank computed; every part is in the call log under a barrier's number."""
import hashlib
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch.set_num_threads(1)
warnings.simplefilter("ignore")
total = hashlib.sha256()
wrong = []


def keep(what, found, wanted=None):
    """Part of what is computed; `wanted`: known without watching."""
    values = [found.full_tensor() if isinstance(found, DTensor) else found] if torch.is_tensor(found) else found
    for one in values:
        one = one.full_tensor() if isinstance(one, DTensor) else one
        total.update(one.detach().contiguous().numpy().tobytes())
    if wanted is not None and not torch.equal(values[0], torch.as_tensor(wanted)):
        wrong.append(f"{what}: {values[0]}, not {wanted}")


def functional_collectives(rank, size):
    x = torch.arange(8.0) + rank
    group = dist.group.WORLD
    summed = torch.arange(8.0) * size + size * (size - 1) / 2
    keep("all_reduce", functional.all_reduce(x, "sum", group) + 0, summed)
    keep("all_gather_tensor", functional.all_gather_tensor(x, 0, group) + 0, torch.cat([torch.arange(8.0) + r for r in range(size)]))
    keep("reduce_scatter_tensor", functional.reduce_scatter_tensor(x, "sum", 0, group) + 0, summed.chunk(size)[rank])
    keep("broadcast", functional.broadcast(x, 2, group) + 0, torch.arange(8.0) + 2)
    keep("all_to_all_single", functional.all_to_all_single(x, None, None, group) + 0,
         torch.cat([(torch.arange(8.0) + r).chunk(size)[rank] for r in range(size)]))
    keep("all_reduce_coalesced", functional.all_reduce_coalesced([x, x * 2], "sum", group)[1] + 0, summed * 2)
    grows = x.clone().requires_grad_()
    functional.reduce_scatter_tensor_autograd(grows, "sum", 0, group).sum().backward()
    keep("reduce_scatter_tensor_autograd", grows.grad, torch.ones(8))
    direct = torch.ops._c10d_functional.all_reduce(x, "max", "0")  # as compiled code calls them
    keep("the operator", torch.ops._c10d_functional.wait_tensor(direct), torch.arange(8.0) + size - 1)


def trained(model, draw, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 16, generator=draw)).pow(2).mean().backward()
        optimizer.step()
    return list(model.parameters())


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return self.second(self.first(x).relu())


def tensor_parallel(rank, size):
    """Two dimensions: tensors split in pairs, and the pairs fully sharded."""
    torch.manual_seed(2)
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(Two(), mesh["tensor"], {"first": ColwiseParallel(), "second": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    keep("tensor parallel", trained(model, torch.Generator().manual_seed(rank // 2)))
    whole = torch.arange(16.0).reshape(4, 4)
    there = distribute_tensor(whole, mesh["tensor"], [Shard(0)])
    keep("redistribute", there.redistribute(placements=[Replicate()]).to_local() + 0, whole)
    keep("from rows to columns", there.redistribute(placements=[Shard(1)]).to_local() + 0, whole.chunk(2, 1)[rank % 2])


def fully_sharded(rank, size):
    torch.manual_seed(3)
    model = torch.nn.Sequential(*[Two() for _ in range(3)])
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    keep("fully_shard", trained(model, torch.Generator().manual_seed(rank)))


def hooked(rank, size):
    """A communication hook of DistributedDataParallel, which gives C++ a future."""
    torch.manual_seed(4)
    model = torch.nn.parallel.DistributedDataParallel(Two(), bucket_cap_mb=0.001)
    model.register_comm_hook(dist.group.WORLD, fp16_compress_hook)
    keep("a hook", trained(model, torch.Generator().manual_seed(rank)))


def others(rank, size):
    dist.monitored_barrier()
    group, inside = dist.new_group([1, 3]), rank in (1, 3)
    if inside:
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=group)
        keep("a group", x, [4.0])
    got = [torch.zeros(1) for _ in range(size)]
    dist.all_to_all(got, [torch.tensor([float(10 * rank + to)]) for to in range(size)])
    keep("all_to_all", torch.cat(got), [10.0 * of + rank for of in range(size)])
    carried = [{"from": 1}, None] if rank == 1 else [None, None]
    dist.broadcast_object_list(carried, src=1)
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered, dst=0)
    part = [None]
    dist.scatter_object_list(part, [f"for {to}" for to in range(size)] if rank == 0 else None, src=0)
    if (carried[0], gathered, part[0]) != ({"from": 1}, list(range(size)) if rank == 0 else None, f"for {rank}"):
        wrong.append(f"objects: {carried} {gathered} {part}")


def not_waited_for(rank, size):
    """What cannot be seen: the end of a call that is waited for through a future, and a group of the script's own."""
    x = torch.tensor([1.0])
    dist.all_reduce(x, async_op=True).get_future().wait()
    keep("a future", x, [float(size)])

    class Mine(dist.ProcessGroup):
        def getBackendName(self):
            return "mine"

    dist.Backend.register_backend("mine", lambda store, rank, size, timeout: Mine(rank, size), devices=["cpu"])
    dist.new_group(list(range(size)), backend="mine")


def main():
    dist.init_process_group("gloo")
    for part in sys.argv[1:]:
        if part == "again":  # a script that starts over, with ranks that have not met before
            dist.destroy_process_group()
            dist.init_process_group("gloo", f"file://{os.environ['MEET']}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
        rank, size = dist.get_rank(), dist.get_world_size()
        if part == "again":
            functional_collectives(rank, size)
        else:
            globals()[part](rank, size)
        dist.barrier()
    print(f"rank {rank}: {'wrong ' + str(wrong) if wrong else total.hexdigest()}", flush=True)
    dist.destroy_process_group()
    sys.exit(int(os.environ.get("EXIT", 0)))


main()
