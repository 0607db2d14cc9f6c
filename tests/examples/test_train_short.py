# labels: long
"""Every run file among the examples trains: three iterations of each command of its head."""
import os
import sys

sys.dont_write_bytecode = True
from heads import of_kind, run, tries
from runner import build, expect, folder, require, source

require("slackline-worker")


def test_every_run_file_trains():
    os.symlink(os.path.join(source, "examples"), os.path.join(folder, "examples"))
    names = of_kind(source, "train")
    for name in names:
        for one in tries(os.path.join(source, "examples", name)):
            code, output = run(one.command + " --set iterations=3", folder, build)
            for good, what in ((code == 0, f"exit {code}"), ("weights_hash" in output, "no weights"), ("iteration    2 " in output, "no third iteration")):
                expect(good, f"{one.command}: {what}\n{output}")
    expect(len(names) >= 6, f"only {len(names)} run files among the examples")
