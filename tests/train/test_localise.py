# labels: slow
"""Live runs of 8 ranks with random faults: the slow component is named, or it is said that it cannot be told, never another
one. SL_SEED repeats a campaign. bench/localisation has the rest of it, on the virtual clock."""
import os
import sys

from runner import build, folder, require, source

sys.path.insert(0, os.path.join(source, "bench", "localisation"))
from live import draw, run  # noqa: E402

require("slackline-worker", "slackline-delegate")

CASES = 10


def test_the_slow_component_is_named_or_none():
    seed = int(os.environ.get("SL_SEED", "31"))
    print(f"SL_SEED={seed}")
    right, bad = 0, []
    for number in range(CASES):
        case = run(build, source, folder, draw(seed, number))
        print(f"case {number}: {case['kind']}, {case['layout']}, iterations x {case['effect']:.2f}: {case['verdict']}", flush=True)
        right += case["verdict"] == "right"
        if case["verdict"] in ("wrong", "missed"):
            bad.append(case)
    assert not bad, bad
    assert right >= CASES - 2, f"only {right} of {CASES} are right"
