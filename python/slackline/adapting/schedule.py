# SPDX-License-Identifier: Apache-2.0
"""The schedule that `adapt` returns, and the agreement between the ranks of a pipeline to adapt together."""
from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
import warnings
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle, _PipelineScheduleRuntime
from torch.distributed.pipelining.stage import _make_tensor_from_meta, _RecvInfo
from torch.utils._pytree import tree_leaves

from .. import _library
from .._errors import InvalidRequest, SlacklineError
from .._problem import Problem, ProblemLike
from .._pytorch import _forward_only
from .._transport import Delegates
from . import carrying, order, timings
from .agent import Agent
from .control import Control, room
from .deciding import Happening, Measured, Shape, unfit
from .replicas import CLOCK, Replicas, found

PATIENCE_S = 30.0  # for other ranks to call adapt
FSDP_STAGES = 3  # per rank, whose parameters PyTorch's runtime gathers at the start of a step
_calls: Dict[str, int] = {}  # by group


class _Cannot(Exception):
    """The reason why a job is not adapted."""


class Adaptation:
    """The state of a job's adaptation. Only the first rank knows all of it; other ranks know their own part."""

    def __init__(self, agent: Optional[Agent], why: str = "") -> None:
        self._agent = agent
        self.why = why  # the reason why the job is not adapted; empty: it is adapted

    @property
    def active(self) -> bool:
        return self._agent is not None and self._agent.active

    @property
    def events(self) -> List[Happening]:
        leader = self._agent.leader if self._agent else None
        return list(leader.events) if leader else list(self._agent.happened) if self._agent else []

    @property
    def plan(self) -> Any:
        """The running plan, timed on the measured problem; None: not known yet, or not the first rank."""
        leader = self._agent.leader if self._agent else None
        return leader.decider.plan if leader else None

    @property
    def problem(self) -> Optional[ProblemLike]:
        """The healthy job as measured, or as given, for slackline.plan: one replica of it."""
        leader = self._agent.leader if self._agent else None
        return leader.decider.problem if leader else None

    @property
    def predicted_ms(self) -> Optional[float]:
        leader = self._agent.leader if self._agent else None
        return leader.decider.predicted_ms if leader else None

    @property
    def measured(self) -> Optional[Measured]:
        """The latest step that all ranks measured; with replicas, on the first one."""
        leader = self._agent.leader if self._agent else None
        return leader.last[0] if leader and leader.last else None

    @property
    def swap_ms(self) -> List[float]:
        """The time of each change of the order on this rank."""
        return list(self._agent.swap_ms) if self._agent else []

    def state_dict(self) -> Dict[str, Any]:
        """The state for a checkpoint: the healthy baseline, the incidents, and the order. Empty on all ranks but the first."""
        leader = self._agent.leader if self._agent else None
        return leader.decider.save() if leader else {}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Restores the state from `state_dict`, before the first step. Raises InvalidRequest if it is from a different job."""
        leader = self._agent.leader if self._agent else None
        if leader:
            leader.decider.resume(state)


# ---- the given schedule ------------------------------------------------------------------------------------------------------


class _Given:
    """The properties of the given schedule. Raises _Cannot."""

    def __init__(self, schedule: Any, replicas: Replicas) -> None:
        if isinstance(schedule, PipelineScheduleSingle):
            found = schedule.pipeline_order
            self.initialized = schedule._stage_forward_initialized, schedule._stage_backward_initialized
        else:
            found = getattr(schedule, "pipeline_order_with_comms", None) or schedule.pipeline_order
            self.initialized = schedule._stages_forward_initialized, schedule._stages_backward_initialized
        self.schedule, self.stages, self.replicas = schedule, _stages(schedule), replicas
        first = self.stages[0]
        if not schedule._has_backward:
            raise _Cannot("the schedule has no loss_fn: it runs forwards only")
        if not found:
            raise _Cannot(f"{type(schedule).__name__} does not expose its order")
        if schedules.OVERLAP_F_B in getattr(schedule, "_comp_type_to_function_map", {}):
            raise _Cannot("the schedule has a custom function for overlapped ops")
        try:
            self.ranks, self.rank, self.group = first.group_size, first.group_rank, first.group
            if isinstance(schedule, schedules.Schedule1F1B):
                self.rows = order.one_forward_one_backward(self.ranks, schedule._n_microbatches)
            else:
                self.rows = order.rows_of(found)
        except ValueError as error:
            raise _Cannot(str(error)) from None
        if not order.is_complete(self.rows, first.num_stages, schedule._n_microbatches):
            raise _Cannot(f"{type(schedule).__name__} does not expose its full order")
        self.rank_of = [0] * first.num_stages
        for rank, row in enumerate(self.rows):
            for cell in row:
                self.rank_of[cell.stage] = rank
        placement = order.placement_of(self.rank_of, self.ranks)
        if placement is None:
            raise _Cannot(f"stages are placed on ranks {self.rank_of}: neither linear, loop nor wave")
        if self.ranks * replicas.count < 2:
            raise _Cannot("the pipeline has one rank")
        if replicas.why_alike:
            raise _Cannot(f"orders of replicas would get in each other's way: {replicas.why_alike}")
        if replicas.sums and len(self.stages) > FSDP_STAGES:
            raise _Cannot(f"parameters of more than {FSDP_STAGES} stages per rank are gathered in the order of their ops")
        if schedule.scale_grads and schedule._n_microbatches > 1 and _share_parameters(self.stages):
            raise _Cannot("stages of a rank share parameters, and with scale_grads, PyTorch divides their gradients after each of these stages: "
                          "the result depends on the order")
        self.placement, self.backend = placement, backend_of(self.group or dist.distributed_c10d._get_default_group(), first.device)
        self._check_neighbors()
        self._check_device(first.device)

    @staticmethod
    def _check_device(device: Any) -> None:
        """Times of ops come from a CPU's clock, or from events of PyTorch's accelerator."""
        accelerator = torch.accelerator.current_accelerator()
        if device.type != "cpu" and (accelerator is None or accelerator.type != device.type):
            raise _Cannot(f"the stages are on {device}, which is not PyTorch's accelerator")
        if not dist.is_gloo_available():
            raise _Cannot("this PyTorch has no Gloo, which carries the measurements")
        try:
            timings.Clock(device)
        except Exception as error:
            raise _Cannot(f"{device} does not measure times: {error}") from None

    def _check_neighbors(self) -> None:
        """PyTorch's runtime carries messages only between neighboring stages. Each rank has the full graph of a traced model."""
        for stage in self.stages:
            for node in getattr(getattr(stage, "pipe_info", None), "graph", _NoGraph).nodes:
                if node.op == "call_module" and any(_index(user) - _index(node) > 1 for user in _users(node) if _index(node) >= 0 <= _index(user)):
                    raise _Cannot("the model has connections that skip stages")

    @property
    def why_even(self) -> str:
        """The reason why replicas must take equally many microbatches; empty: any number."""
        if schedules.REDUCE_GRAD in getattr(self.schedule, "_comp_type_to_function_map", {}):
            return "the schedule has a custom function for the sum of gradients"
        return self.replicas.why_even

    @property
    def can_split(self) -> bool:
        """Whether backwards may run as I and W: the given schedule does so, or nothing is known to prevent it."""
        if order.is_split(self.rows):
            return True
        from torch._dynamo import OptimizedModule
        from torch.nn.parallel import DistributedDataParallel
        return not any(isinstance(module, (OptimizedModule, DistributedDataParallel)) for stage in self.stages for module in stage.submod.modules())


