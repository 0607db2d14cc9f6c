# SPDX-License-Identifier: Apache-2.0
"""slackline: plans, bounds and times pipeline schedules for training, runs them in PyTorch, and adapts running jobs.

    choices = slackline.choose("model.yaml", "cluster.yaml")   # how to divide a model over a cluster
    plan = slackline.plan("problem.yaml")         # a Plan: its times, ops, transfers, and gap to the lower bound
    schedule = plan.schedule(stage, loss_fn=loss) # ready for schedule.step(x, target=y)
    orchestrator = slackline.Orchestrator("problem.yaml", plan)   # finds slow components of a running job and mitigates them

All times are milliseconds (names end in `_ms`); ranks, stages and microbatches count from 0. libslackline does the planning.
It is searched for when it is first needed, in this order: the file that SLACKLINE_LIBRARY names; this package's folder, where pip
puts it (lib); the lib folder of this Python's environment; the search path of the system's loader. The working directory is never searched.
Importing this package needs neither the library nor PyTorch.
"""
from ._choose import Arrangement, Choices, Spent, choose
from ._errors import InvalidRequest, LibraryNotFound, NoAnswer, OutOfMemory, SlacklineError, SystemFailure
from ._library import version
from ._orchestrator import STRATEGIES, Action, Event, Incident, Layout, Measurements, Network, Orchestrator, Slow
from ._plan import (Explanation, Jitter, Link, LinkCost, Lost, Op, OpCost, Plan, Transfer, plan, schedules, simulate)
from ._problem import Changes, Problem, ProblemLike
from ._pytorch import pytorch_schedule
from ._transport import Delegates
from ._watching import Watched, watch
from .adapting import adapt

__version__ = "0.1.0"
__all__ = [
    "Action", "Arrangement", "Changes", "Choices", "Delegates", "Event", "Explanation", "Incident", "InvalidRequest", "Jitter", "Layout", "LibraryNotFound", "Link",
    "LinkCost", "Lost", "Measurements", "Network", "NoAnswer", "Op", "OpCost", "Orchestrator", "OutOfMemory", "Plan", "Problem",
    "ProblemLike", "STRATEGIES", "SlacklineError", "Slow", "Spent", "SystemFailure", "Transfer", "Watched", "__version__", "adapt", "choose", "plan", "pytorch_schedule", "schedules", "simulate", "version", "watch",
]
