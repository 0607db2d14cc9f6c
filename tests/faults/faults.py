"""Runs a program in which one call fails on purpose (faults.c), and tries the first calls of every point."""
import ctypes
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


def each(attempt, points=None, most=1000):
    """Calls attempt(fault) for the first `most` calls of each point and error, until it returns an outcome in which none failed. Number of
    faults, and what was wrong: attempt's second result."""
    tried, wrong = 0, []
    for point, errors in POINTS.items():
        for error in errors if points is None or point in points else []:
            for n in range(most):
                outcome, complaint = attempt((point, error, n))
                if not outcome.failed:
                    break
                tried += 1
                complaint = outcome.complaints() or complaint
                if complaint:
                    wrong.append(f"{point} {error} {n} ({outcome.failed.strip()}): {complaint}")
    return tried, wrong
