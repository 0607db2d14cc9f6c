# SPDX-License-Identifier: Apache-2.0
"""A plan as a table of AMD's Primus (its pipeline in place of Megatron-LM's): a list of nodes per rank, which Primus runs in order.

Primus asserts that a message finds its op, and an op its message, by microbatch and chunk. It sends and receives consecutive nodes together,
sends to higher ranks first on even ranks. Nodes with a `time_step` of their own are posted one by one, so that both ranks of a link post their
messages in one sequence. Each forward takes the next batch of its chunk's iterator, so those of a stage must be in the order of microbatches. Primus leaves
every weight gradient to a W, if its linear layers are split at all: a backward of such a plan that runs in one piece is a B and a W right after it.
"""
from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any, List

from ._errors import NoAnswer

if TYPE_CHECKING:
    from ._plan import Plan

NODES = "primus.core.pipeline_parallel.scheduler.scheduler_node"
CELL = re.compile(r"(\d+)(SEND_F|RECV_F|SEND_B|RECV_B|F|I|W|B)(\d+)")
FUNCTIONS = {"F": "F", "I": "B", "W": "W", "B": "BW", "SEND_F": "SF", "SEND_B": "SB", "RECV_F": "RF", "RECV_B": "RB"}


def primus_table(plan: "Plan") -> List[List[Any]]:
    if plan.placement == "bidirectional":
        raise NoAnswer("Primus has no bidirectional placement")
    try:
        nodes = importlib.import_module(NODES)
    except ImportError as error:
        raise ImportError(f"a table of Primus needs Primus ({NODES}): {error}") from error
    for stage in range(plan.stages):
        forwards = [op.microbatch for op in sorted(plan.ops, key=lambda op: op.start_ms) if op.stage == stage and op.op == "F"]
        if forwards != sorted(forwards):
            raise NoAnswer(f"Primus reads batches in order, and the forwards of stage {stage} are in another one")
    return [_Row(plan, rank, nodes).made(line) for rank, line in enumerate(plan.csv_comms().splitlines())]


class _Row:
    """The nodes of a rank."""

    def __init__(self, plan: "Plan", rank: int, nodes: Any) -> None:
        self._plan, self._rank, self._nodes = plan, rank, nodes
        self._rank_of = {op.stage: op.rank for op in plan.ops}
        self._splits = any(op.op == "I" for op in plan.ops)
        self._row: List[Any] = []

    def made(self, line: str) -> List[Any]:
        for cell in CELL.finditer(line):
            stage, action, microbatch = int(cell[1]), cell[2], int(cell[3])
            before, after = (stage - 1, stage + 1) if action == "F" else (stage + 1, stage - 1)
            computes = action in ("F", "I", "B")
            if computes and self._here(before):  # messages within a rank, which csv_comms does not have
                self._message(stage, "RECV_F" if action == "F" else "RECV_B", microbatch)
            if "_" in action:
                self._message(stage, action, microbatch)
            else:
                for one in "IW" if action == "B" and self._splits else action:
                    self._add(stage, one, microbatch, None)
            if computes and self._here(after):
                self._message(stage, "SEND_F" if action == "F" else "SEND_B", microbatch)
        return self._row

    def _here(self, stage: int) -> bool:
        return self._rank_of.get(stage) == self._rank

    def _message(self, stage: int, action: str, microbatch: int) -> None:
        peer = stage + (1 if action in ("SEND_F", "RECV_B") else -1)
        sends, chunk = action.startswith("SEND"), peer // self._plan.ranks
        from_rank, to_rank = (self._rank, self._rank_of[peer]) if sends else (self._rank_of[peer], self._rank)
        self._add(stage, action, microbatch, {"from_pp_rank": from_rank, "to_pp_rank": to_rank, "send_to_chunk" if sends else "recv_from_chunk": chunk,
                                              "time_step": len(self._row)})

    def _add(self, stage: int, action: str, microbatch: int, arguments: Any) -> None:
        self._row.append(self._nodes.SchedulerNode(func_type=self._nodes.FuncType[FUNCTIONS[action]], mini_batch=microbatch, chunk=stage // self._plan.ranks,
                                                   args=arguments))