def _stages(schedule: Any) -> List[Any]:
    if isinstance(schedule, PipelineScheduleSingle):
        return [schedule._stage]
    if isinstance(schedule, PipelineScheduleMulti):
        return list(schedule._stages)
    raise TypeError(f"a schedule of torch.distributed.pipelining is needed, not {type(schedule).__name__}")


def _share_parameters(stages: Sequence[Any]) -> bool:
    each = [set(stage.submod.parameters()) for stage in stages]
    return len(set().union(*each)) < sum(map(len, each))


class _NoGraph:
    nodes: Tuple[Any, ...] = ()


def _index(node: Any) -> int:
    name = str(getattr(node, "target", ""))
    return int(name.rsplit("_", 1)[1]) if name.startswith("submod_") else -1


def _users(node: Any) -> List[Any]:
    """The stages of a traced model that use the output of a stage, directly or through `getitem`."""
    found: List[Any] = []
    for user in node.users:
        found += [user] if user.op == "call_module" else _users(user) if user.op == "call_function" else []
    return found


# ---- the schedule ------------------------------------------------------------------------------------------------------------


def taking_lists(cls: Any) -> Any:
    """The class of schedules, whose `step` also takes the batch as lists with one entry per microbatch, as torchtitan 0.3.0 gives it to later
    versions of PyTorch."""
    class Taking(cls):  # type: ignore[misc]
        _lists: Optional[Tuple[Any, Any, Any]] = None

        def step(self, *args: Any, arg_mbs: Any = None, kwarg_mbs: Any = None, target_mbs: Any = None, **options: Any) -> Any:
            given = arg_mbs, kwarg_mbs, target_mbs
            self._lists = given if any(one is not None for one in given) else None
            try:
                return super().step(*args, **options)
            finally:
                self._lists = None

        def _step_microbatches(self, arg_mbs: Any = None, kwarg_mbs: Any = None, target_mbs: Any = None, *arguments: Any, **options: Any) -> Any:
            return super()._step_microbatches(*(self._lists or (arg_mbs, kwarg_mbs, target_mbs)), *arguments, **options)
    Taking.__name__ = cls.__name__
    return Taking


