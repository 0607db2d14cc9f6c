"""The ranks of bench/pytorch: processes over Gloo that train one model. Ops do their arithmetic and are then held to their time, and
links are late, through the classes of examples/python/slow_link.py."""
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
from slackline.adapting import order as orders
from torch.distributed.pipelining import schedules
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python"))
from cases import microbatches_of, rank_of  # noqa: E402
from slow_link import PacedStage, SlowLink, layer, train  # noqa: E402

LOSS = torch.nn.functional.mse_loss


class Stage(PacedStage):
    """A stage with its own time for each kind of op. It ends the held time with an op that the profiler records, because that
    measures a label by the ops in it."""

    def __init__(self, index, rank_of_stage, times, group):
        """times: ms of F, I and W of each stage"""
        super().__init__(layer(index), index, len(rank_of_stage), torch.device("cpu"), group=group)
        self.times = {kind: times[kind][index] / 1e3 for kind in "FIW"}
        self.longer = 1.0

    def held(self, count, work, *arguments, **options):
        result = super().held(count, work, *arguments, **options)
        torch.zeros(1)
        return result

    def forward_one_chunk(self, *arguments, **options):
        self.op = self.times["F"] * self.longer
        return super().forward_one_chunk(*arguments, **options)

    def backward_one_chunk(self, chunk, loss=None, full_backward=True, last_backward=False):
        self.op = self.longer * ((self.times["I"] + self.times["W"]) / 2 if full_backward else self.times["I"])
        return super().backward_one_chunk(chunk, loss=loss, full_backward=full_backward, last_backward=last_backward)

    def backward_weight_one_chunk(self, *arguments, **options):
        self.op = self.times["W"] * self.longer
        return super().backward_weight_one_chunk(*arguments, **options)


class Late:
    """The links of a rank: messages over them leave later, from a separate thread for each."""

    def __init__(self, rank, links):
        self.links = {(rank, to): SlowLink(to, 0.0) for to in sorted({to for a, to in links if a == rank})}

    def set(self, late):
        """late: ms by link"""
        for link, slow in self.links.items():
            slow.delay = late.get(link, 0) / 1e3


class Together:
    """The stages of a rank, in place of the one stage in the example's `train`."""

    def __init__(self, stages):
        self.stages = stages
        self.submod = torch.nn.ModuleList([stage.submod for stage in stages])
        self.is_first, self.is_last = (any(getattr(stage, what) for stage in stages) for what in ("is_first", "is_last"))


def stages_of(rank, placement, ranks, times, group=None):
    of = rank_of(placement, ranks)
    return Together([Stage(index, of, times, group) for index, owner in enumerate(of) if owner == rank])


def theirs(name, stages, microbatches):
    """PyTorch's own schedule."""
    kind = getattr(schedules, "Schedule" + name)
    return kind(stages[0] if issubclass(kind, schedules.PipelineScheduleSingle) else stages, microbatches, loss_fn=LOSS)


def samples(microbatches):
    draw = torch.Generator().manual_seed(7)
    return (torch.randn(microbatches * 4, 16, generator=draw, dtype=torch.float64) for _ in range(2))


def spawned(work, ranks, arguments, seen=None):
    """What `ranks` processes that run work(rank, *arguments, store, results) put into results: pairs of a key and a value. `seen` is called
    with each. Raises if a process fails."""
    results = multiprocessing.get_context("spawn").SimpleQueue()
    found = {}

    def drain():
        while not results.empty():
            key, value = results.get()
            found[key] = value
            if seen:
                seen(key)
    with tempfile.TemporaryDirectory() as folder:
        started = multiprocessing.spawn(work, (*arguments, os.path.join(folder, "store"), results), nprocs=ranks, join=False)
        while not started.join(timeout=0.1):
            drain()
        drain()
    return found


def opened(rank, ranks, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=120))


def closed():
    dist.barrier()
    dist.destroy_process_group()


# ---- static plans ------------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    name: str
    placement: str
    delay_ms: float  # of the link between ranks 0 and 1
    theirs: Optional[str] = None  # one of PyTorch's schedules; None: `plan`
    plan: Optional[slackline.Plan] = None
    trace: Optional[str] = None  # folder for its profiler traces


def order_of(schedule):
    """The order of a PyTorch schedule as CSV; None: schedules with one stage per rank do not expose theirs."""
    if isinstance(schedule, schedules.PipelineScheduleSingle):
        return None
    order = schedule.pipeline_order
    return "\n".join(",".join("" if action is None else str(action) for action in order[rank]) for rank in sorted(order)) + "\n"


def traced(run, rank, schedule, stage, microbatches, iterations):
    x, y = samples(microbatches)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(iterations):
            dist.barrier()
            schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None)
            profiler.step()
    profiler.export_chrome_trace(os.path.join(run.trace, f"rank{rank}.json"))


