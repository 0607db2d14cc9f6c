#!/usr/bin/env python3
"""The cost of slackline.adapt: PyTorch's runtime with an order alone, and the same order adapted, in turn, in the same processes on
the same modules.

The job runs blocks of steps: bare (PyTorch's runtime with the order and the messages that an adapted schedule begins with), frozen
(measures and reports only), watching (decides too, but a new order must gain 90%, so that the given order stays), and as given
(PyTorch's own class). An overhead is the difference between the mean step of a block and of the bare blocks before and after (the mean, because
an adapted schedule does not measure every step), and the bench reports the median of these differences, with quartiles; likewise the processor time of a rank and its threads. The
first steps of a block are not counted, because they also carry the work of the variant before. Nor are the first steps of an adapted schedule,
in which it measures the healthy job and searches for a better plan. Runs for about 10 minutes on a machine without other programs: the cases
"computed" need all cores.

Usage: bench/pytorch/overhead.py [BUILD_DIR] [--rounds N] [--case NAME]... [--write docs/results/evidence/pytorch.md]
Runs under .venv's Python (torch 2.13, tests/requirements.txt) where this one has no torch."""
import argparse
import functools
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, need_torch, source, table  # noqa: E402

need_torch()
sys.path[:0] = [os.path.join(source, "python"), os.path.join(source, "examples", "python"), here]
import slackline  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from cases import rank_of  # noqa: E402
from slackline.adapting import deciding, order  # noqa: E402
from slow_link import PacedStage  # noqa: E402
from torch.distributed.pipelining import PipelineStage, schedules  # noqa: E402

RANKS = 4
SKIPPED = 4  # steps of each block that are not counted
WARM, SEARCHING = 10, 150  # steps of each variant before the first round, and of an adapted one
SPLIT = "zb-h1"
# name: schedule, placement, microbatches, ms of a forward (0: computed as fast as it goes), width and number of layers of a stage, steps per block;
# SPLIT: the adapted schedules run 1F1B first, and then this order, whose split backwards are examined
CASES = {
    "1F1B, paced": ("1F1B", "linear", 12, 2.22, 64, 2, 24),
    "1F1B, computed": ("1F1B", "linear", 12, 0.0, 384, 2, 24),
    "interleaved, paced": ("Interleaved1F1B", "loop", 12, 1.15, 64, 2, 24),
    "interleaved, computed": ("Interleaved1F1B", "loop", 12, 0.0, 192, 2, 24),
    "1F1B, many tiny ops": ("1F1B", "linear", 100, 0.0, 8, 2, 16),
    "interleaved, many tiny ops": ("Interleaved1F1B", "loop", 100, 0.0, 8, 2, 16),
    "split, paced": (SPLIT, "linear", 12, 2.22, 64, 2, 24),
    "split, 60 layers per stage": (SPLIT, "linear", 12, 0.0, 16, 60, 24),
}
BARE, GIVEN = "bare", "as given"
ADAPTED = {"frozen": {"frozen": True}, "watching": {}}
VARIANTS = [GIVEN, *ADAPTED]
LOSS = torch.nn.functional.mse_loss


def layers(index, width, depth):
    torch.manual_seed(index)
    return torch.nn.Sequential(*(part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.Tanh()))).double()


def stages_of(modules, stages, paced):
    return [(PacedStage if paced else PipelineStage)(module, index, stages, torch.device("cpu")) for index, module in modules.items()]


def given_schedule(kind, stages, microbatches):
    cls = getattr(schedules, "Schedule" + (kind if kind != SPLIT else "1F1B"))
    return cls(stages[0] if issubclass(cls, schedules.PipelineScheduleSingle) else stages, microbatches, loss_fn=LOSS)


def bare_schedule(adapted, stages, microbatches):
    """PyTorch's runtime with the order that an adapted schedule runs now."""
    bare = schedules._PipelineScheduleRuntime(stages, microbatches, loss_fn=LOSS)
    bare.pipeline_order, bare.pipeline_order_with_comms = adapted.pipeline_order, adapted.pipeline_order_with_comms
    bare._validate_and_set_stage_mapping(bare.pipeline_order)
    return bare


def split_order(microbatches):
    """For AdaptedSchedule.load."""
    problem = {"pipeline": {"ranks": RANKS, "microbatches": microbatches, "times_ms": {"F": 1, "I": 1, "W": 1, "B": 2}}}
    rows = order.parsed(slackline.plan(problem, SPLIT).csv())
    comms = order.lowered(rows, list(range(RANKS)), microbatches)
    return f"{microbatches}\n\n{order.text_of(rows)}\n" + "".join(",".join(line) + "\n" for line in comms)


