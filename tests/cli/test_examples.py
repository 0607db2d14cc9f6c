"""The problems among the examples say how they are used, and can be planned; the figures that follow by hand are right."""
import os
import re

from calling import plan, run
from runner import expect, source

examples = os.path.join(source, "examples")
planned = {}
for name in sorted(n for n in os.listdir(examples) if n.endswith(".yaml")):
    path = os.path.join(examples, name)
    content = open(path).read()
    if not re.search(r"^pipeline:", content, re.M):
        continue
    expect(content.startswith("#") and f"slackline plan examples/{name}" in content, f"{name} says how it is used")
    planned[name] = example = plan("plan", path, "--schedule", "auto", "--time-limit", "0.2")
    expect(example["gap"] >= 0, f"{name}: shorter than the bound by {-example['gap']}")
    expect(example["memory_ok"] is True, f"{name}: keeps the memory limit")
    expect(len({(op["op"], op["stage"], op["microbatch"]) for op in example["ops"]}) == len(example["ops"]), f"{name}: an op twice")
    # every `--set` that the file speaks of is one that the command takes
    for line in re.findall(r"`[^`]*--set [^`]*`", " ".join(line.lstrip("# ") for line in content.splitlines())):
        sets = re.findall(r"--set '?([^ `']+)", line)
        done = run("plan", path, "--time-limit", "0.1", *[word for key in sets if "$" not in key for word in ("--set", key)])
        expect(done.returncode == 0 and done.stderr == "", f"{name}: {sets}: {done.stderr}")


def link(name, a, b):
    return next(t for t in planned[name]["transfers"] if (t["from"], t["to"]) == (a, b))


def test_every_placement_has_an_example():
    expect({"linear", "loop", "wave", "bidirectional"} == {example["placement"] for example in planned.values()}, "every placement has an example")


def test_messages_take_what_distance_and_size_say():
    # 64 MB at each distance: 64 * 8 / (Gbit/s) ms, and the latency
    for name, gbps, latency in (("same-campus.yaml", 800, 0.01), ("cross-campus.yaml", 200, 0.2), ("same-region.yaml", 11.3, 1), ("cross-region.yaml", 5, 30)):
        t = link(name, 3, 4)
        expect(abs(t["end_ms"] - t["start_ms"] - 512 / gbps) < 1e-5, f"{name}: a message occupies the link for {512 / gbps} ms")
        expect(abs(t["arrive_ms"] - t["end_ms"] - latency) < 1e-5, f"{name}: and arrives {latency} ms later")
    farther = [planned[f"{name}.yaml"]["lower_bound_ms"] for name in ("same-campus", "cross-campus", "same-region", "cross-region")]
    expect(farther == sorted(farther), "the farther, the longer")
    expect(abs(link("jitter.yaml", 1, 2)["arrive_ms"] - link("jitter.yaml", 1, 2)["end_ms"] - (5 + 8 * 2.302585093)) < 1e-5, "the 90th percentile of 5 ms and 8 ms exponential")


def test_zero_1_gathers_and_reduces_as_by_hand():
    # ZeRO-1: gathers and reductions of (n - 1)(alpha + V / (n beta)) = 7 * (0.02 + 3.5) ms, the iteration ends with a reduction
    collectives = [op for op in planned["zero-1.yaml"]["ops"] if op["op"] in ("gather", "reduce")]
    if collectives:
        expect(len(collectives) == 8 and all(abs(c["end_ms"] - c["start_ms"] - 24.64) < 1e-5 for c in collectives), "a gather and a reduction a stage, 24.64 ms each")


def test_messages_follow_the_placement():
    # a wave turns on a rank, where nothing is sent; a loop's ring closes
    expect(not [t for t in planned["wave.yaml"]["transfers"] if t["op"] == "F" and t["stage"] == 3], "a wave sends nothing where it turns")
    expect([t for t in planned["loop.yaml"]["transfers"] if (t["from"], t["to"]) == (3, 0)], "a loop sends from the last rank to the first")


def test_a_shared_wire_carries_one_message_at_a_time():
    # one cable: its messages of one direction follow each other
    wire = sorted((t["start_ms"], t["end_ms"]) for t in planned["shared-wire.yaml"]["transfers"] if (t["from"], t["to"]) in ((0, 1), (2, 1), (2, 3)))
    expect(len(wire) == 36 and all(a[1] <= b[0] + 1e-6 for a, b in zip(wire, wire[1:])), "one message at a time on the shared wire")
