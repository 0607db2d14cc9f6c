# SPDX-License-Identifier: Apache-2.0
"""One rank of an adapted job: its work before and after each step, and on the first rank a thread that decides.

Nothing here raises into the job. A failure on a rank ends its measurements. The rank reports the failure to the first rank, which
then requests no more orders, and the current order stays. Only a failure of the control group itself ends the headers, and then
on every rank.
"""
from __future__ import annotations

import ctypes
import json
import logging
import os
import queue
import statistics
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple, Union

from . import order
from .control import Control, Header, Record, flattened, parsed, rows_of_text, texts_of_rows
from .deciding import Decider, Happening, Measured, Shape, joined
from .folder import opened
from .replicas import LAG, Course, Relay, unbundled
from .timings import KEPT, Clock, Kept, Row, Step, Waiters, current

log = logging.getLogger("slackline")
_agents: "weakref.WeakSet[Agent]" = weakref.WeakSet()  # of this process
CLOCKS_EVERY = 500  # steps
EVENTS_AT_ONCE = 5  # in a record
USUAL = 9  # steps
OTHER = 1.15  # factor by which a step of the first rank takes another time than usual
NOTICED = 4  # steps after it
CLOSING_S = 10.0  # for a search at the end of the process
DECIDING = 0.1  # share of a step for which the first rank waits for an urgent decision
# While nothing changes, so many steps are measured that measuring costs at most SHARE of the time, but at least one of SPARSEST
SHARE, SPARSEST = 0.003, 8
STEP_COST_NS, ROW_COST_NS = 5e5, 5e4  # of a measured step, and of each op and message in it


