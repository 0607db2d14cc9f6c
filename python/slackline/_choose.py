# SPDX-License-Identifier: Apache-2.0
"""The best ways to train a model on a cluster, as `slackline choose` finds them."""
from __future__ import annotations

import ctypes
import json
import os
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Mapping, Optional, Sequence, Tuple, Union

from . import _library
from ._errors import InvalidRequest
from ._plan import Plan, _Source, _plan_of, _seconds, _whole
from ._problem import Changes, Problem, _assignments, _named_text
from ._search import interruptible

TextLike = Union[Mapping[str, Any], str, "os.PathLike[str]"]
"""A model or a cluster: a dict, a text in YAML or JSON, or a file."""


@dataclass(frozen=True)
class Spent:
    """Where the time of an iteration goes, in ms, on average over ranks; the sum is `iteration_ms`."""
    computed_ms: float
    recomputed_ms: float
    tensor_ms: float  # messages of tensor ranks that no computation hides; likewise:
    context_ms: float
    expert_ms: float
    weights_ms: float  # waiting for weights and gradients (ZeRO 2 and 3)
    sums_ms: float  # over replicas, as far as no op runs meanwhile
    bubble_ms: float
    update_ms: float  # of the weights


@dataclass(frozen=True)
class Arrangement:
    """A way to divide a model over a cluster, with its predicted time. GB are 1e9 bytes."""
    tensor: int  # ranks of each group; expert ranks are among the data ranks
    context: int
    expert: int
    data: int
    pipeline: int
    chunks: int  # stages of a pipeline rank
    placement: str  # "linear", "loop" or "wave"
    microbatch_size: int  # sequences
    microbatches: int  # of the replica that takes longest
    zero: int
    recompute: str  # "none" or "attention"
    recomputed_stages: Tuple[int, ...]  # that recompute all of their layers
    neighbors: str  # devices next to each other: "replicas" of a stage, or "stages" of a replica
    schedule_name: str
    cut: Tuple[int, ...]  # first layer of each stage, then the number of layers
    iteration_ms: float
    lower_bound_ms: float  # proven: these sizes with no cut and schedule take less
    tokens_per_s: float
    memory_gb: float  # of the rank that needs most
    memory_gb_by_rank: Tuple[float, ...]
    spent: Spent
    offload: str = "none"  # what is in host memory: "none", "optimizer", "activations" or "both"
    host_memory_gb: float = 0  # of the rank that needs most
    split: Tuple[int, ...] = ()  # microbatches of each replica
    positions: Tuple[str, ...] = ()  # device of each rank, such as "node0/3": tensor ranks fastest, then context ranks, replicas, pipeline ranks
    regime: str = "decoupled"  # of messages between stages
    communicators: Optional[str] = None  # of these, in regime "fifo"
    _source: ClassVar[Optional["Tuple[_Choices, int]"]] = None  # not a field: choose sets it on each arrangement

    def problem(self) -> Problem:
        """The pipeline of one replica, with its layers and the chosen cut."""
        handle = _library.make("choices_problem", *self._asked())
        try:
            return Problem(_library.text("problem_write", handle))
        finally:
            _library.function("problem_free")(handle)

    def plan(self) -> Plan:
        """The plan of one replica's pipeline. The update of the weights follows it."""
        return _plan_of(_Source(_library.make("choices_plan", *self._asked())))

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_source"}

    def _asked(self) -> Tuple[Any, int]:
        if self._source is None:
            raise InvalidRequest("this arrangement was put together by hand, copied, or comes from another process, and has no plan")
        choices, index = self._source
        return choices.handle, index


@dataclass(frozen=True)
class Choices:
    """The best arrangements: by time, and each needs less memory than those before it."""
    arrangements: Tuple[Arrangement, ...]
    lower_bound_ms: float  # proven: nothing in the searched space takes less; 0: ended before there was a bound
    gap: float  # (time of the first - bound) / bound
    shapes: int  # in the searched space: arrangements without cut and schedule
    dismissed: int  # of these: by their bound
    estimated: int  # by a short plan
    planned: int  # completely
    solve_ms: float
    communicators_ms: Mapping[str, float]  # regime "fifo", communicators not given: iteration of the first with each
    text: str  # a table of the arrangements


