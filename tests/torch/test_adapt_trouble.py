# labels: long torch
"""What slackline.adapt does when it cannot, or something fails: the job goes on as it would have without, with one warning; and eval, errors
and a rank's death are PyTorch's own."""
import logging
import os
import shutil
import time
import warnings
from datetime import timedelta

from adapt_torch import batch, build, judged, made, run, slackline, stages_of, stepped
from runner import expect
import slackline.adapting.schedule as adapting
from slackline.adapting import agreement
import torch
import torch.distributed as dist


def evaluates_between_steps(rank, ranks, group, where):
    stages = stages_of("wave", rank, ranks, group)
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
    def job(rank, ranks, group, where):
        stages = stages_of("linear", rank, ranks, group)
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


def not_all(missing):
    def adapt(rank, ranks, schedule):
        agreement.PATIENCE_S, before = 1.0, agreement.PATIENCE_S
        try:
            if rank == missing:
                schedule.adaptation = None
                time.sleep(2.5)
                return schedule
            return slackline.adapt(schedule)
        finally:
            agreement.PATIENCE_S = before
    return adapt


def cannot_open(what):
    """Rank 1 fails after all have agreed: before it joins the groups that measure, or after."""
    def adapt(rank, ranks, schedule):
        def fails(*arguments, **options):
            raise RuntimeError(f"no {what}")
        agreement.PATIENCE_S, before, original = 2.0, agreement.PATIENCE_S, getattr(adapting, what)
        if rank == 1:
            setattr(adapting, what, fails)
        try:
            return slackline.adapt(schedule)
        finally:
            agreement.PATIENCE_S = before
            setattr(adapting, what, original)
    return adapt


def no_library(rank, ranks, schedule):
    from slackline import _library
    if rank == 0:
        os.environ["SLACKLINE_LIBRARY"] = "/nowhere/libslackline.so"
        _library.library.cache_clear()
    try:
        return slackline.adapt(schedule)
    finally:
        os.environ["SLACKLINE_LIBRARY"] = os.path.join(os.path.abspath(build), "libslackline.so")
        _library.library.cache_clear()


def a_step_that_raises_raises_the_same(rank, ranks, group, where):
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, 4))
    for step in range(60):
        if step in (3, 9, 40):
            try:
                adapted.step(torch.zeros(2, 16, dtype=torch.float64), torch.zeros(3), target=torch.zeros(1, 16, dtype=torch.float64))
                return "a batch that cannot be split did not raise"
            except (RuntimeError, ValueError, AssertionError, TypeError):
                pass
        stepped(adapted, stages, step, 4)
    return "" if adapted.adaptation.active else "it gave up"


def a_decision_that_fails_leaves_the_order(rank, ranks, group, where):
    stages = stages_of("linear", rank, ranks, group)
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


def a_folder_for_reports(rank, ranks, group, where):
    stages = stages_of("linear", rank, ranks, group)
    out = os.path.join(where, "run")
    adapted = slackline.adapt(made("1F1B", stages, 8), out=out)
    for step in range(20):
        stepped(adapted, stages, step, 8)
    dist.barrier(group)
    if rank:
        return ""
    time.sleep(0.5)
    missing = [name for name in ("metrics.jsonl", "events.jsonl", "order.csv", "profile.yaml", "timeline.json") if not os.path.exists(os.path.join(out, name))]
    if missing:
        return f"no {missing}"
    slackline.plan(os.path.join(out, "profile.yaml"), "1f1b")
    return ""


