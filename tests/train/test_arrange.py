# labels: long
"""Who sits where changes between two iterations of a run that goes on: with the same split every loss, weights_hash and the
validation loss are the bits of a run that was never rearranged, whatever the permutation, layout, transport or optimizer
state; only what a process lacks in its new seat is moved, and a split from the first iteration on is that split."""
import os
import sys

sys.dont_write_bytecode = True
from arranging import PARAMETERS, SOURCE_RUN, STATE_MB, arranged, events, moved, phases
from checkpoints import run
from runner import build, folder, source
from training import train

file = os.path.join(folder, "run.yaml")
with open(file, "w") as text:
    text.write(SOURCE_RUN.format(source=source))
LLAMA = "model={kind: llama, layers: 4, width: 64, heads: 4, kv_heads: 2, context: 32}"
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
                  "device.pace_ms={F: 2, I: 2, W: 2}", "adaptation={hold: 2, dwell: 2, gain: 0.01, strategies: [schedule, delegate]}", "iterations=24",
                  "faults=[{iterations: [6, 16], link: [0, 1], latency_ms: 15}]"), [[3, 0, 1, 2], [0, 2, 1, 3]]),
    "checkpoints in every iteration": (("parallel={pipeline: 2, data: 2}", "checkpoint={every: 1, keep: 9}"),
                                       [[3, 0, 1, 2], [0, 2, 1, 3]]),
}


def test_rearranged_runs_keep_every_bit():
    for number, (name, (settings, seats)) in enumerate(LAYOUTS.items()):
        whole = train(build, file, os.path.join(folder, f"whole{number}"), *settings)
        assert len(set(whole.bits[0])) > 1, "the loss does not move: nothing is trained"
        items = [{"iteration": 2 + i, "positions": seat} for i, seat in enumerate(seats)]
        result = train(build, file, os.path.join(folder, f"moved{number}"), *settings, arranged(*items))
        assert result.bits == whole.bits, f"{name}: {result.bits} is not {whole.bits}"
        told = events(result)
        assert [event["iteration"] for event in told] == [item["iteration"] for item in items], f"{name}: {told}"
        for event, seat in zip(told, seats):
            assert event["positions"] == list(seat), f"{name}: {event}"
            took, each = phases(event)
            assert abs(sum(each.values()) - took) < 1, f"{name}: phases do not add up: {event}"
        print(f"{name}: the same bits after {len(seats)} arrangements")


def test_only_what_a_process_lacks_is_moved():
    """Only what the newcomer does not have: both stages in a pipeline of two, nothing between replicas, with ZeRO the
    replicas' shares of the moments."""
    for settings, seats, processes, least, most in (
            ("parallel.pipeline=2", [1, 0], 2, STATE_MB, 1.02 * STATE_MB),
            ("parallel={pipeline: 2, data: 2}", [1, 0, 3, 2], 4, 0, 0),
            ("parallel={pipeline: 1, data: 2, zero: 1}", [1, 0], 2, 8e-6 * PARAMETERS, 1.02 * 8e-6 * PARAMETERS)):
        out = os.path.join(folder, "moves" + str(len(os.listdir(folder))))
        found = moved(events(train(build, file, out, settings, "iterations=3", arranged({"iteration": 1, "positions": seats})))[0])
        assert found[0] == processes and least - 1e-3 <= found[1] <= most, f"{settings}: {found}, {least} to {most} MB"
    print("only what the newcomer lacks is moved")


def test_a_split_from_the_start_is_that_split():
    """From iteration 0 on another split is that split."""
    for number, layout in enumerate(("parallel={pipeline: 2, data: 2}", "parallel={pipeline: 2, data: 2, zero: 1}")):
        given = train(build, file, os.path.join(folder, f"given{number}"), layout, "batch.split=[5, 1]")
        item = {"iteration": 0, "split": [5, 1], "positions": [2, 1, 3, 0]}
        result = train(build, file, os.path.join(folder, f"taken{number}"), layout, arranged(item))
        assert result.bits == given.bits, f"{layout}: {result.bits} is not {given.bits}"
    print("a split from iteration 0 on is the run with that batch.split")


def test_wrong_arrangements_are_refused():
    for item, says in (({"iteration": 2, "positions": [0, 0]}, "process 0 twice"),
                       ({"iteration": 2, "split": [3, 3]}, "one for each replica"),
                       ({"iteration": 9, "positions": [1, 0]}, "never reached")):
        error = run(build, file, os.path.join(folder, "mistake"), arranged(item), resume=False, code=2)
        assert says in error and error.count("\n") == 1, error
    print("mistakes are named before anything starts")
