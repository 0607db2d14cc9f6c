"""Plans as data: made by the planner or from anybody's order, with all that the library's JSON says."""
from __future__ import annotations

import csv
import ctypes
import io
import json
import operator
import os
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _library
from ._errors import InvalidRequest, SlacklineError
from ._problem import Changes, ProblemLike, problem_of

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

# ---- what a plan consists of -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """A piece of work of a rank, or a collective or move beside its work."""
    rank: int
    op: str  # "F" forward, "I" backward for the input, "W" for the weights, "B" both; "gather", "reduce", "offload", "fetch"
    stage: int
    microbatch: int  # -1: a collective
    start_ms: float  # from the first F of stage 0, as all times here
    end_ms: float
    part: int = 0  # of the problem's `parts`


@dataclass(frozen=True)
class Transfer:
    """A message between two ranks."""
    from_rank: int
    to_rank: int
    op: str  # that made it
    stage: int  # of that op
    microbatch: int
    start_ms: float  # it occupies the link from here
    end_ms: float  # to here,
    arrive_ms: float  # and is there after the latency
    part: int = 0


@dataclass(frozen=True)
class Link:
    """The link between two neighbouring ranks, forward direction."""
    from_rank: int
    to_rank: int
    latency_ms: float
    transfer_ms: float
    slack: int  # difference of the ranks' warm-ups
    tolerance_ms: float  # largest one-way delay that this slack absorbs without a growing bubble


@dataclass(frozen=True)
class Lost:
    """Time lost to links."""
    dependency_ms: float  # by waiting for delayed messages
    blocking_ms: float  # more, by ranks that their messages hold


@dataclass(frozen=True)
class Jitter:
    """The makespan over many draws of jittering delays."""
    draws: int
    mean_ms: float
    min_ms: float
    p10_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class LinkCost:
    """What a millisecond more on each message of a directed link costs the makespan, in ms; 0: slack."""
    from_rank: int
    to_rank: int
    cost: float


@dataclass(frozen=True)
class OpCost:
    """What a millisecond more on every such op of a stage costs the makespan, in ms; 0: slack."""
    stage: int
    op: str
    cost: float


@dataclass(frozen=True)
class Explanation:
    """Where the time goes: the parts in ms, which add up to the makespan, and what links and ops cost."""
    work_ms: float  # of a rank, on average
    imbalance_ms: float  # more on the busiest rank
    fill_ms: float  # left idle by the order even on free links
    collectives_ms: float  # that nothing hides
    dependency_ms: float  # waiting for delayed messages
    blocking_ms: float  # ranks held by their messages
    links: Tuple[LinkCost, ...]
    ops: Tuple[OpCost, ...]


@dataclass(frozen=True)
class Plan:
    """A schedule, its timing, and a bound that no schedule of the problem can beat. Times are ms.

    Plans compare by what they say and can be pickled (what `write` draws is then gone, CSV and JSON are kept)."""
    schedule_name: str  # the family's name, "optimal" where the search found it, "given" from simulate
    why: str  # of auto and optimal: whether it is proven, and what each family that fits takes
    placement: str  # "linear", "loop", "wave" or "bidirectional": which rank holds which stage
    ranks: int
    stages: int
    microbatches: int
    makespan_ms: float  # from the first F of stage 0 to the last op of any rank
    span_ms: float  # largest over ranks of last end less first start
    ideal_ms: float  # largest total work of a rank
    bubble: float  # 1 - work / (ranks * makespan)
    span_bubble: float  # (span - ideal) / span
    lower_bound_ms: float  # no schedule of this problem is shorter, proven
    gap: float  # (makespan - bound) / bound; 0: optimal
    peak_memory: Tuple[float, ...]  # per rank, in the problem's unit
    memory_ok: bool  # within the limit; simulate also gives plans that are not
    warmup: Tuple[int, ...]  # per rank, forwards before its first backward
    links: Tuple[Link, ...]
    lost: Lost
    solve_ms: float = field(compare=False)  # time spent planning
    ops: Tuple[Op, ...] = field(repr=False)  # in start order
    transfers: Tuple[Transfer, ...] = field(repr=False)
    cut: Optional[Tuple[int, ...]] = None  # first layer of each stage, then how many; where stages are cut from layers
    peak_host: Optional[Tuple[int, ...]] = None  # per rank, activations in host memory; with host_limit only
    _source: "_Source" = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no schedule of the problem is shorter."""
        return self.gap == 0

    def rank_ops(self, rank: int) -> Tuple[Op, ...]:
        """The F, I, W and B of a rank in the order in which it runs them."""
        return tuple(op for op in self.ops if op.rank == rank and op.op in ("F", "I", "W", "B"))

    def csv(self) -> str:
        """The order in PyTorch's compute_only form: a line a rank, a cell an op such as 0F7 (stage, op, microbatch).
        Raises NoAnswer where PyTorch has no such form (parts)."""
        return self._source.write("csv")

    def csv_comms(self) -> str:
        """The order with its messages, in PyTorch's compute_comms form. Raises NoAnswer as `csv`."""
        return self._source.write("csv-comms")

    def write(self, form: str) -> str:
        """"text" (a chart of 100 columns), "json", "csv", "csv-comms", "svg", "html" or "trace" (docs/formats.md)."""
        return self._source.write(form)

    def explain(self) -> Explanation:
        """Where the time goes, and what a ms more on each link and op would cost."""
        losses = _library.LossesStruct()
        _library.call("plan_explain", self._source.handle("explain"), ctypes.byref(losses))
        told = json.loads(self._source.write("json"))["explain"]
        return Explanation(links=tuple(LinkCost(link["from"], link["to"], link["cost"]) for link in told["links"]),
                           ops=tuple(OpCost(op["stage"], op["op"], op["cost"]) for op in told["ops"]), **told["parts"])

    def jitter(self, draws: int = 1000, seed: int = 1) -> Jitter:
        """The makespan's distribution when the delays of links jitter (`jitter_ms`), over 1 to 10,000,000 draws."""
        told = _library.JitterStruct()
        _library.call("plan_jitter", self._source.handle("jitter"), _whole(draws, 32, "draws"), _whole(seed, 64, "seed"),
                      ctypes.byref(told))
        return Jitter(told.draws, told.mean_ns / 1e6, told.least_ns / 1e6, told.p10_ns / 1e6, told.p50_ns / 1e6,
                      told.p90_ns / 1e6, told.p99_ns / 1e6, told.most_ns / 1e6)

    def schedule(self, stages: Any, n_microbatches: Optional[int] = None, loss_fn: Optional[Callable[..., Any]] = None,
                 **options: Any) -> "_PipelineScheduleRuntime":
        """This plan as a schedule of torch.distributed.pipelining that is ready for `step`; see pytorch_schedule."""
        from ._pytorch import pytorch_schedule
        return pytorch_schedule(self, stages, n_microbatches, loss_fn, **options)


