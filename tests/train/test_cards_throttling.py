"""Faults as they are: a slow network card slows all links of its process, or of its host, and their sums, and no other; its messages
share its bandwidth; a device that throttles is slow in the spells that the file names. Not a bit changes."""
import json
import os
import statistics
import subprocess

from runner import build, folder, source
from test_replica_links import reductions
from test_restart_hosts import Hosts, possible
from training import arguments, train

WIDTH, CONTEXT, F = 32, 16, 4
RUN = """model: {kind: gpt2, layers: 3, width: %d, heads: 4, context: %d}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: %d, data: 2}
batch: {microbatches: 8, size: 1}
iterations: 9
schedule: 1f1b
adapt: false
device: {pace_ms: {F: %d, I: %d, W: %d}}
"""
BEGIN, END = 3, 6
LATENCY_MS, GBPS = 20, 0.002
MESSAGE_MS = CONTEXT * WIDTH * 4 * 8 / (GBPS * 1e6)  # an activation in f32
MICROBATCHES = 4  # of a replica


def file_of(folder, source, pipeline):
    path = os.path.join(folder, f"run-{pipeline}.yaml")
    with open(path, "w") as file:
        file.write(RUN % (WIDTH, CONTEXT, source, pipeline, F, F, F))
    return path


def links(result, value):
    """{(replica, from, to): {slow: [value of each iteration]}}, slow: while the fault lasts."""
    found = {}
    for line in result.metrics:
        for link in line["links"]:
            name = link["replica"], link["from"], link["to"]
            found.setdefault(name, {True: [], False: []})[BEGIN <= line["iteration"] < END].append(float(link[value]))
    return found


def transfers(out):
    """[(iteration, replica, from, to, start ms)] of all messages between ranks of a pipeline, of a stage each."""
    events = json.load(open(os.path.join(out, "timeline.json")))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    found = []
    for event in events:
        if event.get("cat") == "transfer":
            replica, rank = (int(words.rpartition(" ")[2]) for words in names[event["pid"]].split(", "))
            to = rank + (1 if event["name"].startswith("F") else -1)
            found.append((event["args"]["iteration"], replica, rank, to, event["ts"] / 1e3))
    return found


def only_these_are_slow(found, slow, least, what):
    for name, values in found.items():
        print(f"{what}: replica {name[0]}, {name[1]} -> {name[2]}: {statistics.median(values[True]):.2f} ms, "
              f"else {statistics.median(values[False]):.2f} ms")
        assert len(values[True]) == END - BEGIN, values
        if slow(name):
            assert min(values[True]) >= least, f"{what} {name}: {values}"
        else:
            assert statistics.median(values[True]) < least / 2, f"{what} {name} is none of the card's: {values}"
        assert statistics.median(values[False]) < least / 2, f"{what} {name} before or after: {values}"


def test_a_card_slows_all_links_and_sums_of_its_process(file, healthy):
    out = os.path.join(folder, "latency")
    slow = train(build, file, out, f"faults=[{{iterations: [{BEGIN}, {END}], nic: 1, replica: 0, latency_ms: {LATENCY_MS}}}]")
    assert slow.bits == healthy.bits, f"{slow.bits} is not {healthy.bits}"
    only_these_are_slow(links(slow, "latency_ms"), lambda link: link[0] == 0 and 1 in link[1:], LATENCY_MS, "latency")
    sums = reductions(out)
    print("sums, ms:", sums)
    assert min(sums[1][BEGIN:END]) >= 2 * LATENCY_MS, sums  # its halves, one after the other
    for rank, ms in sums.items():
        others = ms if rank != 1 else ms[:BEGIN] + ms[END:]
        assert statistics.median(others) < LATENCY_MS, f"the sums of rank {rank}: {ms}"
    told = [(event["decided"], event["iteration"], event["rank"], event["replica"], event["seen"])
            for event in slow.events if event["kind"] == "fault"]
    assert told == [("injected", BEGIN, 1, 0, "network card"), ("removed", END, 1, 0, "network card")], told


