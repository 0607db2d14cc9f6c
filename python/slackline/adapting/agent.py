# SPDX-License-Identifier: Apache-2.0
"""One rank of an adapted job: its work before and after each step.

Nothing here raises into the job. A failure on a rank ends its measurements. The rank reports the failure to the first rank, which
then requests no more orders, and the current order stays. Only a failure of the control group itself ends the headers, and then
on every rank.
"""
from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import traceback
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from . import order
from .control import Control, Header, Record, flattened, rows_of_text
from .deciding import Happening
from .kept import Kept
from .leader import CLOCKS_EVERY, Leader, give_notice
from .measured import Shape
from .replicas import LAG, Relay
from .timings import KEPT, Clock, Row, Step, Waiters, current

_agents: "weakref.WeakSet[Agent]" = weakref.WeakSet()  # of this process
EVENTS_AT_ONCE = 5  # in a record


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
        self.obeys = True  # so far, the program has looked at its number of microbatches before each step
        self._ahead = 0  # steps that the latest header is for, too
        self._plans: Dict[int, str] = {}
        self._over = self._failed = False
        self.swap_ms: List[float] = []
        self.leader: Optional[Leader] = None
        self._relay: Optional[Relay] = None
        if control.leads and (job is None or job.leads):
            self.leader = Leader(shape, lower, job, self._device_lag, out, on_event, samples=job is None and not self._clock.asynchronous)
        elif job is not None:
            self._relay = Relay(job, give_notice)
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
        if self._ahead > 0:
            self._ahead, self._number = self._ahead - 1, self._number + 1
            return Header(self._number - 1, self._version, self._version, 0, 0, 0, 0, measured=0)
        control, leading = self._control, self.leader or self._relay
        if leading is not None:
            header, plan = leading.header(self._number, self._number % CLOCKS_EVERY == 0, self._collect)
            control.announce(header, [plan] * control.ranks)
        else:
            header, plan = control.hear()
        if header.clocks:
            control.compare()
        self._number, self._ahead = header.step + 1, header.ahead
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
        rows: List[Row] = [(KEPT, 2, stage, 0, 0, 0) for stage in self.kept.whole] + [(KEPT, 3, stage, 0, 0, 0) for stage in self.kept.draws]
        rows += [] if self.obeys else [(KEPT, 4, 0, 0, 0, 0)]
        if number > 32:
            return rows
        return rows + [(KEPT, 0, stage, 0, count, 0) for stage, count in self.kept.bytes.items()] + [(KEPT, 1, 0, 0, int(self._free_bytes()), 0)]

    def _give_up(self, error: BaseException, whole: bool = False) -> None:
        """Stops measuring; `whole`: also stops taking part."""
        if self._over or self._failed and not whole:
            return
        self._failed = True
        self._over = self._over or whole
        current(None)
        if self.leader is not None:
            self.leader.warned = True
        give_notice(error)


def close(threads: List[Any], pid: int) -> None:
    """Called when a schedule is collected, and at the end of its process: a thread that returns from PyTorch's code while the interpreter ends
    aborts the process."""
    if os.getpid() == pid:
        for one in threads:
            one.close()


def _keep() -> None:
    """A forked child does not have the threads that process groups and their messages need at their end. In a job that is adapted, they never
    end there."""
    agents = list(_agents)
    for kept in [*agents, *(sys.modules["torch.distributed.distributed_c10d"]._world.pg_map if agents else ())]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


os.register_at_fork(after_in_child=_keep)
