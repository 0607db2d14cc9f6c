# labels: long
"""The optimizer is off the critical path: a stage's update is made before its first F of the next iteration, once each, and
the pipeline has begun by then. Whoever takes weights in between has those after the update, whatever the iterations between
two who do, with the copy of a tied embedding, several stages a rank and shares of ZeRO."""
import json
import os
import subprocess

from runner import build, folder, has_facts, source
from training import train

RUN = """
model: {kind: %s, layers: 8, width: 64, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 2}
batch: {microbatches: 6, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 8
schedule: 1f1b
adapt: false
"""
SOON = ["checkpoint={every: 1, keep: 20}", "validate_every=1"]


def slices(out, iteration):
    events = json.load(open(os.path.join(out, "timeline.json")))["traceEvents"]
    mine = [event for event in events if event.get("ph") == "X" and event["args"]["iteration"] == iteration]
    return [event for event in mine if event["cat"] == "update"], [event for event in mine if event["cat"] in "FIWB"]


def end(event):
    return event["ts"] + event["dur"]


def updates_come_before_the_first_f(out, stages, ranks, iterations):
    for iteration in range(iterations):
        updates, ops = slices(out, iteration)
        assert sorted(update["args"]["stage"] for update in updates) == list(range(stages)), updates
        for update in updates:
            own = [op for op in ops if op["pid"] == update["pid"]]
            first = min((op for op in own if op["cat"] == "F" and op["args"]["stage"] == update["args"]["stage"]),
                        key=lambda op: op["ts"])
            assert end(update) <= first["ts"] + 0.002, f"iteration {iteration}: {first} began before {update} had ended"
            assert all(op["ts"] >= end(update) - 0.002 or end(op) <= update["ts"] + 0.002 for op in own), \
                f"iteration {iteration}: the rank ran an op in the middle of {update}"
    assert len({update["pid"] for update in updates}) == ranks


def the_pipeline_begins_without_a_later_update(out, iterations):
    """Stage 1 has seven of eight layers: its update ends after stage 0 has begun with its ops."""
    early = 0
    for iteration in range(1, iterations):
        updates, ops = slices(out, iteration)
        later = next(update for update in updates if update["args"]["stage"] == 1)
        first = min((op for op in ops if op["args"]["stage"] == 0), key=lambda op: op["ts"])
        early += first["ts"] < end(later)
    assert early > 0, "stage 0 never began before stage 1 had been updated"
    print(f"stage 0 began before stage 1 had been updated in {early} of {iterations - 1} iterations")


files = {}
for kind in ("gpt2", "llama"):
    files[kind] = os.path.join(folder, kind + ".yaml")
    with open(files[kind], "w") as out:
        out.write(RUN % (kind, source))


def run(kind, name, *settings):
    out = os.path.join(folder, f"{kind}-{name}")
    return out, train(build, files[kind], out, *settings)


def test_the_pipeline_does_not_wait_for_a_heavy_update():
    heavy = ["model={kind: llama, layers: 8, width: 256, heads: 4, context: 16}", "parallel.cut=[1, 7]",
             "device.pace_ms={F: 4, I: 4, W: 4}"]
    out, _ = run("llama", "heavy", *heavy)
    updates_come_before_the_first_f(out, 2, 2, 8)
    the_pipeline_begins_without_a_later_update(out, 8)


def test_late_updates_change_no_bit():
    for kind in ("gpt2", "llama"):
        _, plain = run(kind, "plain", "parallel.pipeline=1")
        for name, settings in {
            "two ranks": [],
            "one microbatch": ["batch.microbatches=1"],
            "loop": ["parallel={pipeline: 2, placement: loop, stages: 4}", "schedule=interleaved-1f1b"],
            "wave": ["parallel={pipeline: 2, placement: wave, stages: 4}", "schedule=zb-v"],
            "tensor ranks": ["parallel.tensor=2"],
            "zero": ["parallel={pipeline: 2, data: 2, zero: 1}"],
            "zero on a loop": ["parallel={pipeline: 2, data: 2, zero: 1, placement: loop, stages: 4}",
                               "schedule=interleaved-1f1b", "batch.split=[2, 4]"],
        }.items():
            out, late = run(kind, name, *settings)
            if name in ("loop", "wave"):
                updates_come_before_the_first_f(out, 4, 2, 8)
            _, soon = run(kind, name + " at once", *settings, *SOON)
            assert late.bits == soon.bits, f"{kind}, {name}: {late.bits} is not {soon.bits}"
            if name in ("two ranks", "loop", "wave"):
                assert late.bits == plain.bits, f"{kind}, {name}: {late.bits} is not {plain.bits}"
            print(f"{kind}, {name}: the same bits whether updates are made at once or before the next first F")


def test_a_norm_that_is_not_finite_names_its_iteration():
    # weights that were driven far away in two updates: the third iteration says it, at whoever's norm it shows
    hot = subprocess.run([os.path.join(build, "slackline"), "train", files["gpt2"], "--out", os.path.join(folder, "hot"),
                          "--set", "optimizer={kind: adamw, lr: 100, clip: 0.5, warmup: 0, decay: 100}",
                          "--set", "iterations=40"], capture_output=True, text=True, timeout=100)
    assert hot.returncode == 1 and has_facts(hot.stderr, "iteration 2: the gradient norm is not finite"), hot.stderr
