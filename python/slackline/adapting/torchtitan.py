# SPDX-License-Identifier: Apache-2.0
"""torchtitan's Trainer (0.3.0): its pipeline is a schedule of torch.distributed.pipelining, which training and validation share.

The adapted schedule takes the place of both. A checkpoint of the Trainer does not contain what the adaptation has learned; a job that resumes
from one measures again. torchtitan checkpoints activations by default, and then backwards are not split.
"""
from __future__ import annotations

import inspect
from typing import Any

from .._errors import InvalidRequest
from . import schedule


def adapted(trainer: Any, **options: Any) -> Any:
    """The Trainer, with an adapted schedule and its `adaptation`."""
    given = getattr(trainer, "pp_schedule", None)
    if given is None:
        raise InvalidRequest("the Trainer has no pipeline (parallelism.pipeline_parallel_degree is 1): there is no order to adapt")
    if options.get("replicas"):
        raise InvalidRequest("replicas: torchtitan loads equally many microbatches for each replica, so each pipeline is adapted alone")
    if options["objective"] not in (None, "makespan"):
        raise InvalidRequest("objective: torchtitan clips gradients by a norm over all stages, for which ranks wait, so a step takes its makespan")
    trainer.pp_schedule = schedule.adapted(given, **{**options, "replicas": False})
    if trainer.pp_schedule is given and "arg_mbs" not in inspect.signature(given.step).parameters:  # not adapted, with PyTorch 2.13
        given.__class__ = schedule.taking_lists(type(given))
    validator: Any = getattr(trainer, "validator", None)
    if getattr(validator, "pp_schedule", None) is given:
        validator.pp_schedule = trainer.pp_schedule
    trainer.adaptation = trainer.pp_schedule.adaptation
    return trainer
