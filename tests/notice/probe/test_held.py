#!/usr/bin/env python3
# labels: long
"""A program that knows nothing of slackline is held at random moments and goes on as if nothing had happened: no deadlock,
the same output, no call in a closed hold. It mixes collectives on overlapping communicators, every kind of message, windows
and communicators that come and go; with one thread a rank and with two; and its controller may die in the middle of a hold.

Usage: test_held.py BUILD_DIR SOURCE_DIR; SL_SEED repeats a run, SL_HOLDS says how many holds (default 25)."""
import os
import subprocess

from holding import ended, hold_until, holder, most, seed, started
from probing import MPI, Probe, compile_with, found, installed
from runner import build, skip

here = os.path.dirname(os.path.abspath(__file__))
EVENTS = {"openmpi": "4000", "mpich": "500"}  # MPICH's ranks spin, which takes its time where they share processors


def output(code, out, errors):
    return code, out


def check_killed(probe, build, family, program, number):
    """After a killed controller all ranks go on at the deadline, which they look at themselves."""
    command = [program, str(number), EVENTS[family]]
    alone = ended(started(family, 4, command, dict(os.environ), probe.folder), family)
    rings, environment = probe.environment()
    watched = started(family, 4, command, environment, probe.folder)
    controller = subprocess.Popen([holder(build), rings, "4", "1", str(number), "1000", "die"], stdout=subprocess.PIPE, text=True)
    said = controller.stdout.readline()
    controller.kill()
    controller.wait()
    end = ended(watched, family)
    assert said == "held\n" and end[:2] == alone[:2], (family, said, end, alone)
    print(f"{family}: held by a controller that was killed, ended as alone", flush=True)


def test_a_held_program_goes_on_as_if_nothing_had_happened():
    holds, number = int(os.environ.get("SL_HOLDS", "25")), seed()
    families = installed()
    if not families:
        skip("neither Open MPI nor MPICH is installed")
    with Probe(build) as probe:
        for family in families:
            program = os.path.join(probe.folder, f"held-{family}")
            compile_with(found(MPI[family]["cc"]), os.path.join(here, "held_calls.c"), program, "-pthread")
            for threads, share in ((1, 0.8), (2, 0.2)):
                wanted = max(5, int(holds * share / len(families)))
                made, closed = hold_until(probe, build, family, 4, [program, str(number), EVENTS[family], str(threads)], output, wanted, number)
                assert made >= wanted or threads > 1, f"{family}: only {made} holds"
                assert most(closed, made), f"{family}, {threads} threads: only {closed} of {made} holds closed"
            check_killed(probe, build, family, program, number)
