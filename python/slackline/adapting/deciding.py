# SPDX-License-Identifier: Apache-2.0
"""The decisions of the first rank, based on the measurements of all ranks: the healthy problem of the job, and then the
orchestrator's actions while the job runs.

    measure   some steps of the given order; their medians make a problem (docs/formats.md)
    watch     an Orchestrator observes them and every later step and requests plans, until the job ends: better ones for the healthy
              job, ones for slow links and ranks; with replicas, also splits of the microbatches

A problem from the user replaces the first part. All replicas have the same problem, and begin with the same order.

This module does not use PyTorch: its input are rows of timings.py, its output are rows of cells.
"""
from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from .._errors import InvalidRequest, SlacklineError
from .._orchestrator import Action, Event, Measurements, Orchestrator, measured_overhead
from .._plan import Op, Plan, Transfer, simulate
from .._problem import Problem, ProblemLike, problem_of
from . import order
from .order import Rows
from .timings import KINDS, OP, RECEIVED, SENT, Row

FORMAT = "slackline-adaptation-1"
MEASURED = 4  # steps of the healthy problem
SETTLED = 1  # steps before the measured ones, which set up connections
URGENT = 8  # steps after an event in which actions are likely, until one is carried out
GAIN = 0.02  # share of a step that a plan must gain
HOLD, DWELL = 3, 8  # steps that a change must last, and steps between two plans: a swap costs almost nothing here
SWAP_MS = 2.0
SEARCH = 20_000_000  # replayed ops of the search for a better plan for the healthy job: about 0.3 s
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
    objective: str = "makespan"  # of plans
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

    @property
    def time_ms(self) -> float:
        return self.end_ms - self.begin_ms


@dataclass
class Swap:
    """An order for each replica, and the number of its microbatches."""
    version: int
    rows: List[Rows]
    split: List[int]
    why: str
    action: Optional[Action] = None  # not carried out yet
    plans: Optional[List[Plan]] = None
    from_step: Optional[int] = None
    asked_ms: float = 0.0
    took_ms: float = 0.0  # to change the order, on the slowest rank


@dataclass
class Happening:
    """An event for users."""
    step: int
    time_ms: float
    kind: str
    text: str
    event: Optional[Event] = None
    fields: Dict[str, Any] = field(default_factory=dict)


# ---- a problem from measurements --------------------------------------------------------------------------------------------


def joined(step: int, version: int, records: Sequence[Sequence[Row]], begins: Sequence[int], ends: Sequence[int], offsets: Sequence[int],
           error: int, epoch: int, rank_of: Sequence[int]) -> Measured:
    """The rows of all ranks as ops and transfers in one clock."""
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
                    max((one - shift_of) / 1e6 for one, shift_of in zip(ends, (o + epoch for o in offsets))), ops, transfers, error / 1e6)


def time_of(steps: Sequence[Measured]) -> float:
    """The time of a step over all replicas, in ms."""
    return max(one.end_ms for one in steps) - min(one.begin_ms for one in steps)


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
        "links": {"default": {"latency_ms": 0},
                  "list": [{"between": list(link), "one_way": True, "latency_ms": round(max(0.0, time), 6)} for link, time in sorted(links.items())]}}
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


# ---- deciding ----------------------------------------------------------------------------------------------------------------


