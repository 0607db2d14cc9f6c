# SPDX-License-Identifier: Apache-2.0
"""A run's folder (docs/formats.md) for a PyTorch job, in the format of `slackline train`, so that `slackline report`, `draw` and
`dashboard` can show it."""
from __future__ import annotations

import atexit
import json
import logging
import os
import statistics
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple

from . import order
from .._library import version
from .._problem import Problem
from .deciding import Decider, Happening
from .measured import Measured, Shape, time_of
from .warning import warn


PHASES = ("healthy", "slow", "adapted", "between")


def opened(path: str, shape: Shape) -> Optional[Folder]:
    """None: it cannot be written, which does not concern the job. A finished run is never overwritten: as for `slackline train`, the next free number
    is appended."""
    try:
        found, number = path, 1
        while os.path.exists(os.path.join(found, "summary.json")):
            number += 1
            found = f"{os.path.normpath(path)}-{number}"
        if found != path:
            logging.getLogger("slackline").info("the run is written to %s, because %s has a finished one", found, path)
        return Folder(found, shape)
    except OSError as error:
        _warn(path, error)
        return None


def _warn(path: str, error: OSError) -> None:
    warn(f"the folder {path} is not written any more: {error}", stacklevel=3)


class Folder:
    """Writes only complete lines, and replaces files atomically. Used by one thread, and by the end of the process. If a file cannot be written,
    nothing more is."""

    def __init__(self, path: str, shape: Shape) -> None:
        os.makedirs(path, exist_ok=True)
        self.path, self._shape = path, shape
        self._decisions = 0
        self.delegates = 0  # per link and direction
        self.raised = ""  # by the latest step; set by the thread that trains
        self._lock, self._pid, self._ended = threading.Lock(), os.getpid(), False
        self._began, self._last, self._swaps = time.monotonic(), (0, 0.0), 0
        self._times: Dict[str, List[float]] = {phase: [] for phase in PHASES}
        self._ran: Deque[Tuple[int, float]] = deque()  # steps and their ms, until they or a later step have been written
        self._state: Dict[str, Any] = {"predicted_ms": None, "schedule": "given", "delegates": 0, "phase": "healthy"}  # of the latest line
        for name in ("metrics.jsonl", "events.jsonl", "decisions.txt"):
            open(os.path.join(path, name), "w", encoding="utf-8").close()
        self._timeline = _Timeline(os.path.join(path, "timeline.json"), shape.ranks, shape.replicas)
        self._line("events.jsonl", {"time_s": 0.0, "iteration": 0, "kind": "start", "decided": "", "why": "",
                                    "seen": f"a PyTorch job: {shape.ranks} ranks, {shape.stages} stages, {shape.replicas} replicas, {shape.microbatches} microbatches"})
        ended = weakref.WeakMethod(self.end)
        atexit.register(lambda: (one() if (one := ended()) else None))

    def step(self, replicas: Sequence[Measured], predicted_ms: Optional[float], decider: Decider, happened: Sequence[Happening]) -> None:
        self._write(lambda: self._step(replicas, predicted_ms, decider, happened))

    def _write(self, what: Callable[[], None], last: bool = False) -> None:
        with self._lock:
            if self._ended or os.getpid() != self._pid:
                return
            self._ended = last
            try:
                what()
            except OSError as error:
                self._ended = True
                _warn(self.path, error)

    def event(self, happening: Happening) -> None:
        """An event between two measured steps."""
        self._write(lambda: self._line("events.jsonl", self._event(happening)))

    def ran(self, step: int, time_ms: float) -> None:
        """The first rank's time of a step, which is all that is known if the step is not measured, or its records are not read before the end.
        Called by the thread that trains, which waits for nothing here."""
        if not self._ended:
            self._ran.append((step, time_ms))

    def end(self) -> None:
        """The job has ended, with its process or before; an exception that ended the process is named."""
        self._write(self._end, last=True)

    def _end(self) -> None:
        self._write_ran(None)
        error = getattr(sys, "last_value", None)
        why = self.raised if error is None else f"{type(error).__name__}: {error}"
        step, time_ms = self._last
        self._line("events.jsonl", {"time_s": round(time_ms / 1e3, 6), "iteration": step, "kind": "failed" if why else "end", "seen": "", "decided": "",
                                    "why": why})
        phases = {phase: {"time_ms": round(statistics.median(times), 3)} for phase, times in self._times.items() if times}
        self._file("summary.json", json.dumps({
            "format": "slackline-summary-1", "version": version(), "iterations": step + 1, "ranks": self._shape.ranks * self._shape.replicas,
            "layout": {"pipeline": self._shape.ranks, "data": self._shape.replicas, "tensor": 1, "zero": 0}, "phases": phases, "swaps": self._swaps,
            "seconds": round(time.monotonic() - self._began, 3)}, indent=1) + "\n")

    def _step(self, replicas: Sequence[Measured], predicted_ms: Optional[float], decider: Decider, happened: Sequence[Happening]) -> None:
        orchestrator, measured = decider.orchestrator, replicas[0]
        adapted = decider.version > 0 and orchestrator is not None and (orchestrator.adapted() or len(set(decider.split)) > 1)
        troubled = orchestrator is not None and orchestrator.troubled
        work = [0.0] * self._shape.ranks * len(replicas)
        times: Dict[Any, List[float]] = {}
        for replica, one_of in enumerate(replicas):
            for op in one_of.ops:
                work[replica * self._shape.ranks + op.rank] += op.end_ms - op.start_ms
            for one in one_of.transfers:
                times.setdefault((one.from_rank, one.to_rank), []).append(one.arrive_ms - one.start_ms)
        phase = "adapted" if adapted and troubled else "between" if adapted else "slow" if troubled else "healthy"
        self._write_ran(measured.step)
        self._times[phase].append(time_of(replicas))
        self._last, self._swaps = (measured.step, max(one.end_ms for one in replicas)), decider.version
        split = {"split": decider.split} if len(replicas) > 1 else {}
        self._state = {"predicted_ms": round(predicted_ms, 3) if predicted_ms else None,
                       "schedule": (decider.plan.schedule_name if decider.plan is not None else "given"), "delegates": self.delegates, "phase": phase}
        self._line("metrics.jsonl", {
            "iteration": measured.step, "time_ms": round(time_of(replicas), 3), **self._state,
            "links": [{"from": a, "to": b, "latency_ms": round(sorted(found)[len(found) // 2], 3), "transfer_ms": 0} for (a, b), found in sorted(times.items())],
            "work_ms": [round(value, 3) for value in work], **split})
        self._timeline.step(replicas, bool(happened))
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

    def _write_ran(self, until: Optional[int]) -> None:
        """Writes the lines of the steps before `until`, which is measured; None: of all."""
        while self._ran and (until is None or self._ran[0][0] <= until):
            step, time_ms = self._ran.popleft()
            if step == until:
                break
            self._times[self._state["phase"]].append(time_ms)
            self._line("metrics.jsonl", {"iteration": step, "time_ms": round(time_ms, 3), **self._state, "links": []})
            self._last = step, self._last[1] + time_ms

    def _event(self, one: Happening) -> Dict[str, Any]:
        made: Dict[str, Any] = {"time_s": round(one.time_ms / 1e3, 6), "iteration": one.step, "kind": one.kind}
        event = one.event
        if event is None:
            made.update({key: one.fields[key] for key in ("link", "replica", "split", "took_ms") if key in one.fields})
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

    def __init__(self, path: str, ranks: int, replicas: int) -> None:
        self._path, self._ranks = path, ranks
        self._first, self._later, self._after = self.FIRST, self.LATER, 0
        self._lanes: Set[Tuple[int, int]] = set()
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"displayTimeUnit":"ms","traceEvents":[\n{"ph":"M","pid":0,"name":"process_labels","args":{"labels":"slackline"}}')
            for process in range(ranks * replicas):
                rank, of = process % ranks, f"replica {process // ranks}, " if replicas > 1 else ""
                file.write(self._name(process, 0, "process_name", f"{of}rank {rank}") + self._name(process, 0, "thread_name", f"ops of rank {rank}"))
            file.write(self.END)

    def step(self, replicas: Sequence[Measured], happened: bool) -> None:
        self._after = self.AFTER if happened else self._after - 1
        if self._first > 0:
            self._first -= 1
        elif self._after > 0 and self._later > 0:
            self._later -= 1
        else:
            return
        text = "".join(self._of(one, replica * self._ranks) for replica, one in enumerate(replicas))
        with open(self._path, "r+", encoding="utf-8") as file:
            file.seek(os.path.getsize(self._path) - len(self.END))
            file.write(text + self.END)

    def _of(self, measured: Measured, first: int) -> str:
        """The events of a replica, whose ranks are the processes from `first` on."""
        text = "".join(self._event(first + op.rank, 0, op.op, op.op, op.stage, op.microbatch, op.start_ms, op.end_ms, measured.step) for op in measured.ops)
        busy: Dict[Tuple[int, int], List[float]] = {}
        for one in sorted(measured.transfers, key=lambda transfer: transfer.start_ms):
            lanes = busy.setdefault((one.from_rank, one.to_rank), [])
            lane = next((at for at, until in enumerate(lanes) if until <= one.start_ms), len(lanes))
            lanes[lane:lane + 1] = [one.arrive_ms]
            track = 1 + one.to_rank + self._ranks * lane
            if (first + one.from_rank, track) not in self._lanes:
                self._lanes.add((first + one.from_rank, track))
                text += self._name(first + one.from_rank, track, "thread_name", f"link to rank {one.to_rank}")
            text += self._event(first + one.from_rank, track, "transfer", one.op, one.stage, one.microbatch, one.start_ms, one.arrive_ms, measured.step)
        return text

    @staticmethod
    def _name(rank: int, track: int, what: str, name: str) -> str:
        return f',\n{{"ph":"M","pid":{rank},"tid":{track},"name":"{what}","args":{{"name":"{name}"}}}}'

    @staticmethod
    def _event(rank: int, track: int, kind: str, op: str, stage: int, microbatch: int, start: float, end: float, step: int) -> str:
        return (f',\n{{"ph":"X","pid":{rank},"tid":{track},"cat":"{kind}","name":"{op}{microbatch}","ts":{start * 1e3:.3f},"dur":{max(0.0, end - start) * 1e3:.3f},'
                f'"args":{{"iteration":{step},"stage":{stage},"microbatch":{microbatch}}}}}')
