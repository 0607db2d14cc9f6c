# SPDX-License-Identifier: Apache-2.0
"""What the schedule that a program gives to `adapt` is, and the reasons why one cannot be adapted."""
from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle

from . import order, timings
from .agreement import Cannot
from .groups import backend_of
from .replicas import Replicas

FSDP_STAGES = 3  # per rank, whose parameters PyTorch's runtime gathers at the start of a step


class Given:
    """The properties of the given schedule. Raises Cannot."""

    def __init__(self, schedule: Any, replicas: Replicas) -> None:
        if isinstance(schedule, PipelineScheduleSingle):
            found = schedule.pipeline_order
            self.initialized = schedule._stage_forward_initialized, schedule._stage_backward_initialized
        else:
            found = getattr(schedule, "pipeline_order_with_comms", None) or schedule.pipeline_order
            self.initialized = schedule._stages_forward_initialized, schedule._stages_backward_initialized
        self.schedule, self.stages, self.replicas = schedule, stages_of(schedule), replicas
        first = self.stages[0]
        if not schedule._has_backward:
            raise Cannot("the schedule has no loss_fn: it runs forwards only")
        if not found:
            raise Cannot(f"{type(schedule).__name__} does not expose its order")
        if schedules.OVERLAP_F_B in getattr(schedule, "_comp_type_to_function_map", {}):
            raise Cannot("the schedule has a custom function for overlapped ops")
        try:
            self.ranks, self.rank, self.group = first.group_size, first.group_rank, first.group
            if isinstance(schedule, schedules.Schedule1F1B):
                self.rows = order.one_forward_one_backward(self.ranks, schedule._n_microbatches)
            else:
                self.rows = order.rows_of(found)
        except ValueError as error:
            raise Cannot(str(error)) from None
        if not order.is_complete(self.rows, first.num_stages, schedule._n_microbatches):
            raise Cannot(f"{type(schedule).__name__} does not expose its full order")
        self.rank_of = [0] * first.num_stages
        for rank, row in enumerate(self.rows):
            for cell in row:
                self.rank_of[cell.stage] = rank
        placement = order.placement_of(self.rank_of, self.ranks)
        if placement is None:
            raise Cannot(f"stages are placed on ranks {self.rank_of}: neither linear, loop nor wave")
        if self.ranks * replicas.count < 2:
            raise Cannot("the pipeline has one rank")
        if replicas.why_alike:
            raise Cannot(f"orders of replicas would get in each other's way: {replicas.why_alike}")
        if replicas.sums and len(self.stages) > FSDP_STAGES:
            raise Cannot(f"parameters of more than {FSDP_STAGES} stages per rank are gathered in the order of their ops")
        if schedule.scale_grads and schedule._n_microbatches > 1 and _share_parameters(self.stages):
            raise Cannot("stages of a rank share parameters, and with scale_grads, PyTorch divides their gradients after each of these stages: "
                         "the result depends on the order")
        self.placement, self.backend = placement, backend_of(self.group or dist.distributed_c10d._get_default_group(), first.device)
        self._check_neighbors()
        self._check_device(first.device)

    @staticmethod
    def _check_device(device: Any) -> None:
        """Times of ops come from a CPU's clock, or from events of PyTorch's accelerator."""
        accelerator = torch.accelerator.current_accelerator()
        if device.type != "cpu" and (accelerator is None or accelerator.type != device.type):
            raise Cannot(f"the stages are on {device}, which is not PyTorch's accelerator")
        if not dist.is_gloo_available():
            raise Cannot("this PyTorch has no Gloo, which carries the measurements")
        try:
            timings.Clock(device)
        except Exception as error:
            raise Cannot(f"{device} does not measure times: {error}") from None

    def _check_neighbors(self) -> None:
        """PyTorch's runtime carries messages only between neighboring stages. Each rank has the full graph of a traced model."""
        for stage in self.stages:
            for node in getattr(getattr(stage, "pipe_info", None), "graph", _NoGraph).nodes:
                if node.op == "call_module" and any(_index(user) - _index(node) > 1 for user in _users(node) if _index(node) >= 0 <= _index(user)):
                    raise Cannot("the model has connections that skip stages")

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


def stages_of(schedule: Any) -> List[Any]:
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
