# SPDX-License-Identifier: Apache-2.0
"""Problems, the input of the planner: from a dict, a YAML text or a file, in the form that docs/formats.md describes."""
from __future__ import annotations

import ctypes
import decimal
import json
import math
import numbers
import os
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from . import _library
from ._errors import InvalidRequest

Changes = Union[Mapping[str, Any], Sequence[str]]
"""Changes to a problem, as with the command's --set: {"pipeline.links.list.0.latency_ms": 60}, or
["pipeline.links.list.0.latency_ms=60"]."""


class Problem:
    """A problem that has been read and checked. Planning does not change it, so many plans and threads can share it.

    `source` is a dict (`{"pipeline": {"ranks": 4, ...}}`), a text in YAML or JSON, or the name of a file. A str is a text
    if it has more than one line, begins with "{", or contains ": " and is not a file's name; a Path is always a file.
    Raises InvalidRequest with file, line and key; without a file, "problem" replaces its name.
    """

    def __init__(self, source: "ProblemLike", changes: Optional[Changes] = None) -> None:
        # the source, because changes may name any of its keys
        self._name: str
        self._text: Optional[str]
        self._changes: "list[bytes]"
        texts = _assignments(changes)
        if isinstance(source, Problem):
            name, text, texts = source._name, source._text, source._changes + texts
        else:
            name, text = _named_text(source, "problem", "a problem is a dict, a YAML text, a file's name or a Problem")
        self._name, self._text, self._changes = name, text, texts
        array = (ctypes.c_char_p * len(texts))(*texts) if texts else None
        encoded = _library.encoded(name, "the name of a problem")
        if text is None:
            self._handle = _library.make("problem_read", encoded, array, len(texts))
            if os.path.isfile(name):  # not a pipe
                with open(name, encoding="utf-8", errors="surrogateescape") as file:
                    self._text = file.read()
        else:
            self._handle = _library.make("problem_parse", encoded, _library.encoded(text, "problem"), array, len(texts))
        if self._text is None:
            self._text, self._changes = self.yaml(), []
        _library.freed_with(self, "problem_free", self._handle)

    @property
    def ranks(self) -> int:
        """The number of ranks of the pipeline."""
        return int(_library.function("problem_ranks")(self._handle))

    @property
    def stages(self) -> int:
        """The number of stages, over all ranks."""
        return int(_library.function("problem_stages")(self._handle))

    @property
    def microbatches(self) -> int:
        """The number of microbatches per iteration."""
        return int(_library.function("problem_microbatches")(self._handle))

    def overhead_ms(self, op: str, stage: int) -> float:
        """The part of the time of an op ("F", "I", "W", "B") of a stage that the runtime adds; 0: no such stage."""
        return float(_library.function("problem_overhead")(self._handle, stage, "FIWB".index(op))) / 1e6

    def yaml(self) -> str:
        """The whole problem as YAML, defaults and changes included."""
        return _library.text("problem_write", self._handle)

    def __reduce__(self) -> Any:
        return _again, (self._name, self._text, self._changes)

    def __repr__(self) -> str:
        return f"Problem(ranks={self.ranks}, stages={self.stages}, microbatches={self.microbatches})"


ProblemLike = Union[Problem, Mapping[str, Any], str, "os.PathLike[str]"]
"""The accepted forms of a problem: a Problem, a dict, a text in YAML or JSON, or a file."""


def _again(name: str, text: str, changes: "list[bytes]") -> Problem:
    """Restores a problem from another process."""
    made = Problem.__new__(Problem)
    made._name, made._text, made._changes = name, text, []
    return Problem(made, [change.decode("utf-8", "surrogateescape") for change in changes])


def problem_of(source: ProblemLike, changes: Optional[Changes]) -> Problem:
    """The source as a Problem; a Problem without changes is returned as it is."""
    return source if isinstance(source, Problem) and not changes else Problem(source, changes)


def _named_text(source: Any, what: str, forms: str) -> Tuple[str, Optional[str]]:
    """The name that errors say, and the text of a dict or text; None: the name is a file's."""
    if isinstance(source, Mapping):
        return what, _json(source, what=what)
    if isinstance(source, str) and not source.strip():
        raise InvalidRequest(f"{what}: the text is empty")
    if isinstance(source, str) and _is_text(source):
        return what, source
    if isinstance(source, (str, os.PathLike)):
        return os.fsdecode(source), None
    raise TypeError(f"{forms}, not {type(source).__name__}")


def _is_text(source: str) -> bool:
    if "\n" in source or source.lstrip().startswith("{"):
        return True
    return ": " in source and not os.path.exists(source)


def _plain(value: Any, key: str, what: str) -> Any:
    """The value in JSON's types. Numbers and arrays of other packages (NumPy, PyTorch) are converted by their `tolist`."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (numbers.Real, decimal.Decimal)):
        if not math.isfinite(value):
            raise InvalidRequest(f"{what}: '{key}' must be a number, got {value}")
        return float(value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise InvalidRequest(f"{what}: keys of '{key}' must be texts, got {name!r}" if key else f"{what}: keys must be texts, got {name!r}")
        return {name: _plain(held, f"{key}.{name}" if key else name, what) for name, held in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(held, f"{key}.{i}", what) for i, held in enumerate(value)]
    raise InvalidRequest(f"{what}: '{key}' must be a number, a text, a list or a dict, got {type(value).__name__}")


def _json(value: Any, key: str = "", what: str = "problem") -> str:
    """The value as JSON, which is also YAML."""
    try:
        return json.dumps(_plain(value, key, what), ensure_ascii=False)
    except RecursionError:
        raise InvalidRequest(f"{what}: a dict or list that holds itself, or nested too deep") from None


def _assignments(changes: Optional[Changes]) -> "list[bytes]":
    if not changes:
        return []
    if isinstance(changes, str):
        raise TypeError('changes are a dict, or a list of "KEY=VALUE"')
    texts = [f"{key}={_json(value, str(key))}" for key, value in changes.items()] if isinstance(changes, Mapping) else list(changes)
    return [_library.encoded(text, "a change") for text in texts]
