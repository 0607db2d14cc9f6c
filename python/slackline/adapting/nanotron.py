# SPDX-License-Identifier: Apache-2.0
"""nanotron's PipelineEngine (0.4): a row of ops replaces its two loops from one `train_batch_iter` to the next.

The order of an engine is code, and its state carries messages inside of forwards and backwards. An adapted step calls the engine's own `forward`
and `backward` in the order of a row, with a state that sends at once and receives ahead (engines.py). A step runs as given while the shapes
of messages are unknown: the first one, and one whose batch has other shapes.

What the engine restricts: a backward runs in one piece; forwards and backwards are in ascending order on each stage, of which a rank has one.
"""
from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from nanotron.parallel.pipeline_parallel import engine as engines_of_nanotron
from nanotron.parallel.pipeline_parallel.block import PipelineBlock
from nanotron.parallel.pipeline_parallel.context_manager import attach_pipeline_state_to_model
from nanotron.parallel.pipeline_parallel.state import PipelineTrainBatchState
from nanotron.parallel.pipeline_parallel.tensor_pointer import TensorPointer
from torch.nn.parallel import DistributedDataParallel

from .. import _library
from .._errors import SlacklineError
from . import engines, order, timings
from .adaptation import Adaptation, not_adapted
from .agent import Agent
from .agreement import Cannot
from .engines import AHEAD, Receiving


class _State(PipelineTrainBatchState):  # type: ignore[misc]
    """The state of an adapted step: every message is carried when it is registered."""

    def __init__(self, adapted: "_Adapted") -> None:
        super().__init__()
        self._adapted = adapted

    def register_send_activation(self, activation: Any, to_rank: int, p2p: Any) -> None:
        self._adapted.send(0, activation)

    def register_send_grad(self, grad: Any, to_rank: int, p2p: Any) -> None:
        self._adapted.send(1, grad)

    def register_recv_activation(self, from_rank: int, p2p: Any) -> None:
        self.activations_buffer.append(self._adapted.receive(0))

    def register_recv_grad(self, from_rank: int, p2p: Any) -> None:
        self.grads_buffer.append(self._adapted.receive(1))

    def run_communication(self, send_only_activation: bool = False) -> None:
        pass


