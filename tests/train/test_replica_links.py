# labels: long
"""Slow links between replicas: the sums of the stage they carry take as long as latency and bandwidth say, those of other
stages do not, relief comes at once, and not a bit changes."""
import json
import os
import statistics
import subprocess

from runner import build, folder, missing, source
from training import arguments, train

WIDTH, BLOCKS, CONTEXT, TOKENS = 32, 2, 16, 256
RUN = """
model: {kind: gpt2, layers: 4, width: %d, heads: 4, context: %d}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 2, data: %d}
batch: {microbatches: 12, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 14
schedule: 1f1b
adapt: false
device: {pace_ms: {F: 2, I: 2, W: 2}}
"""
BEGIN, END = 4, 10
LATENCY_MS, GBPS = 20, 0.02
# by hand: of a block 12 w^2 + 13 w, the last norm 2 w; the tied head is summed apart
STAGE = BLOCKS * (12 * WIDTH * WIDTH + 13 * WIDTH) + 2 * WIDTH
HEAD = TOKENS * WIDTH


def file_of(folder, source, replicas):
    path = os.path.join(folder, f"run-{replicas}.yaml")
    with open(path, "w") as file:
        file.write(RUN % (WIDTH, CONTEXT, source, replicas))
    return path


def reductions(out):
    """{pipeline rank: [ms of each iteration]}: from when the last replica had come to when the last had its sum."""
    events = json.load(open(os.path.join(out, "timeline.json")))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    spans = {}
    for event in events:
        if event.get("cat") == "reduce":
            rank = int(names[event["pid"]].rpartition(" ")[2])
            spans.setdefault((rank, event["args"]["iteration"]), []).append((event["ts"], event["ts"] + event["dur"]))
    found = {}
    for (rank, _), all_of_them in sorted(spans.items()):
        found.setdefault(rank, []).append((max(end for _, end in all_of_them) - max(begin for begin, _ in all_of_them)) / 1e3)
    return found


def the_stage_is_slow_by_what_the_link_takes(build, folder, source, replicas, fault, slowed, shares):
    """`shares`: of a sum's bytes that take the link, for each of its halves."""
    file = file_of(folder, source, replicas)
    healthy = train(build, file, os.path.join(folder, f"healthy-{replicas}"))
    out = os.path.join(folder, f"slow-{replicas}")
    slow = train(build, file, out, f"faults=[{{iterations: [{BEGIN}, {END}], {fault}}}]")
    assert slow.bits == healthy.bits, f"{slow.bits} is not {healthy.bits}"
    least = 2 * 2 * LATENCY_MS + 2 * (STAGE + HEAD) * 4 * shares / (GBPS * 1e6 / 8)
    ms = reductions(out)
    inside = {rank: ms[rank][BEGIN:END] for rank in ms}
    outside = {rank: ms[rank][:BEGIN] + ms[rank][END:] for rank in ms}
    print(f"{replicas} replicas, {fault}: at least {least:.1f} ms; " +
          "; ".join(f"rank {rank} {statistics.median(inside[rank]):.1f} ms, else {statistics.median(outside[rank]):.1f} ms"
                    for rank in ms))
    assert min(inside[slowed]) >= least, f"faster than the link lets it: {inside[slowed]}, {least}"
    assert statistics.median(inside[slowed]) < 3 * least, f"much slower than the link: {inside[slowed]}, {least}"
    assert statistics.median(inside[slowed]) > 3 * statistics.median(inside[1 - slowed]), f"not of that stage: {inside}"
    assert statistics.median(inside[slowed]) > 3 * statistics.median(outside[slowed]), f"before or after: {ms}"
    measured = [event for event in slow.events if event["kind"] == "fault"]
    assert {event["decided"] for event in measured} == {"injected", "removed"}, measured
    assert all(event["rank"] == slowed and "replicas" in event["seen"] for event in measured), measured


