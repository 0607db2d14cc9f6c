#!/usr/bin/env python3
"""The published figures of three papers next to ours, and the planner's speed: the page docs/results/evidence/planner.md.

Usage: bench/planner/run.py [BUILD_DIR] [--write FILE]
All results come from the command, and the page shows the command of every figure. --write puts the pictures next to the
page. SL_SEED seeds the random profiles. Each part also runs alone: zero_bubble.py, adaptra.py, crosspipe.py,
slow_link.py, speed.py. Takes about six minutes."""
import argparse
import os
import sys

import adaptra
import crosspipe
import slow_link
import speed
import zero_bubble
from command import Command, machine, source

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
command = Command(os.path.abspath(arguments.build))
pictures = os.path.dirname(os.path.abspath(arguments.write)) if arguments.write else None

solver = os.path.exists(os.path.join(arguments.build, "slackline-solver")) and (
    "SLACKLINE_ORTOOLS" in os.environ or os.path.exists(os.path.join(source, ".venv")))

parts = [("speed", lambda: speed.report(command)), ("one slow link", lambda: slow_link.report(command)),
         ("Zero Bubble", lambda: zero_bubble.report(command)), ("Adaptra", lambda: adaptra.report(command)),
         ("CrossPipe", lambda: crosspipe.report(command, pictures))]
text = ("# The planner beside published figures\n\n`bench/planner/run.py --write docs/results/evidence/planner.md` on "
        f"{machine()}. Commands stand under the tables; they are typed in the source folder, and print with "
        "`--format json` what the tables show. Planning times are the command's `solve_ms`. OR-tools CP-SAT, which ends the "
        f"searches of `optimal`, was {'present' if solver else 'absent'}.\n\n")
for name, part in parts:
    print(name, file=sys.stderr)
    text += part()
text = text.rstrip("\n") + "\n"
if arguments.write:
    with open(arguments.write, "w") as file:
        file.write(text)
else:
    print(text, end="")
