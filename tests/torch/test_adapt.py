# labels: long torch
"""slackline.adapt in jobs of torch.distributed.pipelining over Gloo: every schedule of PyTorch's, slow links and ranks, and what goes
wrong. Gradients of an adapted step are compared with those of the given schedule, bit for bit. Called with BUILD_DIR SOURCE_DIR."""
import faulthandler
import os
import sys
import time
import warnings
from datetime import timedelta

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from venv_torch import build, folder, source

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.pipelining import schedules

os.environ["SLACKLINE_LIBRARY"] = os.path.join(os.path.abspath(build), "libslackline.so")
sys.path[:0] = [os.path.join(os.path.abspath(source), "python"), os.path.join(os.path.abspath(source), "examples", "python")]
import slackline  # noqa: E402
import slackline.adapting.schedule  # noqa: E402
from slow_link import PacedStage, SlowLink, layer  # noqa: E402

STAGES = {"linear": lambda rank, ranks: [rank], "loop": lambda rank, ranks: [rank, rank + ranks],
          "wave": lambda rank, ranks: [rank, 2 * ranks - 1 - rank]}
failures = []
PATIENCE_S = 300  # of a case, on a busy machine


class Paced(PacedStage):
    op = 0.002


def stages_of(placement, rank, ranks):
    mine = STAGES[placement](rank, ranks)
    return [Paced(layer(index), index, ranks * len(mine), torch.device("cpu")) for index in mine]


def made(kind, stages, microbatches):
    cls = getattr(schedules, "Schedule" + kind)
    return cls(stages[0] if issubclass(cls, schedules.PipelineScheduleSingle) else stages, microbatches, loss_fn=torch.nn.functional.mse_loss)


def batch(step, microbatches):
    draw = torch.Generator().manual_seed(step)
    return tuple(torch.randn(microbatches * 2, 16, generator=draw, dtype=torch.float64) for _ in range(2))


def stepped(schedule, stages, step, microbatches):
    """Losses of the step; gradients are left in the stages."""
    x, y = batch(step, microbatches)
    for stage in stages:
        stage.submod.zero_grad()
    losses = []
    schedule.step(*((x,) if any(stage.is_first for stage in stages) else ()), target=y if any(stage.is_last for stage in stages) else None, losses=losses)
    return [loss.item() for loss in losses]


def gradients(stages):
    return [parameter.grad.clone() for stage in stages for parameter in stage.submod.parameters()]


# ---- in each process: a function (rank, ranks) that returns what is wrong, or "" ------------------------------------------------


def same(kind, placement, microbatches, steps=40, bits=True):
    """Adapted while a link is slow for some steps: losses and gradients are those of the given schedule; `bits`: which adds
    microbatches in ascending order."""
    def job(rank, ranks):
        link = SlowLink(1 - rank, 0.0) if rank < 2 else None
        given_stages, stages = stages_of(placement, rank, ranks), stages_of(placement, rank, ranks)
        given = made(kind, given_stages, microbatches)
        adapted = slackline.adapt(made(kind, stages, microbatches))
        if not isinstance(adapted, slackline.adapting.schedule.AdaptedSchedule):
            return f"not adapted: {adapted.adaptation.why}"
        for step in range(steps):
            if link:
                link.delay = 0.012 if 14 <= step < 30 else 0.0
            wanted = stepped(given, given_stages, step, microbatches), gradients(given_stages)
            found = stepped(adapted, stages, step, microbatches), gradients(stages)
            if wanted[0] != found[0]:
                return f"step {step}: losses {found[0]}, given {wanted[0]}"
            if not all(torch.equal(a, b) if bits else torch.allclose(a, b, rtol=1e-6, atol=1e-12) for a, b in zip(wanted[1], found[1])):
                return f"step {step}: gradients differ after {len(adapted.adaptation.swap_ms)} swaps"
        if not adapted.adaptation.active:
            return "it gave up"
        if not adapted.adaptation.swap_ms:
            return "nothing was swapped"
        return ""
    return job


def evaluates_between_steps(rank, ranks):
    stages = stages_of("wave", rank, ranks)
    adapted = slackline.adapt(made("ZBVZeroBubble", stages, 6))
    outputs = []
    for step in range(12):
        stepped(adapted, stages, step, 6)
        x, y = batch(99, 6)
        first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
        with torch.no_grad():
            outputs.append(adapted.eval(*((x,) if first else ()), target=y if last else None, losses=[]))
    if any(stage.is_last for stage in stages) and not all(torch.equal(outputs[0], one) for one in outputs):
        return "eval differs between steps"
    return "" if adapted.adaptation.active else "it gave up"


def goes_on_as_given(adapt, says):
    """A job that cannot be adapted: one warning on each rank, and the given schedule steps."""
    def job(rank, ranks):
        stages = stages_of("linear", rank, ranks)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            schedule = adapt(rank, ranks, made("1F1B", stages, 4))
        mine = [str(one.message) for one in caught if "slackline" in str(one.message)]
        for step in range(6):
            stepped(schedule, stages, step, 4)
        if schedule.adaptation is None or says is None:
            return ""
        return "" if len(mine) == 1 and says in mine[0] and says in schedule.adaptation.why else f"warnings: {mine}"
    return job


def other_arguments(rank, ranks, schedule):
    return slackline.adapt(schedule, memory="same" if rank == 1 else "free")


def not_all(rank, ranks, schedule):
    slackline.adapting.schedule.PATIENCE_S = 1.0
    if rank == 1:
        schedule.adaptation = None
        time.sleep(1.5)
        return schedule
    return slackline.adapt(schedule)


