"""The same seed on the virtual clock: `slackline campaign` with the same pipeline, faults and costs. It models a link as one delay, so
less bandwidth becomes the resulting time of a message or of a share of a sum. It sums in a ring, with 2 (D - 1) steps that take as
long as the two exchanges of a live run."""
import json
import os
import subprocess

from hindsight import Model

COSTS = {"adapt_s": 0.005, "delegate_s": 0.07, "balance_s": 0.03, "topology_s": 0.05}
NOTICE = 2


def event(fault, layout, model):
    a, b = layout.seat(fault.ends[0]), layout.seat(fault.ends[-1])
    at = {"at": fault.first, "until": fault.end}
    if fault.kind == "device":
        return {**at, "device": [a[1], a[0]], "slowdown": fault.slowdown}
    slow = model.pipelines(list(range(layout.world)), [fault])
    if fault.kind == "link":
        _, _, latency, transfer = slow[a[1]][1][0]
        return {**at, "link": [a[0], b[0]], "replica": a[1], "latency_ms": latency + transfer}
    return {**at, "replica_link": [a[0], a[1], b[1]], "latency_ms": slow[0][2][a[0]] / (2 * (layout.data - 1))}


def ratio(command, folder, layout, regime, faults, iterations, reduce_ms, at_once_s):
    """The mean iteration of the ladder divided by that of the best choice in hindsight."""
    model = Model(command, layout, folder, reduce_ms)
    problem, trace = os.path.join(folder, "simulated-problem.yaml"), os.path.join(folder, "simulated.yaml")
    with open(problem, "w") as file:
        json.dump({"pipeline": {"ranks": layout.pipeline, "microbatches": layout.microbatches // layout.data,
                                "times_ms": {kind: layout.pace for kind in "FIW"}, "communication": regime,
                                "data_parallel": {"reduce_ms": reduce_ms}}}, file)
    with open(trace, "w") as file:
        json.dump({"job": {"iterations": iterations, "replicas": layout.data, "tensor": layout.tensor, "schedule": "auto",
                           "static": [], "notice": NOTICE},
                   "costs": COSTS, "ladder": {"at_once_s": at_once_s, "calm_s": 5 * at_once_s / 2, "profile_every_s": 0},
                   "events": [event(fault, layout, model) for fault in faults]}, file)
    done = subprocess.run([command, "campaign", trace, "--problem", problem, "--format", "json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{trace}: {done.stderr}")
    rows = {row["strategy"]: row for row in json.loads(done.stdout)["strategies"]}
    return rows["ladder"]["mean_iteration_ms"] / rows["best in hindsight"]["mean_iteration_ms"]
