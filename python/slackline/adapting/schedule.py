# SPDX-License-Identifier: Apache-2.0
"""The schedule that `adapt` returns, and how the ranks of a pipeline open it together."""
from __future__ import annotations

import hashlib
import os
import socket
import threading
import weakref
from datetime import timedelta
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, _PipelineScheduleRuntime
from torch.distributed.pipelining.stage import _make_tensor_from_meta, _RecvInfo
from torch.utils._pytree import tree_leaves

from .. import _library
from .._errors import InvalidRequest, SlacklineError
from .._plan import simulate
from .._problem import Problem, ProblemLike
from .._pytorch import _forward_only
from .._transport import Delegates
from . import carrying, kept, order, timings
from .adaptation import Adaptation, not_adapted
from .agent import Agent, close
from .agreement import Cannot, Round, agreed, stepped, together
from .control import Control, room
from .given import Given, stages_of
from .groups import Groups, fewest_communicators, may_make_group, new_group, pairs_are_apart, posts_early, release, timeout_of
from .measured import Shape, unfit
from .memory import free_bytes
from .replicas import CLOCK, found
from .warning import warn

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

    def __init__(self, given: Given) -> None:
        from_ = given.schedule
        super().__init__(given.stages, from_._n_microbatches, loss_fn=from_._loss_fn, args_chunk_spec=from_._args_chunk_spec,
                         kwargs_chunk_spec=from_._kwargs_chunk_spec, output_merge_spec=from_._output_merge_spec, scale_grads=from_.scale_grads,
                         backward_requires_autograd=getattr(from_, "_backward_requires_autograd", True))
        self._stages_forward_initialized, self._stages_backward_initialized = given.initialized
        self._comp_type_to_function_map.update(getattr(from_, "_comp_type_to_function_map", {}))
        self.given, self._divisor = from_, int(from_._n_microbatches)
        if isinstance(from_, PipelineScheduleSingle):
            self._stage = from_._stage
        self._split, self.replica = (self._divisor,) * given.replicas.count, given.replicas.index
        self._asked = False  # whether the program has looked at its number of microbatches since the latest step
        self._agent: Optional[Agent] = None
        self._forwards: Any = None
        self.reduces_in_eval = getattr(from_, "reduces_in_eval", True)  # PyTorch's `eval` divides the gradients of earlier steps, too
        self._rows: List[int] = []  # of the tensors of a microbatch, with replicas
        self._varied = False  # whether the number of microbatches has changed
        self._is_whole = False  # the order does not split a backward, which would be watched in every step
        if given.replicas.count > 1:
            self._comp_type_to_function_map.setdefault(schedules.REDUCE_GRAD, self._reduce)
        self._stepping = threading.RLock()  # steps of several threads follow each other: they share the stages' buffers

    @property
    def microbatches(self) -> int:
        """The number of microbatches of the next step: `split` of this replica."""
        self._asked = True
        return int(self._n_microbatches)

    @property
    def split(self) -> Tuple[int, ...]:
        """The number of microbatches of each replica in the next step. It stays even unless the program asks before each step."""
        self._asked = True
        return self._split

    def load(self, text: str) -> None:
        """Sets the order from the next step on: microbatches of each replica, rows of ops, and rows with their messages, each ended
        by an empty line."""
        split, ops, comms = text.split("\n\n")
        actions = {rank: [schedules._Action.from_str(cell) for cell in line.split(",") if cell] for rank, line in enumerate(ops.splitlines())}
        with_comms = {rank: [schedules._Action.from_str(cell) for cell in line.split(",") if cell] for rank, line in enumerate(comms.splitlines())}
        self._split = tuple(int(number) for number in split.split(","))
        self._n_microbatches = self._split[self.replica]
        self._varied = self._varied or self._n_microbatches != self._divisor
        self.pipeline_order, self.pipeline_order_with_comms = actions, with_comms
        self._is_whole = not any(action.computation_type == schedules.BACKWARD_INPUT for row in actions.values() for action in row)
        if self._forwards is None:
            self._forwards = _forward_only(with_comms, self.reduces_in_eval)  # of the given order
        for stage in self._stages:
            _make_room(stage, self._n_microbatches)

    def step(self, *args: Any, **options: Any) -> Any:
        self._refuse_on_event()
        with self._stepping:
            return super().step(*args, **options)

    def _refuse_on_event(self) -> None:
        """A step of one rank alone would be taken for the next step of all."""
        if self._agent is not None and self._agent.leader is not None and self._agent.leader.is_calling:
            raise RuntimeError("on_event is called on the first rank alone, so it cannot step or evaluate the schedule, which needs all ranks")

    def _step_microbatches(self, arg_mbs: Any = None, kwarg_mbs: Any = None, target_mbs: Any = None, *arguments: Any, **options: Any) -> None:
        arg_mbs, kwarg_mbs, target_mbs = self._lists or (arg_mbs, kwarg_mbs, target_mbs)

        def step() -> None:
            keeping, measured = dict.fromkeys(stage._slackline for stage in self._stages), timings.running() is not None
            bare = self._stages if not measured and self._is_whole else []
            for one in keeping:
                one.begin(measured, self._stages[0].device)
            for stage in bare:
                timings.unwrap(stage)
            if bare:
                self.__dict__["_maybe_compute_loss"] = self._unwatched_loss
            try:
                super(AdaptedSchedule, self)._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, *arguments, **options)
            finally:
                for stage in bare:
                    timings.wrap_again(stage)
                self.__dict__.pop("_maybe_compute_loss", None)
                for one in keeping:
                    one.end(self._stages[0].device)
        if self._is_renumbered and self.pipeline_order_with_comms is not self._forwards:
            self._step_as_given(arg_mbs, kwarg_mbs, target_mbs, *arguments, **options)
            return
        if not self._has_backward:
            step()
            return
        if len(self._split) > 1:
            self._check_rows(arg_mbs, kwarg_mbs, target_mbs)
        agent = self._agent
        if agent is None or not agent.active:
            step()
            return
        if not self._asked and any(stage.is_first or stage.is_last for stage in self._stages):  # who gives no rows need not know their number
            agent.obeys = False
        self._asked = False
        agent.begin()
        try:
            step()
        except BaseException as error:
            agent.abandon(error)
            raise
        agent.end()

    @property
    def _unwatched_loss(self) -> Callable[..., Any]:
        return super()._maybe_compute_loss  # type: ignore[no-any-return]

    def _maybe_compute_loss(self, stage: Any, *arguments: Any, **options: Any) -> Any:
        before = kept.hooks()
        loss = super()._maybe_compute_loss(stage, *arguments, **options)
        stage._slackline.notice_hooks(stage, before)
        return loss

    @property
    def _is_renumbered(self) -> bool:
        """Whether the program has set another number of microbatches for the next step, on all ranks, as the given schedule lets it."""
        return bool(self._n_microbatches != self._split[self.replica])

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
        self._refuse_on_event()
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


