"""The ranks of bench/pytorch: processes over Gloo that train one model under one schedule after another. Ops do their
arithmetic and are then held to their time, and one link is slow, through the classes of examples/python/slow_link.py."""
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Optional

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.pipelining import PipelineStage, schedules
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python"))
from slow_link import PacedStage, SlowLink, layer, train  # noqa: E402

STAGES = {"linear": lambda rank, ranks: [rank], "loop": lambda rank, ranks: [rank, rank + ranks],
          "wave": lambda rank, ranks: [rank, 2 * ranks - 1 - rank]}


@dataclass
class Run:
    name: str
    placement: str
    delay_ms: float
    theirs: Optional[str] = None  # a class of torch.distributed.pipelining.schedules; None: `plan`
    plan: Optional[slackline.Plan] = None
    trace: Optional[str] = None  # folder for its profiler traces


class Stage(PacedStage):
    """Ends the held time with an op that the profiler records, because it measures a label by the ops in it."""

    def held(self, count, work, *arguments, **options):
        result = super().held(count, work, *arguments, **options)
        torch.zeros(1)
        return result


def schedule_of(run, stages, microbatches):
    loss = torch.nn.functional.mse_loss
    if run.plan is not None:
        return run.plan.schedule(stages, loss_fn=loss)
    kind = getattr(schedules, "Schedule" + run.theirs)
    single = issubclass(kind, schedules.PipelineScheduleSingle)
    return kind(stages[0] if single else stages, microbatches, loss_fn=loss)


class Together:
    """The stages of a rank, in place of the one stage in the example's `train`."""

    def __init__(self, stages):
        self.submod = torch.nn.ModuleList([stage.submod for stage in stages])
        self.is_first, self.is_last = (any(getattr(stage, what) for stage in stages) for what in ("is_first", "is_last"))


def order_of(schedule):
    """The order of a PyTorch schedule as CSV; None: schedules with one stage per rank do not expose theirs."""
    if isinstance(schedule, schedules.PipelineScheduleSingle):
        return None
    order = schedule.pipeline_order
    return "\n".join(",".join("" if action is None else str(action) for action in order[rank]) for rank in sorted(order)) + "\n"


def traced(run, rank, schedule, stage, microbatches, iterations):
    draw = torch.Generator().manual_seed(7)
    x, y = (torch.randn(microbatches * 4, 16, generator=draw, dtype=torch.float64) for _ in range(2))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(iterations):
            dist.barrier()
            schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None)
            profiler.step()
    profiler.export_chrome_trace(os.path.join(run.trace, f"rank{rank}.json"))


def rank_main(rank, ranks, microbatches, op_ms, iterations, runs, store, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=120))
    link = SlowLink(1 - rank, 0.0) if rank < 2 else None
    for number, run in enumerate(runs):
        if link:
            link.delay = run.delay_ms / 1e3
        mine = STAGES[run.placement](rank, ranks)
        Stage.op = op_ms / 1e3 / len(mine)  # a rank computes the same amount with any number of stages
        stages = [Stage(layer(index), index, ranks * len(mine), torch.device("cpu")) for index in mine]
        together = Together(stages)
        schedule = schedule_of(run, stages, microbatches)
        order = order_of(schedule)
        times, losses = train(schedule, together, microbatches, iterations + 1)
        if run.trace:
            traced(run, rank, schedule, together, microbatches, 6)
        if together.is_last:
            results.put((number, times[1:], losses, order))  # the first iteration sets up connections
    dist.barrier()
    dist.destroy_process_group()


def measure(ranks, microbatches, op_ms, iterations, runs):
    """For each run: the seconds of each iteration on the slowest rank, the losses, and the order as CSV."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        started = multiprocessing.spawn(rank_main, (ranks, microbatches, op_ms, iterations, runs, os.path.join(folder, "store"), results),
                                        nprocs=ranks, join=False)
        found = {}
        while len(found) < len(runs):
            if not results.empty():
                number, *rest = results.get()
                found[number] = rest
                print(f"{time.monotonic() - began:6.1f} s  {runs[number].name}, {runs[number].delay_ms:g} ms", file=sys.stderr, flush=True)
            elif started.join(timeout=0.1):
                break
        while not started.join():
            pass
        while not results.empty():
            number, *rest = results.get()
            found[number] = rest
    return [found[number] for number in range(len(runs))]
