# labels: slow torch
"""slackline.adapt with torchtitan 0.3.0's Trainer and its Llama debug model: the order changes while it trains, and losses are bit-identical to those of
the given schedule. tests/torch/torchtitan_cpu.py stands in for its GPU and its Triton kernels."""
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

from environments import environment, variables
from forked_ranks import ForkedRanks
from runner import expect, source

python = environment("torchtitan")
STEPS = ["--onset", "10", "--relief", "24", "--steps", "36"]
AT_ONCE = 2
ranks = ForkedRanks(python, "torchtitan_stand_in", env=variables())


def example(*words):
    """Its losses, (healthy, slow, recovered) ms per step, the number of changes of order, and the output."""
    code, output = ranks.run(4, os.path.join(source, "examples", "python", "torchtitan_adapt.py"), *STEPS, *words)
    expect(code == 0, f"the example failed with {words}")
    losses = re.findall(r"^step \d+: \d+ ms, loss (\S+)", output, re.M)
    last = re.search(r"(\d+) ms per step, (\d+) ms over the slow link, (\d+) ms after it recovered; (\d+) changes", output)
    return losses, [int(last[at]) for at in (1, 2, 3)] if last else [0, 0, 0], int(last[4]) if last else 0, output


def test_a_link_that_slows_down_and_recovers_in_mid_run():
    with ThreadPoolExecutor() as both:  # ranks mostly wait
        (given, frozen_ms, none, _), (losses, ms, changes, output) = both.map(lambda words: example(*words), (["--frozen"], []))
    print(f"given: {frozen_ms} ms, adapted: {ms} ms, {changes} changes")
    expect(none == 0, f"{none} changes of order without adaptation")
    expect(len(losses) == 36 and losses == given, f"losses differ: {[(a, b) for a, b in zip(losses, given) if a != b][:3]}")
    if frozen_ms[1] < 1.5 * frozen_ms[0]:  # as given: the others on this machine slow it more than the link does
        print("the machine is busy: what the slow link costs is not asked for")
        return
    expect(changes >= 2, f"{changes} changes of order")
    link = re.findall(r"^(onset|swap|relief): link 0", output, re.M)
    expect(re.search("onset.*swap.*relief", " ".join(link)), f"the link's events: {link}")
    expect(ms[1] < 0.8 * frozen_ms[1], f"over the slow link, adapted {ms[1]} ms, as given {frozen_ms[1]} ms")
    expect(ms[2] < 0.8 * frozen_ms[1], f"after it recovered, adapted {ms[2]} ms, over the slow link as given {frozen_ms[1]} ms")


def test_validation_activation_checkpoints_and_resume_leave_the_losses_bit_identical():
    """Compared with a job whose ranks do not agree to adapt: torchtitan's lists of microbatches reach PyTorch 2.13's own schedule, too."""
    code, output = ranks.run(0, os.path.join(source, "tests", "torch", "torchtitan_program.py"))
    found = json.loads(output.splitlines()[-1]) if code == 0 else {}
    expect(code == 0, "the program failed")
    expect(not found.get("given_active", True) and len(found["said"]) == 1 and "memory" in found["said"][0], f"the first job is adapted, or says nothing: {found.get('said')}")
    expect(len(found.get("given", [])) == 16 and found["given"] == found["adapted"] + found["resumed"], f"losses: {found}")
    expect(found.get("validated", 0) and found["validated"] == found["validated_adapted"], f"losses of validation: {found}")
    expect(found.get("swaps", 0) > 0 and found["active"], f"the order has not changed: {found}")
