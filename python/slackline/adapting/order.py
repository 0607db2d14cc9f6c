# SPDX-License-Identifier: Apache-2.0
"""Orders of ops as rows of cells, and as actions of PyTorch's runtime.

A cell is an op such as 0F7: stage, op (F, I, W or B) and microbatch. A row is the sequence of ops of one rank. `lowered` adds the
other actions that PyTorch's runtime needs: messages, sharding, and the reduction of gradients. Each receive is posted long before
its op, so a late message does not hold up others (the timing model's `decoupled` regime).
"""
from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

CELL = re.compile(r"(\d+)([FIWB])(\d+)")
POSTED = 2  # largest number of receives per channel that are posted after each op


class Cell(NamedTuple):
    stage: int
    op: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.op}{self.microbatch}"


Rows = List[List[Cell]]
Channel = Tuple[int, int, str]  # from a rank, to a rank, "F" or "B"; messages arrive in the order of their sends


def rows_of(order: Mapping[int, Sequence[Any]]) -> Rows:
    """PyTorch's actions of each rank as rows of ops only. The ops of one block (OVERLAP_F_B) follow each other, as in PyTorch's
    runtime. Raises ValueError for an unknown action."""
    rows: Rows = []
    for rank in sorted(order):
        row: List[Cell] = []
        for action in order[rank]:
            for part in (getattr(action, "sub_actions", None) or [action]) if action is not None else []:
                if re.search(r"SEND|RECV|UNSHARD|RESHARD|REDUCE", str(part)):
                    continue
                found = CELL.fullmatch(str(part))
                if not found:
                    raise ValueError(f"'{part}' is not a known op")
                row.append(Cell(int(found[1]), found[2], int(found[3])))
        rows.append(row)
    return rows


def one_forward_one_backward(ranks: int, microbatches: int) -> Rows:
    """The order that PyTorch's Schedule1F1B runs; its own `pipeline_order` is wrong on the last rank (2.13)."""
    rows: Rows = []
    for rank in range(ranks):
        ahead = min(microbatches, ranks - rank)
        row = [Cell(rank, "F", microbatch) for microbatch in range(ahead)]
        for microbatch in range(microbatches):
            row.append(Cell(rank, "B", microbatch))
            if microbatch + ahead < microbatches:
                row.append(Cell(rank, "F", microbatch + ahead))
        rows.append(row)
    return rows


def is_complete(rows: Rows, stages: int, microbatches: int) -> bool:
    """Whether each microbatch has every op of each stage exactly once: F, and either B or I and W."""
    found = Counter(cell for row in rows for cell in row)
    each = [(found[Cell(stage, op, microbatch)] for op in "FBIW") for stage in range(stages) for microbatch in range(microbatches)]
    return all(tuple(one) in ((1, 1, 0, 0), (1, 0, 1, 1)) for one in each) and len({cell.stage for cell in found} | set(range(stages))) == stages \
        and all(0 <= cell.microbatch < microbatches for cell in found)


def text_of(rows: Rows) -> str:
    """The rows as CSV in PyTorch's compute_only form."""
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def digest(rows: Rows) -> str:
    """By which ranks compare their orders."""
    return hashlib.sha256(text_of(rows).encode()).hexdigest()[:16]


def parsed(text: str) -> Rows:
    return [[Cell(int(stage), op, int(microbatch)) for stage, op, microbatch in CELL.findall(line)] for line in text.splitlines()]


def whole(rows: Rows) -> Rows:
    """The rows with each I replaced by a full backward, and without W. For stages with a backward that cannot be split."""
    return [[cell._replace(op="B") if cell.op == "I" else cell for cell in row if cell.op != "W"] for row in rows]


def is_split(rows: Rows) -> bool:
    return any(cell.op == "W" for row in rows for cell in row)


def ascends(rows: Rows) -> bool:
    """Whether each stage adds the gradients of its microbatches in ascending order, which makes gradients bit-identical."""
    latest: Dict[int, int] = {}
    for row in rows:
        for cell in row:
            if cell.op in "WB":
                if cell.microbatch < latest.get(cell.stage, -1):
                    return False
                latest[cell.stage] = cell.microbatch
    return True


def forwards(rows: Rows, stages: Collection[int]) -> Rows:
    """The forwards of some stages on each rank, in their order."""
    return [[cell for cell in row if cell.op == "F" and cell.stage in stages] for row in rows]


def last_backwards(rows: Rows) -> List[List[int]]:
    """The stages of each rank, in the order in which their backwards end."""
    return [[stage for _, stage in sorted((at, stage) for stage, at in {cell.stage: at for at, cell in enumerate(row) if cell.op in "WB"}.items())] for row in rows]


def runs(rows: Rows, stages: int) -> bool:
    """Whether PyTorch's runtime can run the rows: it finds the losses of microbatches by their position."""
    last = [cell.microbatch for row in rows for cell in row if cell.op == "F" and cell.stage == stages - 1]
    return last == sorted(last)


