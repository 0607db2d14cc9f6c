"""What the tests of slackline.adapt share: processes over Gloo that run cases one after the other, paced stages, and a slow link."""
import faulthandler
import os
import runpy
import sys
import time
from datetime import timedelta

from runner import build, expect, folder, source
import venv_torch  # noqa: F401

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.pipelining import schedules

os.environ["SLACKLINE_LIBRARY"] = os.path.join(os.path.abspath(build), "libslackline.so")
sys.path[:0] = [os.path.join(os.path.abspath(source), "python"), os.path.join(os.path.abspath(source), "examples", "python")]
import slackline  # noqa: E402
import slackline.adapting.schedule  # noqa: E402
from slow_link import PacedStage, SlowLink, layer  # noqa: E402

STAGES = {"linear": lambda rank, ranks: [rank], "loop": lambda rank, ranks: [rank, rank + ranks],
          "wave": lambda rank, ranks: [rank, 2 * ranks - 1 - rank],
          "wave of 4": lambda rank, ranks: [rank, 2 * ranks - 1 - rank, 2 * ranks + rank, 4 * ranks - 1 - rank]}
PATIENCE_S = 540  # of all cases of a file, on a busy machine; CTest ends a test after 600


class Paced(PacedStage):
    op = 0.002


def stages_of(placement, rank, ranks, group=None):
    mine = STAGES[placement](rank, ranks)
    return [Paced(layer(index), index, ranks * len(mine), torch.device("cpu"), group=group) for index in mine]


def made(kind, stages, microbatches):
    if kind == "planned":  # a wave of more stages than PyTorch's schedules have
        problem = {"ranks": stages[0].group_size, "stages": stages[0].num_stages, "microbatches": microbatches, "placement": "wave",
                   "times_ms": {"F": 1, "I": 1, "W": 1, "B": 2}}
        return slackline.plan({"pipeline": problem}, "gpipe").schedule(stages, loss_fn=torch.nn.functional.mse_loss, broadcast=False)
    cls = getattr(schedules, "Schedule" + kind)
    return cls(stages[0] if issubclass(cls, schedules.PipelineScheduleSingle) else stages, microbatches, loss_fn=torch.nn.functional.mse_loss)


BATCHES = 4  # different ones; they come again


def batch(step, microbatches):
    draw = torch.Generator().manual_seed(step % BATCHES)
    return tuple(torch.randn(microbatches * 2, 16, generator=draw, dtype=torch.float64) for _ in range(2))


def stepped(schedule, stages, step, microbatches):
    """Losses of the step; gradients are left in the stages."""
    x, y = batch(step, microbatches)
    for stage in stages:
        stage.submod.zero_grad()
    losses = []
    schedule.step(*((x,) if any(stage.is_first for stage in stages) else ()), target=y if any(stage.is_last for stage in stages) else None, losses=losses)
    return [loss.item() for loss in losses]


def gradients(stages):
    return [parameter.grad.clone() for stage in stages for parameter in stage.submod.parameters()]


class Given:
    """A given schedule whose weights stay: it runs each batch once, on all ranks together, and then says again what it has found."""

    def __init__(self, schedule, stages, microbatches):
        self._schedule, self._stages, self._microbatches, self._found = schedule, stages, microbatches, {}

    def step(self, step):
        """Losses and gradients."""
        if step % BATCHES not in self._found:
            self._found[step % BATCHES] = stepped(self._schedule, self._stages, step, self._microbatches), gradients(self._stages)
        return self._found[step % BATCHES]


def compared(given, adapted, given_stages, stages, steps, microbatches, between=lambda step: None):
    """What differs in any of some steps; `between` is called before each."""
    given = Given(given, given_stages, microbatches)
    for step in range(steps):
        between(step)
        wanted = given.step(step)
        found = stepped(adapted, stages, step, microbatches), gradients(stages)
        if wanted[0] != found[0] or not all(map(torch.equal, wanted[1], found[1])):
            return f"step {step}: losses {found[0]}, given {wanted[0]}, or other gradients, after {len(adapted.adaptation.swap_ms)} swaps"
    return ""


def said(caught):
    """Our own warnings."""
    return [str(one.message) for one in caught if "slackline" in str(one.message)]


def rank_main(rank, world, file, store, results, where):
    """Runs the cases of a file in this process: case(rank, ranks, group, folder) returns what is wrong, or ""."""
    faulthandler.dump_traceback_later(PATIENCE_S - 40, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=60))
    cases = runpy.run_path(file, run_name="cases")["CASES"]
    for name, (case, ranks) in cases.items():
        group = dist.new_group(list(range(ranks)))
        began = time.monotonic()
        if rank < ranks:
            results.put((name, rank, case(rank, ranks, group, where), time.monotonic() - began))
        dist.barrier()
    dist.destroy_process_group()


def run(file, world, main=rank_main, patience=PATIENCE_S):
    """Starts the processes and awaits their end: exit codes, and what each case said of each rank."""
    context = multiprocessing.get_context("fork")  # each has imported PyTorch
    results = context.SimpleQueue()
    store = os.path.join(folder, "store")
    processes = [context.Process(target=main, args=(rank, world, file, store, results, folder)) for rank in range(world)]
    for process in processes:
        process.start()
    until, said = time.monotonic() + patience, []
    while any(process.is_alive() for process in processes) and time.monotonic() < until:
        while not results.empty():
            said.append(results.get())
        time.sleep(0.1)
    while not results.empty():
        said.append(results.get())
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.exitcode is None:
            process.kill()
    return codes, said


def judged(file, world, cases):
    """Runs all cases of a file."""
    codes, said = run(file, world)
    expect(codes == [0] * world, f"exit codes {codes}")
    for name, (_, ranks) in cases.items():
        mine = {rank: wrong for case, rank, wrong, _ in said if case == name}
        print(f"{name}: {max([seconds for case, _, _, seconds in said if case == name], default=0.0):.1f} s")
        expect(mine == {rank: "" for rank in range(ranks)}, f"{name}: {mine}")
