#!/usr/bin/env python3
# labels: long
"""Watching changes nothing, whatever the program is: Fortran through its old and new bindings, threads, fork, errno, no
MPI at all, linked statically, a folder that is not there. And the library needs libc alone."""
import collections
import os
import re
import subprocess

from probing import MPI, Probe, compile_with, found, installed, mpirun
from runner import build, source

here = os.path.dirname(os.path.abspath(__file__))
UNTOUCHED = "slackline: no MPI or NCCL call was seen: the program is linked statically or without either library, and ran untouched "\
            "(PyTorch over Gloo is seen under: python -m slackline watch)\n"


def test_the_probe_needs_libc_alone(probe):
    shown = subprocess.run(["readelf", "-d", probe.library], capture_output=True, text=True).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", shown) == ["libc.so.6"], shown
    listed = subprocess.run(["nm", "-D", "--defined-only", probe.library], capture_output=True, text=True).stdout
    others = [name for name in re.findall(r" [A-Z] (\S+)$", listed, re.M) if not re.match(r"P?MPI_|nccl|sl_reported_", name)]
    assert others == [], f"names that a program could meet by accident: {others}"


def check_prototypes(source, family):
    """The table against this family's mpi.h; a table with a wrong row must not compile."""
    compiler = found(MPI[family]["cc"])

    def compiles(folder, target):
        return subprocess.run([compiler, "-std=c11", "-fsyntax-only", "-I", folder, "-I", target, os.path.join(here, "check_prototypes.c")],
                              capture_output=True, text=True)
    real = os.path.join(source, "src")
    done = compiles(real, real)
    assert done.returncode == 0, done.stderr
    return lambda folder: compiles(folder, real).returncode


def check_wrong_row(probe, source, compiles):
    path = "notice/probe/mpi_table.h"
    with open(os.path.join(source, "src", path)) as file:
        table = file.read()
    folder = os.path.join(probe.folder, f"changed{probe.count}")
    os.makedirs(os.path.join(folder, "notice/probe"), exist_ok=True)
    with open(os.path.join(folder, path), "w") as file:
        file.write(table.replace("int root, SL_COMM comm), (buffer", "long root, SL_COMM comm), (buffer"))
    assert compiles(folder) != 0, "a row that is wrong must not compile"


def both(probe, family, ranks, command, status):
    """Runs it unwatched and watched; the rings of the watched run."""
    alone = mpirun(family, ranks, command)
    assert alone.returncode == status, (alone.returncode, alone.stdout, alone.stderr)
    rings, environment = probe.environment()
    watched = mpirun(family, ranks, command, environment)
    assert (watched.returncode, sorted(watched.stdout.splitlines())) == (status, sorted(alone.stdout.splitlines())), watched
    assert "slackline" not in watched.stderr, watched.stderr
    return watched.stdout, probe.rings(rings)


def check_fortran(probe, family, name):
    """hello_*.f90, worked out by hand: rank 0 sends and rank 1 receives 80 bytes, everybody passes 40 to the next."""
    program = os.path.join(probe.folder, f"{name}-{family}")
    compiler = found(MPI[family]["f"])
    done = subprocess.run([compiler, "-w", "-o", program, os.path.join(here, f"{name}.f90")], capture_output=True, text=True)
    if done.returncode:
        return print(f"not tried: {family} cannot compile {name}.f90: {done.stderr.splitlines()[-1] if done.stderr else ''}")
    said, rings = both(probe, family, 4, [program], 5)
    assert said.split()[:2] == ["total", "12"], said  # 2 + 4 + 2 + 4
    rows = set()
    for rank, ring in enumerate(rings):
        wanted = [("MPI_Send", 1, 3, 80)] if rank == 0 else [("MPI_Recv", 0, 3, 80)] if rank == 1 else []
        wanted += [("MPI_Irecv", (rank + 3) % 4, 4, 40), ("MPI_Isend", (rank + 1) % 4, 4, 40), ("MPI_Waitall", -1, 2, 0),
                   ("MPI_Comm_split", -1, -1, 0), ("MPI_Allreduce", -1, -1, 4), ("MPI_Allreduce", -1, -1, 4)]
        calls = [r for r in ring.records if r.kind == "call"]
        assert [(r.call, r.peer, r.tag, r.bytes) for r in calls] == wanted, (rank, calls)
        assert calls[-1].communicator == rings[0].records[0].communicator != calls[-2].communicator
        rows.add((rank % 2, calls[-2].communicator))
    assert len(rows) == 2 and len({row[1] for row in rows}) == 2, rows
    print(f"{family}: {name}")


