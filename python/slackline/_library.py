# SPDX-License-Identifier: Apache-2.0
"""libslackline through ctypes: loads it, declares its functions, and turns its failures into exceptions.

The library is loaded once per process, at the first call that needs it. It keeps its error text per thread, and ctypes
releases the interpreter's lock during a call, so several threads can plan simultaneously.
"""
from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys
import weakref
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Optional

from ._errors import InvalidRequest, LibraryNotFound, NoAnswer, OutOfMemory, SlacklineError, SystemFailure
from ._find import for_loader, in_package, trust

INTERFACE = "0.1"  # until 1.0 a minor version may change the interface, so the file's name carries it
FILE = f"libslackline.so.{INTERFACE}"
_STATUS = {1: InvalidRequest, 2: NoAnswer, 3: OutOfMemory, 4: SystemFailure}


class JitterStruct(ctypes.Structure):
    """slackline_jitter"""
    _fields_ = [("draws", c_int), ("mean_ns", c_double), ("least_ns", c_int64), ("p10_ns", c_int64), ("p50_ns", c_int64),
                ("p90_ns", c_int64), ("p99_ns", c_int64), ("most_ns", c_int64)]


class LossesStruct(ctypes.Structure):
    """slackline_losses"""
    _fields_ = [("work_ns", c_int64), ("imbalance_ns", c_int64), ("fill_ns", c_int64), ("collectives_ns", c_int64),
                ("dependency_ns", c_int64), ("blocking_ns", c_int64), ("links", c_int), ("ops", c_int)]


_handle = POINTER(c_void_p)
_texts = POINTER(c_char_p)
# name: (result, arguments); include/slackline/*.h
_FUNCTIONS = {
    "version": (c_char_p, []),
    "error": (c_char_p, []),
    "free": (None, [c_void_p]),
    "problem_read": (c_int, [c_char_p, _texts, c_int, _handle]),
    "problem_parse": (c_int, [c_char_p, c_char_p, _texts, c_int, _handle]),
    "problem_free": (None, [c_void_p]),
    "problem_ranks": (c_int, [c_void_p]),
    "problem_stages": (c_int, [c_void_p]),
    "problem_microbatches": (c_int, [c_void_p]),
    "problem_overhead": (c_int64, [c_void_p, c_int, c_int]),
    "measure_overhead": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, POINTER(c_int64), POINTER(c_int64)]),
    "problem_write": (c_int, [c_void_p, _handle, POINTER(c_size_t)]),
    "schedule_name": (c_char_p, [c_int]),
    "planner_make": (c_int, [_handle]),
    "planner_free": (None, [c_void_p]),
    "planner_set_schedule": (c_int, [c_void_p, c_char_p]),
    "planner_set_time_limit": (c_int, [c_void_p, c_double]),
    "planner_set_seed": (None, [c_void_p, c_uint64]),
    "planner_set_threads": (c_int, [c_void_p, c_int]),
    "planner_set_exact": (None, [c_void_p, c_int]),
    "planner_stop": (None, [c_void_p]),
    "planner_plan": (c_int, [c_void_p, c_void_p, _handle]),
    "simulate_csv": (c_int, [c_void_p, c_char_p, _handle]),
    "simulate_csv_text": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, _handle]),
    "chooser_make": (c_int, [_handle]),
    "chooser_free": (None, [c_void_p]),
    "chooser_fix": (c_int, [c_void_p, c_char_p, c_char_p]),
    "chooser_allow": (c_int, [c_void_p, c_char_p]),
    "chooser_set_time_limit": (c_int, [c_void_p, c_double]),
    "chooser_set_most": (c_int, [c_void_p, c_int]),
    "chooser_set_seed": (None, [c_void_p, c_uint64]),
    "chooser_set_threads": (c_int, [c_void_p, c_int]),
    "chooser_stop": (None, [c_void_p]),
    "chooser_parse": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_char_p, _texts, c_int, _handle]),
    "choices_free": (None, [c_void_p]),
    "choices_problem": (c_int, [c_void_p, c_int, _handle]),
    "choices_plan": (c_int, [c_void_p, c_int, _handle]),
    "choices_write": (c_int, [c_void_p, c_char_p, _handle, POINTER(c_size_t)]),
    "plan_free": (None, [c_void_p]),
    "plan_jitter": (c_int, [c_void_p, c_int, c_uint64, POINTER(JitterStruct)]),
    "plan_explain": (c_int, [c_void_p, POINTER(LossesStruct)]),
    "plan_write": (c_int, [c_void_p, c_char_p, _handle, POINTER(c_size_t)]),
    "orchestrator_defaults": (None, [c_void_p]),
    "orchestrator_open": (c_int, [c_void_p, c_void_p, _handle]),
    "orchestrator_close": (None, [c_void_p]),
    "orchestrator_observe": (c_int, [c_void_p, c_void_p]),
    "orchestrator_report": (c_int, [c_void_p, c_int64, c_void_p]),
    "orchestrator_network": (c_int, [c_void_p, c_int64, c_void_p, c_size_t]),
    "orchestrator_estimate": (c_int, [c_void_p, c_int, c_int64]),
    "orchestrator_may_leave": (c_int, [c_void_p, c_char_p, c_int]),
    "orchestrator_improve": (c_int, [c_void_p, c_int64]),
    "orchestrator_keep_sums": (c_int, [c_void_p, c_int]),
    "orchestrator_offer": (c_int, [c_void_p, c_int, c_void_p]),
    "orchestrator_event": (c_int, [c_void_p, c_void_p]),
    "orchestrator_action": (c_int, [c_void_p, c_void_p]),
    "orchestrator_carried_out": (c_int, [c_void_p, c_int, c_int64, c_int, c_int64]),
    "orchestrator_plan": (c_int, [c_void_p, c_int, _handle]),
    "orchestrator_adapted": (c_int, [c_void_p, c_int]),
    "orchestrator_layout": (c_int, [c_void_p, c_void_p]),
    "orchestrator_forecast": (c_int, [c_void_p, c_int, POINTER(c_int64)]),
    "orchestrator_question": (c_int, [c_void_p, c_int, _handle]),
    "orchestrator_incidents": (c_int, [c_void_p, c_void_p, c_int]),
    "orchestrator_troubled": (c_int, [c_void_p]),
    "orchestrator_decisions": (c_char_p, [c_void_p]),
    "orchestrator_idle": (c_int, [c_void_p, c_int64]),
    "orchestrator_skip": (c_int, [c_void_p, c_int, c_int64]),
    "orchestrator_save": (c_int, [c_void_p, _handle, POINTER(c_size_t)]),
    "orchestrator_load": (c_int, [c_void_p, c_char_p]),
}


