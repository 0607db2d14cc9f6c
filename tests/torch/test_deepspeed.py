# labels: long calm torch
"""slackline.adapt with DeepSpeed 0.19.8's PipelineEngine, unpatched, on its CPU accelerator over Gloo: the order changes while it trains, and
losses and weights are bit-identical to those of its own schedule."""
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

from environments import environment, variables
from forked_ranks import ForkedRanks
from runner import expect, source

ranks = ForkedRanks(environment("deepspeed"), "deepspeed", env={**variables(), "DS_ACCELERATOR": "cpu"})
STEPS = ["--onset", "14", "--relief", "30", "--steps", "46"]


def example(*words):
    """Its losses, (healthy, slow, recovered) ms per step, the number of changes of order, and the output."""
    code, output = ranks.run(4, os.path.join(source, "examples", "python", "deepspeed_adapt.py"), *STEPS, *words)
    expect(code == 0, f"the example failed with {words}")
    last = re.search(r"(\d+) ms per step, (\d+) ms over the slow link, (\d+) ms after it recovered; (\d+) changes", output)
    return re.findall(r"^step \d+: \d+ ms, loss (\S+)", output, re.M), [int(last[at]) for at in (1, 2, 3)] if last else [0, 0, 0], int(last[4]) if last else 0, output


def test_a_link_that_slows_down_and_recovers_in_mid_run():
    with ThreadPoolExecutor() as both:  # ranks mostly wait
        (given, given_ms, _, _), (losses, ms, changes, output) = both.map(lambda words: example(*words), (["--given"], []))
    print(f"given: {given_ms} ms, adapted: {ms} ms, {changes} changes")
    expect(changes >= 2, f"{changes} changes of order")
    expect(len(losses) == 46 and losses == given, f"losses differ: {[(a, b) for a, b in zip(losses, given) if a != b][:3]}")
    link = re.findall(r"^(onset|swap|relief): link 0", output, re.M)
    expect(re.search("onset.*swap.*relief", " ".join(link)) and "return: " in output, f"the link's events: {link}")
    expect(ms[1] < 0.8 * given_ms[1], f"over the slow link, adapted {ms[1]} ms, as given {given_ms[1]} ms")
    expect(ms[2] < 0.8 * given_ms[1], f"after it recovered, adapted {ms[2]} ms, over the slow link as given {given_ms[1]} ms")


def test_engines_of_many_shapes_train_as_with_their_own_schedule():
    code, output = ranks.run(0, os.path.join(source, "tests", "torch", "deepspeed_program.py"))
    # DeepSpeed's own words may stand before a result in its line
    said = [json.JSONDecoder().raw_decode(output, found.start())[0] for found in re.finditer(r'\{"case"', output)]
    expect(code == 0 and len(said) == 6 * 4, f"the program failed: exit {code}, {len(said)} results\n{output[-3000:] if code or len(said) != 6 * 4 else ''}")
    for one in said:
        expect(one["wrong"] == "", f"{one['case']}, rank {one['rank']}: {one['wrong']}")
