# SPDX-License-Identifier: Apache-2.0
"""What the engines of DeepSpeed and nanotron share: the messages of an adapted step, and the agreement between ranks.

Both engines hold a rank in each send until the other rank receives. That ties the ranks together, so any other order than the engine's own could
deadlock. Here, sends do not hold the rank, and receives are posted ahead, once their shapes are known.
"""
from __future__ import annotations

import os
import socket
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from .._errors import InvalidRequest
from . import order, timings
from .agent import Agent, close
from .agreement import Cannot, Round, Said, agreed, together
from .control import Control, room
from .groups import backend_of, may_make_group, new_group, posts_early, release, timeout_of
from .measured import Shape
from .memory import free_bytes
from .replicas import Replicas

AHEAD = 16  # receives of a direction that may be posted before they are needed


class Member(NamedTuple):
    """This rank in its pipeline."""
    group: Any
    group_rank: int
    group_size: int


class Receiving:
    """The messages of one direction that this rank receives. Their tensors' shapes are those of the step before."""

    def __init__(self, kind: int, stage: int, peer: int, group: Any) -> None:
        self._kind, self._stage, self._peer, self._group = kind, stage, peer, group
        self.form: Optional[List[Tuple[Any, Any]]] = None  # size and type of each tensor of a message
        self._learned: Optional[List[Tuple[Any, Any]]] = None
        self._posted: Deque[Tuple[Any, List[Any]]] = deque()
        self._next = self._count = 0
        self._now: List[Any] = []  # tensors of the message that is taken
        self._seen: List[Tuple[Any, Any]] = []

    def begin(self, count: int) -> None:
        self._posted.clear()
        self._next, self._count = 0, count

    def post(self, device: Any, count: int = 2) -> None:
        """Posts up to `count` receives."""
        for _ in range(count):
            if self.form is None or self._next >= self._count or len(self._posted) >= AHEAD:
                return
            tensors = [torch.empty(size, dtype=dtype, device=device) for size, dtype in self.form]
            ops = timings._Receives([dist.P2POp(dist.irecv, one, group=self._group, group_peer=self._peer) for one in tensors])
            ops.key = self._kind, self._stage, self._next
            self._posted.append((measured(ops), tensors))
            self._next += 1

    def take(self, device: Any) -> None:
        """Waits for the next message, if its shapes are known."""
        self._seen = []
        if self.form is not None:
            if not self._posted:
                self.post(device)
            works, self._now = self._posted.popleft()
            step = timings.running()
            if step is not None and isinstance(works, timings._Receives):
                step.wait(works, wait)
            else:
                wait(works)

    def receive(self, tensor: Any) -> None:
        """The next tensor of the message that is taken, into one of the caller's."""
        self._seen.append((tensor.size(), tensor.dtype))
        if self.form is not None:
            tensor.copy_(self.next())
        else:
            dist.recv(tensor, group=self._group, group_src=self._peer)

    def next(self) -> Any:
        """The next tensor of the message that is taken."""
        return self._now.pop(0)

    def learn(self, described: bool) -> None:
        """After a message; `described`: its shapes came with it, as its first tensor."""
        if self.form is None:
            self._next += 1
            if described or self._kind:
                self._learned = self._seen[1:] if described else self._seen

    def end(self) -> None:
        """After a step: the shapes are known from now on."""
        self.form = self._learned


def measured(ops: Any) -> Any:
    step = timings.running()
    return start(ops) if step is None else step.post(ops, start)


def start(ops: Any) -> List[Any]:
    return [one.op(one.tensor, group=one.group, **{"group_dst" if one.op is dist.isend else "group_src": one.group_peer}) for one in ops]


def wait(works: Any) -> None:
    for work in works:
        work.wait()


# ---- agreeing ----------------------------------------------------------------------------------------------------------------


def refuse(framework: str, options: Dict[str, Any]) -> None:
    """Raises InvalidRequest for options that an engine does not have."""
    if options["problem"] is not None:
        raise InvalidRequest(f"problem: an engine of {framework} is always measured")
    if options["objective"] != "makespan":
        raise InvalidRequest(f"objective: the ranks of {framework} wait for each other after each step, so a step takes its makespan")
    if options["replicas"]:
        raise InvalidRequest(f"replicas: {framework} gives each replica equally many microbatches, so each pipeline is adapted alone")
    if options["transport"] is not None:
        raise InvalidRequest(f"transport: the messages of {framework} stay with its own backend")


def said_by(why: str, rows: order.Rows, microbatches: int, options: Dict[str, Any]) -> Said:
    """What a rank says of an engine, which has one replica for `adapt`. why: the reason why this rank cannot adapt."""
    same = {name: options[name] for name in ("memory", "objective", "communicators", "frozen")}
    return {"why": why, **same, "transport": "torch", "problem": "none", "microbatches": microbatches, "order": order.digest(rows), "replicas": 1, "replica": 0,
            "members": [dist.get_rank()], "host": socket.gethostname()}


def opened(member: Member, rows: order.Rows, microbatches: int, why: str, device: Any, load: Callable[[str], None], options: Dict[str, Any]) -> Tuple[Agent, Any]:
    """The agent of this rank, and the group that carries gradients. Raises Cannot on all ranks if one cannot."""
    round = agreed(member, said_by(why, rows, microbatches, options), alone())
    return together(round, lambda: _open(round, rows, microbatches, device, load, options))


def alone() -> Replicas:
    return Replicas([dist.get_rank()], 0)


def _open(round: Round, rows: order.Rows, microbatches: int, device: Any, load: Callable[[str], None], options: Dict[str, Any]) -> Tuple[Agent, Any]:
    member = round.member
    shape = Shape(list(range(member.group_size)), member.group_size, "linear", microbatches, rows, False, True, options["memory"], options["objective"],
                  options["frozen"], alternating=True)
    backend, timeout, own = backend_of(member.group, device), timeout_of(member.group), []  # type: Tuple[str, Any, List[Any]]
    round.undo.append(lambda: release(own, os.getpid()))
    count = options["communicators"] or (1 if backend == "gloo" else 2)
    if count > 1 and not may_make_group(backend, len(round.members)):
        count = 1
    if not posts_early(backend, "linear", member.group_size, count):
        raise Cannot(f"over {backend}, activations and gradients need a process group each")
    own.append(new_group(round, round.members, "gloo", "control", timeout))
    control = Control(own[0], member.group_rank, member.group_size, room(8 * microbatches + 64))
    if count > 1:
        own.append(new_group(round, round.members, backend, "gradients", timeout))
    agent = Agent(shape, control, None, load, lambda rows, split: order.text_of(rows), device, backend == "gloo", lambda: None,
                  lambda: free_bytes(device, round.sharing), options["out"], options["on_event"])
    round.undo.append(lambda: close(agent.threads, os.getpid()))
    return agent, own[1] if count > 1 else member.group
