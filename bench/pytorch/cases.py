"""The jobs of bench/pytorch: their shape, op times, links and faults, as problems of the planner. No PyTorch here.

A fault holds in steps first to last - 1. The best static plans are known only in hindsight: `Hindsight` plans for every combination of
faults that occurs, and takes the plan with the shortest whole run."""
import random
import statistics
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

import slackline
from slackline.adapting import order as orders

Link = Tuple[int, int]  # from a rank, to a rank
# PyTorch's schedule: its family here, the placement of stages
SCHEDULES = {"GPipe": ("gpipe", "linear"), "1F1B": ("1f1b", "linear"), "Interleaved1F1B": ("interleaved-1f1b", "loop"), "LoopedBFS": ("gpipe", "loop"),
             "ZBVZeroBubble": ("zb-v", "wave"), "DualPipeV": ("dualpipe-v", "wave")}
HELD = {"F": 1, "I": 0, "W": -1, "B": -1}  # microbatches of a stage


@dataclass(frozen=True)
class Fault:
    first: int
    last: int
    links: Mapping[Link, float] = field(default_factory=dict)  # additional ms
    longer: Mapping[int, float] = field(default_factory=dict)  # factor of the ops of a rank; rank r of replica d of a pipeline of n ranks is d * n + r

    def __str__(self) -> str:
        parts = [f"{a}->{b} +{ms:g} ms" for (a, b), ms in self.links.items()] + [f"rank {rank} x {by:g}" for rank, by in self.longer.items()]
        return f"{', '.join(parts)} in steps {self.first} to {self.last}"


def both(a: int, b: int, ms: float) -> Dict[Link, float]:
    return {(a, b): ms, (b, a): ms}


def rank_of(placement: str, ranks: int) -> List[int]:
    if placement == "wave":
        return [*range(ranks), *reversed(range(ranks))]
    return [stage % ranks for stage in range(ranks * (2 if placement == "loop" else 1))]


