# SPDX-License-Identifier: Apache-2.0
"""The schedule that `adapt` returns, and the agreement between the ranks of a pipeline to adapt together."""
from __future__ import annotations

import hashlib
import json
import os
import socket
import warnings
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle, _PipelineScheduleRuntime

from .. import _library
from .._errors import SlacklineError
from .._pytorch import _forward_only
from . import order, timings
from .agent import Agent
from .control import Control
from .deciding import Happening, Measured, Shape

PATIENCE_S = 30.0  # for other ranks to call adapt
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
        return list(leader.events) if leader else []

    @property
    def plan(self) -> Any:
        """The running plan, timed on the measured problem; None: not known yet, or not the first rank."""
        leader = self._agent.leader if self._agent else None
        return leader.decider.plan if leader else None

    @property
    def problem(self) -> Optional[Dict[str, Any]]:
        """The healthy job as measured, for slackline.plan."""
        leader = self._agent.leader if self._agent else None
        return leader.decider.problem if leader else None

    @property
    def predicted_ms(self) -> Optional[float]:
        leader = self._agent.leader if self._agent else None
        return leader.decider.predicted_ms if leader else None

    @property
    def measured(self) -> Optional[Measured]:
        """The latest step that all ranks measured."""
        leader = self._agent.leader if self._agent else None
        return leader.last if leader else None

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

    def __init__(self, schedule: Any) -> None:
        if isinstance(schedule, PipelineScheduleSingle):
            self.stages, found = [schedule._stage], schedule.pipeline_order
            self.initialized = schedule._stage_forward_initialized, schedule._stage_backward_initialized
        elif isinstance(schedule, PipelineScheduleMulti):
            self.stages = schedule._stages
            found = getattr(schedule, "pipeline_order_with_comms", None) or schedule.pipeline_order
            self.initialized = schedule._stages_forward_initialized, schedule._stages_backward_initialized
        else:
            raise TypeError(f"a schedule of torch.distributed.pipelining is needed, not {type(schedule).__name__}")
        self.schedule, first = schedule, self.stages[0]
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
        if self.ranks < 2:
            raise _Cannot("the pipeline has one rank")
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
    def can_split(self) -> bool:
        """Whether backwards may run as I and W: the given schedule does so, or nothing is known to prevent it."""
        if order.is_split(self.rows):
            return True
        from torch._dynamo import OptimizedModule
        from torch.nn.parallel import DistributedDataParallel
        return not any(isinstance(module, (OptimizedModule, DistributedDataParallel)) for stage in self.stages for module in stage.submod.modules())


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


class AdaptedSchedule(_PipelineScheduleRuntime):  # type: ignore[misc]
    """PyTorch's runtime with an order that changes between steps."""

    adaptation: Adaptation

    def __init__(self, given: _Given) -> None:
        from_ = given.schedule
        super().__init__(given.stages, from_._n_microbatches, loss_fn=from_._loss_fn, args_chunk_spec=from_._args_chunk_spec,
                         kwargs_chunk_spec=from_._kwargs_chunk_spec, output_merge_spec=from_._output_merge_spec, scale_grads=from_.scale_grads,
                         backward_requires_autograd=getattr(from_, "_backward_requires_autograd", True))
        self._stages_forward_initialized, self._stages_backward_initialized = given.initialized
        self._comp_type_to_function_map.update(getattr(from_, "_comp_type_to_function_map", {}))
        self.given = from_
        self._agent: Optional[Agent] = None

    @property
    def microbatches(self) -> int:
        """The number of microbatches of the next step."""
        return int(self._n_microbatches)

    def load(self, text: str) -> None:
        """Sets the order from the next step on: rows of ops, an empty line, rows with their messages."""
        ops, comms = text.split("\n\n")
        actions = {rank: [schedules._Action.from_str(cell) for cell in line.split(",") if cell] for rank, line in enumerate(ops.splitlines())}
        with_comms = {rank: [schedules._Action.from_str(cell) for cell in line.split(",") if cell] for rank, line in enumerate(comms.splitlines())}
        self.pipeline_order, self.pipeline_order_with_comms = actions, with_comms

    def _step_microbatches(self, *arguments: Any, **options: Any) -> None:
        if not self._has_backward:
            self._evaluate(*arguments, **options)
            return
        agent = self._agent
        if agent is None or not agent.active:
            super()._step_microbatches(*arguments, **options)
            return
        agent.begin()
        try:
            super()._step_microbatches(*arguments, **options)
        except BaseException:
            agent.abandon()
            raise
        agent.end()

    def _evaluate(self, *arguments: Any, **options: Any) -> None:
        whole = self.pipeline_order_with_comms
        self.pipeline_order_with_comms = _forward_only(whole)
        try:
            super()._step_microbatches(*arguments, **options)
        finally:
            self.pipeline_order_with_comms = whole


