# labels: long
"""Placement bidirectional trains two copies of the weights, one per direction. All schedules, numbers of ranks, regimes, ZeRO,
swaps and restarts give the same bits; against a single copy, whose gradients are added in another order, gradients and losses differ
by less than 1e-5. Checkpoints go both ways."""
import functools
import os
import sys

sys.dont_write_bytecode = True
from checkpoints import break_off, kinds, run, steps, write_run
from runner import build, folder, source
from test_products import LLAMA, Layouts, close
from training import train_swapping

BOTH = ["parallel.placement=bidirectional"]
layouts = Layouts(build, source, folder)


@functools.cache
def reference():
    return layouts.train(4, 1, 1, *BOTH, "schedule=chimera")


def test_no_layout_of_two_copies_changes_a_bit():
    for name, pipeline, settings in (
            ("auto", 4, ["schedule=auto"]), ("three ranks", 3, ["schedule=auto"]), ("three ranks with zero", 3, ["schedule=auto", "parallel.zero=1"]),
            ("three ranks, little memory", 3, ["schedule=auto", "device.memory_mb=5"]), ("two ranks", 2, ["schedule=chimera"]), ("zero", 4, ["schedule=auto", "parallel.zero=1"]),
            ("a cut and recomputing", 4, ["schedule=chimera", "parallel.cut=[1, 1, 1, 1]", "device.recompute=[true, false, true, false]"]),
            ("delegated", 4, ["schedule=chimera", "transport=delegated"]), ("batched", 4, ["schedule=auto", "communication=batched"]),
            ("fifo", 4, ["schedule=auto", "communication={regime: fifo, communicators: pair}"]),
            ("little memory", 2, ["schedule=auto", "device.memory_mb=5", "adapt=true"])):
        other = layouts.train(pipeline, 1, 1, *BOTH, *settings)
        assert other.bits == reference().bits, f"{name}: {other.bits} is not {reference().bits}"
        assert other.gradients == reference().gradients, f"{name}: other gradients"
        print(f"{name}: the same bits", flush=True)


def test_two_copies_add_up_to_one():
    one = layouts.train(1, 1, 1)
    print("of chimera:", close("chimera", reference(), one))
    assert reference().gradients != one.gradients, "the copies' sums are added in another order: equal bits would be a wonder"
    for name, sizes, settings in (
            ("replicas", (2, 2, 1), []), ("replicas of three ranks", (3, 2, 1), ["parallel.zero=1"]), ("replicas with zero", (2, 2, 1), ["parallel.zero=1"]), ("tensor ranks", (2, 1, 2), []),
            ("uneven replicas", (2, 2, 1), ["batch.split=[6, 2]"]), ("an odd number of microbatches", (4, 1, 1), ["batch.microbatches=7"])):
        single = [setting for setting in settings if "batch.m" in setting]
        other = layouts.train(*sizes, *BOTH, "schedule=auto", *settings)
        print(f"{name}:", close(name, other, layouts.train(1, 1, 1, *single) if single else one))


def test_an_untied_head_is_summed_too():
    untied = [*LLAMA, "model.tied=false"]
    print("untied:", close("untied", layouts.train(4, 1, 1, *BOTH, "schedule=auto", *untied), layouts.train(1, 1, 1, *untied)))


def test_a_swap_and_a_return_in_the_middle_keep_every_bit():
    many = [*BOTH, "schedule=auto", "batch.microbatches=12", "iterations=24"]
    expected = layouts.train(4, 1, 1, *many)
    out = os.path.join(folder, "swap")
    result = train_swapping(build, layouts.file, out, "parallel.pipeline=4", *many, "adapt=true", "device.pace_ms={F: 4, I: 4, W: 4}",
                            "adaptation={hold: 2, dwell: 4, gain: 0.01}", "faults=[{iterations: [2, 9], link: [0, 1], latency_ms: 40}]")
    assert result.bits == expected.bits, f"{result.bits} is not {expected.bits}"


def test_checkpoints_serve_both_and_killed_runs_go_on():
    file = write_run(folder, source)
    both = ("parallel={pipeline: 4, placement: bidirectional}", "schedule=chimera")
    whole = run(build, file, os.path.join(folder, "whole"), *both, resume=False)
    for name, after in (("the same", both), ("three ranks with zero", ("parallel={pipeline: 3, placement: bidirectional, zero: 1}", "schedule=auto"))):
        out = os.path.join(folder, name.replace(" ", "-"))
        break_off(build, file, out, *both, at=9)
        result = run(build, file, out, *after)
        assert result.bits == whole.bits, f"{name}: {result.bits} is not {whole.bits}"
        assert len(kinds(result, "resumed")) == 1 and steps(out)[-1] == 20
    out = os.path.join(folder, "to-one-copy")
    break_off(build, file, out, *both, at=9)
    result = run(build, file, out, "parallel.pipeline=2")
    apart = max(abs(float(a) - float(b)) for a, b in zip(result.bits[0], whole.bits[0]))
    assert len(result.metrics) == 20 and apart < 1e-4, f"losses {apart} apart"
    killed = run(build, file, os.path.join(folder, "killed"), *both, "faults=[{iteration: 10, kill: 3}]", resume=False)
    assert killed.bits == whole.bits and kinds(killed, "restart"), "a rank that holds copies was killed"
