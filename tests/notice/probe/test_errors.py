#!/usr/bin/env python3
"""A program that asks MPI for errors to be returned gets what it gets without the probe, and the rings say nothing that MPI has
not set: counts, indices, flags and statuses that a failed call left as they were are not looked at. What a failed call has
completed all the same (a receive that was too small) is recorded as completed, once."""
import collections
import os
import subprocess

from probing import MPI, Probe, compile_with, found, installed
from runner import build, skip

here = os.path.dirname(os.path.abspath(__file__))


def check(probe, family):
    program = os.path.join(probe.folder, f"errors.{family}")
    compile_with(found(MPI[family]["cc"]), os.path.join(here, "errors.c"), program)
    alone = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    assert alone.returncode == 0, alone
    rings, environment = probe.environment()
    watched = subprocess.run([program], capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert (watched.returncode, watched.stdout) == (0, alone.stdout), (family, watched, alone.stdout)
    (ring,) = probe.rings(rings)
    said = alone.stdout.splitlines()
    print(family, ", ".join(line for line in said if "too small" in line))
    calls = collections.Counter((record.call, record.tag) for record in ring.records if record.kind == "call")
    completed = collections.Counter((record.call, record.tag) for record in ring.records if record.kind == "completion")
    # of the requests that are none, blocking calls alone are recorded, with nothing completed
    for call in ("MPI_Test", "MPI_Testany", "MPI_Testsome", "MPI_Waitsome"):
        assert not [key for key in calls if key[0] == call], (family, call, calls)
    assert calls["MPI_Wait", 0] == (family == "mpich") and calls["MPI_Waitall", 0] == 1, (family, calls)
    # the receives: four times two, each over once, in the call that said so
    assert completed == {("MPI_Irecv", 7): 4, ("MPI_Irecv", 8): 4}, (family, completed)
    left = sum("Waitall has left" in line for line in said)
    assert calls["MPI_Wait", 1] == 2 + left and calls["MPI_Waitany", 1] == 2, (family, calls)
    assert calls["MPI_Waitall", 2 - left] == 1, (family, calls)
    assert calls["MPI_Isend", 0] == 1 and not [key for key in completed if key[0] == "MPI_Isend"], (family, calls)


def test_errors_are_returned_as_without_the_probe():
    families = installed()
    if not families:
        skip("neither Open MPI nor MPICH is installed")
    with Probe(build) as opened:
        for name in families:
            check(opened, name)