class AdaptedSchedule(taking_lists(_PipelineScheduleRuntime)):  # type: ignore[misc]
    """PyTorch's runtime with an order that changes between steps."""

    adaptation: Adaptation

    def __init__(self, given: _Given) -> None:
        from_ = given.schedule
        super().__init__(given.stages, from_._n_microbatches, loss_fn=from_._loss_fn, args_chunk_spec=from_._args_chunk_spec,
                         kwargs_chunk_spec=from_._kwargs_chunk_spec, output_merge_spec=from_._output_merge_spec, scale_grads=from_.scale_grads,
                         backward_requires_autograd=getattr(from_, "_backward_requires_autograd", True))
        self._stages_forward_initialized, self._stages_backward_initialized = given.initialized
        self._comp_type_to_function_map.update(getattr(from_, "_comp_type_to_function_map", {}))
        self.given, self._divisor = from_, int(from_._n_microbatches)
        if isinstance(from_, PipelineScheduleSingle):
            self._stage = from_._stage
        self.split, self.replica = (self._divisor,) * given.replicas.count, given.replicas.index
        self._agent: Optional[Agent] = None
        self._forwards: Any = None
        self.reduces_in_eval = getattr(from_, "reduces_in_eval", True)  # PyTorch's `eval` divides the gradients of earlier steps, too
        self._rows: List[int] = []  # of the tensors of a microbatch, with replicas
        self._varied = False  # whether the number of microbatches has changed
        if given.replicas.count > 1:
            self._comp_type_to_function_map.setdefault(schedules.REDUCE_GRAD, self._reduce)
        self._stepping = threading.RLock()  # steps of several threads follow each other: they share the stages' buffers

    @property
    def microbatches(self) -> int:
        """The number of microbatches of the next step: `split` of this replica."""
        return int(self._n_microbatches)

    def load(self, text: str) -> None:
        """Sets the order from the next step on: microbatches of each replica, rows of ops, and rows with their messages, each ended
        by an empty line."""
        split, ops, comms = text.split("\n\n")
        actions = {rank: [schedules._Action.from_str(cell) for cell in line.split(",") if cell] for rank, line in enumerate(ops.splitlines())}
        with_comms = {rank: [schedules._Action.from_str(cell) for cell in line.split(",") if cell] for rank, line in enumerate(comms.splitlines())}
        self.split = tuple(int(number) for number in split.split(","))
        self._n_microbatches = self.split[self.replica]
        self._varied = self._varied or self._n_microbatches != self._divisor
        self.pipeline_order, self.pipeline_order_with_comms = actions, with_comms
        if self._forwards is None:
            self._forwards = _forward_only(with_comms, self.reduces_in_eval)  # of the given order
        for stage in self._stages:
            _make_room(stage, self._n_microbatches)

    def step(self, *args: Any, **options: Any) -> Any:
        with self._stepping:
            return super().step(*args, **options)

    def _step_microbatches(self, arg_mbs: Any = None, kwarg_mbs: Any = None, target_mbs: Any = None, *arguments: Any, **options: Any) -> None:
        arg_mbs, kwarg_mbs, target_mbs = self._lists or (arg_mbs, kwarg_mbs, target_mbs)

        def step() -> None:
            kept = [stage._slackline for stage in self._stages]
            for one in kept:
                one.adapted = True
            try:
                super(AdaptedSchedule, self)._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, *arguments, **options)
            finally:
                for one in kept:
                    one.adapted = False
        if self._is_renumbered and self.pipeline_order_with_comms is not self._forwards:
            self._step_as_given(arg_mbs, kwarg_mbs, target_mbs, *arguments, **options)
            return
        if not self._has_backward:
            step()
            return
        if len(self.split) > 1:
            self._check_rows(arg_mbs, kwarg_mbs, target_mbs)
        agent = self._agent
        if agent is None or not agent.active:
            step()
            return
        agent.begin()
        try:
            step()
        except BaseException as error:
            agent.abandon(error)
            raise
        agent.end()

    @property
    def _is_renumbered(self) -> bool:
        """Whether the program has set another number of microbatches for the next step, on all ranks, as the given schedule lets it."""
        return bool(self._n_microbatches != self.split[self.replica])

    def _step_as_given(self, *arguments: Any, **options: Any) -> None:
        """A step by the given schedule, which is not measured."""
        given, kind = self.given, "_stage" if isinstance(self.given, PipelineScheduleSingle) else "_stages"
        flags, number = (f"{kind}_forward_initialized", f"{kind}_backward_initialized"), given._n_microbatches
        given._n_microbatches, given._has_backward, given._loss_fn, given.scale_grads = self._n_microbatches, self._has_backward, self._loss_fn, self.scale_grads
        for flag, value in zip(flags, (self._stages_forward_initialized, self._stages_backward_initialized)):
            setattr(given, flag, value)
        try:
            given._step_microbatches(*arguments, **options)
        finally:
            self._stages_forward_initialized, self._stages_backward_initialized = (getattr(given, flag) for flag in flags)
            given._n_microbatches, given._has_backward = number, True

    def _initialize_stages(self, *arguments: Any, **options: Any) -> None:
        before = [stage.args_recv_info.get(0) for stage in self._stages]
        super()._initialize_stages(*arguments, **options)
        for stage, info in zip(self._stages, before):
            if stage.args_recv_info.get(0) is not info:  # a switch between training and evaluation: other buffers
                for buffers in (stage.args_recv_info, stage.grad_recv_info):
                    for microbatch in [one for one in buffers if one >= self._n_microbatches]:
                        del buffers[microbatch]

    def eval(self, *arguments: Any, **options: Any) -> Any:
        """As PyTorch's, with the given number of microbatches."""
        with self._stepping:
            if self._is_renumbered:
                return super().eval(*arguments, **options)
            running = self._n_microbatches, self.pipeline_order_with_comms
            self._n_microbatches, self.pipeline_order_with_comms = self._divisor, self._forwards
            try:
                return super().eval(*arguments, **options)
            finally:
                self._n_microbatches, self.pipeline_order_with_comms = running

    def _reduce(self, action: Any, context: Any) -> None:
        """REDUCE_GRAD, with one divisor for all replicas: the mean of their gradients is that over all samples with any split."""
        stage = next(stage for stage in self._stages if stage.stage_index == action.stage_index)
        stage.perform_reduce_grad(self._divisor if self.scale_grads else 1)

    def _check_rows(self, arg_mbs: Any, kwarg_mbs: Any, target_mbs: Any) -> None:
        """The size of a microbatch stays when their number changes. Raises ValueError before anything is sent."""
        given = [mbs for mbs in (arg_mbs, kwarg_mbs, target_mbs) if mbs is not None]
        rows = [[int(leaf.shape[0]) for part in microbatch for leaf in tree_leaves(part) if isinstance(leaf, torch.Tensor) and leaf.dim()]
                for microbatch in zip(*given)]
        if not self._varied:
            self._rows = rows[0] if rows else []
        elif any(len(mbs) != self._n_microbatches for mbs in given) or any(one != self._rows for one in rows):
            raise ValueError(f"this step takes {self._n_microbatches} microbatches (schedule.microbatches) of {' and '.join(map(str, sorted(set(self._rows))))} rows; "
                             f"it was given {len(rows)}, of {' and '.join(map(str, sorted({number for one in rows for number in one})))} rows")


