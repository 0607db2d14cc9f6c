# SPDX-License-Identifier: Apache-2.0
"""slackline: pipeline schedules for training, planned, proven, timed, and run by PyTorch's pipelining; jobs that adapt.

    plan = slackline.plan("problem.yaml")         # a Plan: its times, ops, transfers, and how far it is from the best
    schedule = plan.schedule(stage, loss_fn=loss) # ready for schedule.step(x, target=y)
    orchestrator = slackline.Orchestrator("problem.yaml", plan)   # what is slow in a running job, and what to do about it

All times are milliseconds (names end in `_ms`); ranks, stages and microbatches count from 0. Planning is done by
libslackline, which is looked for when it is first needed: the file that SLACKLINE_LIBRARY names, else beside this package or
in the lib folder of this Python's environment, else where the system's loader looks, but never in the working directory.
Importing this package needs neither the library nor PyTorch.
"""
from ._errors import InvalidRequest, LibraryNotFound, NoAnswer, OutOfMemory, SlacklineError, SystemFailure
from ._library import version
from ._orchestrator import STRATEGIES, Action, Event, Incident, Layout, Measurements, Network, Orchestrator, Slow
from ._plan import (Explanation, Jitter, Link, LinkCost, Lost, Op, OpCost, Plan, Transfer, plan, schedules, simulate)
from ._problem import Changes, Problem, ProblemLike
from ._pytorch import pytorch_schedule
from ._watching import Watched, watch
from .adapting import adapt

__version__ = "0.1.0"
__all__ = [
    "Action", "Changes", "Event", "Explanation", "Incident", "InvalidRequest", "Jitter", "Layout", "LibraryNotFound", "Link",
    "LinkCost", "Lost", "Measurements", "Network", "NoAnswer", "Op", "OpCost", "Orchestrator", "OutOfMemory", "Plan", "Problem",
    "ProblemLike", "STRATEGIES", "SlacklineError", "Slow", "SystemFailure", "Transfer", "Watched", "__version__", "adapt", "plan", "pytorch_schedule", "schedules", "simulate", "version", "watch",
]
