# SPDX-License-Identifier: Apache-2.0
"""The orchestrator of a training job: takes the measurements of every iteration, returns slow components and actions.

It decides and the program acts: nothing here reads a clock, starts a thread or prints. Times are milliseconds of the program's
clock, which must be monotonic.
"""
from __future__ import annotations

import ctypes
import math
import struct
import threading
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _library
from ._errors import InvalidRequest, NoAnswer
from ._plan import Op, Plan, Transfer, _plan_of, _Source, _whole, plan as make_plan, simulate
from ._problem import Problem, ProblemLike, problem_of

STRATEGIES = ("schedule", "delegate", "balance", "topology", "restart")
"""The mitigation strategies, from the cheapest to the most expensive."""
_PARTS = ("device", "link", "card")
_ACTIONS = ("", "plan", "path", "layout", "leave", "network")
_KINDS = ("F", "I", "W", "B", "gather", "reduce", "offload", "fetch")
_OUTCOMES = ("done", "failed", "refused", "advised")

# ---- input and output ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurements:
    """The measurements of one replica in one iteration, as far as they are known; all in one clock. The ops and transfers of a
    simulated Plan fit as they are."""
    ops: Sequence[Op] = ()  # also "gather", and "reduce": from this replica's arrival at the sum over replicas to the end of the sum
    transfers: Sequence[Transfer] = ()
    op_work: Optional[Sequence[float]] = None  # of each op: the amount that its time is proportional to, such as tokens; 0: unknown
    transfer_work: Optional[Sequence[float]] = None  # of each transfer: likewise, such as bytes


@dataclass(frozen=True)
class Slow:
    """A slow component."""
    part: str  # "device" of process a; "link" between processes a and b; "card": everything that a sends and receives
    a: int
    b: int = -1
    host: bool = False  # the device or card of every process on the host of a
    slowdown: float = 1.0  # device: 2 for twice the time
    latency_ms: Tuple[float, float] = (0.0, 0.0)  # link, card: in excess of healthy, one way; from a, and back
    ns_per_byte: Tuple[float, float] = (0.0, 0.0)  # in excess of healthy, likewise


@dataclass(frozen=True)
class Network:
    """The network between two processes, one direction."""
    from_process: int
    to_process: int
    latency_ms: float
    ns_per_byte: float


@dataclass(frozen=True)
class Event:
    """An event for users."""
    kind: str  # "onset", "suspect", "verdict", "swap", "relief", "decision", ...
    time_ms: float
    iteration: int
    from_rank: Optional[int]  # of the replica's pipeline
    to_rank: Optional[int]
    rank: Optional[int]
    replica: Optional[int]  # None: all, or the job has only one
    seen: str  # the measurement,
    decided: str  # the decision,
    why: str  # and its reason; each may be empty


@dataclass(frozen=True)
class Layout:
    """The rank map, the split of microbatches over replicas, and the delegates."""
    process: Tuple[int, ...]  # at each position: (rank * replicas + replica) * tensor + tensor rank
    split: Tuple[int, ...]  # microbatches of each replica
    delegates: int  # per link and direction; 0: ranks send by themselves


@dataclass(frozen=True)
class Action:
    """An action to carry out between two iterations."""
    what: str  # "plan": `replica` runs `plan`; "path": `layout.delegates` carry messages; "layout": processes and microbatches
    #            move as in `layout`, with Orchestrator.plan; "leave": restart without `host`; "network": measure it
    id: int
    undo: bool  # reverts an earlier action
    strategy: Optional[str]  # one of STRATEGIES; None: "network"
    replica: Optional[int]  # None: all
    plan: Optional[Plan]
    layout: Optional[Layout]
    host: Optional[str]
    cost_ms: float  # estimated one-time cost, of the job's time
    loss: float  # time lost per second now,
    expected: float  # and after the action
    incidents: Tuple[int, ...]  # ids


