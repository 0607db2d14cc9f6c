#!/usr/bin/env python3
"""Whether `slackline choose` predicts what runs: every arrangement of two models on eight processes is trained with paced ops, and its
iteration is compared with the prediction.

Usage: bench/choose/measured.py [BUILD_DIR] [--iterations N] [--model NAME]... [--write docs/results/evidence/choose.md]
About 25 minutes on two processors. Arrangements: all sizes of tensor, data and pipeline whose product is eight, one, two and four sequences in a
microbatch, one stage a rank and two of them in a loop or a wave. The sums of tensor ranks and replicas are those of the machine, which the
prediction takes as free: ops are long enough for them to be little."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from page import finish, machine, source, table  # noqa: E402
from training import Result  # noqa: E402

DEVICES, SEQUENCES, LAYERS = 8, 32, 16
# name: ms of F, I and W of a block for one sequence, by block
MODELS = {"equal blocks": [(6.0, 6.0, 6.0)] * LAYERS,
          "a heavy end": [(4.0, 4.0, 4.0)] * (LAYERS - 2) + [(12.0, 12.0, 12.0)] * 2}
CLUSTER = {"hosts": [f"device[0-{DEVICES - 1}]"], "links": {"default": {"bandwidth_gbps": 10000}},
           "device": {"tflops": 1, "memory_gb_per_s": 1000, "memory_gb": 1000}}


def arrangements():
    for tensor in (1, 2, 4):
        for data in (1, 2, 4, 8):
            pipeline = DEVICES // tensor // data
            if pipeline < 1 or tensor * data * pipeline != DEVICES:
                continue
            for size in (1, 2, 4):
                if SEQUENCES % (data * size):
                    continue
                for placement in ("linear", "loop", "wave") if pipeline > 1 else ("linear",):
                    yield {"tensor": tensor, "data": data, "pipeline": pipeline, "size": size, "placement": placement,
                           "chunks": 1 if placement == "linear" else 2, "zero": 0, "recompute": "none"}


class Bench:
    def __init__(self, build, folder):
        self.command, self.folder = os.path.join(build, "slackline"), folder
        self.cluster = self.written("cluster.yaml", CLUSTER)

    def written(self, name, what):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            json.dump(what, file)  # YAML holds JSON
        return path

    def call(self, *words):
        done = subprocess.run([self.command, *map(str, words)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def model(self, blocks):
        layers = [{"name": f"block{i}", "times_ms": dict(zip("FIW", ms)), "activations_mb": 1, "output_mb": 0.01, "input_mb": 0.01}
                  for i, ms in enumerate(blocks)]
        return self.written("model.yaml", {"layers": layers, "measured": {"tensor": 1, "size": 1}, "scaling": "ideal",
                                           "batch": {"sequences": SEQUENCES}})

    def plan(self, model, fixed):
        words = [word for name, value in fixed.items() for word in ("--fix", f"{name}={value}")]
        return json.loads(self.call("choose", model, self.cluster, "--time-limit", 1, "--format", "plan", *words))

    def chosen(self, model):
        """The arrangement that choose takes among all of these, and its prediction."""
        found = json.loads(self.call("choose", model, self.cluster, "--fix", "zero=0", "--fix", "recompute=none", "--format", "json"))
        for one in found["arrangements"]:
            key = {"tensor": one["tensor"], "data": one["data"], "pipeline": one["pipeline"], "size": one["microbatch_size"],
                   "placement": one["placement"], "chunks": one["chunks"], "zero": 0, "recompute": "none"}
            if key in list(arrangements()):
                return key
        return None

    def measured(self, blocks, fixed, plan, iterations):
        cut, pace = plan["cut"], {kind: [] for kind in "FIW"}
        for first, end in zip(cut, cut[1:]):
            for at, kind in enumerate("FIW"):
                pace[kind].append(sum(block[at] for block in blocks[first:end]) * fixed["size"] / fixed["tensor"])
        replicas = fixed["data"]
        run = {"model": {"kind": "gpt2", "layers": LAYERS, "width": 32, "heads": 4, "context": 8},
               "data": {"files": [os.path.join(source, "docs", "*.md")], "seed": 1},
               "parallel": {"pipeline": fixed["pipeline"], "data": replicas, "tensor": fixed["tensor"], "placement": fixed["placement"],
                            "stages": len(cut) - 1, "cut": [end - first for first, end in zip(cut, cut[1:])]},
               "batch": {"microbatches": SEQUENCES // fixed["size"], "size": fixed["size"]},
               "iterations": iterations, "schedule": self.written("plan.json", plan), "adapt": False,
               "device": {"kind": "cpu", "pace_ms": pace}}
        out = os.path.join(self.folder, "out")
        shutil.rmtree(out, ignore_errors=True)
        self.call("train", self.written("run.yaml", run), "--out", out)
        return Result(out).median()


def correlation(x, y):
    """Spearman's: of the ranks of the values."""
    def ranks(values):
        order = sorted(range(len(values)), key=values.__getitem__)
        place = [0.0] * len(values)
        i = 0
        while i < len(order):
            j = i
            while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
                j += 1
            for k in range(i, j + 1):
                place[order[k]] = (i + j) / 2
            i = j + 1
        return place
    return statistics.correlation(ranks(x), ranks(y))


