# labels: long
"""The tables of options are read by the command as this test reads them in the source: every name in any of them, tried on every
subcommand, is taken if it is in the help, and refused if not. What is taken is in the manual page and in completion: test_help.py."""
import os
import re

from helps import helps, names, options_of
from calling import run
from runner import expect, source

HIDDEN = {("healthcheck", "result")}  # between the command and the processes that it starts

tables = [os.path.join(source, "src", "cli", f) for f in os.listdir(os.path.join(source, "src", "cli")) if f.endswith((".c", ".h"))]
tables += [os.path.join(source, "src", path) for path in ("base/option.h", "notice/validate/validate_request.c")]
known, flags = set(), set()
for path in tables:
    rows = re.findall(r'(?:SL_OPTION|SL_OPTION_OWN|ON_OFF)\(\s*"([a-z-]+)",\s*(\w+)', open(path).read())
    known |= {name for name, _ in rows} | {"help"}
    flags |= {name for name, kind in rows if kind in ("FLAG", "NO")} | {"help"}
expect({"format", "sweep", "join", "on-event", "resume"} <= known, f"the tables were read: {sorted(known)}")


def test_every_option_that_is_taken_is_in_the_help():
    for name in names:
        said = options_of(helps[name])
        for option in sorted(known):
            # refused in any case: for want of a value, or for what follows
            answer = run(name, f"--{option}", *(["--xyzzy"] if option in flags else [])).stderr
            taken = f"unknown option '--{option}'" not in answer
            shortened = any(other.startswith(option) and other != option for other in said)  # getopt takes that, too
            if option == "help" or (name, option) in HIDDEN or (shortened and option not in said):
                continue
            expect(taken == (option in said), f"{name} --{option}: {'taken' if taken else 'refused'}, in the help: {option in said}")
        expect(("unknown option '-o'" not in run(name, "-o").stderr) == ("o" in said), f"{name} -o")
