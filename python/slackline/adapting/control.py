# SPDX-License-Identifier: Apache-2.0
"""Control messages between the ranks of a pipeline, and between the first ranks of its replicas. Before each step the first rank
sends a header with the order to all ranks; while nothing changes, one header is for several steps. After a measured step all ranks
send a record of their measurements to the first rank. These messages use a separate Gloo group.

The training thread makes all calls, and none waits for another rank longer than the training does: the ranks that wait for a
header need the first rank's activations next anyway, and a record is read two steps after it was sent. (A thread that waits in
Gloo at the end of the process would abort it.)

A new plan takes two phases, so that all ranks always run the same order. The header of a step carries the plan, and each rank
prepares it and reports that in its next record. The header of a later step then makes all ranks run it. With replicas, the header of
the step before already announces it, because it may change the number of microbatches (replicas.py).
"""
from __future__ import annotations

import array
import contextlib
import ctypes
import functools
import os
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, cast

from .timings import TEXT, Row

HEADER, PLAN, RECORD, PING, SHARED = range(5)  # tags
ROUNDS = 8  # per comparison of clocks
FIELDS = 6
UNDER_WAY = 3  # headers whose sends may be unfinished
REPORTED = 8  # likewise, records


class Header(NamedTuple):
    """Sent by the first rank before a step."""
    step: int
    version: int  # of the order that this step runs
    next: int  # of the order that the next step runs, as far as known
    offered: int  # version of the plan that follows; 0: none
    size: int  # bytes of it
    clocks: int  # 1: clocks are compared now
    over: int  # 1: the last header; the order stays
    urgent: int = 0  # 1: the first ranks of other replicas send the records of the latest step at once
    measured: int = 1  # 1: all ranks measure the step
    ahead: int = 0  # so many steps after this one have no header: they run the same order and are not measured


class Record(NamedTuple):
    """Sent by each other rank after each measured step, even one that raised."""
    step: int  # -1: not measured
    version: int  # of the order in this step
    prepared: int  # latest version that this rank can run
    begin: int  # ns of its clock
    end: int
    rows: int
    failed: int  # 1: this rank no longer measures
    raised: int  # number of steps so far that raised an error
    offset: int  # ns by which its clock is ahead of the first rank's
    error: int  # ns, error bound of the offset
    turned: int  # ns that this rank's latest change of order took; 0: there was none


class Control:
    """The group, and this rank's position in it. Errors are PyTorch's RuntimeError."""

    def __init__(self, group: Any, rank: int, ranks: int, size: int) -> None:
        """size: numbers per record."""
        self._group, self.rank, self.ranks, self.size = group, rank, ranks, size
        self._sent: List[List[Tuple[Any, Any]]] = [[]]  # per header: Works, and the tensors that must live until their end
        self._reports: List[Tuple[Any, Any]] = []
        self._awaited: Dict[int, Tuple[Any, Any]] = {}  # the next record of each rank
        self.offset = self.error = 0

    @property
    def leads(self) -> bool:
        return self.rank == 0

    # ---- before a step

    def announce(self, header: Header, plans: Sequence[bytes]) -> None:
        """On the first rank: sends the header of a step to each other rank, and its plan."""
        self._sent.append([])
        while len(self._sent) > UNDER_WAY:
            for work, _ in self._sent.pop(0):
                work.wait()  # completed long ago
        for rank in range(1, self.ranks):
            self._send(header._replace(size=len(plans[rank])), rank, HEADER)
            if plans[rank]:
                self._send_bytes(plans[rank], rank, PLAN)

    def hear(self) -> Tuple[Header, bytes]:
        """On the other ranks: receives the header of a step, and a plan."""
        header = Header(*self._receive(len(Header._fields), 0, HEADER))
        return header, self._receive_bytes(header.size, 0, PLAN) if header.size else b""

    def compare(self) -> None:
        """On all ranks: measures the offsets of clocks. The first rank answers the other ranks in turn, and each uses its shortest
        round trip."""
        if self.leads:
            for rank in range(1, self.ranks):
                for _ in range(ROUNDS):
                    self._receive(1, rank, PING)
                    self._ping(time.monotonic_ns(), rank)
            return
        best: Optional[Tuple[int, int]] = None
        for _ in range(ROUNDS):
            sent = time.monotonic_ns()
            self._ping(0, 0)
            (remote,) = self._receive(1, 0, PING)
            trip = time.monotonic_ns() - sent
            if best is None or trip < best[0]:
                best = trip, sent + trip // 2 - remote
        assert best is not None
        self.error, self.offset = best[0] // 2 + 1, best[1]

    def share(self, value: int) -> int:
        """On all ranks, after the header: the first rank's value."""
        if not self.leads:
            return self._receive(1, 0, SHARED)[0]
        for rank in range(1, self.ranks):
            self._send([value], rank, SHARED)
        return value

    # ---- after a step

    def report(self, record: Any) -> None:
        """On the other ranks: sends the record of a step, a tensor of `size` numbers."""
        self._reports.append((self._isend(record, 0, RECORD), record))
        while len(self._reports) > REPORTED:
            self._reports.pop(0)[0].wait()  # the first rank has read it before this step

    def expect(self) -> None:
        """On the first rank: posts the receive of the next record of each other rank."""
        import torch
        for rank in range(1, self.ranks):
            if rank not in self._awaited:
                tensor = torch.empty(self.size, dtype=torch.int64, device="cpu")
                self._awaited[rank] = self._irecv(tensor, rank, RECORD), tensor

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
        tensor = torch.tensor(tuple(values), dtype=torch.int64, device="cpu")
        self._sent[-1].append((self._isend(tensor, rank, tag), tensor))

    def _send_bytes(self, values: bytes, rank: int, tag: int) -> None:
        import torch
        tensor = torch.frombuffer(bytearray(values), dtype=torch.uint8)
        self._sent[-1].append((self._isend(tensor, rank, tag), tensor))

    def _ping(self, value: int, rank: int) -> None:
        import torch
        self._isend(torch.tensor([value], device="cpu"), rank, PING).wait()

    def _receive(self, count: int, rank: int, tag: int) -> List[int]:
        import torch
        tensor = torch.empty(count, dtype=torch.int64, device="cpu")
        self._irecv(tensor, rank, tag).wait()
        return [int(value) for value in tensor.tolist()]

    def _receive_bytes(self, count: int, rank: int, tag: int) -> bytes:
        import torch
        tensor = torch.empty(count, dtype=torch.uint8, device="cpu")
        self._irecv(tensor, rank, tag).wait()
        return bytes(tensor.tolist())

    def _isend(self, tensor: Any, rank: int, tag: int) -> Any:
        import torch.distributed as dist
        with _unrecorded():
            return dist.isend(tensor, group=self._group, group_dst=rank, tag=tag)

    def _irecv(self, tensor: Any, rank: int, tag: int) -> Any:
        import torch.distributed as dist
        with _unrecorded():
            return dist.irecv(tensor, group=self._group, group_src=rank, tag=tag)