def test_chunks_do_not_wait_for_each_other():
    """12.6 MB in chunks of 2 MB, seven of them: one by one they would take 14 latencies; the head's sum takes two."""
    latency = 80
    settings = ["model={kind: gpt2, layers: 1, width: 512, heads: 4, context: 16}", "parallel={pipeline: 1, data: 2}",
                "batch.microbatches=2", "device={threads: 1}", "iterations=8"]
    file = file_of(folder, source, 2)
    for zero in (0, 1):
        zeroed = settings + [f"parallel={{pipeline: 1, data: 2, zero: {zero}}}"]
        healthy = train(build, file, os.path.join(folder, f"wide-{zero}"), *zeroed)
        out = os.path.join(folder, f"wide-slow-{zero}")
        slow = train(build, file, out, *zeroed, f"faults=[{{iterations: [2, 6], rank: 0, replicas: [0, 1], latency_ms: {latency}}}]")
        assert slow.bits == healthy.bits, f"{slow.bits} is not {healthy.bits}"
        took = statistics.median(reductions(out)[0][2:6]) / latency
        halves = 3 if zero else 4  # with ZeRO the weights are gathered later
        print(f"zero {zero}: a sum over a link with latency takes {took:.2f} latencies")
        assert halves <= took < halves + 5, took


def test_trouble_moves_with_its_processes():
    """Seats are (rank, replica): 0 = (0, 0), 1 = (0, 1), 2 = (1, 0), 3 = (1, 1). The connection of processes 2 and 3 is slow from
    the start; from iteration 7 on they sit at (0, 0) and (1, 0), neighbours in a pipeline, and later where they no longer talk.
    Process 1, whose device is slow, goes from (0, 1) to (1, 1) and to (1, 0)."""
    file = file_of(folder, source, 2)
    whole = train(build, file, os.path.join(folder, "whole"))
    out = os.path.join(folder, "moved")
    moved = train(build, file, out, f"faults=[{{iterations: [0, 14], rank: 1, replicas: [0, 1], latency_ms: {LATENCY_MS}}}, "
                  "{iterations: [0, 14], rank: 0, replica: 1, slowdown: 4}]",
                  "arrangements=[{iteration: 7, positions: [2, 0, 3, 1]}, {iteration: 11, positions: [2, 0, 1, 3]}]")
    assert moved.bits == whole.bits, f"{moved.bits} is not {whole.bits}"
    ms = reductions(out)
    print("sums, ms:", ms)
    # two sums of two halves each
    assert min(ms[1][:7]) >= 4 * LATENCY_MS and statistics.median(ms[1][7:]) < 2 * LATENCY_MS, ms
    delays = {}
    for line in moved.metrics:
        for link in line["links"]:
            slow = 7 <= line["iteration"] < 11 and link["replica"] == 0
            delays.setdefault(slow, []).append(float(link["latency_ms"]))
    assert len(delays[True]) == 2 * 4 and min(delays[True]) >= LATENCY_MS, delays
    assert statistics.median(delays[False]) < LATENCY_MS, delays
    events = json.load(open(os.path.join(out, "timeline.json")))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    where = {0: "replica 1, rank 0", 7: "replica 1, rank 1", 11: "replica 0, rank 1"}
    for iteration in range(14):
        ops = {}
        for event in events:
            if event.get("cat") == "F" and event["args"]["iteration"] == iteration:
                ops.setdefault(names[event["pid"]], []).append(event["dur"])
        slow = max(ops, key=lambda name: statistics.median(ops[name]))
        assert slow == where[max(first for first in where if first <= iteration)], f"iteration {iteration}: {slow} is slow"
    print("a slow device and a slow connection moved with their processes")


def test_mistakes_are_refused():
    file = file_of(folder, source, 2)
    for fault, words in (("replicas: [0, 1], latency_ms: 1", "rank | replicas"),
                         ("rank: 0, replicas: [0, 2], latency_ms: 1", "replica | 2"),
                         ("rank: 0, replicas: [0, 0], latency_ms: 1", "replicas | two"),
                         ("rank: 0, replicas: [0, 1]", "latency_ms | bandwidth_gbps")):
        done = subprocess.run(arguments(build, file, os.path.join(folder, "none"), [f"faults=[{{iterations: [1, 2], {fault}}}]"]),
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and not missing(done.stderr, words), f"{fault}: exit {done.returncode}: {done.stderr}"


def test_a_stage_is_slow_by_what_the_link_takes():
    link = f"latency_ms: {LATENCY_MS}, bandwidth_gbps: {GBPS}"
    the_stage_is_slow_by_what_the_link_takes(build, folder, source, 2, f"rank: 1, replicas: [0, 1], {link}", 1, 1 / 2)
    the_stage_is_slow_by_what_the_link_takes(build, folder, source, 3, f"rank: 1, replicas: [2, 0], {link}, one_way: true", 1, 1 / 3)