class _Seen:
    """The messages that this rank receives in a step as given: per sender, each tensor's size, type, and whether it needs a gradient."""

    def __init__(self, p2ps: List[Any]) -> None:
        self._p2ps = p2ps
        self.tensors: Dict[int, List[Tuple[Any, Any, bool]]] = {}

    def __enter__(self) -> "_Seen":
        for p2p in self._p2ps:
            p2p.recv_tensors = self._watched(p2p.recv_tensors)
        return self

    def __exit__(self, *_: Any) -> None:
        for p2p in self._p2ps:
            del p2p.recv_tensors  # of the object; its class has its own

    def _watched(self, receive: Callable[..., Any]) -> Callable[..., Any]:
        def watched(num_tensors: int, from_rank: int, tag: int = 0) -> Any:
            found = receive(num_tensors=num_tensors, from_rank=from_rank, tag=tag)
            self.tensors.setdefault(from_rank, []).extend((one.size(), one.dtype, one.requires_grad) for one in found)
            return found
        return watched

    def message(self, peer: int, microbatches: int) -> List[Tuple[Any, Any, bool]]:
        """The tensors of each message of a peer. Raises Cannot if messages differ."""
        found = self.tensors.get(peer, [])
        each = found[:len(found) // microbatches]
        if each * microbatches != found:
            raise Cannot("microbatches differ in the shapes of their messages")
        return each


class _Adapted:
    """An engine whose training follows the agent's order, from its second step on."""

    def __init__(self, engine: Any, options: Dict[str, Any]) -> None:
        self.engine, self._options = engine, options
        self.agent: Optional[Agent] = None
        self.rank = self.ranks = self.microbatches = 0
        self._given = engine.train_batch_iter
        self._rows: order.Rows = []
        self._opened = False
        self._digest = -1  # of the shapes for which messages are known
        self._device: Any = None
        self._groups: List[Any] = []
        self._receiving: List[Receiving] = []
        self._needs: List[List[bool]] = [[], []]  # whether each tensor of a message needs a gradient
        self._left: List[List[bool]] = [[], []]  # the same, of those of the message that is being taken
        self._sent: List[Any] = []
        self._now: Tuple[str, int] = ("F", 0)  # the running op

    def load(self, text: str) -> None:
        self._rows = order.parsed(text)

    def train(self, model: Any, pg: Any, batch: Any, nb_microbatches: int, grad_accumulator: Any) -> Any:
        """In place of train_batch_iter."""
        def as_given(microbatches: Any) -> Any:
            return self._given(model=model, pg=pg, batch=microbatches, nb_microbatches=nb_microbatches, grad_accumulator=grad_accumulator)
        agent = self.agent
        if self._opened and (agent is None or not agent.active or nb_microbatches != self.microbatches):
            return as_given(batch)
        batch = list(batch)
        if agent is None:
            with _Seen(_p2ps(model)) as seen:
                outputs = as_given(batch)
            self._open(model, pg, nb_microbatches, seen, _digest_of(batch))
            return outputs
        agent.begin()
        try:
            digest = agent.shared(_digest_of(batch))
            if digest == self._digest:  # None and 0 never are
                outputs = self._run(agent, model, batch, grad_accumulator)
                agent.end()
                return outputs
            with _Seen(_p2ps(model)) as seen:
                outputs = as_given(batch)
            self._learn(seen, digest)
        except BaseException as error:
            agent.abandon(error)
            raise
        agent.abandon()  # not the agent's order
        return outputs

    def _open(self, model: Any, pg: Any, microbatches: int, seen: _Seen, digest: int) -> None:
        self._opened, engine = True, self.engine
        self.rank, self.ranks, self.microbatches = dist.get_rank(pg), dist.get_world_size(pg), microbatches
        why = ""
        try:
            self._rows = _given(engine, self.ranks, microbatches)
            _check(model, self.rank, self.ranks, seen)
            for peer in (self.rank - 1, self.rank + 1):
                seen.message(peer, microbatches)
            if self.rank == 0:
                _library.library()
        except (Cannot, SlacklineError) as error:
            why = str(error)
        try:
            member = engines.Member(pg, self.rank, self.ranks)
            self._device = torch.device(_p2ps(model)[0].device)
            agent, gradients = engines.opened(member, self._rows, microbatches, why, self._device, self.load, self._options)
            self._groups = [pg, gradients]
            self._receiving = [Receiving(0, self.rank - 1, self.rank - 1, pg), Receiving(1, self.rank + 1, self.rank + 1, gradients)]
            self._learn(seen, agent.shared(digest))
            self.agent, engine.adaptation = agent, Adaptation(agent)
        except Exception as error:
            engine.adaptation = not_adapted(error)

    def _learn(self, seen: _Seen, digest: Optional[int]) -> None:
        """The shapes of messages, from a step as given."""
        if not digest:
            return
        for kind, channel in enumerate(self._receiving):
            tensors = seen.message(self.rank + (1 if kind else -1), self.microbatches)
            channel.form, self._needs[kind] = [one[:2] for one in tensors], [one[2] for one in tensors]
        self._digest = digest

    # ---- a step

    def _run(self, agent: Agent, model: Any, batch: List[Any], accumulator: Any) -> List[Any]:
        engine, outputs, state, step = self.engine, [], _State(self), timings.running()
        engine.nb_microbatches, self._sent = self.microbatches, []
        for channel in self._receiving:
            channel.begin(self.microbatches if channel.form else 0)
            channel.post(self._device, AHEAD)
        with attach_pipeline_state_to_model(model=model, pipeline_state=state):
            for cell in self._rows[self.rank]:
                self._now = cell.op, cell.microbatch
                if step is not None:
                    step.enter(cell.op, self.rank, cell.microbatch)
                if cell.op == "F":
                    outputs.append(self._forward(agent, step, state, model, batch[cell.microbatch]))
                else:
                    context = engine._get_bwd_context(model=model, nb_backwards=state.nb_backwards, grad_accumulator=accumulator)
                    engine.backward(context=context, state=state, grad_accumulator=accumulator)
                    if step is not None and state.nb_backwards == self.microbatches and isinstance(model, DistributedDataParallel):
                        step.leave_out()  # it has waited for the other replicas
                if step is not None:
                    step.ready()
                for channel in self._receiving:
                    channel.post(self._device)
            engines.wait(self._sent)
            state.check_buffers_empty()
        return outputs

    def _forward(self, agent: Agent, step: Any, state: _State, model: Any, microbatch: Any) -> Any:
        engine = self.engine

        def forward() -> Any:
            return engine.forward(context=engine._get_fwd_context(model=model), state=state, micro_batch=microbatch, model=model)
        if step is not None and agent.kept.wanted(self.rank):
            with agent.kept.counting(self.rank, model):
                output = forward()
        else:
            output = forward()
        return output if isinstance(output["loss"], TensorPointer) else {name: one.detach() for name, one in output.items()}

    def send(self, kind: int, tensor: Any) -> None:
        op, microbatch = self._now
        ops = timings._Sends([dist.P2POp(dist.isend, tensor.detach().contiguous(), group=self._groups[kind], group_peer=self.rank + (-1 if kind else 1))])
        ops.key = kind, self.rank, microbatch
        self._sent += engines.measured(ops)

    def receive(self, kind: int) -> Any:
        """The next tensor of the message that the running op needs."""
        if not self._left[kind]:
            step, channel = timings.running(), self._receiving[kind]
            if step is not None:
                step.leave_out()  # an op begins when its message is there
            channel.take(self._device)
            self._left[kind] = list(self._needs[kind])
            if step is not None:
                step.enter(self._now[0], self.rank, self._now[1])
        return self._receiving[kind].next().requires_grad_(self._left[kind].pop(0))


def _digest_of(batch: List[Any]) -> int:
    """Of the shapes of a microbatch's inputs; 0: microbatches differ, so the step runs as given."""
    shapes = {repr([(name, tuple(one.shape), one.dtype) for name, one in sorted(microbatch.items()) if isinstance(one, torch.Tensor)]) for microbatch in batch}
    return int(hashlib.sha256(min(shapes).encode()).hexdigest()[:15], 16) if len(shapes) == 1 else 0


def _blocks(model: Any) -> List[Any]:
    return [one for one in model.modules() if isinstance(one, PipelineBlock)]


def _p2ps(model: Any) -> List[Any]:
    return list({id(block.p2p): block.p2p for block in _blocks(model)}.values())


# ---- agreeing ----------------------------------------------------------------------------------------------------------------


def adapted(engine: Any, **options: Any) -> Any:
    """The engine, with its `adaptation`, which begins at the end of the first step: before it, an engine knows neither ranks nor microbatches."""
    engines.refuse("nanotron", options)
    engine.train_batch_iter = _Adapted(engine, options).train
    engine.adaptation = Adaptation(None, "the first step has not ended")
    return engine


def _given(engine: Any, ranks: int, microbatches: int) -> order.Rows:
    """The order of all ranks, as the engine runs it. Raises Cannot."""
    if ranks < 2:
        raise Cannot("the pipeline has one stage")
    if type(engine) is engines_of_nanotron.OneForwardOneBackwardPipelineEngine:
        return order.one_forward_one_backward(ranks, microbatches)
    if type(engine) is engines_of_nanotron.AllForwardAllBackwardPipelineEngine:
        return [[order.Cell(rank, op, microbatch) for op in "FB" for microbatch in range(microbatches)] for rank in range(ranks)]
    raise Cannot(f"the engine has an order of its own, {type(engine).__name__}: only nanotron's two engines are replaced")


def _check(model: Any, rank: int, ranks: int, seen: _Seen) -> None:
    placed = [block.rank for block in _blocks(model)]
    if placed != sorted(placed) or set(placed) != set(range(ranks)):
        raise Cannot(f"the model's blocks are placed on ranks {placed}: each rank must have one stage")
    if not set(seen.tensors) <= {rank - 1, rank + 1}:
        raise Cannot(f"rank {rank} receives from rank {min(set(seen.tensors) - {rank - 1, rank + 1})}: only neighbors may exchange messages")
    for module in model.modules():
        group = getattr(module, "pg", None)
        if isinstance(group, dist.ProcessGroup) and group.size() > 1:
            raise Cannot("tensor ranks run their ops together, so their pipelines cannot change their orders alone")
