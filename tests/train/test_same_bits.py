"""The loss of every iteration and weights_hash are the same bits whatever the number of pipeline ranks, the schedule,
the regime, the swaps in between and the threads of a rank, in f32 and bf16; at a width of 768 too, where products of
different shapes take different paths."""
import json
import os
import subprocess
import sys
import tempfile

build, source = sys.argv[1:3]
command = os.path.join(build, "slackline")
if not os.path.exists(os.path.join(build, "slackline-worker")):
    print("skipped: the trainer is not built (MPI or oneDNN is missing)")
    sys.exit(77)

SMALL = """
model: {kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}
data: {files: ["%s/docs/*.md", "%s/src/plan/*/*.c", "%s/src/base/*.c"], seed: 3}
parallel: {pipeline: 1}
batch: {microbatches: 6, size: 2}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 5
schedule: 1f1b
adapt: false
""" % (source, source, source)
WIDE = SMALL.replace("width: 64, heads: 4", "width: 768, heads: 12").replace("iterations: 5", "iterations: 2").replace(
    "microbatches: 6, size: 2", "microbatches: 3, size: 1")


def train(folder, name, text, *settings):
    run = os.path.join(folder, name + ".yaml")
    out = os.path.join(folder, name)
    with open(run, "w") as file:
        file.write(text)
    arguments = [command, "train", run, "--out", out]
    for setting in settings:
        arguments += ["--set", setting]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr}"
    # the text of the loss, not a float made of it: nine digits tell every f32 apart
    losses = [json.loads(line, parse_float=str)["loss"] for line in open(os.path.join(out, "metrics.jsonl"))]
    swaps = [json.loads(line)["kind"] for line in open(os.path.join(out, "events.jsonl"))]
    summary = json.load(open(os.path.join(out, "summary.json")), parse_float=str)
    return (losses, summary["weights_hash"], summary["validation_loss"]), swaps


def compare(folder, kind, text, variants):
    reference, _ = train(folder, kind + "-reference", text)
    assert len(set(reference[0])) > 1, "the loss does not move: nothing is trained"
    for name, settings in variants.items():
        result, events = train(folder, f"{kind}-{name}", text, *settings)
        assert result == reference, f"{kind} {name}: {result} is not {reference}"
        if "swap" in name:
            assert "swap" in events and "return" in events, f"{name}: no swap happened: {events}"
        print(f"{kind} {name}: the same bits as one rank")


with tempfile.TemporaryDirectory() as folder:
    compare(folder, "small", SMALL, {
        "2-ranks-1f1b": ["parallel.pipeline=2"],
        "4-ranks-gpipe": ["parallel.pipeline=4", "schedule=gpipe"],
        "4-ranks-zb-h1": ["parallel.pipeline=4", "schedule=zb-h1"],
        "4-ranks-zb-h2": ["parallel.pipeline=4", "schedule=zb-h2"],
        "4-ranks-adaptra": ["parallel.pipeline=4", "schedule=adaptra"],
        "4-ranks-inorder": ["parallel.pipeline=4", "schedule=adaptra", "communication=inorder"],
        "3-ranks-auto": ["parallel.pipeline=3", "schedule=auto"],
    })
    compare(folder, "wide", WIDE, {
        "2-ranks-zb-h1": ["parallel.pipeline=2", "schedule=zb-h1"],
        "4-ranks-adaptra": ["parallel.pipeline=4", "schedule=adaptra"],
        "1-thread": ["device.threads=1"],  # the reference has as many as the machine gives
        "3-threads": ["device.threads=3"],
        "bound": ["device.threads=1", "device.bind=always"],
    })
    if " avx512_bf16" in open("/proc/cpuinfo").read():
        compare(folder, "wide-bf16", WIDE.replace("adapt: false", "adapt: false\ndevice: {precision: bf16}"), {
            "2-ranks-zb-h1": ["parallel.pipeline=2", "schedule=zb-h1"],
            "4-ranks-2-threads": ["parallel.pipeline=4", "schedule=adaptra", "device.threads=2"],
            "1-thread": ["device.threads=1"],
        })
    else:
        print("bf16 is left out: this processor has no avx512_bf16")
    # a swap and a return in the middle: paced ops, a link that is slow for iterations 2 to 9
    many = SMALL.replace("iterations: 5", "iterations: 16").replace("microbatches: 6", "microbatches: 12")
    compare(folder, "paced", many, {
        "4-ranks-swap": ["parallel.pipeline=4", "schedule=adaptra", "adapt=true", "device.pace_ms={F: 6, I: 6, W: 6}",
                         "adaptation={hold: 2, dwell: 5, gain: 0.01}",
                         "faults=[{iterations: [2, 9], link: [0, 1], latency_ms: 40}]"],
        "4-ranks-unadapted": ["parallel.pipeline=4", "schedule=zb-h1", "device.pace_ms={F: 4, I: 4, W: 4}",
                              "faults=[{iterations: [2, 9], link: [2, 3], latency_ms: 20, one_way: true}]"],
    })
