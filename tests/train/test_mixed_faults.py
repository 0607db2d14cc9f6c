# labels: slow
"""Random mixed faults on 8 ranks, drawn from a seed (SL_SEED, printed) as bench/mixed draws them: the run ends by itself, its losses
are a healthy run's, and what it says that it did is consistent. No time is checked."""
import json
import os
import sys
import time

from runner import build, folder, source
from training import train

ITERATIONS = 90
STRATEGIES = ("schedule", "delegate", "balance", "topology", "restart")


def seed():
    chosen = int(os.environ.get("SL_SEED", int(time.time()) % 100000))
    print(f"SL_SEED={chosen}", flush=True)
    return chosen


def run_file(layout, regime, faults):
    run = {"model": {"kind": "gpt2", "layers": layout.layers, "width": 64, "heads": 4, "context": 32},
           "data": {"files": [os.path.abspath(__file__)], "seed": 1},
           "parallel": {"pipeline": layout.pipeline, "data": layout.data, "tensor": layout.tensor},
           "batch": {"microbatches": layout.microbatches, "size": 1}, "iterations": ITERATIONS, "transport": "auto",
           "communication": regime, "device": {"kind": "cpu", "pace_ms": {kind: layout.pace for kind in "FIW"}}}
    return {**run, "faults": faults} if faults else run


def what_is_undone_was_applied(events):
    """Returns the strategies that were applied."""
    applied, begun = set(), set()
    for event in events:
        if event["kind"] == "onset" and "incident" in event:
            begun.add(event["incident"])
        if event["kind"] != "decision":
            continue
        assert event["strategy"] in STRATEGIES, event
        assert event.get("incident", -1) in begun | {-1}, f"{event}: that has not begun"
        if event["step"] == "apply":
            applied.add(event["strategy"])
        elif event["step"] == "undo":
            assert event["strategy"] in applied, f"{event}: it was not in effect"
    return applied


def every_arrangement_is_one(result, layout, allowed):
    before = list(range(layout.world)), layout.even()
    for event in result.events:
        if event["kind"] != "arrange":
            continue
        assert "requested" not in event, event
        seats, split = event["positions"], event["split"]
        assert sorted(seats) == list(range(layout.world)), event
        assert len(split) == layout.data and sum(split) == layout.microbatches and min(split) >= 1, event
        assert (seats, split) != before, f"{event}: nothing changes"
        assert "topology" in allowed or seats == before[0], event
        before = seats, split


def mixed(build, folder, number, layout, allowed, faults):
    regime = ("inorder", "decoupled")[number % 2]
    paths, of = [], "-".join(allowed)
    for name, injected in (("healthy", []), ("mixed", [fault.item(layout) for fault in faults])):
        paths.append(os.path.join(folder, f"{name}-{of}.yaml"))
        with open(paths[-1], "w") as file:
            json.dump(run_file(layout, regime, injected), file)
    healthy = train(build, paths[0], os.path.join(folder, "healthy-" + of), "adapt=false")
    out = os.path.join(folder, "mixed-" + of)
    result = train(build, paths[1], out, f"adaptation.strategies=[{', '.join(allowed)}]")
    assert len(result.metrics) == ITERATIONS and result.kinds("end") == ["end"], result.kinds("end", "warned")
    assert not result.kinds("restart"), result.events
    if "balance" in allowed:
        for one, other in zip(healthy.metrics, result.metrics):
            assert abs(float(one["loss"]) - float(other["loss"])) <= 1e-5 * abs(float(one["loss"])), (one, other)
    else:
        assert result.bits == healthy.bits, "not the bits of a healthy run"
    every_arrangement_is_one(result, layout, allowed)
    done = what_is_undone_was_applied(result.events)
    print(f"ok: {layout}, {regime}, {', '.join(allowed)}: {len(result.kinds('arrange'))} arrangements; "
          f"{', '.join(sorted(done)) or 'nothing'}", flush=True)


def test_mixed_faults_change_no_bit_and_are_decided_in_order():
    sys.path.insert(0, os.path.join(source, "bench", "mixed"))
    from draw import Layout, draw
    number = seed()
    layouts = [Layout(2, 4, microbatches=12, pace=4.0), Layout(4, 2, microbatches=8, pace=3.0), Layout(2, 2, 2, microbatches=8, pace=4.0)]
    layout = layouts[number % 3]
    faults, phases = draw(number, layout, ITERATIONS, least=15, longest=30)
    for first, end, active in phases:
        print(f"{first:3d}..{end:3d} {', '.join(map(str, active)) or 'healthy'}", flush=True)
    mixed(build, folder, number, layout, ["schedule", "delegate", "balance", "topology"], faults)
    mixed(build, folder, number, layout, ["schedule", "delegate", "topology"], faults)