def test_the_messages_of_a_card_share_its_bandwidth(file, healthy):
    """What rank 1 sends down and up leaves one after the other, and so does what it receives from both; each takes as long as the
    card's bandwidth says. Links of their own do not wait for each other: there messages of the two overlap."""
    shared, own = os.path.join(folder, "shared"), os.path.join(folder, "own")
    slow = train(build, file, shared, f"faults=[{{iterations: [{BEGIN}, {END}], nic: 1, replica: 0, bandwidth_gbps: {GBPS}}}]")
    assert slow.bits == healthy.bits, f"{slow.bits} is not {healthy.bits}"
    only_these_are_slow(links(slow, "transfer_ms"), lambda link: link[0] == 0 and 1 in link[1:], 0.999 * MESSAGE_MS, "transfer")
    slow = train(build, file, own, f"faults=[{{iterations: [{BEGIN}, {END}], link: [0, 1], replica: 0, bandwidth_gbps: {GBPS}}}, "
                 f"{{iterations: [{BEGIN}, {END}], link: [1, 2], replica: 0, bandwidth_gbps: {GBPS}}}]")
    assert slow.bits == healthy.bits, f"{slow.bits} is not {healthy.bits}"
    for end in (2, 3):  # messages from rank 1, and to it
        gaps = {}
        for out in (shared, own):
            starts = sorted(message[4] for message in transfers(out)
                            if BEGIN <= message[0] < END and message[1] == 0 and message[end] == 1)
            assert len(starts) == 2 * MICROBATCHES * (END - BEGIN), starts
            gaps[out] = min(b - a for a, b in zip(starts, starts[1:]))
        print(f"{'from' if end == 2 else 'to'} rank 1: {gaps[shared]:.3f} ms apart at least, "
              f"{gaps[own]:.3f} ms with a wire per link; a message takes {MESSAGE_MS:.3f} ms")
        assert gaps[shared] >= MESSAGE_MS - 0.002 > gaps[own], gaps  # the trace has microseconds


def test_spells_occur_where_the_file_says(file, healthy):
    out = os.path.join(folder, "spells")
    slow = train(build, file, out, "faults=[{iterations: [2, 8], every: 3, for: 1, rank: 1, replica: 1, slowdown: 3}]")
    assert slow.bits == healthy.bits, f"{slow.bits} is not {healthy.bits}"
    pace = 3 * F * MICROBATCHES
    work = [[float(ms) for ms in line["work_ms"]] for line in slow.metrics]
    print("work of rank 1 of replica 1, ms:", [ranks[4] for ranks in work])
    for iteration, ranks in enumerate(work):
        if iteration in (2, 5):
            assert ranks[4] >= 3 * pace - 0.01, f"iteration {iteration}: {ranks}"
    assert statistics.median(ranks[4] for i, ranks in enumerate(work) if i not in (2, 5)) < 2 * pace, work
    assert statistics.median(ranks[1] for ranks in work) < 2 * pace, f"of another replica: {work}"
    told = [(event["decided"], event["iteration"]) for event in slow.events if event["kind"] == "fault"]
    assert told == [("injected", 2), ("removed", 3), ("injected", 5), ("removed", 6)], told


def test_a_card_of_a_host_is_passed_between_hosts_only():
    """Both replicas of rank 1 are on b: its links are slow, the sums within b are not."""
    if not possible():
        print("not checked: a host's card needs namespaces")
        return
    hosts, file = Hosts(build, folder), file_of(folder, source, 2)
    listed = "hosts=['a:2', 'b:2']"
    healthy = train(build, file, os.path.join(folder, "two-hosts"), listed)
    out = os.path.join(folder, "slow-host")
    slow = train(build, file, out, listed, f"faults=[{{iterations: [{BEGIN}, {END}], host: 1, latency_ms: {LATENCY_MS}}}]")
    assert hosts.called(), "nobody was started on b"
    assert slow.bits == healthy.bits, f"{slow.bits} is not {healthy.bits}"
    only_these_are_slow(links(slow, "latency_ms"), lambda link: True, LATENCY_MS, "between hosts")
    sums = reductions(out)
    assert all(statistics.median(ms) < LATENCY_MS for ms in sums.values()), f"sums within a host: {sums}"
    told = [event["seen"] for event in slow.events if event["kind"] == "fault"]
    assert told == ["network card, host b"] * 2, told


def test_mistakes_are_refused(file):
    for fault, words in (("nic: 3, latency_ms: 1", "names rank 3, but the run has ranks 0 to 2"),
                         ("nic: 1, link: [0, 1], latency_ms: 1", "must name one of link, rank, nic"),
                         ("rank: 1, slowdown: 2, every: 4, for: 4", "'for' of 4 leaves no pause")):
        done = subprocess.run(arguments(build, file, os.path.join(folder, "none"), [f"faults=[{{iterations: [1, 9], {fault}}}]"]),
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and words in done.stderr, f"{fault}: exit {done.returncode}: {done.stderr}"
        assert not os.path.exists(os.path.join(folder, "none")), "something was written"


def given():
    file = file_of(folder, source, 3)
    yield file, train(build, file, os.path.join(folder, "healthy"))
