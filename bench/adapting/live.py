"""Runs of `slackline train` with paced ops, faults and the ladder: their measurements, the changes and their times, and the lines of
decisions.txt."""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import source  # noqa: E402
from training import Result, Slackline  # noqa: E402

HOLD = 3  # iterations that a change must last, and the least number measured before an action


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Run(Result):
    """A successful run. Iterations count from 0; a phase is [first, end)."""

    def __init__(self, out):
        super().__init__(out)
        with open(os.path.join(out, "events.jsonl")) as file:
            self.events = [json.loads(line) for line in file]
        log = os.path.join(out, "decisions.txt")
        with open(log) as file:
            self.decisions = file.read().splitlines()

    def phase(self, first, end, skip=1, phase=None):
        """Median time of an iteration in ms, without the first `skip`, and without late ones if at least three others remain."""
        rows = [row for row in self.rows if first + skip <= row["iteration"] < end and phase in (None, row["phase"])]
        good = [row["time_ms"] for row in rows if not row["late"]]
        times = good if len(good) >= 3 else [row["time_ms"] for row in rows]
        return statistics.median(times) if times else None

    def arranged(self):
        """[(first iteration, process at each position, split)] of the changes that were carried out."""
        found = []
        for event in self.events:
            if event["kind"] == "arrange" and "split" in event["decided"]:
                seats, split = re.match(r"positions ([\d ]+), split ([\d ]+)", event["decided"]).groups()
                found.append((event["iteration"], [int(n) for n in seats.split()], [int(n) for n in split.split()]))
        return found

    def pauses(self, kinds=("arrange", "profile", "left")):
        """{iteration: ms before it for a change of the rank map, a measurement of the network, or a restart}"""
        found = {}
        for event in self.events:
            found_ms = re.search(r"in ([\d.e+]+) ms", f"{event.get('seen', '')} {event.get('decided', '')}")
            if event["kind"] == "left":
                found_ms = re.search(r"([\d.]+) s in all", event["decided"])
            if event["kind"] in kinds and found_ms and event["iteration"] > 0:
                before = event["iteration"]
                if event["kind"] == "left":
                    before = int(re.search(r"from iteration (\d+)", event["decided"])[1])
                found[before] = found.get(before, 0) + float(found_ms[1]) * (1e3 if event["kind"] == "left" else 1)
        return found

    def look(self):
        """The longest measurement of the network after the first iteration, in s; 0: there was none."""
        return max(self.pauses(("profile",)).values(), default=0) / 1e3

    def log(self, first=0, end=1 << 30):
        """The lines of decisions.txt for iterations first to end - 1."""
        return [line for line in self.decisions if first <= int(re.search(r"iteration +(\d+)", line)[1]) < end]


class Bench:
    """Makes runs in a temporary folder, or in the folder of --keep, which stays."""

    def __init__(self, build, keep=None):
        self.slackline, self.keep = Slackline(build), keep

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.slackline.folder)

    def folder(self, name):
        return os.path.join(self.keep or self.slackline.folder, re.sub(r"\W+", "-", name))

    def run(self, name, run, environment=None):
        out = self.folder(name)
        shutil.rmtree(out, ignore_errors=True)
        path = os.path.join(self.slackline.folder, "run.yaml")
        with open(path, "w") as file:
            json.dump(run, file)  # YAML holds JSON
        done = subprocess.run([self.slackline.command, "train", path, "--out", out], capture_output=True, text=True,
                              env={**os.environ, **(environment or {})})
        if done.returncode:
            raise SystemExit(f"{name}: exit {done.returncode}: {done.stderr.strip()}")
        made = Run(out)
        made.error = done.stderr
        say(f"{name}: {len(made.rows)} iterations, {made.late} late, {made.summary['seconds']:.0f} s")
        return made


def shape(ranks, replicas, microbatches, pace, iterations, width=32, context=16, **keys):
    """A run file: gpt2 with one block per stage, every op held to `pace` ms."""
    adaptation = keys.pop("adaptation", {})
    return {"model": {"kind": "gpt2", "layers": keys.pop("layers", ranks), "width": width, "heads": 4, "context": context},
            "data": {"files": [os.path.join(source, "docs", "*.md")], "seed": 1},
            "parallel": {"pipeline": ranks, "data": replicas}, "batch": {"microbatches": microbatches * replicas, "size": 1},
            "iterations": iterations, "device": {"kind": "cpu", "pace_ms": {kind: pace for kind in "FIW"}},
            "adaptation": {"hold": HOLD, "dwell": 1, **adaptation}, **keys}


def reduced(healthy, slow, with_):
    """The share of the slowdown that was removed, in %."""
    return 100 * (slow - with_) / (slow - healthy)


def quoted(lines):
    return "```\n" + "\n".join(line[:170] for line in lines) + "\n```\n"