@dataclass(frozen=True)
class Incident:
    """A slow component, from its onset to its relief."""
    id: int
    verdict: bool  # the evidence suffices; else it is a suspect
    slow: Slow
    stage: Optional[int]  # if the sum of this stage over replicas is slow
    since: int  # iteration
    loss: float  # time lost per second because of it
    growth: float  # slowdown factor (device), or extra ms (link, sum)
    seen: str


# ---- the library's structs (include/slackline) ---------------------------------------------------------------------------


class _OpStruct(Structure):
    _fields_ = [("stage", c_int32), ("microbatch", c_int32), ("kind", c_int32), ("part", c_int32), ("paired", c_int32)]


class _SpanStruct(Structure):
    _fields_ = [("rank", c_int32), ("op", _OpStruct), ("start_ns", c_int64), ("end_ns", c_int64)]


class _TransferStruct(Structure):
    _fields_ = [("from_", c_int32), ("to", c_int32), ("op", _OpStruct), ("start_ns", c_int64), ("end_ns", c_int64), ("arrive_ns", c_int64)]


class _MeasurementsStruct(Structure):
    _fields_ = [("span", POINTER(_SpanStruct)), ("spans", c_size_t), ("span_work", POINTER(c_double)),
                ("transfer", POINTER(_TransferStruct)), ("transfers", c_size_t), ("transfer_work", POINTER(c_double))]


class _IterationStruct(Structure):
    _fields_ = [("iteration", c_int), ("now_ns", c_int64), ("time_ns", c_int64), ("work", c_double), ("clock_error_ns", c_int64),
                ("replica", POINTER(_MeasurementsStruct))]


class _JobStruct(Structure):
    _fields_ = [("replicas", c_int), ("ranks", c_int), ("tensor", c_int), ("problem", POINTER(c_void_p)), ("first", POINTER(c_void_p)),
                ("split", POINTER(c_int)), ("host", POINTER(c_char_p)), ("can", c_uint), ("looks", c_int), ("delegates", c_int),
                ("message_bytes", c_double), ("sum_bytes", POINTER(c_double)), ("ring", c_int), ("paced", c_int)]


class _OptionsStruct(Structure):
    _fields_ = [("schedule", c_char_p), ("hold", c_int), ("dwell", c_int), ("gain", c_double), ("cost_ns", c_int64 * len(STRATEGIES)),
                ("undo_cost_ns", c_int64 * len(STRATEGIES)), ("at_once_ns", c_int64), ("profile_every_ns", c_int64), ("queues", c_int),
                ("work", c_int64), ("effort", c_double), ("seed", c_uint64), ("frozen", c_int)]


class _SlowStruct(Structure):
    _fields_ = [("part", c_int), ("a", c_int), ("b", c_int), ("host", c_int), ("slowdown", c_double), ("latency_ns", c_double * 2),
                ("ns_per_byte", c_double * 2)]


class _ReportStruct(Structure):
    _fields_ = [("id", c_int), ("over", c_int), ("slow", _SlowStruct), ("loss", c_double), ("seen", c_char_p)]


class _NetworkStruct(Structure):
    _fields_ = [("from_", c_int), ("to", c_int), ("latency_ns", c_double), ("ns_per_byte", c_double)]


class _EventStruct(Structure):
    _fields_ = [("kind", c_char_p), ("time_ns", c_int64), ("iteration", c_int), ("from_", c_int), ("to", c_int), ("rank", c_int),
                ("replica", c_int), ("seen", c_char * 256), ("decided", c_char * 128), ("why", c_char * 256)]


class _LayoutStruct(Structure):
    _fields_ = [("process", POINTER(c_int)), ("split", POINTER(c_int)), ("delegates", c_int)]


class _ActionStruct(Structure):
    _fields_ = [("what", c_int), ("id", c_int), ("undo", c_int), ("strategy", c_int), ("replica", c_int), ("layout", _LayoutStruct),
                ("host", c_char_p), ("cost_ns", c_int64), ("loss", c_double), ("expected", c_double), ("incident", POINTER(c_int)),
                ("incidents", c_int)]


