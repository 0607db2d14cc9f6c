# labels: slow
"""Live runs of 8 ranks with random faults: the slow component is named, or it is said that it cannot be told, never another
one. SL_SEED repeats a campaign. bench/localisation has the rest of it, on the virtual clock."""
import os
import shutil
import sys
import tempfile

build, source = sys.argv[1:3]
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(source, "bench", "localisation")]
from live import draw, run  # noqa: E402
from training import need  # noqa: E402

CASES = 10


def main():
    need(build)
    seed = int(os.environ.get("SL_SEED", "31"))
    print(f"SL_SEED={seed}")
    folder, right, bad = tempfile.mkdtemp(prefix="slackline-localise-"), 0, []
    try:
        for number in range(CASES):
            case = run(build, source, folder, draw(seed, number))
            print(f"case {number}: {case['kind']}, {case['layout']}, iterations x {case['effect']:.2f}: {case['verdict']}", flush=True)
            right += case["verdict"] == "right"
            if case["verdict"] in ("wrong", "missed"):
                bad.append(case)
    finally:
        shutil.rmtree(folder)
    assert not bad, bad
    assert right >= CASES - 2, f"only {right} of {CASES} are right"


main()