def rank_main(rank, case, rounds, store, results):
    kind, placement, microbatches, op_ms, width, depth, block = CASES[case]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS, timeout=timedelta(seconds=120))
    mine = [stage for stage, holder in enumerate(rank_of(placement, RANKS)) if holder == rank]
    modules, stages = {index: layers(index, width, depth) for index in mine}, RANKS * len(mine)
    PacedStage.op = op_ms / 1e3
    first, last = 0 in mine, stages - 1 in mine
    fresh = functools.partial(stages_of, modules, stages, op_ms > 0)
    deciding.GAIN = 0.9  # so that the given order stays
    running = {GIVEN: given_schedule(kind, fresh(), microbatches)}
    for name, arguments in ADAPTED.items():
        running[name] = slackline.adapt(given_schedule(kind, fresh(), microbatches), memory="same", **arguments)
        assert running[name].adaptation.active, running[name].adaptation.why
        if kind == SPLIT:
            running[name].load(split_order(microbatches))
    running[BARE] = bare_schedule(running["frozen"], fresh(), microbatches)
    x, y = (torch.randn(microbatches * 16, width, dtype=torch.float64) for _ in range(2))
    longest = torch.zeros(1, dtype=torch.float64)

    def block_of(name, count):
        """Mean ms of a step on the slowest rank, and mean ms of processor time on this rank."""
        took, used = [], []
        for _ in range(count):
            dist.barrier()
            begin, busy = time.monotonic(), time.process_time()
            running[name].step(*((x,) if first else ()), target=y if last else None, losses=[] if last else None)
            longest[0] = time.monotonic() - begin
            dist.all_reduce(longest, dist.ReduceOp.MAX)
            took.append(longest.item() * 1e3)
            used.append((time.process_time() - busy) * 1e3)
            for module in modules.values():
                module.zero_grad()
        return name, statistics.mean(took[SKIPPED:]), statistics.mean(used[SKIPPED:])
    for name in running:
        block_of(name, SEARCHING if name in ADAPTED else WARM)
    found = []
    for _ in range(rounds):
        for name in VARIANTS:
            found += [block_of(BARE, block), block_of(name, block)]
    found.append(block_of(BARE, block))
    results.put((rank, found, [(name, running[name].adaptation.active, running[name].adaptation.swap_ms) for name in ADAPTED]))
    dist.barrier()
    dist.destroy_process_group()


def measured(case, rounds):
    """ms of a bare step; of each variant, the differences of its blocks from the bare ones around it: of the step, and of the mean
    processor time of the ranks."""
    results = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(rank_main, (case, rounds, os.path.join(folder, "store"), results), nprocs=RANKS)
    of = {}
    while not results.empty():
        rank, of[rank], adapted = results.get()
        wrong = [name for name, active, swaps in adapted if not active or swaps]
        if wrong:
            sys.exit(f"{case}: rank {rank} no longer adapts, or has changed the order: {wrong}")
    blocks = [(name, took, statistics.mean(of[rank][at][2] for rank in of)) for at, (name, took, _) in enumerate(of[0])]
    more = {name: [] for name in VARIANTS}
    for before, (name, *block), after in zip(blocks, blocks[1:], blocks[2:]):
        if name != BARE:
            more[name].append([here - (a + b) / 2 for here, a, b in zip(block, before[1:], after[1:])])
    bare = statistics.median(took for name, took, _ in blocks if name == BARE)
    print(f"{case}: bare {bare:.1f} ms; " + "; ".join(f"{name} {statistics.median(t for t, _ in by):+.2f} ms ({statistics.median(c for _, c in by):+.2f} of a processor)"
                                                      for name, by in more.items()), file=sys.stderr, flush=True)
    return bare, more


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--write", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds must be at least 2")
    os.environ["SLACKLINE_LIBRARY"] = os.path.join(os.path.abspath(arguments.build), "libslackline.so")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3] + [os.environ.get("PYTHONPATH", "")])
    rows = []
    for case in arguments.case or CASES:
        kind, placement, microbatches, *_ = CASES[case]
        ops = (3 if kind == SPLIT else 2) * microbatches * len(rank_of(placement, RANKS)) // RANKS
        bare, more = measured(case, arguments.rounds)
        for name, by in more.items():
            low, middle, high = statistics.quantiles([took for took, _ in by], n=4)
            used = statistics.median(used for _, used in by)
            rows.append([case, name, f"{bare:.1f}", f"{middle:+.2f} ({low:+.2f} to {high:+.2f})", f"{100 * middle / bare:+.2f}%",
                         f"{1e3 * middle / ops:+.1f}", f"{1e3 * used / ops:+.1f}"])
    finish(arguments.write, "Overhead", f"""`bench/pytorch/overhead.py`, {machine()}, load {os.getloadavg()[0]:.1f} at its end, PyTorch {torch.__version__}. {RANKS} processes over Gloo.
Blocks of steps alternate between PyTorch's runtime with the given order and messages ("bare") and another variant, in the same processes:
"frozen" measures and reports; "watching" also decides, but keeps the order; "as given" is PyTorch's own class. Ops are paced (the time of a device) or computed (on
the cores that the processes share). The added time is the median over {arguments.rounds} rounds (and its quartiles) of the difference between the mean step of
a block and of the bare blocks around it. "split": the order
of {SPLIT} runs, whose backwards are examined before they are split. An op is an F, B, I or W of a stage; processor time is of a rank with all its threads, on average.

{table(["case", "schedule", "a bare step, ms", "added, ms", "of the step", "us per op", "processor, us per op"], rows)}""")
    return 0


if __name__ == "__main__":
    sys.exit(main())
