# SPDX-License-Identifier: Apache-2.0
"""A run's folder (docs/formats.md) for a PyTorch job, in the format of `slackline train`, so that `slackline report`, `draw` and
`dashboard` can show it."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from . import order
from .._problem import Problem
from .deciding import Decider, Happening, Measured, Shape, time_of


class Folder:
    """Writes only complete lines, and replaces files atomically. Used by one thread."""

    def __init__(self, path: str, shape: Shape) -> None:
        os.makedirs(path, exist_ok=True)
        self.path, self._shape = path, shape
        self._decisions = 0
        self.delegates = 0  # per link and direction
        for name in ("metrics.jsonl", "events.jsonl", "decisions.txt"):
            open(os.path.join(path, name), "w", encoding="utf-8").close()
        self._timeline = _Timeline(os.path.join(path, "timeline.json"), shape.ranks)

    def step(self, replicas: Sequence[Measured], predicted_ms: Optional[float], decider: Decider, happened: Sequence[Happening]) -> None:
        orchestrator, measured = decider.orchestrator, replicas[0]
        adapted = decider.version > 0 and orchestrator is not None and orchestrator.adapted()
        troubled = orchestrator is not None and orchestrator.troubled
        work = [0.0] * self._shape.ranks * len(replicas)
        times: Dict[Any, List[float]] = {}
        for replica, one_of in enumerate(replicas):
            for op in one_of.ops:
                work[replica * self._shape.ranks + op.rank] += op.end_ms - op.start_ms
            for one in one_of.transfers:
                times.setdefault((one.from_rank, one.to_rank), []).append(one.arrive_ms - one.start_ms)
        split = {"split": decider.split} if len(replicas) > 1 else {}
        self._line("metrics.jsonl", {
            "iteration": measured.step, "time_ms": round(time_of(replicas), 3), "predicted_ms": round(predicted_ms, 3) if predicted_ms else None,
            "schedule": (decider.plan.schedule_name if decider.plan is not None else "given"), "delegates": self.delegates,
            "phase": "adapted" if adapted and troubled else "between" if adapted else "slow" if troubled else "healthy",
            "links": [{"from": a, "to": b, "latency_ms": round(sorted(found)[len(found) // 2], 3), "transfer_ms": 0} for (a, b), found in sorted(times.items())],
            "work_ms": [round(value, 3) for value in work], **split})
        self._timeline.step(measured, bool(happened))
        for happening in happened:
            self._line("events.jsonl", self._event(happening))
        if len(decider.decisions) > self._decisions:
            with open(os.path.join(self.path, "decisions.txt"), "a", encoding="utf-8") as file:
                file.write(decider.decisions[self._decisions:])
            self._decisions = len(decider.decisions)
        if happened:
            self._file("order.csv", order.text_of(decider.running))
            if decider.problem is not None:
                problem = decider.problem
                self._file("profile.yaml", problem.yaml() if isinstance(problem, Problem) else json.dumps(problem, indent=1) + "\n")  # JSON is YAML

    def _event(self, one: Happening) -> Dict[str, Any]:
        made: Dict[str, Any] = {"time_s": round(one.time_ms / 1e3, 6), "iteration": one.step, "kind": one.kind}
        event = one.event
        if event is None:
            made.update({key: one.fields[key] for key in ("link", "replica") if key in one.fields})
            return {**made, "seen": one.text, "decided": "", "why": ""}
        if event.from_rank is not None and event.to_rank is not None:
            made["link"] = [event.from_rank, event.to_rank]
        elif event.rank is not None:
            made["rank"] = event.rank
        if event.replica is not None and self._shape.replicas > 1:
            made["replica"] = event.replica
        return {**made, "seen": event.seen, "decided": event.decided, "why": event.why}

    def _line(self, name: str, value: Dict[str, Any]) -> None:
        with open(os.path.join(self.path, name), "a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def _file(self, name: str, text: str) -> None:
        path = os.path.join(self.path, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


class _Timeline:
    """timeline.json: a trace for Chrome and Perfetto of the first steps, and of some steps after each event. The file is valid after each step."""
    FIRST, LATER, AFTER = 400, 200, 10
    END = "\n]}\n"

    def __init__(self, path: str, ranks: int) -> None:
        self._path, self._ranks = path, ranks
        self._first, self._later, self._after = self.FIRST, self.LATER, 0
        self._lanes: Set[Tuple[int, int]] = set()
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit":"ms","traceEvents":[\n{"ph":"M","pid":0,"name":"process_labels","args":{"labels":"slackline"}}')
            for rank in range(ranks):
                file.write(self._name(rank, 0, "process_name", f"rank {rank}") + self._name(rank, 0, "thread_name", f"ops of rank {rank}"))
            file.write(self.END)

    def step(self, measured: Measured, happened: bool) -> None:
        self._after = self.AFTER if happened else self._after - 1
        if self._first > 0:
            self._first -= 1
        elif self._after > 0 and self._later > 0:
            self._later -= 1
        else:
            return
        text = "".join(self._event(op.rank, 0, op.op, op.op, op.stage, op.microbatch, op.start_ms, op.end_ms, measured.step) for op in measured.ops)
        busy: Dict[Tuple[int, int], List[float]] = {}
        for one in sorted(measured.transfers, key=lambda transfer: transfer.start_ms):
            lanes = busy.setdefault((one.from_rank, one.to_rank), [])
            lane = next((at for at, until in enumerate(lanes) if until <= one.start_ms), len(lanes))
            lanes[lane:lane + 1] = [one.arrive_ms]
            track = 1 + one.to_rank + self._ranks * lane
            if (one.from_rank, track) not in self._lanes:
                self._lanes.add((one.from_rank, track))
                text += self._name(one.from_rank, track, "thread_name", f"link to rank {one.to_rank}")
            text += self._event(one.from_rank, track, "transfer", one.op, one.stage, one.microbatch, one.start_ms, one.arrive_ms, measured.step)
        with open(self._path, "r+", encoding="utf-8") as file:
            file.seek(os.path.getsize(self._path) - len(self.END))
            file.write(text + self.END)

    @staticmethod
    def _name(rank: int, track: int, what: str, name: str) -> str:
        return f',\n{{"ph":"M","pid":{rank},"tid":{track},"name":"{what}","args":{{"name":"{name}"}}}}'

    @staticmethod
    def _event(rank: int, track: int, kind: str, op: str, stage: int, microbatch: int, start: float, end: float, step: int) -> str:
        return (f',\n{{"ph":"X","pid":{rank},"tid":{track},"cat":"{kind}","name":"{op}{microbatch}","ts":{start * 1e3:.3f},"dur":{max(0.0, end - start) * 1e3:.3f},'
                f'"args":{{"iteration":{step},"stage":{stage},"microbatch":{microbatch}}}}}')