class _IncidentStruct(Structure):
    _fields_ = [("id", c_int), ("verdict", c_int), ("slow", _SlowStruct), ("stage", c_int), ("since", c_int), ("loss", c_double),
                ("growth", c_double), ("seen", c_char * 96)]


# ---- the orchestrator ----------------------------------------------------------------------------------------------------


class Orchestrator:
    """The orchestrator of a job of one or several replicas of a pipeline.

    problem         a healthy replica, or one problem per replica, with the objective that plans are compared by; None: the
                    program's pipeline is unknown. In that case iteration times show when something is slow and `report` names the
                    component, `can` is any of "balance", "topology" and "restart" (the default), `replicas` counts equal processes, and
                    `split` their microbatches
    ranks           per replica, if there is no problem
    first           the first plan of all replicas, or one per replica; None: the best family's
    replicas, tensor  copies of the pipeline, and processes per rank
    split           microbatches of each replica; None: those of the problems
    hosts           name of each process's host, by (rank * replicas + replica) * tensor + tensor rank; None: each has its own
    can             the STRATEGIES that the program can carry out; None: ("schedule",), or the default above without a problem
    looks           whether the program can measure the network on request (an action "network")
    delegates       number of delegates that carry messages at the start
    message_bytes   of an activation between stages; sum_bytes: of the gradients of each stage; ring: sums go round a ring
    schedule        of new plans: a family, or "auto"
    hold, dwell, gain  iterations that a change must last; least iterations between two plans; least share that a plan must gain
    cost_ms, undo_cost_ms  estimates by strategy, of the job's time: {"restart": 300_000}
    at_once_ms      actions up to this cost are taken immediately; 0: two healthy iterations, at least 100 ms
    profile_every_ms  interval between measurements of the network; 0: only if something is slow
    queues          delegates per link and direction; 0: as many as measurements ask for
    work            ops that a search for a plan may replay between two iterations
    effort, seed    of a search for a rank map; effort 0.01 to 1000
    paced           ops are held to the times of the problem
    frozen          no actions, only events

    Calls from several threads wait for each other. Close it, or use it in a `with` block. The constructor and the methods raise
    InvalidRequest for invalid arguments, and OutOfMemory.
    """

    def __init__(self, problem: Union[ProblemLike, Sequence[ProblemLike], None], first: Union[Plan, Sequence[Plan], None] = None, *,
                 replicas: int = 1, ranks: int = 1, tensor: int = 1, split: Optional[Sequence[int]] = None,
                 hosts: Optional[Sequence[str]] = None, can: Optional[Sequence[str]] = None, looks: bool = False, delegates: int = 0,
                 message_bytes: float = 0.0, sum_bytes: Optional[Sequence[float]] = None, ring: bool = True, paced: bool = False,
                 schedule: str = "auto", hold: Optional[int] = None, dwell: Optional[int] = None, gain: Optional[float] = None,
                 cost_ms: Optional[Mapping[str, float]] = None, undo_cost_ms: Optional[Mapping[str, float]] = None,
                 at_once_ms: float = 0.0, profile_every_ms: float = 0.0, queues: int = 0, work: Optional[int] = None,
                 effort: float = 1.0, seed: int = 1, frozen: bool = False) -> None:
        self._lock = threading.RLock()
        self._replicas = _whole(replicas, 32, "replicas")
        self._problems: List[Problem] = []
        job, options = _JobStruct(), _OptionsStruct()
        _library.function("orchestrator_defaults")(ctypes.byref(options))
        job.replicas, job.tensor = self._replicas, _whole(tensor, 32, "tensor")
        if problem is not None:
            self._problems, plans = _pipelines(problem, first, self._replicas, split)
            job.ranks = self._problems[0].ranks
            job.problem = (c_void_p * self._replicas)(*[one._handle for one in self._problems])
            job.first = (c_void_p * self._replicas)(*[one._handle for one in plans])
        elif first is not None or sum_bytes is not None:
            raise InvalidRequest("a first plan or sum_bytes without a problem")
        else:
            job.ranks = _whole(ranks, 32, "ranks")
        self._processes = job.replicas * job.ranks * job.tensor
        if split is not None:
            job.split = _array(c_int, [_whole(n, 32, "a number of microbatches") for n in split], self._replicas, "split")
        if hosts is not None:
            job.host = _array(c_char_p, [_library.encoded(host, "a host") for host in hosts], self._processes, "hosts")
        if sum_bytes is not None:
            job.sum_bytes = _array(c_double, [float(n) for n in sum_bytes], self._problems[0].stages, "sum_bytes")
        default = ("schedule",) if problem is not None else ("balance", "topology", "restart")
        job.can = sum({1 << _strategy(name) for name in (can if can is not None else default)})
        job.looks, job.delegates, job.message_bytes = bool(looks), _whole(delegates, 32, "delegates"), float(message_bytes)
        job.ring, job.paced = bool(ring), bool(paced)
        options.schedule = _library.encoded(schedule, "a schedule's name")
        options.hold = options.hold if hold is None else _whole(hold, 32, "hold")
        options.dwell = options.dwell if dwell is None else _whole(dwell, 32, "dwell")
        options.gain = options.gain if gain is None else float(gain)
        options.work = options.work if work is None else _whole(work, 64, "work")
        for to, given in ((options.cost_ns, cost_ms), (options.undo_cost_ns, undo_cost_ms)):
            for name, cost in (given or {}).items():
                to[_strategy(name)] = _ns(cost, "a cost")
        options.at_once_ns, options.profile_every_ns = _ns(at_once_ms, "at_once_ms"), _ns(profile_every_ms, "profile_every_ms")
        options.queues, options.effort, options.seed = _whole(queues, 32, "queues"), float(effort), _whole(seed, 64, "seed")
        options.frozen = bool(frozen)
        self._handle: Any = _library.make("orchestrator_open", ctypes.byref(job), ctypes.byref(options))
        self._closing = _library.freed_with(self, "orchestrator_close", self._handle)

    # ---- input

    def observe(self, iteration: int, now_ms: float, time_ms: float = 0.0,
                measured: Union[Measurements, Plan, Sequence[Union[Measurements, Plan, None]], None] = None, *, work: float = 0.0,
                clock_error_ms: float = 0.0) -> None:
        """Records an iteration that ended at `now_ms` and took `time_ms` (0: unknown). `measured`: of the only replica, or one per
        replica (None: not measured). `work`: of all replicas, such as tokens (0: unknown). `clock_error_ms`: bound on the
        difference between any two ranks' clocks. Iterations and times must ascend."""
        alone = measured is None or isinstance(measured, (Measurements, Plan))
        each: List[Union[Measurements, Plan, None]] = [measured] if alone else list(measured)  # type: ignore[arg-type, list-item]
        if measured is not None and len(each) != self._replicas:
            raise InvalidRequest(f"{len(each)} replicas were measured, the job has {self._replicas}")
        given = _IterationStruct(iteration=_whole(iteration, 32, "iteration"), now_ns=_ns(now_ms, "now_ms"), time_ns=_ns(time_ms, "time_ms"),
                                 work=float(work), clock_error_ns=_ns(clock_error_ms, "clock_error_ms"))
        if measured is not None:
            given.replica = (_MeasurementsStruct * self._replicas)(*[_measured(one) for one in each])
        self._call("observe", ctypes.byref(given))

    def report(self, now_ms: float, id: int, slow: Slow, *, loss: float = -1.0, seen: str = "", over: bool = False) -> None:
        """Reports a slow component that a test or an operator has found; `over`: it has recovered. `loss`: time lost per second
        because of it; negative: the timing model's estimate."""
        given = _ReportStruct(id=_whole(id, 32, "id"), over=bool(over), loss=float(loss), seen=_library.encoded(seen, "seen"))
        given.slow.part = _index(_PARTS, slow.part, "part")
        given.slow.a, given.slow.host = _whole(slow.a, 32, "a"), bool(slow.host)
        given.slow.b = _whole(slow.b, 32, "b") if slow.part == "link" else -1
        given.slow.slowdown = float(slow.slowdown)
        if len(slow.latency_ms) != 2 or len(slow.ns_per_byte) != 2:
            raise InvalidRequest("latency_ms and ns_per_byte are pairs: there, and back")
        for way in (0, 1):
            given.slow.latency_ns[way], given.slow.ns_per_byte[way] = slow.latency_ms[way] * 1e6, slow.ns_per_byte[way]
        self._call("report", _ns(now_ms, "now_ms"), ctypes.byref(given))

    def network(self, now_ms: float, pairs: Sequence[Network]) -> None:
        """Records a measurement of the network: all pairs of processes."""
        array = (_NetworkStruct * len(pairs))(*[_NetworkStruct(_whole(one.from_process, 32, "from_process"), _whole(one.to_process, 32, "to_process"),
                                                               one.latency_ms * 1e6, one.ns_per_byte) for one in pairs])
        self._call("network", _ns(now_ms, "now_ms"), array, len(pairs))

    def estimate(self, strategy: str, cost_ms: float) -> None:
        """Sets the estimated cost of a strategy from now on, of the job's time."""
        self._call("estimate", _strategy(strategy), _ns(cost_ms, "cost_ms"))

    def may_leave(self, host: str, may: bool) -> None:
        """Sets whether the job can be restarted without this host. Initially it can for every host."""
        self._call("may_leave", _library.encoded(host, "a host"), bool(may))

    def improve(self, work: int) -> None:
        """From now on, if nothing is slow, a better first plan is an action like the others, for all replicas together if they run the
        same one. `work`: ops that a search for it may replay; 0: none (initially)."""
        self._call("improve", _whole(work, 64, "work"))

    def keep_sums(self, keep: bool = True) -> None:
        """Gradients are summed over the replicas during an iteration: in all further plans, the backwards of each rank's stages end in
        the same order as in the first plan."""
        self._call("keep_sums", bool(keep))

    def offer(self, plan: Plan, replica: int = 0) -> None:
        """Offers a plan from a longer search (of `question`). The plan is considered from the next iteration on."""
        if not isinstance(plan, Plan):
            raise TypeError(f"a plan must be a Plan, not {type(plan).__name__}")
        replica = self._replica(replica)
        if not self._problems:
            raise NoAnswer("the program's pipeline is not known")
        held = _held(plan, self._problems[replica])
        self._call("offer", replica, held._handle)

    # ---- output

    def events(self) -> Iterator[Event]:
        """The events since the last call."""
        next_one = _EventStruct()
        while self._ask("event", ctypes.byref(next_one)):
            yield Event(next_one.kind.decode(), next_one.time_ns / 1e6, next_one.iteration, _known(next_one.from_), _known(next_one.to),
                        _known(next_one.rank), _known(next_one.replica), _text(next_one.seen), _text(next_one.decided), _text(next_one.why))

    def actions(self) -> Iterator[Action]:
        """The actions to carry out now, one at a time: `carried_out` must answer each before the next one is returned."""
        next_one = _ActionStruct()
        while self._ask("action", ctypes.byref(next_one)):
            what, layout = _ACTIONS[next_one.what], next_one.layout
            yield Action(what, next_one.id, bool(next_one.undo), STRATEGIES[next_one.strategy] if next_one.strategy >= 0 else None,
                         _known(next_one.replica), self.plan(max(0, next_one.replica)) if what == "plan" else None,
                         self._layout_of(layout) if what in ("path", "layout") else None,
                         _text(next_one.host) if what == "leave" else None, next_one.cost_ns / 1e6, next_one.loss, next_one.expected,
                         tuple(next_one.incident[:next_one.incidents]))

    def carried_out(self, action: Action, now_ms: float, took_ms: float = 0.0, outcome: str = "done") -> None:
        """Reports the outcome of an action, immediately or iterations later, and its cost `took_ms` of the job's time. `outcome`:
        "done"; "failed": nothing has changed, and the action is tried again after further losses; "refused": this strategy is
        never requested again; "advised": nothing has changed, and users have been informed."""
        self._call("carried_out", action.id, _ns(now_ms, "now_ms"), _index(_OUTCOMES, outcome, "outcome"), _ns(took_ms, "took_ms"))

    # ---- state

    def plan(self, replica: int = 0) -> Plan:
        """The plan that a replica should run, timed on the latest measurements."""
        with self._lock:
            return _plan_of(_Source(_library.make("orchestrator_plan", self._open(), self._replica(replica))))

    def adapted(self, replica: int = 0) -> bool:
        """Whether a replica runs a different plan from its first one in this layout."""
        return bool(self._ask("adapted", self._replica(replica)) > 0)

    @property
    def layout(self) -> Layout:
        """The current layout: all changes carried out so far."""
        held = _LayoutStruct()
        with self._lock:
            self._call("layout", ctypes.byref(held))
            return self._layout_of(held)

    def forecast_ms(self, replica: int = 0) -> float:
        """The predicted time of a replica's ops in the next iteration."""
        time = c_int64()
        self._call("forecast", self._replica(replica), ctypes.byref(time))
        return time.value / 1e6

    def question(self, replica: int = 0) -> Optional[Problem]:
        """A replica as recently measured, for a longer search whose plan goes to `offer`; None: nothing is slow."""
        with self._lock:
            try:
                handle = _library.make("orchestrator_question", self._open(), self._replica(replica))
            except NoAnswer:
                return None
            try:
                return Problem(_library.text("problem_write", handle))
            finally:
                _library.function("problem_free")(handle)

    def incidents(self) -> List[Incident]:
        """The open incidents, the costliest first."""
        with self._lock:
            count = self._ask("incidents", None, 0)
            held = (_IncidentStruct * count)()
            self._ask("incidents", held, count)
        return [Incident(one.id, bool(one.verdict),
                         Slow(_PARTS[one.slow.part], one.slow.a, one.slow.b, bool(one.slow.host), one.slow.slowdown,
                              (one.slow.latency_ns[0] / 1e6, one.slow.latency_ns[1] / 1e6), (one.slow.ns_per_byte[0], one.slow.ns_per_byte[1])),
                         _known(one.stage), one.since, one.loss, one.growth / (1 if _PARTS[one.slow.part] == "device" and one.stage < 0 else 1e6),
                         _text(one.seen)) for one in held]

    @property
    def troubled(self) -> bool:
        """Whether a component or the iterations are measured slow."""
        return bool(self._ask("troubled"))

    def decisions(self) -> str:
        """The log of decisions since the last call, with alternatives and reasons: lines, or empty."""
        return _text(self._ask("decisions") or b"")

    def idle(self, each_ms: float) -> int:
        """How many further iterations like the last one, each `each_ms` long, would cause neither an event nor an action."""
        return int(self._ask("idle", _ns(each_ms, "each_ms")))

    def skip(self, iterations: int, now_ms: float) -> None:
        """Skips this many iterations, at most the number from `idle`; `now_ms` is the time after them."""
        self._call("skip", _whole(iterations, 32, "iterations"), _ns(now_ms, "now_ms"))

    def save(self) -> str:
        """The healthy baseline, the costs of strategies and the open incidents, as JSON for `load`."""
        with self._lock:
            return _library.text("orchestrator_save", self._open())

    def load(self, text: str) -> None:
        """Restores a saved state. Call it on a new orchestrator with the same arguments as the saved one."""
        self._call("load", _library.encoded(text, "a saved orchestrator"))

    def close(self) -> None:
        """Frees the orchestrator; other calls then raise InvalidRequest. A second close does nothing."""
        with self._lock:
            self._handle = None
            self._closing()

    def __enter__(self) -> "Orchestrator":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def _open(self) -> Any:
        if self._handle is None:
            raise InvalidRequest("this orchestrator is closed")
        return self._handle

    def _call(self, name: str, *arguments: Any) -> None:
        with self._lock:
            _library.call("orchestrator_" + name, self._open(), *arguments)

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            return _library.function("orchestrator_" + name)(self._open(), *arguments)

    def _replica(self, replica: int) -> int:
        if not 0 <= _whole(replica, 32, "replica") < self._replicas:
            raise InvalidRequest(f"replica must be from 0 to {self._replicas - 1}, got {replica}")
        return replica

    def _layout_of(self, held: _LayoutStruct) -> Layout:
        return Layout(tuple(held.process[:self._processes]) if held.process else (), tuple(held.split[:self._replicas]) if held.split else (),
                      held.delegates)