class _Source:
    """The library's handle of a plan, and texts that stay when the plan goes to another process."""

    def __init__(self, handle: Any) -> None:
        self._handle: Any = handle
        self._kept: Dict[str, Union[str, SlacklineError]] = {}
        weakref.finalize(self, _library.function("plan_free"), handle)

    def handle(self, what: str) -> Any:
        if self._handle is None:
            raise InvalidRequest(f"{what}: this plan was made in another process, which has to be asked")
        return self._handle

    def write(self, form: str) -> str:
        kept = self._kept.get(form)
        if isinstance(kept, SlacklineError):
            raise kept
        if kept is not None:
            return kept
        return _library.text("plan_write", self.handle(form), _library.encoded(form, "a form"))

    def __getstate__(self) -> Dict[str, Any]:
        kept = dict(self._kept)
        for form in ("json", "csv", "csv-comms") if self._handle is not None else ():
            try:
                kept[form] = self.write(form)
            except SlacklineError as error:
                kept[form] = error
        return {"_handle": None, "_kept": kept}


# ---- making plans ----------------------------------------------------------------------------------------------------------


def schedules() -> List[str]:
    """What `plan` takes as a schedule: "auto", "optimal", then the families."""
    names: List[str] = []
    while (name := _library.function("schedule_name")(len(names))) is not None:
        names.append(name.decode())
    return names


def plan(problem: ProblemLike, schedule: str = "auto", time_limit: Optional[float] = None, *,
         changes: Optional[Changes] = None, seed: int = 1, threads: int = 0, exact: bool = True) -> Plan:
    """Plans.

    problem     a dict, a YAML text, a file's name, or a Problem
    schedule    one of schedules(): a family, "auto" (the best family, then a search) or "optimal" (a longer one)
    time_limit  seconds of search for auto and optimal, 0 to 1e6; None: 1 and 10. It ends earlier when the plan is proven
    changes     of the problem, as --set makes them: {"pipeline.links.list.0.latency_ms": 60}
    seed        of the search; how many rounds there are depends on the time
    threads     of the search; 0: as many as processors, at most 8
    exact       whether to ask OR-tools CP-SAT (in a process of its own), where it is found

    With a family's name, or time_limit 0 (but for problems with layers), the plan is the same every time; a search may end
    elsewhere in each process, so a job of several processes takes the plan of one (pytorch_schedule does).
    Raises InvalidRequest, NoAnswer (nothing fits into the memory limit), OutOfMemory, SystemFailure, LibraryNotFound.
    """
    asked = problem_of(problem, changes)
    planner = _library.make("planner_make")
    try:
        _library.call("planner_set_schedule", planner, _library.encoded(schedule, "a schedule's name"))
        if time_limit is not None:
            _library.call("planner_set_time_limit", planner, float(time_limit))
        _library.function("planner_set_seed")(planner, _whole(seed, 64, "seed"))
        _library.call("planner_set_threads", planner, _whole(threads, 32, "threads"))
        _library.function("planner_set_exact")(planner, 1 if exact else 0)
        return _plan_of(_library.make("planner_plan", planner, asked._handle))
    finally:
        _library.function("planner_free")(planner)


