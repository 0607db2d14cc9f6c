# labels: slow torch
"""Other threads of a Python process run on while one is held at the gate, or waits in a call of Gloo that slackline has wrapped: the interpreter's
lock is given up in both."""
import os
import re
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
from runner import build, expect, source
from waiting import until
import seeing  # noqa: F401  goes on under .venv's Python
from holding import Ranks, ended, holder, seed
from probing import Probe

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counting_program.py")
HELD_MS, LATE_S = 400, 0.6  # of hold_gates; each count takes 2 ms and more
LEAST = 20


def counted(what, held):
    """{rank: (ms of its longest call, counts of the other thread in it)}"""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1])}
    with Probe(build) as probe:
        ready = os.path.join(probe.folder, "ready")
        rings, environment = probe.environment(**address, READY=ready, **({} if held else {"LATE": str(LATE_S)}))
        environment["PYTHONPATH"] = os.path.join(source, "python", "slackline", "seen")
        program = Ranks([sys.executable, PROGRAM, what, "200"], 2, environment)
        until(lambda: all(os.path.exists(f"{ready}-{rank}") for rank in range(2)), 120)
        if held:
            controller = subprocess.Popen([holder(build), rings, "2", "1", str(seed()), "1000", "die"], stdout=subprocess.PIPE, text=True)
            said = controller.stdout.readline()
        code, out, errors = ended(program, what)
        if held:
            controller.kill()
            controller.communicate()
            expect(said == "held\n", f"{what}: {said!r}")
    expect(code == 0, f"{what}: {out} {errors}")
    found = {int(rank): (int(ms), int(count)) for rank, ms, count in re.findall(r"rank (\d) longest (\d+) counted (\d+)", out)}
    expect(len(found) == 2, f"{what}: {out} {errors}")
    print(what, "held" if held else "waiting", found, flush=True)
    return found


def test_other_threads_run_on_while_one_is_held():
    for what in ("blocking", "posted", "messages"):
        for rank, (ms, count) in counted(what, held=True).items():
            expect(ms >= HELD_MS / 2 and count >= LEAST, f"{what}, rank {rank}: held for {ms} ms, in which the other thread counted {count} times")


def test_other_threads_run_on_while_one_waits_in_a_call():
    for what in ("blocking", "posted", "messages"):
        ms, count = counted(what, held=False)[0]
        expect(ms >= 1e3 * LATE_S / 2 and count >= LEAST, f"{what}: rank 0 waits for {ms} ms, in which the other thread counted {count} times")
