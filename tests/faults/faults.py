"""Runs a program in which one call fails on purpose (faults.c), and tries the first calls of every point."""
import ctypes
import glob
import os
import subprocess
import tempfile

from runner import build, require, skip

library = os.path.join(build, "tests", "libslackline-faults.so")
if not os.path.exists(library):
    skip("libslackline-faults.so is not built")
require("slackline")
_table = [line.split() for line in ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(library), "sl_fault_points"))).decode().splitlines()]
POINTS = {point: errors for point, _, *errors in _table}  # {point: [error, ...]}; a point may have several functions
FUNCTIONS = [function for _, function, *_ in _table]
SANITIZED = b"__asan_init" in open(os.path.join(build, "slackline"), "rb").read()


class Outcome:
    """What a program did: exit code (negative: a signal; None: it did not end in time), output, and which call failed, or ""."""

    def __init__(self, code, out, error, failed):
        self.code, self.out, self.error, self.failed = code, out, error, failed

    def complaints(self):
        """What is wrong whatever a program should do."""
        if self.code is None:
            return "it does not end"
        if self.code < 0 or self.code > 128:
            return f"it ended by a signal ({self.code}): {self.error[-300:]!r}"
        if "Sanitizer" in self.error or "runtime error" in self.error:
            return f"a sanitizer complains: {self.error[-1500:]}"
        if self.code and not self.error.strip():
            return f"exit {self.code} without a reason"
        return ""


def run(words, programs, fault=None, *, seconds=60, environment=None, folder=None):
    """`fault`: (point, error, n). It happens in one of `programs`, once."""
    with tempfile.TemporaryDirectory() as own:
        log = os.path.join(own, "log")
        given = dict(os.environ, **(environment or {}))
        if fault:
            given |= {"LD_PRELOAD": library, "SL_FAULT": ":".join(map(str, fault)), "SL_FAULT_IN": programs, "SL_FAULT_LOG": log}
            if SANITIZED:
                given["ASAN_OPTIONS"] = given.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace",
                                 env=given, cwd=folder, start_new_session=True)
        try:
            out, error = child.communicate(timeout=seconds)
            code = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            out, error = child.communicate()
            code = None
        return Outcome(code, out, error, open(log).read() if os.path.exists(log) else "")


def apart(factor):
    """Of the calls that fail: the first SL_EACH (1) ones, then farther and farther apart."""
    n, step = 0, 1
    while True:
        yield n
        step = 1 if n + 1 < int(os.environ.get("SL_EACH", 1)) else factor * step
        n += step


def each(attempt, numbers):
    """Calls attempt(fault) for the calls numbers() of each point and error, until it returns an outcome in which none failed. Number of faults,
    of those that ended with an error, and what was wrong: attempt's second result. SL_FAULTS=POINT,... tries only these."""
    tried, ended, wrong = 0, 0, []
    chosen = os.environ["SL_FAULTS"].split(",") if "SL_FAULTS" in os.environ else POINTS
    for point, errors in POINTS.items():
        for error in errors if point in chosen else []:
            for n in numbers():
                outcome, complaint = attempt((point, error, n))
                if not outcome.failed:
                    break
                tried += 1
                ended += outcome.code != 0
                complaint = outcome.complaints() or complaint
                if complaint:
                    wrong.append(f"{point} {error} {n} ({outcome.failed.strip()}): {complaint}")
    return tried, ended, wrong


def left(out):
    """Processes and shared memory that name a folder."""
    def names(pid):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as words:
                return stat.read().rpartition(")")[2].split()[0] not in "XZ" and out in words.read()
        except OSError:
            return False
    return [pid for pid in filter(str.isdigit, os.listdir("/proc")) if names(pid)] + \
        [path for path in glob.glob("/dev/shm/slackline-*/owner") if out in open(path).read()]
