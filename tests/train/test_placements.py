# labels: long
"""Several stages a rank through the whole trainer: loop, wave, parts, an order from a file, and a swap in mid-run give
the loss of every iteration, the validation loss and weights_hash of one rank, bit for bit; what such a run writes down
is right; and what a placement cannot have is refused before a process starts."""
import json
import os
import re
import subprocess

from runner import build, folder, require, source

command = os.path.join(build, "slackline")
require("slackline-worker")

# 9 layers: stages of one rank are of different size
RUN = """
model: {kind: gpt2, layers: 9, width: 64, heads: 4, context: 32}
data: {files: ["%s/docs/*.md", "%s/src/plan/*/*.c", "%s/src/base/*.c"], seed: 3}
parallel: {pipeline: 1}
batch: {microbatches: 6, size: 2}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 4
schedule: 1f1b
adapt: false
""" % (source, source, source)


def run(name, text, settings, code=0):
    file = os.path.join(folder, name + ".yaml")
    out = os.path.join(folder, name)
    with open(file, "w") as f:
        f.write(text)
    arguments = [command, "train", file, "--out", out]
    for setting in settings:
        arguments += ["--set", setting]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, f"{name}: exit {done.returncode}: {done.stderr}"
    return out, done


def lines(path):
    return [json.loads(line, parse_float=str) for line in open(path)]


def result(out):
    # the text of the loss, not a float made of it: nine digits tell every f32 apart
    summary = json.load(open(os.path.join(out, "summary.json")), parse_float=str)
    losses = [line["loss"] for line in lines(os.path.join(out, "metrics.jsonl"))]
    return losses, summary["weights_hash"], summary["validation_loss"]


def compare(kind, text, variants):
    expected = result(run(kind + "-one-rank", text, [])[0])
    assert len(set(expected[0])) > 1, "the loss does not move: nothing is trained"
    outs = {}
    for name, settings in variants.items():
        for attempt in range(5 if "swap" in name else 1):  # on a busy machine a run may have other trouble instead of the swap and the return
            outs[name], _ = run(f"{kind}-{name}-{attempt}", text, settings)
            got = result(outs[name])
            assert got == expected, f"{kind} {name}: {got} is not {expected}"
            kinds = [line["kind"] for line in lines(os.path.join(outs[name], "events.jsonl"))]
            if "swap" in kinds and "return" in kinds:
                break
        assert "swap" not in name or "return" in kinds, f"{name}: no swap and return in any of 5 runs: {kinds}"
        print(f"{kind} {name}: the same bits as one rank")
    return outs


