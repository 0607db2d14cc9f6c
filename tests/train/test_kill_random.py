# labels: slow
"""About 100 random kills of processes of runs with delegates, at random moments, one to three at once, directly and under
`auto` while paths change: what test_kill.py promises holds each time. SL_SEED repeats a draw, SL_COUNT changes how many."""
import os
import random
import signal
import sys
import tempfile
import time

from runner import build, source
from test_kill import Kills
from training import Result, Training, kill, train

seed = int(os.environ.get("SL_SEED", time.time_ns() % 1000000))
count = int(os.environ.get("SL_COUNT", 100))
print(f"SL_SEED={seed} SL_COUNT={count}", flush=True)
draw = random.Random(seed)
FATAL = ("worker", "mpirun", "reaper", "supervisor")
BEARABLE = ("sender", "receiver")


def end_a_run(kills, number):
    kinds = draw.sample(FATAL, draw.choice((1, 1, 2))) + draw.sample(BEARABLE, draw.choice((0, 1)))
    draw.shuffle(kinds)
    settings = [f"network.queues={draw.choice((1, 1, 2, 3))}"]
    if draw.random() < 0.3: # delegates come and go all the time
        faults = ", ".join("{iterations: [%d, %d], link: [1, 2], latency_ms: 30}" % (at, at + 5) for at in range(4, 200, 10))
        settings = ["transport=auto", "adaptation.hold=2", f"faults=[{faults}]"]
        kinds = [kind for kind in kinds if kind in FATAL]
    kills.end(f"{number}: {' and '.join(kinds)} of {settings[0]}", kinds, settings, draw=draw.choice,
              pause=draw.choice((0, 0, draw.uniform(0, 0.05))), after=draw.randrange(25), delegated=len(settings) == 1)
    return len(kinds)


def kill_delegates(kills, number):
    """A run of which only delegates are killed, at most 20 of a rank: it ends well, with the same bits."""
    queues, deaths = draw.choice((1, 2, 3)), 0
    settings = [f"network.queues={queues}", "iterations=60"]
    kills.count += 1
    out = os.path.join(kills.folder, f"run{kills.count}")
    with Training(build, kills.file, out, *settings) as run:
        run.await_iteration(0)
        for _ in range(draw.randrange(4, 12)):
            living = sorted(run.delegates().items())
            if living and run.process.poll() is None:
                deaths += kill(draw.choice(living)[1])
            time.sleep(draw.uniform(0, 0.2))
        code, error = run.end()
    assert code == 0, f"{number}: exit {code}: {error}"
    bits = Result(out).bits
    assert bits == reference(kills), f"{number}: {bits}"
    print(f"{number}: {deaths} delegates killed, {queues} queues: the same bits", flush=True)
    return deaths


def reference(kills, known={}): # noqa: B006
    if not known:
        known["bits"] = train(build, kills.file, os.path.join(kills.folder, "direct"), "transport=direct", "iterations=60").bits
    return known["bits"]


def test_nothing_is_left_of_runs_killed_at_random():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="slackline-kills-test.") as folder:
        kills, done, number = Kills(build, source, folder), 0, 0
        while done < count:
            number += 1
            done += (kill_delegates if draw.random() < 0.3 else end_a_run)(kills, number)
