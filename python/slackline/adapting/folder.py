# SPDX-License-Identifier: Apache-2.0
"""A run's folder (docs/formats.md): what `slackline train` writes of its runs, for a job of PyTorch, so that `slackline report`,
`draw` and `dashboard` show it."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Sequence

from . import order
from .deciding import Decider, Happening, Measured, Shape


class Folder:
    """Lines are complete at any time; files are replaced whole. Used by one thread."""

    def __init__(self, path: str, shape: Shape) -> None:
        os.makedirs(path, exist_ok=True)
        self.path, self._shape = path, shape
        self._decisions = 0
        for name in ("metrics.jsonl", "events.jsonl", "decisions.txt"):
            open(os.path.join(path, name), "w", encoding="utf-8").close()

    def step(self, measured: Measured, predicted_ms: Optional[float], decider: Decider, happened: Sequence[Happening]) -> None:
        orchestrator = decider.orchestrator
        adapted = decider.version > 0 and orchestrator is not None and orchestrator.adapted()
        troubled = orchestrator is not None and orchestrator.troubled
        work = [0.0] * self._shape.ranks
        for op in measured.ops:
            work[op.rank] += op.end_ms - op.start_ms
        times: Dict[Any, List[float]] = {}
        for one in measured.transfers:
            times.setdefault((one.from_rank, one.to_rank), []).append(one.arrive_ms - one.start_ms)
        self._line("metrics.jsonl", {
            "iteration": measured.step, "time_ms": round(measured.time_ms, 3), "predicted_ms": round(predicted_ms, 3) if predicted_ms else None,
            "schedule": (decider.plan.schedule_name if decider.plan is not None else "given"), "delegates": 0,
            "phase": "adapted" if adapted and troubled else "between" if adapted else "slow" if troubled else "healthy",
            "links": [{"from": a, "to": b, "latency_ms": round(sorted(found)[len(found) // 2], 3), "transfer_ms": 0} for (a, b), found in sorted(times.items())],
            "work_ms": [round(value, 3) for value in work]})
        for happening in happened:
            self._line("events.jsonl", self._event(happening))
        if len(decider.decisions) > self._decisions:
            with open(os.path.join(self.path, "decisions.txt"), "a", encoding="utf-8") as file:
                file.write(decider.decisions[self._decisions:])
            self._decisions = len(decider.decisions)
        if happened:
            self._file("order.csv", order.text_of(decider.running))
            if decider.problem is not None:
                self._file("profile.yaml", json.dumps(decider.problem, indent=1) + "\n")  # JSON is YAML

    def _event(self, one: Happening) -> Dict[str, Any]:
        made: Dict[str, Any] = {"time_s": round(one.time_ms / 1e3, 6), "iteration": one.step, "kind": one.kind}
        event = one.event
        if event is None:
            return {**made, "seen": one.text, "decided": "", "why": ""}
        if event.from_rank is not None and event.to_rank is not None:
            made["link"] = [event.from_rank, event.to_rank]
        elif event.rank is not None:
            made["rank"] = event.rank
        return {**made, "seen": event.seen, "decided": event.decided, "why": event.why}

    def _line(self, name: str, value: Dict[str, Any]) -> None:
        with open(os.path.join(self.path, name), "a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def _file(self, name: str, text: str) -> None:
        path = os.path.join(self.path, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)
