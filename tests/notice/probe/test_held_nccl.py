#!/usr/bin/env python3
"""A program that uses NCCL is held when its devices are idle, not only its hosts: nothing that was enqueued is left undone
in a closed hold, on any rank, and the program goes on and says the same. The library is a stand-in whose streams really run
later and wait for each other across processes (with a real one: docs/results/gpu.md).

Usage: test_held_nccl.py BUILD_DIR SOURCE_DIR; SL_SEED repeats the moments."""
import os

from holding import Ranks, ended, hold_run, seed
from probing import Probe, compile_with, found
from runner import build

here = os.path.dirname(os.path.abspath(__file__))
RANKS, HOLDS, EVENTS = 4, 30, "2500"


def started(program, number, device, environment):
    with open(device, "wb") as file:
        file.write(bytes(1 << 16))
    return Ranks([program, str(number), EVENTS], RANKS, {**environment, "STANDIN_DEVICE": device})


def test_nothing_is_left_undone_on_held_devices():
    compiler, number = found(["gcc", "cc", "clang"]), seed()
    with Probe(build) as probe:
        library, program = os.path.join(probe.folder, "libnccl.so.2"), os.path.join(probe.folder, "held_nccl")
        compile_with(compiler, os.path.join(here, "standin_device.c"), library, "-shared", "-fPIC", "-pthread", "-Wl,-soname,libnccl.so.2")
        compile_with(compiler, os.path.join(here, "held_nccl.c"), program, library, f"-Wl,-rpath,{probe.folder}")
        device = os.path.join(probe.folder, "device")
        alone = ended(started(program, number, device, dict(os.environ)), "alone")
        assert alone[0] == 0 and alone[1].count("rank") == RANKS, alone
        made = closed = runs = 0
        while made < HOLDS and runs < 10:
            rings, environment = probe.environment()
            said, end = hold_run(build, rings, started(program, number, device, environment), RANKS, HOLDS - made, number + runs, 20000,
                                 "NCCL", device)
            assert end == alone, (end, alone)
            assert said["moved"] == said["over"] == said["busy"] == 0, said
            made, closed, runs = made + said["holds"], closed + said["closed"], runs + 1
            print(f"{said['holds']} holds, {said['closed']} closed, ms {said['ms']}", *sorted(set(said["reasons"])), sep="\n  ", flush=True)
        assert made == HOLDS and closed >= 0.9 * made, (made, closed)
