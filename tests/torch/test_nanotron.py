# labels: slow torch
"""slackline.adapt with nanotron 0.4's engines over Gloo: the order changes while they train, and losses and weights are bit-identical to those
of the engine as given."""
import json
import os

from environments import environment, run
from runner import expect, source

python = environment("nanotron")


def test_engines_of_many_shapes_train_as_given():
    code, output = run(python, os.path.join(source, "tests", "torch", "nanotron_program.py"))
    said = [json.loads(line) for line in output.splitlines() if line.startswith('{"case"')]
    expect(code == 0 and len(said) == 5 * 4, f"the program failed: {len(said)} results")
    for one in said:
        expect(one["wrong"] == "", f"{one['case']}, rank {one['rank']}: {one['wrong']}")