def _installed(name: str) -> Optional[str]:
    """The library of this package, in its folder or in its folder lib, or of the environment that the package is installed in."""
    environment = (os.path.join(sys.prefix, folder, name) for folder in ("lib", "lib64"))
    return next(itertools.chain(in_package(name), in_package("lib", name), filter(os.path.isfile, environment)), None)


def load(name: str, variable: str, sibling: Optional[str] = None) -> ctypes.CDLL:
    """The library of that file name: the one that the variable names, else `sibling` if it is there, else one that is installed. Raises
    LibraryNotFound."""
    named = os.environ.get(variable)
    if named:
        path = os.path.abspath(named)
        if not os.path.isfile(path):
            raise LibraryNotFound(f"{variable} names '{named}', which cannot be loaded: {path} is no file")
        trust(path)
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            raise LibraryNotFound(f"{variable} names '{named}', which cannot be loaded: {error}") from None
    installed = sibling if sibling and os.path.isfile(sibling) else _installed(name)
    path = trust(installed) if installed else for_loader(name)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise LibraryNotFound(
            f"{name} cannot be loaded: {error}. Install the package with pip, which builds the library too, or name one: "
            f"{variable}=/path/to/{name.rpartition('.so')[0]}.so") from None


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library, loaded and declared. Raises LibraryNotFound."""
    found = load(FILE, "SLACKLINE_LIBRARY")
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(found, "slackline_" + name)
        except AttributeError:
            raise LibraryNotFound(f"'{found._name}' is no libslackline {INTERFACE}: it has no slackline_{name}") from None
        function.restype, function.argtypes = result, arguments
    has = found.slackline_version().decode()
    if has.split(".")[:2] != INTERFACE.split("."):
        raise LibraryNotFound(f"'{found._name}' is slackline {has}, but the Python package in {os.path.dirname(os.path.abspath(__file__))} "
                              f"needs {INTERFACE}: install both from one version")
    return found


def version() -> str:
    """The version of the loaded library, such as "0.1.0"."""
    return str(library().slackline_version().decode())


def function(name: str) -> Any:
    """A function that cannot fail, without the prefix slackline_."""
    return getattr(library(), "slackline_" + name)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status; raises its exception, with the library's text."""
    status = function(name)(*arguments)
    if status:
        text = function("error")().decode(errors="replace")
        raise _STATUS.get(status, SlacklineError)(text)


def make(name: str, *arguments: Any) -> c_void_p:
    """Calls a function whose last argument is a new handle; returns the handle."""
    handle = c_void_p()
    call(name, *arguments, ctypes.byref(handle))
    return handle


def freed_with(owner: Any, name: str, handle: Any) -> "weakref.finalize[..., Any]":
    """Calls a function that frees a handle when its owner is collected; not at the end of the process, because another thread may be in a call."""
    freeing = weakref.finalize(owner, function(name), handle)
    freeing.atexit = False
    return freeing


def text(name: str, *arguments: Any) -> str:
    """Calls a function that makes a text; returns it as a str and frees the original."""
    return text_of(lambda *made: call(name, *arguments, *made))


def text_of(make_text: Callable[..., None]) -> str:
    """The text that a call stores through its last two arguments, a pointer and a size."""
    pointer, size = c_void_p(), c_size_t()
    make_text(ctypes.byref(pointer), ctypes.byref(size))
    try:
        return ctypes.string_at(pointer.value or 0, size.value).decode()
    finally:
        function("free")(pointer)


def encoded(text: str, what: str) -> bytes:
    """A text for the library, without zero bytes, since the library ends texts there."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    if "\0" in text:
        raise InvalidRequest(f"{what} holds a zero byte")
    return text.encode("utf-8", "surrogateescape")