def _pipelines(problem: Union[ProblemLike, Sequence[ProblemLike]], first: Union[Plan, Sequence[Plan], None], replicas: int,
               split: Optional[Sequence[int]]) -> Tuple[List[Problem], List[_Source]]:
    """Problem and first plan of each replica; equal ones are one object."""
    if isinstance(problem, Sequence) and not isinstance(problem, str):
        problems = [problem_of(one, None) for one in problem]
    else:
        problems = [problem_of(problem, None)] * replicas
    if len(problems) != replicas or not replicas:
        raise InvalidRequest(f"{len(problems)} problems for {replicas} replicas")
    numbers = list(split) if split is not None else [one.microbatches for one in problems]
    if len(numbers) != replicas:
        raise InvalidRequest(f"split has {len(numbers)} numbers for {replicas} replicas")
    if first is None:
        made = {(id(one), n): make_plan(one, "auto", 0, changes={"pipeline.microbatches": n} if n != one.microbatches else None)
                for one, n in zip(problems, numbers)}
        plans: List[Plan] = [made[id(one), n] for one, n in zip(problems, numbers)]
    else:
        plans = [first] * replicas if isinstance(first, Plan) else list(first)
    if len(plans) != replicas:
        raise InvalidRequest(f"{len(plans)} first plans for {replicas} replicas")
    held = {id(plan): _held(plan, one) for plan, one in zip(plans, problems)}
    return problems, [held[id(plan)] for plan in plans]


