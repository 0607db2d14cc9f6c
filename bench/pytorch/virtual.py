"""A job in simulated time whose steps are replayed by the library, and what the first rank of `slackline.adapt` decides about it
(slackline.adapting.deciding): exact and repeatable, except for the noise that is added. No PyTorch and no processes."""
import random
from typing import Any, Callable, Dict, List, Optional, Tuple

import slackline
from slackline.adapting import order
from slackline.adapting.deciding import Decider
from slackline.adapting.measured import Measured, Shape


class Job:
    """truth     the problem of the job, with its objective; I and W as they really are
    given     its first order
    noise     share by which ops, messages and steps vary
    lag       steps between a decision and its swap; a live job takes more (a record is read two steps later, and a plan is offered
              before it is run), so that its results are somewhat worse"""

    def __init__(self, truth: Dict[str, Any], rank_of: List[int], given: str, *, seed: int = 1, noise: float = 0.0, lag: int = 3, can_split: bool = True,
                 **shape: Any) -> None:
        pipeline = truth["pipeline"]
        self.truth = truth
        if not can_split:
            pipeline["times_ms"] = {**pipeline["times_ms"], "I": pipeline["times_ms"]["B"], "W": 0}
        rows = order.parsed(given)
        rows = rows if can_split else order.whole(rows)
        self.shape = Shape(rank_of, pipeline["ranks"], pipeline["placement"], pipeline["microbatches"], rows, can_split, order.ascends(rows),
                           objective=pipeline.get("objective", "makespan"), **shape)
        self.decider = Decider(self.shape, lambda: {stage: 100 for stage in range(self.shape.stages)}, lambda: [1e9] * self.shape.ranks)
        self.rows, self.version, self.now, self.step = rows, 0, 0.0, 0
        self._pending: List[Tuple[int, Any]] = []
        self._draw, self._noise, self._lag = random.Random(seed), noise, lag
        self._replayed: Dict[Tuple[str, str], slackline.Plan] = {}
        self.ran: List[order.Rows] = []  # of each step

    def _overhead_of(self, op: slackline.Op) -> Tuple[float, float]:
        """The overhead before an op begins, and after it has ended: neither is measured as a part of the op."""
        added, of = self.truth["pipeline"].get("overhead_ms", {}), self.shape.rank_of
        sides = [op.op != "W" and 0 <= beside < len(of) and of[beside] != op.rank for beside in (op.stage - 1, op.stage + 1)]
        received, sent = sides if op.op == "F" else reversed(sides)
        return added.get("op", 0.0) + received * added.get("message", 0.0), sent * added.get("message", 0.0)

    def _varied(self) -> float:
        return 1 + self._noise * self._draw.random()

    def _replay(self, truth: Any, slow: Optional[Dict[str, Any]]) -> slackline.Plan:
        key = order.text_of(self.rows), repr(truth) + repr(slow)
        if key not in self._replayed:
            self._replayed[key] = slackline.simulate(truth, key[0], changes=slow)
        return self._replayed[key]

    def run(self, steps: int, slow: Optional[Dict[str, Any]] = None, truth: Optional[Callable[[int], Dict[str, Any]]] = None) -> List[float]:
        """The time of each step. `slow`: changes of the problem; `truth`: the problem of each step instead."""
        times = []
        for _ in range(steps):
            for due, swap in list(self._pending):
                if self.step >= due:
                    self.rows, self.version = swap.rows[0], swap.version
                    self._pending.remove((due, swap))
            done = self._replay(truth(self.step) if truth else self.truth, slow)
            self._observe(done)
            self.ran.append(self.rows)
            times.append(done.value_ms)
        return times

    def _observe(self, done: slackline.Plan) -> None:
        stretch = self._varied()
        ops = []
        for o in done.ops:
            before, after = self._overhead_of(o)
            at = self.now + o.start_ms * stretch + before
            ops.append(slackline.Op(o.rank, o.op, o.stage, o.microbatch, at, at + (o.end_ms - o.start_ms - before - after) * self._varied()))
        transfers = [slackline.Transfer(t.from_rank, t.to_rank, t.op, t.stage, t.microbatch, at := self.now + t.start_ms * stretch, at,
                                        at + (t.arrive_ms - t.start_ms) * self._varied()) for t in done.transfers]
        took, end = done.value_ms * stretch, self.now + done.makespan_ms * stretch
        overlaps = self.shape.objective == "period"
        swap = self.decider.observe([Measured(self.step, self.version, self.now, end, ops, transfers, 0.01, took if overlaps else None)])
        if swap is not None:
            self._pending.append((self.step + self._lag, swap))
        self.now, self.step = self.now + took + 5, self.step + 1

    def kinds(self) -> List[str]:
        return [one.kind for one in self.decider.happened]
