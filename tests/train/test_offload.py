# labels: long
"""Training whose activations do not fit on the device: they go to host memory and come back, the weights are the same bits
as without, and neither the device nor the host holds more than it may. Without host memory the same run is refused."""
import functools
import json
import os
import re
import subprocess

from runner import build, folder, has_facts, require, source

command = os.path.join(build, "slackline")
require("slackline-worker")

RUN = """
model: {kind: gpt2, layers: 6, width: 64, heads: 4, context: 64}
data: {files: ["%s/docs/*.md", "%s/src/plan/*/*.c"], seed: 5}
parallel: {pipeline: 3}
batch: {microbatches: 8, size: 2}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 4
schedule: gpipe
adapt: false
""" % (source, source)


def run(folder, name, *settings):
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as out:
        out.write(RUN)
    arguments = [command, "train", file, "--out", os.path.join(folder, name)]
    for setting in settings:
        arguments += ["--set", setting]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=200)


def train(folder, name, *settings):
    done = run(folder, name, *settings)
    assert done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr}"
    losses = [json.loads(line, parse_float=str)["loss"] for line in open(os.path.join(folder, name, "metrics.jsonl"))]
    summary = json.load(open(os.path.join(folder, name, "summary.json")), parse_float=str)
    return (losses, summary["weights_hash"], summary["validation_loss"]), summary


@functools.cache
def limits():
    """MB that fit least, of one microbatch, and the limits of device and host of the runs here."""
    refused = run(folder, "tiny", "device.memory_mb=0.001")
    sizes = re.search(r"take (\S+) MB and one microbatch (\S+) MB", refused.stderr)
    assert refused.returncode == 1 and sizes, f"exit {refused.returncode}: {refused.stderr}"
    fixed, each = map(float, sizes.groups())
    return fixed, each, fixed + 3.2 * each, 8.2 * each


def test_without_host_memory_the_run_is_refused():
    refused = run(folder, "without", f"device.memory_mb={limits()[2]}")
    assert refused.returncode == 1 and has_facts(refused.stderr, "over its limit"), f"exit {refused.returncode}: {refused.stderr}"


def test_moved_activations_change_no_bit_and_limits_are_kept():
    fixed, each, memory, host = limits()
    reference, summary = train(folder, "reference")
    assert len(set(reference[0])) > 1, "the loss does not move: nothing is trained"
    assert summary["moves"] == 0 and summary["host_peak_bytes"] == 0, summary
    assert summary["memory_peak_bytes"] > memory * 1e6, "the limit would not be tight"
    tight = [f"device.memory_mb={memory}", f"device.host_memory_mb={host}"]
    for name, settings in {
        "gpipe": [],
        "1f1b": ["schedule=1f1b", f"device.memory_mb={fixed + 1.8 * each}"],
        "adaptra": ["schedule=adaptra"],
        "paced": ["device.pace_ms={F: 4, I: 4, W: 4}", "device.offload_ms=1"],
        "slow moves": ["device.pace_ms={F: 2, I: 2, W: 2}", "device.offload_ms=5"],
        "two stages per rank": ["parallel.placement=loop"],
        "in order": ["communication=inorder", "device.pace_ms={F: 2, I: 2, W: 2}", "device.offload_ms=1"],
    }.items():
        result, summary = train(folder, name, *tight, *settings)
        assert result == reference, f"{name}: {result} is not {reference}"
        assert summary["moves"] > 0 or name == "adaptra", f"{name}: nothing was moved"
        assert summary["memory_peak_bytes"] <= memory * 1e6, f"{name}: {summary['memory_peak_bytes']} of {memory} MB"
        assert summary["host_peak_bytes"] <= host * 1e6, f"{name}: {summary['host_peak_bytes']} of {host} MB"
        print(f"{name}: the same bits with {summary['moves']} moves")
