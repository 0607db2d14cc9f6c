"""Who sits where, and with `split` how many microbatches each replica takes, changes between two iterations of a run that
goes on: with the same split every loss, weights_hash and the validation loss are the bits of a run that was never
rearranged, whatever the permutation, layout, transport or optimizer state; with another split the losses stay within 1e-5,
and are the bits of a run that was broken off there and resumed with that split. Usage: test_arrange.py BUILD SOURCE"""
import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checkpoints import break_off, kinds, run, step, steps  # noqa: E402
from training import need, train  # noqa: E402

build, source = sys.argv[1:3]
need(build)
RUN = f"""
model: {{kind: gpt2, layers: 4, width: 64, heads: 4, context: 32}}
data: {{files: ["{source}/docs/design.md", "{source}/src/base/*.c"], seed: 3}}
parallel: {{pipeline: 2}}
batch: {{microbatches: 6, size: 2}}
optimizer: {{kind: adamw, lr: 1e-3, clip: 0.5, warmup: 2}}
iterations: 6
schedule: 1f1b
adapt: false
"""
LLAMA = "model={kind: llama, layers: 4, width: 64, heads: 4, kv_heads: 2, context: 32}"
# bytes of gpt2 above: weights and two moments, and the tied head's copy on the last rank
PARAMETERS = 256 * 64 + 32 * 64 + 4 * (12 * 64 * 64 + 13 * 64) + 2 * 64
STATE_MB = (12 * PARAMETERS + 4 * 256 * 64) / 1e6
SAVED = ("checkpoint={every: 2, keep: 9}", "device.pace_ms={F: 12, I: 12, W: 12}")  # time to write each
LAYOUTS = {  # settings, and who sits where from iterations 2, 3, ... on
    "two ranks of a pipeline": (("parallel.pipeline=2",), [[1, 0], [0, 1], [1, 0]]),
    "one tensor pair": (("parallel={pipeline: 1, tensor: 2}",), [[1, 0]]),
    "one ZeRO pair": (("parallel={pipeline: 1, data: 2, zero: 1}",), [[1, 0]]),
    "pipelines that exchange ranks": (("parallel={pipeline: 2, data: 2}",), [[3, 0, 2, 1], [1, 0, 3, 2]]),
    "replicas with ZeRO": (("parallel={pipeline: 2, data: 2, zero: 1}",), [[1, 0, 3, 2], [3, 2, 0, 1], [0, 1, 2, 3]]),
    "tensor ranks": (("parallel={pipeline: 2, tensor: 2}",), [[1, 0, 3, 2], [3, 0, 1, 2]]),
    "all three": (("parallel={pipeline: 2, data: 2, tensor: 2, zero: 1}",), [[7, 6, 5, 4, 3, 2, 1, 0], [1, 2, 3, 4, 5, 6, 7, 0]]),
    "loop": (("parallel={pipeline: 2, placement: loop}", "schedule=interleaved-1f1b"), [[1, 0]]),
    "wave": (("parallel={pipeline: 2, data: 2, placement: wave}", "schedule=zb-v"), [[3, 0, 1, 2], [0, 2, 1, 3]]),
    "llama": ((LLAMA, "parallel={pipeline: 2, tensor: 2}"), [[3, 0, 1, 2]]),
    "llama with a tied head": ((LLAMA, "model.tied=true", "parallel={pipeline: 2, data: 2, zero: 1}"), [[3, 0, 1, 2]]),
    "delegates": (("parallel={pipeline: 2, data: 2}", "transport=delegated"), [[3, 0, 1, 2], [0, 2, 1, 3]]),
    "adapting": (("parallel={pipeline: 2, data: 2}", "transport=auto", "adapt=true", "schedule=auto",
                  "device.pace_ms={F: 2, I: 2, W: 2}", "adaptation={hold: 2, dwell: 2, gain: 0.01}", "iterations=24",
                  "faults=[{iterations: [6, 16], link: [0, 1], latency_ms: 15}]"), [[3, 0, 1, 2], [0, 2, 1, 3]]),
    "checkpoints in every iteration": (("parallel={pipeline: 2, data: 2}", "checkpoint={every: 1, keep: 9}"),
                                       [[3, 0, 1, 2], [0, 2, 1, 3]]),
}


