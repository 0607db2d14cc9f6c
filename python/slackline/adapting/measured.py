# SPDX-License-Identifier: Apache-2.0
"""A job's shape, its steps as measured by all ranks, and the healthy problem (docs/formats.md) that some of these steps make."""
from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from .._errors import SlacklineError
from .._orchestrator import Measurements, measured_overhead
from .._plan import Op, Transfer, simulate
from .._problem import ProblemLike, problem_of
from . import order
from .order import Rows
from .timings import KINDS, OP, RECEIVED, SENT, Row

UNLIKE, UNLIKE_MS = 1.15, 0.5  # factor and ms by which a replica's ops or messages must take longer than another's to be slow from the beginning
HELD_NS = 1_000_000  # a message that arrives this soon after a late receive had been waiting for it: its arrival time is unknown


@dataclass
class Shape:
    """The properties of the job that are known before it runs."""
    rank_of: List[int]  # of each stage
    ranks: int
    placement: str
    microbatches: int
    given: Rows
    can_split: bool  # backwards may run as I and W
    ascending: bool  # plans must add the gradients of a stage's microbatches in ascending order
    memory: Any = "free"  # "free", "same", or bytes
    objective: str = "makespan"  # of plans; "period": steps overlap
    frozen: bool = False
    replicas: int = 1
    balances: bool = False  # the replicas may take different numbers of microbatches
    sums: bool = False  # gradients are summed over replicas during the step, so all must sum their stages in the same order
    problem: Optional[ProblemLike] = None  # the healthy job, if it need not be measured
    draws: Set[int] = field(default_factory=set)  # stages that draw random numbers in their forwards
    alternating: bool = False  # the last stage runs each backward right after its forward, and all of them are in ascending order

    @property
    def stages(self) -> int:
        return len(self.rank_of)


class Measured(NamedTuple):
    """A step, in ms of the first rank's clock since the start of the first step."""
    step: int
    version: int
    begin_ms: float
    end_ms: float
    ops: List[Op]
    transfers: List[Transfer]
    error_ms: float  # of the clocks
    took_ms: Optional[float] = None  # of the rank that takes longest, if steps overlap

    @property
    def time_ms(self) -> float:
        return self.took_ms if self.took_ms is not None else self.end_ms - self.begin_ms


def joined(step: int, version: int, records: Sequence[Sequence[Row]], begins: Sequence[int], ends: Sequence[int], offsets: Sequence[int],
           error: int, epoch: int, rank_of: Sequence[int], overlaps: bool = False) -> Measured:
    """The rows of all ranks as ops and transfers in one clock. overlaps: ranks begin a step before others have ended the one before. Since all
    begin it after the first rank, the rank that takes longest then takes the time from step to step."""
    ops: List[Op] = []
    sent: Dict[Tuple[int, int, int], Tuple[int, float]] = {}
    received: Dict[Tuple[int, int, int], Tuple[int, float, float]] = {}
    for rank, rows in enumerate(records):
        shift = offsets[rank] + epoch
        for what, op, stage, microbatch, begin, end in rows:
            if what == OP:
                ops.append(Op(rank, KINDS[op], stage, microbatch, (begin - shift) / 1e6, (end - shift) / 1e6))
            elif what == SENT:
                sent[op, stage, microbatch] = rank, (begin - shift) / 1e6
            elif what == RECEIVED:
                received[op, stage, microbatch] = rank, (begin - shift) / 1e6, (end - shift) / 1e6
    kinds = {(op.stage, op.microbatch): op.op for op in ops if op.op in "IB"}
    transfers: List[Transfer] = []
    for (op, stage, microbatch), (to, posted, arrived) in received.items():
        start = sent.get((op, stage, microbatch))
        if start is None or posted > start[1] and arrived - posted < HELD_NS / 1e6:
            continue
        begin = start[1]
        kind = "F" if op == 0 else kinds.get((stage, microbatch), "B")
        transfers.append(Transfer(start[0], to, kind, stage, microbatch, begin, begin, max(begin, arrived)))
    return Measured(step, version, min((one - shift_of) / 1e6 for one, shift_of in zip(begins, (o + epoch for o in offsets))),
                    max((one - shift_of) / 1e6 for one, shift_of in zip(ends, (o + epoch for o in offsets))), ops, transfers, error / 1e6,
                    max(end - begin for begin, end in zip(begins, ends)) / 1e6 if overlaps else None)


def time_of(steps: Sequence[Measured]) -> float:
    """The time of a step over all replicas, in ms."""
    return steps[0].time_ms if len(steps) == 1 else max(one.end_ms for one in steps) - min(one.begin_ms for one in steps)


def times_of(steps: Sequence[Measured], stages: int) -> Dict[str, List[Optional[float]]]:
    """Median time of each kind of op of each stage, in ms; None: it did not run."""
    found: Dict[Tuple[str, int], List[float]] = {}
    for step in steps:
        for op in step.ops:
            found.setdefault((op.op, op.stage), []).append(op.end_ms - op.start_ms)
    return {kind: [statistics.median(found[kind, stage]) if (kind, stage) in found else None for stage in range(stages)] for kind in "FIWB"}