def _held(plan: Plan, problem: Problem) -> _Source:
    """The library's handle of a plan. A plan from another process is simulated again."""
    if not isinstance(plan, Plan):
        raise TypeError(f"a plan must be a Plan, not {type(plan).__name__}")
    source = plan._asked()
    if source._handle is None:
        source = simulate(problem, plan, changes={"pipeline.microbatches": plan.microbatches})._asked()
    return source


def _measured(one: Union[Measurements, Plan, None]) -> _MeasurementsStruct:
    given = Measurements(one.ops, one.transfers) if isinstance(one, Plan) else one if one is not None else Measurements()
    if not isinstance(given, Measurements):
        raise TypeError(f"measurements of a replica are Measurements, a Plan or None, not {type(given).__name__}")
    for work, of, what in ((given.op_work, given.ops, "op_work"), (given.transfer_work, given.transfers, "transfer_work")):
        if work is not None and len(work) != len(of):
            raise InvalidRequest(f"{what} has {len(work)} numbers for {len(of)}")
    second = _pairs(given.ops)
    paired = set(second.values())
    order = [at for i in range(len(given.ops)) if i not in paired for at in ((i, second[i]) if i in second else (i,))]
    made = _MeasurementsStruct(spans=len(order), transfers=len(given.transfers))
    made.span = _structs(_SpanStruct, [_span(given.ops[i], i in second) for i in order])
    made.transfer = _structs(_TransferStruct, [_transfer(one) for one in given.transfers])
    if given.op_work is not None:
        made.span_work = (c_double * len(order))(*[given.op_work[i] for i in order])
    if given.transfer_work is not None:
        made.transfer_work = (c_double * len(given.transfers))(*given.transfer_work)
    return made