def arranged(*items):
    words = ("{" + ", ".join(f"{key}: {value}" for key, value in item.items()) + "}" for item in items)
    return "arrangements=[" + ", ".join(words) + "]"


def events(result):
    return [event for event in result.events if event["kind"] == "arrange"]


def moved(event):
    """Processes that moved, and megabytes between them."""
    found = re.match(r"(\d+) of \d+ processes moved, ([\d.]+) MB", event["seen"])
    return int(found[1]), float(found[2])


def layouts(folder, file):
    for number, (name, (settings, seats)) in enumerate(LAYOUTS.items()):
        whole = train(build, file, os.path.join(folder, f"whole{number}"), *settings)
        assert len(set(whole.bits[0])) > 1, "the loss does not move: nothing is trained"
        items = [{"iteration": 2 + i, "seats": seat} for i, seat in enumerate(seats)]
        result = train(build, file, os.path.join(folder, f"moved{number}"), *settings, arranged(*items))
        assert result.bits == whole.bits, f"{name}: {result.bits} is not {whole.bits}"
        told = events(result)
        assert [event["iteration"] for event in told] == [item["iteration"] for item in items], f"{name}: {told}"
        for event, seat in zip(told, seats):
            assert event["decided"].startswith("seats " + " ".join(map(str, seat)) + ","), f"{name}: {event}"
            whole_ms, parts = event["seen"].split(" ms: ")
            phases = sum(float(part.split()[-1]) for part in parts.split(","))
            assert abs(phases - float(whole_ms.split()[-1])) < 1, f"{name}: phases do not add up: {event}"
        print(f"{name}: the same bits after {len(seats)} arrangements")


def what_is_moved(folder, file):
    """Only what the newcomer does not have: both stages in a pipeline of two, nothing between replicas, with ZeRO the
    replicas' shares of the moments."""
    for settings, seats, processes, least, most in (
            ("parallel.pipeline=2", [1, 0], 2, STATE_MB, 1.02 * STATE_MB),
            ("parallel={pipeline: 2, data: 2}", [1, 0, 3, 2], 4, 0, 0),
            ("parallel={pipeline: 1, data: 2, zero: 1}", [1, 0], 2, 8e-6 * PARAMETERS, 1.02 * 8e-6 * PARAMETERS)):
        out = os.path.join(folder, "moves" + str(len(os.listdir(folder))))
        found = moved(events(train(build, file, out, settings, "iterations=3", arranged({"iteration": 1, "seats": seats})))[0])
        assert found[0] == processes and least - 1e-3 <= found[1] <= most, f"{settings}: {found}, {least} to {most} MB"
    print("only what the newcomer lacks is moved")


def go_back(out, first):
    """As if the run had been broken off when `first` iterations were done."""
    assert first in steps(out), f"no checkpoint of {first}: {steps(out)}"
    for number in steps(out):
        if number > first:
            shutil.rmtree(step(out, number))


def splits(folder, file):
    for number, (layout, seats) in enumerate((("parallel={pipeline: 2, data: 2}", None),
                                              ("parallel={pipeline: 2, data: 2, zero: 1}", [3, 0, 1, 2]))):
        whole = train(build, file, os.path.join(folder, f"even{number}"), layout)
        for split in ([5, 1], [2, 4]):
            name = f"{number}-{split[0]}"
            item = {"iteration": 2, "split": split} | ({"seats": seats} if seats else {})
            back = {"iteration": 4, "split": [3, 3]}
            result = train(build, file, os.path.join(folder, "split" + name), layout, arranged(item, back))
            apart = max(abs(float(a) - float(b)) for a, b in zip(result.bits[0], whole.bits[0]))
            assert apart <= 1e-5 and len(events(result)) == 2, f"{layout} {split}: {apart}"
            out = os.path.join(folder, "resumed" + name)
            train(build, file, out, layout, *SAVED)
            for first, other in ((2, split), (4, [3, 3])):
                go_back(out, first)
                parts = run(build, file, out, layout, *SAVED, f"batch.split={other}")
            assert result.bits == parts.bits, f"{layout} {split}: {result.bits} is not {parts.bits}"
            print(f"{layout}, split {split} and back: losses within {apart:.1e}, the bits of two resumptions")