def _make_room(stage: Any, microbatches: int) -> None:
    """Buffers for the messages of more microbatches than a stage had before."""
    if not stage.args_recv_info:
        return  # the first step makes them
    for buffers in (stage.args_recv_info, stage.grad_recv_info):
        for microbatch in range(microbatches if buffers else 0):
            if microbatch not in buffers:
                buffers[microbatch] = tuple(_copied(info, stage.device) for info in buffers[0])
    if stage.chunks is not None:
        stage.chunks = microbatches


def _copied(info: Any, device: Any) -> Any:
    empty = info.is_root_arg or info.tensor_meta is None
    return _RecvInfo(info.input_name, info.source, None if empty else _make_tensor_from_meta(info.tensor_meta, device), info.tensor_meta,
                     is_root_arg=info.is_root_arg)


# ---- agreeing ----------------------------------------------------------------------------------------------------------------


def adapted(schedule: Any, *, out: Optional[str], problem: Optional[ProblemLike], memory: Any, objective: str, communicators: Optional[int],
            replicas: Any, transport: Optional[Delegates], frozen: bool, on_event: Optional[Callable[[Any], None]]) -> Any:
    stages = _stages(schedule)
    copies = found(replicas, stages)
    if not isinstance(schedule, AdaptedSchedule):  # which has them
        schedule.split, schedule.replica, schedule.microbatches = (schedule._n_microbatches,) * copies.count, copies.index, schedule._n_microbatches
    given: Optional[_Given] = None
    why = ""
    try:
        given = _Given(schedule, copies)
        if given.rank == 0 or problem is not None:
            _library.library()  # else, only the first rank plans
    except (_Cannot, SlacklineError) as error:
        why = str(error)
    healthy = None
    if given is not None and not why:
        healthy = _healthy(problem, Shape(given.rank_of, given.ranks, given.placement, schedule._n_microbatches, given.rows, given.can_split, True))
    try:
        said = {"why": why, "memory": memory, "objective": objective, "communicators": communicators, "transport": _name_of(transport), "frozen": frozen,
                "problem": _digest(healthy), "microbatches": schedule._n_microbatches, "order": _order_digest(given.rows if given else []),
                "replicas": copies.count, "replica": copies.index, "members": copies.members, "sums": copies.sums,
                "why_even": given.why_even if given else "", "can_split": given.can_split if given else False, "host": socket.gethostname()}
        agreed = _agree(stages[0], said, copies)
        assert given is not None
        shape = Shape(given.rank_of, given.ranks, given.placement, schedule._n_microbatches, given.rows, all(one["can_split"] for one in agreed),
                      order.ascends(given.rows), memory, objective, frozen, copies.count, copies.count > 1 and not any(one["why_even"] for one in agreed),
                      any(one["sums"] for one in agreed), healthy)
        return _opened(given, shape, [one["host"] for one in agreed].count(socket.gethostname()), communicators, transport, out, on_event)
    except Exception as error:
        schedule.adaptation = not_adapted(error)
        return schedule


