# labels: net long torch
"""A pipeline of PyTorch on two hosts (network namespaces), whose messages delegates carry over two rails: a rail that is cut in the middle of
a step, without a word or by its interface, and a delegate that is killed in the middle of a step cost less than a second and no bit, and the job's
events say so. What each cost is printed."""
import json
import os
import statistics
import subprocess
import threading
import time

from environments import base as python, has_torch
from lab import MANAGEMENT, Lab, permitted, skip
from runner import build, expect, folder, source

why = permitted()
if why:
    skip(why)
if not has_torch():
    skip("no .venv with torch (python3 -m venv .venv && .venv/bin/pip install -r tests/requirements.txt)")
if not os.path.exists(os.path.join(build, "libslackline_transport.so")):
    skip("libslackline_transport is not built (xxHash is missing)")


BLACK, HEALED, DOWN, UP, KILLED = 10, 20, 26, 34, 44  # steps, of 66
COST_MS = 1000


class Rank:
    """A rank, and what it has said so far."""

    def __init__(self, lab, rank):
        rails = ",".join(lab.interface(rail) for rail in range(lab.rails))
        here = os.path.dirname(os.path.abspath(__file__))
        words = ["env", f"GLOO_SOCKET_IFNAME={MANAGEMENT}", "OMP_NUM_THREADS=1", python,
                 os.path.join(here, "carried_rank.py"), os.path.abspath(source), os.path.abspath(build), os.path.join(folder, "store"), str(rank), rails]
        self.errors = open(os.path.join(folder, f"errors.{rank}"), "w+")
        self.process = lab.start(rank, words, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.said = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.said.append(json.loads(line))

    def reach(self, step, patience=400):
        """Waits until a step is under way."""
        until = time.monotonic() + patience
        while not any(one.get("begin", -1) >= step for one in list(self.said)):
            self.errors.seek(0)
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"step {step} is not reached: {self.said[-2:]} {self.errors.read()[-2000:]}")
            time.sleep(0.001)
        time.sleep(0.003)

    def end(self):
        code = self.process.wait(240)
        self._reader.join(10)
        self.errors.seek(0)
        expect(code == 0, f"exit {code}: {self.errors.read()[-2000:]}")
        return self.said


def cost(lines, first, last):
    """The time that the longest of these steps took more than a step in the middle of all."""
    times = {one["step"]: one["ms"] for one in lines if "step" in one}
    return max(times[step] for step in range(first, last)) - statistics.median(times.values())


def test_a_cut_rail_and_a_killed_delegate_cost_less_than_a_second_and_no_bit():
    with Lab(rails=2) as lab:
        ranks = [Rank(lab, rank) for rank in (0, 1)]
        ranks[0].reach(BLACK)
        lab.blackhole(0, 0)  # what rank 0 sends on the first rail vanishes
        ranks[0].reach(HEALED)
        lab.heal(0, 0)
        ranks[0].reach(DOWN)
        lab.down(1)
        ranks[0].reach(UP)
        lab.up(1)
        said = [rank.end() for rank in ranks]
        expect(not lab.processes(), f"left: {lab.processes()}")
    for rank, lines in enumerate(said):
        expect(lines[0] == {"warnings": [], "carried": True}, f"rank {rank}: {lines[0]}")
        expect(lines[-1]["wrong"] == [], f"rank {rank}: steps {lines[-1]['wrong']} differ from Gloo's")
        for what, first, last in (("rail 0 without a word", BLACK, HEALED), ("rail 1 by its interface", DOWN, UP), ("a killed delegate", KILLED, 66)):
            lost = cost(lines, first, last)
            print(f"rank {rank}: {what}: {lost / 1e3:.3f} s")
            expect(lost < COST_MS, f"rank {rank}: {what} costs {lost:.0f} ms")
    replaced = [text for kind, text, link in said[0][-1]["events"] if kind == "replaced"]
    expect(len(replaced) >= 4 and all("signal 9" in text for text in replaced), f"replaced: {replaced}")
    rails = [text for kind, text, link in said[0][-1]["events"] if kind == "rail"]
    print("\n".join(rails))
    for rail in (0, 1):
        expect(any(text.startswith(f"rail {rail} of delegate 0 lost") for text in rails), f"no lost rail {rail} among {rails}")
        expect(any(text.startswith(f"rail {rail} of delegate 0 carries messages again") for text in rails), f"rail {rail} did not return: {rails}")