def adapted(schedule: Any, *, out: Optional[str], problem: Optional[ProblemLike], memory: Any, objective: Optional[str], communicators: Optional[int],
            replicas: Any, transport: Optional[Delegates], frozen: bool, on_event: Optional[Callable[[Any], None]]) -> Any:
    stages = stages_of(schedule)
    copies = found(replicas, stages)
    if not isinstance(schedule, AdaptedSchedule):  # which has them
        schedule.split, schedule.replica, schedule.microbatches = (schedule._n_microbatches,) * copies.count, copies.index, schedule._n_microbatches
    given: Optional[Given] = None
    why = ""
    try:
        given = Given(schedule, copies)
        if given.rank == 0 or problem is not None:
            _library.library()  # else, only the first rank plans
    except (Cannot, SlacklineError) as error:
        why = str(error)
    healthy: Optional[ProblemLike] = None
    if given is not None and not why:
        shape = Shape(given.rank_of, given.ranks, given.placement, schedule._n_microbatches, given.rows, given.can_split, True)
        healthy, objective = _healthy(problem, objective, shape)
    _check_objective(objective, copies.count)
    try:
        said = {"why": why, "memory": memory, "objective": objective, "communicators": communicators, "transport": _name_of(transport), "frozen": frozen,
                "problem": _digest(healthy), "microbatches": schedule._n_microbatches, "order": order.digest(given.rows if given else []),
                "replicas": copies.count, "replica": copies.index, "members": copies.members, "sums": copies.sums,
                "why_even": given.why_even if given else "", "can_split": given.can_split if given else False, "host": socket.gethostname()}
        round = agreed(stages[0], said, copies)
        assert given is not None
        shape = Shape(given.rank_of, given.ranks, given.placement, schedule._n_microbatches, given.rows, all(one["can_split"] for one in round.said),
                      order.ascends(given.rows), memory, objective or "makespan", frozen, copies.count, copies.count > 1 and not any(one["why_even"] for one in round.said),
                      any(one["sums"] for one in round.said), healthy)
        return together(round, lambda: _open(round, given, shape, communicators, transport, out, on_event))
    except Exception as error:
        schedule.adaptation = not_adapted(error)
        _tell_of_a_step(schedule)
        return schedule


def _tell_of_a_step(schedule: Any) -> None:
    """Notices once that the given schedule has run a step that needs all ranks."""
    def step_microbatches(*arguments: Any, **options: Any) -> Any:
        needs_all = schedule._has_backward
        if needs_all:
            del schedule._step_microbatches
        made = type(schedule)._step_microbatches(schedule, *arguments, **options)
        if needs_all:
            stepped()
        return made
    schedule._step_microbatches = step_microbatches


def _name_of(transport: Optional[Delegates]) -> str:
    """What must be the same on all ranks."""
    if transport is None:
        return "torch"
    return "slackline" if transport.number == 1 else f"slackline, {transport.number} delegates"


