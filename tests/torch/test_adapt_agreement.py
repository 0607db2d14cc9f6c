# labels: long torch
"""How ranks agree to adapt together: all do or none, whoever fails while it opens what it needs; and a rank that misses a call of slackline.adapt, calls
it once more, or comes too late, is not behind in the next ones."""
import os
import threading
import time
import warnings

from adapt_torch import batch, judged, made, slackline, stages_of, stepped

import torch.distributed as dist
from slackline.adapting import agreement, engines, order
from slackline.adapting.schedule import AdaptedSchedule

MICROBATCHES, SHORT_S = 4, 1.0  # the timeouts of a FileStore are up to 1 s longer


class Patience:
    """A short one, as long as the block runs."""

    def __init__(self, seconds=SHORT_S):
        self._seconds = seconds

    def __enter__(self):
        agreement.PATIENCE_S, self._before = self._seconds, agreement.PATIENCE_S

    def __exit__(self, *_):
        agreement.PATIENCE_S = self._before


def called(stages):
    """adapt, without its warning: whether it adapts, and the schedule."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schedule = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    return isinstance(schedule, AdaptedSchedule), schedule


def all_call(rank, ranks, group):
    """What is wrong if all call adapt now: they agree, and the job steps as it does without."""
    stages, alone = stages_of("linear", rank, ranks, group), stages_of("linear", rank, ranks, group)
    adapts, schedule = called(stages)
    if not adapts:
        return schedule.adaptation.why
    given = made("1F1B", alone, MICROBATCHES)
    for step in range(8):
        if stepped(schedule, stages, step, MICROBATCHES) != stepped(given, alone, step, MICROBATCHES):
            return f"step {step}: other losses"
    return "" if schedule.adaptation.active else "it gave up"


def some_call(callers, then_steps=True):
    """Only some ranks call adapt; they step as given. Then all call it."""
    def job(rank, ranks, group, where):
        stages = stages_of("linear", rank, ranks, group)
        with Patience():
            adapts, schedule = called(stages) if rank in callers else (False, made("1F1B", stages, MICROBATCHES))
            if adapts:
                return "it adapts without the others"
            if then_steps:
                for step in range(2):
                    stepped(schedule, stages, step, MICROBATCHES)
                return all_call(rank, ranks, group)
            dist.barrier(group)
            called(stages_of("linear", rank, ranks, group))  # without a step, a rank that has missed a call looks like a late one
            dist.barrier(group)
            return all_call(rank, ranks, group)
    return job


def again_and_again(rank, ranks, group, where):
    """Any rank misses any call; after each, all agree."""
    for missing in (1, 0, 2, 1):
        wrong = some_call(set(range(ranks)) - {missing})(rank, ranks, group, where)
        if wrong:
            return f"after rank {missing} has missed a call: {wrong}"
    return ""


def too_late(late):
    """A rank comes to the first of two calls when the others are in the second one: nobody adapts the first schedule, all adapt the second."""
    def job(rank, ranks, group, where):
        one, two = stages_of("linear", rank, ranks, group), stages_of("linear", rank, ranks, group)
        with Patience(2.0):
            if rank == late:
                time.sleep(3.5 if late else 7.0)  # the others wait for 2 to 3 s in each call, for the first rank for 4 to 5 s
            first, schedule = called(one)
            second, adapted = called(two)
        if (first, second) != (False, True):
            return f"adapts {first}, {second}: {schedule.adaptation.why}; {adapted.adaptation.why}"
        for step in range(4):
            if stepped(schedule, one, step, MICROBATCHES) != stepped(adapted, two, step, MICROBATCHES):
                return f"step {step}: other losses"
        return "" if adapted.adaptation.active else "it gave up"
    return job


def slower_than_patience(rank, ranks, group, where):
    """A step for which a rank comes later than the others have patience to agree: the job goes on and adapts, in the groups that were made in that time."""
    stages = stages_of("wave", rank, ranks, group)
    with Patience():
        schedule = slackline.adapt(made("ZBVZeroBubble", stages, MICROBATCHES))
        if rank == 0:
            decider = schedule._agent.leader.decider
            decider.observe = lambda steps: decider._swap([decider.running], decider.split, steps[0], None, None, "on purpose") if decider._versions == 0 else None
        for step in range(14):
            if step in (2, 12):
                time.sleep(2.5 * SHORT_S if rank == 2 * (step == 2) else 0)
            stepped(schedule, stages, step, MICROBATCHES)
    return "" if schedule.adaptation.active and schedule.adaptation.swap_ms else "it gave up, or nothing was swapped"


# ---- opening -------------------------------------------------------------------------------------------------------------------


def ours():
    return sorted(name for name in dist.distributed_c10d._world.pg_names.values() if name.startswith("slackline-"))


def an_engine_whose_rank_fails(rank, ranks, group, where):
    """Engines of frameworks open as schedules do: if a rank fails after all have agreed, none adapts, at once, with its reason, and nothing is left.
    Then they agree again."""
    options = dict(memory="free", objective="makespan", communicators=2, frozen=False, out=None, on_event=None)
    rows, member = order.one_forward_one_backward(ranks, MICROBATCHES), engines.Member(group, rank, ranks)
    device, before = batch(0, 1)[0].device, (ours(), threading.active_count())

    def opened():
        return engines.opened(member, rows, MICROBATCHES, "", device, lambda text: None, options)

    def fails(*_, **__):
        raise OSError("on purpose")
    for what in ("Agent", "new_group"):
        original, began = getattr(engines, what), time.monotonic()
        if rank == 1:
            setattr(engines, what, fails)
        try:
            with Patience():
                opened()
            return f"{what}: opened without rank 1"
        except agreement.Cannot as error:
            if "rank 1: OSError: on purpose" not in str(error) or time.monotonic() - began > 30:  # the group's own timeout is 60 s
                return f"{what}: {error}, after {time.monotonic() - began:.1f} s"
        finally:
            setattr(engines, what, original)
        if (ours(), threading.active_count()) != before:
            return f"{what}: left are {ours()} and {threading.enumerate()}"
    agent, gradients = opened()
    try:
        return "" if agent.active and gradients is not group else "it does not open"
    finally:
        for one in agent.threads:
            one.close()


CASES = {"rank 1 misses a call": (some_call({0, 2}), 3), "the first rank misses a call": (some_call({1, 2}), 3), "rank 1 calls once more": (some_call({1}), 3),
         "the first rank calls once more": (some_call({0}), 3), "again and again": (again_and_again, 3),
         "rank 1 misses a call, without a step": (some_call({0, 2}, False), 3), "the first rank misses a call, without a step": (some_call({1, 2}, False), 3),
         "rank 1 is late": (too_late(1), 3), "the first rank is late": (too_late(0), 3), "slower than patience": (slower_than_patience, 3), "an engine whose rank fails": (an_engine_whose_rank_fails, 3)}


def test_ranks_agree_whatever_calls_were_missed():
    judged(os.path.abspath(__file__), 3, CASES)
