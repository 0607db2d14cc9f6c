# SPDX-License-Identifier: Apache-2.0
"""Process groups of PyTorch whose sends and receives are carried by delegates (libslackline_transport) instead of the backend.

All ranks of a pipeline open one transport together, or none does: they exchange addresses, the key, and errors through the job's
store. A group is one channel of the transport. Messages leave from host memory: a tensor on a device is copied there on the
current stream, and a thread hands it over once the copy is complete.
"""
from __future__ import annotations

import atexit
import base64
import os
import queue
import secrets
import socket
import threading
import time
import weakref
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist

from .. import _transport
from .._errors import SlacklineError
from .._transport import Delegates, Message, Transport, TransportEvent
from .agreement import Round

START_S = 20.0
LINGER_S = 2.0
SLICE_S = 0.2  # of a wait, between which Python handles signals


# ---- Works ------------------------------------------------------------------------------------------------------------------


class _Work(dist.Work):  # type: ignore[misc]
    """A message under way. `buffer` is the host memory that the transport uses, `tensor` that of the job."""

    def __init__(self, link: str, timeout_s: float, tensor: Any, buffer: Any, receives: bool) -> None:
        super().__init__()
        self._link, self._timeout_s = link, timeout_s
        self._tensor, self._buffer, self._receives = tensor, buffer, receives
        self._lock = threading.Lock()
        self._handed = threading.Event()
        self._message: Optional[Message] = None
        self._error: Optional[BaseException] = None
        self._over = False

    def handed(self, post: Callable[[int, int], Message]) -> None:
        """Hands the buffer over."""
        try:
            self._message = post(self._buffer.data_ptr(), self._buffer.numel() * self._buffer.element_size())
        except Exception as error:
            self._error = error
        self._handed.set()

    @property
    def settled(self) -> bool:
        """Whether the transport is done with the buffer."""
        return self._handed.is_set() and (self._message is None or self._message.completed)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        seconds = timeout.total_seconds() if timeout else 0.0
        until = time.monotonic() + (seconds if seconds > 0 else self._timeout_s)
        while not self._look(max(0.0, min(SLICE_S, until - time.monotonic()))):
            if time.monotonic() >= until:
                raise dist.DistBackendError(f"slackline: {self._link}: timed out after {seconds or self._timeout_s:g} s")
        if self._error is not None:
            raise dist.DistBackendError(f"slackline: {self._error}") from self._error
        self._finish()
        return True

    def _look(self, seconds: float) -> bool:
        if not self._handed.wait(seconds):
            return False
        if self._error is None and self._message is not None:
            try:
                return self._message.wait(seconds)
            except SlacklineError as error:
                self._error = error
        return True

    def _finish(self) -> None:
        """Copies what has arrived to the job's tensor, once: on the current stream, if it is on a device."""
        with self._lock:
            if self._receives and not self._over and self._buffer is not self._tensor:
                with torch.no_grad():
                    self._tensor.copy_(self._buffer, non_blocking=True)
            self._over = True

    def is_completed(self) -> bool:
        return self._look(0.0)

    def is_success(self) -> bool:
        return self._look(0.0) and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def synchronize(self) -> None:
        self.wait()


# ---- the transport of a rank ------------------------------------------------------------------------------------------------


