# labels: long alone
"""Several pipelines side by side: each replica adapts by itself, delegates come and go everywhere together, reductions show
in the timeline and in the profile, and when any of eight ranks dies nothing is left behind. None of it changes a bit."""
import json
import os
import re
import subprocess
import time

from runner import build, folder, has_facts, source
from training import Training, shared_files, train, until

RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 2, data: 2}
batch: {microbatches: 16, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 26
schedule: adaptra
adapt: false
"""
PACED = ["device.pace_ms={F: 4, I: 4, W: 4}"]
ADAPTS = PACED + ["adapt=true", "adaptation={hold: 2, dwell: 4, gain: 0.01, strategies: [schedule, delegate]}"]
SLOW = "faults=[{iterations: [2, 10], link: [0, 1], latency_ms: 40, replica: 1}]"
PROCESSES = {"replica 0, rank 0", "replica 0, rank 1", "replica 1, rank 0", "replica 1, rank 1"}


def only_replica_1_swaps(out, result, expected):
    assert result.bits == expected.bits, f"{result.bits} is not {expected.bits}"
    swaps = [event for event in result.events if event["kind"] in ("onset", "swap", "return")]
    assert {event["kind"] for event in swaps} == {"onset", "swap", "return"}, swaps
    assert {event["replica"] for event in swaps if "replica" in event} == {1}, f"replica 0 was healthy all the time: {swaps}"
    # what belongs to no replica is a sum over them, which a busy machine may really slow
    others = [event for event in swaps if "replica" not in event]
    assert all(has_facts(event.get("seen", ""), "sum of stage") for event in others), others
    schedules = [line["schedule"] for line in result.metrics]
    assert schedules[0] == schedules[-1] == "adaptra", schedules
    assert "adaptra | adaptra (adapted)" in schedules, schedules
    for line in result.metrics:
        links = {(link["replica"], link["from"], link["to"]) for link in line["links"]}
        assert links == {(r, a, 1 - a) for r in (0, 1) for a in (0, 1)}, links
    slow = [float(link["latency_ms"]) for link in result.metrics[5]["links"] if link["replica"] == 1]
    fast = [float(link["latency_ms"]) for link in result.metrics[5]["links"] if link["replica"] == 0]
    assert min(slow) >= 40 > max(fast), f"{slow} and {fast}"

    events = json.load(open(os.path.join(out, "timeline.json")))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert set(names.values()) == PROCESSES, names
    reduced = [event for event in events if event.get("cat") == "reduce"]
    assert len(reduced) == 4 * len(result.metrics), "each rank sums the gradients of its stage once an iteration"
    for event in reduced:
        last = max(op["ts"] + op["dur"] for op in events if op.get("cat") == "W" and op["pid"] == event["pid"]
                   and op["args"]["iteration"] == event["args"]["iteration"])
        assert event["ts"] >= last, "a reduction began before its stage's last W had ended"
    print("a link slow in one replica: that one swaps and returns, with the same bits")


def profile_holds_reductions(build, out):
    profile = os.path.join(out, "profile.yaml")
    text = open(profile).read()
    assert "data_parallel" in text and "reduce_ms" in text, text
    done = subprocess.run([os.path.join(build, "slackline"), "plan", profile, "--format", "json"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    kinds = {op["op"] for op in json.loads(done.stdout)["ops"]}
    assert "reduce" in kinds, kinds
    print("profile.yaml tells what reductions take")


def delegates_come_and_go_together(result, expected):
    assert result.bits == expected.bits, f"{result.bits} is not {expected.bits}"
    assert result.delegates[0] == 0 and result.delegates[-1] == 0 and max(result.delegates) > 0, result.delegates
    changes = [(a, b) for a, b in zip(result.delegates, result.delegates[1:]) if a != b]
    assert len(changes) == 2, f"they came and went more than once: {result.delegates}"
    asked = [event["replica"] for event in result.events if event["kind"] == "delegate"]
    assert asked == [1], f"the replica that was slow asked for them: {asked}"
    print("delegates for both replicas while one needs them, with the same bits")


def a_death_ends_all(build, file, folder, place, rank):
    """`place`: key and value of the fault; `rank`: of the world."""
    began = time.time()
    out = os.path.join(folder, f"killed-{rank}")
    settings = ["parallel.tensor=2", "iterations=1000", *PACED, f"faults=[{{iteration: 4, kill: 1, {place}}}]"]
    with Training(build, file, out, *settings) as run:
        run.await_iteration(0)
        assert len(run.workers()) == 8, run.workers()
        temporary = run.temporary()
        run.look()
        code, error = run.end(20)
        until(lambda: not [pid for pid in run.seen if run.is_own(pid)] and not os.path.exists(temporary), 10)
        left = [pid for pid in run.seen if run.is_own(pid)]
        assert not left and not os.path.exists(temporary), f"left: {left} {temporary}"
    assert code == 1 and re.search(rf"rank {rank}\b.*killed by signal 9", error), f"exit {code}: {error}"
    inside = [path for path in shared_files(began) if owner(path).startswith(folder)]
    assert not inside, f"left: {inside}"
    print(f"kill 1 with {place}: {error.strip()}")


def owner(path):
    try:
        return open(os.path.join(path, "owner")).read().partition("run: ")[2]
    except OSError:
        return ""


def given():
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as out:
        out.write(RUN % source)
    run = lambda name, *settings: train(build, file, os.path.join(folder, name), *settings)  # noqa: E731
    yield file, run, run("plain")


def test_only_the_slow_replica_swaps(file, run, plain):
    only_replica_1_swaps(os.path.join(folder, "swap"), run("swap", *ADAPTS, SLOW), plain)
    profile_holds_reductions(build, os.path.join(folder, "swap"))


def test_delegates_come_and_go_everywhere_together(file, run, plain):
    delegates_come_and_go_together(
        run("auto", *ADAPTS, SLOW, "transport=auto", "communication=inorder", "adaptation.gain=0.9"), plain)


def test_a_slow_tensor_rank_makes_its_replica_slow(file, run):
    slow = run("tensor", *PACED, "parallel.tensor=2", "iterations=4",
               "faults=[{iterations: [1, 4], rank: 0, slowdown: 3, replica: 0, tensor: 1}]")
    times = [float(line["time_ms"]) for line in slow.metrics]
    assert min(times[1:]) > 8 * (2 + 1) * 4 * 1.5, f"3 times as slow for 8 microbatches: {times}"


def test_a_death_ends_all_replicas(file):
    # tensor ranks number first, then replicas, then pipeline ranks
    a_death_ends_all(build, file, folder, "replica: 1, tensor: 1", 7)
    a_death_ends_all(build, file, folder, "replica: 0", 4)