# ---- agreeing ----------------------------------------------------------------------------------------------------------------


def adapted(schedule: Any, *, out: Optional[str], memory: Any, objective: Optional[float], communicators: Optional[int], frozen: bool,
            on_event: Optional[Callable[[Any], None]]) -> Any:
    given: Optional[_Given] = None
    why = ""
    try:
        given = _Given(schedule)
        if given.rank == 0:
            _library.library()  # only the first rank plans
    except (_Cannot, SlacklineError) as error:
        why = str(error)
    stage = schedule._stage if isinstance(schedule, PipelineScheduleSingle) else schedule._stages[0]
    try:
        said = {"why": why, "memory": memory, "objective": objective, "communicators": communicators, "frozen": frozen,
                "microbatches": schedule._n_microbatches, "order": _digest(given)}
        agreed = _agree(stage, {**said, "can_split": given.can_split if given else False, "host": socket.gethostname()})
        assert given is not None
        made = _open(given, agreed, out=out, memory=memory, objective=objective, communicators=communicators, frozen=frozen, on_event=on_event)
    except Exception as error:
        text = str(error) if isinstance(error, _Cannot) else f"{type(error).__name__}: {error}"
        warnings.warn(f"slackline: this job is not adapted, and runs unchanged: {text}", RuntimeWarning, stacklevel=3)
        schedule.adaptation = Adaptation(None, text)
        return schedule
    return made


def _digest(given: Optional[_Given]) -> str:
    return hashlib.sha256(order.text_of(given.rows).encode()).hexdigest()[:16] if given else ""