def same_split_from_the_start(folder, file):
    """From iteration 0 on another split is that split."""
    for number, layout in enumerate(("parallel={pipeline: 2, data: 2}", "parallel={pipeline: 2, data: 2, zero: 1}")):
        given = train(build, file, os.path.join(folder, f"given{number}"), layout, "batch.split=[5, 1]")
        item = {"iteration": 0, "split": [5, 1], "seats": [2, 1, 3, 0]}
        result = train(build, file, os.path.join(folder, f"taken{number}"), layout, arranged(item))
        assert result.bits == given.bits, f"{layout}: {result.bits} is not {given.bits}"
    print("a split from iteration 0 on is the run with that batch.split")


def checkpoints(folder, file):
    """After a restart everybody sits at home: arrangements that are to come are made, the bits stay."""
    settings = ("parallel={pipeline: 2, data: 2, zero: 1}", "iterations=16", "checkpoint={every: 4, keep: 2}",
                "device.pace_ms={F: 1, I: 1, W: 1}")
    whole = train(build, file, os.path.join(folder, "unbroken"), *settings)
    both = arranged({"iteration": 2, "seats": [3, 0, 1, 2]}, {"iteration": 13, "seats": [1, 0, 3, 2]})
    out = os.path.join(folder, "broken")
    break_off(build, file, out, *settings, both, at=9)
    with open(os.path.join(step(out, steps(out)[-1]), "state.json")) as state:
        assert "optimizer-00002-of-00002" in state.read()
    result = run(build, file, out, *settings, both)
    assert result.bits == whole.bits, f"resumed: {result.bits} is not {whole.bits}"
    assert [event["iteration"] for event in events(result)] == [2, 13], events(result)
    print("a checkpoint of a rearranged run: resumed with the same bits")
    result = train(build, file, os.path.join(folder, "killed"), *settings, both, "faults=[{iteration: 9, kill: 1}]")
    assert result.bits == whole.bits and len(kinds(result, "restart")) == 1, f"restarted: {result.bits}"
    print("a rank that dies in a rearranged run: started again, with the same bits")


def many(folder, file):
    """One before every iteration: nothing runs out."""
    settings = ("parallel={pipeline: 2, data: 2, zero: 1}", "iterations=100", "batch.size=1")
    whole = train(build, file, os.path.join(folder, "quiet"), *settings)
    seats = ([1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2], [0, 1, 2, 3])
    items = [{"iteration": i, "seats": seats[i % 4]} for i in range(100)]
    result = train(build, file, os.path.join(folder, "restless"), *settings, arranged(*items))
    assert result.bits == whole.bits and len(events(result)) == 100
    print("100 arrangements in 100 iterations: the same bits")


def mistakes(folder, file):
    for item, says in (({"iteration": 2, "seats": [0, 0]}, "seats process 0 twice"),
                       ({"iteration": 2, "split": [3, 3]}, "one for each replica"),
                       ({"iteration": 9, "seats": [1, 0]}, "never reached")):
        error = run(build, file, os.path.join(folder, "mistake"), arranged(item), resume=False, code=2)
        assert says in error and error.count("\n") == 1, error
    print("mistakes are named before anything starts")


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "run.yaml")
    with open(file, "w") as text:
        text.write(RUN)
    mistakes(folder, file)
    layouts(folder, file)
    what_is_moved(folder, file)
    same_split_from_the_start(folder, file)
    splits(folder, file)
    checkpoints(folder, file)
    many(folder, file)
