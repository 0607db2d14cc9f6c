# labels: slow alone
"""The run files among the examples show what their first lines say: the commands as they stand there, whole. What is measured
is measured again, at most twice, where it is off; it is not judged while other programs take much of the processor."""
import os
import resource
import sys
import time

sys.dont_write_bytecode = True
from heads import broken, of_kind, run, tries
from runner import build, expect, folder, require, skip, source

require("slackline-worker")


def busy():
    """Seconds that the processors have worked, for all programs."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") # without idle and waiting for disks


def own():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_each_run_shows_what_its_head_says():
    unjudged = []
    os.symlink(os.path.join(source, "examples"), os.path.join(folder, "examples"))
    for name in of_kind(source, "train"):
        for one in tries(os.path.join(source, "examples", name)):
            for attempt in range(3):
                before, mine, began = busy(), own(), time.monotonic()
                code, output = run(one.command, folder, build)
                others = max(0, busy() - before - (own() - mine)) / (time.monotonic() - began)
                lost = broken(one, output) if code == 0 else f"exit 0 (exit {code})"
                print(f"{one.command}: {'as its head says' if lost is None else f'no `{lost}`'}; others had {others:.2f} processors")
                if lost is None or code:
                    break
            if lost is not None and code == 0 and others > 0.25:
                unjudged.append(one.command)
                print(f"NOT JUDGED: {one.command}: no '{lost}' in\n{output}")
            else:
                expect(lost is None, f"{one.command}: no '{lost}' in\n{output}")
    if unjudged:
        skip(f"other programs are busy, so these were not judged: {', '.join(unjudged)}")
