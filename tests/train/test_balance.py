"""What balance says in use: batch.split takes it as it is, each replica runs as many microbatches, and gradients count by
them, so that the loss is that of the even split."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from runner import build, folder, source
from training import train

RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 2, data: 2}
batch: {microbatches: 16, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 8
schedule: 1f1b
adapt: false
device: {kind: cpu, pace_ms: {F: 4, I: 4, W: 4}}
faults: [{iterations: [0, 8], rank: 1, replica: 1, slowdown: 2}]
"""
def middle(result):
    return sorted(float(line["time_ms"]) for line in result.metrics[2:])[3]


def test_replicas_run_the_split_of_balance_with_the_same_loss():
    # 12 ms a microbatch, 24 where one device is slow, pipelines of two: 12 (m + 1) and 24 (m' + 1)
    done = subprocess.run([os.path.join(build, "slackline"), "balance", "--microbatches", "16", "--times", "12,24", "--fill", "1"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    split = json.loads(done.stdout)["microbatches"]
    assert split == [11, 5], split  # 144 and 144 ms; even 216
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as out:
        out.write(RUN % source)
    even = train(build, file, os.path.join(folder, "even"))
    balanced = train(build, file, os.path.join(folder, "balanced"), f"batch.split={json.dumps(split)}")
    events = json.load(open(os.path.join(folder, "balanced", "timeline.json")))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    for replica, count in enumerate(split):
        pid = next(pid for pid, name in names.items() if name == f"replica {replica}, rank 1")
        for iteration in range(8):
            forwards = [event for event in events if event.get("cat") == "F" and event["pid"] == pid
                        and event["args"]["iteration"] == iteration]
            assert len(forwards) == count, f"replica {replica} ran {len(forwards)} microbatches in iteration {iteration}"
    for one, other in zip(even.metrics, balanced.metrics):
        assert abs(float(one["loss"]) - float(other["loss"])) < 1e-5, f"{one['loss']} and {other['loss']}"
    assert len(balanced.metrics) == 8
    print(f"split {split}: {middle(balanced):.0f} ms per iteration, {middle(even):.0f} ms evenly; the same loss")