def plan(file, *arguments):
    done = subprocess.run([command, "plan", file, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"plan {file}: {done.stderr}"
    return done.stdout


def check_outputs(out, ranks, stages, microbatches, placement, links):
    """links: the directed pairs of ranks between which messages went"""
    planned = json.loads(plan(os.path.join(out, "profile.yaml"), "--format", "json"))
    shape = {key: planned[key] for key in ("ranks", "stages", "microbatches", "placement")}
    assert shape == {"ranks": ranks, "stages": stages, "microbatches": microbatches, "placement": placement}, shape
    for line in lines(os.path.join(out, "metrics.jsonl")):
        got = {(link["from"], link["to"]) for link in line["links"]}
        assert got == links, f"links {got}"
    trace = json.load(open(os.path.join(out, "timeline.json")))
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    held = {}
    for event in events:
        if event.get("ph") == "X" and "stage" in event.get("args", {}) and event["args"].get("microbatch", -1) >= 0:
            held.setdefault(event["args"]["stage"], set()).add(event["pid"])
    assert sorted(held) == list(range(stages)), f"timeline.json shows stages {sorted(held)}"
    picture = open(os.path.join(out, "iterations.svg")).read()
    assert "paler: further stages of a rank" in picture, "iterations.svg does not tell the stages of a rank apart"


def forwards(out):
    """How many forwards, or parts of them, the recorded iterations have."""
    with open(os.path.join(out, "timeline.json")) as file:
        return sum(event.get("cat") == "F" for event in json.load(file)["traceEvents"])


def test_placements_and_parts_keep_every_bit():
    # an order that somebody else made, for a wave
    problem = os.path.join(folder, "wave.yaml")
    with open(problem, "w") as f:
        f.write("pipeline: {ranks: 2, microbatches: 6, placement: wave, times_ms: {F: 1, I: 1, W: 1}}\n")
    order = os.path.join(folder, "order.csv")
    with open(order, "w") as f:
        f.write(plan(problem, "--schedule", "zb-v", "--format", "csv"))

    whole = os.path.join(folder, "whole.json")  # a plan with parts, which an order cannot express
    with open(problem, "w") as f:
        f.write("pipeline: {ranks: 4, microbatches: 6, parts: 2, times_ms: {F: 1, I: 1, W: 1}, links: {default: {latency_ms: 2}}}\n")
    with open(whole, "w") as f:
        f.write(plan(problem, "--schedule", "cross-ud-sub", "--format", "json"))

    loop = ["schedule=interleaved-1f1b", "parallel.placement=loop"]
    wave = ["parallel.placement=wave"]
    outs = compare("small", RUN, {
        "linear-2": ["parallel.pipeline=2"],
        "linear-4": ["parallel.pipeline=4", "schedule=zb-h2"],
        "loop-2-of-4": ["parallel.pipeline=2", "parallel.stages=4", *loop],
        "loop-4-of-8": ["parallel.pipeline=4", "parallel.stages=8", *loop],
        "loop-3-of-9-gpipe": ["parallel.pipeline=3", "parallel.stages=9", *loop, "schedule=gpipe"],
        "loop-4-of-8-inorder": ["parallel.pipeline=4", *loop, "communication=inorder"],
        "loop-4-of-8-batched": ["parallel.pipeline=4", *loop, "communication=batched"],
        "wave-1-zb-v": ["parallel.pipeline=1", "schedule=zb-v"],
        "wave-2-zb-v": ["parallel.pipeline=2", "schedule=zb-v"],
        "wave-4-zb-v": ["parallel.pipeline=4", "schedule=zb-v"],
        "wave-4-auto": ["parallel.pipeline=4", "schedule=auto", *wave],
        "wave-4-inorder": ["parallel.pipeline=4", "schedule=zb-v", "communication=inorder"],
        "wave-4-batched": ["parallel.pipeline=4", "schedule=zb-v", "communication=batched"],
        "loop-4-of-8-fifo": ["parallel.pipeline=4", *loop, "communication=fifo"],
        "wave-4-fifo": ["parallel.pipeline=4", "schedule=zb-v",
                        "communication={regime: fifo, communicators: kind, eager_kb: 1000}"],
        "wave-2-dualpipe-v": ["parallel.pipeline=2", "schedule=dualpipe-v"],
        "wave-2-file": ["parallel.pipeline=2", *wave, "schedule=" + order],
        "wave-4-memory": ["parallel.pipeline=4", "schedule=zb-v", "device.memory_mb=9.0", "adapt=true"],
        "parts-2": ["parallel.pipeline=4", "schedule=cross-ud-sub", "parallel.parts=2"],
        "parts-3-batched": ["parallel.pipeline=4", "schedule=cross-ud-sub", "parallel.parts=3",
                            "communication=batched"],
        "parts-2-plan": ["parallel.pipeline=4", "schedule=" + whole, "parallel.parts=2"],
        "parts-2-wave": ["parallel.pipeline=2", "schedule=zb-v", "parallel.parts=2"],
    })
    neighbours = {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    check_outputs(outs["loop-4-of-8"], 4, 8, 6, "loop", neighbours | {(3, 0), (0, 3)})
    check_outputs(outs["wave-4-zb-v"], 4, 8, 6, "wave", neighbours)
    planned = json.loads(plan(os.path.join(outs["parts-2"], "profile.yaml"), "--schedule", "cross-ud-sub",
                              "--format", "json"))
    assert {op["part"] for op in planned["ops"] if op["op"] != "gather"} == {0, 1}, "profile.yaml lost the parts"
    ran = {name: forwards(outs[name]) for name in ("linear-4", "parts-2", "parts-2-plan")}
    assert ran["parts-2-plan"] == ran["parts-2"] == 2 * ran["linear-4"] > 0, f"the plan's parts did not run: {ran}"
    peak = json.load(open(os.path.join(outs["wave-4-memory"], "summary.json")))["memory_peak_bytes"]
    assert peak <= 9.0e6, f"{peak} bytes were used of 9.0e6"


def test_a_swap_in_the_middle_keeps_every_bit():
    wave = ["parallel.placement=wave"]
    # a swap and a return in the middle: paced ops, a link that is slow for iterations 2 to 9, and time for a busy machine to see its relief
    many = RUN.replace("iterations: 4", "iterations: 24").replace("microbatches: 6", "microbatches: 12")
    adapts = ["parallel.pipeline=4", "adapt=true", "device.pace_ms={F: 4, I: 4, W: 4}",
              "adaptation={hold: 2, dwell: 4, gain: 0.01}"]
    outs = compare("paced", many, {
        "wave-swap": ["schedule=auto", *wave, *adapts,
                      "faults=[{iterations: [2, 9], link: [0, 1], latency_ms: 40}]"],
        "wave-swap-fifo": ["schedule=auto", *wave, *adapts,
                           "communication={regime: fifo, communicators: direction, eager_kb: 1000}",
                           "faults=[{iterations: [2, 9], link: [0, 1], latency_ms: 40}]"],
        "loop-3-0": ["schedule=interleaved-1f1b", *adapts,
                     "faults=[{iterations: [2, 9], link: [3, 0], latency_ms: 20, one_way: true}]"],
    })
    schedules = {line["schedule"] for line in lines(os.path.join(outs["wave-swap"], "metrics.jsonl"))}
    linear_only = {"1f1b", "zb-h1", "zb-h2", "adaptra", "cross-ud-sub", "interleaved-1f1b"}
    assert not {name.split()[0] for name in schedules} & linear_only, f"{schedules} on a wave"
    seen = [line for line in lines(os.path.join(outs["loop-3-0"], "events.jsonl"))
            if line["kind"] == "onset" and line.get("link")]  # a busy machine slows ranks, too
    assert seen and sorted(seen[0]["link"]) == [0, 3], f"the link 3-0 was not seen: {seen}"
    assert re.search(r"link 3 -> 0", seen[0]["seen"]), f"its direction is not told: {seen}"
    slow = [float(link["latency_ms"]) for line in lines(os.path.join(outs["loop-3-0"], "metrics.jsonl"))[3:8]
            for link in line["links"] if (link["from"], link["to"]) == (3, 0)]
    assert all(value >= 20 for value in slow) and len(slow) == 5, f"link 3-0 was measured with {slow} ms"


def test_what_a_placement_cannot_have_is_refused():
    for words, settings in {
        "must be at least 2 with placement bidirectional": ["parallel.placement=bidirectional", "schedule=chimera"],
        "1f1b needs placement linear": ["parallel.pipeline=4", "parallel.placement=bidirectional"],
        "zb-v needs placement wave; the problem's is linear": ["schedule=zb-v", "parallel.placement=linear"],
        "'stages' must be a multiple of the ranks (2)": ["parallel.pipeline=2", "schedule=interleaved-1f1b",
                                                         "parallel.stages=5"],
        "more than the model's 9 layers": ["parallel.pipeline=5", "parallel.placement=wave"],
        "nothing is sent between ranks 0 and 3": [
            "parallel.pipeline=4", "parallel.placement=wave", "schedule=auto",
            "faults=[{iterations: [1, 2], link: [0, 3], latency_ms: 1}]"],
    }.items():
        out, done = run("refused", RUN, settings, code=2)
        assert words in done.stderr and done.stderr.count("\n") == 1, f"'{done.stderr}' does not say '{words}'"
        assert not os.path.exists(out), "a refused run made a folder"
