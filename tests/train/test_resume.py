# labels: long
"""A run that is broken off and goes on from its checkpoint ends with the bits of one that was not: the loss of every
iteration, weights_hash and the validation loss; in the same layout and in any other pipeline, with swaps and injected trouble in
between. What does not belong together is refused by the name of its key."""
import functools
import os
import sys

sys.dont_write_bytecode = True
from checkpoints import break_off, kinds, run, step, steps, write_run
from runner import build, folder, has_facts, source

LAYOUTS = {  # name: before, after
    "the same ranks": ((), ()),
    "1 to 4 ranks": (("parallel.pipeline=1",), ("parallel.pipeline=4", "schedule=zb-h1")),
    "4 to 2 ranks": (("parallel.pipeline=4",), ("parallel.pipeline=2", "schedule=gpipe")),
    "loop to wave": (("parallel={pipeline: 2, placement: loop}", "schedule=interleaved-1f1b"),
                     ("parallel={pipeline: 2, placement: wave}", "schedule=zb-v")),
    "wave to one rank": (("parallel={pipeline: 2, placement: wave}", "schedule=zb-v"), ("parallel.pipeline=1",)),
}
file = write_run(folder, source)
TROUBLE = ("parallel.pipeline=4", "schedule=adaptra", "adapt=true", "iterations=30", "batch.microbatches=12",
           "device.pace_ms={F: 6, I: 6, W: 6}", "adaptation={hold: 2, dwell: 5, gain: 0.01}",
           "faults=[{iterations: [2, 22], link: [0, 1], latency_ms: 40}]")


@functools.cache
def undisturbed():
    return run(build, file, os.path.join(folder, "whole"), resume=False)


def test_a_resumed_run_ends_with_the_same_bits_in_any_layout():
    whole = undisturbed()
    assert len(set(whole.bits[0])) > 1, "the loss does not move: nothing is trained"
    for name, (before, after) in LAYOUTS.items():
        out = os.path.join(folder, name.replace(" ", "-"))
        break_off(build, file, out, *before, at=9)
        result = run(build, file, out, *after)
        resumed = kinds(result, "resumed")
        assert result.bits == whole.bits, f"{name}: {result.bits} is not {whole.bits}"
        assert len(resumed) == 1 and resumed[0]["iteration"] in range(4, 13), resumed
        assert result.summary["iterations"] == 20 and steps(out)[-1] == 20 and len(steps(out)) == 2
        print(f"{name}: goes on at iteration {resumed[0]['iteration']} with the same bits")
    again = run(build, file, os.path.join(folder, "the-same-ranks"))
    assert again.bits[1:] == whole.bits[1:], "a run that is over, resumed"


def test_swaps_and_trouble_in_between_change_no_bit():
    out = os.path.join(folder, "trouble")
    whole = run(build, file, os.path.join(folder, "whole-30"), "iterations=30", "batch.microbatches=12", resume=False)
    break_off(build, file, out, *TROUBLE, at=17, enough=2)
    result = run(build, file, out, *TROUBLE)
    assert result.bits == whole.bits, f"trouble: {result.bits} is not {whole.bits}"
    swaps = result.kinds("start", "swap")
    assert swaps.count("start") == 2 and swaps[1] == swaps[-1] == "swap", f"no swap in both attempts: {swaps}"
    print("in the middle of a slow link, with swaps: the same bits")


def test_another_model_text_batch_or_optimizer_is_refused_by_its_key():
    out = os.path.join(folder, "the-same-ranks")
    for setting, key in {"model.width=32": "model.width", "model.layers=5": "model.layers", "data.seed=4": "data.seed",
                         "data.files=[\"%s/docs/formats.md\"]" % source: "data.files", "batch.size=1": "batch.size",
                         "batch.microbatches=5": "batch.microbatches", "optimizer.lr=2e-3": "optimizer.lr",
                         "optimizer.decay=0": "optimizer.decay", "iterations=10": "iterations"}.items():
        error = run(build, file, out, setting, code=2)
        assert f"'{key}'" in error and error.count("\n") == 1, f"{setting}: {error}"
    more = run(build, file, out, "iterations=24")
    assert len(more.metrics) == 24 and steps(out)[-1] == 24, "iterations may grow"
    print("another model, text, batch or optimizer is refused by its key; iterations may grow")


def test_without_a_checkpoint_it_starts_over_and_says_so():
    out = os.path.join(folder, "anew")
    result = run(build, file, out)
    whole = undisturbed()
    assert result.bits == whole.bits and has_facts(result.output, "starts over") and not result.error
    assert kinds(result, "resumed")[0]["iteration"] == 0
    result = run(build, file, out, resume=False, overwrite=True)
    assert result.bits == whole.bits and has_facts(result.output, "checkpoints.before-1")
    assert os.path.isdir(os.path.join(out, "checkpoints.before-1", "step-000020")), os.listdir(out)
    assert os.path.isdir(step(out, 20))
    print("without a checkpoint it starts anew and says so; without --resume nothing is lost")
