# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's PipelineEngine (0.19.8): an order of ours replaces its TrainSchedule from one `train_batch` to the next.

The engine runs a list of instructions per step. `_Order` makes that list from a row of ops. The handlers of the instructions are
wrapped in this engine only, to measure ops, and to carry messages as engines.py does. The engine itself is not changed, and evaluates as before.

What the engine restricts: a backward runs in one piece; forwards and backwards are in ascending order on each stage; the last stage
keeps one loss, so it runs the backward of a microbatch right after its forward. The forwards that each other stage runs ahead are free.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch.distributed as dist
from deepspeed.runtime.pipe import p2p, schedule as instructions

from .. import _library
from .._errors import SlacklineError
from . import engines, order, timings
from .adaptation import Adaptation, not_adapted
from .agent import Agent
from .agreement import Cannot
from .engines import AHEAD, Receiving


class _Order(instructions.PipeSchedule):  # type: ignore[misc]
    """A row of ops as instructions of DeepSpeed."""

    def __init__(self, row: List[order.Cell], microbatches: int, stages: int, stage: int) -> None:
        super().__init__(microbatches, stages, stage)
        self._row = row
        self._slots, self._buffers = _slots(row)

    def num_pipe_buffers(self) -> int:
        return max(2, self._buffers)

    def steps(self) -> Any:
        for cell, slot in zip(self._row, self._slots):
            yield self._forward(slot) if cell.op == "F" else self._backward(slot)
        yield [instructions.ReduceTiedGrads(), instructions.ReduceGrads(), instructions.OptimizerStep()]

    def _forward(self, slot: int) -> List[Any]:
        made = [] if self.is_first_stage else [instructions.RecvActivation(slot)]
        made += [instructions.LoadMicroBatch(slot)] if self.is_first_stage or self.is_last_stage else []
        made.append(instructions.ForwardPass(slot))
        return made + ([] if self.is_last_stage else [instructions.SendActivation(slot)])

    def _backward(self, slot: int) -> List[Any]:
        made = [] if self.is_last_stage else [instructions.RecvGrad(slot)]
        made.append(instructions.BackwardPass(slot))
        return made + ([] if self.is_first_stage else [instructions.SendGrad(slot)])


def _slots(row: List[order.Cell]) -> Tuple[List[int], int]:
    """The engine's buffer of each op: the lowest that no microbatch between its forward and backward has; and their number."""
    used: Dict[int, int] = {}
    slots: List[int] = []
    count = 0
    for cell in row:
        if cell.op == "F":
            used[cell.microbatch] = next(slot for slot in range(len(row)) if slot not in used.values())
        slots.append(used[cell.microbatch])
        count = max(count, slots[-1] + 1)
        if cell.op != "F":
            del used[cell.microbatch]
    return slots, count


def _row_of(given: Any, stage: int) -> List[order.Cell]:
    """The ops of a schedule of DeepSpeed, which runs forwards and backwards in ascending order."""
    row: List[order.Cell] = []
    for instruction in (one for step in given.steps() for one in step):
        op = {"ForwardPass": "F", "BackwardPass": "B"}.get(type(instruction).__name__)
        if op:
            row.append(order.Cell(stage, op, sum(cell.op == op for cell in row)))
    return row


# ---- the engine --------------------------------------------------------------------------------------------------------------


