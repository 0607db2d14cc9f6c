# SPDX-License-Identifier: Apache-2.0
"""One rank of an adapted job: its work before and after each step, and on the first rank a thread that decides.

Nothing here raises into the job. A failure on a rank ends its measurements. The rank reports the failure to the first rank, which
then requests no more orders, and the current order stays. Only a failure of the control group itself ends the headers, and then
on every rank.
"""
from __future__ import annotations

import os
import queue
import threading
import time
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import order
from .control import Control, Header, Record, parsed
from .deciding import Decider, Happening, Measured, Shape, joined
from .folder import Folder
from .timings import KEPT, Clock, Kept, Row, Step, Waiters, current

CLOCKS_EVERY = 500  # steps
LAG = 2  # steps after which the first rank reads a record; each rank has sent it by then


class Agent:
    """Used by the thread that trains: `begin`, the step, then `end` or `abandon`."""

    def __init__(self, shape: Shape, control: Control, apply: Callable[[str], None], lower: Callable[[order.Rows], str], device: Any, waits: bool,
                 groups: Optional[Callable[[str], Any]], free_bytes: Callable[[], float], out: Optional[str], on_event: Optional[Callable[[Any], None]]) -> None:
        self.shape, self.kept = shape, Kept()
        self._control, self._apply, self._free_bytes = control, apply, free_bytes
        self._clock, self._waiters, self._groups = Clock(device), Waiters(waits), groups
        self._device_lag = LAG if self._clock.asynchronous else 0  # steps that a device is allowed to be behind
        self._pid, self._number = os.getpid(), 0
        self._step: Optional[Step] = None
        self._ran: List[Tuple[Optional[Step], int]] = []  # not reported yet, with the version that ran
        self._version = self._prepared = 0
        self._plans: Dict[int, str] = {}
        self._over = self._failed = False
        self.swap_ms: List[float] = []
        self.leader = Leader(shape, lower, out, on_event) if control.leads else None

    @property
    def active(self) -> bool:
        return not self._over and os.getpid() == self._pid

    def begin(self) -> None:
        """Called before a step with a backward: agrees with the other ranks on the order, and starts to measure."""
        if not self.active:
            return
        try:
            header = self._agree()
            if header.over:
                self._over = True
                return
            if header.version != self._version:
                began = time.monotonic_ns()
                self._apply(self._plans.pop(header.version))
                self._version = header.version
                self.swap_ms.append((time.monotonic_ns() - began) / 1e6)
            if header.clocks and self._number > 1:
                self._compare_clocks()
            self._step = Step(header.step, self._clock, self._waiters, self._groups)
            current(None if self._failed else self._step)
        except Exception as error:  # the control group has failed: no rank receives new orders any more
            self._give_up(error, whole=True)

    def _agree(self) -> Header:
        control = self._control
        if self.leader is not None:
            if self._number >= LAG + self._device_lag:
                self.leader.records.put((control.collect(), None))
            control.expect()
            header, plan = self.leader.header(self._number)
            control.announce(header, plan)
        else:
            header, plan = control.hear()
        self._number = header.step + 1
        if header.offered:
            self._plans = {header.offered: plan.decode()}
            self._prepared = header.offered
        return header

    def _compare_clocks(self) -> None:
        try:
            self._clock.compare()
        except Exception as error:  # of the device: this rank no longer measures, but takes part
            self._give_up(error)

    def end(self) -> None:
        """Called after the step."""
        step, self._step = self._step, None
        current(None)
        if step is None or self._over:
            return
        try:
            step.finish()
            self._report(None if self._failed else step)
        except Exception as error:
            self._give_up(error, whole=True)

    def abandon(self) -> None:
        """Called if the step has raised; discards its measurements."""
        step, self._step = self._step, None
        current(None)
        if step is not None and not self._over:
            try:
                self._report(None)
            except Exception as error:
                self._give_up(error, whole=True)

    def _report(self, step: Optional[Step]) -> None:
        self._ran.append((step, self._version))
        if len(self._ran) <= self._device_lag:
            return
        ended, version = self._ran.pop(0)
        if ended is not None and not ended.is_complete():
            ended = None
        rows: List[Row] = []
        if ended is not None:
            try:
                rows = ended.resolved() + self._memory_rows(ended.number)
            except Exception as error:
                self._give_up(error)
        number, begin, finish = (ended.number, ended.begin, ended.end) if ended is not None else (-1, 0, 0)
        record = Record(number, version, self._prepared, begin, finish, len(rows), int(self._failed), self._control.offset, self._control.error)
        if self.leader is not None:
            self.leader.records.put(([], (record, rows)))
        else:
            self._control.report(record, rows)

    def _memory_rows(self, number: int) -> List[Row]:
        if number > 32:
            return []
        rows: List[Row] = [(KEPT, 0, stage, 0, count, 0) for stage, count in self.kept.bytes.items()]
        return rows + [(KEPT, 1, 0, 0, int(self._free_bytes()), 0)]

    def _give_up(self, error: BaseException, whole: bool = False) -> None:
        """Stops measuring; `whole`: also stops taking part."""
        if self._over or self._failed and not whole:
            return
        self._failed = True
        self._over = self._over or whole
        current(None)
        warn(error)


