#!/usr/bin/env python3
"""Accuracy of the detection of fail-slows: 1,000 generated traces with known onsets and reliefs, for each algorithm.

Usage: bench/detection/run.py [BUILD_DIR] [--traces N] [--seed S] [--misses] [--write docs/results/evidence/detection.md]
A change point is a hit when its kind is right and it lies within 5 iterations of an onset or relief that no other hit has;
otherwise it is a false alarm. bocd has no kinds: any change point within 5 iterations is a hit. Traces with fail-slows of 8 to 12%
are counted separately, because either answer is right for a threshold of 10%.
"""
import argparse
import csv
import io
import json
import os
import re
import statistics
import subprocess
import sys

source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(source, "bench", "planner")]
from command import machine, table  # noqa: E402
from traces import call_log, trace  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--traces", type=int, default=1000)
parser.add_argument("--seed", type=int, default=4242)
parser.add_argument("--misses", action="store_true", help="print each miss and false alarm")
parser.add_argument("--write")
arguments = parser.parse_args()
command = os.path.join(arguments.build, "slackline")
LINE = re.compile(r"\w+ (\d+): (\w+), .* seen at \w+ (\d+)")
BATCH = re.compile(r"\w+ (\d+): (change)")


def detect(text, *options):
    done = subprocess.run([command, "detect", "-", *options], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def changes(samples, algorithm):
    lines = detect("time_ms\n" + "\n".join(f"{x:.4f}" for x in samples), "--algorithm", algorithm).splitlines()
    pattern = BATCH if algorithm == "bocd" else LINE
    return [(int(m[1]), m[2], int(m[3]) if m.lastindex == 3 else None) for m in map(pattern.match, lines) if m]


def match(truth, found):
    """(hits as [(true, found)], missed, false alarms)"""
    left, hits, alarms = list(truth), [], []
    for index, kind, seen in found:
        near = [t for t in left if abs(t[0] - index) <= 5 and kind in (t[1], "change")]
        if near:
            best = min(near, key=lambda t: abs(t[0] - index))
            left.remove(best)
            hits.append((best, (index, kind, seen)))
        else:
            alarms.append((index, kind, seen))
    return hits, left, alarms


def judge(algorithm, weak, count):
    right = events = missed = alarms = quiet = quiet_alarmed = 0
    delays, offsets = [], []
    for number in range(count):
        samples, truth = trace(arguments.seed, number, weak)
        hits, left, wrong = match(truth, changes(samples, algorithm))
        right += not left and not wrong
        events += len(truth)
        missed += len(left)
        alarms += len(wrong)
        quiet += not truth
        quiet_alarmed += not truth and bool(wrong)
        delays += [seen - true for (true, _), (_, _, seen) in hits if seen is not None]
        offsets += [abs(index - true) for (true, _), (index, _, _) in hits]
        if arguments.misses and algorithm == "bocd-v" and (left or wrong):
            print(f"trace {number}: missed {left}, alarms {wrong}", file=sys.stderr)
    share = lambda part, whole: f"{100 * part / whole:.2f} ({part}/{whole})" if whole else "-"
    late = sorted(delays)
    return [algorithm, share(right, count), share(events - missed, events + alarms), share(alarms, events - missed + alarms),
            share(missed, events), share(quiet_alarmed, quiet),
            f"{statistics.median(late):.0f} / {late[int(0.95 * len(late))]} / {late[-1]}" if late else "whole series",
            f"{100 * sum(o == 0 for o in offsets) / len(offsets):.1f}%" if offsets else "-"]


HEAD = ["algorithm", "traces all right %", "accuracy % (events)", "false alarms of all alarms %", "missed of all events % (FNR)",
        "traces without events alarmed % (FPR)", "delay: median / p95 / max", "exact iteration"]


def iterations(count):
    """The error of the iteration time from the period of a call log."""
    worst, means, right = 0, [], 0
    for number in range(count):
        rows, period, times = call_log(arguments.seed, number)
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow("sequence,call,communicator,peer,tag,bytes,start_ns,end_ns,rank".split(","))
        for sequence, (call, communicator, peer, size, start) in enumerate(rows):
            writer.writerow([sequence, call, communicator, peer, 0, size, start, start + 1000, 1])
        text = detect(out.getvalue(), "--format", "json")
        right += json.loads(text)["period"] == period
        lines = detect(out.getvalue()).splitlines()
        found = re.search(r"iteration now ([\d.]+) ms", lines[-1])
        if found:
            error = abs(float(found[1]) / statistics.median(times[-40:-1]) - 1)
            means.append(error)
            worst = max(worst, error)
    return right, statistics.mean(means), worst


text = ["# Detecting slowdowns: all tables", "",
        f"`bench/detection/run.py --traces {arguments.traces} --seed {arguments.seed} --write docs/results/evidence/detection.md`, {machine() if callable(machine) else machine}.", "",
        "The traces are generated (`bench/detection/traces.py`) and have 300 to 900 iterations. They contain jitter of 0.2 to 3%, single spikes,",
        "drift of up to 6% with a wave of up to 3%, checkpoints, up to 8 slow iterations at the start, and restarts that take as long as up to 60",
        "iterations. Slowdowns of 12 to 400% last 20 to 120 iterations. Some contain another one, and a third of the changes happen within an iteration. A hit",
        "has the right kind and is at most 5 iterations off. The algorithm was tuned on seeds 1 to 5 and 2026, not on this one.", "",
        "## Slowdowns of 12 to 400%", ""]
text.append(table(HEAD, [judge(a, False, arguments.traces) for a in ("bocd-v", "bocd", "window")]))
text += ["", "Falcon's tables 4 and 5 count jobs from its own traces, labeled by people:", "",
         table(["algorithm", "computation: accuracy, FPR, FNR %", "communication: accuracy, FPR, FNR %"],
               [["BOCD+V", "100.0, 0.0, 0.0", "99.1, 0.00, 2.3"], ["BOCD", "77.8, 18.39, 0.0", "69.2, 34.0, 0.00"],
                ["SlideWindow", "99.5, 0.0, 25.0", "93.5, 1.5, 12.2"]]), "",
         "## Slowdowns of 8 to 12%", "",
         "Around the threshold of 10%, either answer is right. The table shows where bocd-v draws the line.", ""]
text.append(table(HEAD, [judge(a, True, arguments.traces // 5) for a in ("bocd-v", "window")]))
right, mean, worst = iterations(100)
text += ["", "## Iteration times from call logs", "",
         f"100 generated call logs (2 to 24 microbatches in a loop, reductions, start-up, calls late by 20 us on average): period "
         f"right in {right}; the median iteration time is off by {100 * mean:.4f}% on average, {100 * worst:.4f}% at worst "
         "(goal: 0.2%; Falcon: 1.2%)."]
program = os.path.join(arguments.build, "bench", "bench_detection")
if os.path.exists(program):
    text += ["", "## Cost", "", "`bench_detection`:", "", "```", subprocess.run([program], capture_output=True, text=True).stdout.strip("\n"), "```"]
text = re.sub(r"\n{3,}", "\n\n", "\n".join(text)) + "\n"
print(text, end="")
if arguments.write:
    with open(arguments.write, "w") as file:
        file.write(text)