def measured_overhead(problem: Problem, measured: Measurements) -> Tuple[float, float]:
    """What the program that ran an iteration adds to an op and to a message, in ms. The ops of a rank are in its order."""
    given, op, message = _measured(measured), c_int64(), c_int64()
    _library.call("measure_overhead", problem._handle, given.span, given.spans, given.transfer, given.transfers, ctypes.byref(op), ctypes.byref(message))
    return op.value / 1e6, message.value / 1e6


def _pairs(ops: Sequence[Op]) -> "dict[int, int]":
    """The index of the B that runs together with an F, by the index of the F. All other ops of a rank run one at a time."""
    forward = {(op.rank, op.start_ms, op.end_ms): i for i, op in enumerate(ops) if op.op == "F" and op.end_ms > op.start_ms}
    return {forward[key]: i for i, op in enumerate(ops) if op.op == "B" and (key := (op.rank, op.start_ms, op.end_ms)) in forward}


_SPAN, _TRANSFER = struct.Struct("@6i2q"), struct.Struct("@7i4x3q")  # the fields of _SpanStruct and _TransferStruct: packing is far cheaper
_KIND_OF = {name: at for at, name in enumerate(_KINDS)}


def _structs(kind: Any, packed: List[bytes]) -> Any:
    return (kind * len(packed)).from_buffer_copy(b"".join(packed))