class _Adapted:
    """An engine whose training follows the agent's order."""

    def __init__(self, engine: Any, rows: order.Rows, group: Any) -> None:
        self.engine = engine
        self.agent: Optional[Agent] = None
        self.stage, self.stages, self.microbatches = int(engine.stage_id), int(engine.num_stages), int(engine.micro_batches)
        self._rows = rows
        self._groups = [group, group]
        self._receiving: List[Receiving] = []
        self._given, self._exec = engine._train_schedule, engine._exec_schedule
        self._done = [0, 0]  # forwards and backwards of this step
        self._sent: List[Any] = []
        self._sends: Optional[int] = None  # the kind of the message that is sent
        self._takes: Optional[Receiving] = None
        self._opened = False

    def install(self, agent: Agent, gradients: Any) -> None:
        self.agent, self._groups[1], engine = agent, gradients, self.engine
        self._receiving = [Receiving(0, self.stage - 1, self.stage - 1, self._groups[0]), Receiving(1, self.stage + 1, self.stage + 1, gradients)]
        wrappers = {"LoadMicroBatch": self._load, "ForwardPass": self._forward, "BackwardPass": self._backward, "SendActivation": self._send(0), "SendGrad": self._send(1),
                    "RecvActivation": self._receive(0), "RecvGrad": self._receive(1), "ReduceTiedGrads": self._reduce}
        known = dict(engine._INSTRUCTION_MAP)
        for kind in list(known):
            if kind.__name__ in wrappers:
                known[kind] = _wrapped(self, known[kind], wrappers[kind.__name__])
        engine._INSTRUCTION_MAP, engine._train_schedule, engine._exec_schedule = known, self._schedule, self._run
        _install_messages()

    def load(self, text: str) -> None:
        self._rows = order.parsed(text)

    def _schedule(self) -> Any:
        if self.engine.micro_batches != self.microbatches:  # by set_train_batch_size: these steps run as given
            return self._given()
        return _Order(self._rows[self.stage], self.microbatches, self.stages, self.stage)

    def _run(self, made: Any) -> None:
        global _running
        if not isinstance(made, _Order):
            self._exec(made)
            return
        assert self.agent is not None
        self.agent.begin()
        made = self._schedule()
        self._done, self._sent, self._opened = [0, 0], [], False
        if self.engine.dynamic_shape or self.engine.pipe_recv_buf is None:
            self._receiving[0].form = None
        if self.engine.dynamic_shape or self.engine.grad_layer is None:
            self._receiving[1].form = None
        for one in self._receiving:
            one.begin(self.microbatches if 0 <= one._peer < self.stages else 0)
        _running = self
        try:
            for one in self._receiving:
                one.post(self.engine.device, AHEAD)
            self._exec(made)
        except BaseException as error:
            self.agent.abandon(error)
            raise
        finally:
            _running = None

    # ---- instructions

    def _load(self, instruction: Callable[[], None]) -> None:
        self._open("F", 0)
        instruction()

    def _forward(self, instruction: Callable[[], None]) -> None:
        assert self.agent is not None
        self._open("F", 0)
        if timings.running() is not None and self.agent.kept.wanted(self.stage):
            with self.agent.kept.counting(self.stage, self.engine.module):
                instruction()
        else:
            instruction()
        self._close(0)

    def _backward(self, instruction: Callable[[], None]) -> None:
        self._open("B", 1)
        instruction()
        self._close(1)

    def _open(self, op: str, kind: int) -> None:
        step = timings.running()
        if step is not None and not self._opened:
            step.enter(op, self.stage, self._done[kind])
        self._opened = True

    def _close(self, kind: int) -> None:
        self._done[kind] += 1
        self._opened = False
        for one in self._receiving:
            one.post(self.engine.device)

    def _send(self, kind: int) -> Callable[[Callable[[], None]], None]:
        def send(instruction: Callable[[], None]) -> None:
            self._sends = kind
            try:
                instruction()
            finally:
                self._sends = None
        return send

    def _receive(self, kind: int) -> Callable[[Callable[[], None]], None]:
        def receive(instruction: Callable[[], None]) -> None:
            step, channel = timings.running(), self._receiving[kind]
            if step is not None:
                step.ready()
            described = kind == 0 and (self.engine.dynamic_shape or self.engine.pipe_recv_buf is None)
            channel.take(self.engine.device)
            self._takes = channel
            try:
                instruction()
            finally:
                self._takes = None
            channel.learn(described)
        return receive

    def _reduce(self, instruction: Callable[[], None]) -> None:
        """After the last op."""
        assert self.agent is not None
        engines.wait(self._sent)
        self._sent = []
        for one in self._receiving:
            one.end()
        self.agent.end()
        instruction()

    # ---- in place of p2p.send and p2p.recv

    def send(self, tensor: Any, stage: int) -> None:
        assert self._sends is not None
        ops = timings._Sends([dist.P2POp(dist.isend, tensor.detach(), group=self._groups[self._sends], group_peer=stage)])
        ops.key = self._sends, self.stage, self._done[self._sends] - 1
        self._sent += engines.measured(ops)

    def receive(self, tensor: Any) -> None:
        assert self._takes is not None
        self._takes.receive(tensor)


_running: Optional[_Adapted] = None  # the engine that is in an adapted step


def _wrapped(adapted: _Adapted, handler: Callable[..., Any], around: Callable[[Callable[[], None]], None]) -> Callable[..., None]:
    def handle(engine: Any, **arguments: Any) -> None:
        if _running is adapted:
            around(lambda: handler(engine, **arguments))
        else:
            handler(engine, **arguments)
    return handle


def _install_messages() -> None:
    """Wraps the two functions of DeepSpeed that carry messages, once. They change only in adapted steps."""
    if getattr(p2p.send, "slackline", None):
        return
    send, recv = p2p.send, p2p.recv

    def sends(tensor: Any, dest_stage: int, async_op: bool = False) -> Any:
        return send(tensor, dest_stage, async_op) if _running is None else _running.send(tensor, dest_stage)

    def receives(tensor: Any, src_stage: int, async_op: bool = False) -> Any:
        return recv(tensor, src_stage, async_op) if _running is None else _running.receive(tensor)
    sends.slackline = True  # type: ignore[attr-defined]
    p2p.send, p2p.recv = sends, receives


# ---- agreeing ----------------------------------------------------------------------------------------------------------------


def adapted(engine: Any, **options: Any) -> Any:
    """The engine, with its `adaptation`."""
    engines.refuse("DeepSpeed", options)
    member = engines.Member(engine.mpu.get_pipe_parallel_group(), int(engine.stage_id), int(engine.num_stages))
    rows: order.Rows = []
    why = ""
    try:
        rows = _given(engine)
        if member.group_rank == 0:
            _library.library()
    except (Cannot, SlacklineError) as error:
        why = str(error)
    try:
        made = _Adapted(engine, rows, member.group)
        made.install(*engines.opened(member, rows, int(engine.micro_batches), why, engine.device, made.load, options))
        engine.adaptation = Adaptation(made.agent)
    except Exception as error:
        engine.adaptation = not_adapted(error)
    return engine


def _given(engine: Any) -> order.Rows:
    """The order of all ranks, as the engine runs it. Raises Cannot."""
    made = engine._train_schedule()
    if type(made) is not instructions.TrainSchedule:
        raise Cannot(f"the engine has a schedule of its own, {type(made).__name__}: only TrainSchedule is replaced")
    if engine.num_stages < 2:
        raise Cannot("the pipeline has one stage")
    rows = [_row_of(instructions.TrainSchedule(engine.micro_batches, engine.num_stages, stage), stage) for stage in range(engine.num_stages)]
    if not order.is_complete(rows, engine.num_stages, engine.micro_batches) or not order.alternates(rows):
        raise Cannot("TrainSchedule is not as it was in DeepSpeed 0.19.8")
    return rows