@dataclass(frozen=True)
class Case:
    name: str
    schedule: str
    ranks: int
    microbatches: int
    times: Mapping[str, List[float]]  # ms of F, I and W of each stage
    faults: Tuple[Fault, ...]
    steps: int = 100
    links: Mapping[Link, float] = field(default_factory=dict)  # healthy delays, ms
    memory: str = "free"
    goals: Tuple[Optional[float], ...] = (None, None, None)  # most ms of a step: healthy after the first swap, slow, recovered
    replicas: int = 1

    @property
    def processes(self) -> int:
        return self.ranks * self.replicas

    @property
    def placement(self) -> str:
        return SCHEDULES[self.schedule][1]

    @property
    def rank_of(self) -> List[int]:
        return rank_of(self.placement, self.ranks)

    def late(self, step: int) -> Dict[Link, float]:
        """The delay of each link that is late at any time."""
        found = {link: 0.0 for fault in self.faults for link in fault.links} | dict(self.links)
        for fault in self.faults:
            if fault.first <= step < fault.last:
                for link, ms in fault.links.items():
                    found[link] += ms
        return found

    def longer(self, step: int) -> List[float]:
        found = [1.0] * self.processes
        for fault in self.faults:
            if fault.first <= step < fault.last:
                for rank, by in fault.longer.items():
                    found[rank] *= by
        return found

    def phases(self) -> List[Tuple[int, int]]:
        """The steps between changes of the faults."""
        edges = sorted({0, self.steps, *(min(edge, self.steps) for fault in self.faults for edge in (fault.first, fault.last))})
        return list(zip(edges, edges[1:]))

    def problem(self, step: int, limits: Optional[List[float]] = None, replica: int = 0, microbatches: Optional[int] = None) -> Dict[str, Any]:
        longer = self.longer(step)[replica * self.ranks:(replica + 1) * self.ranks]
        made = self._problem(self.late(step), longer, limits)
        made["pipeline"]["microbatches"] = microbatches or self.microbatches
        return made

    def best(self, step: int) -> List[str]:
        """The order of each replica, with the best split of the microbatches."""
        limits, total = self.limits(), self.microbatches * self.replicas

        def plan(replica: int, microbatches: int, seconds: float) -> slackline.Plan:
            return slackline.plan(self.problem(step, limits, replica, microbatches), "auto", seconds, exact=seconds > 0)
        split = [self.microbatches] * self.replicas
        if self.replicas == 2:  # one takes the rest of the other
            times = [{number: plan(replica, number, 0).makespan_ms for number in range(1, total)} for replica in range(2)]
            split = min(([number, total - number] for number in range(1, total)), key=lambda one: (max(times[0][one[0]], times[1][one[1]]), abs(one[0] - one[1])))
        return [_ops(plan(replica, number, 2)) for replica, number in enumerate(split)]

    def overhead_ms(self, measured: Optional[Mapping[str, Any]]) -> float:
        """The time by which an op took longer in the healthy job than in truth. measured: its problem"""
        if measured is None:
            return 0.0
        times, whole = measured["pipeline"]["times_ms"], [i + w for i, w in zip(self.times["I"], self.times["W"])]
        return statistics.median([m - t for m, t in zip(times["F"] + times["B"], self.times["F"] + whole)])

    def predicted_ms(self, step: int, ran: List[str], overhead_ms: float) -> float:
        """The time of a step with these orders of the replicas, and this overhead of the runtime per op."""
        changes = {"pipeline.overhead_ms.op": max(0.0, overhead_ms)}
        return max(float(slackline.simulate(self.problem(step, None, replica, microbatches_of(one)), one, changes=changes).makespan_ms)
                   for replica, one in enumerate(ran))

    def _problem(self, late: Mapping[Link, float], longer: List[float], limits: Optional[List[float]]) -> Dict[str, Any]:
        of = self.rank_of
        times = {kind: [ms * longer[of[stage]] for stage, ms in enumerate(self.times[kind])] for kind in "FIW"}
        pipeline: Dict[str, Any] = {
            "ranks": self.ranks, "microbatches": self.microbatches, "placement": self.placement,
            "times_ms": {**times, "B": [i + w for i, w in zip(times["I"], times["W"])]},
            "links": {"list": [{"between": list(link), "one_way": True, "latency_ms": ms} for link, ms in late.items()]}}
        if limits is not None:
            pipeline["memory"] = {"delta": HELD, "limit": limits}
        return {"pipeline": pipeline}

    def given(self) -> str:
        """The order of the job's own schedule."""
        return _ops(slackline.plan(self._problem({}, [1.0] * self.ranks, None), SCHEDULES[self.schedule][0]))

    def limits(self) -> Optional[List[float]]:
        """Microbatches of a stage that each rank may hold."""
        if self.memory != "same":
            return None
        return list(slackline.simulate(self._problem({}, [1.0] * self.ranks, [1e9] * self.ranks), self.given()).peak_memory)

    def worst(self, limits: Optional[List[float]]) -> Dict[str, Any]:
        """Everything that is ever slow, at once."""
        lates, longers = ([of(first) for first, _ in self.phases()] for of in (self.late, self.longer))
        late = {link: max(one[link] for one in lates) for link in lates[0]}
        return self._problem(late, [max(one[rank] for one in longers) for rank in range(self.ranks)], limits)


def _ops(plan: slackline.Plan) -> str:
    """The order of a plan; ops of one block follow each other, as in PyTorch's runtime."""
    return orders.text_of(orders.parsed(plan.csv()))


def microbatches_of(text: str) -> int:
    return 1 + max(cell.microbatch for row in orders.parsed(text) for cell in row)


class Hindsight:
    """The best plans for a case, with all its faults known in advance, and their predicted times."""

    def __init__(self, case: Case, seconds: float) -> None:
        """seconds: of the search for each plan"""
        limits = case.limits()
        problems = [case.problem(first, limits) for first, _ in case.phases()]
        lengths = [last - first for first, last in case.phases()]
        found = [case.given()] + [_ops(slackline.plan(one, "auto", seconds, threads=1, exact=False)) for one in [*problems, case.worst(limits)]]
        for name in slackline.schedules():
            try:
                found += [_ops(slackline.plan(one, name, 0)) for one in problems if name not in ("auto", "optimal")]
            except slackline.SlacklineError:
                continue  # for another placement, or too much memory
        times = {order: [slackline.simulate(one, order).makespan_ms for one in problems] for order in dict.fromkeys(found)}

        def whole(order: str) -> float:
            return sum(ms * steps for ms, steps in zip(times[order], lengths))
        self.one = min(times, key=whole)  # the best single order for the whole run
        self.each = [min(times, key=lambda order: times[order][phase]) for phase in range(len(lengths))]  # the best order of each phase
        self.given_ms, self.one_ms = whole(found[0]), whole(self.one)  # of the whole run
        self.each_ms = sum(times[order][phase] * lengths[phase] for phase, order in enumerate(self.each))


# ---- the named cases ---------------------------------------------------------------------------------------------------------

OP_MS, ONSET, RELIEF = 10.0, 20, 60


