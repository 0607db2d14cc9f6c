"""A program over Gloo for test_seen.py, which knows nothing of being watched: it uses one part of torch.distributed, by name, and
prints what every rank computed. SLOW=RANK: that one computes longer after a third of its iterations."""
import hashlib
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

what, iterations = sys.argv[1], int(sys.argv[2])
slow = int(os.environ.get("SLOW", -1))
torch.set_num_threads(1)


def tensor(*values):
    return torch.tensor(values or [float(dist.get_rank() + 1)])


def calls(rank, size):
    """One of each, with results that are known without watching."""
    right, left = (rank + 1) % size, (rank - 1) % size
    total = float(size * (size + 1) / 2)
    found = {}
    x = tensor()
    dist.all_reduce(x)
    found["all_reduce"] = (x.item(), total)
    x = tensor()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    found["async all_reduce"] = (x.item(), total)
    x = tensor()
    dist.broadcast(x, src=1)
    found["broadcast"] = (x.item(), 2.0)
    x = tensor()
    dist.reduce(x, dst=0)
    found["reduce"] = (x.item() if rank == 0 else total, total)
    parts = [tensor() for _ in range(size)]
    dist.all_gather(parts, tensor())
    found["all_gather"] = (sum(p.item() for p in parts), total)
    out = torch.zeros(size)
    dist.all_gather_into_tensor(out, tensor())
    found["all_gather_into_tensor"] = (out.sum().item(), total)
    parts = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(tensor(), parts, dst=0)
    found["gather"] = (sum(p.item() for p in parts) if parts else total, total)
    out = torch.zeros(1)
    dist.scatter(out, [torch.tensor([10.0 + i]) for i in range(size)] if rank == 0 else None, src=0)
    found["scatter"] = (out.item(), 10.0 + rank)
    out = torch.zeros(1)
    dist.reduce_scatter_tensor(out, torch.arange(float(size)))
    found["reduce_scatter_tensor"] = (out.item(), float(size * rank))
    out = torch.zeros(size)
    dist.all_to_all_single(out, torch.full((size,), float(rank)))
    found["all_to_all_single"] = (out.sum().item(), float(sum(range(size))))
    dist.barrier()
    out = torch.zeros(1)
    if rank % 2 == 0:
        dist.send(tensor(), right)
        dist.recv(out, left)
    else:
        dist.recv(out, left)
        dist.send(tensor(), right)
    found["send and recv"] = (out.item(), float(left + 1))
    out = torch.zeros(1)
    work = [dist.isend(tensor(), right, tag=3), dist.irecv(out, left, tag=3)]
    [one.wait() for one in work]
    found["isend and irecv"] = (out.item(), float(left + 1))
    out = torch.zeros(1)
    for one in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor(), right), dist.P2POp(dist.irecv, out, left)]):
        one.wait()
    found["batch_isend_irecv"] = (out.item(), float(left + 1))
    out = torch.zeros(1)
    work = dist.isend(tensor(), right, tag=9)
    source = dist.recv(out, tag=9)
    work.wait()
    found["recv of anybody"] = ((source, out.item()), (left, float(left + 1)))
    carried = [None] * size
    dist.all_gather_object(carried, {"rank": rank})
    found["all_gather_object"] = (carried, [{"rank": r} for r in range(size)])
    half = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        x = tensor()
        dist.all_reduce(x, group=half)
        found["a group's all_reduce"] = (x.item(), float(sum(r + 1 for r in range(0, size, 2))))
        if size > 2:
            dist.broadcast(x, src=2, group=half)
    try:
        dist.all_reduce("no tensor")
        found["a wrong argument"] = ("no error", "an error")
    except TypeError:
        pass
    try:
        dist.send(tensor(), rank)
        found["a message to oneself"] = ("no error", "an error")
    except ValueError:
        pass
    wrong = {name: pair for name, pair in found.items() if pair[0] != pair[1]}
    print(f"rank {rank}: {'wrong ' + str(wrong) if wrong else 'all right'}", flush=True)


def ddp(rank, size):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)], torch.nn.BatchNorm1d(64))
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    draw = torch.Generator().manual_seed(rank)
    for i in range(iterations):
        time.sleep(0.04 if rank == slow and 3 * i >= iterations else 0.01)
        optimizer.zero_grad()
        model(torch.randn(16, 64, generator=draw)).pow(2).mean().backward()
        optimizer.step()
    return model.parameters()


class Layer(torch.nn.Module):
    seconds = 0.006

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)

    def forward(self, x):
        time.sleep(self.seconds)
        return self.linear(x).tanh()


def pipeline(rank, size):
    torch.manual_seed(rank)
    stage = PipelineStage(Layer(), rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.01)
    draw = torch.Generator().manual_seed(7)
    for i in range(iterations):
        x, y = torch.randn(32, 32, generator=draw), torch.randn(32, 32, generator=draw)
        Layer.seconds = 0.024 if rank == slow and 3 * i >= iterations else 0.006
        optimizer.zero_grad()
        schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
        optimizer.step()
    return stage.submod.parameters()


def one(rank=None, size=None, store=None):
    if store:
        dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
    else:
        dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if what == "calls":
        calls(rank, size)
    else:
        weights = {"ddp": ddp, "pipeline": pipeline}[what](rank, size)
        told = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in weights)).hexdigest()
        print(f"rank {rank}: {told}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        one()
    else:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(one, (int(sys.argv[3]), os.path.join(folder, "store")), nprocs=int(sys.argv[3]))
    sys.exit(int(os.environ.get("EXIT", 0)))
