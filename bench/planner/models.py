#!/usr/bin/env python3
"""Adaptra, figure 16, at the shapes of its models: one slow link in the pipelines of GPT-2 models from 7B to 60B.

Usage: bench/planner/models.py [BUILD_DIR] [--write FILE]
Simulated, for several numbers of microbatches."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table
from adaptra import EXAMPLE, delayed
from command import Command, folded

# Parallelism is published (table 2), layers and width are not: those of public models of the same size.
# name: layers, width, tensor, pipeline
MODELS = {"7B": (32, 4096, 1, 4), "14B": (40, 5120, 1, 8), "30B": (48, 7168, 2, 8), "60B": (72, 8192, 4, 8)}
VOCABULARY = 50257
COMPUTE_MS = 297.0  # of a rank per iteration with 7B: three iteration times and their bubble rates in section 7.2


def times(name, microbatches):
    """ms of one op on each rank: proportional to the weights that a GPU multiplies; the last rank has the output layer too."""
    def weights(model):
        layers, width, tensor, pipeline = MODELS[model]
        return 12 * width * width * layers / pipeline / tensor, VOCABULARY * width / tensor
    ms = COMPUTE_MS / (3 * microbatches) / weights("7B")[0]
    stage, output = weights(name)
    ranks = MODELS[name][3]
    return [round(ms * stage, 2)] * (ranks - 1) + [round(ms * (stage + output), 2)]


def problem(name, microbatches):
    op, ranks = times(name, microbatches), MODELS[name][3]
    return {"ranks": ranks, "microbatches": microbatches * ranks // 4, "times_ms": {kind: op for kind in "FIW"}}


parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
command = Command(os.path.abspath(arguments.build))
rows, lines, largest = [], [], []
for microbatches in (8, 12, 16, 24):  # in the pipeline of 4 ranks
    most = {"1F1B": (0, ""), "ZB": (0, "")}
    for name, (_, _, _, ranks) in MODELS.items():
        base = problem(name, microbatches)
        for place, link in (("first two", (0, 1)), ("last two", (ranks - 2, ranks - 1))):
            keys = base | delayed(link, ms=60)
            batched = keys | {"communication": "batched"}
            systems = (("1f1b", batched), ("zb-h2", batched), ("adaptra", keys))
            found = [command.plan(EXAMPLE, schedule, with_)["makespan_ms"] for schedule, with_ in systems]
            gains = [makespan / found[2] for makespan in found[:2]]
            for system, gain in zip(most, gains):
                most[system] = max(most[system], (gain, f"{name}, {place}"))
            if microbatches == 16:
                lines += [command.line(EXAMPLE, schedule, with_) for schedule, with_ in systems]
                rows.append((name, f"{base['times_ms']['F'][0]:g}", f"{base['times_ms']['F'][-1]:g}", base["microbatches"], place,
                             *(f"{x:.0f}" for x in found), *(f"{x:.2f}x" for x in gains)))
    largest.append((f"{microbatches} and {2 * microbatches}", f"{times('7B', microbatches)[0]:g}",
                    *(f"{gain:.2f}x ({where})" for gain, where in most.values())))
largest.append(("published", "", "3.71x (7B, last two)", "3.49x (14B, last two)"))
shapes = ", ".join(f"{name} {layers} x {width}" for name, (layers, width, _, _) in MODELS.items())
finish(arguments.write, "Adaptra: figure 16 at the shapes of its models", f"""\
`bench/planner/models.py`, simulated, {machine()}. 60 ms on one link. Pipelines of 4 (7B) and 8 ranks as published; layers x width
are not published, these are ours: {shapes}. Ops take times proportional to the weights per GPU, and the last rank has the
output layer. Section 7.2 implies {COMPUTE_MS:g} ms of ops per rank and iteration for 7B. 1F1B and ZB (ZB-H2) send in groups as
Megatron does (`communication: batched`).

The number of microbatches is not published, and the speedup grows with it, because the time of the ops is fixed. Largest
speedup for each:

""" + table(("microbatches on 4 and 8 ranks", "ms per op, 7B", "over 1F1B", "over ZB"), largest)
       + "\nWith 16 and 32 microbatches:\n\n"
       + table(("model", "ms per op", "on the last rank", "microbatches", "slow link", "1F1B ms", "ZB ms", "adapted ms",
                "speedup over 1F1B", "over ZB"), rows) + folded("commands", lines))
