"""Every file of examples/ is run by one of the tests of this folder, and its first lines say what it shows, how it is run and
what to expect. Here those that need no training: what the commands print is what the heads say."""
import os
import re
import sys

sys.dont_write_bytecode = True
from heads import broken, complaints, every, matches, of_kind, run, tries
from runner import build, expect, folder, require, source

require("slackline")


def test_a_head_that_lacks_something_is_noticed():
    for words, line, holds in (("makespan 390 ms", "zb: makespan  390 ms, x", True), ("makespan 390 ms", "makespan 3901 ms", False), ("390 ms", "1390 ms", False),
                               ("390 ms", "390.5 ms", False), ("390+-1% ms", "393.8 ms", True), ("390+-1% ms", "394.0 ms", False), ("a 10+-3 b", "a 7 b", True),
                               ("a 10+-3 b", "a 6 b", False), ("86.0%+-1", "86.9%", True), ("86.0%+-1", "86.0 ms", False), ("a ... 5+-1 ms", "a 9 b 5 ms", True), ("a ... 5+-1 ms", "a 9 b 7 ms", False), ("a ... b", "b a", False)):
        expect(matches(words, line) is holds, f"'{words}' {'is not' if holds else 'is'} in '{line}'")
    for text, lacks in (("# Shows how a thing is planned.\n#\n# $ slackline plan x\n# > 390 ms\nx: 1\n", 0), ("x: 1\n", 3), ("# Shows how a thing is planned.\n# $ slackline plan x\nx: 1\n", 2)):
        path = os.path.join(folder, "x.yaml")
        with open(path, "w") as file:
            file.write(text)
        expect(len(complaints(path)) == lacks, f"{text!r}: {complaints(path)}")


def test_every_example_says_what_it_shows_and_is_run():
    for name, kind in every(source).items():
        expect(kind is not None, f"examples/{name} is run by no test: tests/examples/heads.py knows *.yaml, library/*.c, python/*.py and what test_on_event.py calls")
        if kind == "board":
            with open(os.path.join(source, "examples", name)) as file:
                first = file.readlines()[1]
            expect(re.match(r' "description": "A training run .*import .*Expect .*"', first), f"examples/{name} begins with what it shows and what to expect: {first}")
        for what in complaints(os.path.join(source, "examples", name)) if kind not in (None, "board", "on_event") else []:
            expect(False, f"examples/{name}: {what}")


def test_jobs_of_frameworks_that_adapt_are_short():
    names = [name for name in of_kind(source, "python") if name.endswith("_adapt.py")]
    expect(len(names) == 2, f"{names}")
    for name in names:
        with open(os.path.join(source, "examples", name)) as file:
            lines = len(file.readlines())
        expect(lines <= 80, f"examples/{name} has {lines} lines")


def test_commands_print_what_the_heads_say():
    os.symlink(os.path.join(source, "examples"), os.path.join(folder, "examples"))
    names = of_kind(source, "plan")
    expect(len(names) >= 16, f"only {len(names)} examples")
    for name in names:
        own = tries(os.path.join(source, "examples", name))
        expect(any(f"examples/{name}" in one.command for one in own), f"examples/{name}: no command of its head uses it")
        for one in own:
            code, output = run(one.command, folder, build)
            expect(code == 0, f"examples/{name}: {one.command}: exit {code}\n{output}")
            lost = broken(one, output)
            if lost is not None and one.command.startswith("slackline plan "): # a busy machine searches less in a second
                code, output = run(one.command + " --time-limit 20", folder, build)
                lost = broken(one, output)
            expect(lost is None, f"examples/{name}: {one.command}: no '{lost}' in\n{output}")