class Agent:
    """Used by the thread that trains: `begin`, the step, then `end` or `abandon`."""

    def __init__(self, shape: Shape, control: Control, job: Optional[Control], apply: Callable[[str], None],
                 lower: Callable[[order.Rows, Sequence[int]], str], device: Any, waits: bool, prepare: Callable[[], None],
                 free_bytes: Callable[[], float], out: Optional[str], on_event: Optional[Callable[[Any], None]]) -> None:
        """job: the group of the first ranks of the replicas, on these ranks of a job with replicas. prepare: called when a plan is offered,
        on all ranks of the pipeline at once."""
        self.shape, self.kept = shape, Kept()
        self._control, self._apply, self._prepare, self._free_bytes = control, apply, prepare, free_bytes
        self._clock, self._waiters = Clock(device), Waiters(waits)
        self._device_lag = LAG if self._clock.asynchronous else 0  # steps that a device is allowed to be behind
        self._pid, self._number = os.getpid(), 0
        _agents.add(self)
        self._step: Optional[Step] = None
        self._began = 0  # ns: the begin of the current step; 0: none that the ranks have agreed on
        self._due: Deque[int] = deque()  # on the first rank: measured steps whose records it has not collected
        self._ran: List[Tuple[Optional[Step], int, bool]] = []  # not reported yet, with the version that ran, and whether the step raised
        self._version = self._next = self._prepared = self._raised = 0
        self._plans: Dict[int, str] = {}
        self._over = self._failed = False
        self.swap_ms: List[float] = []
        self.leader: Optional[Leader] = None
        self._relay: Optional[Relay] = None
        if control.leads and (job is None or job.leads):
            self.leader = Leader(shape, lower, job, self._device_lag, out, on_event, samples=job is None and not self._clock.asynchronous)
        elif job is not None:
            self._relay = Relay(job, warn)
        # a carrying.Carrier, if delegates carry the messages; its events on this rank, and those not sent yet
        self.carrier: Any = None
        self.happened: List[Happening] = []
        self._unsent: List[str] = []

    @property
    def active(self) -> bool:
        return not self._over and os.getpid() == self._pid

    @property
    def threads(self) -> List[Any]:
        """Owners of threads, with a method `close` that ends them."""
        return [self._waiters, *([self.leader] if self.leader is not None else [])]

    def begin(self) -> None:
        """Called before a step with a backward: agrees with the other ranks on the order, and starts to measure."""
        if not self.active:
            return
        try:
            header = self._agree()
            if header.version != self._version:
                self._turn(header.version)
            self._next = header.next
            if header.over:
                self._over = True
                return
            if header.clocks and self._number > 1:
                self._compare_clocks()
            self._began = time.monotonic_ns()
            if header.measured:
                self._step = Step(header.step, self._clock, self._waiters)
                current(None if self._failed else self._step)
        except Exception as error:  # the control group has failed: no rank receives new orders any more
            self._give_up(error, whole=True)

    def _agree(self) -> Header:
        control, leading = self._control, self.leader or self._relay
        if leading is not None:
            header, plan = leading.header(self._number, self._number % CLOCKS_EVERY == 0, self._collect)
            control.announce(header, [plan] * control.ranks)
        else:
            header, plan = control.hear()
        if header.clocks:
            control.compare()
        self._number = header.step + 1
        if control.leads and header.measured and not header.over:
            self._due.append(header.step)
        if header.offered:
            self._take(header.offered, plan)
        return header

    def _take(self, version: int, plan: bytes) -> None:
        """Takes a plan that is offered. If a rank cannot, no rank runs it."""
        try:
            self._prepare()
        except Exception as error:
            self._give_up(error)
            return
        self._plans = {version: plan.decode()}
        self._prepared = version

    def shared(self, value: int) -> Optional[int]:
        """On all ranks, after `begin`: the first rank's value. None: this rank takes no part any more."""
        try:
            return self._control.share(value) if self.active else None
        except Exception as error:
            self._give_up(error, whole=True)
            return None

    def _collect(self, lag: int) -> List[List[Any]]:
        """On the first rank of a pipeline: the records of the other ranks, of each measured step until `lag` steps ago that has not been read."""
        found = []
        self._control.expect()
        while self._due and self._due[0] < self._number - lag - self._device_lag:
            found.append(self._control.collect())
            self._control.expect()
            self._due.popleft()
        return found

    def _turn(self, version: int) -> None:
        """Runs another order from the next step on."""
        began = time.monotonic_ns()
        self._apply(self._plans.pop(version))
        self._version = version
        self.swap_ms.append((time.monotonic_ns() - began) / 1e6)

    def _compare_clocks(self) -> None:
        try:
            self._clock.compare()
        except Exception as error:  # of the device: this rank no longer measures, but takes part
            self._give_up(error)

    def end(self) -> None:
        """Called after the step."""
        step, self._step, began, self._began = self._step, None, self._began, 0
        current(None)
        self._remember(None)
        if not began or self._over:
            return
        try:
            if step is not None:
                step.finish()
                self._report(None if self._failed else step)
            elif self.leader is not None:
                self.leader.unmeasured(self._number - 1, self._version, time.monotonic_ns() - began)
            leading = self.leader or self._relay
            if leading is not None:
                leading.ended()
            if self._next != self._version:  # now, because the next step may take another number of microbatches
                self._turn(self._next)
        except Exception as error:
            self._give_up(error, whole=True)

    def abandon(self, error: Optional[BaseException] = None) -> None:
        """Called if the step has raised, or has not followed the order; discards its measurements."""
        step, self._step, began, self._began = self._step, None, self._began, 0
        current(None)
        self._remember(error)
        if began and not self._over:
            try:
                self._raised += 1
                if step is not None:
                    self._report(None, raised=True)
            except Exception as failure:
                self._give_up(failure, whole=True)

    def _remember(self, error: Optional[BaseException]) -> None:
        """The error of the latest step is an event on the first rank, and the end of the run's folder names it."""
        if self.leader is None:
            return
        # a text, because an error keeps the tensors of its step
        text = "" if error is None else traceback.format_exception_only(type(error), error)[0].strip().splitlines()[0][:200]
        if self.leader.folder is not None:
            self.leader.folder.raised = text
        if text:
            self.leader.raised(max(0, self._number - 1), text)

    def _report(self, step: Optional[Step], raised: bool = False) -> None:
        self._ran.append((step, self._version, raised))
        if len(self._ran) <= self._device_lag:
            return
        ended, version, raised = self._ran.pop(0)
        if ended is not None and not ended.is_complete():
            ended = None
        rows: List[Row] = []
        if ended is not None:
            try:
                rows = ended.resolved() + self._memory_rows(ended.number)
            except Exception as error:
                self._give_up(error)
        rows = self._transport_rows() + rows
        number, begin, finish = (ended.number, ended.begin, ended.end) if ended is not None else (-1, 0, 0)
        record = Record(number, version, self._prepared, begin, finish, len(rows), int(self._failed), self._raised, self._control.offset, self._control.error,
                        int(1e6 * self.swap_ms[-1]) if self.swap_ms else 0)
        leading = self.leader or self._relay
        if leading is not None:
            leading.record(record, rows, raised)
        else:
            self._control.report(flattened(record, rows, self._control.size))

    def _transport_rows(self) -> List[Row]:
        if self.carrier is not None:
            for kind, text, from_rank, to_rank, time_ns in self.carrier.happened():
                self.happened.append(Happening(self._number - 1, time_ns / 1e6, kind, text, fields={"link": [from_rank, to_rank]}))
                self._unsent.append(json.dumps([kind, text, from_rank, to_rank, time_ns]))
        now, self._unsent = self._unsent[:EVENTS_AT_ONCE], self._unsent[EVENTS_AT_ONCE:]
        return [row for text in now for row in rows_of_text(text)]

    def _memory_rows(self, number: int) -> List[Row]:
        if number > 32:
            return []
        rows: List[Row] = [(KEPT, 0, stage, 0, count, 0) for stage, count in self.kept.bytes.items()]
        rows += [(KEPT, 2, stage, 0, 0, 0) for stage in self.kept.whole] + [(KEPT, 3, stage, 0, 0, 0) for stage in self.kept.draws]
        return rows + [(KEPT, 1, 0, 0, int(self._free_bytes()), 0)]

    def _give_up(self, error: BaseException, whole: bool = False) -> None:
        """Stops measuring; `whole`: also stops taking part."""
        if self._over or self._failed and not whole:
            return
        self._failed = True
        self._over = self._over or whole
        current(None)
        if self.leader is not None:
            self.leader.warned = True
        warn(error)