def links_of(steps: Sequence[Measured]) -> Dict[Tuple[int, int], float]:
    """Median time of a message in each direction of each link, in ms."""
    found: Dict[Tuple[int, int], List[float]] = {}
    for step in steps:
        for one in step.transfers:
            found.setdefault((one.from_rank, one.to_rank), []).append(one.arrive_ms - one.start_ms)
    return {link: statistics.median(times) for link, times in found.items()}


def alike(steps: Sequence[Sequence[Measured]]) -> Tuple[List[List[Measured]], bool]:
    """Steps of several replicas as if all were healthy: an op or a message that takes longer than that of the fastest replica by more than
    UNLIKE takes as long as there. A replica that is slow from the beginning is thus compared with the others, not with itself. And whether there is one."""
    count = len(steps[0])
    times: List[Dict[Any, float]] = []
    for replica in range(count):
        found: Dict[Any, List[float]] = {}
        for step in steps:
            for key, (start, end) in ((_same(one), _span(one)) for one in (*step[replica].ops, *step[replica].transfers)):
                found.setdefault(key, []).append(end - start)
        times.append({key: statistics.median(values) for key, values in found.items()})
    least = {key: min(of[key] for of in times if key in of) for key in set().union(*times)}
    shares = [{key: least[key] / ms for key, ms in of.items() if ms > UNLIKE * least[key] and ms - least[key] > UNLIKE_MS} for of in times]
    return [[one._replace(ops=[_shortened(op, of) for op in one.ops], transfers=[_shortened(sent, of) for sent in one.transfers])
             for one, of in zip(step, shares)] for step in steps], any(shares)


def _same(one: Any) -> Any:
    """What an op or a message is compared by."""
    return (one.op, one.stage) if isinstance(one, Op) else (one.from_rank, one.to_rank)


def _span(one: Any) -> Tuple[float, float]:
    return one.start_ms, one.end_ms if isinstance(one, Op) else one.arrive_ms


def _shortened(one: Any, shares: Mapping[Any, float]) -> Any:
    start, end = _span(one)
    until = start + (end - start) * shares.get(_same(one), 1.0)
    return replace(one, end_ms=until) if isinstance(one, Op) else replace(one, arrive_ms=until)


def op_times(steps: Sequence[Measured], shape: Shape) -> Dict[str, List[float]]:
    """F, I, W and B of each stage, in ms. A backward that always ran in one piece is assumed to have two equal halves. On the first
    stage it is nearly all W, because there is no gradient for the input. A backward that cannot be split is all I."""
    found, made = times_of(steps, shape.stages), {kind: [] for kind in "FIWB"}  # type: Tuple[Dict[str, List[Optional[float]]], Dict[str, List[float]]]
    for stage in range(shape.stages):
        f, i, w, b = (found[kind][stage] for kind in "FIWB")
        if b is None:
            b = (i or 0.0) + (w or 0.0)
        if not shape.can_split:
            i, w = b, 0.0
        elif i is None or w is None:
            i, w = (0.02 * b, 0.98 * b) if stage == 0 else (b / 2, b / 2)
        for kind, value in zip("FIWB", (f or 0.0, i, w, b)):
            made[kind].append(round(value, 6))
    return made


def problem_of_steps(shape: Shape, times: Mapping[str, Sequence[float]], links: Mapping[Tuple[int, int], float],
                     kept: Mapping[int, int], limits: Optional[Sequence[float]]) -> Dict[str, Any]:
    """limits  per rank: microbatches of a stage ("same") or bytes; None: no limit."""
    pipeline: Dict[str, Any] = {
        "ranks": shape.ranks, "stages": shape.stages, "microbatches": shape.microbatches, "placement": shape.placement,
        "times_ms": {kind: list(values) for kind, values in times.items()},
        "objective": shape.objective, "links": {"default": {"latency_ms": 0}, "list": [
            {"between": list(link), "one_way": True, "latency_ms": round(max(0.0, time), 6)} for link, time in sorted(links.items())]}}
    if limits is not None:
        by_bytes = shape.memory != "same"
        delta = [max(1, kept.get(stage, 1)) for stage in range(shape.stages)] if by_bytes else [1] * shape.stages
        freed = "I" if not shape.can_split else "W"
        pipeline["memory"] = {"delta": {"F": delta, "I": 0, "W": 0, freed: [-one for one in delta], "B": [-one for one in delta]},
                              "limit": [max(float(one), 1.0) for one in limits]}
    return {"pipeline": pipeline}


def overhead_of(steps: Sequence[Measured], problem: Mapping[str, Any]) -> Dict[str, float]:
    """What the runtime adds to an op and to a message, in ms."""
    made = problem_of(problem, None)
    found = [measured_overhead(made, Measurements(sorted(step.ops, key=lambda op: (op.rank, op.start_ms)), step.transfers)) for step in steps]
    return {what: round(statistics.median(values), 6) for what, values in zip(("op", "message"), zip(*found))}


def unfit(problem: ProblemLike, shape: Shape) -> str:
    """The reason why a problem is not one of this job; empty: it is. Raises InvalidRequest for an invalid problem."""
    made = problem_of(problem, None)
    for what, given, here in (("ranks", made.ranks, shape.ranks), ("stages", made.stages, shape.stages), ("microbatches", made.microbatches, shape.microbatches)):
        if given != here:
            return f"it has {given} {what}, the schedule has {here}"
    try:
        simulate(made, order.text_of(shape.given))
    except SlacklineError as error:
        return f"the schedule's order does not run there: {error}"
    return ""
