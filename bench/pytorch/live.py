#!/usr/bin/env python3
"""PyTorch's pipelining with slackline.adapt while a component becomes slow and recovers: PyTorch alone, with manual plans that are
swapped at the right steps, and live.

Usage: bench/pytorch/live.py [BUILD_DIR] [--steps N] [--case NAME]... [--write docs/results/evidence/pytorch.md]
Runs under .venv's Python (torch 2.13, tests/requirements.txt) where this one has no torch."""
import argparse
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, source, table  # noqa: E402

try:
    import torch
except ImportError:
    venv = os.path.join(source, ".venv", "bin", "python")
    if not os.path.exists(venv) or os.environ.get("SL_IN_VENV"):
        sys.exit("no torch: python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt")
    os.environ["SL_IN_VENV"] = "1"
    os.execv(venv, [venv, *sys.argv])
sys.path[:0] = [os.path.join(source, "python"), os.path.join(source, "examples", "python"), here]
import slackline  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from ranks import STAGES  # noqa: E402
from slow_link import PacedStage, SlowLink, layer  # noqa: E402
from torch.distributed.pipelining import schedules  # noqa: E402

RANKS, MICROBATCHES, OP_MS = 4, 12, 10.0
ONSET, RELIEF = 20, 60
# name: schedule, placement, delay in ms by link, slowdown by rank
CASES = {
    "link 0-1 60 ms late": ("1F1B", "linear", {(0, 1): 60}, {}),
    "links 0-1 and 2-3 30 ms late": ("1F1B", "linear", {(0, 1): 30, (2, 3): 30}, {}),
    "rank 2 1.5 times as long": ("1F1B", "linear", {}, {2: 1.5}),
    "link 1-2 40 ms late, wave": ("ZBVZeroBubble", "wave", {(1, 2): 40}, {}),
    "link 0-1 40 ms late, loop": ("Interleaved1F1B", "loop", {(0, 1): 40}, {}),
    "link 0-1 60 ms late, 1F1B's memory": ("1F1B", "linear", {(0, 1): 60}, {}),
}
LOSS = torch.nn.functional.mse_loss


class Late:
    """The links of a rank: messages over each leave later, from a separate thread."""

    def __init__(self, rank, links):
        self.links = {}
        for a, b in links:
            if rank in (a, b):
                self.links[a, b] = SlowLink(b if rank == a else a, 0.0)

    def set(self, late):
        for link, slow in self.links.items():
            slow.delay = late.get(link, 0) / 1e3


def problem(placement, late, longer):
    each = len(STAGES[placement](0, RANKS))
    of = {stage: rank for rank in range(RANKS) for stage in STAGES[placement](rank, RANKS)}
    times = [OP_MS / each * longer.get(of[stage], 1) for stage in range(RANKS * each)]
    return {"pipeline": {"ranks": RANKS, "microbatches": MICROBATCHES, "placement": placement, "times_ms": {kind: times for kind in "FIW"},
                         "links": {"list": [{"between": list(link), "latency_ms": ms} for link, ms in late.items()]}}}


def rank_main(rank, case, how, steps, store, results):
    kind, placement, late, longer = CASES[case]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS, timeout=timedelta(seconds=120))
    links = Late(rank, late)
    mine = STAGES[placement](rank, RANKS)
    each = OP_MS / 1e3 / len(mine)
    stages = [PacedStage(layer(index), index, RANKS * len(mine), torch.device("cpu")) for index in mine]
    first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
    cls = getattr(schedules, "Schedule" + kind)
    given = cls(stages[0] if issubclass(cls, schedules.PipelineScheduleSingle) else stages, MICROBATCHES, loss_fn=LOSS)
    memory = "same" if "memory" in case else "free"
    running = slackline.adapt(given, memory=memory) if how == "live" else given
    by_hand = [slackline.plan(problem(placement, *what), "auto", 2) if rank == 0 else None for what in (({}, {}), (late, longer))] if how == "by hand" else []
    draw = torch.Generator().manual_seed(7)
    x, y = (torch.randn(MICROBATCHES * 4, 16, generator=draw, dtype=torch.float64) for _ in range(2))
    optimizer = torch.optim.SGD([p for stage in stages for p in stage.submod.parameters()], lr=0.1)
    times, losses = [], []
    for step in range(steps):
        slow = ONSET <= step < RELIEF
        if by_hand and step in (0, ONSET, RELIEF):
            running = slackline.pytorch_schedule(by_hand[slow], stages, loss_fn=LOSS)
        links.set(late if slow else {})
        PacedStage.op = each * (longer.get(rank, 1) if slow else 1)
        optimizer.zero_grad()
        found = []
        dist.barrier()
        begin = time.monotonic()
        running.step(*((x,) if first else ()), target=y if last else None, losses=found)
        took = torch.tensor(time.monotonic() - begin, dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        optimizer.step()
        times.append(took.item() * 1e3)
        losses.append(torch.stack(found).mean().item() if last else None)
    if last:
        results.put(("losses", losses))
    if rank == 0:
        adaptation = getattr(running, "adaptation", None)
        results.put(("times", times))
        results.put(("events", [(one.step, one.kind) for one in adaptation.events] if how == "live" else []))
        results.put(("swaps", adaptation.swap_ms if how == "live" else []))
    dist.barrier()
    dist.destroy_process_group()


def measured(case, how, steps):
    results = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, (case, how, steps, os.path.join(folder, "store"), results), nprocs=RANKS)
    found = {}
    while not results.empty():
        what, value = results.get()
        found[what] = value
    print(f"{case}, {how}: {[round(one) for one in found['times']]} {[one for one in found['events'] if one[1] in ('swap', 'onset', 'return', 'relief', 'verdict')]}",
          file=sys.stderr, flush=True)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--write", metavar="FILE")
    arguments = parser.parse_args()
    os.environ["SLACKLINE_LIBRARY"] = os.path.join(os.path.abspath(arguments.build), "libslackline.so")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3] + [os.environ.get("PYTHONPATH", "")])
    rows, apart, swaps = [], 0.0, []
    for case in arguments.case or CASES:
        reference = None
        for how in ("PyTorch alone", "by hand", "live"):
            if how == "by hand" and "memory" in case:
                continue
            found = measured(case, how, arguments.steps)
            times = found["times"]
            spans = [times[ONSET - 5:ONSET], times[ONSET + 10:RELIEF], times[RELIEF + 10:]]
            rows.append([case, how, *(f"{statistics.median(span):.0f}" if span else "" for span in spans)])
            reference = reference or found["losses"]
            apart = max([apart, *(abs(a - b) for a, b in zip(found["losses"], reference))])
            swaps += found["swaps"]
    finish(arguments.write, "Live: something gets slow and recovers", f"""`bench/pytorch/live.py`, {machine()}, load {os.getloadavg()[0]:.1f} at its end, PyTorch {torch.__version__}. {RANKS} processes over Gloo,
{MICROBATCHES} microbatches, ops of {OP_MS:g} ms on each rank. Something is slow from step {ONSET} to {RELIEF} of {arguments.steps}. Times are medians in ms per step: of the five steps
before the onset, from ten steps after it, and from ten steps after the relief. "By hand" uses plans for the true times, made in advance and swapped at the right
steps. Losses differ by at most {apart:.0e}; a swap took {statistics.median(swaps):.1f} ms (median, at most {max(swaps):.1f}).

{table(["what gets slow", "schedule", "healthy", "slow", "recovered"], rows)}""")
    return 0 if apart <= 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
