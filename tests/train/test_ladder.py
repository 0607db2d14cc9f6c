# labels: long alone
"""The ladder in a run: slow devices lead to fewer microbatches or to other places, are told as sentences, and on relief what was
done is taken back. Paced devices; what is checked is what is done and the results, not how long it takes."""
import functools
import os
import re

from runner import build, folder
from training import train

RUN = """model: {kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}
data: {files: ["%s"], seed: 1}
parallel: {pipeline: 2, data: 2}
batch: {microbatches: 12, size: 1}
iterations: 45
device: {kind: cpu, pace_ms: {F: 6, I: 6, W: 6}}
"""
SLOW = "faults=[{iterations: [10, 28], rank: 1, replica: 1, slowdown: 2.5}]"
# One slow device in each replica, on different stages: gathered in one replica they hold up one pipeline, which gets less.
APART = "faults=[{iterations: [10, 30], rank: 0, replica: 0, slowdown: 2.5}, {iterations: [10, 30], rank: 1, replica: 1, slowdown: 2.5}]"


file = os.path.join(folder, "run.yaml")
with open(file, "w") as text:
    text.write(RUN % os.path.abspath(__file__))


@functools.cache
def runs(name, *settings):
    out = os.path.join(folder, name)
    return out, train(build, file, out, *settings)


def decisions(out):
    with open(os.path.join(out, "decisions.txt")) as file:
        return [re.fullmatch(r" *[\d.]+ s  iteration +(\d+)  (.*)", line.rstrip("\n")).groups() for line in file]


def said(log, words):
    return [int(iteration) for iteration, sentence in log if words in sentence]


def number(log, component):
    """Of the incident of a component."""
    return next(found[1] for found in (re.match(rf"incident (\d+) begins: {component}:", sentence) for _, sentence in log) if found)


def arrangements(result):
    return [event for event in result.events if event["kind"] == "arrange"]


def split_of(event):
    return [int(n) for n in event["decided"].split("split ")[1].split()]


def homes_of(event):
    return [int(n) for n in re.match(r"positions ([\d ]+),", event["decided"])[1].split()]


def close(one, other):
    return all(abs(float(a) - float(b)) <= 1e-5 * abs(float(a)) for a, b in zip(one.bits[0], other.bits[0]))


def test_a_slow_replica_gets_fewer_microbatches_until_it_is_healthy():
    out, result = runs("balance", SLOW, "adaptation.strategies=[balance]")
    log, made = decisions(out), arrangements(result)
    assert made, log
    assert split_of(made[0])[1] < 6 < split_of(made[0])[0], made
    assert 12 <= int(made[0]["iteration"]) < 28, made
    assert split_of(made[-1]) == [6, 6] and int(made[-1]["iteration"]) > 28, made
    incident = number(log, "device of rank 1 of replica 1")
    assert said(log, f"re-balance microbatches for incident {incident}"), log
    assert said(log, "undo re-balance microbatches"), log
    assert said(log, f"incident {incident} ends"), log
    brought = [s for _, s in log if re.match(r"incident \d+.* re-balance microbatches\b.*\bpredicted\b", s)]
    lost, foretold = map(float, re.search(r"time lost ([\d.]+)% \(predicted ([\d.]+)%\)", brought[0]).groups())
    assert lost < 60 and foretold < 60, brought  # 60 % is lost with 6 and 6
    assert close(result, runs("plain")[1]), "the losses"
    assert [e for e in result.events if e["kind"] == "decision" and "re-balance" in e["decided"]]


def test_slow_devices_apart_are_gathered():
    out, result = runs("apart", APART, "adaptation.strategies=[balance, topology]")
    log, made = decisions(out), arrangements(result)
    assert said(log, "change the topology is in effect"), log
    homes = next(h for h in (homes_of(event) for event in made) if h != [0, 1, 2, 3])
    seats = [homes.index(slow) for slow in (0, 3)]  # world ranks: pipeline * 2 + replica
    assert seats[0] % 2 == seats[1] % 2, f"{homes}: not one replica"
    assert split_of(made[-1]) == [6, 6], made
    assert close(result, runs("plain")[1]), "the losses"


# A sum over replicas waits for every message of the link, a pipeline only where it is filled: the two processes become neighbours.
def test_a_slow_link_between_replicas_becomes_a_pipeline_link_and_no_bit_changes():
    slow = "faults=[{iterations: [10, 40], rank: 0, replicas: [0, 1], latency_ms: 40}]"
    out, result = runs("link", slow, "adaptation.strategies=[topology]")
    log, made = decisions(out), arrangements(result)
    assert said(log, "change the topology is in effect"), log
    homes = homes_of(made[0])
    assert homes.index(0) // 2 != homes.index(1) // 2, f"{homes}: still one stage"
    assert all(split_of(event) == [6, 6] for event in made), made
    assert result.bits == runs("plain")[1].bits


def test_what_is_not_allowed_is_not_done():
    out, result = runs("never", SLOW, "adaptation.strategies=[schedule]")
    assert not arrangements(result) and number(decisions(out), "device of rank 1 of replica 1"), decisions(out)
    assert not said(decisions(out), "re-balance")
    assert result.bits == runs("plain")[1].bits
    out, result = runs("off", SLOW, "adapt=false", "adaptation.strategies=all")
    assert not arrangements(result) and not said(decisions(out), "is in effect"), decisions(out)


def test_without_trouble_nothing_is_decided():
    out, result = runs("plain")
    assert not said(decisions(out), "is in effect") and not arrangements(result), decisions(out)
