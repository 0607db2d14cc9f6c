# labels: long torch
"""slackline.adapt with DeepSpeed 0.19.8's PipelineEngine, unpatched, on its CPU accelerator over Gloo: the order changes while it trains, and
losses and weights are bit-identical to those of its own schedule."""
import json
import os
import re

from environments import environment, run
from runner import expect, source

python = environment("deepspeed")


def test_the_example_adapts_to_a_slow_link_and_keeps_its_losses():
    code, output = run(python, os.path.join(source, "examples", "python", "deepspeed_adapt.py"), "--ranks", "3", "--microbatches", "8", "--steps", "32",
                       "--onset", "10", "--relief", "30")
    changes = re.search(r"(\d+) changes of order", output)
    expect(code == 0 and "losses of 32 steps at most 0.0e+00 apart" in output, "losses differ")
    expect(changes and int(changes[1]) > 0, "the order has not changed")


def test_engines_of_many_shapes_train_as_with_their_own_schedule():
    code, output = run(python, os.path.join(source, "tests", "torch", "deepspeed_program.py"))
    said = [json.loads(line) for line in output.splitlines() if line.startswith('{"case"')]
    expect(code == 0 and len(said) == 6 * 4, f"the program failed: {len(said)} results")
    for one in said:
        expect(one["wrong"] == "", f"{one['case']}, rank {one['rank']}: {one['wrong']}")