def _opened(given: _Given, *arguments: Any) -> AdaptedSchedule:
    """On all ranks, or on none: raises on all of them if one cannot."""
    began, why, made = time.monotonic(), "", None
    try:
        made = _open(given, *arguments)
    except Exception as error:
        why = f"rank {dist.get_rank()}: {type(error).__name__}: {error}"
    _agree(given.stages[0], {"why": why, "after_s": time.monotonic() - began}, given.replicas, _failed, lambda said: _failed([one for ranks in said for one in ranks], []), patience=2)
    assert made is not None
    return made


def not_adapted(error: Exception) -> Adaptation:
    """Warns that the job runs unchanged."""
    text = str(error) if isinstance(error, _Cannot) else f"{type(error).__name__}: {error}"
    warnings.warn(f"slackline: this job is not adapted, and runs unchanged: {text}", RuntimeWarning, stacklevel=4)
    return Adaptation(None, text)


def _name_of(transport: Optional[Delegates]) -> str:
    """What must be the same on all ranks."""
    if transport is None:
        return "torch"
    return "slackline" if transport.number == 1 else f"slackline, {transport.number} delegates"


def _order_digest(rows: order.Rows) -> str:
    return hashlib.sha256(order.text_of(rows).encode()).hexdigest()[:16]


def _healthy(problem: Optional[ProblemLike], shape: Shape) -> Optional[ProblemLike]:
    """The user's problem, as a dict or a Problem. Raises InvalidRequest if it is not one of the job."""
    if problem is None:
        return None
    healthy = problem if isinstance(problem, (Mapping, Problem)) else Problem(problem)
    why = unfit(healthy, shape)
    if why:
        raise InvalidRequest(f"the problem is not one of this schedule: {why}")
    return healthy


def _digest(problem: Optional[ProblemLike]) -> str:
    return hashlib.sha256(Problem(problem).yaml().encode()).hexdigest()[:16] if problem is not None else "none"


_Said = Dict[str, Any]
SAME = ("memory", "objective", "communicators", "transport", "frozen", "problem", "microbatches", "order", "replicas")


def _compared(said: List[_Said], members: List[int]) -> str:
    """The reason why the ranks of a pipeline do not agree; empty: they do."""
    for rank, one in enumerate(said):
        if one["why"]:
            return str(one["why"])
        for what in SAME:
            if one[what] != said[0][what]:
                return f"rank {rank} called adapt with {what} {one[what]!r}, rank 0 with {said[0][what]!r}"
        if one["replica"] != said[0]["replica"] or one["members"][one["replica"]] != members[rank]:
            return f"rank {rank} is in replica {one['replica']}, rank 0 in replica {said[0]['replica']}"
    return ""


def _compared_replicas(said: List[List[_Said]]) -> str:
    """The same of the replicas, each of which agrees."""
    for replica, ranks in enumerate(said):
        for what in SAME:
            if ranks[0][what] != said[0][0][what]:
                return f"replica {replica} called adapt with {what} {ranks[0][what]!r}, replica 0 with {said[0][0][what]!r}"
        if len(ranks) != len(said[0]) or any(one["members"] != first["members"] for one, first in zip(ranks, said[0])):
            return f"the ranks of replica {replica} are not those that replica 0 expects"
    return ""


