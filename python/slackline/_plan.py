# SPDX-License-Identifier: Apache-2.0
"""Plans as data: from the planner or from any given order, with everything in the library's JSON."""
from __future__ import annotations

import csv
import ctypes
import io
import json
import operator
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from . import _library
from ._errors import InvalidRequest, SlacklineError
from ._problem import Changes, Problem, ProblemLike, problem_of
from ._search import interruptible

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

# ---- the parts of a plan -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """A piece of a rank's work, or a collective or move that runs next to it."""
    rank: int
    op: str  # "F" forward, "I" backward for the input, "W" for the weights, "B" both; "gather", "reduce", "offload", "fetch"
    stage: int
    microbatch: int  # -1: a collective
    start_ms: float  # since the begin of the iteration (gathers precede the first F), like all times here
    end_ms: float
    part: int = 0  # of the problem's `parts`


@dataclass(frozen=True)
class Transfer:
    """A message between two ranks."""
    from_rank: int
    to_rank: int
    op: str  # that produced it
    stage: int  # of that op
    microbatch: int
    start_ms: float  # occupies the link from this time
    end_ms: float  # to this time,
    arrive_ms: float  # and arrives after the latency
    part: int = 0


@dataclass(frozen=True)
class Link:
    """The link between two neighboring ranks, forward direction."""
    from_rank: int
    to_rank: int
    latency_ms: float
    transfer_ms: float
    slack: int  # difference of the ranks' warm-ups
    tolerance_ms: float  # largest one-way delay that this slack absorbs without a growing bubble


@dataclass(frozen=True)
class Lost:
    """Time lost to links."""
    dependency_ms: float  # waiting for delayed messages
    blocking_ms: float  # in addition: ranks held by their own messages


@dataclass(frozen=True)
class Jitter:
    """The distribution of the makespan over many draws of jittering delays."""
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
    """How much an extra millisecond on each message of a directed link adds to the makespan, in ms; 0: slack."""
    from_rank: int
    to_rank: int
    cost: float


@dataclass(frozen=True)
class OpCost:
    """How much an extra millisecond on every such op of a stage adds to the makespan, in ms; 0: slack."""
    stage: int
    op: str
    cost: float


@dataclass(frozen=True)
class Explanation:
    """A breakdown of the makespan: its parts in ms, which add up to it, and the costs of links and ops."""
    work_ms: float  # per rank, on average
    imbalance_ms: float  # extra work on the busiest rank
    fill_ms: float  # idle time due to the order, even on free links
    collectives_ms: float  # not hidden by other work
    dependency_ms: float  # waiting for delayed messages
    blocking_ms: float  # ranks held by their own messages
    links: Tuple[LinkCost, ...]
    ops: Tuple[OpCost, ...]


