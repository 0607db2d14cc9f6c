"""Random faults in live runs of `slackline train`: drawn, run and judged. Ops are paced; 8 ranks share the machine's cores."""
import json
import os
import random
import statistics
import subprocess

RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
adaptation: {hold: 3, dwell: 8, gain: 0.02}
"""
MESSAGE_BYTES = 16 * 32 * 4
KINDS = ["device", "link latency", "link bandwidth", "device", "link latency", "two at once", "none", "device", "link bandwidth",
         "below 10 %"]


def link_fault(dice, kind, ranks, replicas, op):
    a = dice.randrange(ranks - 1)
    pair = [a, a + 1] if dice.random() < 0.6 else [a + 1, a]
    fault = {"link": pair, "replica": dice.randrange(replicas)}
    if dice.random() < 0.4:
        fault["one_way"] = True
    if kind == "link bandwidth":
        fault["bandwidth_gbps"] = float(f"{MESSAGE_BYTES * 8 / (op * dice.uniform(1.5, 4) * 1e-3) / 1e9:.3g}")
    else:
        fault["latency_ms"] = round(op * dice.uniform(1, 5), 1)
    return fault


def device_fault(dice, ranks, replicas, low, high):
    return {"rank": dice.randrange(ranks), "replica": dice.randrange(replicas), "slowdown": round(dice.uniform(low, high), 2)}


def place(fault):
    return fault["replica"], fault.get("rank"), tuple(sorted(fault.get("link", [])))


def draw(seed, number):
    """Case `number` of a campaign, as a dictionary."""
    dice = random.Random(f"{seed} {number}")
    kind = KINDS[number % len(KINDS)]
    ranks, replicas = ((4, 2), (2, 4))[(number // len(KINDS) + number) % 2]
    op = dice.uniform(14, 22)
    stages = [round(op * dice.uniform(0.7, 1.4), 1) if number % 3 == 1 else round(op, 1) for _ in range(ranks)]
    split = [4 + (dice.randrange(3) if number % 4 == 2 else 0) for _ in range(replicas)]
    first = 14 + dice.randrange(6)
    window = [first, first + 16 + dice.randrange(4)]
    faults = []
    if kind == "device":
        faults = [device_fault(dice, ranks, replicas, 1.2, 3)]
    elif kind == "below 10 %":
        faults = [device_fault(dice, ranks, replicas, 1.03, 1.06)]
    elif kind == "two at once":
        faults = [device_fault(dice, ranks, replicas, 1.4, 2.5), link_fault(dice, "link latency", ranks, replicas, op)]
    elif kind != "none":
        faults = [link_fault(dice, kind, ranks, replicas, op)]
    for fault in faults:
        fault["iterations"] = window
    return {"case": number, "kind": kind, "layout": [ranks, replicas], "stages_ms": stages, "split": split, "faults": faults,
            "window": window, "iterations": window[1] + 8, "adapt": number % 2 == 1,
            "schedule": dice.choice(["1f1b", "adaptra", "gpipe"])}


def settings(case):
    ranks, replicas = case["layout"]
    pace = "{%s}" % ", ".join(f"{kind}: {json.dumps(case['stages_ms'])}" for kind in "FIW")
    faults = "[%s]" % ", ".join("{%s}" % ", ".join(f"{key}: {json.dumps(value)}" for key, value in fault.items())
                                for fault in case["faults"])
    return [f"parallel={{pipeline: {ranks}, data: {replicas}}}",
            f"batch={{microbatches: {sum(case['split'])}, size: 1, split: {json.dumps(case['split'])}}}",
            f"iterations={case['iterations']}", f"schedule={case['schedule']}", f"adapt={json.dumps(case['adapt'])}",
            f"device.pace_ms={pace}"] + ([f"faults={faults}"] if case["faults"] else [])


def run(build, source, folder, case):
    """Runs a case; returns it with its events and the verdict on them."""
    file, out = os.path.join(folder, "run.yaml"), os.path.join(folder, f"case-{case['case']}")
    with open(file, "w") as text:
        text.write(RUN % source)
    words = [os.path.join(build, "slackline"), "train", file, "--out", out]
    for setting in settings(case):
        words += ["--set", setting]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"case {case['case']}: exit {done.returncode}: {done.stderr}\n{' '.join(words)}"
    events = [json.loads(line) for line in open(os.path.join(out, "events.jsonl"))]
    times = [json.loads(line)["time_ms"] for line in open(os.path.join(out, "metrics.jsonl"))]
    said = [event for event in events if event["kind"] in ("suspect", "verdict")]
    first, end = case["window"]
    effect = statistics.mean(times[first:end]) / statistics.mean(times[2:first]) if case["faults"] else 1.0
    return {**case, "said": said, "effect": effect, "verdict": judge(case, said, effect)}


def names(event, fault):
    """Whether an event names the component of a fault."""
    if event.get("replica") != fault["replica"]:
        return False
    if "rank" in fault:
        return event["decided"].startswith("device") and event.get("rank") == fault["rank"]
    if "link" not in event:
        return False
    if fault.get("one_way"):
        return "->" in event["decided"] and event["link"] == fault["link"]
    return "->" not in event["decided"] and sorted(event["link"]) == sorted(fault["link"])


def judge(case, said, effect):
    """Judges like tests/run/train/virtual_job.h: suspects and verdicts count equally, and none may be wrong."""
    named = set()
    for event in said:
        known = {i for i, fault in enumerate(case["faults"]) if names(event, fault)}
        named |= known
        if not known and not event["decided"].startswith("cannot tell"):
            return "wrong"
    if case["kind"] in ("none", "below 10 %"):
        return "cannot tell" if said else "right"
    if len(named) == len(case["faults"]) or (not said and effect < 1.1):
        return "right"
    return "one of two" if named else "cannot tell" if said else "missed"