def _agree(stage: Any, said: _Said, copies: Replicas, compared: Callable[[List[_Said], List[int]], str] = _compared,
           compared_replicas: Callable[[List[List[_Said]]], str] = _compared_replicas, patience: int = 1) -> List[_Said]:
    """What all ranks of all replicas say, if nothing speaks against it. Uses the store, so that a rank without a call of adapt delays
    the others by at most a few PATIENCE_S, times `patience`."""
    store = dist.distributed_c10d._get_default_store()
    group = stage.group or dist.distributed_c10d._get_default_group()
    members = [dist.get_global_rank(group, rank) for rank in range(stage.group_size)]
    key = _key(members)
    store.set(f"{key}/{stage.group_rank}", json.dumps(said))
    if stage.group_rank == 0:
        why, all_said = _gathered(store, key, range(stage.group_size), patience, "not all ranks of the pipeline")
        why = why or compared(all_said, members)
        if copies.count > 1:
            why, all_said = _agree_with_replicas(store, why, all_said, copies, compared_replicas, patience)
        store.set(f"{key}/verdict", json.dumps({"why": why, "said": all_said}))
    agreed = _verdict(store, key, stage.group_rank, patience * (5 if copies.count > 1 else 2), "the first rank of the pipeline has")
    if agreed["why"]:
        raise _Cannot(agreed["why"])
    return list(agreed["said"])


def _agree_with_replicas(store: Any, why: str, said: List[_Said], copies: Replicas, compared: Callable[[List[List[_Said]]], str],
                         patience: int) -> Tuple[str, List[_Said]]:
    """On the first rank of each replica: the same with those of the others."""
    key = _key(copies.members, "job")
    store.set(f"{key}/{copies.index}", json.dumps({"why": why, "said": said}))
    if copies.index == 0:
        why, parts = _gathered(store, key, range(copies.count), 2 * patience, "not all replicas")
        together = [one for part in parts for one in part["said"]]
        why = why or next((part["why"] for part in parts if part["why"]), "") or compared([part["said"] for part in parts])
        store.set(f"{key}/verdict", json.dumps({"why": why, "said": together}))
    agreed = _verdict(store, key, copies.index, 4 * patience, "the first replica has")
    return agreed["why"], agreed["said"]


def _verdict(store: Any, key: str, part: int, patience: int, who: str) -> Any:
    try:
        store.wait([f"{key}/verdict"], timedelta(seconds=patience * PATIENCE_S))
    except Exception as error:
        store.delete_key(f"{key}/{part}")  # else, the first one would find it in its next call
        raise _Cannot(f"{who} not called adapt within {patience * PATIENCE_S:g} s ({type(error).__name__})") from None
    return json.loads(store.get(f"{key}/verdict"))


def _gathered(store: Any, key: str, parts: Sequence[int], patience: int, who: str) -> Tuple[str, List[Any]]:
    try:
        store.wait([f"{key}/{part}" for part in parts], timedelta(seconds=patience * PATIENCE_S))
        return "", [json.loads(store.get(f"{key}/{part}")) for part in parts]
    except Exception as error:
        return f"{who} have called adapt within {patience * PATIENCE_S:g} s ({type(error).__name__})", []


def _failed(said: List[_Said], _members: List[int]) -> str:
    """The first failure: the other ranks may have waited for this one."""
    return min(((one["after_s"], str(one["why"])) for one in said if one["why"]), default=(0.0, ""))[1]


