"""Paced training runs for the benches: a small model on N ranks with ops held to their times, measured by `slackline train`
and predicted by `slackline simulate` from the same order."""
import json
import os
import shutil
import statistics
import subprocess
import tempfile

from command import NoPlan
from page import source


class Unavailable(Exception):
    """This build does not support the request; the text is the build's own message."""


class Problem:
    """The pipeline section of a problem file, as Python data; `with_` returns a changed copy."""

    def __init__(self, **keys):
        self.keys = keys

    def with_(self, **keys):
        return Problem(**{**self.keys, **keys})

    def write(self, folder):
        path = os.path.join(folder, "problem.yaml")
        with open(path, "w") as file:
            json.dump({"pipeline": self.keys}, file)  # YAML holds JSON
        return path


def pipeline(ranks, microbatches, ms=10.0, placement="linear", links=(), **more):
    """Ops of `ms`; if a rank has two stages, half of it for each. `links`: (a, b, latency ms, transfer ms), both ways."""
    chunks = 1 if placement == "linear" else 2
    keys = {"ranks": ranks, "microbatches": microbatches, "placement": placement,
            "times_ms": {kind: ms / chunks for kind in "FIW"}}
    if links:
        keys["links"] = {"list": [{"between": [a, b], "latency_ms": latency, "transfer_ms": transfer}
                                  for a, b, latency, transfer in links]}
    return Problem(**keys, **more)


class Slackline:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.command = os.path.join(self.build, "slackline")
        if not os.path.exists(os.path.join(self.build, "slackline-worker")):
            raise SystemExit(f"{build}: the trainer is not built (MPI or oneDNN is missing)")
        self.folder = tempfile.mkdtemp(prefix="slackline-bench-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def call(self, *words):
        done = subprocess.run([self.command, *map(str, words)], capture_output=True, text=True)
        if done.returncode == 1:
            raise NoPlan(done.stderr.strip())
        if done.returncode:
            raise Unavailable(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
        return done.stdout

    def plan(self, problem, schedule, seconds=None):
        """(plan as JSON, its order as CSV, or None if CSV cannot express it)"""
        path = problem.write(self.folder)
        limit = ["--time-limit", seconds] if seconds else []
        plan = json.loads(self.call("plan", path, "--schedule", schedule, "--format", "json", *limit))
        return plan, order_csv(plan)

    def simulate(self, problem, order):
        path, csv = problem.write(self.folder), os.path.join(self.folder, "order.csv")
        with open(csv, "w") as file:
            file.write(order)
        return json.loads(self.call("simulate", path, "--order", csv, "--format", "json"))

    def train(self, problem, schedule=None, order=None, plan=None, iterations=14, links=(), first=0, model=None, **keys):
        """One run of `problem`'s shape and pace, with the order (CSV) or the plan if given. `links` as for pipeline(), injected as faults from iteration `first`
        on; `keys` go into the run file unchanged. Raises Unavailable if this build rejects the run file."""
        p = problem.keys
        stages = p["ranks"] * (1 if p["placement"] == "linear" else 2)
        model = model or {"kind": "gpt2", "layers": stages, "width": 64, "heads": 4, "context": 32}
        run = {"model": model, "data": {"files": [os.path.join(source, "docs", "*.md")], "seed": 1},
               "parallel": {"pipeline": p["ranks"]}, "batch": {"microbatches": p["microbatches"], "size": 1},
               "iterations": iterations, "schedule": schedule, "adapt": False,
               "device": {"kind": "cpu", "pace_ms": p["times_ms"]}, **keys}
        if p["placement"] != "linear":
            run["parallel"]["placement"] = p["placement"]
        if order is not None:
            run["schedule"] = os.path.join(self.folder, "run-order.csv")
            with open(run["schedule"], "w") as file:
                file.write(order)
        if plan is not None:
            run["schedule"] = os.path.join(self.folder, "run-plan.json")
            with open(run["schedule"], "w") as file:
                json.dump(plan, file)
            run["parallel"]["parts"] = p.get("parts", 1)
        if links:
            run["faults"] = [{"iterations": [first, iterations], "link": [a, b], "latency_ms": latency,
                              **({"bandwidth_gbps": message_bytes(run) * 8 / (transfer * 1e6)} if transfer else {})}
                             for a, b, latency, transfer in links if latency or transfer]
        path, out = os.path.join(self.folder, "run.yaml"), os.path.join(self.folder, "out")
        with open(path, "w") as file:
            json.dump(run, file)
        shutil.rmtree(out, ignore_errors=True)
        self.call("train", path, "--out", out)
        return Result(out)


def message_bytes(run):
    """Bytes of an activation between two stages, f32."""
    return run["batch"]["size"] * run["model"]["context"] * run["model"]["width"] * 4


def order_csv(plan):
    """The order of a plan as PyTorch's CSV; None if ops have parts, which a cell cannot express."""
    rows = [[] for _ in range(plan["ranks"])]
    for op in plan["ops"]:
        if "part" in op:
            return None
        if op["microbatch"] >= 0:
            rows[op["rank"]].append(f"{op['stage']}{op['op']}{op['microbatch']}")
    return "\n".join(",".join(row) for row in rows) + "\n"


class Result:
    """The measurements of a run. Iterations marked late (the machine delayed a message by more than 1 ms) count in `late`, and
    medians leave them out unless fewer than three others remain."""

    def __init__(self, folder):
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            self.rows = [json.loads(line) for line in file]
        with open(os.path.join(folder, "summary.json")) as file:
            self.summary = json.load(file)
        self.late = self.summary["late_iterations"]

    def times(self, skip=3, phase=None, schedule_contains=None):
        rows = [r for r in self.rows[skip:] if (phase is None or r["phase"] == phase)
                and (schedule_contains is None or schedule_contains in r["schedule"])]
        good = [r for r in rows if not r["late"]]
        return [r["time_ms"] for r in (good if len(good) >= 3 else rows)]

    def median(self, **which):
        times = self.times(**which)
        return statistics.median(times) if times else None

    def overruns(self):
        return self.summary["overruns"] / max(1, self.summary["ops"])
