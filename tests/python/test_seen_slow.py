# labels: slow calm torch
"""The rank of a PyTorch script over Gloo that computes longer is named, in DistributedDataParallel and in a pipeline, started by
torchrun and by torch.multiprocessing, and its ranks are held for the tests. Results and exit code are the script's."""
import sys

sys.dont_write_bytecode = True
from runner import expect
from seeing import PROGRAM, alone, errors, torchrun, watch  # goes on under .venv's Python

TRIES = 2  # of naming: a machine that stutters while it is measured may blur one


def profiled(seen):
    return [event["seen"] for event in seen.events if event["kind"] == "profiled"]


def named(seen):
    """Ranks whose device a profile has named."""
    return {rank for rank in range(4) for text in profiled(seen) if f"device of rank {rank}" in text}


def a_slow_rank(what, iterations, words, code):
    plain = alone(4, what, str(iterations))  # no rank is slow, which changes no result
    for turn in range(TRIES):
        name = f"{what}-{turn}"
        seen, printed = watch(name, words, SLOW="2", EXIT="5")
        expect(seen.exit_code == code, f"{what}: exit code {seen.exit_code}, not {code}\n{errors(name)}")
        expect(printed == plain[1] and len(printed) == 4, f"{what}: {printed}, without watching {plain[1]}")
        followed = max((phase["to_iteration"] or 0 for phase in seen.phases), default=0)
        expect(seen.report and seen.report["ranks"] == 4 and followed > iterations // 4, f"{what}: four ranks and their iterations: {seen.phases}")
        status = seen.report["status"]
        if named(seen) == {2} and status["holds"] >= 1 and status["holds_closed"] >= 1:
            return
        print(f"{what}: names ranks {sorted(named(seen))}, held {status['holds_closed']} of {status['holds']} times: {[e['seen'] for e in seen.events]}")
    expect(False, f"{what}: rank 2, and no other, is named and held in {TRIES} tries")


def test_a_slow_rank_of_ddp_is_named():
    a_slow_rank("ddp", 450, torchrun(4, "ddp", "450"), 1)  # torchrun says 1 for whatever a rank says


def test_a_slow_rank_of_a_pipeline_is_named():
    a_slow_rank("pipeline", 240, [sys.executable, PROGRAM, "pipeline", "240", "4"], 5)
