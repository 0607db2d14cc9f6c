# labels: slow
"""100 kills at random moments (ranks, mpirun, reaper, supervisor, one or two at once, while a checkpoint is written, while
the run starts again) of runs that are started again until they are done: the loss of every iteration and the final weights
are those of an undisturbed run, bit by bit, and nothing is left behind. SL_SEED repeats a draw, SL_COUNT changes how many."""
import os
import random
import signal
import sys
import tempfile
import time

from runner import build, source
from test_restart import Runs, nothing_left
from training import is_alive, kill, parent_and_state, until

seed = int(os.environ.get("SL_SEED", time.time_ns() % 1000000))
count = int(os.environ.get("SL_COUNT", 100))
print(f"SL_SEED={seed} SL_COUNT={count}", flush=True)
draw = random.Random(seed)
# How a run is made, and which of that changes its bits.
SETTINGS = [([], []), (["parallel.pipeline=4"], []), (["transport=delegated"], []), (["schedule=zb-v"], []),
            (["checkpoint.every=3"], []), (["checkpoint.keep=1"], []), (["parallel.zero=1"], ["parallel.data=2"]),
            (["parallel.pipeline=1"], ["parallel.tensor=2"])]


def is_writing(run):
    try:
        return any(name.endswith(".part") for name in os.listdir(os.path.join(run.out, "checkpoints")))
    except FileNotFoundError:
        return False


def await_moment(run):
    """A random moment, or one while a checkpoint is written."""
    ended = lambda: run.process.poll() is not None  # noqa: E731
    if draw.random() < 0.3:
        until(lambda: is_writing(run) or ended(), 5)
        time.sleep(draw.uniform(0, 0.005))
        return "during a checkpoint" if is_writing(run) else "after one"
    until(ended, draw.uniform(0, 2.5))
    return "at a random moment"


def victims(run):
    """One or two processes; those that are not there at this moment are nobody's loss."""
    workers = sorted(run.workers().values())
    found = {"supervisor": run.process.pid}
    if workers:
        found["rank"] = draw.choice(workers)
        found["mpirun"] = parent_and_state(workers[0])[0]
        found["reaper"] = parent_and_state(found["mpirun"])[0]
    kinds = draw.choice(("rank", "rank", "rank", "mpirun", "reaper", "supervisor", "supervisor rank", "supervisor reaper", "rank mpirun"))
    return [(kind, found[kind]) for kind in kinds.split() if found.get(kind, 0) > 1 and is_own(run, kind, found[kind])]


def is_own(run, kind, pid):
    """A process that ended between two looks has a parent that is not of the run: never hit that."""
    names = {"rank": "slackline-worke", "mpirun": "mpirun", "reaper": "slackline-reape", "supervisor": "slackline"}
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip() == names[kind]
    except OSError:
        return False


def survive(runs, number, free, fixed):
    """One run until it is done; how many kills it took."""
    out, kills, starts = runs.out(), 0, 0
    settings = free + fixed
    runs.bits(*fixed)
    print(f"run {number}: {' '.join(settings) or 'as it is'}", flush=True)
    while True:
        with runs.start("restarts=1000", *settings, out=out, resume=starts > 0) as run:
            starts += 1
            while run.process.poll() is None:
                when = await_moment(run)
                run.look()
                if run.process.poll() is not None:
                    break
                hit = [kind for kind, pid in victims(run) if is_alive(pid) and kill(pid)]
                kills += len(hit)
                print(f"  {when}: {' and '.join(hit)}", flush=True)
                if "supervisor" in hit:
                    run.process.wait()
            code, error = run.end()
            assert code in (0, -signal.SIGKILL), f"run {number}: exit {code}: {error}"
            if code == 0: # else its files go when the reaper is done, or with the next start
                nothing_left(f"run {number}", run)
        if code == 0:
            runs.compare(f"run {number}", out, *fixed)
            print(f"run {number}: {kills} kills, {starts} starts, the same bits", flush=True)
            return kills


def test_random_kills_end_with_the_same_bits():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="slackline-restarts-test.") as folder:
        runs, done, number = Runs(build, source, folder, iterations=120), 0, 0
        order = draw.sample(SETTINGS, len(SETTINGS))
        while done < count:
            done += survive(runs, number + 1, *order[number % len(order)])
            number += 1
        print(f"{done} kills")