class _Choices:
    """The library's handle, freed when neither a caller nor an arrangement refers to it."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        _library.freed_with(self, "choices_free", handle)


class _Chooser:
    def __init__(self) -> None:
        self.handle = _library.make("chooser_make")
        _library.freed_with(self, "chooser_free", self.handle)

    def set(self, name: str, *arguments: Any) -> None:
        _library.call("chooser_" + name, self.handle, *arguments)


def choose(model: TextLike, cluster: TextLike, time_limit: float = 10, *, fix: Optional[Mapping[str, Any]] = None,
           schedules: Sequence[str] = (), most: int = 8, changes: Optional[Changes] = None, seed: int = 1,
           threads: int = 0) -> Choices:
    """Chooses how to divide a model over a cluster: sizes, cut, placement, recomputation, schedule.

    model       a dict, a YAML text, or a file's name: a model file or a Hugging Face config.json (docs/choosing.md)
    cluster     likewise: hosts, links and devices
    time_limit  seconds of the search, 0 to 86,400
    fix         values that the search must not change, as --fix: {"tensor": 8, "placement": "wave"}
    schedules   the only families that may be planned; none: any order
    most        maximum number of arrangements, 1 to 32
    changes     to the model, as with --set: {"batch.sequences": 512}
    seed        of the search; the number of rounds depends on the time
    threads     of the search; 0: one per processor, at most 8

    Ctrl-C ends a search. Raises InvalidRequest, NoAnswer (nothing divides the model over the devices, or fits into their
    memory), OutOfMemory, SystemFailure, LibraryNotFound.
    """
    chooser = _Chooser()
    for name, value in (fix or {}).items():
        chooser.set("fix", _library.encoded(name, "the name of a fixed value"), _library.encoded(str(value), "a fixed value"))
    for schedule in (schedules,) if isinstance(schedules, str) else schedules:
        chooser.set("allow", _library.encoded(schedule, "a schedule's name"))
    chooser.set("set_time_limit", _seconds(time_limit))
    chooser.set("set_most", _whole(most, 32, "most"))
    chooser.set("set_threads", _whole(threads, 32, "threads"))
    _library.function("chooser_set_seed")(chooser.handle, _whole(seed, 64, "seed"))
    texts = _assignments(changes)
    array = (ctypes.c_char_p * len(texts))(*texts) if texts else None
    words = [*_words(model, "model"), *_words(cluster, "cluster"), array, len(texts)]
    found = interruptible(lambda: _Choices(_library.make("chooser_parse", chooser.handle, *words)),
                          lambda: _library.function("chooser_stop")(chooser.handle))
    return _choices_of(found)


def _words(source: TextLike, what: str) -> Tuple[bytes, bytes]:
    """The name and the text for the library."""
    name, text = _named_text(source, what, f"a {what} is a dict, a YAML text or a file's name")
    if text is None:
        try:
            with open(name, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except OSError as error:
            raise InvalidRequest(f"{name}: {error.strerror}") from None
    return _library.encoded(name, f"the name of a {what}"), _library.encoded(text, what)


def _choices_of(choices: _Choices) -> Choices:
    parsed = json.loads(_library.text("choices_write", choices.handle, b"json"))
    made = Choices(arrangements=tuple(_arrangement(choices, index, one) for index, one in enumerate(parsed["arrangements"])),
                   text=_library.text("choices_write", choices.handle, b"text"),
                   **{name: parsed[name] for name in ("lower_bound_ms", "gap", "shapes", "dismissed", "estimated", "planned", "solve_ms", "communicators_ms")})
    return made


def _arrangement(choices: _Choices, index: int, one: Mapping[str, Any]) -> Arrangement:
    names = ("tensor", "context", "expert", "data", "pipeline", "chunks", "placement", "microbatch_size", "microbatches", "zero", "recompute",
             "neighbors", "iteration_ms", "lower_bound_ms", "tokens_per_s", "memory_gb", "offload",
             "host_memory_gb")
    spent = ("computed", "recomputed", "tensor", "context", "expert", "weights", "sums", "bubble", "update")
    made = Arrangement(schedule_name=one["schedule"], cut=tuple(one["cut"]), recomputed_stages=tuple(one["recomputed_stages"]),
                       memory_gb_by_rank=tuple(one["memory_gb_by_rank"]), split=tuple(one["split"]), positions=tuple(one["positions"]),
                       regime=one["communication"]["regime"], communicators=one["communication"].get("communicators"),
                       spent=Spent(**{f"{name}_ms": one["time_ms"][name] for name in spent}),
                       **{name: one[name] for name in names})
    object.__setattr__(made, "_source", (choices, index))
    return made
