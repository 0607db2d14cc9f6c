# labels: slow
"""Processes of a run that is rearranged before every iteration are killed at random moments, most of them in the middle of
that: within 10 s everything has ended, with one clear line, and nothing is left. SL_SEED repeats a draw, SL_COUNT changes how
many."""
import os
import random
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from arranging import arranged
from runner import build, source
from test_kill import Kills

seed = int(os.environ.get("SL_SEED", time.time_ns() % 1000000))
count = int(os.environ.get("SL_COUNT", 16))
print(f"SL_SEED={seed} SL_COUNT={count}", flush=True)
draw = random.Random(seed)

def test_nothing_is_left_of_a_killed_run_that_is_rearranged():
    with tempfile.TemporaryDirectory(prefix="slackline-kill-test.") as folder:
        kills = Kills(build, source, folder)
        for number in range(count):
            transport = draw.choice(("direct", "delegated", "auto"))
            layout = draw.choice(("{pipeline: 4}", "{pipeline: 2, data: 2, zero: 1}", "{pipeline: 2, tensor: 2}"))
            seats = [draw.sample(range(4), 4) for _ in range(300)]
            settings = [f"transport={transport}", f"parallel={layout}", "iterations=2000", "device.pace_ms={F: 0.2, I: 0.2, W: 0.2}",
                        arranged(*({"iteration": i, "positions": seat} for i, seat in enumerate(seats)))]
            kind = draw.choice(("worker", "worker", "worker", "mpirun", "reaper", "supervisor"))
            kills.end(f"{number}: {kind}, {transport}, {layout}", [kind], settings, draw=draw.choice, after=draw.randrange(60),
                      delegated=False)
