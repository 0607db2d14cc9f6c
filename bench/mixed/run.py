#!/usr/bin/env python3
"""Random mixed faults, live: 8 ranks, 300 iterations, faults drawn from a seed (draw.py), no manual action. The mean time of an
iteration, changes included, next to the best static choice in hindsight for each phase.

Usage: bench/mixed/run.py [BUILD_DIR] [--seeds 1,2,..] [--iterations 300] [--keep FOLDER] [--json FILE] [--write docs/results/evidence/adapting.md]
For each seed: a healthy run (for reference losses and healthy iteration times); the run with faults, all strategies allowed; and
for every phase a separate run of the best arrangements from hindsight.py, of the run's own arrangement at its end, and of the
initial one. These runs have the faults of the phase from their first iteration, and a schedule adapted to them. The fastest is the
hindsight; it pays for no change and knows the future. Takes about 4 minutes per seed."""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, folder)
sys.path.insert(0, os.path.dirname(folder))
from draw import Layout, draw  # noqa: E402
from hindsight import Model  # noqa: E402
from simulated import ratio  # noqa: E402
from page import finish, machine, source, table  # noqa: E402

SETTLED = 12  # number of last iterations of a static run that count
STATIC = 30
REDUCE = 1.0  # ms of a healthy sum over replicas, for the models
LAYOUTS = [Layout(2, 4, microbatches=16, pace=6.0), Layout(4, 2, microbatches=12, pace=4.0), Layout(2, 2, 2, microbatches=12, pace=5.0)]


def layout_of(seed):
    return LAYOUTS[seed % len(LAYOUTS)]


def lines(out, name):
    path = os.path.join(out, name)
    text = open(path).read() if os.path.exists(path) else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def run_file(layout, iterations, faults, **more):
    run = {"model": {"kind": "gpt2", "layers": layout.layers, "width": 64, "heads": 4, "context": 32},
           "data": {"files": ["/usr/share/common-licenses/*"], "seed": 1},
           "parallel": {"pipeline": layout.pipeline, "data": layout.data, "tensor": layout.tensor, "zero": layout.zero},
           "batch": {"microbatches": layout.microbatches, "size": 1}, "iterations": iterations, "transport": "auto",
           "device": {"kind": "cpu", "threads": 1, "pace_ms": {kind: layout.pace for kind in "FIW"}}, **more}
    if faults:
        run["faults"] = faults
    return run