@dataclass(frozen=True)
class Plan:
    """A schedule, its timing, and a lower bound for all schedules of the problem. Times are ms.

    Plans compare by their fields and can be pickled. A pickled plan keeps CSV and JSON; `write` can no longer draw it."""
    schedule_name: str  # the family's name, "optimal" if the search found it, "given" from simulate
    why: str  # of auto and optimal: whether it is proven, and the makespan of each family that fits
    placement: str  # "linear", "loop", "wave" or "bidirectional": which rank holds which stage
    ranks: int
    stages: int
    microbatches: int
    objective: str  # "makespan", "span" or "period": what the plan minimizes
    value_ms: float  # of the objective
    makespan_ms: float  # from the first F to the last op or reduction of any rank
    span_ms: float  # largest over ranks of last end less first start
    ideal_ms: float  # largest total work of a rank
    bubble: float  # 1 - work / (ranks * makespan)
    span_bubble: float  # (span - ideal) / span
    lower_bound_ms: float  # proven: no schedule of this problem has a smaller value
    gap: float  # (value - bound) / bound; 0: optimal
    peak_memory: Tuple[float, ...]  # per rank, in the problem's unit
    memory_ok: bool  # within the limit; simulate also returns plans that are not
    warmup: Tuple[int, ...]  # per rank, forwards before its first backward
    links: Tuple[Link, ...]
    lost: Lost
    solve_ms: float = field(compare=False)  # time spent planning
    ops: Tuple[Op, ...] = field(repr=False)  # in start order
    transfers: Tuple[Transfer, ...] = field(repr=False)
    cut: Optional[Tuple[int, ...]] = None  # first layer of each stage, then the number of layers; only if stages are cut from layers
    peak_host: Optional[Tuple[int, ...]] = None  # per rank, activations in host memory; with host_limit only
    _source: ClassVar[Optional["_Source"]] = None  # not a field: _plan_of sets it on each plan; the library's handle

    @property
    def optimal(self) -> bool:
        """Whether the plan is proven optimal: no schedule of the problem has a smaller value."""
        return self.gap == 0

    def rank_ops(self, rank: int) -> Tuple[Op, ...]:
        """The F, I, W and B of a rank in the order of their execution."""
        return tuple(op for op in self.ops if op.rank == rank and op.op in ("F", "I", "W", "B"))

    def csv(self) -> str:
        """The order in PyTorch's compute_only form: one line per rank, one cell such as 0F7 (stage, op, microbatch) per op.
        Raises NoAnswer if PyTorch cannot express the plan (parts)."""
        return self._asked().write("csv")

    def csv_comms(self) -> str:
        """The order with its messages, in PyTorch's compute_comms form. Raises NoAnswer like `csv`."""
        return self._asked().write("csv-comms")

    def write(self, form: str) -> str:
        """"text" (a chart of 100 columns), "json", "csv", "csv-comms", "svg", "html" or "trace" (docs/formats.md)."""
        return self._asked().write(form)

    def explain(self) -> Explanation:
        """A breakdown of the makespan, and the cost of an extra ms on each link and op."""
        losses = _library.LossesStruct()
        self._asked().call("explain", "plan_explain", ctypes.byref(losses))
        parsed = json.loads(self._asked().write("json"))["explain"]
        return Explanation(links=tuple(LinkCost(link["from"], link["to"], link["cost"]) for link in parsed["links"]),
                           ops=tuple(OpCost(op["stage"], op["op"], op["cost"]) for op in parsed["ops"]), **parsed["parts"])

    def jitter(self, draws: int = 1000, seed: int = 1) -> Jitter:
        """The distribution of the makespan when the delays of links jitter (`jitter_ms`), over 1 to 10,000,000 draws."""
        found = _library.JitterStruct()
        self._asked().call("jitter", "plan_jitter", _whole(draws, 32, "draws"), _whole(seed, 64, "seed"), ctypes.byref(found))
        return Jitter(found.draws, found.mean_ns / 1e6, found.least_ns / 1e6, found.p10_ns / 1e6, found.p50_ns / 1e6,
                      found.p90_ns / 1e6, found.p99_ns / 1e6, found.most_ns / 1e6)

    def schedule(self, stages: Any, n_microbatches: Optional[int] = None, loss_fn: Optional[Callable[..., Any]] = None,
                 **options: Any) -> "_PipelineScheduleRuntime":
        """This plan as a schedule of torch.distributed.pipelining that is ready for `step`; see pytorch_schedule."""
        from ._pytorch import pytorch_schedule
        return pytorch_schedule(self, stages, n_microbatches, loss_fn, **options)

    def primus_table(self) -> List[List[Any]]:
        """This plan as a table of AMD's Primus, with its own nodes: a list of SchedulerNode per rank. Raises NoAnswer like `csv`, and for a
        bidirectional plan; ImportError without Primus."""
        from ._primus import primus_table
        return primus_table(self)

    def _asked(self) -> "_Source":
        if self._source is None:
            raise InvalidRequest("this plan was put together by hand; simulate(problem, order) makes one that can be asked")
        return self._source


class _Source:
    """The library's handle of a plan, and the texts that a copy in another process keeps. Calls on a handle change its JSON,
    so only one thread at a time makes them."""

    def __init__(self, handle: Any) -> None:
        self._handle: Any = handle
        self._kept: Dict[str, Union[str, SlacklineError]] = {}
        self._lock = threading.Lock()
        _library.freed_with(self, "plan_free", handle)

    def call(self, what: str, name: str, *arguments: Any) -> None:
        """Calls a function of the library on the plan; errors name it `what`."""
        if self._handle is None:
            raise InvalidRequest(f"{what}: this plan was made in another process, which has to be asked")
        with self._lock:
            _library.call(name, self._handle, *arguments)

    def write(self, form: str) -> str:
        kept = self._kept.get(form)
        if isinstance(kept, SlacklineError):
            raise kept
        if kept is not None:
            return kept
        encoded = _library.encoded(form, "a form")
        return _library.text_of(lambda *made: self.call(form, "plan_write", encoded, *made))

    def __deepcopy__(self, memo: Dict[int, Any]) -> "_Source":
        return self  # two copies would be indistinguishable

    def __getstate__(self) -> Dict[str, Any]:
        kept = dict(self._kept)
        for form in ("json", "csv", "csv-comms") if self._handle is not None else ():
            try:
                kept[form] = self.write(form)
            except SlacklineError as error:
                kept[form] = error
        return {"_kept": kept}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._handle, self._kept, self._lock = None, state["_kept"], threading.Lock()