def _keep() -> None:
    """A forked child does not have the threads that process groups and their messages need at their end. In a job that is adapted, they never
    end there."""
    agents = list(_agents)
    for kept in [*agents, *(sys.modules["torch.distributed.distributed_c10d"]._world.pg_map if agents else ())]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


os.register_at_fork(after_in_child=_keep)


def warn(error: BaseException) -> None:
    warnings.warn(f"slackline: this job is no longer adapted; it continues with the current order: {type(error).__name__}: {error}",
                  RuntimeWarning, stacklevel=2)


# For the thread that decides: (replica, records of its other ranks, or its bundle, as tensors), or this rank's record and whether the step raised
_Records = Tuple[int, List[Any], Optional[Tuple[Record, List[Row], bool]]]


class Leader:
    """The first rank's part: selects the order of each step. A thread that does not call PyTorch makes the decisions."""

    def __init__(self, shape: Shape, lower: Callable[[order.Rows, Sequence[int]], str], job: Optional[Control], device_lag: int, out: Optional[str],
                 on_event: Optional[Callable[[Any], None]], samples: bool) -> None:
        """samples: while nothing changes, not every step is measured."""
        self._shape, self._lower, self._on_event = shape, lower, on_event
        self._job, self._course, self._device_lag = job, Course(), device_lag
        self._samples, self._calm = samples, False  # calm: set by the thread that decides
        self._measured, self._interval = 0, 1  # the latest measured step; the steps from one to the next
        self._announced = self._ended = self._bundles = 0  # with replicas: steps, and bundles of each replica that have been read
        self._began = 0  # ns: the begin of the latest step
        self._last: Optional[Tuple[Header, List[bytes]]] = None
        self._bytes: Dict[int, int] = {}
        self._free = [0.0] * shape.ranks
        self.decider = Decider(shape, lambda: self._bytes, lambda: self._free)
        self.folder = opened(out, shape) if out is not None else None
        self.events: List[Happening] = []
        self.last: Optional[List[Measured]] = None  # per replica
        self._lock = threading.Condition()
        self._given = self._taken = 0  # entries of `_records`, by the training thread; handled
        # latest times of a step on this rank, in ns, all of one order; with replicas, until the next one begins: the sum of gradients waits for them
        self._usual: Deque[int] = deque(maxlen=USUAL)
        self._usual_version = 0
        self._urgent = True  # set by the thread that decides: the next records matter at once
        self._noticed = 0  # further steps for which this rank has noticed something by itself
        self._offer: Optional[Tuple[int, List[bytes]]] = None  # a version, and its text for each replica
        self._run_version = 0
        self._stop = self.warned = False  # warned: by the training thread
        self._epoch: Optional[int] = None
        self._records: "queue.SimpleQueue[Union[_Records, Happening, None]]" = queue.SimpleQueue()  # an event is in ms of this rank's clock; None: the end
        self._thread = threading.Thread(target=self._run, name="slackline leader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, which may be in a search: at the end of the process, before the interpreter ends."""
        self._records.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

    # ---- called by the training thread

    @property
    def urgent(self) -> bool:
        """Whether the next header waits for the records of the latest step, so that a decision takes effect some steps earlier: while
        something changes, but not for long. The other replicas learn it from the header before."""
        return self._urgent or self._noticed > 0

    def record(self, record: Record, rows: List[Row], raised: bool) -> None:
        self._put((0, [], (record, rows, raised)))
        if record.step >= 0:
            if self.folder is not None:
                self.folder.ran(record.step, (record.end - record.begin) / 1e6)
            cost = STEP_COST_NS + ROW_COST_NS * len(rows)
            self._interval = min(SPARSEST, 1 + int(cost / (SHARE * max(1, record.end - record.begin))))
            self._notice(record.version, record.begin - self._began if self._job is not None and self._began else record.end - record.begin)
            self._began = record.begin

    def _notice(self, version: int, took: int) -> None:
        if version != self._usual_version:  # another order takes another time, and its own decision has been made
            self._usual_version, self._noticed = version, 0
            self._usual.clear()
        if len(self._usual) >= 3:
            usual = statistics.median(self._usual)
            self._noticed = NOTICED if not usual / OTHER <= took <= usual * OTHER else max(0, self._noticed - 1)
        self._usual.append(took)

    def unmeasured(self, step: int, version: int, took: int) -> None:
        """A step of which only the time on this rank is known, in ns."""
        self._notice(version, took)
        if self.folder is not None:
            self.folder.ran(step, took / 1e6)

    def raised(self, step: int, text: str) -> None:
        self._put(Happening(step, time.monotonic_ns() / 1e6, "raised", text))

    def ended(self) -> None:
        """A step has ended without an error."""
        self._ended += 1

    def _measures(self, step: int) -> bool:
        """Whether to measure the next step."""
        measured = not (self._samples and self._calm and not self.urgent and len(self._usual) >= 3 and step - self._measured < self._interval)
        if measured:
            self._measured = step
        return measured

    def header(self, step: int, clocks: bool, collect: Callable[[int], List[List[Any]]]) -> Tuple[Header, bytes]:
        """Called before each step. collect(lag): the new records of the other ranks of this pipeline."""
        for one in collect(0 if self.urgent else LAG):
            self._put((0, one, None))
        if self._job is not None:
            return self._header_with_replicas(self._job, step, clocks)
        self._await()
        version, offered, plans, stop = self._wanted()
        measured = offered > 0 or self._measures(step)
        return Header(step, version, version, offered, len(plans[0]), int(clocks), stop, measured=int(measured)), plans[0]

    def _await(self) -> None:
        """Waits for an urgent decision, but not for long."""
        if self.urgent and self._usual:
            with self._lock:
                self._lock.wait_for(lambda: self._stop or self._taken == self._given, DECIDING * self._usual[-1] / 1e9)

    def _wanted(self) -> Tuple[int, int, List[bytes], int]:
        """The version to run, the offered one with its texts, and whether there will be no more."""
        with self._lock:
            offer, self._offer = self._offer, None
            return self._run_version, offer[0] if offer else 0, offer[1] if offer else [b""] * self._shape.replicas, int(self._stop)

    def _header_with_replicas(self, job: Control, step: int, clocks: bool) -> Tuple[Header, bytes]:
        """Announces to the other replicas what all run from the step after the next one on, and hears it as they do: one step later."""
        course, plan, offered = self._course, b"", 0
        if self._announced == self._ended:  # not if the step is repeated
            self._announced += 1
            if self._last is not None and not course.over:
                header, plans = self._last
                course.heard(header)
                plan, offered = plans[0], header.offered
                if header.clocks:
                    job.compare()
            else:
                course.heard(None)
            if not course.over:
                self._exchange(job)
        return Header(step, course.running, course.next, offered, len(plan), int(clocks), int(course.settled)), plan

    def _exchange(self, job: Control) -> None:
        lag = 0 if self._last is not None and self._last[0].urgent else LAG  # of the other replicas' first ranks
        job.expect()
        while self._bundles < self._ended - lag - self._device_lag:
            for replica, bundle in enumerate(job.collect(), 1):
                self._put((replica, [bundle], None))
            job.expect()
            self._bundles += 1
        self._await()
        version, offered, plans, stop = self._wanted()
        clocks = (self._announced - 1) % CLOCKS_EVERY == 0
        self._last = Header(self._announced - 1, 0, version, offered, 0, int(clocks), stop, int(self.urgent)), plans
        job.announce(*self._last)

    def _put(self, given: Union[_Records, Happening]) -> None:
        self._given += 1
        self._records.put(given)

    # ---- the thread that decides

    def _run(self) -> None:
        own: Deque[Tuple[Record, List[Row], bool]] = deque()
        waiting: List[Deque[List[Tuple[Record, List[Row]]]]] = [deque() for _ in range(self._shape.replicas)]  # for those of the other replicas
        try:
            while (given := self._records.get()) is not None:
                if isinstance(given, Happening):
                    self._tell_at_once(given)
                else:
                    self._sort(given, own, waiting)
                while all(waiting):
                    self._observed([one.popleft() for one in waiting])
                with self._lock:
                    self._taken += 1
                    self._lock.notify()
            if self.folder is not None:
                self.folder.end()
        except Exception as error:
            with self._lock:
                self._stop, self._urgent = True, False
                self._lock.notify()
            if not self.warned:
                warn(error)
            self.decider.close()

    def _sort(self, given: _Records, own: Deque[Tuple[Record, List[Row], bool]], waiting: List[Deque[List[Tuple[Record, List[Row]]]]]) -> None:
        replica, tensors, mine = given
        if mine is not None:
            own.append(mine)
        elif replica > 0:
            waiting[replica].append(unbundled(tensors[0], self._shape.ranks))
        else:
            record, rows, raised = own.popleft()
            if not raised or self._shape.replicas == 1:  # the other replicas have no record of a step that is repeated
                waiting[0].append([(record, rows), *(parsed(one.tolist()) for one in tensors)])

    def _tell_at_once(self, happening: Happening) -> None:
        happening.time_ms -= self._epoch / 1e6 if self._epoch is not None else happening.time_ms
        self._tell([happening])
        if self.folder is not None:
            self.folder.event(happening)

    def _heard(self, replicas: Sequence[Sequence[Tuple[Record, List[Row]]]]) -> None:
        """Adds the events of the ranks' transports."""
        for replica, records in enumerate(replicas):
            for head, rows in records:
                for text in texts_of_rows(rows):
                    kind, seen, from_rank, to_rank, time_ns = json.loads(text)
                    began = self._epoch if self._epoch is not None else time_ns - head.offset
                    fields = {"link": [from_rank, to_rank], **({"replica": replica} if len(replicas) > 1 else {})}
                    self.decider.happened.append(Happening(max(0, head.step), (time_ns - head.offset - began) / 1e6, kind, seen, fields=fields))

    def _observed(self, replicas: Sequence[Sequence[Tuple[Record, List[Row]]]]) -> None:
        heads = [record for records in replicas for record, _ in records]
        self._heard(replicas)
        failed = [at for at, head in enumerate(heads) if head.failed]
        if failed:
            raise RuntimeError(f"rank {failed[0] % self._shape.ranks} no longer measures")
        if self._shape.replicas > 1 and any(head.raised for head in heads):
            self.decider.keep_split()
        pending = self.decider.pending
        if pending is not None and pending.from_step is None and all(head.prepared >= pending.version for head in heads):
            pending.from_step = heads[0].step + 1
            with self._lock:
                self._run_version = pending.version
        if any(head.step < 0 or head.version != heads[0].version for head in heads) or any(head.step != records[0][0].step for records in replicas for head, _ in records):
            return
        self._remember_memory(replicas)
        if self._epoch is None:
            self._epoch = heads[0].begin
        if pending is not None and pending.version == heads[0].version:
            pending.took_ms = max(head.turned for head in heads) / 1e6
        steps = [joined(heads[0].step, heads[0].version, [rows for _, rows in records], [head.begin for head, _ in records], [head.end for head, _ in records],
                        [head.offset for head, _ in records], max(head.error for head in heads), self._epoch, self._shape.rank_of) for records in replicas]
        self.last = steps
        before = self.decider.predicted_ms
        swap = self.decider.observe(steps)
        if swap is not None:
            texts = [self._lower(rows, swap.split).encode() for rows in swap.rows]
            with self._lock:
                self._offer = swap.version, texts
        self._urgent, self._calm = self.decider.urgent, self.decider.calm
        happened, self.decider.happened = self.decider.happened, []
        self._tell(happened)
        if self.folder is not None:
            self.folder.step(steps, before, self.decider, happened)

    def _tell(self, happened: Sequence[Happening]) -> None:
        self.events += happened
        for one in happened:
            log.info("step %d: %s: %s", one.step, one.kind, one.text)
            self._call(one)

    def _call(self, one: Happening) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(one)
        except BaseException as error:  # the program's own, such as SystemExit
            self._on_event = None
            warnings.warn(f"slackline: on_event has failed, and is not called again: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)

    def _remember_memory(self, replicas: Sequence[Sequence[Tuple[Record, List[Row]]]]) -> None:
        """The bytes of a stage's microbatch, the bytes that are free on a rank of each replica, whether a backward cannot be split, and which stages
        draw random numbers."""
        for rank in range(self._shape.ranks):
            free = [count for records in replicas for what, op, stage, _, count, _ in records[rank][1] if what == KEPT and op == 1]
            if free:
                self._free[rank] = float(min(free))
            for records in replicas:
                self._bytes.update({stage: count for what, op, stage, _, count, _ in records[rank][1] if what == KEPT and op == 0})
                self._shape.draws.update(row[2] for row in records[rank][1] if row[:2] == (KEPT, 3))
                if any(row[:2] == (KEPT, 2) for row in records[rank][1]) and not order.is_split(self._shape.given):
                    self._shape.can_split = False
