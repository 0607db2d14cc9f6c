"""A program for layouts.py, which knows nothing of being watched: residual MLP blocks, trained over Gloo by torch.distributed.run with T
tensor ranks, D replicas and P pipeline ranks, by PyTorch's own parts (replicas of tensor ranks add up their gradients themselves: DDP takes
no distributed tensors). Gradients are clipped by their norm over all ranks, as in Megatron-LM.

    hybrid.py T D P ITERATIONS FOLDER

Each rank writes its wall time of each iteration to FOLDER/ms.RANK. Rank 0 prints what its weights add up to."""
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

BLOCKS, WIDTH, ROWS, MICROBATCHES = 4, 256, 512, 8  # rows of an iteration, over all replicas


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


def clip(gradients):
    """To a norm of 1 over all ranks; gradients that several ranks hold count on each."""
    square = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
    dist.all_reduce(square)
    for gradient in gradients:
        gradient.mul_(1 / max(1, square.sqrt().item()))


def main():
    tensor, data, pipeline, iterations = map(int, sys.argv[1:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (pipeline, data, tensor), mesh_dim_names=("pipeline", "data", "tensor"))
    stage = mesh.get_local_rank("pipeline")
    model = torch.nn.Sequential(*[Block() for _ in range(BLOCKS // pipeline)])
    if tensor > 1:
        parallelize_module(model, mesh["tensor"], {"*.first": ColwiseParallel(), "*.second": RowwiseParallel()})
    if data > 1 and tensor == 1:
        model = DistributedDataParallel(model, device_mesh=mesh["data"])
    loss, optimizer = torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.01)
    if pipeline > 1:
        stages = PipelineStage(model, stage, pipeline, torch.device("cpu"), group=mesh.get_group("pipeline"))
        schedule = Schedule1F1B(stages, MICROBATCHES, loss_fn=loss)
    x, y = torch.randn(2, data, ROWS // data, WIDTH)[:, mesh.get_local_rank("data")]
    begins = [time.perf_counter()]
    for _ in range(iterations):
        optimizer.zero_grad()
        if pipeline > 1:
            schedule.step(*([x] if stage == 0 else []), target=y if stage == pipeline - 1 else None)
        else:
            loss(model(x), y).backward()
        gradients = [getattr(p.grad, "_local_tensor", p.grad) for p in model.parameters()]
        for gradient in gradients if data > 1 and tensor > 1 else ():
            dist.all_reduce(gradient, group=mesh.get_group("data"))
            gradient.div_(data)
        clip(gradients)
        optimizer.step()
        begins.append(time.perf_counter())
    with open(f"{sys.argv[5]}/ms.{dist.get_rank()}", "w") as file:
        file.writelines(f"{1e3 * (end - begin)}\n" for begin, end in zip(begins, begins[1:]))
    if dist.get_rank() == 0:
        print(sum(float(p.detach().double().sum()) for p in model.parameters()))
    dist.destroy_process_group()


main()
