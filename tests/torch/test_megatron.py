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


REFUSED = """
import tempfile, types, warnings
import torch.distributed as dist
from slackline.adapting import megatron
dist.init_process_group("gloo", f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1)
given = dict(pipeline_model_parallel_size=4, virtual_pipeline_model_parallel_size=2, overlap_moe_expert_parallel_comm=False, microbatch_group_size_per_vp_stage=4)
options = dict(problem=None, replicas=None, transport=None, memory="free", objective="makespan", communicators=None, frozen=False, out=None, on_event=None)
for changes, more in (({"virtual_pipeline_model_parallel_size": None}, {}), ({"overlap_moe_expert_parallel_comm": True}, {}), ({}, {"out": "runs/x"})):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = megatron.adapted(types.SimpleNamespace(**{**given, **changes}), **{**options, **more})
    print(config.adaptation.active, len(caught), config.adaptation.why)
dist.destroy_process_group()
"""


def test_what_has_no_setting_is_said_once():
    code, output = run(python, "-c", REFUSED)
    said = [line for line in output.splitlines() if line.startswith("False 1 ")]
    expect(code == 0 and [next((key for key in ("virtual_pipeline_model_parallel_size", "overlap_moe_expert_parallel_comm", "out: ") if key in line), "") for line in said] ==
           ["virtual_pipeline_model_parallel_size", "overlap_moe_expert_parallel_comm", "out: "], f"said: {output[-800:]}")
