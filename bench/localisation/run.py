#!/usr/bin/env python3
"""Accuracy of the localization of slow components: random faults in jobs of 8 ranks, 4 x 2 and 2 x 4 (pipeline x data).

Usage: bench/localisation/run.py [BUILD_DIR] [--seed S] [--virtual N] [--live N] [--cases] [--write docs/results/evidence/localisation.md]
Most cases run on the virtual clock (real engines and transports, ops that sleep with jitter, emulated links), the live ones
are runs of `slackline train` with paced ops. Every suspect and every verdict that is told counts: a case is right when the
faulty component is named (of two, both) and nothing else, or when nothing costs a tenth and nothing is said.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(source, "bench"), os.path.join(source, "bench", "planner")]
from command import machine, table  # noqa: E402
from live import draw, run  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--seed", type=int, default=4242)
parser.add_argument("--virtual", type=int, default=88)
parser.add_argument("--live", type=int, default=12)
parser.add_argument("--cases", action="store_true", help="print each case")
parser.add_argument("--write")
arguments = parser.parse_args()
VERDICTS = ["right", "cannot tell", "one of two", "missed", "wrong"]


def virtual_cases():
    with subprocess.Popen([os.path.join(arguments.build, "bench", "bench_localisation"), str(arguments.seed), "0",
                           str(arguments.virtual)], stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            yield json.loads(line)
    assert child.returncode == 0, "bench_localisation failed"


def live_cases():
    folder = tempfile.mkdtemp(prefix="slackline-localisation-")
    try:
        for number in range(arguments.live):
            yield run(arguments.build, source, folder, draw(arguments.seed, number))
    finally:
        shutil.rmtree(folder)


def collect(cases, where):
    done = []
    for case in cases:
        done.append(case)
        if arguments.cases or case["verdict"] != "right":
            print(f"{where} case {case['case']}: {case['kind']}, {case['layout']}, x {case['effect']:.2f}: {case['verdict']}",
                  file=sys.stderr)
        if case["verdict"] != "right":
            print(json.dumps(case), file=sys.stderr)
    return done


def rows(cases):
    kinds = collections.OrderedDict()
    for case in sorted(cases, key=lambda case: case["kind"]):
        kinds.setdefault(case["kind"], []).append(case["verdict"])
    made = [[kind, str(len(said))] + [str(said.count(verdict)) for verdict in VERDICTS] for kind, said in kinds.items()]
    every = [case["verdict"] for case in cases]
    return made + [["**all**", str(len(every))] + [str(every.count(verdict)) for verdict in VERDICTS]]


def delays(cases):
    """Iterations from the fault to the first report."""
    late = []
    for case in cases:
        faults = case.get("faults", case.get("truth"))
        if case["said"] and faults:
            late.append(min(said["iteration"] for said in case["said"]) - faults[0]["iterations"][0])
    late.sort()
    return f"{late[len(late) // 2]} (median), {late[-1]} (max)" if late else "-"


virtual = collect(virtual_cases(), "virtual")
live = collect(live_cases(), "live")
both = virtual + live
right = sum(case["verdict"] == "right" for case in both)
wrong = sum(case["verdict"] == "wrong" for case in both)
head = ["fault", "cases"] + VERDICTS
text = ["# Naming the slow component: all tables", "",
        f"`bench/localisation/run.py --seed {arguments.seed} --virtual {arguments.virtual} --live {arguments.live} --write docs/results/evidence/localisation.md`, {machine()}.", "",
        "Training jobs of 8 ranks, 4 x 2 and 2 x 4 (pipeline x data), have random faults: devices that are 1.2 to 3 times as slow, latency or",
        "bandwidth of links in one or both directions, two faults at once, no fault, or one that costs less than 10%. Stages and shares",
        "of the batch are uneven, with jitter and spikes, under several schedules. Every suspect and every verdict counts. A case is right if the faulty",
        "component (of two: both) is named and nothing else, or if nothing is named because nothing costs 10%. Directions of links count.", "",
        f"**{right} of {len(both)} right, {wrong} wrong.** Goal: 98 of 100, the rest \"cannot tell\", never wrong.", "",
        "## Virtual clock", "",
        "Engines and transports are real, with one thread per rank. Ops sleep for their time, with jitter of up to 9%, and links are emulated. There is",
        "no adaptation. Faults that make iterations less than 12% longer are drawn again. Iterations from a fault to the",
        f"first report: {delays(virtual)}.", "", table(head, rows(virtual)), "",
        "## Live", "",
        "`slackline train` runs paced ops on 8 ranks on the cores of this machine, half of the jobs with adaptation. Iterations from a fault to the",
        f"first report: {delays(live)}.", "", table(head, rows(live))]
page = "\n".join(text) + "\n"
print(page)
if arguments.write:
    with open(arguments.write + ".new", "w") as new:
        new.write(page)
    os.replace(arguments.write + ".new", arguments.write)
sys.exit(1 if wrong else 0)
