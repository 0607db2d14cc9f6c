#!/usr/bin/env python3
"""Measurements of adaptation in running jobs: slackline's ladder on the faults of two papers, next to the published values
(Adaptra, figures 15 and 18; Falcon, figures 13 to 17).

Usage: bench/adapting/run.py [BUILD_DIR] [--only NAME ..] [--keep FOLDER] [--write docs/results/evidence/adapting.md]
NAME: delays, chain, one-slow, several-slow, congestion, cards, consolidation, compound. --keep: keeps the runs in FOLDER. Real
training of small models on paced devices, up to 16 ranks. All sections take under 15 minutes."""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source  # noqa: E402

import compound  # noqa: E402
import congestion  # noqa: E402
import consolidation  # noqa: E402
import delays  # noqa: E402
import microbatches  # noqa: E402
from live import Bench, say  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--only", nargs="+", metavar="NAME")
parser.add_argument("--keep", metavar="FOLDER")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

SECTIONS = {"delays": (delays.HEADING, delays.section),
            "chain": (congestion.CHAIN, congestion.chain),
            "one-slow": (microbatches.ONE, microbatches.one_slow),
            "several-slow": (microbatches.SEVERAL, microbatches.several_slow),
            "congestion": (congestion.SEVERITY, congestion.severities),
            "cards": (congestion.CARDS, congestion.cards),
            "consolidation": (consolidation.HEADING, consolidation.section),
            "compound": (compound.HEADING, lambda bench: compound.section(bench, arguments.write))}
unknown = set(arguments.only or ()) - set(SECTIONS)
if unknown:
    parser.error(f"unknown section {', '.join(sorted(unknown))}; known are {', '.join(SECTIONS)}")

with Bench(arguments.build, arguments.keep) as bench:
    for name in arguments.only or SECTIONS:
        heading, section = SECTIONS[name]
        load, began = os.getloadavg()[0], time.monotonic()
        body = section(bench)
        finish(arguments.write, heading, f"""\
Measured on paced devices: `bench/adapting/run.py --only {name}`, {machine()}; times are medians of iterations. Load average when it began:
{load:.1f}.

{body}""")
        say(f"{name}: {time.monotonic() - began:.0f} s")