def a_job_that_nobody_sees(prepared, during):
    """Its folder cannot be written, and on_event ends its thread: one warning for each, and the job is still adapted."""
    def job(rank, ranks, group, where):
        def on_event(event):
            raise SystemExit("on purpose")
        stages = stages_of("linear", rank, ranks, group)
        out = prepared(where)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            adapted = slackline.adapt(made("1F1B", stages, 4), out=out, on_event=on_event)
            for step in range(40):
                if rank == 0 and step == 2:
                    during(out)
                stepped(adapted, stages, step, 4)
            dist.barrier(group)
            time.sleep(0.3)
            if rank == 0:
                adapted._agent.leader.folder and adapted._agent.leader.folder.end()
        found = sorted(str(one.message) for one in caught if "slackline" in str(one.message))
        if rank:
            return "" if not found and adapted.adaptation.active else f"rank {rank}: {found}"
        if len(found) != 2 or "on purpose" not in found[0] or out not in found[1]:
            return f"warnings: {found}"
        return "" if adapted.adaptation.active and adapted.adaptation.events and adapted.adaptation.measured.step > 12 else "it gave up"
    return job


def in_a_file(where):
    path = os.path.join(where, "a-file")
    open(path, "w", encoding="utf-8").close()
    return os.path.join(path, "run")


def where_warnings_are_errors(rank, ranks, group, where):
    """The reasons go to the logger instead: a job that cannot be adapted goes on, and so does one whose folder cannot be written."""
    said, logger = [], logging.getLogger("slackline")
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for arguments in ({"memory": "same" if rank == 1 else "free"}, {"out": in_a_file(where)}):
                stages = stages_of("linear", rank, ranks, group)
                schedule = slackline.adapt(made("1F1B", stages, 4), **arguments)
                for step in range(6):
                    stepped(schedule, stages, step, 4)
                said.append(schedule.adaptation.active)
    finally:
        logger.removeHandler(handler)
    wanted = ["memory", False, *(["a-file"] if rank == 0 else []), True]
    return "" if len(said) == len(wanted) and all(a is b if isinstance(a, bool) else a in b for a, b in zip(wanted, said)) else f"said: {said}"


def a_rank_that_dies(rank, ranks, group, where):
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, 4))
    for step in range(30):
        if rank == 1 and step == 8:
            os._exit(7)
        stepped(adapted, stages, step, 4)
    return "it went on without rank 1"



def dying_main(rank, world, file, store, results, where):
    dist.init_process_group("gloo", f"file://{store}.dying", rank=rank, world_size=world, timeout=timedelta(seconds=60))
    results.put(a_rank_that_dies(rank, world, None, where))


CASES = {
    "eval between steps": (evaluates_between_steps, 3),
    "other arguments": (goes_on_as_given(other_arguments, "rank 1 called adapt with memory 'same'"), 3),
    "warnings are errors": (where_warnings_are_errors, 3), "a step that raises": (a_step_that_raises_raises_the_same, 3), "a decision that fails": (a_decision_that_fails_leaves_the_order, 3),
    "a folder": (a_folder_for_reports, 3), "a folder that cannot be": (a_job_that_nobody_sees(in_a_file, lambda out: None), 3),
    "a folder that is removed": (a_job_that_nobody_sees(lambda where: os.path.join(where, "removed"), shutil.rmtree), 3), "no library": (goes_on_as_given(no_library, "nowhere"), 2),
    "a rank without the groups": (goes_on_as_given(cannot_open("fewest_communicators"), "no fewest_communicators"), 3),
    "a rank without an agent": (goes_on_as_given(cannot_open("Agent"), "rank 1: RuntimeError: no Agent"), 3),
    "not the first rank": (goes_on_as_given(not_all(0), "not called adapt"), 3), "not all ranks": (goes_on_as_given(not_all(1), "called adapt"), 3),
}


def test_a_job_in_trouble_goes_on_as_without():
    judged(os.path.abspath(__file__), 3, CASES)


def test_a_rank_that_dies_ends_the_others_by_pytorchs_own_errors():
    codes, said = run(os.path.abspath(__file__), 3, dying_main, 100)
    expect(codes[1] == 7 and codes[0] not in (0, None) and codes[2] not in (0, None) and not said, f"exit codes {codes}, {said}")