def _span(op: Op, paired: bool) -> bytes:
    rank, stage, microbatch, part = op.rank, op.stage, op.microbatch, op.part
    try:
        if rank >= 0 <= stage and microbatch >= -1 and part >= 0:
            return _SPAN.pack(rank, stage, microbatch, _KIND_OF[op.op], part, paired, round(op.start_ms * 1e6), round(op.end_ms * 1e6))
    except (struct.error, KeyError, TypeError, ValueError, OverflowError):
        pass
    _check(op, {"rank": op.rank}, {"start_ms": op.start_ms, "end_ms": op.end_ms})
    raise InvalidRequest(f"an op cannot be used: {op}")


def _transfer(one: Transfer) -> bytes:
    try:
        if one.from_rank >= 0 <= one.to_rank and one.stage >= 0 <= one.part and one.microbatch >= -1:
            return _TRANSFER.pack(one.from_rank, one.to_rank, one.stage, one.microbatch, _KIND_OF[one.op], one.part, 0,
                                  round(one.start_ms * 1e6), round(one.end_ms * 1e6), round(one.arrive_ms * 1e6))
    except (struct.error, KeyError, TypeError, ValueError, OverflowError):
        pass
    _check(one, {"from_rank": one.from_rank, "to_rank": one.to_rank}, {"start_ms": one.start_ms, "end_ms": one.end_ms, "arrive_ms": one.arrive_ms})
    raise InvalidRequest(f"a transfer cannot be used: {one}")


