# labels: slow torch
"""PyTorch scripts over Gloo, held again and again while they run: no rank makes a call in a closed hold, the holds do close, and
what is computed stays the same, in a pipeline and in DistributedDataParallel. Called with BUILD_DIR SOURCE_DIR; SL_SEED
repeats the moments."""
import os
import sys

sys.dont_write_bytecode = True
from runner import build, expect, source
from seeing import PROGRAM, alone, told  # goes on under .venv's Python
from holding import Ranks, hold_run, seed
from probing import Probe

import socket


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def held_again_and_again(what, iterations, holds):
    """No hold changes what ranks compute, or is more than a delay; and they do close."""
    words, number = [sys.executable, PROGRAM, what, str(iterations)], seed()

    def started(environment):
        return Ranks(words, 4, {**environment, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())})
    plain = alone(4, what, str(iterations))
    expect(plain[0] == 0 and len(plain[1]) == 4, f"{what}: {plain}")
    with Probe(build) as probe:
        rings, environment = probe.environment()
        environment["PYTHONPATH"] = os.path.join(source, "python", "slackline", "seen")
        said, end = hold_run(build, rings, started(environment), 4, holds, number, 100000, what)
    expect((end[0], told(end[1])) == plain, f"{what}: held {end}, alone {plain}")
    expect(said["moved"] == said["over"] == 0, f"{what}: a call was made in a closed hold: {said}")
    expect(said["holds"] >= holds // 3 and said["closed"] >= 0.8 * said["holds"], f"{what}: {said}")
    print(f"{what}: {said['holds']} holds, {said['closed']} closed", *sorted(set(said["reasons"])), flush=True)


def test_a_held_pipeline_computes_the_same():
    held_again_and_again("pipeline", 100, 20)


def test_held_ddp_computes_the_same():
    held_again_and_again("ddp", 300, 20)
