#!/usr/bin/env python3
# labels: slow
"""Programs that no one here wrote are held a dozen times and say the same: LAMMPS (a melt, every digit of its thermodynamics)
and a Python script over mpi4py, whose messages are probed and matched and whose threads may all call MPI. hpcc, whose
output is times, checks its own results.

Usage: test_held_programs.py BUILD_DIR SOURCE_DIR; SL_SEED repeats the moments, SL_HOLDS says how many holds (default 12)."""
import glob
import os
import re
import subprocess
import sys

from holding import hold_until, most, seed
from probing import Probe, found, installed
from runner import build, skip

HOLDS = int(os.environ.get("SL_HOLDS", "12"))

MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
thermo 20
thermo_modify format float %20.15g
run 1500
"""

SCRIPT = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
row, column = world.Split(rank // 2, rank), world.Split(rank % 2, rank)
value = rank
for i in range(int(sys.argv[1])):
    value = (value * 6364136223846793005 + row.allreduce(value, op=MPI.BXOR)) % (1 << 61)
    request = world.isend({"from": rank, "value": value}, dest=(rank + 1) % size, tag=i % 7)
    got = world.recv(source=(rank - 1) % size, tag=i % 7)
    request.wait()
    value ^= got["value"] + got["from"]
    if i % 5 == rank:
        for other in range(size - 1):
            value ^= world.recv(source=MPI.ANY_SOURCE, tag=9)
    elif i % 5 < size:
        world.send(value, dest=i % 5, tag=9)
    value ^= column.bcast(value, root=i % 2)
print("\\n".join(map(str, world.gather(value) or [])), end="")
"""


def thermodynamics(code, out, errors):
    rows = [line.split() for line in out.splitlines() if re.match(r"\s+\d+\s+-?\d+\.\d+.*\d\s*$", line)]
    return code, [row for row in rows if len(row) == 6]


def test_lammps_says_the_same_when_held(probe, build, number):
    lmp = found(["lmp"])
    lmp and "openmpi" in installed() or skip("LAMMPS or Open MPI is not installed")
    with open(os.path.join(probe.folder, "in.melt"), "w") as file:
        file.write(MELT)
    rows = []

    def same(*end):
        rows.append(thermodynamics(*end))
        return rows[-1]
    made, closed = hold_until(probe, build, "openmpi", 4, [lmp, "-in", "in.melt", "-log", "none"], same, HOLDS, number, 50000, runs=6)
    assert len(rows[0][1]) == 76, rows[0]  # steps 0, 20, ... 1500
    assert made >= 10 and most(closed, made), (made, closed)


def test_hpcc_says_the_same_when_held(probe, build, number):
    hpcc, example = found(["hpcc"]), "/usr/share/doc/hpcc/examples/_hpccinf.txt"
    hpcc and os.path.exists(example) and "openmpi" in installed() or skip("hpcc or Open MPI is not installed")
    with open(example) as file:
        lines = file.read().splitlines()
    lines[5], lines[10], lines[11] = "600         Ns", "2            Ps", "2            Qs"
    with open(os.path.join(probe.folder, "hpccinf.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    result = os.path.join(probe.folder, "hpccoutf.txt")

    def same(code, out, errors):
        with open(result) as file:
            text = file.read()
        os.unlink(result)
        failed = re.findall(r"^\s*(\d+) tests completed and (passed|failed)", text, re.M)
        errors = re.findall(r"^(Success|MPIRandomAccess_Errors|PTRANS_residual|CommWorldProcs|HPL_N)=(.*)$", text, re.M)
        return code, failed, errors
    made, closed = hold_until(probe, build, "openmpi", 4, [hpcc], same, HOLDS, number, 100000, runs=3)
    assert made >= 10, made
    print(f"  hpcc: {closed} of {made}")


def test_mpi4py_says_the_same_when_held(probe, build, number):
    packages, script = os.path.join(probe.folder, "packages"), os.path.join(probe.folder, "script.py")
    with open(script, "w") as file:
        file.write(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", packages, "mpi4py==4.1.1"],
                          capture_output=True, text=True)
    if done.returncode:
        return print("not tried: mpi4py cannot be installed")
    debian = glob.glob("/usr/lib/*/libmpich.so.12")
    if debian:  # mpi4py knows it as libmpi.so.12
        os.symlink(debian[0], os.path.join(probe.folder, "libmpi.so.12"))
    for family, iterations in (("openmpi", "1000"), ("mpich", "250")):  # MPICH's ranks spin, which takes its time where they share processors
        if family not in installed():
            continue
        python = {"PYTHONPATH": packages, "MPI4PY_MPIABI": family, "LD_LIBRARY_PATH": probe.folder}
        os.environ.update(python)
        made, closed = hold_until(probe, build, family, 4, [sys.executable, script, iterations], lambda *end: end[:2], HOLDS, number, runs=6)
        assert made >= 10 and most(closed, made), (made, closed)
        for name in python:
            del os.environ[name]


def given():
    if not installed():
        skip("neither Open MPI nor MPICH is installed")
    with Probe(build) as probe:
        yield probe, build, seed()
