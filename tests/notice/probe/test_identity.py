#!/usr/bin/env python3
"""Files of a process are its own, whatever its process id: two processes with equal ids (containers that share a folder, an id
that is used again, a program that becomes another) each have rings and gates, and none touches the other's. Signals that come
while they are made only delay that. A probe of another version says so, naming both."""
import glob
import os
import subprocess

from probing import Probe, compile_with, found
from runner import build, skip

here = os.path.dirname(os.path.abspath(__file__))


def built(folder):
    """The program, with the stand-in of NCCL beside it."""
    compiler = found(["cc", "gcc"])
    if not compiler:
        skip("no C compiler")
    library, program = os.path.join(folder, "libnccl.so.2"), os.path.join(folder, "repeated")
    compile_with(compiler, os.path.join(here, "standin_nccl.c"), library, "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2")
    compile_with(compiler, os.path.join(here, "repeated.c"), program, library, f"-Wl,-rpath,{folder}")
    return program


def own_space():
    """What starts a command as process 1 of a namespace of its own; None: that is not allowed here."""
    words = ["unshare", "--pid", "--fork"] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    done = subprocess.run([*words, "sh", "-c", "echo $$"], capture_output=True, text=True, check=False)
    return words if done.stdout == "1\n" else None


def gates(folder):
    return [os.path.basename(path)[:-len(".gate")] for path in glob.glob(os.path.join(folder, "*.gate"))]


def of_one_process(rings, folder):
    """Each ring has the gate of its own process."""
    assert sorted(ring.name.split(".")[0] for ring in rings) == sorted(gates(folder)), ([ring.name for ring in rings], gates(folder))


def test_processes_with_equal_ids_have_files_of_their_own(probe, program):
    space = own_space()
    if not space:
        print("two namespaces: skipped, unshare --pid is not allowed here")
        return
    folder, environment = probe.environment(WORLD_SIZE="2")
    running = [subprocess.Popen([*space, program, str(rank), "20000", "10"], env={**environment, "RANK": str(rank)},
                                stderr=subprocess.PIPE, text=True) for rank in (0, 1)]
    ends = [(process.communicate(timeout=100)[1], process.returncode) for process in running]
    assert ends == [("", 0), ("", 0)], ends
    rings = probe.rings(folder)
    assert [(ring.pid, ring.rank, ring.lost + len(ring.records)) for ring in rings] == [(1, 0, 20001), (1, 1, 20001)], rings
    of_one_process(rings, folder)
    print("two namespaces: two rings and two gates")


def test_a_process_that_starts_another_program_keeps_its_files_apart(probe, program):
    folder, environment = probe.environment(RANK="0", WORLD_SIZE="2")
    done = subprocess.run([program, "0", "100", "0", "exec"], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    rings = probe.rings(folder)
    assert len({ring.pid for ring in rings}) == 1 and [len(ring.records) for ring in rings] == [101, 101], rings
    of_one_process(rings, folder)
    print("exec: one id, two rings")


def test_signals_leave_files_whole(probe, program):
    """With real signals, and with a system in which each call is interrupted once, whatever the kernel and the file system."""
    library = os.path.join(probe.folder, "interrupted.so")
    compile_with(found(["cc", "gcc"]), os.path.join(here, "interrupted.c"), library, "-shared", "-fPIC")
    for preload, words in (("", ["100", "0", "timer"]), (f":{library}", ["100", "0"])):
        folder, environment = probe.environment(RANK="0", WORLD_SIZE="2", SLACKLINE_PROBE_RECORDS=str(1 << 20))
        environment["LD_PRELOAD"] += preload
        done = subprocess.run([program, "0", *words], env=environment, capture_output=True, text=True, check=False, timeout=100)
        assert (done.returncode, done.stderr) == (0, ""), done
        rings = probe.rings(folder)
        assert [len(ring.records) for ring in rings] == [101], rings
        of_one_process(rings, folder)
    print("interrupted while 64 MiB are made: recorded")


def test_nothing_is_left_half_made(probe, program):
    folder, environment = probe.environment(RANK="0", WORLD_SIZE="2")
    subprocess.run([program, "0", "1", "0"], env=environment, check=True)
    names = sorted(os.listdir(folder))
    assert [name for name in names if name.endswith(".new")] == [] and "control" in names, names
    modes = {name: oct(os.stat(os.path.join(folder, name)).st_mode & 0o777) for name in names}
    assert set(modes.values()) == {"0o600"}, modes


def given():
    with Probe(build) as opened:
        yield opened, built(opened.folder)
