# labels: slow
"""Each kind of call of a training run fails once, in the command, a worker or a delegate: the run ends well with the weights of the undisturbed
one, or with a clear error, and then goes on from its newest checkpoint to the same weights; nothing of it is left behind. SL_FAULTS=POINT,...
tries only these, SL_EACH=N the first N calls of each (and then some later ones)."""
import glob
import json
import os
import shutil

import faults
from checkpoints import steps, write_run
from runner import build, expect, folder, source
from training import arguments, command_line, is_alive

CHOSEN = os.environ["SL_FAULTS"].split(",") if "SL_FAULTS" in os.environ else None
EACH = int(os.environ.get("SL_EACH", 1))
out = os.path.join(folder, "out")
SETTINGS = ["iterations=6", "checkpoint.every=2", "device.pace_ms.F=0.01", "device.pace_ms.I=0.01", "device.pace_ms.W=0.01"]


def weights():
    with open(os.path.join(out, "summary.json")) as file:
        return json.load(file)["weights_hash"]


def left():
    """Processes and shared memory that name the run's folder."""
    pids = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_alive(int(pid)) and any(out in word for word in command_line(int(pid)))]
    owners = [path for path in glob.glob("/dev/shm/slackline-*/owner") if out in open(path).read()]
    return pids, owners


def numbers():
    """Of the calls that fail: the first ones, then farther and farther apart."""
    n, step = 0, 1
    while True:
        yield n
        step = 1 if n + 1 < EACH else 3 * step
        n += step


def complaint(outcome, healthy, settings, before):
    if left() != ([], []):
        return f"left behind: {left()}"
    if outcome.code == 0:
        return "" if weights() == healthy else "other weights"
    now = steps(out)
    if os.path.isdir(os.path.join(out, "checkpoints")) and os.listdir(os.path.join(out, "checkpoints")) and not now and before:
        return f"no checkpoint is left: {os.listdir(os.path.join(out, 'checkpoints'))}"
    again = faults.run(arguments(build, os.path.join(folder, "run.yaml"), out, settings, resume=bool(now)) + ["--overwrite"] * (not now), "")
    if again.code != 0:
        return f"exit {outcome.code} ({outcome.error[-200:]!r}), and it cannot go on: {again.error[-300:]!r}"
    return "" if weights() == healthy else "other weights after it went on"


def withstands(programs, settings):
    file = write_run(folder, source)
    shutil.rmtree(out, ignore_errors=True)
    undisturbed = faults.run(arguments(build, file, out, settings), "")
    assert undisturbed.code == 0, undisturbed.error
    healthy, tried, wrong, ended = weights(), 0, [], 0
    for point, errors in faults.POINTS.items():
        for error in errors if not CHOSEN or point in CHOSEN else []:
            for n in numbers():
                shutil.rmtree(out, ignore_errors=True)
                outcome = faults.run(arguments(build, file, out, settings), programs, (point, error, n), seconds=120)
                if not outcome.failed:
                    break
                tried += 1
                ended += outcome.code != 0
                what = outcome.complaints() or complaint(outcome, healthy, settings, [])
                if what:
                    wrong.append(f"{point} {error} {n} ({outcome.failed.strip()}): {what}")
                    print("wrong:", wrong[-1], flush=True)
    print(f"{programs}: {tried} faults, {ended} runs ended with an error")
    for one in wrong:
        expect(False, one)


def test_the_command():
    withstands("slackline", SETTINGS)


def test_a_worker():
    withstands("slackline-worker", SETTINGS)


def test_a_delegate():
    withstands("slackline-delegate", SETTINGS + ["transport=delegated"])