class Bench:
    def __init__(self, build, place, reuse):
        self.reuse = reuse
        self.command, self.place = os.path.join(os.path.abspath(build), "slackline"), place
        if not os.path.exists(os.path.join(build, "slackline-worker")):
            raise SystemExit(f"{build}: the trainer is not built (MPI or oneDNN is missing)")

    def train(self, name, run):
        file, out = os.path.join(self.place, f"{name}.yaml"), os.path.join(self.place, name)
        with open(file, "w") as text:
            json.dump(run, text)
        if self.reuse and not name.endswith("adapted") and os.path.exists(os.path.join(out, "summary.json")):
            return out
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run([self.command, "train", file, "--out", out], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{file}: exit {done.returncode}: {done.stderr[-2000:]}")
        return out


def periods(out, layout):
    """Times from one begin to the next in ms, so that actions between two iterations count; 32 tokens per sequence."""
    took = [1e3 * 32 * layout.microbatches / line["tokens_per_s"] for line in lines(out, "metrics.jsonl")]
    for event in lines(out, "events.jsonl"):  # a measurement of the network, which is not part of an iteration
        if event["kind"] == "profile" and event["iteration"] > 0:
            took[event["iteration"] - 1] += float(re.search(r"in ([\d.e+]+) ms", event["decided"])[1])
    return took


def arrangement_at(out, layout, iteration):
    """The rank map and the split at the end of a phase."""
    home, split = list(range(layout.world)), layout.even()
    for event in lines(out, "events.jsonl"):
        if event["kind"] == "arrange" and event["iteration"] < iteration:
            home = [int(n) for n in re.search(r"positions ([\d ]+)", event["decided"])[1].split()]
            split = [int(n) for n in re.search(r"split ([\d ]+)", event["decided"])[1].split()]
    return home, split


def changes_between(out, first, end):
    return [e["iteration"] for e in lines(out, "events.jsonl")
            if e["kind"] in ("arrange", "swap", "return", "delegate", "direct") and first < e["iteration"] < end]


def static(bench, name, layout, faults, home, split, regime):
    """The mean of the last iterations of a run with this arrangement. The faults begin as soon as the run has learned its healthy
    level."""
    begin = 7
    items = [fault.item(layout, begin, begin + STATIC) for fault in faults]
    out = bench.train(name, run_file(layout, begin + STATIC, items, communication=regime,
                                     adaptation={"strategies": ["schedule", "delegate"]},
                                     arrangements=[{"iteration": 6, "positions": home, "split": split}]))
    return statistics.mean(periods(out, layout)[-SETTLED - 1:-1])


def seed_of(bench, seed, iterations, strategies, most):
    layout, regime = layout_of(seed), "inorder" if seed % 2 else "decoupled"
    faults, phases = draw(seed, layout, iterations)
    plain = bench.train(f"{seed}-healthy", run_file(layout, iterations, [], adapt=False, communication=regime))
    out = bench.train(f"{seed}-adapted", run_file(layout, iterations, [f.item(layout) for f in faults], communication=regime,
                                                  adaptation={"strategies": strategies}))
    healthy, took = periods(plain, layout), periods(out, layout)
    model = Model(bench.command, layout, bench.place, REDUCE)
    rows = []
    for number, (first, end, active) in enumerate(phases):
        mine = statistics.mean(took[first:end - 1])
        last = arrangement_at(out, layout, end)
        choices, best = [], statistics.median(healthy)
        if active:
            choices = model.best(active, most)
            even = (0, list(range(layout.world)), layout.even())
            known = [(home, split) for _, home, split in choices]
            choices += [c for c in (even, (0, *last)) if (c[1], c[2]) not in known]
            measured = [(static(bench, f"{seed}-{number}-{'.'.join(map(str, home))}-{'.'.join(map(str, split))}", layout, active,
                                home, split, regime), home, split) for _, home, split in choices]
            best = min(measured)[0]
        changes = changes_between(out, first, end)
        settled = max(changes) - first + 1 if changes else 0
        late = [t for t in took[first + settled:end - 1]]
        rows.append({"first": first, "end": end, "faults": [str(f) for f in active], "ours": mine, "hindsight": best,
                     "settled": settled, "after": statistics.mean(late) if late else None, "last": last,
                     "choices": [(m, h, s) for m, h, s in (measured if active else [])]})
        print(f"  {first:3d}..{end:3d} {mine:7.1f} ms, hindsight {best:7.1f}, settled after {settled:2d} at "
              f"{rows[-1]['after'] or 0:.1f}; {', '.join(rows[-1]['faults']) or 'healthy'}", file=sys.stderr, flush=True)
    return summary(seed, layout, regime, rows, plain, out, took)


def summary(seed, layout, regime, rows, plain, out, took):
    one, two = lines(plain, "metrics.jsonl"), lines(out, "metrics.jsonl")
    off = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(one, two))
    hindsight = sum(r["hindsight"] * (r["end"] - r["first"]) for r in rows) / rows[-1]["end"]
    ours = statistics.mean(took[:-1])
    settled = sum((r["after"] or r["ours"]) * (r["end"] - r["first"]) for r in rows) / rows[-1]["end"]
    even = all(split == layout.even() for _, split in [arrangement_at(out, layout, i) for i in range(rows[-1]["end"])])
    assert off == 0 if even else off <= 1e-5, f"seed {seed}: losses differ by {off}"
    return {"seed": seed, "layout": str(layout), "regime": regime, "phases": rows, "ours": ours, "hindsight": hindsight,
            "ratio": ours / hindsight, "choice": settled / hindsight - 1, "reaction": (ours - settled) / hindsight, "off": off,
            "arrangements": sum(e["kind"] == "arrange" for e in lines(out, "events.jsonl")),
            "healthy": rows[0]["hindsight"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
    parser.add_argument("--seeds", default="1,2,3,4,5,6")
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--choices", type=int, default=2, help="how many of the model's best choices are run for each phase")
    parser.add_argument("--strategies", default="schedule,delegate,balance,topology")
    parser.add_argument("--keep", metavar="FOLDER", help="folder that keeps the runs")
    parser.add_argument("--reuse", action="store_true", help="use the static and healthy runs of an earlier call with --keep")
    parser.add_argument("--json", metavar="FILE", help="write the measurements")
    parser.add_argument("--show", metavar="FILE", help="show the measurements of an earlier call with --json instead of running")
    parser.add_argument("--write", metavar="FILE")
    arguments = parser.parse_args()
    results = json.load(open(arguments.show)) if arguments.show else []
    with tempfile.TemporaryDirectory() as place:
        place = arguments.keep or place
        os.makedirs(place, exist_ok=True)
        bench = Bench(arguments.build, place, reuse=arguments.reuse)
        for seed in [] if arguments.show else map(int, arguments.seeds.split(",")):
            print(f"seed {seed}: {layout_of(seed)}", file=sys.stderr, flush=True)
            results.append(seed_of(bench, seed, arguments.iterations, arguments.strategies.split(","), arguments.choices))
            r = results[-1]
            print(f"seed {seed}: {r['ours']:.1f} ms, hindsight {r['hindsight']:.1f}, ratio {r['ratio']:.3f} (reaction "
                  f"{100 * r['reaction']:.1f}%, choice {100 * r['choice']:.1f}%), losses off {r['off']:.1e}", file=sys.stderr, flush=True)
            if arguments.json:
                with open(arguments.json, "w") as file:
                    json.dump(results, file, indent=1)
        for r in results:
            layout = layout_of(r["seed"])
            r["simulated"] = ratio(bench.command, place, layout, r["regime"], draw(r["seed"], layout, arguments.iterations)[0],
                                   arguments.iterations, REDUCE, 2 * r["healthy"] / 1e3)
    finish(arguments.write, "Random mixed faults, live", page(results, arguments))


def page(results, arguments):
    rows = [[r["seed"], r["layout"], r["regime"], sum(len(p["faults"]) > 0 for p in r["phases"]), r["arrangements"],
             f"{r['healthy']:.1f}", f"{r['hindsight']:.1f}", f"{r['ours']:.1f}", f"**{r['ratio']:.3f}**", f"{100 * r['reaction']:+.1f}%",
             f"{100 * r['choice']:+.1f}%", f"{r['simulated']:.3f}", "the same bits" if r["off"] == 0 else f"{r['off']:.1e}"] for r in results]
    return f"""
Measured on paced devices: `bench/mixed/run.py --seeds {arguments.seeds} --iterations {arguments.iterations}`, {machine()}, 8 ranks on
one host; ms per iteration, from one begin to the next, everything between them included.

Devices, pipeline links and links between replicas become slow at random, one to three at once, in phases of 25 to 60 iterations
(`bench/mixed/draw.py`); the run may change schedule, path, split and places (`adaptation.strategies`), and nobody does anything by hand.
*Hindsight* is for every phase the shortest of the static choices that were run with that phase's faults from the beginning: the best
that the timing model finds among all arrangements and splits, the one that the run had come to, and that of the start, schedules
planned for what is slow; it pays for no change. *Choice*: how much longer an iteration takes than hindsight's when the last change of a
phase has been made; *reaction*: what comes before that, changes included. *Simulated*: the ratio that
`slackline campaign` has for the same pipeline, faults and costs on the virtual clock (`bench/mixed/simulated.py`). Losses against a
healthy run's, largest relative difference.

{table(["seed", "layout", "sends", "phases with faults", "rearranged", "healthy", "hindsight", "**slackline**", "ratio", "reaction",
        "choice", "simulated", "losses"], rows)}
"""


if __name__ == "__main__":
    main()
