# labels: slow
"""Each kind of call of a watch fails once, in the watch, its agents or the probe inside of the program: a program that was started ends as
without a watch, the watch ends with it, and nothing of it is left behind."""
import os
import shutil

import faults
from probing import MPI, compile_with, found, installed
from runner import build, expect, folder, require, skip, source

require("libslackline_probe.so", "redis-server")
families = installed()
if not families:
    skip("no MPI compiler")
family = "mpich" if "mpich" in families else families[0]
program, out = os.path.join(folder, "loop"), os.path.join(folder, "out")
compile_with(found(MPI[family]["cc"]), os.path.join(source, "tests", "notice", "watch", "loop.c"), program)
words = [os.path.join(build, "slackline"), "watch", "--out", out, "--http", "off", "--", found(MPI[family]["run"]), *MPI[family]["options"], "-n", "2",
         program, "60", "10000"]


def withstands(programs):
    shutil.rmtree(out, ignore_errors=True)
    healthy = faults.run(words, "")
    assert healthy.code == 0 and healthy.out.startswith("ranks 2 result"), healthy.error

    def attempt(fault):
        shutil.rmtree(out, ignore_errors=True)
        outcome = faults.run(words, programs, fault, seconds=90)
        if faults.left(out):
            return outcome, f"left behind: {faults.left(out)}"
        if outcome.code == 0:
            return outcome, "" if outcome.out == healthy.out else f"the program says {outcome.out!r}"
        return outcome, f"exit {outcome.code}, though the program ended well: {outcome.error[-300:]}" if "ranks 2" in outcome.out else ""
    tried, refused, wrong = faults.each(attempt, lambda: faults.apart(4))
    print(f"{programs}: {tried} faults, {refused} watches refused to begin")
    expect(tried > 20 or "SL_FAULTS" in os.environ, f"only {tried} faults happened")
    for one in wrong:
        expect(False, one)


def test_the_watch_and_its_agents():
    withstands("slackline")


def test_the_program_that_is_watched():
    withstands("loop")
