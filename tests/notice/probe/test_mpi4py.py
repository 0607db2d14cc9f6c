#!/usr/bin/env python3
"""A Python script that uses mpi4py, whose module loads MPI at run time for itself alone, watched on 4 ranks: same output
and exit code, its calls in the rings. mpi4py comes from an index; skipped without."""
import glob
import os
import subprocess
import sys

from probing import Probe, installed, mpirun
from runner import build, skip

SCRIPT = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
data = bytearray(1000)
row = world.Split(rank // 2, rank)
for _ in range(5):
    requests = [world.Irecv([data, 1000, MPI.BYTE], (rank - 1) % size, 7), world.Isend([bytes(1000), 1000, MPI.BYTE], (rank + 1) % size, 7)]
    MPI.Request.Waitall(requests)
    row.Barrier()
counts, at = [1, 2, 3, 4], [0, 1, 3, 6]  # rank r gets r + 1 bytes of everybody
got = bytearray(size * (rank + 1))
mine = [rank + 1] * size, [(rank + 1) * other for other in range(size)]
world.Alltoallv([bytes(range(10)), (counts, at), MPI.BYTE], [got, mine, MPI.BYTE])
again = bytearray(len(got))
world.Ialltoallv([bytes(range(10)), (counts, at), MPI.BYTE], [again, mine, MPI.BYTE]).Wait()
assert got == again == bytes(range(10))[at[rank]:at[rank] + rank + 1] * size
total = bytearray(8)
world.Allreduce([(rank + 1).to_bytes(8, "little"), 1, MPI.INT64_T], [total, 1, MPI.INT64_T])
if rank == 0:
    print(int.from_bytes(total, "little"))
sys.exit(11)
"""


def test_a_watched_script_of_mpi4py_does_the_same():
    families = installed()
    if not families:
        skip("neither Open MPI nor MPICH is installed")
    with Probe(build) as probe:
        packages, script = os.path.join(probe.folder, "packages"), os.path.join(probe.folder, "script.py")
        with open(script, "w") as file:
            file.write(SCRIPT)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", packages,
                               "mpi4py==4.1.1"], capture_output=True, text=True)
        if done.returncode:
            skip("mpi4py cannot be installed")
        tried = 0
        for family in families:
            library = {"openmpi": "openmpi", "mpich": "mpich"}[family]
            python = {**os.environ, "PYTHONPATH": packages, "MPI4PY_MPIABI": library, "LD_LIBRARY_PATH": probe.folder}
            debian = glob.glob("/usr/lib/*/libmpich.so.12")
            if family == "mpich" and debian:  # mpi4py knows it as libmpi.so.12
                os.symlink(debian[0], os.path.join(probe.folder, "libmpi.so.12"))
            alone = mpirun(family, 4, [sys.executable, script], python)
            if alone.returncode != 11:
                print(f"not tried: mpi4py does not run with {family}: {(alone.stderr.strip().splitlines() or ['?'])[-1]}")
                continue
            rings, environment = probe.environment()
            watched = mpirun(family, 4, [sys.executable, script], {**python, **environment})
            assert (watched.returncode, watched.stdout) == (11, alone.stdout) == (11, "10\n"), watched
            assert "slackline" not in watched.stderr, watched.stderr
            ranks = probe.rings(rings)
            assert [ring.rank for ring in ranks] == [0, 1, 2, 3], [ring[:8] for ring in ranks]
            for ring in ranks:
                own = [(r.call, r.peer, r.tag, r.bytes) for r in ring.records if r.kind == "call"]
                start = own.index(("MPI_Comm_split", -1, -1, 0))
                wanted = [("MPI_Irecv", (ring.rank - 1) % 4, 7, 1000), ("MPI_Isend", (ring.rank + 1) % 4, 7, 1000),
                          ("MPI_Waitall", -1, 2, 0), ("MPI_Barrier", -1, -1, 0)] * 5 + [("MPI_Alltoallv", -1, -1, 10), ("MPI_Ialltoallv", -1, -1, 10), ("MPI_Wait", -1, 1, 0), ("MPI_Allreduce", -1, -1, 8)]
                assert own[start + 1:start + 1 + len(wanted)] == wanted, own
            tried += 1
            print(f"{family}: mpi4py")
        if not tried:
            skip("mpi4py runs with none of the installed libraries")
