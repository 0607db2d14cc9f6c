# SPDX-License-Identifier: Apache-2.0
"""libslackline_transport through ctypes: messages between the ranks of a job, carried by delegates (include/slackline/transport.h)."""
from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, List, NamedTuple, Optional, Sequence

from . import _library
from ._errors import InvalidRequest, LibraryNotFound, OutOfMemory, SlacklineError, SystemFailure

MOST = 8  # rails; also delegates per direction of a link, over all of its channels
FILE = f"libslackline_transport.so.{_library.INTERFACE}"
KINDS = ("up", "down", "stranger", "closed", "lost", "replaced")
PENDING, LOST = 2, 5


class Delegates(NamedTuple):
    """How `adapt(transport=...)` carries messages. Only `number` and `prove_frames` must be the same on all ranks."""
    rails: Sequence[str] = ()  # towards other hosts: interfaces or own addresses; empty: those of SLACKLINE_RAILS, else one
    number: int = 1  # per direction of a link; a large message is divided among them
    program: Optional[str] = None  # slackline-delegate; None: SLACKLINE_DELEGATE, else it is searched
    prove_frames: bool = False  # every frame proves that it comes from this job (docs/security.md), not only every connection

    @classmethod
    def checked(cls, given: Any) -> Optional["Delegates"]:
        """Of the argument `transport`; None: "torch". Raises InvalidRequest."""
        if given == "torch" or given == "slackline":
            return None if given == "torch" else cls()
        if not isinstance(given, cls):
            raise InvalidRequest(f'transport must be "torch", "slackline" or slackline.Delegates, got {given!r}')
        rails = [given.rails] if isinstance(given.rails, str) else list(given.rails)
        if len(rails) > MOST or not all(isinstance(one, str) and one for one in rails):
            raise InvalidRequest(f"transport: rails must be at most {MOST} names of interfaces or addresses, got {given.rails!r}")
        if isinstance(given.number, bool) or not isinstance(given.number, int) or not 1 <= given.number <= MOST // 2:
            raise InvalidRequest(f"transport: the number of delegates must be from 1 to {MOST // 2}, got {given.number!r}")
        if not isinstance(given.prove_frames, bool):
            raise InvalidRequest(f"transport: prove_frames must be True or False, got {given.prove_frames!r}")
        return given._replace(rails=rails)


class LinkLost(SlacklineError, RuntimeError):
    """A peer is gone or misbehaves; the text names the link."""


_ERRORS = {1: InvalidRequest, 3: OutOfMemory, 4: SystemFailure, LOST: LinkLost}


class OptionsStruct(ctypes.Structure):
    """slackline_transport_options"""
    _fields_ = [("rank", c_int), ("ranks", c_int), ("peers", c_char_p), ("hosts", POINTER(c_char_p)), ("key", c_char_p), ("channels", c_int),
                ("delegates", c_int), ("rails", POINTER(c_char_p)), ("rail_count", c_int), ("piece_bytes", c_size_t), ("slots", c_int),
                ("prove_frames", c_int), ("silence_ns", c_int64), ("refusal_ns", c_int64), ("outage_ns", c_int64), ("program", c_char_p)]


class EventStruct(ctypes.Structure):
    """slackline_transport_event"""
    _fields_ = [("happening", c_int), ("from_rank", c_int), ("to_rank", c_int), ("queue", c_int), ("rail", c_int), ("time_ns", c_int64),
                ("text", c_char * 112)]


class TransportEvent(NamedTuple):
    kind: str  # of KINDS
    from_rank: int
    to_rank: int
    queue: int
    rail: int  # -1: none
    time_ns: int  # of time.monotonic_ns
    text: str