def _named(name: str, schedule: str, links: Mapping[Link, float], longer: Mapping[int, float], ranks: int = 4, **more: Any) -> Case:
    """4 processes, 12 microbatches, F, I and W of 10 ms on each rank, and something slow in steps 20 to 60 of 100."""
    stages = len(rank_of(SCHEDULES[schedule][1], ranks))
    return Case(name, schedule, ranks, 12, {kind: [OP_MS * ranks / stages] * stages for kind in "FIW"}, (Fault(ONSET, RELIEF, links, longer),), **more)


NAMED = [
    _named("link 0-1, 60 ms late", "1F1B", both(0, 1, 60), {}, goals=(460, 490, 460)),
    _named("rank 2, 1.5 times as long", "1F1B", {}, {2: 1.5}),
    _named("links 0-1 and 2-3, 30 ms late", "1F1B", both(0, 1, 30) | both(2, 3, 30), {}),
    _named("link 1-2, 40 ms late, wave", "ZBVZeroBubble", both(1, 2, 40), {}),
    _named("link 0-1, 40 ms late, loop", "Interleaved1F1B", both(0, 1, 40), {}),
    _named("link 0-1, 60 ms late, 1F1B's memory", "1F1B", both(0, 1, 60), {}, memory="same"),
    _named("rank 1 of the second of 2 replicas, 1.6 times as long", "1F1B", {}, {3: 1.6}, ranks=2, replicas=2),
]


# ---- the mixtures ------------------------------------------------------------------------------------------------------------


def _microbatches(draw: random.Random, schedule: str, ranks: int) -> int:
    """4 to 16, as PyTorch's schedules allow."""
    if schedule == "Interleaved1F1B":
        return ranks * draw.randint(-(-4 // ranks), 16 // ranks)
    return draw.randint(2 * ranks if schedule in ("ZBVZeroBubble", "DualPipeV") else 4, 16)


def _fault(draw: random.Random, ranks: int, steps: int, op: float) -> Fault:
    first = draw.randint(steps // 5, steps * 3 // 5)
    last = first + draw.randint(steps // 5, steps // 2)
    links: Dict[Link, float] = {}
    longer: Dict[int, float] = {}
    kind = draw.choice(["link", "link", "rank", "both"])
    if kind != "rank":
        a = draw.randrange(ranks)
        b = (a + 1) % ranks if ranks > 2 or draw.random() < 0.5 else 1 - a
        ms = round(op * draw.uniform(0.5, 6), 1)
        links = {(a, b): ms} if draw.random() < 0.3 else both(a, b, ms)
    if kind != "link":
        longer = {draw.randrange(ranks): round(draw.uniform(1.2, 2.5), 2)}
    return Fault(first, last, links, longer)


def mixture(seed: int, op_ms: Tuple[float, float] = (3.0, 12.0), steps: int = 100) -> Case:
    """A random job with random faults."""
    draw = random.Random(seed)
    schedule = draw.choice(list(SCHEDULES))
    ranks = draw.randint(2, 4)
    microbatches = _microbatches(draw, schedule, ranks)
    stages = len(rank_of(SCHEDULES[schedule][1], ranks))
    typical = {kind: draw.uniform(*op_ms) * ranks / stages for kind in "FIW"}
    times = {kind: [round(ms * draw.uniform(0.8, 1.25), 2) for _ in range(stages)] for kind, ms in typical.items()}
    times["I"][0] = round(times["I"][0] * 0.1, 2) if draw.random() < 0.3 else times["I"][0]  # no gradient for the input
    op = sum(map(sum, times.values())) / 3 / stages
    linked = {(a, b) for stage, a in enumerate(rank_of(SCHEDULES[schedule][1], ranks)) for b in rank_of(SCHEDULES[schedule][1], ranks)[stage + 1:stage + 2] if a != b}
    links = {link: round(op * draw.uniform(0, 0.5), 2) for a, b in sorted(linked) for link in ((a, b), (b, a))} if draw.random() < 0.5 else {}
    faults = []
    for _ in range(draw.randint(1, 3)):
        fault = _fault(draw, ranks, steps, op)
        kept = {link: ms for link, ms in fault.links.items() if link in linked or link[::-1] in linked}
        if kept or fault.longer:
            faults.append(Fault(fault.first, fault.last, kept, fault.longer))
    faults = faults or [Fault(steps // 5, steps * 3 // 5, both(0, 1, round(3 * op, 1)))]
    memory = draw.choice(["free", "same"])
    return Case(f"mixture {seed}", schedule, ranks, microbatches, times, tuple(faults), steps, links, memory)