def static_main(rank, ranks, microbatches, op_ms, iterations, runs, store, results):
    opened(rank, ranks, store)
    links = Late(rank, [(0, 1), (1, 0)])
    for number, run in enumerate(runs):
        links.set({(0, 1): run.delay_ms, (1, 0): run.delay_ms})
        stages = len(rank_of(run.placement, ranks))  # a rank computes the same amount with any number of stages
        together = stages_of(rank, run.placement, ranks, {kind: [op_ms * ranks / stages] * stages for kind in "FIW"})
        schedule = theirs(run.theirs, together.stages, microbatches) if run.plan is None else run.plan.schedule(together.stages, loss_fn=LOSS)
        order = order_of(schedule)
        times, losses = train(schedule, together, microbatches, iterations + 1)
        if run.trace:
            traced(run, rank, schedule, together, microbatches, 6)
        if together.is_last:
            results.put((number, (times[1:], losses, order)))  # the first iteration sets up connections
    closed()


def measure(ranks, microbatches, op_ms, iterations, runs):
    """For each run: the seconds of each iteration on the slowest rank, the losses, and the order as CSV."""
    began = time.monotonic()
    found = spawned(static_main, ranks, (ranks, microbatches, op_ms, iterations, runs),
                    seen=lambda number: print(f"{time.monotonic() - began:6.1f} s  {runs[number].name}, {runs[number].delay_ms:g} ms", file=sys.stderr, flush=True))
    return [found[number] for number in range(len(runs))]


# ---- while something gets slow -------------------------------------------------------------------------------------------------


class Share:
    """A process's part of a job: its replica of the pipeline, and the replicas of its stages."""

    def __init__(self, process, case):
        self.replica, self.rank = divmod(process, case.ranks)
        self.total, self.pipeline, self.copies = case.microbatches * case.replicas, None, None  # None: the default group; no other replica
        if case.replicas > 1:
            each, ranks = range(case.replicas), range(case.ranks)
            self.pipeline = [dist.new_group([replica * case.ranks + rank for rank in ranks]) for replica in each][self.replica]
            self.copies = [dist.new_group([replica * case.ranks + rank for replica in each]) for rank in ranks][self.rank]

    def rows(self, x, split):
        """The samples of this replica."""
        each = x.shape[0] // self.total
        return x[sum(split[:self.replica]) * each:sum(split[:self.replica + 1]) * each]

    def sum(self, module, weight):
        """The mean of gradients over all samples. weight: of this replica's mean"""
        for parameter in module.parameters() if self.copies else ():
            parameter.grad *= weight
            dist.all_reduce(parameter.grad, group=self.copies)

    def mean(self, losses):
        found = torch.stack(losses).sum()
        if self.copies:
            dist.all_reduce(found, group=self.copies)
        return (found / self.total).item()


def live_main(process, case, orders_by_phase, live, store, results):
    """orders_by_phase: None: the job's own schedule; else the orders of the replicas in each phase, swapped at the right steps. live: with slackline.adapt."""
    opened(process, case.processes, store)
    links, share = Late(process, case.late(0)), Share(process, case)
    together = stages_of(share.rank, case.placement, case.ranks, case.times, share.pipeline)
    phases = {first: phase for phase, (first, _) in enumerate(case.phases())}

    def by_hand(phase):
        made = slackline.simulate(case.problem(0, None, share.replica, microbatches_of(orders_by_phase[phase][share.replica])), orders_by_phase[phase][share.replica])
        return made.schedule(together.stages, loss_fn=LOSS), [microbatches_of(one) for one in orders_by_phase[phase]]
    even = [case.microbatches] * case.replicas
    running, split = by_hand(0) if orders_by_phase else (theirs(case.schedule, together.stages, case.microbatches), even)
    running = slackline.adapt(running, memory=case.memory, replicas=share.copies) if live else running
    x, y = samples(share.total)
    optimizer = torch.optim.SGD(together.submod.parameters(), lr=0.1)
    times, losses, ran = [], [], []
    for step in range(case.steps):
        if orders_by_phase and step in phases and step and orders_by_phase[phases[step]] != orders_by_phase[phases[step] - 1]:
            running, split = by_hand(phases[step])
        links.set(case.late(step))
        for stage in together.stages:
            stage.longer = case.longer(step)[process]
        optimizer.zero_grad()
        found, split = [], running.split if live else split
        dist.barrier()
        begin = time.monotonic()
        running.step(*((share.rows(x, split),) if together.is_first else ()), target=share.rows(y, split) if together.is_last else None, losses=found)
        took = torch.tensor(time.monotonic() - begin, dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        share.sum(together.submod, (case.microbatches if live else split[share.replica]) / share.total)
        optimizer.step()
        times.append(took.item() * 1e3)
        losses.append(share.mean(found) if together.is_last else None)
        ran.append(orders.text_of(orders.rows_of(running.pipeline_order)) if live and share.rank == 0 else None)
    if together.is_last and share.replica == 0:
        results.put(("losses", losses))
    everyone = [None] * case.processes
    dist.all_gather_object(everyone, ran)
    if process == 0:
        results.put(("times", times))
        results.put(("ran", list(zip(*everyone[::case.ranks]))))  # of each step, the order of each replica
        results.put(("events", [(one.step, one.kind, one.text) for one in running.adaptation.events] if live else []))
        results.put(("swaps", running.adaptation.swap_ms if live else []))
        results.put(("why", running.adaptation.why if live else ""))
        results.put(("problem", running.adaptation.problem if live else None))
    closed()


def run(case, orders_by_phase=None, live=False):
    """The losses and ms of each step; of a live run also the order of each step, events, ms of swaps, and the measured problem."""
    return spawned(live_main, case.processes, (case, orders_by_phase, live))