def no_library(rank, ranks, schedule):
    from slackline import _library
    if rank == 0:
        os.environ["SLACKLINE_LIBRARY"] = "/nowhere/libslackline.so"
        _library.library.cache_clear()
    slackline.adapting.schedule.PATIENCE_S = 1.0
    try:
        return slackline.adapt(schedule)
    finally:
        os.environ["SLACKLINE_LIBRARY"] = os.path.join(os.path.abspath(build), "libslackline.so")
        _library.library.cache_clear()


def a_step_that_raises_raises_the_same(rank, ranks):
    stages = stages_of("linear", rank, ranks)
    adapted = slackline.adapt(made("1F1B", stages, 4))
    for step in range(20):
        if step in (3, 9):
            try:
                adapted.step(torch.zeros(2, 16, dtype=torch.float64), torch.zeros(3), target=torch.zeros(1, 16, dtype=torch.float64))
                return "a batch that cannot be split did not raise"
            except (RuntimeError, ValueError, AssertionError, TypeError):
                pass
        stepped(adapted, stages, step, 4)
    return "" if adapted.adaptation.active else "it gave up"


def a_decision_that_fails_leaves_the_order(rank, ranks):
    stages = stages_of("linear", rank, ranks)
    adapted = slackline.adapt(made("1F1B", stages, 4))
    if rank == 0:
        def broken(step):
            raise ZeroDivisionError("on purpose")
        adapted._agent.leader.decider.observe = broken
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(12):
            stepped(adapted, stages, step, 4)
    wanted = 1 if rank == 0 else 0
    found = [str(one.message) for one in caught if "slackline" in str(one.message)]
    if len(found) != wanted or wanted and "on purpose" not in found[0]:
        return f"warnings: {found}"
    return "" if not adapted.adaptation.active else "still adapted"


def a_folder_for_reports(rank, ranks):
    stages = stages_of("linear", rank, ranks)
    out = os.path.join(folder_given[0], "run")
    adapted = slackline.adapt(made("1F1B", stages, 8), out=out)
    for step in range(20):
        stepped(adapted, stages, step, 8)
    dist.barrier()
    if rank:
        return ""
    time.sleep(0.5)
    missing = [name for name in ("metrics.jsonl", "events.jsonl", "order.csv", "profile.yaml") if not os.path.exists(os.path.join(out, name))]
    if missing:
        return f"no {missing}"
    slackline.plan(os.path.join(out, "profile.yaml"), "1f1b")
    return ""


def a_rank_that_dies(rank, ranks):
    stages = stages_of("linear", rank, ranks)
    adapted = slackline.adapt(made("1F1B", stages, 4))
    for step in range(30):
        if rank == 1 and step == 8:
            os._exit(7)
        stepped(adapted, stages, step, 4)
    return "it went on without rank 1"


folder_given = []
CASES = {
    "GPipe": (same("GPipe", "linear", 8), 4), "1F1B": (same("1F1B", "linear", 8), 4), "1F1B on two ranks": (same("1F1B", "linear", 6), 2),
    "Interleaved1F1B": (same("Interleaved1F1B", "loop", 8), 4), "LoopedBFS": (same("LoopedBFS", "loop", 6, bits=False), 3),
    "InterleavedZeroBubble": (same("InterleavedZeroBubble", "loop", 8), 4), "ZBVZeroBubble": (same("ZBVZeroBubble", "wave", 8), 3),
    "DualPipeV": (same("DualPipeV", "wave", 8), 4),
    "eval": (evaluates_between_steps, 3), "other arguments": (goes_on_as_given(other_arguments, "rank 1 called adapt with memory 'same'"), 3),
    "not all": (goes_on_as_given(not_all, "have called adapt"), 3), "no library": (goes_on_as_given(no_library, None), 2),
    "raises": (a_step_that_raises_raises_the_same, 3), "fails": (a_decision_that_fails_leaves_the_order, 3), "folder": (a_folder_for_reports, 3),
}


def worker(rank, ranks, name, store, results, where):
    faulthandler.dump_traceback_later(PATIENCE_S - 10, exit=True)
    torch.set_num_threads(1)
    folder_given.append(where)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    wrong = (a_rank_that_dies if name == "dies" else CASES[name][0])(rank, ranks)
    results.put((rank, wrong))
    dist.barrier()
    dist.destroy_process_group()


def run(name, ranks, patience=PATIENCE_S):
    """Exit codes, and what each rank said."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    store = os.path.join(folder, name.replace(" ", "-"))
    processes = [context.Process(target=worker, args=(rank, ranks, name, store, results, folder)) for rank in range(ranks)]
    for process in processes:
        process.start()
    until = time.monotonic() + patience
    for process in processes:
        process.join(max(0.1, until - time.monotonic()))
    codes = [process.exitcode for process in processes]
    for process in processes:
        if process.exitcode is None:
            process.kill()
    said = {}
    while not results.empty():
        rank, wrong = results.get()
        said[rank] = wrong
    return codes, said


def main():
    chosen = sys.argv[3:]
    for name, (_, ranks) in CASES.items():
        if chosen and name not in chosen:
            continue
        began = time.monotonic()
        codes, said = run(name, ranks)
        fine = codes == [0] * ranks and said == {rank: "" for rank in range(ranks)}
        print(f"{'ok' if fine else 'FAILED'}: {name} ({time.monotonic() - began:.1f} s)" + ("" if fine else f": exit codes {codes}, {said}"), flush=True)
        if not fine:
            failures.append(name)
    if not chosen or "dies" in chosen:
        codes, said = run("dies", 3, 60)
        fine = codes[1] == 7 and codes[0] not in (0, None) and codes[2] not in (0, None) and not said
        print(f"{'ok' if fine else 'FAILED'}: a rank that dies: exit codes {codes}, {said}", flush=True)
        if not fine:
            failures.append("dies")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