class Carrier:
    """The transport of this rank, shared by its groups."""
    _open: "weakref.WeakSet[Carrier]" = weakref.WeakSet()

    def __init__(self, transport: Transport, rank: int, timeout_s: float) -> None:
        self.transport, self._rank, self._timeout_s = transport, rank, timeout_s
        self._pid = os.getpid()
        self._pending: Deque[_Work] = deque()  # keeps buffers alive until the transport is done with them, also of Works that were dropped
        self._lock = threading.Lock()
        self._copies: "queue.SimpleQueue[Optional[Tuple[Any, _Work, Callable[[int, int], Message]]]]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._down: Set[Tuple[int, int, int, int]] = set()
        self._closed = False
        Carrier._open.add(self)

    def send(self, peer: int, channel: int, tensor: Any) -> _Work:
        tensor = tensor.detach()
        work = _Work(f"link {self._rank} -> {peer}", self._timeout_s, tensor, self._outgoing(tensor), False)
        return self._post(work, lambda address, size: self.transport.send(peer, channel, address, size))

    def receive(self, peer: int, channel: int, tensor: Any) -> _Work:
        tensor = tensor.detach()
        direct = tensor.device.type == "cpu" and tensor.is_contiguous()
        buffer = tensor if direct else torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=tensor.device.type != "cpu")
        work = _Work(f"link {peer} -> {self._rank}", self._timeout_s, tensor, buffer, True)
        return self._post(work, lambda address, size: self.transport.receive(peer, channel, address, size))

    def _outgoing(self, tensor: Any) -> Any:
        """The tensor's bytes in host memory: its own, or a copy that may still be under way."""
        tensor = tensor.resolve_conj().resolve_neg()
        if tensor.device.type == "cpu":
            return tensor.contiguous()
        buffer = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        buffer.copy_(tensor, non_blocking=True)
        return buffer

    def _post(self, work: _Work, post: Callable[[int, int], Message]) -> _Work:
        with self._lock:
            while self._pending and self._pending[0].settled:
                self._pending.popleft()
            self._pending.append(work)
        if work._receives or work._tensor.device.type == "cpu":
            work.handed(post)
        else:
            event = torch.Event(device=work._tensor.device)
            event.record()
            self._later(event, work, post)
        return work

    def _later(self, event: Any, work: _Work, post: Callable[[int, int], Message]) -> None:
        """Hands a message over when the copy to host memory is done; in the order of the calls."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._hand_over, name="slackline copies", daemon=True)
            self._thread.start()
        self._copies.put((event, work, post))

    def _hand_over(self) -> None:
        while (one := self._copies.get()) is not None:
            event, work, post = one
            event.synchronize()
            work.handed(post)

    def happened(self) -> List[Tuple[str, str, int, int, int]]:
        """Events since the last call, without those of a normal start and end: kind (docs/reference/events.md), text, from rank, to
        rank, ns of this rank's clock."""
        found: List[TransportEvent] = []
        for one in self.transport.events() if os.getpid() == self._pid else []:
            rail = one.from_rank, one.to_rank, one.queue, one.rail
            if one.kind == "down":
                self._down.add(rail)
            if one.kind in ("down", "lost", "replaced", "stranger") or one.kind == "up" and rail in self._down:
                found.append(one)
            if one.kind == "up":
                self._down.discard(rail)
        return [(KINDS[one.kind], _text(one), one.from_rank, one.to_rank, one.time_ns) for one in found]

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        if self._thread is not None:
            self._copies.put(None)
            self._thread.join(LINGER_S)
        self.transport.close(LINGER_S)


KINDS = {"down": "rail", "up": "rail", "lost": "rail", "replaced": "replaced", "stranger": "stranger"}


def _text(one: TransportEvent) -> str:
    if one.kind in ("up", "down"):
        what = "carries messages again" if one.kind == "up" else "lost"
        return f"rail {one.rail} of delegate {one.queue} {what}{': ' if one.text else ''}{one.text}"
    return one.text if one.kind == "lost" else f"delegate {one.queue}: {one.text}"


def _close_all() -> None:
    for one in list(Carrier._open):
        one.close()


atexit.register(_close_all)


# ---- the group --------------------------------------------------------------------------------------------------------------


class CarriedGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group with send and recv only: one channel of a transport."""

    def __init__(self, rank: int, size: int, carrier: Carrier, channel: int, name: str) -> None:
        super().__init__(rank, size)
        self._carrier, self._channel, self._name = carrier, channel, name

    def send(self, tensors: Any, dst: int, tag: int = 0) -> _Work:
        return self._carrier.send(dst, self._channel, self._only(tensors, tag))

    def recv(self, tensors: Any, src: int, tag: int = 0) -> _Work:
        return self._carrier.receive(src, self._channel, self._only(tensors, tag))

    @staticmethod
    def _only(tensors: Any, tag: int) -> Any:
        if len(tensors) != 1 or tag != 0:
            raise ValueError("slackline's groups carry one tensor at a time, without tags")
        if tensors[0].layout is not torch.strided:
            raise ValueError(f"slackline's groups carry dense tensors, not {tensors[0].layout}")
        return tensors[0]

    def getBackendName(self) -> str:
        return "slackline"

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._name

    def shutdown(self) -> None:
        self._carrier.close()

    def abort(self) -> None:
        self._carrier.close()


# ---- opening ----------------------------------------------------------------------------------------------------------------


def links_of(rank_of: Sequence[int]) -> Set[Tuple[int, int]]:
    """The directed links that carry activations."""
    return {(a, b) for a, b in zip(rank_of, rank_of[1:]) if a != b}


def rails_here() -> List[str]:
    """The interfaces or addresses for peers on other hosts: SLACKLINE_RAILS, else the address that reaches the job's store; none: the
    library chooses."""
    named = [one.strip() for one in os.environ.get("SLACKLINE_RAILS", "").split(",") if one.strip()]
    if named or not os.environ.get("MASTER_ADDR"):
        return named
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(os.environ["MASTER_ADDR"], 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing: it chooses the route
            own = str(probe.getsockname()[0])
    except OSError:
        return []
    return [] if own.startswith("127.") or own == "::1" or own.startswith("fe80") else [own]


def exchanged(round: Round, step: str, make: Callable[[], Any]) -> List[Any]:
    """What all ranks make. Raises RuntimeError with the reason of the first rank that cannot: on all ranks alike."""
    try:
        own: Dict[str, Any] = {"value": make()}
    except Exception as error:
        own = {"error": f"{type(error).__name__}: {error}"}

    def judge(said: List[Dict[str, Any]], why: str) -> Dict[str, Any]:
        why = why or next((f"rank {rank}: {one['error']}" for rank, one in enumerate(said) if "error" in one), "")
        return {"error": why} if why else {"value": [one["value"] for one in said]}
    found = round.meet(f"transport/{step}", own, judge)
    if "error" in found:
        raise RuntimeError(found["error"])
    return list(found["value"])


def opened(round: Round, rank_of: Sequence[int], timeout: timedelta, delegates: Delegates = Delegates()) -> Tuple[Carrier, int]:
    """The carrier of this rank and its number of channels: one, or one for activations and one for gradients where both use a link.
    All ranks call it. Raises RuntimeError on all of them with the same reason, and nothing is left, if one cannot."""
    rank, ranks, forward = round.member.group_rank, round.member.group_size, links_of(rank_of)
    channels = 2 if any((b, a) in forward for a, b in forward) else 1
    peers = sorted({b for a, b in forward if a == rank} | {a for a, b in forward if b == rank})
    transport: Optional[Transport] = None

    def prepare() -> str:
        nonlocal transport
        transport = Transport(rank, ranks, base64.b64decode(secret), peers=peers, hosts=hosts, channels=channels, rails=delegates.rails or rails_here(),
                              delegates=delegates.number, prove_frames=int(delegates.prove_frames), **({"program": os.fsencode(delegates.program)} if delegates.program else {}))
        return base64.b64encode(transport.block).decode()

    def start() -> bool:
        assert transport is not None
        transport.start([base64.b64decode(one) for one in blocks], START_S)
        return True
    try:
        hosts = exchanged(round, "host", _transport.host)
        secret = exchanged(round, "key", lambda: base64.b64encode(secrets.token_bytes(32)).decode() if rank == 0 else "")[0]
        blocks = exchanged(round, "block", prepare)
        exchanged(round, "start", start)
    except BaseException:
        if transport is not None:
            transport.close(0.0)
        raise
    assert transport is not None
    return Carrier(transport, rank, timeout.total_seconds()), channels


def groups_of(carrier: Carrier, channels: int, make: Callable[[str, Callable[[str], Any]], Any], rank: int, ranks: int) -> Callable[[str, bool], Any]:
    """The process group for "F" or "B" messages, to a higher rank or to a lower one. `make` registers a group that a function makes from its name."""
    made = [make(f"transport-{channel}", lambda name, channel=channel: CarriedGroup(rank, ranks, carrier, channel, name))  # type: ignore[misc]
            for channel in range(channels)]
    return lambda kind, up: made[0 if kind == "F" else -1]
