# labels: slow
"""Each kind of call of a training run fails once, in the command, a worker or a delegate: the run ends well with the weights of the undisturbed
one, or with a clear error, and then goes on from its newest checkpoint to the same weights; nothing of it is left behind. SL_FAULTS=POINT,...
tries only these, SL_EACH=N the first N calls of each (and then some later ones)."""
import json
import os
import shutil

import faults
from checkpoints import steps, write_run
from runner import build, expect, folder, source
from training import arguments, lines

out = os.path.join(folder, "out")
SETTINGS = ["iterations=6", "checkpoint.every=2", "device.pace_ms.F=0.01", "device.pace_ms.I=0.01", "device.pace_ms.W=0.01"]


def weights():
    with open(os.path.join(out, "summary.json")) as file:
        return json.load(file)["weights_hash"]


def complaint(outcome, healthy, settings):
    if faults.left(out):
        return f"left behind: {faults.left(out)}"
    if outcome.code == 0:
        return "" if weights() == healthy else "other weights"
    now = steps(out)
    if not now and any(event["kind"] == "checkpoint_written" for event in lines(os.path.join(out, "events.jsonl"))):
        return f"a checkpoint was written and is lost: {os.listdir(os.path.join(out, 'checkpoints'))}"
    again = faults.run(arguments(build, os.path.join(folder, "run.yaml"), out, settings, resume=bool(now)) + ["--overwrite"] * (not now), "")
    if again.code != 0:
        return f"exit {outcome.code} ({outcome.error[-200:]!r}), and it cannot go on: {again.error[-300:]!r}"
    return "" if weights() == healthy else "other weights after it went on"


def withstands(programs, settings):
    file = write_run(folder, source)
    shutil.rmtree(out, ignore_errors=True)
    undisturbed = faults.run(arguments(build, file, out, settings), "")
    assert undisturbed.code == 0, undisturbed.error
    healthy = weights()

    def attempt(fault):
        shutil.rmtree(out, ignore_errors=True)
        outcome = faults.run(arguments(build, file, out, settings), programs, fault, seconds=120)
        return outcome, complaint(outcome, healthy, settings) if outcome.failed else ""
    tried, ended, wrong = faults.each(attempt, lambda: faults.apart(3))
    print(f"{programs}: {tried} faults, {ended} runs ended with an error")
    for one in wrong:
        expect(False, one)


def test_the_command():
    withstands("slackline", SETTINGS)


def test_a_worker():
    withstands("slackline-worker", SETTINGS)


def test_a_delegate():
    withstands("slackline-delegate", SETTINGS + ["transport=delegated"])
