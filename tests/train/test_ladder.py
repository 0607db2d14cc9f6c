# labels: long alone
"""The ladder in a run: slow devices lead to fewer microbatches or to other places, are told as sentences, and on relief what was
done is taken back. Paced devices; what is checked is what is done and the results, not how long it takes."""
import functools
import os

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


def decided(result, step, strategy):
    """Events of what was done or measured: step apply, undo, failed, or result."""
    return [event for event in result.events if event["kind"] == "decision" and (event["step"], event["strategy"]) == (step, strategy)]


def applied(result):
    return [event for event in result.events if event["kind"] == "decision" and event["step"] == "apply"]


def incidents(result, kind, **component):
    """Numbers of those of a component that begin (onset) or end (relief)."""
    return [event["incident"] for event in result.events
            if event["kind"] == kind and "incident" in event and component.items() <= event.items()]


def arrangements(result):
    return [event for event in result.events if event["kind"] == "arrange"]


def close(one, other):
    return all(abs(float(a) - float(b)) <= 1e-5 * abs(float(a)) for a, b in zip(one.bits[0], other.bits[0]))


def test_a_slow_replica_gets_fewer_microbatches_until_it_is_healthy():
    out, result = runs("balance", SLOW, "adaptation.strategies=[balance]")
    made = arrangements(result)
    assert made, result.events
    assert made[0]["split"][1] < 6 < made[0]["split"][0], made
    assert 12 <= int(made[0]["iteration"]) < 28, made
    assert made[-1]["split"] == [6, 6] and int(made[-1]["iteration"]) > 28, made
    slow = incidents(result, "onset", rank=1, replica=1)
    began = next((event["iteration"] for event in result.events if event.get("incident") in slow), None)
    assert began is not None and any(event["iteration"] >= began for event in decided(result, "apply", "balance")), result.events
    assert decided(result, "undo", "balance"), result.events
    assert set(slow) & set(incidents(result, "relief", rank=1, replica=1)), result.events
    brought = decided(result, "result", "balance")[0]
    lost, predicted = float(brought["loss"]), float(brought["expected_loss"])
    assert lost < 0.6 and predicted < 0.6, brought  # 60 % is lost with 6 and 6
    with open(os.path.join(out, "decisions.txt")) as text:  # people read the same
        assert f"{100 * lost:.1f}%" in text.read(), brought
    assert close(result, runs("plain")[1]), "the losses"


def test_slow_devices_apart_are_gathered():
    out, result = runs("apart", APART, "adaptation.strategies=[balance, topology]")
    made = arrangements(result)
    assert decided(result, "apply", "topology") and made, result.events
    homes = next(h for h in (event["positions"] for event in made) if h != [0, 1, 2, 3])
    seats = [homes.index(slow) for slow in (0, 3)]  # world ranks: pipeline * 2 + replica
    assert seats[0] % 2 == seats[1] % 2, f"{homes}: not one replica"
    assert made[-1]["split"] == [6, 6], made
    assert close(result, runs("plain")[1]), "the losses"


# A sum over replicas waits for every message of the link, a pipeline only where it is filled: the two processes become neighbours.
def test_a_slow_link_between_replicas_becomes_a_pipeline_link_and_no_bit_changes():
    slow = "faults=[{iterations: [10, 40], rank: 0, replicas: [0, 1], latency_ms: 40}]"
    out, result = runs("link", slow, "adaptation.strategies=[topology]")
    made = arrangements(result)
    assert decided(result, "apply", "topology") and made, result.events
    homes = made[0]["positions"]
    assert homes.index(0) // 2 != homes.index(1) // 2, f"{homes}: still one stage"
    assert all(event["split"] == [6, 6] for event in made), made
    assert result.bits == runs("plain")[1].bits


def test_what_is_not_allowed_is_not_done():
    _, result = runs("never", SLOW, "adaptation.strategies=[schedule]")
    assert not arrangements(result) and incidents(result, "onset", rank=1, replica=1), result.events
    assert not decided(result, "apply", "balance"), result.events
    assert result.bits == runs("plain")[1].bits
    _, result = runs("off", SLOW, "iterations=24", "adapt=false", "adaptation.strategies=all")
    assert not arrangements(result) and not applied(result), result.events


def test_without_trouble_nothing_is_decided():
    _, result = runs("plain")
    assert not result.kinds("decision") and not arrangements(result), result.events