def _open(given: _Given, shape: Shape, sharing: int, communicators: Optional[int], transport: Optional[Delegates], out: Optional[str],
          on_event: Optional[Callable[[Any], None]]) -> AdaptedSchedule:
    """sharing: ranks on this host."""
    group = given.group or dist.distributed_c10d._get_default_group()
    members = [dist.get_global_rank(group, rank) for rank in range(given.ranks)]
    backend, copies = given.backend, given.replicas
    count = communicators or fewest_communicators(backend, given.placement, given.ranks)
    if count > 1 and not may_make_group(backend, len(members)):
        count = 1
    most = min(2 * shape.microbatches, (shape.microbatches - 1) * copies.count + 1)  # microbatches of a replica whose measurements fit
    size = room(8 * len(given.stages) * most + 64)
    own = [_group_in_time(members, "gloo", "control", _timeout(group))]
    control = Control(own[0], given.rank, given.ranks, size)
    job: Optional[Control] = None
    if copies.count > 1 and given.rank == 0:
        own.append(_group_in_time(copies.members, "gloo", "replicas", _timeout(group)))
        job = Control(own[1], copies.index, copies.count, CLOCK + size * given.ranks)
    carried = _carried(given, members, _timeout(group), transport) if transport is not None else None
    call = _calls[_name(members)]
    groups = Groups(count if carried is None else 1, lambda at: _group_in_time(members, backend, f"messages{at}-of-{call}", _timeout(group)))
    weakref.finalize(given.stages[0], _release, groups.made, os.getpid()).atexit = False  # stages use them without the schedule, too
    waits = backend == "gloo" if carried is None else given.stages[0].device.type == "cpu"
    early = {number: carried is not None or posts_early(backend, given.placement, given.ranks, number) and (backend == "gloo" or pairs_are_apart())
             for number in (1, count)}
    ahead = None if backend == "gloo" or carried is not None else 2
    schedule = AdaptedSchedule(given)

    def lower(rows: order.Rows, split: Sequence[int], number: int = count) -> str:
        microbatches = 1 + max(cell.microbatch for cell in rows[0])
        if early[number]:
            comms = order.lowered(rows, given.rank_of, microbatches, ahead)
        else:
            comms = _lowered_by_torch(rows, given.rank_of, microbatches)
        return ",".join(map(str, split)) + "\n\n" + order.text_of(rows) + "\n" + "".join(",".join(line) + "\n" for line in comms)

    def load(text: str) -> None:
        agent.kept.groups = carried[1] if carried is not None else groups
        schedule.load(text)
    schedule.load(lower(given.rows, schedule.split, 1))
    schedule._validate_and_set_stage_mapping(schedule.pipeline_order)
    timings.install()
    schedule._agent = agent = Agent(shape, control, job, load, lower, given.stages[0].device, waits, groups.make,
                                    lambda: free_bytes(given.stages[0].device, sharing), out, on_event)
    if carried is not None:
        agent.carrier, agent.kept.groups = carried
        if agent.leader is not None and agent.leader.folder is not None:
            agent.leader.folder.delegates = transport.number if transport is not None else 0
    agent.kept.splits_itself = order.is_split(given.rows)
    for stage in given.stages:
        timings.wrap(stage, agent.kept)
    weakref.finalize(schedule, _close, agent.threads, os.getpid())
    weakref.finalize(schedule, _release, own, os.getpid()).atexit = False
    schedule.adaptation = Adaptation(agent)
    return schedule


def backend_of(group: Any, device: Any) -> str:
    """The backend of a group for tensors of a device; a group may have one per type of device."""
    config = dist.distributed_c10d.BackendConfig(dist.distributed_c10d.Backend(dist.get_backend_config(group)))
    return str(config.get_device_backend_map().get(device.type, "none"))


def fewest_communicators(backend: str, placement: str, ranks: int) -> int:
    """The fewest process groups with which messages of other directions and kinds do not hold up each other. In one group of Gloo, a
    large message holds up small ones in the other direction, too. Groups of other backends cost memory of the device."""
    if backend != "gloo":
        return 2
    return 4 if placement == "wave" or placement == "loop" and ranks == 2 else 2  # otherwise a pair's directions have one kind each


class Groups:
    """The process groups of a pipeline's messages, in addition to the stages' own. They are made when a plan is first offered, and used
    from its first step on."""

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self._count, self._make = count, make
        self.made: List[Any] = []

    def make(self) -> None:
        """On all ranks together."""
        for at in range(len(self.made) + 1, self._count):
            self.made.append(self._make(at))

    def __call__(self, kind: str, up: bool) -> Any:
        """The group of a message; None: the stages' own."""
        return [None, *self.made][communicator(kind, up, self._count)]


def communicator(kind: str, up: bool, count: int) -> int:
    """The number of the group that carries messages of a kind ("F" or "B"), to a higher rank or to a lower one."""
    if count < 3:
        return int(kind == "B") % count
    return int(not up) if kind == "F" else 2 + int(not up) * (count - 3)


def posts_early(backend: str, placement: str, ranks: int, communicators: int) -> bool:
    """Whether receives may be posted long before their ops. Gloo has a queue per message. NCCL and others may have one per pair of
    ranks and group, in which a receive that waits holds up later sends: there, a group must carry messages of one direction per pair."""
    if backend == "gloo":
        return communicators > 1 or placement == "linear"
    return communicators > 3 or communicators > 1 and (placement == "linear" or placement == "loop" and ranks > 2)


