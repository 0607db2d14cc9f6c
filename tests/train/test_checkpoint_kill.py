# labels: slow
"""SIGKILL at random moments while checkpoints are written all the time: what bears the name of a whole one is whole, and
the run that goes on ends with the bits of an undisturbed one. SL_SEED gives the seed, SL_KILLS how many."""
import json
import os
import random
import sys
import time

sys.dont_write_bytecode = True
from checkpoints import is_free, kinds, run, step, steps, write_run
from runner import build, folder, source
from training import Training, kill, until

SETTINGS = ("checkpoint={every: 1, keep: 2}", "iterations=60", "model.width=128", "parallel.pipeline=3")
seed = int(os.environ.get("SL_SEED", random.SystemRandom().randrange(10 ** 6)))
kills = int(os.environ.get("SL_KILLS", 12))
chance = random.Random(seed)
print(f"SL_SEED={seed}", flush=True)


def check_whole(out):
    """Every file that a whole one's state names is there with its size; that its bytes are right --resume checks."""
    for number in steps(out):
        state = json.load(open(os.path.join(step(out, number), "state.json")))
        assert state["iteration"] == number
        for file in state["files"]:
            path = os.path.join(step(out, number), file["name"])
            assert os.path.getsize(path) == file["size"], path


def test_killed_runs_resume_to_the_same_bits():
    path = write_run(folder, source)
    whole = run(build, path, os.path.join(folder, "whole"), *SETTINGS, resume=False)
    out = os.path.join(folder, "out")
    reached = parts = 0
    for number in range(kills):
        with Training(build, path, out, *SETTINGS, resume=True) as training:
            before = len(training.metrics())
            until(lambda: training.process.poll() is not None or training.metrics() and
                  (len(training.metrics()) != before or before == 0), 30)
            time.sleep(chance.uniform(0, 0.3))
            training.look()
            everybody = [training.process.pid] + list(training.seen)
            chance.shuffle(everybody)
            for pid in everybody:
                kill(pid)
            until(lambda: not any(training.is_own(pid) for pid in training.seen), 20)
        until(lambda: is_free(out), 20)
        parts += bool(steps(out, ".part"))
        reached = max(steps(out), default=0)
        check_whole(out)
    result = run(build, path, out, *SETTINGS)
    assert result.bits == whole.bits, f"{result.bits} is not {whole.bits}"
    wrong = [event for event in kinds(result, "checkpoint_refused") if ".part" not in event["seen"]]
    assert not wrong, wrong
    print(f"{kills} kills, {parts} of them while a checkpoint was written, step {reached} reached: the same bits")
