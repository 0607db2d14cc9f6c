# labels: long alone
"""A run's own profile: profile.yaml is a problem file whose op times are the pace, whose links are what they were emulated
as, and whose plan has the memory that each rank's arena was seen to use; with the order that ran, `simulate` foretells the
makespan that the summary states. Bytes are certain, so they are held to be equal within the 5 % that are promised; times are
not, so of them only what no busy machine changes is asked."""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from runner import build, folder, source
from training import lines, train

command = os.path.join(build, "slackline")

RUN = """
model: {kind: gpt2, layers: 8, width: 64, heads: 4, context: 64}
data: {files: ["%s/docs/*.md", "%s/src/plan/*/*.c"], seed: 5}
parallel: {pipeline: 4}
batch: {microbatches: 8, size: 2}
optimizer: {kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}
iterations: 3
schedule: zb-h1
adapt: false
""" % (source, source)


def ask(*words):
    done = subprocess.run([command, *words, "--format", "json"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return json.loads(done.stdout)


def check_memory(name, out, summary, same_plan):
    """Of every rank: what it used against what its profile foretells."""
    measured = [rank["measured_bytes"] for rank in summary["memory"]]
    assert [rank["rank"] for rank in summary["memory"]] == list(range(len(measured)))
    assert max(measured) == summary["memory_peak_bytes"]
    ways = {"the summary": [float(rank["predicted_bytes"]) for rank in summary["memory"]]}
    order, profile = os.path.join(out, "order.csv"), os.path.join(out, "profile.yaml")
    if os.path.exists(order):
        again = ask("simulate", profile, "--order", order)
        if int(summary["swaps"]) == 0:  # else others ran before it
            ways["the order that ran last"] = again["peak_memory"]
        makespan = float(summary["profile"]["predicted_ms"])
        assert abs(again["makespan_ms"] - makespan) <= max(1e-6, 1e-8 * makespan), (name, again["makespan_ms"], makespan)
    schedule, planned = summary["profile"]["schedule"], summary["profile"]["planned_ms"]
    searched = schedule == "search"  # what a search found and ran last is no family's order
    plan = ask("plan", profile, "--schedule", "auto" if searched else schedule)
    if searched:
        assert planned is None, summary["profile"]
    else:  # nine digits
        assert abs(plan["makespan_ms"] - float(planned)) <= max(1e-6, 1e-8 * float(planned)), (name, plan["makespan_ms"], summary)
    if same_plan and not searched:  # the family's order follows from the shape alone
        ways["the plan of profile.yaml"] = plan["peak_memory"]
    for way, foretold in ways.items():
        for rank, (mine, his) in enumerate(zip(measured, foretold, strict=True)):
            assert abs(mine - his) <= 0.05 * his, f"{name}, rank {rank}: {mine} bytes measured, {his} by {way}"
    return measured, plan


file = os.path.join(folder, "run.yaml")
with open(file, "w") as text:
    text.write(RUN)


def run(name, *settings):
    out = os.path.join(folder, name)
    return out, train(build, file, out, *settings)


def numbers(text, key):
    """The list of a key in a profile."""
    return [float(n) for n in re.search(rf"^ +{key}: \[(.*)\]", text, re.M).group(1).split(",")]


def test_memory_is_used_as_predicted():
    bits, peaks = None, {}
    for name, (same_plan, settings) in {
        "zb-h1": (1, []), "1f1b": (1, ["schedule=1f1b"]), "gpipe": (1, ["schedule=gpipe"]),
        "adaptra": (0, ["schedule=adaptra"]),
        "one rank": (1, ["parallel.pipeline=1"]), "two ranks": (1, ["parallel.pipeline=2"]),
        "loop": (1, ["schedule=interleaved-1f1b"]), "wave": (1, ["schedule=zb-v"]), "recomputed": (1, ["device.recompute=[true, false, true, true]"]),
        "parts": (0, ["schedule=adaptra", "parallel.parts=2"]),
        "a swap": (0, ["schedule=adaptra", "adapt=true", "iterations=12", "device.pace_ms={F: 2, I: 2, W: 2}",
                       "adaptation={hold: 2, dwell: 3}", "faults=[{iterations: [2, 12], link: [0, 1], latency_ms: 30}]"]),
    }.items():
        out, result = run(name, *settings)
        peaks[name], plan = check_memory(name, out, result.summary, same_plan)
        if name != "a swap":  # what it swaps to may have parts
            assert os.path.exists(os.path.join(out, "order.csv")) == (name != "parts"), os.listdir(out)
            bits = bits or result.bits
            assert result.bits == bits, f"{name} trains otherwise"
        print(f"{name}: {peaks[name]} bytes")
    # rank 0 of 1F1B holds as many microbatches as there are ranks, gpipe all 8: the numbers do not just agree with each other
    text = open(os.path.join(folder, "gpipe", "profile.yaml")).read()
    kept = [float(n) for n in re.search(r"delta:\n +F: \[(.*)\]", text).group(1).split(",")]
    assert peaks["gpipe"][0] - peaks["1f1b"][0] == 4 * kept[0] and peaks["1f1b"][0] > peaks["1f1b"][2], (peaks, kept)

    # with a limit between what fits at least and what is used without: kept, and foretold
    least, most = max(peaks["1f1b"]), max(peaks["adaptra"])
    for share in (0.3, 0.6):
        limit = (least + share * (most - least)) / 1e6
        for name in ("adaptra", "auto"):
            out, result = run(f"{name} within {share}", f"schedule={name}", f"device.memory_mb={limit}")
            measured, plan = check_memory(name, out, result.summary, 0)
            assert max(measured) <= limit * 1e6 and result.bits == bits, (measured, limit)
            assert plan["memory_ok"] and max(plan["peak_memory"]) <= limit * 1e6 * (1 + 1e-9)
            print(f"{name} within {limit:.3f} MB: {measured} bytes")


def check_times(name):
    """What was measured is at least what was emulated, and not much more; the latter where the machine lets the ranks run."""
    out, result = run(name, "iterations=5", "device.pace_ms={F: [4, 5, 6, 7], I: 8, W: 6}", "communication=inorder", "queue=2",
                      "faults=[{iterations: [0, 5], link: [1, 2], latency_ms: 20, bandwidth_gbps: 0.1}, "
                      "{iterations: [0, 5], link: [2, 3], latency_ms: 9, one_way: true}]")
    text = open(os.path.join(out, "profile.yaml")).read()
    quiet = True

    def within(least, value, most):
        nonlocal quiet
        assert least <= value, (least, value, text)
        quiet = quiet and value < most

    for key, pace in {"F": [4, 5, 6, 7], "I": [8] * 4, "W": [6] * 4}.items():
        for p, t in zip(pace, numbers(text, key), strict=True):
            within(p, t, 1.5 * p)
    assert "communication: inorder" in text and "queue: 2" in text and "placement: linear" in text and "parts: 1" in text
    links = {tuple(map(int, m[:2])): (float(m[2]), m[3]) for m in
             re.findall(r"between: \[(\d), (\d)\], one_way: true, latency_ms: ([0-9.]+).*?, (bandwidth_gbps.*|transfer_ms.*)}", text)}
    assert set(links) == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}, links
    # the ping test saw the same before the first iteration
    pinged = {(link["from"], link["to"]): link for link in result.summary["links"]}
    assert set(pinged) == set(links)
    for pair, (latency, rest) in links.items():
        least = 20 if set(pair) == {1, 2} else 9 if pair == (2, 3) else 0
        within(least, latency, least + 5)
        quiet = quiet and least <= float(pinged[pair]["latency_ms"]) < least + 5
        if least == 20:
            bandwidth, size = map(float, re.match(r"bandwidth_gbps: (\S+), message_mb: (\S+)", rest).groups())
            assert size == 2 * 64 * 64 * 4 / 1e6, rest
            quiet = quiet and abs(bandwidth - 0.1) < 0.001 and abs(float(pinged[pair]["bandwidth_gbps"] or 0) - 0.1) < 0.01
    slowest = lines(os.path.join(out, "events.jsonl"))[0]["why"]
    quiet = quiet and ("1 -> 2" in slowest or "2 -> 1" in slowest)
    measured, plan = check_memory(name, out, result.summary, 1)
    # 8 x 26 ms lie on rank 3 between its first F, which three others and 49 ms of links precede, and the end
    assert plan["makespan_ms"] >= 4 + 5 + 6 + 20 + 9 + 8 * 21, plan["makespan_ms"]
    return quiet or print(f"{name}: disturbed, {links}, {pinged}")


def test_times_and_links_are_those_emulated():
    assert any(check_times(f"paced{i}") for i in range(4)), "disturbed four times"


def test_a_link_that_changes_is_profiled_since():
    out, result = run("changing", "iterations=8", "device.pace_ms={F: 3, I: 3, W: 3}",
                      "faults=[{iterations: [5, 8], link: [0, 1], latency_ms: 25}]")
    assert result.summary["profile"]["iterations"] <= 3, result.summary["profile"]
    latency = re.search(r"between: \[0, 1\].*?latency_ms: ([0-9.]+)", open(os.path.join(out, "profile.yaml")).read())
    assert 25 <= float(latency.group(1)) < 50, latency.group(0)
    assert all(float(link["latency_ms"]) < 25 for link in result.summary["links"])  # before the first iteration


def test_delegates_are_measured_on_their_path():
    out, result = run("delegated", "transport=delegated", "communication=inorder",
                      "faults=[{iterations: [0, 5], link: [0, 1], latency_ms: 7}]")
    assert all(float(link["latency_ms"]) >= 7 for link in result.summary["links"] if {link["from"], link["to"]} == {0, 1})
    assert "communication: decoupled" in open(os.path.join(out, "profile.yaml")).read()


def test_whole_backwards_are_shared_between_i_and_w():
    out, result = run("whole", "schedule=1f1b", "iterations=4")
    text = open(os.path.join(out, "profile.yaml")).read()
    for i, w, b in zip(numbers(text, "I"), numbers(text, "W"), numbers(text, "B"), strict=True):
        assert i > 0 and abs(i - w) < 1e-4 * b + 1e-5 and abs(i + w - b) < 1e-5, (i, w, b)
    assert 10 not in numbers(text, "I"), "the 10 ms that were assumed before anything was measured are still there"


def test_replicas_give_the_memory_of_each_and_the_slowest_times():
    out, result = run("replicas", "parallel={pipeline: 2, data: 2}", "batch.split=[2, 6]", "device.pace_ms={F: 2, I: 2, W: 2}",
                      "faults=[{iterations: [0, 3], link: [0, 1], latency_ms: 12, replica: 1}]")
    text = open(os.path.join(out, "profile.yaml")).read()
    plan = ask("plan", os.path.join(out, "profile.yaml"), "--schedule", "zb-h1")
    assert "microbatches: 6" in text and max(numbers(text, "reduce_ms")) > 0, text
    assert all(12 <= float(n) < 24 for n in re.findall(r"between: .*?latency_ms: ([0-9.]+)", text)), text
    assert all(float(link["latency_ms"]) >= 12 for link in result.summary["links"]), result.summary["links"]
    assert abs(plan["makespan_ms"] - float(result.summary["profile"]["planned_ms"])) < 1e-6
    seats = [(rank["pipeline"], rank["replica"], rank["tensor"]) for rank in result.summary["memory"]]
    assert seats == [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    for rank in result.summary["memory"]:
        mine, foretold = rank["measured_bytes"], float(rank["predicted_bytes"])
        assert abs(mine - foretold) <= 0.05 * foretold, rank
        # the profile is of the replica with 6; with 2 a rank cannot hold more
        assert mine <= 1.05 * plan["peak_memory"][rank["pipeline"]] and (rank["replica"] == 0 or
            mine >= 0.95 * plan["peak_memory"][rank["pipeline"]]), (rank, plan["peak_memory"])


def test_one_rank_has_no_links():
    out, result = run("alone", "parallel.pipeline=1")
    assert result.summary["links"] == [] and "between" not in open(os.path.join(out, "profile.yaml")).read()