def pairs_are_apart() -> bool:
    """Whether each pair of ranks has a queue of its own in a group of NCCL. Before 2.13, PyTorch's runtime sends every message as a batch, and all
    batches of a rank in a group follow each other: a receive that waits would hold up sends to other ranks."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)


def may_make_group(backend: str, members: int) -> bool:
    """Whether some ranks alone may make a group. With a device bound to the default group (`device_id`), PyTorch splits its NCCL
    communicator, and all its ranks would have to take part."""
    default = dist.distributed_c10d._get_default_group()
    return backend != "nccl" or not default.bound_device_id or members == default.size()


def _carried(given: _Given, members: List[int], timeout: Optional[timedelta], delegates: Delegates) -> Optional[Tuple[carrying.Carrier, Callable[[str, bool], Any]]]:
    """Opens the transport on all ranks, with a group for each kind of message; None: the backend carries them, on all ranks."""
    name = _name(members)
    limit = timeout or dist.distributed_c10d._get_default_timeout(dist.distributed_c10d.Backend("gloo"))
    try:
        carrier, channels = carrying.opened(dist.distributed_c10d._get_default_store(), f"{name}/{_calls[name]}/transport", given.rank, given.ranks,
                                            given.rank_of, limit, PATIENCE_S, delegates)
    except Exception as error:
        warnings.warn(f"slackline: the backend carries the messages, since transport=\"slackline\" cannot: {error}", RuntimeWarning, stacklevel=5)
        return None

    def make(what: str, group_of: Callable[[str], Any]) -> Any:
        dist.Backend.register_backend("slackline", lambda options, _: group_of(options.group_id), extended_api=True, devices=["cpu", "cuda"])
        return _new_group(members, "slackline", what, timeout)
    return carrier, carrying.groups_of(carrier, channels, make, given.rank, given.ranks)


def _close(threads: List[Any], pid: int) -> None:
    """Called when a schedule is collected, and at the end of its process: a thread that returns from PyTorch's code while the interpreter ends
    aborts the process."""
    if os.getpid() == pid:
        for one in threads:
            one.close()


def _release(groups: List[Any], pid: int) -> None:
    """Called when a schedule, or a stage, is collected."""
    if os.getpid() != pid or not dist.is_initialized():
        return
    for group in groups:
        if group in dist.distributed_c10d._world.pg_map:
            dist.destroy_process_group(group)


def _new_group(members: List[int], backend: str, what: str, timeout: Optional[timedelta]) -> Any:
    """Makes a process group that only its members take part in. `dist.new_group` with use_local_synchronization derives the name
    from the number of groups of each process (2.13), and hangs if these numbers differ."""
    c10d = dist.distributed_c10d
    name = f"slackline-{what}-{'-'.join(map(str, members))}-{_calls[_name(members, 'job' if what == 'replicas' else 'adapt')]}"
    group, _ = c10d._new_process_group_helper(len(members), members.index(dist.get_rank()), members, c10d.Backend(backend), c10d._get_default_store(),
                                              c10d.GroupName(name), timeout=timeout or c10d._get_default_timeout(backend), group_desc=f"slackline {what}")
    c10d._world.pg_group_ranks[group] = {member: rank for rank, member in enumerate(members)}
    return group


def _group_in_time(members: List[int], backend: str, what: str, timeout: Optional[timedelta]) -> Any:
    """Over Gloo, the ranks wait for each other while they make it: not for long, because one may have failed."""
    if backend != "gloo":
        return _new_group(members, backend, what, timeout)
    limit = timeout or dist.distributed_c10d._get_default_timeout(dist.distributed_c10d.Backend("gloo"))
    made = _new_group(members, backend, what, min(limit, timedelta(seconds=PATIENCE_S)))
    dist.distributed_c10d._set_pg_timeout(limit, made)
    return made


def _name(members: List[int], what: str = "adapt") -> str:
    return f"slackline-{what}/{'-'.join(map(str, members))}"


def _key(members: List[int], what: str = "adapt") -> str:
    """Of this call of adapt in the store."""
    name = _name(members, what)
    _calls[name] = _calls.get(name, 0) + 1
    return f"{name}/{_calls[name]}"


def _timeout(group: Any) -> Optional[timedelta]:
    """The timeout of the training's own messages."""
    try:
        return group._get_backend(group._device_types[0]).options._timeout  # type: ignore[no-any-return]
    except (AttributeError, IndexError, RuntimeError):
        return None


def _lowered_by_torch(rows: order.Rows, rank_of: List[int], microbatches: int) -> List[List[str]]:
    actions = {rank: order._with_sharding(row, microbatches) for rank, row in enumerate(rows)}
    made = schedules._add_send_recv({rank: [schedules._Action.from_str(name) for name in row] for rank, row in actions.items()},
                                    stage_to_rank=lambda stage: rank_of[stage], num_stages=len(rank_of))
    return [[str(action) for action in made[rank]] for rank in sorted(made)]


def free_bytes(device: Any, sharing: int) -> float:
    """The bytes that this rank may still allocate: on its device, or its share of its host's memory."""
    if device is not None and device.type != "cpu":
        memory = torch.accelerator
        free, _ = memory.get_memory_info(device)
        return 0.9 * float(free + memory.memory_reserved(device) - memory.memory_allocated(device))
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    free = float(fields["MemAvailable"].split()[0]) * 1024
    for limit, used in (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
                        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes")):
        if os.path.exists(limit) and os.path.exists(used):
            with open(limit, encoding="ascii") as at_most, open(used, encoding="ascii") as now:
                text = at_most.read().strip()
                if text.isdigit():
                    free = min(free, float(text) - float(now.read()))
    return 0.9 * max(free, 0.0) / max(sharing, 1)
