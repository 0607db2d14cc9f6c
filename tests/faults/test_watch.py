# labels: slow
"""Each kind of call of a watch fails once, in the watch, its agents or the probe inside of the program: a program that was started ends as
without a watch, the watch ends with it, and nothing of it is left behind."""
import os
import shutil

import faults
from probing import MPI, compile_with, found, installed
from runner import build, expect, folder, require, skip, source
from training import command_line, is_alive

require("libslackline_probe.so", "redis-server")
families = installed()
if not families:
    skip("no MPI compiler")
family = "mpich" if "mpich" in families else families[0]
EACH = int(os.environ.get("SL_EACH", 1))
CHOSEN = os.environ["SL_FAULTS"].split(",") if "SL_FAULTS" in os.environ else None
program, out = os.path.join(folder, "loop"), os.path.join(folder, "out")
compile_with(found(MPI[family]["cc"]), os.path.join(source, "tests", "notice", "watch", "loop.c"), program)
words = [os.path.join(build, "slackline"), "watch", "--out", out, "--http", "off", "--", found(MPI[family]["run"]), *MPI[family]["options"], "-n", "2",
         program, "60", "10000"]


def left():
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_alive(pid) and any(out in word for word in command_line(pid))]


def withstands(programs):
    healthy = faults.run(words, "")
    assert healthy.code == 0 and healthy.out.startswith("ranks 2 result"), healthy.error
    tried, refused = 0, 0
    for point, errors in faults.POINTS.items():
        for error in errors if not CHOSEN or point in CHOSEN else []:
            n, step = 0, 1
            while True:
                shutil.rmtree(out, ignore_errors=True)
                outcome = faults.run(words, programs, (point, error, n), seconds=90)
                if not outcome.failed:
                    break
                tried += 1
                refused += outcome.code != 0
                what = outcome.complaints() or (f"left behind: {left()}" if left() else "")
                if not what and outcome.code == 0 and outcome.out != healthy.out:
                    what = f"the program says {outcome.out!r}"
                if not what and outcome.code != 0 and "ranks 2" in outcome.out:
                    what = f"exit {outcome.code}, though the program ended well: {outcome.error[-300:]}"
                expect(not what, f"{point} {error} {n} ({outcome.failed.strip()}): {what}")
                step = 1 if n + 1 < EACH else 4 * step
                n += step
    print(f"{programs}: {tried} faults, {refused} watches refused to begin")
    expect(tried > 20 or CHOSEN, f"only {tried} faults happened")


def test_the_watch_and_its_agents():
    withstands("slackline")


def test_the_program_that_is_watched():
    withstands("loop")