def check_odd(probe, family):
    program = os.path.join(probe.folder, f"odd-{family}")
    compile_with(found(MPI[family]["cc"]), os.path.join(here, "odd.c"), program, "-pthread")
    said, rings = both(probe, family, 2, [program, "threads"], 4)
    if "provided 1" in said:
        for rank in (0, 1):
            mine = [ring for ring in rings if ring.rank == rank]
            made = collections.Counter((r.kind, r.call, r.tag) for ring in mine for r in ring.records)
            assert len(mine) <= 5 and all(ring.untracked == 0 for ring in mine), [ring[:8] for ring in mine]
            for tag in range(4):
                for call in ("MPI_Isend", "MPI_Irecv"):
                    assert made["call", call, tag] == made["completion", call, tag] == 1000, made
            assert made["call", "MPI_Waitall", 2] == 4000, made
            assert all(r.peer == 1 - rank and r.bytes == 8 for ring in mine for r in ring.records if r.call != "MPI_Waitall")
    else:
        print(f"not tried: {family} gives no MPI_THREAD_MULTIPLE")
    said, rings = both(probe, family, 2, [program, "fork"], 4)
    assert [[r.call for r in ring.records] for ring in rings] == [["MPI_Barrier"] * 2] * 2, rings
    said, _ = both(probe, family, 2, [program, "errno"], 4)
    # a folder that cannot be used: told, and nothing else changes; no folder: nothing at all
    wrong, environment = probe.environment()
    missing = mpirun(family, 1, [program, "fork"], {**environment, "SLACKLINE_PROBE": wrong + "/not/there"})
    assert (missing.returncode, missing.stdout) == (4, "child 9\n") and missing.stderr.count("slackline:") == 1, missing
    del environment["SLACKLINE_PROBE"]
    silent = mpirun(family, 1, [program, "fork"], environment)
    assert (silent.returncode, silent.stdout) == (4, "child 9\n") and "slackline" not in silent.stderr, silent


def test_programs_without_mpi_run_as_ever(probe):
    """Programs without MPI run as ever; one that the probe is loaded into is told so, once, by its first process."""
    rings, environment = probe.environment()
    plain = subprocess.run(["bash", "-c", "echo out; true | cat; (exit 0); ls / >/dev/null"], capture_output=True, text=True, env=environment)
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, "out\n", UNTOUCHED), plain
    source, program = os.path.join(probe.folder, "static.c"), os.path.join(probe.folder, "static")
    with open(source, "w") as file:
        file.write('#include <stdio.h>\nint main(void) { puts("static"); return 6; }\n')
    compile_with(found(["gcc", "cc", "clang"]), source, program, "-static")
    rings, environment = probe.environment()
    # nothing can be loaded into it; started by something else (a launcher, a shell), that says so
    started = subprocess.run(["bash", "-c", f"{program}; exit $?"], capture_output=True, text=True, env=environment)
    assert (started.returncode, started.stdout, started.stderr) == (6, "static\n", UNTOUCHED), started


def test_prototypes_are_those_of_each_mpi(probe):
    for family in installed():
        check_wrong_row(probe, source, check_prototypes(source, family))


def test_odd_programs_run_as_ever(probe):
    for family in installed():
        check_odd(probe, family)


def test_fortran_runs_as_ever(probe):
    for family in installed():
        if found(MPI[family]["f"]) and found(["gfortran"]):
            check_fortran(probe, family, "hello_mpif")
            check_fortran(probe, family, "hello_f08")
        else:
            print(f"not tried: Fortran of {family} is not installed")


def given():
    with Probe(build) as probe:
        yield probe,
