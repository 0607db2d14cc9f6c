"""launch_program.py [FOLDER]: a job of two ranks that adapts while their link is slow, and trains as it does without, or it ends with 1. With a
folder, it is started by torch.multiprocessing, by each method in turn, over a FileStore there; else by a launcher that sets the environment."""
import os
import sys

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from slackline.adapting import order
from slow_link import PacedStage, SlowLink, layer
from torch.distributed.pipelining import Schedule1F1B

RANKS, MICROBATCHES, STEPS = 2, 6, 24


def run(rank, adapts, link):
    """Losses and gradients of each step, and the orders that ran."""
    stage = PacedStage(layer(rank), rank, RANKS, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    schedule = slackline.adapt(schedule) if adapts else schedule
    found, orders = [], set()
    for step in range(STEPS):
        link.delay = 0.02 if step >= 8 else 0.0
        draw = torch.Generator().manual_seed(step)
        x, y = (torch.randn(MICROBATCHES * 2, 16, generator=draw, dtype=torch.float64) for _ in range(2))
        losses = []
        stage.submod.zero_grad()
        schedule.step(*((x,) if rank == 0 else ()), target=y if rank else None, losses=losses)
        found.append([*losses, *(one.grad.clone() for one in stage.submod.parameters())])
        orders.add(order.text_of(order.rows_of(schedule.pipeline_order)) if adapts else "")
    link.delay = 0.0
    return found, orders, schedule


def rank_main(rank, store):
    torch.set_num_threads(1)
    if store:
        dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    else:
        dist.init_process_group("gloo")
    rank, PacedStage.op, link = dist.get_rank(), 0.002, SlowLink(1 - dist.get_rank(), 0.0)
    (given, _, _), (found, orders, schedule) = run(rank, False, link), run(rank, True, link)
    same = all(len(a) == len(b) and all(map(torch.equal, a, b)) for a, b in zip(given, found))
    adapted = schedule.adaptation.active and len(orders) > 1
    print(f"rank {rank}: same {same}, {len(orders)} orders, {schedule.adaptation.why}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    if not same or not adapted:
        sys.exit(1)


if __name__ == "__main__":
    for method in ("fork", "forkserver", "spawn") if len(sys.argv) > 1 else ():
        multiprocessing.start_processes(rank_main, (os.path.join(sys.argv[1], method),), nprocs=RANKS, start_method=method)
        print(f"{method}: ended", flush=True)
    if len(sys.argv) == 1:
        rank_main(-1, None)