def main():
    rows, lines = [], []
    for name in arguments.model or MODELS:
        blocks, seen = MODELS[name], []
        model = bench.model(blocks)
        for fixed in arrangements():
            try:
                plan = bench.plan(model, fixed)
                measured = bench.measured(blocks, fixed, plan, arguments.iterations)
            except RuntimeError as error:
                print(f"{name}: {fixed}: {str(error)[-200:]}", file=sys.stderr)
                continue
            seen.append((fixed, plan["makespan_ms"], measured))
            print(f"{name}: {fixed}: {plan['makespan_ms']:.1f} predicted, {measured:.1f} measured", file=sys.stderr, flush=True)
            rows.append([name, str(fixed["tensor"]), str(fixed["data"]), str(fixed["pipeline"]), str(fixed["size"]), fixed["placement"],
                         plan["schedule"], f"{plan['makespan_ms']:.1f}", f"{measured:.1f}", f"{measured / plan['makespan_ms']:.3f}"])
        best = min(measured for _, _, measured in seen)
        chosen = bench.chosen(model)
        of_chosen = next((measured for fixed, _, measured in seen if fixed == chosen), None)
        ratios = [measured / predicted for _, predicted, measured in seen]
        lines.append([name, str(len(seen)), f"{correlation([p for _, p, _ in seen], [m for _, _, m in seen]):.4f}",
                      f"{min(ratios):.3f}", f"{statistics.median(ratios):.3f}", f"{max(ratios):.3f}", f"{best:.1f}",
                      f"{of_chosen:.1f}, {100 * (of_chosen / best - 1):+.1f}%" if of_chosen else "not measured"])
    finish(arguments.write, "Predicted and measured", f"""`bench/choose/measured.py --iterations {arguments.iterations}`, {machine()}. Models of {LAYERS} blocks, {SEQUENCES}
sequences an iteration, eight processes with paced ops; the order and the cut are those of `slackline choose --fix ... --format plan`. Goals: a rank
correlation of at least 0.97, and the chosen arrangement within 2% of the best measured one.

{table(["model", "arrangements", "rank correlation", "measured / predicted: least", "median", "largest", "best measured ms", "chosen: ms, above the best"], lines)}

{table(["model", "tensor", "data", "pipeline", "size", "placement", "schedule", "predicted ms", "measured ms", "ratio"], rows)}""")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--iterations", type=int, default=10)
parser.add_argument("--model", action="append", choices=list(MODELS))
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
with tempfile.TemporaryDirectory(prefix="slackline-bench-") as scratch:
    bench = Bench(os.path.abspath(arguments.build), scratch)
    main()