def warn(error: BaseException) -> None:
    warnings.warn(f"slackline: this job is no longer adapted; it continues with the current order: {type(error).__name__}: {error}",
                  RuntimeWarning, stacklevel=2)


class Leader:
    """The first rank's part: selects the order of each step. A thread that does not call PyTorch makes the decisions."""

    def __init__(self, shape: Shape, lower: Callable[[order.Rows], str], out: Optional[str], on_event: Optional[Callable[[Any], None]]) -> None:
        self._shape, self._lower, self._on_event = shape, lower, on_event
        self._bytes: Dict[int, int] = {}
        self._free = [0.0] * shape.ranks
        self.decider = Decider(shape, lambda: self._bytes, lambda: self._free)
        self.folder = Folder(out, shape) if out is not None else None
        self.events: List[Happening] = []
        self.last: Optional[Measured] = None
        self._lock = threading.Lock()
        self._offer: Optional[Tuple[int, bytes]] = None
        self._run_version = 0
        self._stop = False
        self._epoch: Optional[int] = None
        # records of the other ranks, as tensors, or of this rank
        self.records: "queue.SimpleQueue[Tuple[List[Any], Optional[Tuple[Record, List[Row]]]]]" = queue.SimpleQueue()
        threading.Thread(target=self._run, name="slackline leader", daemon=True).start()

    def header(self, step: int) -> Tuple[Header, bytes]:
        """Called before each step by the training thread."""
        with self._lock:
            offer, self._offer = self._offer, None
            plan = offer[1] if offer else b""
            return Header(step, self._run_version, offer[0] if offer else 0, len(plan), int(step % CLOCKS_EVERY == 0), int(self._stop)), plan

    def _run(self) -> None:
        own: List[Tuple[Record, List[Row]]] = []
        try:
            while True:
                tensors, mine = self.records.get()
                if mine is not None:
                    own.append(mine)
                    if self._shape.ranks > 1:
                        continue
                self._observed([own.pop(0), *map(parsed, tensors)])
        except Exception as error:
            with self._lock:
                self._stop = True
            warn(error)
            self.decider.close()

    def _observed(self, records: Sequence[Tuple[Record, List[Row]]]) -> None:
        heads = [record for record, _ in records]
        failed = [rank for rank, head in enumerate(heads) if head.failed]
        if failed:
            raise RuntimeError(f"rank {failed[0]} no longer measures")
        pending = self.decider.pending
        if pending is not None and pending.from_step is None and all(head.prepared >= pending.version for head in heads):
            pending.from_step = heads[0].step + 1
            with self._lock:
                self._run_version = pending.version
        if heads[0].step < 0 or any((head.step, head.version) != (heads[0].step, heads[0].version) for head in heads):
            return
        for rank, (_, rows) in enumerate(records):
            for what, op, stage, _, count, _ in rows:
                if what == KEPT and op == 0:
                    self._bytes[stage] = count
                elif what == KEPT:
                    self._free[rank] = float(count)
        if self._epoch is None:
            self._epoch = heads[0].begin
        measured = joined(heads[0].step, heads[0].version, [rows for _, rows in records], [head.begin for head in heads], [head.end for head in heads],
                          [head.offset for head in heads], max(head.error for head in heads), self._epoch, self._shape.rank_of)
        self.last = measured
        before = self.decider.predicted_ms
        swap = self.decider.observe(measured)
        if swap is not None:
            text = self._lower(swap.rows).encode()
            with self._lock:
                self._offer = swap.version, text
        happened, self.decider.happened = self.decider.happened, []
        self.events += happened
        for one in happened:
            if self._on_event is not None:
                self._on_event(one)
        if self.folder is not None:
            self.folder.step(measured, before, self.decider, happened)
