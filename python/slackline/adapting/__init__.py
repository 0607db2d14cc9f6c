# SPDX-License-Identifier: Apache-2.0
"""A schedule of torch.distributed.pipelining that measures itself, finds what is slow and changes its order while a job trains.

    order.py     rows of ops, and their lowering to PyTorch's actions
    timings.py   what a rank measures of a step
    control.py   messages between the ranks beside the training
    deciding.py  a problem of the measurements; plans; the orchestrator (knows nothing of PyTorch)
    agent.py     what a rank does before and after each step, and its thread
    schedule.py  the schedule, and how ranks agree to adapt
    folder.py    the run's folder, as `slackline train` writes it
"""
from __future__ import annotations

from typing import Any, Callable, Optional, Union

from .._errors import InvalidRequest


def adapt(schedule: Any, *, out: Optional[str] = None, memory: Union[str, float] = "free", objective: Optional[float] = None,
          communicators: Optional[int] = None, frozen: bool = False, on_event: Optional[Callable[[Any], None]] = None) -> Any:
    """An AdaptedSchedule that steps, evaluates and raises as the given one, and adapts its order to what it measures.

    Its `adaptation` has events, the running plan, the measured problem, predicted and measured times.
    Call it on every rank of the pipeline with the same arguments, after the schedule has been made, and step the result.

    schedule       of torch.distributed.pipelining: GPipe, 1F1B, Interleaved1F1B, LoopedBFS, InterleavedZeroBubble, ZBVZeroBubble,
                   DualPipeV, one loaded from CSV, or `Plan.schedule`
    out            folder for metrics, events, decisions and the measured problem; written by the first rank
    memory         what a rank may keep of microbatches until their backward: "free" (what its device has, or its host divided
                   among the ranks on it), "same" (no more microbatches than in the given schedule), or bytes
    objective      share of a step that another order must gain; None: 0.02
    communicators  process groups that carry the pipeline's messages: 1, the stages' own; 2, one for activations and one for
                   gradients; None: as few as keep a late message from holding up others
    frozen         measure and report, and change nothing
    on_event       is called with each event, on the first rank, from another thread

    Gradients are equal in every bit to those of the given schedule if that adds microbatches in ascending order. A job that
    cannot be adapted goes on as given, with one RuntimeWarning that says why. Raises InvalidRequest or TypeError for wrong
    arguments, and ImportError without a PyTorch that has the pipeline runtime.
    """
    if not (memory in ("free", "same") if isinstance(memory, str) else isinstance(memory, (int, float)) and memory > 0):
        raise InvalidRequest(f'memory must be "free", "same" or a number of bytes, got {memory!r}')
    if communicators not in (None, 1, 2):
        raise InvalidRequest(f"communicators must be None, 1 or 2, got {communicators!r}")
    if objective is not None and not 0 <= objective < 1:
        raise InvalidRequest(f"objective must be a share from 0 to 1, got {objective!r}")
    try:
        from . import schedule as adapted
    except ImportError as error:
        raise ImportError(f"adapt needs PyTorch with torch.distributed.pipelining (2.13): {error}") from error
    return adapted.adapted(schedule, out=out, memory=memory, objective=objective, communicators=communicators, frozen=frozen, on_event=on_event)
