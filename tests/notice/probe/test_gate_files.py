#!/usr/bin/env python3
# labels: long
"""Each rank of a program has a gate of its own, with its world rank, finished at the end; a child of fork has none. A program
that must not be held says why in it, and one that only seems so does not."""
import glob
import os
import struct

from probing import MPI, Probe, compile_with, found, installed, mpirun
from runner import build, skip

here = os.path.dirname(os.path.abspath(__file__))
FIT, FULL, CANCELLED = 0, 1, 3  # sl_gate_unfit


def gates(folder):
    """(rank, finished, reason) of each gate, by rank."""
    read = []
    for path in glob.glob(os.path.join(folder, "*.gate")):
        with open(path, "rb") as file:
            magic, size, rank, finished, reason = struct.unpack("=I68xQiII", file.read(92))
        assert magic == 0x736c6761 and size == os.path.getsize(path), path
        read.append((rank, finished, reason))
    assert not glob.glob(os.path.join(folder, "*.gate.new"))
    return sorted(read)


def test_each_rank_has_a_gate_of_its_own():
    families = installed()
    if not families:
        skip("neither Open MPI nor MPICH is installed")
    with Probe(build) as probe:
        for family in families:
            compiled = {}
            for name in ("unfit", "odd"):
                compiled[name] = os.path.join(probe.folder, f"{name}-{family}")
                compile_with(found(MPI[family]["cc"]), os.path.join(here, f"{name}.c"), compiled[name], "-pthread")
            rings, environment = probe.environment()
            done = mpirun(family, 2, [compiled["odd"], "fork"], environment)
            assert done.returncode == 4 and gates(rings) == [(0, 1, FIT), (1, 1, FIT)], (done, gates(rings))
            for what, reason in (("nothing", FIT), ("cancel", CANCELLED), ("cancel anybody's", FIT), ("cancel too late", FIT),
                                 ("many tags", FIT), ("many communicators", FULL)):
                rings, environment = probe.environment()
                done = mpirun(family, 2, [compiled["unfit"], what], environment)
                assert done.returncode == 0 and done.stderr == "", (family, what, done)
                assert gates(rings) == [(0, 1, reason), (1, 1, reason)], (family, what, gates(rings))
            print(f"{family}: gates")
