#!/usr/bin/env python3
"""CrossPipe, tables 5 and 6, case 1: static schedules whose messages are sent in groups, as in Megatron, beside the published times.

Usage: bench/planner/grouped.py [BUILD_DIR] [--write FILE]      simulated"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table
from command import Command, folded
from crosspipe import COLUMNS, DELAYS, FILE, PUBLISHED, STATIC, TIMES, problem

MICROBATCHES = 16
parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
command = Command(os.path.abspath(arguments.build))
rows, lines, apart = [], [], {"decoupled": [], "batched": []}
for sites, cells in PUBLISHED.items():
    for (latency, bandwidth), cases in zip(DELAYS, cells):
        row = [sites, f"{latency:g}", f"{bandwidth:g}"]
        for name, published in zip(COLUMNS, cases[0]):
            if name not in STATIC:
                continue
            schedule, placement = STATIC[name]
            keys = problem(8, MICROBATCHES, TIMES, sites, latency * TIMES[0], bandwidth * TIMES[0], placement)
            found = []
            for regime, distances in apart.items():
                sent = keys | {"communication": regime}
                found.append(command.plan(FILE, schedule, sent)["makespan_ms"] / MICROBATCHES / 1e3)
                distances.append(abs(found[-1] / published - 1))
            lines.append(command.line(FILE, schedule, sent))
            row.append(" / ".join(f"{x:.3f}" for x in (*found, published)))
        rows.append(row)
mean, worst = ({regime: f"{100 * of(d):.1f}%" for regime, d in apart.items()} for of in (lambda d: sum(d) / len(d), max))
finish(arguments.write, "CrossPipe: tables 5 and 6, sends in groups", f"""\
`bench/planner/grouped.py`, simulated, {machine()}. Case 1 of the static schedules (8 ranks, {MICROBATCHES} microbatches), seconds per
microbatch; op times as in [planner.md](planner.md). Cells: decoupled sends / sends in groups / published. Distance to the published
times: mean {mean['decoupled']} decoupled and {mean['batched']} in groups, largest {worst['decoupled']} and {worst['batched']}.

""" + table(("sites", "latency / T_F", "bandwidth / T_F", *(name for name in COLUMNS if name in STATIC)), rows)
       + folded("commands, sends in groups", lines))
