# SPDX-License-Identifier: Apache-2.0
"""One rank's measurements of a step: the times of its ops and messages, and the memory that a microbatch keeps.

PyTorch's runtime calls `_batch_p2p` and `_wait_batch_p2p` of its module for messages, and the stages' methods for ops. Both are
wrapped: the functions once, and only for steps of adapted schedules; the methods on each stage's object. A row of a record is
(what, op, stage, microbatch, begin, end) in ns of this rank's clock:

    OP        an op: from the arrival of its message until the rank was ready for the next op
    SENT      the message of an op left
    RECEIVED  the message of an op: its receive was posted, and it arrived
    KEPT      op 0: bytes that a microbatch of a stage keeps until its backward (in `begin`); op 1: bytes that the rank may still
              allocate; op 2: the backward of the stage cannot be split; op 3: its forward draws random numbers; op 4: the program does not look at
              its number of microbatches before each step
    TEXT      a part of a text (control.py)
"""
from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import kept
from .kept import Kept

OP, SENT, RECEIVED, KEPT, TEXT = range(5)
KINDS = "FIWB"
OPS = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk", "perform_reduce_grad")  # wrapped methods of a stage
MESSAGES = ("get_fwd_send_ops", "get_bwd_send_ops", "get_fwd_recv_ops", "get_bwd_recv_ops")
Row = Tuple[int, int, int, int, Any, Any]  # times are ns, or events of a device until `Step.resolved`

_local = threading.local()  # .step: this thread's current Step


class Clock:
    """Marks points in time: directly on a CPU, and by events of the current stream on any other device.

    A device's times become this rank's by `compare`, which waits for an event and reads the rank's clock. It is called again and
    again, because the two clocks drift and PyTorch reports the time between two events in 32 bits.
    """
    PATIENCE_S = 1.0  # for a device to complete a step that ended some steps ago

    def __init__(self, device: Any) -> None:
        self._device = None if device is None or device.type == "cpu" else device
        self.origin: Optional[Tuple[Any, int]] = None  # an event, and its time
        self.compare()

    @property
    def asynchronous(self) -> bool:
        """Whether a mark is reached later than the program that made it."""
        return self._device is not None

    def compare(self) -> None:
        """Relates the device's times to this rank's clock. Waits for the device."""
        if self._device is not None:
            event = self.mark()
            event.synchronize()
            self.origin = event, time.monotonic_ns()

    def mark(self) -> Any:
        if self._device is None:
            return time.monotonic_ns()
        import torch
        event = torch.Event(device=self._device, enable_timing=True)
        event.record()
        return event

    def reached(self, mark: Any) -> bool:
        """Whether the device has reached a mark within PATIENCE_S. Other marks of its stream before this one are then reached, too."""
        if isinstance(mark, int):
            return True
        until = time.monotonic() + self.PATIENCE_S
        while not mark.query():
            if time.monotonic() > until:
                return False
            time.sleep(1e-3)
        return True

    @staticmethod
    def at(mark: Any, origin: Optional[Tuple[Any, int]]) -> int:
        """The time of a reached mark, in ns. origin: of the clock when the mark was made."""
        if isinstance(mark, int) or origin is None:
            return int(mark)
        return origin[1] + int(round(origin[0].elapsed_time(mark) * 1e6))


class _Sends(List[Any]):
    """P2P ops or Works of the messages of `key` = (op, stage, microbatch)."""
    key: Tuple[int, int, int]


class _Receives(List[Any]):
    key: Tuple[int, int, int]
    posted: Any
    arrived: Optional[int] = None
    error: Optional[BaseException] = None
    over: Any  # a lock that is held until the messages have arrived; a threading.Event costs several times as much


class Waiters:
    """Threads that record the arrival times of messages. Gloo completes a Work only while a thread waits for it, so each channel
    has a thread that waits for its receives in order. Works of other backends are polled by one thread, and the runtime itself waits."""
    POLL_S = 2e-4

    def __init__(self, waits: bool) -> None:
        self.waits = waits
        self._queues: Dict[Any, "queue.SimpleQueue[Optional[_Receives]]"] = {}
        self._threads: List[threading.Thread] = []

    def add(self, channel: Any, receives: _Receives) -> None:
        channel = channel if self.waits else None
        found = self._queues.get(channel)
        if found is None:
            found = self._queues[channel] = queue.SimpleQueue()
            self._threads.append(threading.Thread(target=_wait if self.waits else _poll, args=(found,), name="slackline arrivals", daemon=True))
            self._threads[-1].start()
        found.put(receives)

    def close(self) -> None:
        for one in self._queues.values():
            one.put(None)
        self._queues.clear()
        for thread in self._threads:  # at the end of the process, before the interpreter ends
            if thread is not threading.current_thread():
                thread.join(1.0)
        self._threads.clear()


