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
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .._errors import InvalidRequest, SlacklineError
from .._orchestrator import Action, Event, Measurements, Orchestrator
from .._plan import Plan, simulate
from .._problem import Problem, ProblemLike, problem_of
from . import order
from .measured import Measured, Shape, alike, links_of, op_times, overhead_of, problem_of_steps, time_of, unfit
from .order import Rows
from .timings import KINDS

FORMAT = "slackline-adaptation-1"
MEASURED = 4  # steps of the healthy problem
SETTLED = 1  # steps before the measured ones, which set up connections
URGENT = 8  # steps after an event in which actions are likely, until one is carried out
GAIN = 0.02  # share of a step that a plan must gain
HOLD, DWELL = 3, 8  # steps that a change must last, and steps between two plans: a swap costs almost nothing here
SWAP_MS = 2.0
SEARCH = 20_000_000  # replayed ops of the search for a better plan for the healthy job: about 0.3 s


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
        self._expected: Any = None  # what the orchestrator's plans take into account of the stages

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
        """The numbers of microbatches cannot change: the replicas no longer count the same steps, or the program does not ask for the numbers."""
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
        if self._orchestrator is not None and self.pending is None and self._expected != self._expects():
            return self._begin_again(steps[0])
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
            took = simulate(self.problem, order.text_of(self.running)).value_ms
            steps = [[one._replace(end_ms=min(one.end_ms, one.begin_ms + took)) for one in step] for step in steps]
        self._profiled(steps[-1][0], statistics.median(time_of(one) for one in steps))
        self._open(steps[:-1])
        return self._watch(steps[-1])

    def _profiled(self, now: Measured, measured_ms: Optional[float]) -> None:
        assert self.problem is not None
        predicted_ms = simulate(self.problem, order.text_of(self.running)).value_ms
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
        if not self._fits(rows):
            return None
        if self.shape.ascending and not order.ascends(rows) or not order.runs(rows, self.shape.stages):
            return None
        if self.shape.sums and order.last_backwards(rows) != order.last_backwards(self.shape.given):
            return None
        if self.shape.alternating and not order.alternates(rows):
            return None
        return rows

    def _fits(self, rows: Rows) -> bool:
        """Whether the stages can run these rows as the given ones, as far as is known now."""
        return (self.shape.can_split or not order.is_split(rows)) and \
            order.forwards(rows, self.shape.draws) == order.forwards(self.shape.given, self.shape.draws)

    def _expects(self) -> Any:
        return self.shape.can_split, len(self.shape.draws)

    def _begin_again(self, step: Measured) -> Optional[Swap]:
        """The stages do what no plan has taken into account: the job returns to the given order, which is measured again."""
        self.close()
        self._orchestrator, self._steps, self._skip, self._expected = None, [], SETTLED, None
        even = [self.shape.microbatches] * self.shape.replicas
        if self.orders == [self.shape.given] * self.shape.replicas or self.split != even and not self._balances:
            return None
        return self._swap([self.shape.given] * self.shape.replicas, even, step, None, None, "the given order: backwards can no longer be split, or forwards draw random numbers")

    def _take_up(self, step: Measured) -> Optional[Swap]:
        """Takes up the order and the baseline from before the resume."""
        assert self._resumed is not None
        saved = self._resumed
        if not self._fits(saved["rows"]):
            self._resumed = None
            return None
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
        healthy, self._expected = problem_of(self.problem, None), self._expects()
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
