# SPDX-License-Identifier: Apache-2.0
"""Control messages between the ranks of a pipeline. Before each step the first rank sends a header with the order to all ranks.
After it all ranks send a record of their measurements to the first rank. These messages use a separate Gloo group.

The training thread makes all calls, and none waits for another rank longer than the training does: the ranks that wait for a
header need the first rank's activations next anyway, and a record is read two steps after it was sent. (A thread that waits in
Gloo at the end of the process would abort it.)

A new plan takes two phases, so that all ranks always run the same order. The header of a step carries the plan, and each rank
prepares it and reports that in its next record. The header of a later step then makes all ranks run it.
"""
from __future__ import annotations

import array
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .timings import Row

HEADER, PLAN, RECORD, PING = range(4)  # tags
ROUNDS = 8  # per comparison of clocks
FIELDS = 6


class Header(NamedTuple):
    """Sent by the first rank before each step."""
    step: int
    version: int  # of the order that this step runs
    offered: int  # version of the plan that follows; 0: none
    size: int  # bytes of it
    clocks: int  # 1: clocks are compared now
    over: int  # 1: the last header; the order stays


class Record(NamedTuple):
    """Sent by each other rank after each step, even one that raised."""
    step: int  # -1: not measured
    version: int  # of the order in this step
    prepared: int  # latest version that this rank can run
    begin: int  # ns of its clock
    end: int
    rows: int
    failed: int  # 1: this rank no longer measures
    offset: int  # ns by which its clock is ahead of the first rank's
    error: int  # ns, error bound of the offset


class Control:
    """The group, and this rank's position in it. Errors are PyTorch's RuntimeError."""

    def __init__(self, group: Any, rank: int, ranks: int, rows: int) -> None:
        """rows: largest number per record."""
        self._group, self.rank, self.ranks = group, rank, ranks
        self._size = len(Record._fields) + rows * FIELDS
        self._sent: List[Tuple[Any, Any]] = []  # Works, and the tensors that must live until their end
        self._reports: List[Tuple[Any, Any]] = []
        self._awaited: Dict[int, Tuple[Any, Any]] = {}  # the next record of each rank
        self.offset = self.error = 0

    @property
    def leads(self) -> bool:
        return self.rank == 0

    # ---- before a step

    def announce(self, header: Header, plan: bytes) -> None:
        """On the first rank: sends the header of a step, and a plan."""
        for work, _ in self._sent:
            work.wait()  # of the previous step: completed long ago
        self._sent = []
        for rank in range(1, self.ranks):
            self._send(header, rank, HEADER)
            if header.size:
                self._send_bytes(plan, rank, PLAN)
        if header.clocks:
            self._compare()

    def hear(self) -> Tuple[Header, bytes]:
        """On the other ranks: receives the header of a step, and a plan."""
        header = Header(*self._receive(len(Header._fields), 0, HEADER))
        plan = self._receive_bytes(header.size, 0, PLAN) if header.size else b""
        if header.clocks:
            self._compare()
        return header, plan

    def _compare(self) -> None:
        """Measures the offsets of clocks: the first rank answers the other ranks in turn, and each uses its shortest round trip."""
        if self.leads:
            for rank in range(1, self.ranks):
                for _ in range(ROUNDS):
                    self._receive(1, rank, PING)
                    self._send((time.monotonic_ns(),), rank, PING)
                    self._finish()
            return
        best: Optional[Tuple[int, int]] = None
        for _ in range(ROUNDS):
            sent = time.monotonic_ns()
            self._send((0,), 0, PING)
            (remote,) = self._receive(1, 0, PING)
            trip = time.monotonic_ns() - sent
            self._finish()
            if best is None or trip < best[0]:
                best = trip, sent + trip // 2 - remote
        assert best is not None
        self.error, self.offset = best[0] // 2 + 1, best[1]

    # ---- after a step

    def report(self, record: Record, rows: Sequence[Row]) -> None:
        """On the other ranks: sends the record of a step. Rows that do not fit are left out."""
        import torch
        import torch.distributed as dist
        rows = rows[:(self._size - len(Record._fields)) // FIELDS]
        flat = array.array("q", record._replace(rows=len(rows)))
        for row in rows:
            flat.extend(row)
        flat.extend([0] * (self._size - len(flat)))
        tensor = torch.frombuffer(flat, dtype=torch.int64)
        self._reports.append((dist.isend(tensor, group=self._group, group_dst=0, tag=RECORD), (tensor, flat)))
        while len(self._reports) > 2:
            self._reports.pop(0)[0].wait()  # the first rank has read it before this step

    def expect(self) -> None:
        """On the first rank: posts the receive of the next record of each other rank."""
        import torch
        import torch.distributed as dist
        for rank in range(1, self.ranks):
            if rank not in self._awaited:
                tensor = torch.empty(self._size, dtype=torch.int64)
                self._awaited[rank] = dist.irecv(tensor, group=self._group, group_src=rank, tag=RECORD), tensor

    def collect(self) -> List[Any]:
        """On the first rank: the next record of each other rank, for `parsed`."""
        found = []
        for rank in range(1, self.ranks):
            work, tensor = self._awaited.pop(rank)
            work.wait()
            found.append(tensor)
        return found

    # ---- tensors

    def _send(self, values: Sequence[int], rank: int, tag: int) -> None:
        import torch
        import torch.distributed as dist
        tensor = torch.tensor(tuple(values), dtype=torch.int64)
        self._sent.append((dist.isend(tensor, group=self._group, group_dst=rank, tag=tag), tensor))

    def _send_bytes(self, values: bytes, rank: int, tag: int) -> None:
        import torch
        import torch.distributed as dist
        tensor = torch.frombuffer(bytearray(values), dtype=torch.uint8)
        self._sent.append((dist.isend(tensor, group=self._group, group_dst=rank, tag=tag), tensor))

    def _finish(self) -> None:
        for work, _ in self._sent:
            work.wait()
        self._sent = []

    def _receive(self, count: int, rank: int, tag: int) -> List[int]:
        import torch
        import torch.distributed as dist
        tensor = torch.empty(count, dtype=torch.int64)
        dist.irecv(tensor, group=self._group, group_src=rank, tag=tag).wait()
        return [int(value) for value in tensor.tolist()]

    def _receive_bytes(self, count: int, rank: int, tag: int) -> bytes:
        import torch
        import torch.distributed as dist
        tensor = torch.empty(count, dtype=torch.uint8)
        dist.irecv(tensor, group=self._group, group_src=rank, tag=tag).wait()
        return bytes(tensor.tolist())


def parsed(tensor: Any) -> Tuple[Record, List[Row]]:
    """A record from `Control.collect`, with its rows."""
    flat = tensor.tolist()
    head = len(Record._fields)
    record = Record(*flat[:head])
    return record, [tuple(flat[at:at + FIELDS]) for at in range(head, head + record.rows * FIELDS, FIELDS)]
