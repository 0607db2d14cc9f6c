# labels: long torch
"""slackline.adapt with torchtitan 0.3.0's Trainer and its Llama debug model: the order changes while it trains, and losses are those of the
given schedule. A stub takes the place of its Triton kernels, and the CPU that of its GPU (examples/python/torchtitan_adapt.py)."""
import json
import os
import re

from environments import environment, run
from runner import expect, source

python = environment("torchtitan")


def test_the_example_adapts_to_a_slow_link_and_keeps_its_losses():
    code, output = run(python, os.path.join(source, "examples", "python", "torchtitan_adapt.py"), "--steps", "14", "--onset", "0", "--port", "29541")
    changes = re.search(r"(\d+) changes of order", output)
    apart = re.search(r"losses of 14 steps at most (\S+) apart", output)
    expect(code == 0 and changes and int(changes[1]) > 0, "the order has not changed")
    expect(apart and float(apart[1]) < 1e-3, "losses of about 8, in f32, differ by more than 1e-3")  # a split backward adds in another order


def test_validation_activation_checkpoints_and_resume_leave_the_losses_bit_identical():
    code, output = run(python, os.path.join(source, "tests", "torch", "torchtitan_program.py"))
    found = json.loads(output.splitlines()[-1]) if code == 0 else {}
    expect(code == 0, "the program failed")
    expect(len(found.get("given", [])) == 16 and found["given"] == found["adapted"] + found["resumed"], f"losses: {found}")
    expect(found.get("validated", 0) and found["validated"] == found["validated_adapted"], f"losses of validation: {found}")
    expect(found.get("swaps", 0) > 0 and found["active"], f"the order has not changed: {found}")
