#!/usr/bin/env python3
"""The pause of training while two pipeline ranks exchange positions: from memory to memory in the run, next to a
checkpoint on disk and a restart (Falcon, section 7.4 and figure 19).

Usage: bench/arrange/run.py [BUILD_DIR] [--widths W,W,..] [--folder DIR] [--write docs/results/evidence/adapting.md]
gpt2 of 4 layers, two ranks on this host; widths of 1344, 1888 and 2688 have 1, 2 and 4 GB of weights and moments. In the run: the median of eight exchanges back and forth, for each phase separately.
With the disk: the time from SIGTERM, after which the run saves its state and ends, until the first iteration of --resume begins,
minus the iterations computed meanwhile. The median of three. --folder: place for the checkpoints (default: a temporary folder);
they are synced to its disk, and read from the page cache if the memory suffices. 4 GB of state take about 12 GB of memory, and as much
on the disk. Takes five minutes up to width 768."""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(folder))
from page import finish, machine, source, table  # noqa: E402

PUBLISHED = 6.72  # Falcon, section 7.4: largest factor over a dump to disk
PHASES = ("settle", "groups", "plan", "states", "connect")

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--widths", default="128,256,512,768,1344,1888,2688")
parser.add_argument("--folder")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
command = os.path.join(os.path.abspath(arguments.build), "slackline")
if not os.path.exists(os.path.join(arguments.build, "slackline-worker")):
    raise SystemExit(f"{arguments.build}: the trainer is not built (MPI or oneDNN is missing)")


def lines(out, name):
    path = os.path.join(out, name)
    text = open(path).read() if os.path.exists(path) else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def context(width):
    """Fewer tokens for large models, whose iterations would take most of the bench's time."""
    return 256 if width < 1024 else 32


def words(width, out, *settings):
    """A run of the given width; unlimited iterations by default."""
    file = os.path.join(os.path.dirname(out), "run.yaml")
    with open(file, "w") as run:
        json.dump({"model": {"kind": "gpt2", "layers": 4, "width": width, "heads": 8, "context": context(width)},
                   "data": {"files": [os.path.join(source, "docs", "*.md")]}, "parallel": {"pipeline": 2},
                   "batch": {"microbatches": 4, "size": 1}, "iterations": 100000, "schedule": "1f1b",
                   "adaptation": {"hold": 32},  # memory for any schedule, but the first one is kept
                   "device": {"threads": 1}}, run)
    return [command, "train", file, "--out", out] + [word for setting in settings for word in ("--set", setting)]


def in_memory(width, place):
    """Medians of the total and of each phase, in ms, and the megabytes moved."""
    items = ", ".join("{iteration: %d, positions: [%d, %d]}" % (2 * i + 2, (i + 1) % 2, i % 2) for i in range(8))
    out = os.path.join(place, "memory")
    subprocess.run(words(width, out, f"arrangements=[{items}]", "iterations=19"), check=True, capture_output=True)
    exchanges = [event["seen"] for event in lines(out, "events.jsonl") if event["kind"] == "arrange"]
    assert len(exchanges) == 8, exchanges
    times = {phase: statistics.median(float(re.search(rf"{phase} ([\d.]+)", text)[1]) for text in exchanges) for phase in PHASES}
    whole = statistics.median(float(re.search(r"in ([\d.]+) ms", text)[1]) for text in exchanges)
    return whole, times, float(re.search(r"([\d.]+) MB", exchanges[0])[1])


def await_line(process, out, more_than):
    """Waits until the run has written this many lines of metrics; returns the time: an iteration begins."""
    while len(lines(out, "metrics.jsonl")) <= more_than:
        if process.poll() is not None:
            raise SystemExit(f"the run ended: {process.stderr.read()}")
        time.sleep(0.001)
    return time.monotonic()


def start(line):
    return time.monotonic(), subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def over_disk(width, place, number):
    """The pause of training, and the part of it that writes the checkpoint, in ms."""
    out = os.path.join(place, f"disk{number}")
    _, run = start(words(width, out, "checkpoint.every=90000"))
    began = await_line(run, out, 3)
    run.send_signal(signal.SIGTERM)
    run.communicate()
    stopped = (time.monotonic() - began) * 1e3
    before = lines(out, "metrics.jsonl")
    stopped -= sum(line["time_ms"] for line in before[4:])
    saved = [event["seen"] for event in lines(out, "events.jsonl") if event["kind"] == "checkpoint_written"]
    at, run = start(words(width, out, "checkpoint.every=90000") + ["--resume"])
    begins = await_line(run, out, len(before))
    first = lines(out, "metrics.jsonl")[len(before)]["time_ms"]
    run.send_signal(signal.SIGKILL)
    run.communicate()
    shutil.rmtree(out)
    return stopped + (begins - at) * 1e3 - first, float(re.search(r"in ([\d.]+) ms", saved[-1])[1])


rows = []
for width in map(int, arguments.widths.split(",")):
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        whole, times, megabytes = in_memory(width, place)
        disk = sorted(over_disk(width, place, number) for number in range(3))[1]
    rows.append([width, f"{megabytes:.1f}", *(f"{times[phase]:.1f}" for phase in PHASES), f"{whole:.1f}", f"{disk[1]:.0f}",
                 f"{disk[0]:.0f}", f"{disk[1] / whole:.1f}", f"{disk[0] / whole:.1f}"])
    print(*rows[-1], file=sys.stderr)

finish(arguments.write, "A topology change in the run", f"""
Measured: `bench/arrange/run.py`, {machine()}, two ranks on one host, ms; gpt2 of 4 layers. Sequences have 256 tokens, from width 1024 on 32.

Two pipeline ranks exchange their positions between two iterations: weights and moments go from memory to memory, both ways at
once. Next to it the same through a checkpoint on disk (written and synced) and a restart. *save* is the time to write that
checkpoint, *pause* the time from the last iteration before it to the first one after it.

{table(["width", "states MB", *PHASES, "**in the run**", "disk: save", "disk: pause", "save / in the run", "pause / in the run"],
       rows)}

Falcon's figure 19 has up to {PUBLISHED} times between its dump to memory and its dump to disk, on other machines and models.
""")
