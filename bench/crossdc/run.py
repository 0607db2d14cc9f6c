#!/usr/bin/env python3
"""Two data centers with the pipeline cut in the middle (CrossPipe, figure 11): static schedules with batched communication, the
same with decoupled communication (the paper's suffix _O), and link-aware schedules with the static ones' memory; predicted
next to measured.

Usage: bench/crossdc/run.py [BUILD_DIR] [--all] [--iterations N] [--write FILE]
Without --all: 4 ranks x 8 microbatches with five of the sixteen delays, 8 x 16 with two (about 8 minutes). With --all: the paper's whole
grid (about an hour)."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table
from training import NoPlan, Slackline, Unavailable, pipeline

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--all", action="store_true")
parser.add_argument("--iterations", type=int, default=10)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

T_F = 10.0  # ms
RATIOS = (0, 0.5, 1, 2)
GRID = [(latency, bandwidth) for latency in RATIOS for bandwidth in RATIOS]
DELAYS = {(4, 8): GRID if arguments.all else [(0, 0), (0.5, 0.5), (2, 0), (0, 2), (2, 2)],
          (8, 16): GRID if arguments.all else [(0, 2), (2, 2)]}
STATIC = [("1F1B", "1f1b", "linear"), ("IV1F1B", "interleaved-1f1b", "loop"), ("ZBH1", "zb-h1", "linear"),
          ("ZBV", "zb-v", "wave")]
# name, schedule, placement, whose memory, parts of an op
DYNAMIC = [("CrossUD", "optimal", "linear", "1F1B", 1), ("CrossUDSub", "cross-ud-sub", "linear", "1F1B", 4),
           ("CrossWave", "optimal", "wave", "ZBV", 1)]
SECONDS = 2  # of planning, for optimal


def crossing(ranks, placement, latency, bandwidth):
    """The links between the sites: the middle one, and for loop also the one from the last rank to the first."""
    pairs = [(ranks // 2 - 1, ranks // 2)] + ([(ranks - 1, 0)] if placement == "loop" else [])
    return [(a, b, latency * T_F, bandwidth * T_F) for a, b in pairs if latency or bandwidth]


class Bench:
    def __init__(self, slackline):
        self.slackline, self.memory, self.missing, self.ratios = slackline, {}, {}, []

    def problem(self, ranks, microbatches, placement, delays=(0, 0), **more):
        return pipeline(ranks, microbatches, T_F, placement, crossing(ranks, placement, *delays),
                        memory={"delta": {"F": 1, "W": -1}, **more.pop("memory", {})}, **more)

    def static_order(self, item, ranks, microbatches):
        """The order of a static schedule, and its peak per rank in microbatches of a rank's whole model."""
        name, schedule, placement = item
        plan, order = self.slackline.plan(self.problem(ranks, microbatches, placement), schedule)
        self.memory[name, ranks] = plan["peak_memory"]
        return order

    def run(self, name, problem, predicted, shape, delays, placement, regime, **how):
        """The measured ms, or None if this build cannot run it; the reason is recorded once."""
        try:
            result = self.slackline.train(problem, links=crossing(shape[0], placement, *delays),
                                          iterations=arguments.iterations, communication=regime, **how)
        except (Unavailable, NoPlan) as error:
            self.missing[name] = str(error)
            return None
        ms = result.median()
        self.ratios.append((ms / predicted, name, shape, delays))
        return ms

    def static(self, item, shape, delays, regime):
        name, schedule, placement = item
        order = self.static_order(item, *shape)
        problem = self.problem(*shape, placement, delays, communication=regime)
        predicted = self.slackline.simulate(problem, order)["makespan_ms"]
        label = name + ("_O" if regime == "decoupled" else "")
        return predicted, self.run(label, problem, predicted, shape, delays, placement, regime, order=order)

    def dynamic(self, item, shape, delays):
        name, schedule, placement, whose, parts = item
        more = {"memory": {"limit": [float(x) for x in self.memory[whose, shape[0]]]}}
        keys = {"parts": parts} if parts > 1 else {}
        problem = self.problem(*shape, placement, delays, **more, **keys)
        plan, order = self.slackline.plan(problem, schedule, SECONDS if schedule == "optimal" else None)
        predicted = plan["makespan_ms"]
        if order is None:  # in parts, which CSV cannot express: the run reads the plan itself
            return predicted, self.run(name, problem, predicted, shape, delays, placement, "decoupled", plan=plan,
                                       model={"kind": "gpt2", "layers": parts * shape[0], "width": 64, "heads": 4, "context": 32})
        return predicted, self.run(name, problem, predicted, shape, delays, placement, "decoupled", order=order)