def _wait(given: "queue.SimpleQueue[Optional[_Receives]]") -> None:
    while (receives := given.get()) is not None:
        try:
            for work in receives:
                work.wait()
            receives.arrived = time.monotonic_ns()
        except BaseException as error:  # the training thread raises it, as if it had waited itself
            receives.error = error
        receives.over.release()
        del receives  # its Works hold the process group


def _poll(given: "queue.SimpleQueue[Optional[_Receives]]") -> None:
    open_: List[_Receives] = []
    while True:
        try:
            new = given.get(timeout=Waiters.POLL_S) if open_ else given.get()
            if new is None:
                return
            open_.append(new)
        except queue.Empty:
            pass
        open_ = [one for one in open_ if not _arrived(one)]


def _arrived(receives: _Receives) -> bool:
    try:
        if not all(work.is_completed() for work in receives):
            return False
        receives.arrived = time.monotonic_ns()
    except BaseException as error:  # not measured; the training thread meets the error when it waits
        receives.error = error
    return True


class Step:
    """The measurements of a step. Until the step has ended, only the thread that runs it uses them."""

    def __init__(self, number: int, clock: Clock, waiters: Waiters) -> None:
        self.number = number
        self._clock, self._waiters = clock, waiters
        self._origin = clock.origin
        self.begin: Any = clock.mark()
        self.end = self.begin
        self.rows: List[Row] = []
        self._open: Optional[Tuple[int, int, int, Any]] = None  # the latest op; it ends when the rank is ready for the next one
        self._received: List[_Receives] = []

    # ---- ops

    def ready(self) -> None:
        """The rank has finished all work of the latest op."""
        if self._open is not None:
            op, stage, microbatch, begin = self._open
            self.rows.append((OP, op, stage, microbatch, begin, self._clock.mark()))
            self._open = None

    def leave_out(self) -> None:
        """The latest op has waited for something else."""
        self._open = None

    def enter(self, op: str, stage: int, microbatch: int) -> None:
        self.ready()
        self._open = KINDS.index(op), stage, microbatch, self._clock.mark()

    # ---- messages

    def post(self, ops: Any, original: Callable[[Any], Any]) -> Any:
        if isinstance(ops, _Sends):
            self.rows.append((SENT, *ops.key, (now := self._clock.mark()), now))
            return original(ops)
        now = self._clock.mark()
        works = _Receives(original(ops))
        works.key, works.posted = ops.key, now
        if self._waiters.waits:
            works.over = threading.Lock()
            works.over.acquire()
        self._received.append(works)
        self._waiters.add((ops[0].group_peer, ops.key[0], id(ops[0].group)), works)
        return works

    def wait(self, works: _Receives, original: Callable[[Any], Any]) -> None:
        self.ready()
        if self._waiters.waits:
            with works.over:
                pass
            if works.error is not None:
                raise works.error
        else:
            original(works)

    # ---- the end

    def finish(self) -> None:
        self.ready()
        self.end = self._clock.mark()

    def is_complete(self) -> bool:
        """Whether the device has completed the step. Waits for it, but not for long."""
        return self._clock.reached(self.end)

    def resolved(self) -> List[Row]:
        """The rows in ns, of a complete step; `begin` and `end` are then in ns, too. A message whose arrival is unknown is left out."""
        at, origin = self._clock.at, self._origin
        self.begin, self.end = at(self.begin, origin), at(self.end, origin)
        rows = self.rows if origin is None else [(*row[:4], at(row[4], origin), at(row[5], origin)) for row in self.rows]
        return rows + [(RECEIVED, *works.key, at(works.posted, origin), works.arrived) for works in self._received if works.arrived is not None]


# ---- wrappers ----------------------------------------------------------------------------------------------------------------


def install() -> None:
    """Wraps the functions of PyTorch's module that post and await messages, once for all schedules, and what `kept` watches."""
    from torch.distributed.pipelining import schedules
    kept.install()
    if getattr(schedules._batch_p2p, "slackline", None):
        return
    batch, wait = schedules._batch_p2p, schedules._wait_batch_p2p

    def _batch_p2p(p2p_ops: Any, desc: Optional[str] = None) -> Any:
        step: Optional[Step] = getattr(_local, "step", None)
        if step is None or not p2p_ops or not isinstance(p2p_ops, (_Sends, _Receives)):
            return batch(p2p_ops, desc)
        return step.post(p2p_ops, batch)

    def _wait_batch_p2p(work: Any) -> None:
        step: Optional[Step] = getattr(_local, "step", None)
        if step is None or not isinstance(work, _Receives):
            wait(work)
        else:
            step.wait(work, wait)
    _batch_p2p.slackline = True  # type: ignore[attr-defined]
    schedules._batch_p2p, schedules._wait_batch_p2p = _batch_p2p, _wait_batch_p2p


def current(step: Optional[Step]) -> None:
    """Sets this thread's current step; None: no step of an adapted schedule."""
    _local.step = step


def running() -> Optional[Step]:
    """This thread's current step."""
    step: Optional[Step] = getattr(_local, "step", None)
    return step


