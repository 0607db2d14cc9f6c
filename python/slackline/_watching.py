# SPDX-License-Identifier: Apache-2.0
"""`slackline watch` for Python scripts: finds the command, starts it, and reads its results. The command does all the work."""
from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import LibraryNotFound
from ._find import in_package, in_path, is_program, starts_package, trust

Word = Union[str, "os.PathLike[str]"]
PATIENCE_S = 30.0  # for a program to end after SIGTERM


@dataclass(frozen=True)
class Watched:
    """A watched program that has ended."""
    exit_code: int  # the program's; 128 + N: signal N killed it; 126, 127: it could not be started
    folder: Path  # of the results; docs/watching.md lists its files
    report: Optional[Dict[str, Any]]  # report.json: phases, verdicts, advice; None: the watch could not write one
    events: Tuple[Dict[str, Any], ...]  # events.jsonl: measurements and decisions, in order

    @property
    def phases(self) -> List[Dict[str, Any]]:
        """The healthy and slow phases of the program, with suspects and verdicts."""
        return list(self.report["phases"]) if self.report else []


def command() -> str:
    """The path of the command `slackline`. Searched in this order: SLACKLINE_COMMAND; next to the library that SLACKLINE_LIBRARY
    names, and in the bin folder next to the library's folder; the bin folder of this package; this Python's environment; the
    absolute entries of PATH. The script that starts this package is skipped: it would search again. Raises LibraryNotFound."""
    named = os.environ.get("SLACKLINE_COMMAND")
    if named:
        path = os.path.abspath(named) if "/" in named else next(in_path(named), None)
        if not path or not is_program(path):
            raise LibraryNotFound(f"SLACKLINE_COMMAND names '{named}', which is not a program")
        if not starts_package(path) or os.path.realpath(path) != os.path.realpath(sys.argv[0]):
            return trust(path)
    folders = []
    library = os.environ.get("SLACKLINE_LIBRARY")
    if library:
        library_folder = os.path.dirname(os.path.abspath(library))
        folders = [library_folder, os.path.join(os.path.dirname(library_folder), "bin")]
    siblings = (os.path.join(folder, "slackline") for folder in folders)
    environment = os.path.join(sys.prefix, "bin", "slackline")
    for path in itertools.chain(siblings, in_package("bin", "slackline"), [environment], in_path("slackline")):
        if is_program(path) and not starts_package(path):
            return trust(path)
    raise LibraryNotFound("the command slackline is not in this package, its environment, nor PATH; install the package with pip, which "
                          "builds the command too, or name one: SLACKLINE_COMMAND=/path/to/slackline")


def seeing(environment: Mapping[str, str]) -> Dict[str, str]:
    """An environment in which each Python process of the watched program, at any depth, reports its calls over Gloo: the folder
    `seen` of this package goes to the front of PYTHONPATH, where the interpreter finds sitecustomize.py at its start. A Python
    that ignores PYTHONPATH or sitecustomize (-I, -E, -S) runs as usual, and its calls over Gloo are not recorded."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen")
    others = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one and one != folder]
    return {**environment, "PYTHONPATH": os.pathsep.join([folder, *others])}


def program_of(words: Sequence[Word]) -> List[str]:
    """The command line of a program. This Python runs a Python script."""
    if callable(words) or not isinstance(words, Sequence):
        raise TypeError(f"a program is a script or a command line, not {type(words).__name__}")
    line = [os.fspath(word) for word in words]
    return [sys.executable, *line] if line and line[0].endswith(".py") else line


def watch(program: Union[Word, Sequence[Word]], *, out: Optional[Word] = None, options: Sequence[str] = (),
          check: bool = False, **popen: Any) -> Watched:
    """Runs a program under `slackline watch` and waits until it ends.

    program  a script (`train.py`), which this Python runs, or a command line: ["torchrun", "--nproc-per-node", "4", "train.py"],
             ["mpirun", "-np", "4", sys.executable, "train.py"]
    out      folder for the results; None: runs/watch-NAME, with the name of the script or program
    options  for the command: ["--record", "--http", "off"] (slackline watch --help)
    check    raise subprocess.CalledProcessError if the program's exit code is not 0
    popen    options of subprocess.run: env, cwd, stdin, input, stdout, stderr, capture_output, text, timeout, ...

    Ctrl-C also goes to the program, and `watch` still waits for its end, so that there is a report. A program that keeps running
    for 5 s gets SIGTERM, as after a timeout. A second Ctrl-C returns immediately; the program and its watch then keep running.
    Input, output and exit code are the program's. Calls of MPI, NCCL and, through torch.distributed, Gloo are recorded.
    A folder is put in front of PYTHONPATH (`seeing`); the program need not be able to import this package.
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
    """Like subprocess.run, but at a timeout or Ctrl-C it ends the program and waits for it and its watch. subprocess.run would
    kill the watch and abandon the program."""
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
    """The output of a process that ends in time; None: it has not ended. Reads its pipes meanwhile, so that it can end."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def _end(process: "subprocess.Popen[Any]") -> Any:
    process.send_signal(signal.SIGTERM)  # the watch forwards it
    ended = _has_ended(process, PATIENCE_S)
    if not ended:
        process.kill()
    return ended


def _changed(path: Path) -> int:
    """The time of a file's last change, which distinguishes it from an earlier watch's file; 0: the file does not exist."""
    return path.stat().st_mtime_ns if path.exists() else 0
