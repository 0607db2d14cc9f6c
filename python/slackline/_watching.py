# SPDX-License-Identifier: Apache-2.0
"""`slackline watch` around a Python script: the command does all of it, here it is found, started and its results read."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import LibraryNotFound
from ._find import in_path, is_program, trust

Word = Union[str, "os.PathLike[str]"]
PATIENCE_S = 30.0  # for a program's end after SIGTERM


@dataclass(frozen=True)
class Watched:
    """A program that was watched and has ended."""
    exit_code: int  # the program's; 128 + N: signal N killed it; 126, 127: it could not be started
    folder: Path  # of the results: docs/watching.md says which files are in it
    report: Optional[Dict[str, Any]]  # report.json: phases, verdicts, advice; None: the watch could not write one
    events: Tuple[Dict[str, Any], ...]  # events.jsonl: what was seen and decided, in order

    @property
    def phases(self) -> List[Dict[str, Any]]:
        """The healthy and slow phases of the program, with suspects and verdicts."""
        return list(self.report["phases"]) if self.report else []


def command() -> str:
    """The command `slackline`: SLACKLINE_COMMAND, else beside the library that SLACKLINE_LIBRARY names or in the bin folder
    beside its folder, else in this Python's environment, else in an absolute entry of PATH. Raises LibraryNotFound."""
    named = os.environ.get("SLACKLINE_COMMAND")
    if named:
        found = os.path.abspath(named) if "/" in named else in_path(named)
        if not found or not is_program(found):
            raise LibraryNotFound(f"SLACKLINE_COMMAND names '{named}', which is not a program")
        return trust(found)
    folders = [os.path.join(sys.prefix, "bin")]
    library = os.environ.get("SLACKLINE_LIBRARY")
    if library:
        beside = os.path.dirname(os.path.abspath(library))
        folders = [beside, os.path.join(os.path.dirname(beside), "bin"), *folders]
    for folder in folders:
        path = os.path.join(folder, "slackline")
        if is_program(path):
            return trust(path)
    found = in_path("slackline")
    if not found:
        raise LibraryNotFound("the command slackline is not in this environment nor in PATH; install it, or name it: "
                              "SLACKLINE_COMMAND=/path/to/slackline")
    return trust(found)


def seeing(environment: Mapping[str, str]) -> Dict[str, str]:
    """An environment in which each Python of the watched program, at any depth, makes its calls over Gloo seen: the folder
    `seen` of this package goes to the front of PYTHONPATH, where the interpreter finds sitecustomize.py when it starts. A
    Python that does not look there (-I, -E, -S) runs as it would and its calls over Gloo are not seen."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen")
    others = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one and one != folder]
    return {**environment, "PYTHONPATH": os.pathsep.join([folder, *others])}


def program_of(words: Sequence[Word]) -> List[str]:
    """A command line; a Python script is run by this Python."""
    if callable(words) or not isinstance(words, Sequence):
        raise TypeError(f"a program is a script or a command line, not {type(words).__name__}")
    line = [os.fspath(word) for word in words]
    return [sys.executable, *line] if line and line[0].endswith(".py") else line


def watch(program: Union[Word, Sequence[Word]], *, out: Optional[Word] = None, options: Sequence[str] = (),
          check: bool = False, **popen: Any) -> Watched:
    """Runs a program under `slackline watch` and waits for its end.

    program  a script (`train.py`), which this Python runs, or a command line: ["torchrun", "--nproc-per-node", "4", "train.py"],
             ["mpirun", "-np", "4", sys.executable, "train.py"]
    out      folder of the results; None: runs/watch-NAME, by the name of the script or program
    options  of the command: ["--record", "--http", "off"] (slackline watch --help)
    check    raise subprocess.CalledProcessError when the program's exit code is not 0
    popen    of subprocess.run: env, cwd, stdin, input, stdout, stderr, capture_output, text, timeout, ...

    Ctrl-C is the program's, too: its end is waited for, so that there is a report. One that goes on for 5 s gets SIGTERM, as
    after a timeout. A second Ctrl-C waits for nothing; the program then goes on, and so does its watch.
    Input, output and exit code are the program's. The calls of MPI, NCCL and, through torch.distributed, Gloo are seen.
    PYTHONPATH gets a folder in front (`seeing`); the package itself need not be importable by the program.
    """
    words: Sequence[Word] = [program] if isinstance(program, (str, os.PathLike)) else program
    if isinstance(options, str):
        raise TypeError(f"options are a list of words, such as {options.split()}")
    line = program_of(words)
    if not line:
        raise ValueError("program: a script or a command line is needed")
    script = next((word for word in line if word.endswith(".py")), line[0])
    folder = Path(out) if out is not None else Path("runs", "watch-" + Path(script).stem)
    where = Path(popen["cwd"], folder) if popen.get("cwd") else folder
    files = where / "report.json", where / "events.jsonl"
    before = [_changed(path) for path in files]
    popen["env"] = seeing(popen.get("env") or os.environ)
    done = _run([command(), "watch", "--out", os.fspath(folder), *options, "--", *line], **popen)
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    if check and code:
        raise subprocess.CalledProcessError(code, line, done.stdout, done.stderr)
    report, events = (path.read_text() if _changed(path) != then else "" for path, then in zip(files, before))
    return Watched(code, where, json.loads(report) if report else None, tuple(json.loads(text) for text in events.splitlines()))


def _run(words: List[str], input: Any = None, timeout: Optional[float] = None, capture_output: bool = False,
         **popen: Any) -> "subprocess.CompletedProcess[Any]":
    """subprocess.run, which would kill the watch (and leave its program to itself) at a timeout or Ctrl-C: this ends the
    program and waits for both."""
    if input is not None:
        popen["stdin"] = subprocess.PIPE
    if capture_output:
        popen["stdout"] = popen["stderr"] = subprocess.PIPE
    with subprocess.Popen(words, **popen) as process:
        try:
            out, errors = process.communicate(input, timeout)
        except KeyboardInterrupt:
            if not _has_ended(process, 5):
                _end(process)
            raise
        except subprocess.TimeoutExpired as late:
            late.stdout, late.stderr = _end(process) or (late.stdout, late.stderr)
            raise
        return subprocess.CompletedProcess(words, process.returncode, out, errors)


def _has_ended(process: "subprocess.Popen[Any]", seconds: float) -> Any:
    """What it wrote, when it ends in time; its pipes are read meanwhile, so that it can."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def _end(process: "subprocess.Popen[Any]") -> Any:
    process.send_signal(signal.SIGTERM)  # the watch passes it on
    ended = _has_ended(process, PATIENCE_S)
    if not ended:
        process.kill()
    return ended


def _changed(path: Path) -> int:
    """When a file was written, so that an earlier watch's is not taken for this one's; 0: there is none."""
    return path.stat().st_mtime_ns if path.exists() else 0
