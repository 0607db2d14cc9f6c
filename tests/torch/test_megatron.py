# labels: long torch
"""slackline.adapt with a configuration of megatron-core 0.16.1, whose interleaved schedule runs over Gloo with its calls of CUDA faked: the
number of microbatches in a row of a virtual stage changes while it trains, and losses and weights are bit-identical."""
import json
import os
import re

from environments import environment, run
from runner import expect, source

python = environment("megatron")


def test_the_number_changes_for_a_slow_link_and_losses_stay():
    code, output = run(python, "-W", "ignore", os.path.join(source, "tests", "torch", "megatron_program.py"))
    ranks = json.loads(output.splitlines()[-1]) if code == 0 else []
    expect(len(ranks) == 3, "the program failed")
    for rank, found in enumerate(ranks):
        expect(found["same"] and found["active"], f"rank {rank}: losses or weights differ")
        expect(found["few"] == 0, f'rank {rank}: the number has changed with memory "same"')
        expect([one[1] for one in found["adapted"]] == [one[1] for one in ranks[0]["adapted"]], f"rank {rank} ran other numbers than rank 0")
    kinds = [(step, kind) for step, kind, _ in ranks[0]["events"]]
    expect(any(kind == "changed" and step >= 36 for step, kind in kinds) and any(kind in ("setting", "kept") and step > 36 for step, kind in kinds), f"events: {ranks[0]['events']}")
    expect(ranks[0]["adapted"][-1][1] > 3, "the number has not grown")
    times = {int(size): float(ms) for size, ms in re.findall(r"(\d+): (\d+) ms", ranks[0]["events"][-1][2])}
    expect(len(times) > 1 and times[ranks[0]["adapted"][-1][1]] <= 1.03 * min(times.values()), f"another number is faster over the slow link: {times}")