@contextlib.contextmanager
def _unrecorded() -> Iterator[None]:
    """PyTorch's profiler records a message from its begin to its end. These messages may end some steps later, when the profiler has stopped and has
    freed what it would write the end into."""
    import torch
    if not _records()():
        yield
        return
    torch.autograd._enable_record_function(False)
    try:
        yield
    finally:
        torch.autograd._enable_record_function(True)


@functools.lru_cache(maxsize=None)
def _records() -> Callable[[], bool]:
    """Tells whether functions of this thread are recorded: `_enable_record_function` has no counterpart in Python. The program may have turned it off,
    and then it stays off."""
    import torch
    try:
        path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
        found = ctypes.PyDLL(path, os.RTLD_NOW | os.RTLD_NOLOAD)["_ZN2at23isRecordFunctionEnabledEv"]  # bool at::isRecordFunctionEnabled()
    except (OSError, AttributeError):  # another platform: it is on unless a program has turned it off
        return lambda: True
    found.argtypes, found.restype = (), ctypes.c_bool
    return cast(Callable[[], bool], found)


def room(rows: int) -> int:
    """The numbers of a record with at most `rows` rows."""
    return len(Record._fields) + rows * FIELDS


def flattened(record: Record, rows: Sequence[Row], size: int) -> Any:
    """A record as a tensor of `size` numbers. Rows that do not fit are left out."""
    import torch
    rows = rows[:(size - len(Record._fields)) // FIELDS]
    flat = array.array("q", record._replace(rows=len(rows)))
    for row in rows:
        flat.extend(row)
    flat.extend([0] * (size - len(flat)))
    return torch.frombuffer(flat, dtype=torch.int64)  # which keeps the array


def rows_of_text(text: str) -> List[Row]:
    """A text as rows of a record, 16 bytes in each."""
    data = text.encode()
    parts = [data[at:at + 16].ljust(16, b"\0") for at in range(0, len(data), 16)]
    return [(TEXT, int(index == 0), len(data), 0, int.from_bytes(part[:8], "little", signed=True), int.from_bytes(part[8:], "little", signed=True))
            for index, part in enumerate(parts)]


def texts_of_rows(rows: Sequence[Row]) -> List[str]:
    """The texts among the rows of a record. Incomplete ones are left out."""
    found: List[Tuple[int, bytes]] = []
    for what, first, size, _, one, two in rows:
        if what == TEXT:
            part = b"".join(value.to_bytes(8, "little", signed=True) for value in (one, two))
            if first:
                found.append((size, part))
            elif found:
                found[-1] = size, found[-1][1] + part
    return [data[:size].decode(errors="replace") for size, data in found if len(data) >= size]


def parsed(flat: Sequence[int]) -> Tuple[Record, List[Row]]:
    """A record from its numbers, with its rows."""
    head = len(Record._fields)
    record = Record(*flat[:head])
    rows: List[Row] = [tuple(flat[at:at + FIELDS]) for at in range(head, head + record.rows * FIELDS, FIELDS)]  # type: ignore[misc]
    return record, rows