# ---- making plans ----------------------------------------------------------------------------------------------------------


def schedules() -> List[str]:
    """The schedules that `plan` accepts: "auto", "optimal", then the families."""
    names: List[str] = []
    while (name := _library.function("schedule_name")(len(names))) is not None:
        names.append(name.decode())
    return names


def plan(problem: ProblemLike, schedule: str = "auto", time_limit: Optional[float] = None, *,
         changes: Optional[Changes] = None, seed: int = 1, threads: int = 0, exact: bool = True) -> Plan:
    """Makes a plan for a problem.

    problem     a dict, a YAML text, a file's name, or a Problem
    schedule    one of schedules(): a family, "auto" (the best family, then a search) or "optimal" (a longer one)
    time_limit  seconds of search for auto and optimal, 0 to 1e6; None: 1 and 10. A proven optimum ends it earlier
    changes     to the problem, as with --set: {"pipeline.links.list.0.latency_ms": 60}
    seed        of the search; the number of rounds depends on the time
    threads     of the search; 0: one per processor, at most 8
    exact       whether to use OR-tools CP-SAT (in a separate process) if it is installed

    With a family's name, or with time_limit 0 (except for problems with layers), the plan is the same every time. A search may
    find a different plan in each process, so all processes of a job must use the plan of one (pytorch_schedule does that).
    Ctrl-C ends a search. Raises InvalidRequest, NoAnswer (nothing fits into the memory limit), OutOfMemory, SystemFailure,
    LibraryNotFound.
    """
    asked = problem_of(problem, changes)
    planner = _Planner()
    _library.call("planner_set_schedule", planner.handle, _library.encoded(schedule, "a schedule's name"))
    if time_limit is not None:
        _library.call("planner_set_time_limit", planner.handle, _seconds(time_limit))
    _library.function("planner_set_seed")(planner.handle, _whole(seed, 64, "seed"))
    _library.call("planner_set_threads", planner.handle, _whole(threads, 32, "threads"))
    _library.function("planner_set_exact")(planner.handle, 1 if exact else 0)
    return _plan_of(interruptible(lambda: planner.plan(asked), lambda: _library.function("planner_stop")(planner.handle)))


class _Planner:
    """The library's planner, freed when neither a caller nor a search refers to it."""

    def __init__(self) -> None:
        self.handle = _library.make("planner_make")
        _library.freed_with(self, "planner_free", self.handle)

    def plan(self, problem: Problem) -> "_Source":
        return _Source(_library.make("planner_plan", self.handle, problem._handle))


def simulate(problem: ProblemLike, order: Any, *, changes: Optional[Changes] = None) -> Plan:
    """Checks and times any given order on a problem.

    order  CSV of PyTorch's pipelining, compute_only or compute_comms, or a plan's JSON, as a text or a file's name (a str
           of one line is a name if it has no comma or such a file exists; a Path always is); that JSON as a dict; rows of
           cells, or of a plan's ops; a Plan; or a schedule of PyTorch (its `pipeline_order`)

    Exceeding the memory limit is not an error: see memory_ok. Raises InvalidRequest with line, column and cell if the order is
    not a schedule, or if PyTorch would silently run it wrongly.
    """
    asked = problem_of(problem, changes)
    if isinstance(order, os.PathLike) or isinstance(order, str) and order.strip() and _is_name(order):
        if (held := _json_file(order)) is not None:
            return simulate(asked, _json_rows(held, os.fsdecode(order)))
        name = _library.encoded(os.fsdecode(order), "the name of an order")
        return _plan_of(_Source(_library.make("simulate_csv", asked._handle, name)))
    if isinstance(order, str) and not order.strip():
        raise InvalidRequest("order: the text is empty")
    if isinstance(order, str) and order.lstrip().startswith("{"):
        order = _json_rows(order, "order")
    elif isinstance(order, dict) and "ops" in order:
        order = _json_rows(json.dumps(order, default=str), "order")
    text = order.csv_comms() if isinstance(order, Plan) else order if isinstance(order, str) else _rows(order)
    encoded = text.encode("utf-8", "surrogateescape")
    return _plan_of(_Source(_library.make("simulate_csv_text", asked._handle, b"order", encoded, len(encoded))))


def _is_name(order: str) -> bool:
    return "\n" not in order and (os.path.exists(order) or not ("," in order or order.lstrip().startswith("{")))


