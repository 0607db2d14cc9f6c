# SPDX-License-Identifier: Apache-2.0
"""The replicas of a pipeline: where they are, and the messages between the first ranks of their pipelines.

All replicas are one job with one orchestrator, on the first rank of the first replica. The first rank of each other replica sends the
records of its ranks there, and passes plans and splits on to them.

No replica waits for another one longer than the training does, except while something changes: then the records of the latest step
are read at once. Since gradients are summed over replicas in every step, a replica that has ended n steps knows that each other one
has begun n. So it reads a job header one step after it was sent, and the header of step n announces what all replicas run from step
n + 2 on. Thus each rank knows at the end of a step how many microbatches the next one takes. Only steps that did not raise count,
so a replica may repeat a step.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Callable, Deque, List, Optional, Tuple

import torch
import torch.distributed as dist

from .._errors import InvalidRequest
from .control import Control, Header, Record, flattened, parsed
from .timings import Row

LAG = 2  # steps after which a pipeline's first rank reads a record, unless it is urgent; each rank has sent it by then


@dataclass
class Replicas:
    """The data-parallel dimension as this rank knows it."""
    members: List[int]  # global ranks with this rank's stages, one per replica
    index: int  # of this rank's replica
    sums: bool = False  # gradients are summed during the step, by a wrapper of the modules
    why_even: str = ""  # the reason why replicas must take equally many microbatches; empty: any number
    why_alike: str = ""  # the reason why all replicas must run one order: collectives over replicas in each microbatch; empty: any order

    @property
    def count(self) -> int:
        return len(self.members)


def found(replicas: Any, stages: List[Any]) -> Replicas:
    """`replicas`: as in `adapt`. Raises InvalidRequest or TypeError."""
    me, alone = dist.get_rank(), Replicas([dist.get_rank()], 0)
    groups = _wrappers(stages, alone)
    if replicas is False or replicas == 1 and not isinstance(replicas, bool):
        return alone
    if replicas is not None:
        groups = [_members_of(replicas)]
    elif not groups:
        return alone
    if any(group != groups[0] for group in groups):
        raise InvalidRequest(f"replicas: the stages of rank {me} are replicated on different ranks: {groups}")
    if me not in groups[0]:
        raise InvalidRequest(f"replicas: rank {me} is not part of {groups[0]}")
    return replace(alone, members=groups[0], index=groups[0].index(me))


def _members_of(given: Any) -> List[int]:
    from torch.distributed.device_mesh import DeviceMesh
    if isinstance(given, DeviceMesh):
        return [int(rank) for rank in given.mesh.flatten().tolist()]
    if isinstance(given, dist.ProcessGroup):
        return list(dist.get_process_group_ranks(given))
    raise TypeError(f"replicas must be None, False, 1, a process group or a DeviceMesh, not {type(given).__name__}")


def _wrappers(stages: List[Any], replicas: Replicas) -> List[List[int]]:
    """The ranks that the wrappers of the stages' modules sum gradients over; and what they require of `replicas`."""
    from torch.distributed.fsdp import FSDPModule
    from torch.nn.parallel import DistributedDataParallel
    groups: List[List[int]] = []
    for stage in stages:
        for module in stage.submod.modules():
            inner = module is not stage.submod
            if isinstance(module, DistributedDataParallel):
                group = _members_of(module.process_group)
                if inner and len(group) > 1:
                    replicas.why_alike = "DistributedDataParallel inside a stage sums gradients in every microbatch"
                elif module.static_graph:
                    replicas.why_even = "DistributedDataParallel with static_graph assumes equal steps"
                groups.append(group)
            elif isinstance(module, FSDPModule):
                state = module._get_fsdp_state()
                for shards in state._fsdp_param_groups:
                    group = _members_of(shards.mesh_info.mesh)
                    if len(group) > 1 and shards._reshard_after_forward and (inner or not state._auto_reshard_after_forward):
                        replicas.why_alike = "fully_shard gathers parameters in every microbatch, unless reshard_after_forward is False"
                    if len(group) > 1 and inner and not isinstance(stage.submod, FSDPModule):
                        replicas.why_alike = "fully_shard inside a stage sums gradients in every microbatch, unless the stage's module has it, too"
                    groups.append(group)
    replicas.sums = bool(groups)
    return groups


# ---- messages between the first ranks of pipelines -----------------------------------------------------------------------------


class Course:
    """The version that runs now and the one of the next step, by the job headers heard so far."""

    def __init__(self) -> None:
        self.running = self.next = 0
        self.over = False  # the last header has been heard

    def heard(self, header: Optional[Header]) -> None:
        """Called once per step; None: there was no header."""
        self.running = self.next
        if header is not None:
            self.next, self.over = header.next, bool(header.over)

    @property
    def settled(self) -> bool:
        """The order and the split stay from now on."""
        return self.over and self.running == self.next


class Relay:
    """On the first rank of each replica but the first: passes records on to the first one, and headers on to its own ranks."""

    def __init__(self, job: Control, failed: Callable[[BaseException], None]) -> None:
        self._job, self._failed, self._course = job, failed, Course()
        self._own: Deque[Tuple[Record, List[Row], bool]] = deque()
        self._heard = self._ended = 0  # steps
        self._urgent = False

    def record(self, record: Record, rows: List[Row], raised: bool) -> None:
        """This rank's record of each step, and whether the step raised."""
        self._own.append((record, rows, raised))

    def ended(self) -> None:
        """A step has ended without an error."""
        self._ended += 1

    def header(self, step: int, clocks: bool, collect: Callable[[int], List[List[Any]]]) -> Tuple[Header, bytes]:
        """Called before each step: its header, and a plan. collect(lag): the new records of the other ranks of this pipeline."""
        course, plan, offered = self._course, b"", 0
        try:
            if self._heard < self._ended:  # not if the step is repeated
                self._heard += 1
                header, plan = (None, b"") if course.over else self._job.hear()
                course.heard(header)
                if header is not None:
                    offered, self._urgent = header.offered, bool(header.urgent)
                    if header.clocks:
                        self._job.compare()
            for one in collect(0 if self._urgent else LAG):
                self._forward(one)
        except RuntimeError as error:  # the first replica cannot be reached: the order stays
            course.over = True
            self._failed(error)
        return Header(step, course.running, course.next, offered, len(plan), int(clocks), int(course.settled)), plan

    def _forward(self, records: List[Any]) -> None:
        record, rows, raised = self._own.popleft()
        if raised or self._course.over:  # a step that raised is repeated, and counts only then
            return
        own = flattened(record, rows, (self._job.size - CLOCK) // (len(records) + 1))
        self._job.report(torch.cat([torch.tensor([self._job.offset, self._job.error], device="cpu"), own, *records]))


CLOCK = 2  # numbers in a bundle before its records: offset and error of the clock


def unbundled(bundle: Any, ranks: int) -> List[Tuple[Record, List[Row]]]:
    """The records of a replica, with offsets of clocks to the first rank of the first replica."""
    flat = bundle.tolist()
    offset, error = flat[:CLOCK]
    each = (len(flat) - CLOCK) // ranks
    records = [parsed(flat[at:at + each]) for at in range(CLOCK, len(flat), each)]
    return [(record._replace(offset=record.offset + offset, error=record.error + error), rows) for record, rows in records]
