# labels: long
"""The network measured between two iterations: the slow link of a pipeline and the slow pair of replicas are found for what
they are, others are not blamed, relief shows, and neither iterations nor bits notice."""
import os
import re
import statistics

from runner import build, folder, source
from training import train

RUN = """
model: {kind: gpt2, layers: 4, width: 64, heads: 4, context: 64}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 2, data: 3}
batch: {microbatches: 6, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 12
schedule: 1f1b
adapt: false
device: {pace_ms: {F: 5, I: 5, W: 5}}
"""
TOKENS = 6 * 64  # of an iteration
FAULTS = ("faults=[{iterations: [4, 8], link: [0, 1], replica: 2, latency_ms: 30, bandwidth_gbps: 0.05, one_way: true},"
          " {iterations: [4, 8], rank: 1, replicas: [1, 2], latency_ms: 40, bandwidth_gbps: 0.1}]")
NEIGHBOURS = re.compile(r"link of a pipeline: (\d) -> (\d) \(replica (\d)\): latency ([\d.e+-]+) ms(?:, ([\d.e+-]+) Gbit/s)?")
REPLICAS = re.compile(r"between replicas: (\d) -> (\d) \(rank (\d)\): latency ([\d.e+-]+) ms(?:, ([\d.e+-]+) Gbit/s)?")


def profiles(result):
    return {event["iteration"]: event for event in result.events if event["kind"] == "profile"}


def slow_pairs_are_found(result):
    found = profiles(result)
    print(found[0]["seen"], found[0]["decided"], found[5]["seen"], found[5]["decided"], sep="\n")
    assert sorted(found) == list(range(12)), sorted(found)  # at the start, and before every iteration
    slow, healthy = [], []
    for iteration, event in found.items():
        near, far = NEIGHBOURS.search(event["seen"]), REPLICAS.search(event["seen"])
        assert near and far, event
        assert event["decided"].startswith("measured 18 directions"), event  # 2 * 3 of pipelines, 2 * 2 * 3 of replicas
        if 4 <= iteration < 8:
            assert near.group(1, 2, 3) == ("0", "1", "2"), event
            assert set(far.group(1, 2)) == {"1", "2"} and far.group(3) == "1", event
            slow.append([float(value or "inf") for value in near.group(4, 5) + far.group(4, 5)])
        else:
            healthy.append([float(near.group(4)), float(far.group(4))])
    assert max(statistics.median(values) for values in zip(*healthy)) < 20, healthy  # another program may hold up one
    latency, rate, latency_between, rate_between = (statistics.median(values) for values in zip(*slow))
    assert 29.9 <= latency < 60 and 0.025 < rate < 0.1, slow
    assert 39.9 <= latency_between < 80 and 0.05 < rate_between < 0.2, slow


def nobody_notices(result, without):
    assert result.bits == without.bits, f"{result.bits} is not {without.bits}"
    slow, alone = (statistics.median(TOKENS / float(line["tokens_per_s"]) for line in of.metrics[4:7]) for of in (result, without))
    took = statistics.median(float(re.search(r"in ([\d.e+-]+) ms", profiles(result)[i]["decided"]).group(1)) for i in (5, 6, 7))
    print(f"an iteration of {1e3 * alone:.1f} ms became one of {1e3 * slow:.1f} ms beside profiles of {took} ms")
    assert slow < alone + 0.75 * took / 1e3, f"an iteration of {alone} s became one of {slow} s, a profile takes {took} ms"


def test_slow_pairs_are_found_between_iterations_and_change_no_bit():
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as out:
        out.write(RUN % source)
    often = train(build, file, os.path.join(folder, "often"), FAULTS, "adaptation.profile_every_s=1e-6")
    slow_pairs_are_found(often)
    never = train(build, file, os.path.join(folder, "never"), FAULTS, "adaptation.profile_every_s=0")
    assert not profiles(never), profiles(never)
    nobody_notices(often, never)
    standard = train(build, file, os.path.join(folder, "standard"), "iterations=4")
    assert sorted(profiles(standard)) == [0], profiles(standard)
    delegated = train(build, file, os.path.join(folder, "delegated"), FAULTS, "adaptation.profile_every_s=1e-6",
                      "transport=delegated")
    slow_pairs_are_found(delegated)
    assert delegated.bits == never.bits
