# labels: long torch
"""Tables of plans in Primus' own hands: its runner and handlers run them, two steps on each table, and gradients are those of the model in one piece. Needs a
checkout of github.com/AMD-AGI/Primus, which has no package: PRIMUS=FOLDER. tests/python/test_primus.py does without."""
import json
import os

from environments import environment, run
from runner import expect, skip, source

checkout = os.environ.get("PRIMUS", "")
if not os.path.isdir(os.path.join(checkout, "primus", "core", "pipeline_parallel")):
    skip("PRIMUS names no checkout of github.com/AMD-AGI/Primus")
python = environment("megatron")


def test_primus_runs_plans_of_every_placement():
    code, output = run(python, "-W", "ignore", os.path.join(source, "tests", "torch", "primus_program.py"), path=[checkout])
    said = [json.loads(line) for line in output.splitlines() if line.startswith('{"case"')]
    expect(code == 0 and len({one["case"] for one in said}) == 8, f"the program failed: {len(said)} results\n{output[-3000:]}")
    for one in said:
        expect(one["wrong"] == "", f"{one['case']}, rank {one['rank']}: {one['wrong']}")