def text_of(pair):
    predicted, measured = pair
    return f"{predicted:.0f} / " + (f"{measured:.1f}" if measured else "-")


def shape_table(bench, shape):
    rows, gains = [], []
    for delays in DELAYS[shape]:
        print(shape, delays, file=sys.stderr)
        cells, batched, decoupled = [], {}, {}
        for item in STATIC:
            batched[item[0]] = bench.static(item, shape, delays, "batched")
            decoupled[item[0]] = bench.static(item, shape, delays, "decoupled")
            cells += [text_of(batched[item[0]]), text_of(decoupled[item[0]])]
        dynamic = {item[0]: bench.dynamic(item, shape, delays) for item in DYNAMIC}
        cells += [text_of(pair) for pair in dynamic.values()]
        best = {}
        for which in (0, 1):
            new = min((pair[which] for pair in dynamic.values() if pair[which]), default=None)
            for kind, old in (("static", batched), ("static_O", decoupled)):
                values = [pair[which] for pair in old.values() if pair[which]]
                best[kind, which] = 1 - new / min(values) if new and values else None
        gains.append((delays, best))
        shown = lambda kind: " / ".join("-" if best[kind, which] is None else f"{100 * best[kind, which]:.1f}" for which in (0, 1))
        rows.append((f"{delays[0]:g}", f"{delays[1]:g}", *cells, shown("static"), shown("static_O")))
    head = ["latency", "transfer"] + [name + suffix for name, _, _ in STATIC for suffix in ("", "_O")]
    head += [item[0] for item in DYNAMIC] + ["shorter than the best static, %", "than the best static_O, %"]
    return f"{shape[0]} ranks x {shape[1]} microbatches:\n\n" + table(head, rows) + "\n", gains


with Slackline(arguments.build) as slackline:
    bench = Bench(slackline)
    parts, gains = [], []
    for shape in DELAYS:
        text, found = shape_table(bench, shape)
        parts.append(text)
        gains += found
    largest = {}
    for kind in ("static", "static_O"):
        for which, word in ((0, "predicted"), (1, "measured")):
            known = [best[kind, which] for _, best in gains if best[kind, which] is not None]
            largest[kind, word] = f"{100 * max(known):.1f}% {word}" if known else f"not {word}"
    ratios = [r[0] for r in bench.ratios]
    farthest = max(bench.ratios, key=lambda r: abs(r[0] - 1))
    notes = "".join(f"- {name}: not measured, {why}\n" for name, why in bench.missing.items())
    finish(arguments.write, "Two data centres", f"""\
`bench/crossdc/run.py{' --all' if arguments.all else ''} --iterations {arguments.iterations}`, {machine()}. Half of the ranks in each
site, F = I = W = {T_F:g} ms a rank (half of it a chunk where a rank holds two); the latency and the time on the link of messages between the sites are
given over T_F. Cells: predicted / measured ms. Static schedules send in groups as Megatron does (batched), with _O decoupled. Schedules that know
the link have the peak memory of their static counterpart (CrossUD, CrossUDSub: 1F1B; CrossWave: ZBV), found in at most {SECONDS} s.
CrossUDSub cuts each op in four; its ranks have a layer per part.

{len(ratios)} runs: measured over predicted {min(ratios):.4f} to {max(ratios):.4f} (the farthest: {farthest[1]} at {farthest[2][0]} x {farthest[2][1]},
{farthest[3][0]:g}, {farthest[3][1]:g}). Largest reduction against the best static schedule: {largest['static', 'predicted']}, {largest['static', 'measured']}; against the best
with decoupled communication: {largest['static_O', 'predicted']}, {largest['static_O', 'measured']}. The paper: up to 33.6 % and 21.9 %.

""" + "\n".join(parts) + ("\n" + notes if notes else ""))