# name: (result, arguments); include/slackline/transport.h
_FUNCTIONS = {
    "version": (c_char_p, []),
    "error": (c_char_p, []),
    "host": (c_int, [c_char_p, c_size_t]),
    "defaults": (None, [c_void_p]),
    "prepare": (c_int, [c_void_p, POINTER(c_void_p)]),
    "block": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "start": (c_int, [c_void_p, c_char_p, c_int64]),
    "send": (c_int, [c_void_p, c_int, c_int, c_void_p, c_size_t, POINTER(c_void_p)]),
    "receive": (c_int, [c_void_p, c_int, c_int, c_void_p, c_size_t, POINTER(c_void_p)]),
    "wait": (c_int, [c_void_p, c_int64]),
    "completed": (c_int64, [c_void_p]),
    "release": (None, [c_void_p]),
    "next_event": (c_int, [c_void_p, c_void_p]),
    "delegates": (c_int, [c_void_p, POINTER(c_int), c_int]),
    "close": (None, [c_void_p, c_int64]),
}


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded and declared. Searched where libslackline is, and next to the file that SLACKLINE_LIBRARY names;
    SLACKLINE_TRANSPORT_LIBRARY names another one. Raises LibraryNotFound."""
    sibling = os.environ.get("SLACKLINE_LIBRARY")
    near = os.path.join(os.path.dirname(os.path.abspath(sibling)), FILE) if sibling else None
    found = _library.load(FILE, "SLACKLINE_TRANSPORT_LIBRARY", near)
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(found, "slackline_transport_" + name)
        except AttributeError:
            raise LibraryNotFound(f"'{found._name}' is no {FILE}: it has no slackline_transport_{name}") from None
        function.restype, function.argtypes = result, arguments
    return found


def _call(name: str, *arguments: Any) -> None:
    status = getattr(library(), "slackline_transport_" + name)(*arguments)
    if status:
        raise _ERRORS.get(status, SlacklineError)(library().slackline_transport_error().decode(errors="replace"))


def host() -> str:
    """Identifies this host: processes with equal texts reach each other without a network."""
    text = ctypes.create_string_buffer(128)
    _call("host", text, len(text))
    return text.value.decode()


class Message:
    """A posted message. Its memory must not change until `completed`."""

    def __init__(self, handle: c_void_p, release: Any) -> None:
        self._handle, self._release = handle, release

    def wait(self, seconds: float) -> bool:
        """Whether it is complete, after at most this time. Raises LinkLost."""
        status = library().slackline_transport_wait(self._handle, int(seconds * 1e9))
        if status == PENDING:
            return False
        if status:
            raise _ERRORS.get(status, SlacklineError)(library().slackline_transport_error().decode(errors="replace"))
        return True

    @property
    def completed(self) -> bool:
        """Whether nothing touches its memory any more: it is complete, or lost."""
        return bool(library().slackline_transport_completed(self._handle))

    def __del__(self) -> None:
        self._release(self._handle)


class Transport:
    """The messages of one rank. All functions may be called by any thread; after a fork only the parent can use it."""

    def __init__(self, rank: int, ranks: int, key: bytes, *, peers: Optional[Sequence[int]] = None, hosts: Optional[Sequence[str]] = None,
                 channels: int = 1, rails: Sequence[str] = (), **more: Any) -> None:
        """peers: ranks with messages to or from this one. Other names are those of slackline_transport_options."""
        options = OptionsStruct()
        library().slackline_transport_defaults(ctypes.byref(options))
        options.rank, options.ranks, options.channels, options.key = rank, ranks, channels, key
        if len(key) != 32:
            raise InvalidRequest(f"a key of {len(key)} bytes, not 32")
        if peers is not None:
            options.peers = bytes(int(one in peers) for one in range(ranks))
        if hosts is not None:
            if len(hosts) != ranks:
                raise InvalidRequest(f"{len(hosts)} hosts of {ranks} ranks")
            options.hosts = (c_char_p * ranks)(*(_library.encoded(one, "a host") for one in hosts))
        options.rails, options.rail_count = (c_char_p * len(rails))(*(_library.encoded(one, "a rail") for one in rails)), len(rails)
        for name, value in more.items():
            setattr(options, name, value)
        self._handle = c_void_p()
        self._pid = os.getpid()
        _call("prepare", ctypes.byref(options), ctypes.byref(self._handle))

    @property
    def block(self) -> bytes:
        """The bytes for the other ranks."""
        size = c_size_t()
        return ctypes.string_at(library().slackline_transport_block(self._handle, ctypes.byref(size)), size.value)

    def start(self, blocks: Sequence[bytes], seconds: float) -> None:
        """Starts the delegates, given the blocks of all ranks, and waits until each link has a rail. Raises LinkLost, SystemFailure."""
        if any(len(one) != len(self.block) for one in blocks):
            raise InvalidRequest("blocks of different sizes")
        _call("start", self._handle, b"".join(blocks), int(seconds * 1e9))

    def send(self, peer: int, channel: int, address: int, size: int) -> Message:
        return self._post("send", peer, channel, address, size)

    def receive(self, peer: int, channel: int, address: int, size: int) -> Message:
        return self._post("receive", peer, channel, address, size)

    def _post(self, how: str, peer: int, channel: int, address: int, size: int) -> Message:
        if not self._handle:
            raise LinkLost("the transport was closed")
        message = c_void_p()
        _call(how, self._handle, peer, channel, address, size, ctypes.byref(message))
        return Message(message, library().slackline_transport_release)

    def events(self) -> List[TransportEvent]:
        """The events since the last call."""
        found: List[TransportEvent] = []
        one = EventStruct()
        while self._handle and library().slackline_transport_next_event(self._handle, ctypes.byref(one)):
            found.append(TransportEvent(KINDS[one.happening], one.from_rank, one.to_rank, one.queue, one.rail, one.time_ns, one.text.decode(errors="replace")))
        return found

    def delegates(self) -> List[int]:
        """Process ids of the living delegates."""
        pids = (c_int * 4096)()
        count = library().slackline_transport_delegates(self._handle, pids, len(pids)) if self._handle else 0
        return list(pids[:min(count, len(pids))])

    def close(self, linger_s: float = 5.0) -> None:
        """Waits until all sent messages have arrived, at most `linger_s`, and ends the delegates. No other thread may use the transport."""
        handle, self._handle = self._handle, c_void_p()
        if handle and os.getpid() == self._pid:
            library().slackline_transport_close(handle, int(linger_s * 1e9))
