# labels: slow
"""Rearranged runs beside checkpoints: with another split the losses stay within 1e-5, and are the bits of a run that was
broken off there and resumed with that split; a rearranged run resumes and restarts with the bits of one that was not broken
off; and any number of arrangements may follow each other."""
import os
import shutil
import sys

sys.dont_write_bytecode = True
from arranging import SOURCE_RUN, arranged, events
from checkpoints import break_off, kinds, run, step, steps
from runner import build, folder, source
from training import train

file = os.path.join(folder, "run.yaml")
with open(file, "w") as text:
    text.write(SOURCE_RUN.format(source=source))
SAVED = ("checkpoint={every: 2, keep: 9}", "device.pace_ms={F: 12, I: 12, W: 12}")  # time to write each


def go_back(out, first):
    """As if the run had been broken off when `first` iterations were done."""
    assert first in steps(out), f"no checkpoint of {first}: {steps(out)}"
    for number in steps(out):
        if number > first:
            shutil.rmtree(step(out, number))


def test_another_split_keeps_the_losses():
    for number, (layout, seats) in enumerate((("parallel={pipeline: 2, data: 2}", None),
                                              ("parallel={pipeline: 2, data: 2, zero: 1}", [3, 0, 1, 2]))):
        whole = train(build, file, os.path.join(folder, f"even{number}"), layout)
        for split in ([5, 1], [2, 4]):
            name = f"{number}-{split[0]}"
            item = {"iteration": 2, "split": split} | ({"positions": seats} if seats else {})
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


def test_a_resume_takes_up_the_split():
    """A run that goes on from a checkpoint takes up the split that it had come to, and nobody's seat: the bits stay."""
    settings = ("parallel={pipeline: 2, data: 2, zero: 1}", "iterations=16", "checkpoint={every: 4, keep: 2}",
                "device.pace_ms={F: 1, I: 1, W: 1}")
    whole = train(build, file, os.path.join(folder, "unbroken"), *settings)
    both = arranged({"iteration": 2, "positions": [3, 0, 1, 2]}, {"iteration": 13, "positions": [1, 0, 3, 2]})
    out = os.path.join(folder, "broken")
    break_off(build, file, out, *settings, both, at=9)
    with open(os.path.join(step(out, steps(out)[-1]), "state.json")) as state:
        assert "optimizer-00002-of-00002" in state.read()
    result = run(build, file, out, *settings, both)
    assert result.bits == whole.bits, f"resumed: {result.bits} is not {whole.bits}"
    first = kinds(result, "resumed")[0]["iteration"]
    assert 2 < first < 13, f"broken off too late to tell: resumed at {first}"
    assert [event["iteration"] for event in events(result)] == [2, 13], events(result)  # everybody sits at home in between
    print("a checkpoint of a rearranged run: resumed with the same bits")
    split = arranged({"iteration": 2, "split": [5, 1]}, {"iteration": 5, "positions": [3, 0, 1, 2]}, {"iteration": 13, "split": [2, 4]})
    other = train(build, file, os.path.join(folder, "unbroken-split"), *settings, split)
    out = os.path.join(folder, "broken-split")
    break_off(build, file, out, *settings, split, at=9)
    result = run(build, file, out, *settings, split)
    assert result.bits == other.bits, f"resumed with another split: {result.bits} is not {other.bits}"
    print("one with another split: resumed with the same bits")
    result = train(build, file, os.path.join(folder, "killed"), *settings, both, "faults=[{iteration: 9, kill: 1}]")
    assert result.bits == whole.bits and len(kinds(result, "restart")) == 1, f"restarted: {result.bits}"
    print("a rank that dies in a rearranged run: started again, with the same bits")


def test_an_arrangement_before_every_iteration_runs_out_of_nothing():
    """One before every iteration: nothing runs out."""
    settings = ("parallel={pipeline: 2, data: 2, zero: 1}", "iterations=100", "batch.size=1")
    whole = train(build, file, os.path.join(folder, "quiet"), *settings)
    seats = ([1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2], [0, 1, 2, 3])
    items = [{"iteration": i, "positions": seats[i % 4]} for i in range(100)]
    result = train(build, file, os.path.join(folder, "restless"), *settings, arranged(*items))
    assert result.bits == whole.bits and len(events(result)) == 100
    print("100 arrangements in 100 iterations: the same bits")