class Decider:
    """Takes one step at a time, as measured on each replica, and may return a swap. Used by one thread."""

    def __init__(self, shape: Shape, kept: Callable[[], Mapping[int, int]], free: Callable[[], Sequence[float]], seed: int = 1) -> None:
        self.shape, self._kept, self._free, self._seed = shape, kept, free, seed
        self.orders, self.split, self.version = [shape.given] * shape.replicas, [shape.microbatches] * shape.replicas, 0
        self.pending: Optional[Swap] = None
        self.happened: List[Happening] = []
        self._held: List[Happening] = []  # the events of the pending swap, which happen when the ranks run it
        self.problem: Optional[ProblemLike] = None
        self.plans: List[Plan] = []  # of each replica, timed on the problem
        self.predicted_ms: Optional[float] = None
        self.decisions = ""
        self._steps: List[Sequence[Measured]] = []  # measured for the healthy problem
        self._skip = SETTLED
        self._orchestrator: Optional[Orchestrator] = None
        self._added: Dict[Tuple[str, int], float] = {}  # ms of an op of a kind and stage that the runtime adds
        self._first = shape.given  # the orchestrator's first order
        self._resumed: Optional[Dict[str, Any]] = None
        self._versions, self._now = 0, 0.0
        self._seen = self._urgent_until = -1  # steps
        self._balances = shape.balances

    @property
    def orchestrator(self) -> Optional[Orchestrator]:
        return self._orchestrator

    @property
    def running(self) -> Rows:
        """The order of the first replica."""
        return self.orders[0]

    @property
    def plan(self) -> Optional[Plan]:
        """The plan of the first replica."""
        return self.plans[0] if self.plans else None

    def keep_split(self) -> None:
        """The replicas no longer count the same steps, so their numbers of microbatches cannot change together."""
        self._balances = False

    def close(self) -> None:
        if self._orchestrator is not None:
            self._orchestrator.close()

    def save(self) -> Dict[str, Any]:
        """The state that a resumed job need not measure again; empty: nothing is known yet."""
        if self._orchestrator is None:
            return {}
        problem = self.problem.yaml() if isinstance(self.problem, Problem) else self.problem
        return {"format": FORMAT, "problem": problem, "replicas": self.shape.replicas, "first": order.text_of(self._first), "orchestrator": self._orchestrator.save()}

    def resume(self, saved: Dict[str, Any]) -> None:
        """Restores the state from `save`, before the first step. Raises InvalidRequest if it is from a different job."""
        if not saved:
            return
        try:
            rows = order.parsed(saved["first"])
            fits = not unfit(saved["problem"], self.shape)
        except (KeyError, TypeError) as error:
            raise InvalidRequest(f"this is not the state of an adaptation: {error!r}") from None
        shape = self.shape
        if saved.get("format") != FORMAT or not fits or saved.get("replicas", 1) != shape.replicas or \
                not order.is_complete(rows, shape.stages, shape.microbatches) or not shape.can_split and order.is_split(rows):
            raise InvalidRequest("the saved state is from a different job")
        self._resumed = {**saved, "rows": rows}

    def observe(self, steps: Sequence[Measured]) -> Optional[Swap]:
        """Takes a step that has ended on all ranks. Returns orders that all should run as soon as possible, or None."""
        swap, self._seen = self.pending, steps[0].step
        if swap is not None and steps[0].version == swap.version:
            self._carried_out(swap, steps)
        elif swap is not None and self._orchestrator is None:
            return None  # steps before such a swap are not part of any measurement
        if self._orchestrator is not None:
            return self._watch(steps)
        if self._resumed is not None:
            return self._take_up(steps[0])
        if self.shape.problem is not None:
            self.problem = self.shape.problem
            self._profiled(steps[0], None)
            self._open([])
            return self._watch(steps)
        if self._skip > 0:
            self._skip -= 1
            return None
        self._steps.append(steps)
        return self._choose() if len(self._steps) == MEASURED else None

    # ---- the healthy problem

    def _choose(self) -> Optional[Swap]:
        (steps, uneven), self._steps = alike(self._steps), []
        every = [one for replicas in steps for one in replicas]
        times = op_times(every, self.shape)
        problem = problem_of_steps(self.shape, times, links_of(every), self._kept(), self._limits(times))
        problem["pipeline"]["overhead_ms"] = overhead_of(every, problem)
        self.problem = problem
        if uneven:  # a step of the healthy job was not measured
            took = simulate(self.problem, order.text_of(self.running)).makespan_ms
            steps = [[one._replace(end_ms=min(one.end_ms, one.begin_ms + took)) for one in step] for step in steps]
        self._profiled(steps[-1][0], statistics.median(time_of(one) for one in steps))
        self._open(steps[:-1])
        return self._watch(steps[-1])

    def _profiled(self, now: Measured, measured_ms: Optional[float]) -> None:
        assert self.problem is not None
        predicted_ms = simulate(self.problem, order.text_of(self.running)).makespan_ms
        self._say(now, "profile", f"a step takes {measured_ms:.1f} ms ({predicted_ms:.1f} predicted)" if measured_ms is not None else
                  f"a step takes {predicted_ms:.1f} ms, predicted for the given problem", measured_ms=measured_ms, predicted_ms=predicted_ms)

    def _limits(self, times: Mapping[str, Sequence[float]]) -> Optional[List[float]]:
        limits = self._memory(times)
        if self.shape.alternating:  # room for one microbatch on the last stage
            limits = limits or [1e15] * self.shape.ranks
            limits[-1] = 1.0 if self.shape.memory == "same" else max(1.0, float(self._kept().get(self.shape.stages - 1, 1)))
        return limits

    def _memory(self, times: Mapping[str, Sequence[float]]) -> Optional[List[float]]:
        if self.shape.memory == "same":
            free = problem_of_steps(self.shape, times, {}, {}, None)
            free["pipeline"]["memory"] = {"delta": {"F": 1, "I": -1 if not self.shape.can_split else 0, "W": 0 if not self.shape.can_split else -1, "B": -1}}
            return list(simulate(free, order.text_of(self.shape.given)).peak_memory)
        if self.shape.memory == "free":
            if not self._kept():
                return None
            given = problem_of_steps(self.shape, times, {}, self._kept(), [1e15] * self.shape.ranks)
            peaks = simulate(given, order.text_of(self.shape.given)).peak_memory
            return [max(free, peak) for free, peak in zip(self._free(), peaks)]  # the given schedule's memory is available
        return [float(self.shape.memory)] * self.shape.ranks

    def _runnable(self, made: Plan) -> Optional[Rows]:
        try:
            rows = order.parsed(made.csv().replace("OVERLAP_F_B", ""))
        except SlacklineError:
            return None
        if not self.shape.can_split:
            rows = order.whole(rows)
        if order.forwards(rows, self.shape.draws) != order.forwards(self.shape.given, self.shape.draws):  # other random numbers
            return None
        if self.shape.ascending and not order.ascends(rows) or not order.runs(rows, self.shape.stages):
            return None
        if self.shape.sums and order.last_backwards(rows) != order.last_backwards(self.shape.given):
            return None
        if self.shape.alternating and not order.alternates(rows):
            return None
        return rows

    def _take_up(self, step: Measured) -> Optional[Swap]:
        """Takes up the order and the baseline from before the resume."""
        assert self._resumed is not None
        saved = self._resumed
        if self.running != saved["rows"]:
            return self._swap([saved["rows"]] * self.shape.replicas, self.split, step, None, None, "the order from before the resume")
        problem = saved["problem"]
        self._resumed, self.problem = None, Problem(problem) if isinstance(problem, str) else problem
        self._open([])
        assert self._orchestrator is not None
        self._orchestrator.load(saved["orchestrator"])
        return None

    # ---- while it runs

    def _open(self, steps: Sequence[Sequence[Measured]]) -> None:
        """steps: of the healthy job. Thus its level is known at once, even if something gets slow now."""
        assert self.problem is not None
        healthy = problem_of(self.problem, None)
        self._added = {(kind, stage): healthy.overhead_ms(kind, stage) for kind in KINDS for stage in range(self.shape.stages)}
        replicas, runs = self.shape.replicas, simulate(healthy, order.text_of(self.running))
        self.plans, self._first = [runs] * replicas, self.running
        costs = {"schedule": SWAP_MS, "balance": SWAP_MS}
        self._orchestrator = Orchestrator([healthy] * replicas, self.plans, replicas=replicas, split=self.split,
                                          can=("schedule", "balance") if self._balances else ("schedule",), frozen=self.shape.frozen, gain=GAIN,
                                          seed=self._seed, hold=HOLD, dwell=DWELL, cost_ms=costs, undo_cost_ms=costs)
        self._orchestrator.improve(SEARCH)
        self._orchestrator.keep_sums(self.shape.sums)
        for one in steps:
            self._observe(one)

    def _observe(self, steps: Sequence[Measured]) -> Measured:
        """Returns the step of the replica that took longest."""
        assert self._orchestrator is not None
        now = max(steps, key=lambda one: one.end_ms)
        self._orchestrator.observe(now.step, self._later(now.end_ms), time_of(steps), [self._as_planned(one, made) for one, made in zip(steps, self.plans)],
                                   clock_error_ms=2 * now.error_ms)
        return now

    def _watch(self, steps: Sequence[Measured]) -> Optional[Swap]:
        assert self._orchestrator is not None
        now = self._observe(steps)
        try:
            self.predicted_ms = max(self._orchestrator.forecast_ms(replica) for replica in range(self.shape.replicas))
        except SlacklineError:
            self.predicted_ms = None
        swap: Optional[Swap] = None
        if self.pending is None:
            for action in self._orchestrator.actions():
                swap = self._swap_of(action, now)
                if swap is not None:
                    break
        for event in self._orchestrator.events():
            if event.kind in ("onset", "suspect", "relief"):
                self._urgent_until = now.step + URGENT
            found = Happening(event.iteration, event.time_ms, event.kind, "; ".join(t for t in (event.seen, event.decided, event.why) if t), event)
            (self._held if swap is not None and event.kind in ("swap", "return") else self.happened).append(found)
        self.decisions += self._orchestrator.decisions()
        return swap

    def _later(self, ms: float) -> float:
        """The orchestrator's clock, which does not go back: the ranks of two replicas begin and end at slightly different times."""
        self._now = max(self._now, ms)
        return self._now

    def _swap_of(self, action: Action, step: Measured) -> Optional[Swap]:
        """Other plans, and numbers of microbatches, of the replicas that an action is about."""
        assert self._orchestrator is not None
        of = [action.replica] if action.replica is not None else list(range(self.shape.replicas))
        made = {replica: self._orchestrator.plan(replica) for replica in of}
        rows = {replica: self._runnable(plan) for replica, plan in made.items()}
        moves = action.what == "layout" and action.layout is not None
        if moves and not self._balances or None in rows.values():
            self._orchestrator.carried_out(action, self._later(step.end_ms), outcome="refused" if moves else "failed")
            return None
        split = list(action.layout.split) if moves and action.layout is not None else self.split
        return self._swap([rows.get(replica) or own for replica, own in enumerate(self.orders)], split, step, action,
                          [made.get(replica, own) for replica, own in enumerate(self.plans)],
                          (f"{' and '.join(map(str, split))} microbatches per replica" if moves else "") +
                          (f": {100 * action.loss:.0f}% of the time lost, {100 * action.expected:.0f}% expected" if action.loss > 0 else ""))

    def _as_planned(self, step: Measured, made: Plan) -> Measurements:
        """The measurements in the form of the plan: an op begins when the runtime begins with it, and a backward that cannot be split is
        an I there, with a W that takes no time.

        Microbatches have one shape, so every op counts as the same work: ops that take longer on all ranks of a replica are slow, not longer."""
        work = [1.0] * len(step.ops)
        step = step._replace(ops=[replace(op, start_ms=op.start_ms - self._added[op.op, op.stage]) for op in step.ops])
        if self.shape.can_split or not any(op.op == "I" for op in made.ops):
            return Measurements(step.ops, step.transfers, work)
        return Measurements([replace(op, op="I") if op.op == "B" else op for op in step.ops],
                            [replace(one, op="I") if one.op == "B" else one for one in step.transfers], work)

    # ---- swaps

    def _swap(self, orders: List[Rows], split: List[int], step: Measured, action: Optional[Action], plans: Optional[List[Plan]], why: str) -> Swap:
        self._versions += 1
        self.pending = Swap(self._versions, orders, split, why, action, plans, asked_ms=step.end_ms)
        return self.pending

    def _carried_out(self, swap: Swap, steps: Sequence[Measured]) -> None:
        self.pending = None
        for one in self._held:
            one.step, one.time_ms = max(0, steps[0].step - 1), steps[0].begin_ms
        self.happened, self._held = self.happened + self._held, []
        if swap.split != self.split:
            self.happened.append(Happening(steps[0].step, steps[0].begin_ms, "arrange", swap.why, None, {"split": swap.split, "took_ms": round(swap.took_ms, 3)}))
        self.orders, self.split, self.version = swap.rows, swap.split, swap.version
        if swap.plans is not None:
            self.plans = swap.plans
        if swap.action is not None and self._orchestrator is not None:
            self._orchestrator.carried_out(swap.action, self._later(steps[0].begin_ms), took_ms=swap.took_ms)
            self._urgent_until = -1
            if not self._orchestrator.adapted() and self.split == [self.shape.microbatches] * self.shape.replicas:  # a better first plan, or back to it
                self._first, self._urgent_until = self.running, steps[0].step + HOLD
        else:
            self._say(steps[0], "swap", swap.why)
            self._skip = SETTLED

    @property
    def urgent(self) -> bool:
        """Whether the next steps decide: until the healthy job is known, soon after something has become slow or healthy, and until a swap."""
        return not self.shape.frozen and (self._orchestrator is None or self.pending is not None or self._seen < self._urgent_until)

    @property
    def calm(self) -> bool:
        """Whether nothing is slow, and the job runs as it would if nothing had ever been slow."""
        watching = self._orchestrator
        return watching is not None and self.pending is None and not self.urgent and not watching.troubled and \
            not any(watching.adapted(replica) for replica in range(self.shape.replicas))

    def refuse(self, swap: Swap, now_ms: float) -> None:
        """Called if the ranks cannot run the order."""
        self.pending, self._held = None, []
        if swap.action is not None and self._orchestrator is not None:
            self._orchestrator.carried_out(swap.action, self._later(now_ms), outcome="failed")

    def _say(self, step: Measured, kind: str, text: str, **fields: Any) -> None:
        self.happened.append(Happening(step.step, step.end_ms, kind, text, None, fields))