def _agree(stage: Any, said: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The arguments of each rank, if all are equal. Uses the store, so that a rank without a call of adapt delays the others by
    at most PATIENCE_S."""
    store = dist.distributed_c10d._get_default_store()
    group = stage.group or dist.distributed_c10d._get_default_group()
    members = [dist.get_global_rank(group, rank) for rank in range(stage.group_size)]
    name = _name(members)
    count = _calls[name] = _calls.get(name, 0) + 1
    key = f"{name}/{count}"
    store.set(f"{key}/{stage.group_rank}", json.dumps(said))
    if stage.group_rank == 0:
        verdict, all_said = "", []
        try:
            store.wait([f"{key}/{rank}" for rank in range(stage.group_size)], timedelta(seconds=PATIENCE_S))
            all_said = [json.loads(store.get(f"{key}/{rank}")) for rank in range(stage.group_size)]
            verdict = _compared(all_said)
        except Exception as error:
            verdict = f"not all ranks of the pipeline have called adapt within {PATIENCE_S:g} s ({type(error).__name__})"
        store.set(f"{key}/verdict", json.dumps({"why": verdict, "said": all_said}))
    else:
        store.wait([f"{key}/verdict"], timedelta(seconds=2 * PATIENCE_S))
    agreed = json.loads(store.get(f"{key}/verdict"))
    if agreed["why"]:
        raise _Cannot(agreed["why"])
    return list(agreed["said"])


def _compared(said: List[Dict[str, Any]]) -> str:
    for rank, one in enumerate(said):
        if one["why"]:
            return str(one["why"])
        for what in ("memory", "objective", "communicators", "frozen", "microbatches", "order"):
            if one[what] != said[0][what]:
                return f"rank {rank} called adapt with {what} {one[what]!r}, rank 0 with {said[0][what]!r}"
    return ""


def _open(given: _Given, agreed: List[Dict[str, Any]], *, out: Optional[str], memory: Any, objective: Optional[float], communicators: Optional[int],
          frozen: bool, on_event: Optional[Callable[[Any], None]]) -> AdaptedSchedule:
    group = given.group or dist.distributed_c10d._get_default_group()
    members = [dist.get_global_rank(group, rank) for rank in range(given.ranks)]
    backend = given.backend
    count = communicators or (1 if backend == "gloo" and given.placement == "linear" else 2)
    if count > 1 and not may_make_group(backend, len(members)):
        count = 1
    control = Control(_new_group(members, "gloo", "control", _timeout(group)), given.rank, given.ranks, 8 * len(given.rank_of) // given.ranks * given.schedule._n_microbatches + 64)
    gradients = _new_group(members, backend, "gradients", _timeout(group)) if count > 1 else None
    shape = Shape(given.rank_of, given.ranks, given.placement, given.schedule._n_microbatches, given.rows, all(one["can_split"] for one in agreed),
                  order.ascends(given.rows), memory, objective, frozen)
    posts = posts_early(backend, given.placement, given.ranks, count)
    ahead = None if backend == "gloo" else 2
    schedule = AdaptedSchedule(given)

    def lower(rows: order.Rows) -> str:
        if posts:
            comms = order.lowered(rows, given.rank_of, shape.microbatches, ahead)
        else:
            comms = _lowered_by_torch(rows, given.rank_of, shape.microbatches)
        return order.text_of(rows) + "\n" + "".join(",".join(line) + "\n" for line in comms)
    schedule.load(lower(given.rows))
    schedule._validate_and_set_stage_mapping(schedule.pipeline_order)
    timings.install()
    schedule._agent = agent = Agent(shape, control, schedule.load, lower, given.stages[0].device, backend == "gloo",
                                    (lambda kind: gradients if kind == "B" else None) if gradients is not None else None,
                                    lambda: free_bytes(given.stages[0].device, [one["host"] for one in agreed].count(socket.gethostname())), out, on_event)
    for stage in given.stages:
        timings.wrap(stage, agent.kept)
    schedule.adaptation = Adaptation(agent)
    return schedule


def backend_of(group: Any, device: Any) -> str:
    """The backend of a group for tensors of a device; a group may have one per type of device."""
    config = dist.distributed_c10d.BackendConfig(dist.distributed_c10d.Backend(dist.get_backend_config(group)))
    return str(config.get_device_backend_map().get(device.type, "none"))


def posts_early(backend: str, placement: str, ranks: int, communicators: int) -> bool:
    """Whether receives may be posted long before their ops. Gloo has a queue per message. NCCL and others may have one per pair of
    ranks and group, in which a receive that waits holds up later sends: there, a group must carry messages of one direction per pair."""
    if backend == "gloo":
        return communicators > 1 or placement == "linear"
    return communicators > 1 and (placement == "linear" or placement == "loop" and ranks > 2)


def may_make_group(backend: str, members: int) -> bool:
    """Whether some ranks alone may make a group. With a device bound to the default group (`device_id`), PyTorch splits its NCCL
    communicator, and all its ranks would have to take part."""
    default = dist.distributed_c10d._get_default_group()
    return backend != "nccl" or not default.bound_device_id or members == default.size()


def _new_group(members: List[int], backend: str, what: str, timeout: Optional[timedelta]) -> Any:
    """Makes a process group that only its members take part in. `dist.new_group` with use_local_synchronization derives the name
    from the number of groups of each process (2.13), and hangs if these numbers differ."""
    c10d = dist.distributed_c10d
    name = f"slackline-{what}-{'-'.join(map(str, members))}-{_calls[_name(members)]}"
    group, _ = c10d._new_process_group_helper(len(members), members.index(dist.get_rank()), members, c10d.Backend(backend), c10d._get_default_store(),
                                              c10d.GroupName(name), timeout=timeout or c10d._get_default_timeout(backend), group_desc=f"slackline {what}")
    c10d._world.pg_group_ranks[group] = {member: rank for rank, member in enumerate(members)}
    return group


def _name(members: List[int]) -> str:
    return f"slackline-adapt/{'-'.join(map(str, members))}"


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