def _healthy(problem: Optional[ProblemLike], objective: Optional[str], shape: Shape) -> Tuple[Optional[ProblemLike], Optional[str]]:
    """The user's problem, as a dict or a Problem, and its objective. objective: the job's; None: the problem's own. Raises InvalidRequest if the
    problem is not one of the job."""
    if problem is None:
        return None, objective
    healthy: ProblemLike = Problem(problem, {"pipeline.objective": objective}) if objective is not None else \
        problem if isinstance(problem, (Mapping, Problem)) else Problem(problem)
    why = unfit(healthy, shape)
    if why:
        raise InvalidRequest(f"the problem is not one of this schedule: {why}")
    return healthy, simulate(healthy, order.text_of(shape.given)).objective


def _check_objective(objective: Optional[str], replicas: int) -> None:
    if objective == "span":
        raise InvalidRequest('objective: "span" is the time of a rank in one step alone, which no job waits for; from step to step, it takes the "period"')
    if objective == "period" and replicas > 1:
        raise InvalidRequest('objective: "period" needs one replica, because replicas wait for each other to sum gradients; replicas=False adapts each pipeline '
                             'alone')


def _digest(problem: Optional[ProblemLike]) -> str:
    return hashlib.sha256(Problem(problem).yaml().encode()).hexdigest()[:16] if problem is not None else "none"


def _open(round: Round, given: Given, shape: Shape, communicators: Optional[int], transport: Optional[Delegates], out: Optional[str],
          on_event: Optional[Callable[[Any], None]]) -> AdaptedSchedule:
    timeout, members, backend, copies = timeout_of(given.group or dist.distributed_c10d._get_default_group()), round.members, given.backend, given.replicas
    count = communicators or fewest_communicators(backend, given.placement, given.ranks)
    if count > 1 and not may_make_group(backend, len(members)):
        count = 1
    most = min(2 * shape.microbatches, (shape.microbatches - 1) * copies.count + 1)  # microbatches of a replica whose measurements fit
    size = room(8 * len(given.stages) * most + 64)
    own = [new_group(round, members, "gloo", "control", timeout)]
    control = Control(own[0], given.rank, given.ranks, size)
    job: Optional[Control] = None
    if copies.count > 1 and given.rank == 0:
        own.append(new_group(round, copies.members, "gloo", "replicas", timeout))
        job = Control(own[1], copies.index, copies.count, CLOCK + size * given.ranks)
    carried = _carried(round, given, timeout, transport) if transport is not None else None
    groups = Groups(count if carried is None else 1, lambda at: new_group(round, members, backend, f"messages{at}", timeout))
    weakref.finalize(given.stages[0], release, groups.made, os.getpid()).atexit = False  # stages use them without the schedule, too
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
    schedule.load(lower(given.rows, [shape.microbatches] * copies.count, 1))
    schedule._validate_and_set_stage_mapping(schedule.pipeline_order)
    timings.install()
    schedule._agent = agent = Agent(shape, control, job, load, lower, given.stages[0].device, waits, groups.make,
                                    lambda: free_bytes(given.stages[0].device, round.sharing), out, on_event)
    if carried is not None:
        agent.carrier, agent.kept.groups = carried
        if agent.leader is not None:
            agent.leader.hear_transport()
            if agent.leader.folder is not None:
                agent.leader.folder.delegates = transport.number if transport is not None else 0
    agent.kept.splits_itself, agent.kept.mixes = order.is_split(given.rows), len(given.stages) > 1
    for stage in given.stages:
        timings.wrap(stage, agent.kept)
    round.undo.append(weakref.finalize(schedule, close, agent.threads, os.getpid()))
    weakref.finalize(schedule, release, own, os.getpid()).atexit = False
    schedule.adaptation = Adaptation(agent)
    return schedule


def _carried(round: Round, given: Given, timeout: Optional[timedelta], delegates: Delegates) -> Optional[Tuple[carrying.Carrier, Callable[[str, bool], Any]]]:
    """Opens the transport on all ranks, with a group for each kind of message; None: the backend carries them, on all ranks."""
    limit = timeout or dist.distributed_c10d._get_default_timeout(dist.distributed_c10d.Backend("gloo"))
    try:
        carrier, channels = carrying.opened(round, given.rank_of, limit, delegates)
        round.undo.append(carrier.close)
    except Exception as error:
        warn(f"the backend carries the messages, since transport=\"slackline\" cannot: {error}", stacklevel=5)
        return None

    def make(what: str, group_of: Callable[[str], Any]) -> Any:
        dist.Backend.register_backend("slackline", lambda options, _: group_of(options.group_id), extended_api=True, devices=["cpu", "cuda"])
        return new_group(round, round.members, "slackline", what, timeout)
    return carrier, carrying.groups_of(carrier, channels, make, given.rank, given.ranks)


def _lowered_by_torch(rows: order.Rows, rank_of: List[int], microbatches: int) -> List[List[str]]:
    actions = {rank: order._with_sharding(row, microbatches) for rank, row in enumerate(rows)}
    made = schedules._add_send_recv({rank: [schedules._Action.from_str(name) for name in row] for rank, row in actions.items()},
                                    stage_to_rank=lambda stage: rank_of[stage], num_stages=len(rank_of))
    return [[str(action) for action in made[rank]] for rank in sorted(made)]