def wrap(stage: Any, keep: "Kept") -> None:
    """Wraps a stage's methods to measure its ops and messages. Their behavior does not change."""
    before: Optional[Kept] = getattr(stage, "_slackline", None)
    stage._slackline = keep
    if before is not None:  # by an earlier schedule of the same stage
        keep.bytes.update(before.bytes)
        keep.whole.update(before.whole)
        keep.draws.update(before.draws)
        keep.examined.update(before.examined)
        return
    from torch.nn.parallel import DistributedDataParallel
    index, inherited = stage.stage_index, dict(stage.__dict__)
    sums_in_backward = isinstance(stage.submod, DistributedDataParallel)  # the last backward waits for the other replicas

    def op_of(method: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def timed(chunk: int, *arguments: Any, **options: Any) -> Any:
            step: Optional[Step] = getattr(_local, "step", None)
            keep: Kept = stage._slackline
            if step is not None and method is backward and index not in keep.examined:
                keep.examine(stage, chunk, options.get("loss"))
            if step is not None:
                step.enter(name(*arguments, **options), index, chunk)
            if method is forward and keep.adapted:
                return keep.forward(stage, step is not None, lambda: method(chunk, *arguments, **options))
            if method is backward and keep.adapted and not options.get("full_backward", True):
                return keep.backward_input(stage, method, backward_weight_one_chunk, chunk, options)
            result = method(chunk, *arguments, **options)
            if step is not None and options.get("last_backward") and sums_in_backward and stage.chunks > 1:
                step.leave_out()
            return result
        return timed

    def messages_of(method: Callable[..., Any], kind: type, op: int, other: int) -> Callable[..., Any]:
        def keyed(chunk: int) -> Any:
            made, keep = method(chunk), stage._slackline
            groups = keep.groups if keep.adapted else None
            if groups is not None:  # whether measured or not: the peer does the same
                for one in made:
                    up = (one.group_peer > stage.group_rank) == (kind is _Sends)
                    one.group = groups("F" if op == 0 else "B", up) or one.group
            if getattr(_local, "step", None) is None:
                return made
            ops = kind(made)
            ops.key = (op, index + other, chunk)
            return ops
        return keyed

    forward, backward = stage.forward_one_chunk, stage.backward_one_chunk
    stage.forward_one_chunk = op_of(forward, lambda *a, **k: "F")
    stage.backward_one_chunk = op_of(backward,
                                     lambda loss=None, full_backward=True, last_backward=False: "B" if full_backward else "I")
    weigh = stage.backward_weight_one_chunk

    def backward_weight_one_chunk(chunk: int, *arguments: Any, **options: Any) -> Any:
        """PyTorch's takes a gradient without a copy, even one that is also the gradient of another parameter, or the buffer of a message."""
        keep = stage._slackline
        if keep.adapted and not keep.takes_weight(index, chunk):
            return None
        if keep.splits_itself:
            return weigh(chunk, *arguments, **options)
        groups = stage.backward_state[chunk][1] if chunk in stage.backward_state else None  # None on the first stage, too: a whole backward
        fresh = [node.variable for group in groups or () for node in group["params"] if node.variable.grad is None]
        result = weigh(chunk, *arguments, **options)
        for one in fresh:
            one.grad = None if one.grad is None else one.grad.clone()
        return result
    stage.backward_weight_one_chunk = op_of(backward_weight_one_chunk, lambda *a, **k: "W")
    reduce = stage.perform_reduce_grad

    def perform_reduce_grad(*arguments: Any, **options: Any) -> Any:
        step: Optional[Step] = getattr(_local, "step", None)
        if step is not None:
            step.ready()  # a reduction is not part of the latest op
        return reduce(*arguments, **options)
    stage.perform_reduce_grad = perform_reduce_grad
    # a message has the name of the op that produced it
    stage.get_fwd_send_ops = messages_of(stage.get_fwd_send_ops, _Sends, 0, 0)
    stage.get_bwd_send_ops = messages_of(stage.get_bwd_send_ops, _Sends, 1, 0)
    stage.get_fwd_recv_ops = messages_of(stage.get_fwd_recv_ops, _Receives, 0, -1)
    stage.get_bwd_recv_ops = messages_of(stage.get_bwd_recv_ops, _Receives, 1, 1)
    stage._slackline_wrappers = [(name, stage.__dict__[name], inherited.get(name)) for name in (*OPS, *MESSAGES)]


def unwrap(stage: Any) -> None:
    """Takes the wrappers off for a step that has nothing to measure or to watch. They stay where a message changes its group, and where
    something else has wrapped them."""
    for name, ours, inherited in stage._slackline_wrappers:
        if stage.__dict__.get(name) is ours and (name in OPS or stage._slackline.groups is None):
            if inherited is None:
                del stage.__dict__[name]
            else:
                stage.__dict__[name] = inherited


def wrap_again(stage: Any) -> None:
    """Puts them back after the step."""
    for name, ours, inherited in stage._slackline_wrappers:
        if stage.__dict__.get(name) is inherited:
            stage.__dict__[name] = ours
