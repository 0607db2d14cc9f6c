# SPDX-License-Identifier: Apache-2.0
"""All orders of a tiny problem, and the best of their values by the reference."""
import itertools

import values
from reference import Op, Replay


def rows_of(problem, rank):
    """Every order of the rank's ops in which each comes after those of the same rank that it needs, with B or I and W for each backward; if that
    saves time, also with any F and the B after it overlapped."""
    pairs = [(stage, microbatch) for stage in range(problem.stages) if problem.rank(stage) == rank for microbatch in problem.microbatches_of(stage)]
    found = []
    for full in itertools.product((False, True), repeat=len(pairs)):
        ops = [Op(stage, kind, microbatch) for (stage, microbatch), b in zip(pairs, full) for kind in ("FB" if b else "FIW")]
        _extend(problem, [], ops, found)
    return [other for row in found for other in _overlapped(row)] if any(problem.saved) else found


def _overlapped(row):
    if len(row) < 2:
        return [row]
    (first,), (second,) = row[:2]
    found = [row[:1] + rest for rest in _overlapped(row[1:])]
    if first.kind == "F" and second.kind == "B" and (first.stage, first.microbatch) != (second.stage, second.microbatch):
        found += [[(first, second), *rest] for rest in _overlapped(row[2:])]
    return found


def _extend(problem, row, left, found):
    if not left:
        found.append(row)
    for op in left:
        here = [other for other in left for stage, kinds, microbatch in problem.needs(op)
                if other.stage == stage and other.kind in kinds and other.microbatch == microbatch]
        if not here:
            _extend(problem, row + [(op,)], [other for other in left if other != op], found)


def least(problem):
    """The best value of an order within the memory limits, and that order; None if there is none."""
    best, best_order = None, None
    for order in itertools.product(*(rows_of(problem, rank) for rank in range(problem.ranks))):
        replay = Replay(problem, order)
        if not replay.stuck and all(values.peak_memory(problem, replay, rank) <= problem.limit[rank] for rank in range(problem.ranks)):
            value = values.value(problem, order, replay)
            if best is None or value < best:
                best, best_order = value, order
    return best, best_order