def simulate(problem: ProblemLike, order: Any, *, changes: Optional[Changes] = None) -> Plan:
    """Checks and times anybody's order on a problem.

    order  CSV of PyTorch's pipelining, compute_only or compute_comms, or a plan's JSON, as a text or a file's name (a str
           of one line is a name when it holds no comma or there is such a file, a Path always); rows of cells; or a
           schedule of PyTorch (its `pipeline_order`)

    Over the memory limit is no error: see memory_ok. Raises InvalidRequest with line, column and cell where the order is no
    schedule, or where PyTorch would run it wrongly without a word.
    """
    asked = problem_of(problem, changes)
    if isinstance(order, os.PathLike) or isinstance(order, str) and _is_name(order):
        if (held := _json_file(order)) is not None:
            return simulate(asked, _json_rows(held, os.fsdecode(order)))
        name = _library.encoded(os.fsdecode(order), "the name of an order")
        return _plan_of(_library.make("simulate_csv", asked._handle, name))
    if isinstance(order, str) and order.lstrip().startswith("{"):
        order = _json_rows(order, "order")
    text = order if isinstance(order, str) else _rows(order)
    encoded = text.encode()
    return _plan_of(_library.make("simulate_csv_text", asked._handle, b"order", encoded, len(encoded)))


def _is_name(order: str) -> bool:
    return "\n" not in order and (os.path.exists(order) or not ("," in order or order.lstrip().startswith("{")))


def _json_file(name: Any) -> Optional[str]:
    """The text of a file that is JSON; None: it is not, or cannot be read, which the library says."""
    try:
        with open(name, encoding="utf-8") as file:
            begin = file.read(64)
            return begin + file.read() if begin.lstrip().startswith("{") else None
    except (OSError, UnicodeDecodeError):
        return None


def _json_rows(text: str, name: str) -> List[List[str]]:
    """The order in a plan's JSON (`Plan.write("json")`, `slackline plan --format json`), rows of cells."""
    try:
        told = json.loads(text)
        rows: List[List[str]] = [[] for _ in range(told["ranks"])]
        for op in sorted(told["ops"], key=lambda op: op["start_ms"]):
            if op.get("part"):
                raise InvalidRequest(f"{name}: its plan has parts, which no order for PyTorch can say")
            if op["op"] in ("F", "I", "W", "B"):
                rows[op["rank"]].append(f"{op['stage']}{op['op']}{op['microbatch']}")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidRequest(f"{name}: is no plan's JSON: {type(error).__name__}: {error}") from None
    return rows


def _rows(order: Any) -> str:
    """Rows of cells as CSV. None and empty cells are idle."""
    held = getattr(order, "pipeline_order", order)
    rows: Iterable[Sequence[Any]] = [held[rank] for rank in sorted(held)] if isinstance(held, dict) else held
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(["" if cell is None else str(cell) for cell in row] for row in rows)
    return out.getvalue()


def _whole(value: int, bits: int, what: str) -> int:
    """A number that the library's type holds; ctypes would cut it off without a word."""
    most = 2 ** (bits - 1) - 1 if bits == 32 else 2 ** bits - 1
    whole = operator.index(value)
    if not 0 <= whole <= most:
        raise InvalidRequest(f"{what} must be from 0 to {most}, got {value}")
    return whole


def _plan_of(handle: Any) -> Plan:
    source = _Source(handle)
    told = json.loads(source.write("json"))
    return Plan(
        schedule_name=told["schedule"],
        bubble=told["bubble"]["makespan"],
        span_bubble=told["bubble"]["span"],
        peak_memory=tuple(told["peak_memory"]),
        warmup=tuple(told["warmup"]),
        links=tuple(Link(**_between(link)) for link in told["links"]),
        lost=Lost(**told["lost"]),
        ops=tuple(Op(**op) for op in told["ops"]),
        transfers=tuple(Transfer(**_between(transfer)) for transfer in told["transfers"]),
        cut=tuple(told["cut"]) if "cut" in told else None,
        peak_host=tuple(told["peak_host"]) if "peak_host" in told else None,
        _source=source,
        **{name: told[name] for name in ("why", "placement", "ranks", "stages", "microbatches", "makespan_ms", "span_ms",
                                         "ideal_ms", "lower_bound_ms", "gap", "memory_ok", "solve_ms")})


def _between(fields: Dict[str, Any]) -> Dict[str, Any]:
    """`from` is no name in Python."""
    return {{"from": "from_rank", "to": "to_rank"}.get(name, name): value for name, value in fields.items()}
