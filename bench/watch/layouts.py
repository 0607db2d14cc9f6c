#!/usr/bin/env python3
"""Hybrid layouts of an unchanged PyTorch program (hybrid.py) on 4 ranks over Gloo, with and without `slackline watch`: the iteration time
that watch found from the calls against the program's own (Falcon's figure 12), and the time that watching takes (figure 18).

Usage: bench/watch/layouts.py [BUILD_DIR] [--pairs N] [--iterations N] [--layout xTyDzP] [--write docs/results/evidence/watch.md]
In each pair, a watched and an unwatched run of each layout follow each other, in alternating order. Published: error at most 1.2%; overhead
0.39% on average, 1.1% at most. Takes about half an hour."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple, Optional

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, middle, need_torch, source, table  # noqa: E402

need_torch()
sys.path.insert(0, os.path.join(source, "python"))
import slackline  # noqa: E402

LAYOUTS = {"4T": (4, 1, 1), "4D": (1, 4, 1), "4P": (1, 1, 4), "2T2D": (2, 2, 1), "2T2P": (2, 1, 2), "2D2P": (1, 2, 2)}
parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--pairs", type=int, default=7)
parser.add_argument("--iterations", type=int, default=200)
parser.add_argument("--layout", action="append", choices=LAYOUTS)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
os.environ.update(OMP_NUM_THREADS="1", SLACKLINE_COMMAND=os.path.join(os.path.abspath(arguments.build), "slackline"))


class Run(NamedTuple):
    seconds: float  # of the whole command
    times: list  # ms of each iteration, by the program's own clock, of the slowest rank
    printed: str
    watch: Optional[dict]  # the watch's watch.json

    def iteration(self):
        """The program's own iteration time: the median of the second half."""
        return statistics.median(self.times[len(self.times) // 2:])

    def error(self):
        """Of the iteration time that watch found in the same half, in percent; without iterations during which it held the program."""
        found = [point[1] for point in self.watch["iterations"][-(len(self.times) // 2):] if len(point) == 2 and point[1] is not None]
        return 100 * (statistics.median(found) / self.iteration() - 1)


def run(layout, watched):
    with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder:
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", os.path.join(here, "hybrid.py"),
                 *map(str, LAYOUTS[layout]), str(arguments.iterations), folder]
        path = lambda name: os.path.join(folder, name)
        with open(path("out"), "w") as out, open(path("errors"), "w") as errors:
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": errors, "env": {**os.environ, "TMPDIR": folder}}  # the launcher leaves logs
            begin = time.monotonic()
            code = slackline.watch(words, out=path("watch"), options=["--http", "off"], **streams).exit_code if watched else \
                subprocess.run(words, **streams).returncode
            seconds = time.monotonic() - begin
        if code:
            sys.exit(f"{layout}: exit code {code}\n{open(path('errors')).read()[-2000:]}")
        ranks = [map(float, open(path(f"ms.{rank}"))) for rank in range(4)]
        watch = json.load(open(path("watch/watch.json"))) if watched else None
        return Run(seconds, [max(times) for times in zip(*ranks)], open(path("out")).read(), watch)


def measured_pair(number, layout):
    """A run without and a run with watch, in alternating order."""
    both = {watched: run(layout, watched) for watched in ((False, True), (True, False))[number % 2]}
    assert both[False].printed == both[True].printed, f"{layout}: watch changed the weights"
    print(number, layout, *(f"{one.seconds:.2f} s, {one.iteration():.2f} ms" for one in both.values()), f"error {both[True].error():.2f}%",
          file=sys.stderr, flush=True)
    return both[False], both[True]


def longer(pairs, figure):
    """By how many percent, in each pair, a figure of the watched run exceeds that of the other."""
    return [100 * (figure(watched) / figure(alone) - 1) for alone, watched in pairs]


done = {layout: [] for layout in arguments.layout or LAYOUTS}
for number in range(arguments.pairs):
    for layout, pairs in done.items():
        pairs.append(measured_pair(number, layout))

rows, errors, costs = [], [], []
for layout, pairs in done.items():
    errors.append([watched.error() for _, watched in pairs])
    costs.append(statistics.median(longer(pairs, lambda one: sum(one.times))))
    rows.append([layout, f"{statistics.median(alone.iteration() for alone, _ in pairs):.2f}",
                 f"{statistics.median(watched.iteration() for _, watched in pairs):.2f}", middle(errors[-1]), f"{max(map(abs, errors[-1])):.2f}",
                 middle(longer(pairs, lambda one: sum(one.times))),
                 middle(longer(pairs, lambda one: one.seconds)), f"{statistics.median(watched.seconds - alone.seconds for alone, watched in pairs):.2f}"])
onsets = sum(watched.watch["status"]["onsets"] for pairs in done.values() for _, watched in pairs)
command = f"bench/watch/layouts.py --pairs {arguments.pairs} --iterations {arguments.iterations}"
finish(arguments.write, "Hybrid layouts", f"""`{command}`, {machine()}. hybrid.py, unchanged: MLP blocks trained by PyTorch's
tensor parallelism, DistributedDataParallel and 1F1B pipelines, {arguments.iterations} iterations on 4 ranks over Gloo. xTyDzP: x tensor ranks, y replicas, z pipeline ranks. Its
iteration time is the median of the second half by its own clock, the watch's the median of what watch.json has of that half, both of the slowest rank. In {arguments.pairs} pairs per
layout, a watched and an unwatched run follow each other, in alternating order. Cells are the median and the middle half, compared within pairs. Falcon: error at
most 1.2%; overhead 0.39% on average, 1.1% at most. Here: error of a layout at most {max(abs(statistics.median(one)) for one in errors):.2f}% (of a run {max(abs(one) for layout in errors for one in layout):.2f}%); all iterations
together take {statistics.mean(costs):+.2f}% longer on average, {max(costs):+.2f}% at most. Watch raised {onsets} onsets. The weights at the end were the same in both runs of each pair.

{table(["layout", "own ms, alone", "own ms, watched", "**watch's iteration time: error, %**", "largest error, %", "**iterations longer by %**",
        "whole command longer by %", "by s"], rows)}""")
