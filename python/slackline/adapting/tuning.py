# SPDX-License-Identifier: Apache-2.0
"""A number that a job sets between two steps: each candidate is tried for a few steps, and the fastest is kept until the time of a step changes.

For orders that are code (megatron.py), whose times the timing model cannot predict. Independent of PyTorch and of any framework.
"""
from __future__ import annotations

import statistics
from typing import Dict, List, Optional

from .deciding import GAIN, Happening

SIZES_MAX = 5  # numbers that are tried
SETTLED, MEASURED = 1, 3  # steps of each: some that are not measured, then those whose median counts
CHANGED, LASTS = 0.1, 4  # share by which the time of a step must change, and steps for which
DWELL = 20  # steps between two trials at least; twice that after each later trial that changed nothing


def sizes(ranks: int, microbatches: int, at_most: Optional[int] = None) -> List[int]:
    """The numbers that megatron-core runs: no less than the ranks, with a last group that is whole or no less than the ranks."""
    found = [size for size in range(ranks, min(microbatches, at_most or microbatches) + 1) if microbatches % size == 0 or microbatches % size >= ranks]
    if len(found) <= SIZES_MAX:
        return found
    return [found[round(at * (len(found) - 1) / (SIZES_MAX - 1))] for at in range(SIZES_MAX)]


class Tuner:
    """On global rank 0: the number for each step, from the times of the steps before."""

    def __init__(self, given: int) -> None:
        self.given = self.kept = given
        self.events: List[Happening] = []
        self._trial: List[int] = []  # numbers that are still to be tried; the first one runs
        self._times: Dict[int, List[float]] = {}
        self._expected: Optional[float] = None
        self._candidates: List[int] = []
        self._dwell, self._since, self._odd = DWELL, 0, 0

    def next(self, step: int, time_ms: Optional[float], candidates: List[int], clock_ms: float) -> int:
        """time_ms: of the step before, with the number that ran; None: unknown."""
        if candidates != self._candidates:  # another number of microbatches, or memory is known now
            self._candidates, self._trial, self._expected = candidates, self._order(candidates), None
            self._times = {}
        elif self._trial:
            if time_ms is not None:
                self._times.setdefault(self._trial[0], []).append(time_ms)
            if len(self._times.get(self._trial[0], [])) >= SETTLED + MEASURED:
                self._trial.pop(0)
                if not self._trial:
                    self._choose(step, clock_ms)
        elif time_ms is not None:
            self._watch(step, time_ms, clock_ms)
        return self._trial[0] if self._trial else self.kept if self.kept in candidates or not candidates else self.given

    def _order(self, candidates: List[int]) -> List[int]:
        first = [one for one in (self.kept,) if one in candidates]
        return first + [one for one in candidates if one not in first] if len(candidates) > 1 else []

    def _choose(self, step: int, clock_ms: float) -> None:
        medians = {size: statistics.median(times[SETTLED:]) for size, times in self._times.items()}
        before, best = self.kept, min(medians, key=lambda size: medians[size])
        base = medians.get(before)
        if base is None or medians[best] < (1 - GAIN) * base:
            self.kept = best
        self._expected, self._since, self._odd = medians[self.kept], 0, 0
        self._dwell = 2 * self._dwell if self.kept == before and len(self.events) > 1 else DWELL
        times = ", ".join(f"{size}: {medians[size]:.0f} ms" for size in sorted(medians))
        self._say(step, clock_ms, "setting" if self.kept != before else "kept", f"microbatch_group_size_per_vp_stage {before} -> {self.kept} ({times})"
                  if self.kept != before else f"microbatch_group_size_per_vp_stage stays {before} ({times})")

    def _watch(self, step: int, time_ms: float, clock_ms: float) -> None:
        self._since += 1
        if self._expected is None:
            return
        self._odd = self._odd + 1 if abs(time_ms / self._expected - 1) > CHANGED else 0
        if self._odd >= LASTS and self._since >= self._dwell:
            self._say(step, clock_ms, "changed", f"a step takes {time_ms:.0f} ms, {self._expected:.0f} ms before: the numbers are tried again")
            self._trial, self._times = self._order(self._candidates), {}

    def _say(self, step: int, clock_ms: float, kind: str, text: str) -> None:
        self.events.append(Happening(step, clock_ms, kind, text))