def alternates(rows: Rows) -> bool:
    """Whether each rank runs forwards and backwards in ascending order, and the last rank each backward right after its forward."""
    for row in rows:
        for op in ("F", "B"):
            ran = [cell.microbatch for cell in row if cell.op == op]
            if ran != sorted(ran):
                return False
    return all(a.op == "F" and b.op == "B" and a.microbatch == b.microbatch for a, b in zip(rows[-1][::2], rows[-1][1::2]))


def placement_of(ranks: Sequence[int], count: int) -> Optional[str]:
    """The placement with stage s on rank ranks[s] of `count`, as the planner knows it: "linear", "loop" or "wave"; None: any other."""
    stages = len(ranks)
    if count < 1 or stages % count:
        return None
    if all(rank == stage % count for stage, rank in enumerate(ranks)):
        return "linear" if stages == count else "loop"
    wave = all(rank == (stage % count if stage // count % 2 == 0 else count - 1 - stage % count) for stage, rank in enumerate(ranks))
    return "wave" if wave else None


# ---- messages ----------------------------------------------------------------------------------------------------------------


def channels(rows: Rows, rank_of: Sequence[int]) -> Dict[Channel, List[Cell]]:
    """The ops with messages over each channel, in the order of their sends."""
    found: Dict[Channel, List[Cell]] = {}
    for rank, row in enumerate(rows):
        for cell in row:
            peer = receiver(cell, rank_of)
            if peer is not None and peer != rank:
                found.setdefault((rank, peer, "F" if cell.op == "F" else "B"), []).append(cell)
    return found


def receiver(cell: Cell, rank_of: Sequence[int]) -> Optional[int]:
    """The rank that needs the result of an op; None: no other op needs it."""
    to = cell.stage + 1 if cell.op == "F" else cell.stage - 1 if cell.op in "IB" else -1
    return rank_of[to] if 0 <= to < len(rank_of) else None


def needed(cell: Cell, rank_of: Sequence[int]) -> Optional[Tuple[Channel, int]]:
    """The channel of the message that an op needs, and its sending stage; None: the op needs no message."""
    source = cell.stage - 1 if cell.op == "F" else cell.stage + 1 if cell.op in "IB" else -1
    if not 0 <= source < len(rank_of) or rank_of[source] == rank_of[cell.stage]:
        return None
    return (rank_of[source], rank_of[cell.stage], "F" if cell.op == "F" else "B"), source


def lowered(rows: Rows, rank_of: Sequence[int], microbatches: int, ahead: Optional[int] = None) -> List[List[str]]:
    """The rows with their messages, sharding and reductions, in PyTorch's compute_comms form.

    ahead  number of receives per channel that may be posted before they are needed; None: any number
    """
    sent = channels(rows, rank_of)
    return [_with_messages(_with_sharding(row, microbatches), rank, sent, rank_of, ahead) for rank, row in enumerate(rows)]


def _with_sharding(row: Sequence[Cell], microbatches: int) -> List[str]:
    from torch.distributed.pipelining import schedules
    actions = [schedules._Action.from_str(str(cell)) for cell in row]
    return [str(action) for action in schedules._add_reduce_grad(schedules._add_unshard_reshard(actions), microbatches)]


class _Posting:
    """The receives of one channel, each posted once, in the order of their sends."""

    def __init__(self, cells: Sequence[Cell], step: int) -> None:
        # a receive names the receiver's stage
        self.names = [(f"{cell.stage + step}RECV_{'F' if cell.op == 'F' else 'B'}{cell.microbatch}", cell.microbatch, cell.stage) for cell in cells]
        self.posted = self.used = 0

    def post(self, out: List[str], count: int, ahead: Optional[int]) -> None:
        while count > 0 and self.posted < len(self.names) and (ahead is None or self.posted - self.used < ahead):
            out.append(self.names[self.posted][0])
            self.posted += 1
            count -= 1

    def need(self, out: List[str], microbatch: int, stage: int) -> None:
        at = next(i for i, name in enumerate(self.names) if name[1:] == (microbatch, stage))
        while self.posted <= at:
            out.append(self.names[self.posted][0])
            self.posted += 1
        self.used += 1


def _with_messages(row: Sequence[str], rank: int, sent: Mapping[Channel, List[Cell]], rank_of: Sequence[int],
                   ahead: Optional[int]) -> List[str]:
    posting = {channel: _Posting(cells, 1 if channel[2] == "F" else -1) for channel, cells in sent.items() if channel[1] == rank}
    out: List[str] = []
    for channel, receives in posting.items():
        if channel[2] == "F":
            receives.post(out, POSTED, ahead)
    for name in row:
        found = CELL.fullmatch(name)
        if not found:
            out.append(name)
            continue
        cell = Cell(int(found[1]), found[2], int(found[3]))
        needs = needed(cell, rank_of)
        if needs:
            posting[needs[0]].need(out, cell.microbatch, needs[1])
        out.append(name)
        peer = receiver(cell, rank_of)
        if peer is not None and peer != rank:
            out.append(f"{cell.stage}SEND_{'F' if cell.op == 'F' else 'B'}{cell.microbatch}")
        for receives in posting.values():
            receives.post(out, POSTED, ahead)
    return out

