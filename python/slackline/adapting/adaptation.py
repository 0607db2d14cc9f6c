# SPDX-License-Identifier: Apache-2.0
"""What a program sees of a job's adaptation."""
from __future__ import annotations

from typing import Any, Dict, List, Optional

from .._problem import ProblemLike
from .agent import Agent
from .agreement import Cannot
from .deciding import Happening
from .measured import Measured
from .warning import warn


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
        return list(leader.events) if leader else list(self._agent.happened) if self._agent else []

    @property
    def plan(self) -> Any:
        """The running plan, timed on the measured problem; None: not known yet, or not the first rank."""
        leader = self._agent.leader if self._agent else None
        return leader.decider.plan if leader else None

    @property
    def problem(self) -> Optional[ProblemLike]:
        """The healthy job as measured, or as given, for slackline.plan: one replica of it."""
        leader = self._agent.leader if self._agent else None
        return leader.decider.problem if leader else None

    @property
    def predicted_ms(self) -> Optional[float]:
        leader = self._agent.leader if self._agent else None
        return leader.decider.predicted_ms if leader else None

    @property
    def measured(self) -> Optional[Measured]:
        """The latest step that all ranks measured; with replicas, on the first one."""
        leader = self._agent.leader if self._agent else None
        return leader.last[0] if leader and leader.last else None

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


def not_adapted(error: Exception) -> Adaptation:
    """Warns that the job runs unchanged."""
    text = str(error) if isinstance(error, Cannot) else f"{type(error).__name__}: {error}"
    warn(f"this job is not adapted, and runs unchanged: {text}", stacklevel=4)
    return Adaptation(None, text)
