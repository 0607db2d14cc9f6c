# SPDX-License-Identifier: Apache-2.0
"""A schedule of torch.distributed.pipelining that measures itself, detects slow components and changes its order during training.

    order.py     rows of ops, and their lowering to PyTorch's actions
    timings.py   what a rank measures of a step
    kept.py      what a rank knows of its stages: memory, whether a backward may be split, random numbers
    control.py   messages between the ranks in addition to the training's
    replicas.py  the replicas of a pipeline, and the messages between them
    measured.py  steps as measured by all ranks, and a problem from them (independent of PyTorch)
    deciding.py  plans; the orchestrator (independent of PyTorch)
    agent.py     the work of a rank before and after each step
    leader.py    the first rank's part: the order of each step, and the thread that decides
    agreement.py  the agreement between ranks to adapt, through the job's store
    groups.py    process groups: which message uses which, and how they are made
    given.py     the given schedule, and the reasons why one cannot be adapted
    schedule.py  the schedule that changes its order, and how it is opened
    adaptation.py  what a program sees of it
    memory.py    the memory that a rank may still use
    carrying.py  process groups whose messages are carried by delegates
    folder.py    the run's folder, in the format of `slackline train`
    warning.py   warnings, which end no job

Frameworks with a training loop of their own have a file each, which is imported only for an object of that framework:

    torchtitan.py  its Trainer
    deepspeed.py   its PipelineEngine
    nanotron.py    its PipelineEngine
    megatron.py    the configuration of megatron-core, whose order is code: a number is tuned (tuning.py)
    engines.py     what DeepSpeed's and nanotron's engines share
"""
from __future__ import annotations

import importlib
from typing import Any, Callable, List, Optional, Tuple, Union

from .._errors import InvalidRequest
from .._problem import ProblemLike
from .._transport import Delegates

MOST_BYTES = 1e15  # of a problem's memory limit

# the class of an object that `adapt` takes: the file
FRAMEWORKS = {("torchtitan.trainer", "Trainer"): "torchtitan", ("deepspeed.runtime.pipe.engine", "PipelineEngine"): "deepspeed",
              ("nanotron.parallel.pipeline_parallel.engine", "PipelineEngine"): "nanotron",
              ("megatron.core.model_parallel_config", "ModelParallelConfig"): "megatron"}


def adapt(schedule: Any, *, out: Optional[str] = None, problem: Optional[ProblemLike] = None, memory: Union[str, float] = "free",
          objective: Optional[str] = None, communicators: Optional[int] = None, replicas: Any = None, transport: Union[str, Delegates] = "torch", frozen: bool = False,
          on_event: Optional[Callable[[Any], None]] = None) -> Any:
    """An AdaptedSchedule that steps, evaluates and raises like the given one, and adapts its order to its measurements.

    Its `adaptation` holds the events, the running plan, the measured problem, and the predicted and measured times.
    Call `adapt` on every rank of the pipeline with the same arguments, after the schedule has been made, and step the result.

    schedule       a schedule of torch.distributed.pipelining: GPipe, 1F1B, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble,
                   ZBVZeroBubble, DualPipeV, one loaded from CSV, or `Plan.schedule`. Or a Trainer of torchtitan, a PipelineEngine
                   of DeepSpeed or nanotron, or a TransformerConfig of megatron-core: it is changed and returned, with an `adaptation`
    out            folder for metrics, events, decisions and the measured problem; written by the first rank
    problem        the healthy job, if it need not be measured: a dict, YAML, a file or a Problem. Its memory limit replaces `memory`
    memory         limit per rank for the activations of microbatches until their backward: "free" (the free memory of its
                   device, or its share of its host's), "same" (no more microbatches than in the given schedule), or bytes
    objective      what a plan minimizes. "makespan": the time from the first op of a step to its last one on any rank, if ranks wait for
                   each other between two steps (a norm over all stages, a barrier, a loss that is sent to all). "period": the time from
                   step to step, if each rank begins the next one as soon as it is free. None: that of `problem`, else "makespan". A new
                   order must gain 2% of it
    communicators  process groups that carry the pipeline's messages: 1, the stages' own; 2, one for activations and one for
                   gradients; 3, activations also by direction; 4, both by direction; None: the fewest with which a late or large
                   message does not hold up others
    replicas       the ranks with the same stages: a process group, or a DeviceMesh of one dimension; None: those of
                   DistributedDataParallel or fully_shard around the stages' modules; False or 1: none. `schedule.microbatches` is the
                   number of the next step: a slow replica takes fewer, the others more. Call `adapt` on the ranks of all replicas
    transport      "torch": the backend of the pipeline's group carries its messages; "slackline": delegates do, which are processes of
                   their own, over one or several rails, and go on when a rail fails or a delegate dies. slackline.Delegates names the
                   rails of this host, the number of delegates, and their program. If they cannot be started on all ranks, the
                   backend carries the messages
    frozen         measure and report, but change nothing
    on_event       called with each event, on the first rank, from a thread of its own

    Gradients are bit-identical to those of the given schedule if it adds microbatches in ascending order. A job that cannot
    be adapted runs unchanged, with one RuntimeWarning that gives the reason. Raises InvalidRequest or TypeError for invalid
    arguments, and for a problem that is not one of the schedule; and ImportError without a PyTorch that has the pipeline runtime.
    """
    if not (memory in ("free", "same") if isinstance(memory, str) else isinstance(memory, (int, float)) and memory > 0):
        raise InvalidRequest(f'memory must be "free", "same" or a number of bytes, got {memory!r}')
    memory = memory if isinstance(memory, str) else min(memory, MOST_BYTES)
    delegates = Delegates.checked(transport)
    if isinstance(communicators, bool) or communicators not in (None, 1, 2, 3, 4):
        raise InvalidRequest(f"communicators must be None or from 1 to 4, got {communicators!r}")
    if objective not in (None, "makespan", "span", "period"):
        raise InvalidRequest(f'objective must be "makespan", "period" or None, got {objective!r}')
    try:
        adapting = importlib.import_module(f".{_file_for(schedule)}", __package__)
    except ImportError as error:
        raise ImportError(f"adapt needs PyTorch with torch.distributed.pipelining (2.13): {error}") from error
    return adapting.adapted(schedule, out=out, problem=problem, memory=memory, objective=objective or ("makespan" if problem is None else None),
                            communicators=communicators, replicas=replicas, transport=delegates, frozen=frozen, on_event=on_event)


def _names_of(given: Any) -> List[Tuple[str, str]]:
    """The names of an object's class and its bases, by which no framework has to be imported."""
    return [(one.__module__, one.__qualname__) for one in type(given).__mro__]


def _file_for(given: Any) -> str:
    return next((FRAMEWORKS[name] for name in _names_of(given) if name in FRAMEWORKS), "schedule")