def _json_file(name: Any) -> Optional[str]:
    """The text of a JSON file; None: it is not JSON, or cannot be read; the library then reports the error."""
    try:
        with open(name, encoding="utf-8") as file:
            begin = file.read(64)
            return begin + file.read() if begin.lstrip().startswith("{") else None
    except (OSError, UnicodeDecodeError):
        return None


def _with_messages(cells: List[str], issues: List[Dict[str, Any]]) -> List[str]:
    """The cells of a rank with its sends and receives, each after the ops that precede it."""
    row: List[str] = []
    for at in range(len(cells) + 1):
        for issue in issues:
            if issue["after_ops"] == at:
                forward, receive = issue["op"] == "F", issue["end"] == "receive"
                stage = issue["stage"] + (0 if not receive else 1 if forward else -1)
                row.append(f"{stage}{'RECV' if receive else 'SEND'}_{'F' if forward else 'B'}{issue['microbatch']}")
        row += cells[at:at + 1]
    return row


def _json_rows(text: str, name: str) -> List[List[str]]:
    """The order in a plan's JSON (`Plan.write("json")`, `slackline plan --format json`), as rows of cells."""
    try:
        parsed = json.loads(text)
        rows: List[List[str]] = [[] for _ in range(parsed["ranks"])]
        for op in sorted(parsed["ops"], key=lambda op: op["start_ms"]):
            if op.get("part"):
                raise InvalidRequest(f"{name}: its plan has parts, which no order for PyTorch can say")
            if op["op"] in ("F", "I", "W", "B"):
                rows[op["rank"]].append(f"{op['stage']}{op['op']}{op['microbatch']}")
        for rank, cells in enumerate(rows):
            rows[rank] = _with_messages(cells, [issue for issue in parsed.get("issues", ()) if issue["rank"] == rank])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidRequest(f"{name}: is no plan's JSON: {type(error).__name__}: {error}") from None
    return rows


def _rows(order: Any) -> str:
    """Rows of cells as CSV. None and empty cells mean idle."""
    held = getattr(order, "pipeline_order", order)
    rows: Iterable[Sequence[Any]] = [held[rank] for rank in sorted(held)] if isinstance(held, dict) else held
    if isinstance(rows, bytes) or not hasattr(rows, "__iter__"):
        raise TypeError(f"an order is a text, a file, rows of cells, a Plan or a schedule of PyTorch, not {type(order).__name__}")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def _cell(cell: Any) -> str:
    if isinstance(cell, Op):
        if cell.part:
            raise InvalidRequest("order: an op in parts, which no order for PyTorch can say")
        return f"{cell.stage}{cell.op}{cell.microbatch}"
    return "" if cell is None else str(cell)


def _whole(value: int, bits: int, what: str) -> int:
    """A number that fits the library's type; ctypes would silently truncate it."""
    most = 2 ** (bits - 1) - 1 if bits == 32 else 2 ** bits - 1
    try:
        whole = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, not {type(value).__name__}") from None
    if not 0 <= whole <= most:
        raise InvalidRequest(f"{what} must be from 0 to {most}, got {value}")
    return whole


def _seconds(value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"time_limit must be a number of seconds, not {value!r}") from None


def _plan_of(source: "_Source") -> Plan:
    parsed = json.loads(source.write("json"))
    made = Plan(
        schedule_name=parsed["schedule"],
        bubble=parsed["bubble"]["makespan"],
        span_bubble=parsed["bubble"]["span"],
        peak_memory=tuple(parsed["peak_memory"]),
        warmup=tuple(parsed["warmup"]),
        links=tuple(Link(**_between(link)) for link in parsed["links"]),
        lost=Lost(**parsed["lost"]),
        ops=tuple(Op(**op) for op in parsed["ops"]),
        transfers=tuple(Transfer(**_between(transfer)) for transfer in parsed["transfers"]),
        cut=tuple(parsed["cut"]) if "cut" in parsed else None,
        peak_host=tuple(parsed["peak_host"]) if "peak_host" in parsed else None,
        **{name: parsed[name] for name in ("why", "placement", "ranks", "stages", "microbatches", "objective", "value_ms", "makespan_ms", "span_ms",
                                           "ideal_ms", "lower_bound_ms", "gap", "memory_ok", "solve_ms")})
    object.__setattr__(made, "_source", source)
    return made


def _between(fields: Dict[str, Any]) -> Dict[str, Any]:
    """Renames `from` and `to`, since `from` is not a valid name in Python."""
    return {{"from": "from_rank", "to": "to_rank"}.get(name, name): value for name, value in fields.items()}
