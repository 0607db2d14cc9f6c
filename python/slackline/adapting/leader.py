# SPDX-License-Identifier: Apache-2.0
"""The first rank's part of an adapted job: it selects the order of each step, by a thread that decides from the records of all ranks."""
from __future__ import annotations

import contextlib
import json
import logging
import queue
import statistics
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple, Union

from . import order
from .control import Control, Header, Record, parsed, texts_of_rows
from .deciding import Decider, Happening
from .folder import opened
from .measured import Measured, Shape, joined
from .replicas import LAG, Course, unbundled
from .timings import KEPT, Row
from .warning import warn

log = logging.getLogger("slackline")
CLOCKS_EVERY = 500  # steps
USUAL = 9  # steps
OTHER = 1.15  # factor by which a step of the first rank takes another time than usual
NOTICED = 4  # steps after it
CLOSING_S = 10.0  # for a search at the end of the process
DECIDING = 0.1  # share of a step for which the first rank waits for an urgent decision
# While nothing changes, so many steps are measured that measuring costs at most SHARE of the time, but at least one of SPARSEST
SHARE, SPARSEST = 0.002, 16
CARRIED = 8  # instead of SPARSEST, while delegates carry the messages: their events come with the records of measured steps
AHEAD = 3  # while nothing changes, steps without a header of their own: a decision takes effect up to so many steps later
STEP_COST_NS, ROW_COST_NS = 5e5, 5e4  # of a measured step, and of each op and message in it


def give_notice(error: BaseException) -> None:
    warn(f"this job is no longer adapted; it continues with the current order: {type(error).__name__}: {error}", stacklevel=2)


# For the thread that decides: (replica, records of its other ranks, or its bundle, as tensors), or this rank's record and whether the step raised
_Records = Tuple[int, List[Any], Optional[Tuple[Record, List[Row], bool]]]


class Handler(threading.Thread):
    """Calls the program's `on_event` with one event after the other, so that a slow one holds up no decision."""

    def __init__(self, on_event: Callable[[Any], None]) -> None:
        super().__init__(name="slackline events", daemon=True)
        self._on_event = on_event
        self._events: "queue.SimpleQueue[Optional[Happening]]" = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while (one := self._events.get()) is not None:
            try:
                self._on_event(one)
            except BaseException as error:  # the program's own, such as SystemExit
                warn(f"on_event has failed, and is not called again: {type(error).__name__}: {error}", stacklevel=2)
                return

    def tell(self, one: Optional[Happening]) -> None:
        """None: the last one has been told."""
        if self.is_alive():
            self._events.put(one)


class Leader:
    """The first rank's part: selects the order of each step. A thread that does not call PyTorch makes the decisions."""

    def __init__(self, shape: Shape, lower: Callable[[order.Rows, Sequence[int]], str], job: Optional[Control], device_lag: int, out: Optional[str],
                 on_event: Optional[Callable[[Any], None]], samples: bool) -> None:
        """samples: while nothing changes, not every step is measured."""
        self._shape, self._lower, self._handler = shape, lower, Handler(on_event) if on_event is not None else None
        self._job, self._course, self._device_lag = job, Course(), device_lag
        self._samples, self._calm = samples, False  # calm: set by the thread that decides
        self._sparsest, self._most_ahead = SPARSEST, AHEAD
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
        if self._handler is not None:
            self._handler.tell(None)
            if self._handler is not threading.current_thread():
                self._handler.join(CLOSING_S)

    def hear_transport(self) -> None:
        """Delegates carry the messages: their events must not wait as long."""
        self._sparsest, self._most_ahead = CARRIED, 0

    @property
    def is_calling(self) -> bool:
        """Whether this is the thread in which `on_event` is called."""
        return threading.current_thread() is self._handler

    # ---- called by the training thread

    @property
    def urgent(self) -> bool:
        """Whether the next decisions matter: while something changes, but not for long. The next header then waits for the records of the latest
        step, so that they take effect some steps earlier. The other replicas learn it from the header before."""
        return self._urgent or self._noticed > 0

    @property
    def _overlaps(self) -> bool:
        """Whether ranks begin a step before others have ended the one before. Then no header waits for a record of the latest step."""
        return self._shape.objective == "period"

    def record(self, record: Record, rows: List[Row], raised: bool) -> None:
        self._put((0, [], (record, rows, raised)))
        if record.step >= 0:
            if self.folder is not None:
                self.folder.ran(record.step, (record.end - record.begin) / 1e6)
            cost = STEP_COST_NS + ROW_COST_NS * len(rows)
            self._interval = min(self._sparsest, 1 + int(cost / (SHARE * max(1, record.end - record.begin))))
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
        measured = not (self._samples and self._calm and not self.urgent and len(self._usual) >= USUAL and step - self._measured < self._interval)
        if measured:
            self._measured = step
        return measured

    def _ahead(self, step: int) -> int:
        """How many steps after this one, which is not measured, need no header: until the next measured one, or the next comparison of clocks."""
        return min(self._most_ahead, self._measured + self._interval - 1 - step, CLOCKS_EVERY - 1 - step % CLOCKS_EVERY)

    def header(self, step: int, clocks: bool, collect: Callable[[int], List[List[Any]]]) -> Tuple[Header, bytes]:
        """Called before each step with a header. collect(lag): the new records of the other ranks of this pipeline."""
        for one in collect(0 if self.urgent and not self._overlaps else LAG):
            self._put((0, one, None))
        if self._job is not None:
            return self._header_with_replicas(self._job, step, clocks)
        self._await()
        version, offered, plans, stop = self._wanted()
        measured = offered > 0 or self._measures(step)
        ahead = 0 if measured or stop else self._ahead(step)
        return Header(step, version, version, offered, len(plans[0]), int(clocks), stop, measured=int(measured), ahead=ahead), plans[0]

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
                give_notice(error)
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
                        [head.offset for head, _ in records], max(head.error for head in heads), self._epoch, self._shape.rank_of, self._overlaps) for records in replicas]
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
            with contextlib.suppress(Exception):  # of a handler that the program has added
                log.info("step %d: %s: %s", one.step, one.kind, one.text)
            if self._handler is not None:
                self._handler.tell(one)

    def _remember_memory(self, replicas: Sequence[Sequence[Tuple[Record, List[Row]]]]) -> None:
        """The bytes of a stage's microbatch, the bytes that are free on a rank of each replica, whether a backward cannot be split, which stages
        draw random numbers, and whether the program asks for its numbers of microbatches."""
        for rank in range(self._shape.ranks):
            free = [count for records in replicas for what, op, stage, _, count, _ in records[rank][1] if what == KEPT and op == 1]
            if free:
                self._free[rank] = float(min(free))
            for records in replicas:
                self._bytes.update({stage: count for what, op, stage, _, count, _ in records[rank][1] if what == KEPT and op == 0})
                if any(row[:2] == (KEPT, 4) for row in records[rank][1]):
                    self.decider.keep_split()
                self._shape.draws.update(row[2] for row in records[rank][1] if row[:2] == (KEPT, 3))
                if any(row[:2] == (KEPT, 2) for row in records[rank][1]) and not order.is_split(self._shape.given):
                    self._shape.can_split = False