def _check(one: Union[Op, Transfer], ranks: Mapping[str, int], times: Mapping[str, float]) -> None:
    """Raises the error of the first invalid field."""
    for rank in ranks.values():
        _whole(rank, 32, "a rank")
    _whole(one.stage, 32, "a stage")
    if one.microbatch != -1:
        _whole(one.microbatch, 32, "a microbatch")
    _index(_KINDS, one.op, "an op")
    _whole(one.part, 32, "a part")
    for what, time in times.items():
        _ns(time, what)


def _array(kind: Any, values: Sequence[Any], count: int, what: str) -> Any:
    if len(values) != count:
        raise InvalidRequest(f"{what} has {len(values)} values, not {count}")
    return (kind * count)(*values)


def _ns(ms: float, what: str) -> int:
    try:
        ns = float(ms) * 1e6
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a number of milliseconds, not {ms!r}") from None
    if not math.isfinite(ns) or abs(ns) >= 2.0 ** 63:
        raise InvalidRequest(f"{what} must be a number of milliseconds, got {ms}")
    return round(ns)


def _index(names: Sequence[str], name: str, what: str) -> int:
    if name not in names or not name:
        raise InvalidRequest(f"{what} must be one of {', '.join(one for one in names if one)}, got {name!r}")
    return names.index(name)


def _strategy(name: str) -> int:
    return _index(STRATEGIES, name, "a strategy")


def _known(number: int) -> Optional[int]:
    return number if number >= 0 else None


def _text(given: Optional[bytes]) -> str:
    return (given or b"").decode(errors="replace")
