# labels: long alone
"""A rank of an unchanged program under a real cgroup's quota: without any test, what the program's own calls and cpu.stat show
names it, with how long the quota stopped it. A quota that stops nothing is no cause, whatever else makes the rank slow."""
import os
import re
import time

from culprit import program
from real import Watched, mpirun
from runner import build, folder, require, skip
from trouble import Quota, ranks_of

require("mpirun", "mpicc", "redis-server")
if len(os.sched_getaffinity(0)) < 2:
    skip("one core")


def watched(folder, ranks, *burn):
    """Ranks that work for 12 ms and meet: they compute, or sleep. They work longer once the file `slow` says so."""
    words = [program(folder), "long-allreduce", "12", os.path.join(folder, "slow"), *burn]
    return Watched(build, folder, mpirun(ranks, words), ["--http", "off", "--no-hold"])


def verdict_of(run, rank, after):
    verdict = {}
    while verdict.get("rank") != rank:
        verdict, after = run.wait_for("verdict", after)
    return verdict["seen"]


def test_a_quota_is_named_with_the_time_that_it_took(folder):
    with watched(folder, 2, "burn") as run:
        _, after = run.wait_for("profiled")  # the reference
        with Quota(ranks_of(run.process.pid)[1], 0.3) as quota:
            began, before = time.monotonic(), quota.throttled()
            seen = verdict_of(run, 1, after)
            stopped = 1000 * (quota.throttled() - before) / (time.monotonic() - began)
        assert "(cgroup quota)" in seen, run.told()
        said = re.search(r"CPU quota throttled it for (\d+) ms of each second", seen)
        assert said and 100 < stopped and stopped / 2 < int(said[1]) < 2 * stopped, (stopped, run.told())


def test_a_quota_that_stops_nothing_is_not_named(folder):
    with watched(folder, 4) as run:
        _, after = run.wait_for("profiled")
        with Quota(ranks_of(run.process.pid)[1], 4) as quota:  # more than it can use
            with open(os.path.join(folder, "slow.new"), "w") as file:
                file.write("1 2.5\n")
            os.rename(os.path.join(folder, "slow.new"), os.path.join(folder, "slow"))
            seen = verdict_of(run, 1, after)
            assert quota.throttled() == 0
        assert "quota" not in seen, run.told()
