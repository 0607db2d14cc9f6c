# labels: long calm
"""A job whose NCCL calls are played (play_ring.c; no GPU is in it), under `slackline watch`: the slow link, or the rank whose GPU comes late,
is named from the events that the plug-in records, without a hold."""
import os
import tempfile
import time

from real import Watched
from runner import build, require, skip

require("slackline", "libnccl-profiler-slackline.so", "redis-server")
program = os.path.join(build, "tests", "play_ring")
RANKS, AT_ONCE = 4, 2
SLOW_AFTER = 10  # s; the healthy reference is there after 3
with open(os.path.join(build, "CMakeCache.txt")) as file:
    if "SL_SANITIZE:BOOL=ON" in file.read():
        skip("the probe cannot be preloaded into a program with sanitizers (test_events.c has them)")


def run(culprit, slower, computes, expected):
    begin = time.clock_gettime(time.CLOCK_MONOTONIC) + 2
    ranks = f'for r in $(seq 0 {RANKS - 1}); do RANK=$r WORLD_SIZE={RANKS} {program} {begin:.3f} 120 {SLOW_AFTER} {culprit} {slower} {computes} & done; wait'
    with tempfile.TemporaryDirectory() as folder:
        with Watched(build, folder, ["sh", "-c", ranks], ["--http", "off", "--no-hold"]) as watched:
            reference, after = watched.wait_for("profiled")
            assert reference.get("reference"), watched.told()
            _, after = watched.wait_for("onset", after)
            suspects, after = watched.wait_for("profiled", after)
            assert expected in suspects["seen"], watched.told()
            verdict, _ = watched.wait_for("verdict", after)
            assert expected in verdict["seen"], watched.told()
            names = [event["seen"] for event in watched.events() if event["kind"] == "verdict"]
            assert len(names) == 1, names
            print(verdict["seen"])


def test_a_slow_link_is_named():
    run(1, 4, 1, "link 1 -> 2")


def test_a_rank_whose_gpu_comes_late_is_named():
    run(2, 1, 1.8, "device of rank 2")
