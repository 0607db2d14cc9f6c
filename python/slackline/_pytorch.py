# SPDX-License-Identifier: Apache-2.0
"""A plan as a schedule of torch.distributed.pipelining. PyTorch is imported only when a schedule is made."""
from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from ._errors import InvalidRequest, SlacklineError
from ._plan import Plan

if TYPE_CHECKING:
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime


def pytorch_schedule(plan: Optional[Plan], stages: Any, n_microbatches: Optional[int] = None,
                     loss_fn: Optional[Callable[..., Any]] = None, *, broadcast: bool = True,
                     **options: Any) -> "_PipelineScheduleRuntime":
    """A plan as a `_PipelineScheduleRuntime` that is ready for `step`, in one process of the pipeline.

    plan            gives the order; with `broadcast` only the first rank's plan counts, and the others may pass None
    stages          this rank's PipelineStage, or a list of them: the stages that the plan puts on this rank
    n_microbatches  None, or the plan's number
    loss_fn         loss of a microbatch's output and target; None: forward only, as in `eval` of the schedule
    broadcast       all ranks use the plan of the pipeline group's first rank, so a search may find a different plan in each
                    process. Every rank of the group must then call this function. False: each rank uses its own plan, which
                    must be the same on all ranks
    options         for PyTorch's runtime: args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads, ...

    The schedule is synchronous and accumulates gradients like PyTorch's own. Raises InvalidRequest if plan and stages do not
    match, NoAnswer if PyTorch cannot run the plan (parts), ImportError without a PyTorch that has the runtime.
    """
    try:
        import torch.distributed as dist
        from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
    except ImportError as error:
        raise ImportError(f"a plan's schedule needs PyTorch with torch.distributed.pipelining (2.13): {error}") from error
    mine: List[Any] = list(stages) if isinstance(stages, (list, tuple)) else [stages]
    if not mine:
        raise InvalidRequest("stages: this rank needs at least one stage")
    for stage in mine:
        if not hasattr(stage, "stage_index"):
            raise TypeError(f"a stage is a PipelineStage of PyTorch, not {type(stage).__name__}")
    contents = _contents(plan)
    if broadcast and mine[0].group_size > 1:
        carried = [contents]
        dist.broadcast_object_list(carried, group=mine[0].group, group_src=0)
        contents = carried[0]
    if isinstance(contents, Exception):
        raise contents
    _check(contents, mine, n_microbatches)
    runtime: Any = _runtime_class(_PipelineScheduleRuntime)(mine, contents["microbatches"], loss_fn=loss_fn, **options)
    with tempfile.TemporaryDirectory(prefix="slackline-") as folder:
        # The first form also fills in pipeline_order, which PyTorch's own tools read. The library has checked the second form.
        for form in ("compute_only",) if options.get("defer_pp_recv") else ("compute_only", "compute_comms"):
            path = os.path.join(folder, form)
            with open(path, "w", newline="") as file:
                file.write(contents[form])
            runtime._load_csv(path, format=form)
    if loss_fn is None:
        runtime.pipeline_order_with_comms = _forward_only(runtime.pipeline_order_with_comms)
    return runtime


BACKWARD = {"BACKWARD_INPUT", "BACKWARD_WEIGHT", "FULL_BACKWARD", "SEND_B", "RECV_B", "OVERLAP_F_B", "REDUCE_GRAD"}


def _forward_only(order: Any, reduces: bool = False) -> Any:
    """PyTorch's actions of all ranks without those of the backward pass. reduces: but with the reduction of gradients."""
    left_out = BACKWARD - {"REDUCE_GRAD"} if reduces else BACKWARD
    return {rank: [action for action in actions if action is None or action.computation_type.name not in left_out]
            for rank, actions in order.items()}


def _runtime_class(base: Any) -> Any:
    """PyTorch's runtime with an `eval` that runs no backward. PyTorch's own `eval` skips the work of a backward but not the
    transfer between two neighboring stages of one rank (wave), and fails there."""
    class _PlannedSchedule(base):  # type: ignore[misc]
        pipeline_order_with_comms: Any
        reduces_in_eval = False

        def eval(self, *arguments: Any, **options: Any) -> Any:
            whole = self.pipeline_order_with_comms
            self.pipeline_order_with_comms = _forward_only(whole)
            try:
                return super().eval(*arguments, **options)
            finally:
                self.pipeline_order_with_comms = whole
    return _PlannedSchedule


def _contents(plan: Optional[Plan]) -> Any:
    """What the other ranks need to know about a plan, or the exception to raise, so that no rank waits for one that failed."""
    if plan is None:
        return InvalidRequest("the first rank of the pipeline's group, or each rank without broadcast, needs a plan")
    if not isinstance(plan, Plan):
        return TypeError(f"a plan is what slackline.plan or slackline.simulate gives, not {type(plan).__name__}")
    try:
        if plan.placement == "bidirectional":
            return InvalidRequest("PyTorch's runtime has no two copies of a stage: a bidirectional plan cannot run there")
        return {"ranks": plan.ranks, "stages": plan.stages, "microbatches": plan.microbatches, "compute_only": plan.csv(),
                "compute_comms": plan.csv_comms()}
    except SlacklineError as error:
        return error


def _check(contents: Dict[str, Any], mine: List[Any], n_microbatches: Optional[int]) -> None:
    first = mine[0]
    for what, planned, given in (("microbatches", contents["microbatches"], n_microbatches), ("ranks", contents["ranks"], first.group_size),
                                 ("stages", contents["stages"], first.num_stages)):
        if given is not None and planned != given:
            raise InvalidRequest(f"the plan is for {planned} {what}, here are {given}")
    row = contents["compute_only"].splitlines()[first.group_rank]
    planned = sorted({int(stage) for stage in re.findall(r"(\d+)[FIWB]\d", row)})
    given = sorted(stage.stage_index for stage in mine)
    if planned != given:
        raise InvalidRequest(f"the plan puts stages {planned} on rank {first.group_rank}, which was given {given}")
