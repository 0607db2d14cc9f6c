"""Python programs for run.py, some ranks of which work longer while a file exists that says so: loop.py WHAT MILLISECONDS FILE, WHAT one
of mpi4py, ddp, fsdp, pipeline, server, exchange. They know nothing of being watched. Each works by sleeping and a little arithmetic. They end when they are ended."""
import ctypes
import os
import signal
import sys
import time

what, ms, file = sys.argv[1], float(sys.argv[2]), sys.argv[3]
WIDTH, ROWS = 128, 64


def work(rank, part=1.0):
    factor = 1.0
    if os.path.exists(file):
        with open(file) as lines:
            factor = next((float(line.split()[1]) for line in lines if line.split()[:1] == [str(rank)]), 1.0)
    time.sleep(ms * part * factor / 1e3)


def over_mpi():
    import array
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    mine, theirs, total = array.array("d", [rank] * 2048), array.array("d", [0] * 2048), array.array("d", [0])
    while True:
        work(rank)
        world.Sendrecv(mine, (rank + 1) % size, 1, theirs, (rank - 1) % size, 1)
        world.Allreduce(array.array("d", [1]), total)
        if world.bcast(total[0] if rank == 0 else None) < size:
            break


def over_gloo():
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    layers = 2 if what == "pipeline" else 4

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            work(rank, 1 / layers / (4 if what == "pipeline" else 1))
            return self.linear(x).tanh()

    torch.manual_seed(1)
    model = torch.nn.Sequential(*[Layer() for _ in range(layers)])
    x, y = torch.randn(4 * ROWS, WIDTH), torch.randn(4 * ROWS, WIDTH)
    if what == "pipeline":
        stage = PipelineStage(model, rank, size, torch.device("cpu"))
        schedule = Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    elif what == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        optimizer.zero_grad()
        if what == "pipeline":
            schedule.step(*([x] if rank == 0 else []), target=y if rank == size - 1 else None)
        else:
            torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def over_plain_gloo(rank, size, step):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    while True:
        step(torch, dist, rank, size)


def serve(torch, dist, rank, size, parameters=[]):
    """Rank 0 broadcasts parameters and works little, the others compute gradients, which are reduced to it."""
    if not parameters:
        parameters.append(torch.zeros(1 << 14))
    dist.broadcast(parameters[0], src=0)
    work(rank, 0.2 if rank == 0 else 1)
    gradient = torch.ones(1 << 14) * (rank > 0)
    dist.reduce(gradient, dst=0)
    if rank == 0:
        parameters[0] -= 1e-6 * gradient


def exchange(torch, dist, rank, size):
    """As between experts: tokens to all ranks, work on those that came, and back."""
    tokens, came = torch.full((size * 1024,), float(rank)), torch.empty(size * 1024)
    dist.all_to_all_single(came, tokens)
    work(rank)
    dist.all_to_all_single(tokens, came)


def exchanging(rank, size):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nobody else ends it with the first process
    over_plain_gloo(rank, size, exchange)


def main():
    if what == "mpi4py":
        over_mpi()
    elif what == "server":
        over_plain_gloo(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), serve)
    elif what == "exchange":  # processes of its own, without a launcher
        import multiprocessing
        import socket
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
        ranks = [multiprocessing.Process(target=exchanging, args=(rank, 4), daemon=True) for rank in range(4)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
    else:
        over_gloo()


if __name__ == "__main__":
    main()
