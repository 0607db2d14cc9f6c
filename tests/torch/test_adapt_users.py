# labels: long torch
"""slackline.adapt with arguments at their limits, other objectives, and few and many microbatches: losses and gradients are those of the given
schedule, bit for bit."""
import math
import os
import warnings

from adapt_torch import SlowLink, compared, gradients, judged, made, said, slackline, stages_of, stepped

from slackline.adapting import order
import torch

MICROBATCHES, STEPS = 6, 24


def same(kind="1F1B", placement="linear", microbatches=MICROBATCHES, steps=STEPS, swaps=None, slow=0.0, **options):
    """options: of adapt; slow: s by which the link of ranks 0 and 1 is late in the second half; swaps: whether the order changes, if that is certain."""
    def job(rank, ranks, group, where):
        link = SlowLink(1 - rank, 0.0) if slow and rank < 2 else None
        one, two = stages_of(placement, rank, ranks, group), stages_of(placement, rank, ranks, group)

        def between(step):
            if link:
                link.delay = slow if step >= steps // 2 else 0.0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            adapted = slackline.adapt(made(kind, two, microbatches), **options)
            wrong = compared(made(kind, one, microbatches), adapted, one, two, steps, microbatches, between)
        if link:
            link.delay = 0.0
        if wrong or said(caught) or not adapted.adaptation.active:
            return f"{wrong} {said(caught)} {adapted.adaptation.why}"
        return "" if swaps is None or bool(adapted.adaptation.swap_ms) == swaps else f"{len(adapted.adaptation.swap_ms)} swaps"
    return job


# ---- arguments -----------------------------------------------------------------------------------------------------------------


def problems_that_do_not_fit(rank, ranks, group, where):
    """Each raises InvalidRequest on all ranks, with what is wrong; the given schedule then adapts without."""
    right = {"ranks": ranks, "microbatches": MICROBATCHES, "times_ms": {"F": 2, "I": 2, "W": 2, "B": 4}}
    broken, stages = os.path.join(where, f"broken{rank}.yaml"), stages_of("linear", rank, ranks, group)
    with open(broken, "w", encoding="utf-8") as file:
        file.write("pipeline:\n  ranks: [3\n")
    wrong = {"2 ranks": {"pipeline": {**right, "ranks": 2}}, "6 stages": {"pipeline": {**right, "stages": 6, "placement": "loop"}}, "broken": broken,
             "nowhere": "/nowhere/problem.yaml", "objective": {"pipeline": {**right, "objective": "span"}}, "fifo": {"pipeline": {**right, "communication": "fifo"}}}
    for what, problem in wrong.items():
        try:
            slackline.adapt(made("1F1B", stages, MICROBATCHES), problem=problem, objective="period" if what == "fifo" else None)
            return f"{what} was taken"
        except slackline.SlacklineError as error:
            if what not in str(error):
                return f"{what}: {error}"
    for objective, says in (("span", "period"), ("makespam", "makespan")):
        try:
            slackline.adapt(made("1F1B", stages, MICROBATCHES), objective=objective)
            return f"objective {objective} was taken"
        except slackline.InvalidRequest as error:
            if says not in str(error):
                return f"objective {objective}: {error}"
    return same(problem={"pipeline": right})(rank, ranks, group, where)


def steps_that_overlap(given_problem):
    """No rank waits for another one between two steps. The first plan for their period is not one for the makespan: its period is shorter than the
    given order's, by 10% at least, on what was measured."""
    def job(rank, ranks, group, where):
        options = {"objective": "period"}
        if given_problem:
            options = {"problem": {"pipeline": {"ranks": ranks, "microbatches": 12, "times_ms": {"F": 2, "I": 2, "W": 2, "B": 4}, "objective": "period"}}}
        one, two = stages_of("linear", rank, ranks, group), stages_of("linear", rank, ranks, group)
        given, adapted = made("1F1B", one, 12), slackline.adapt(made("1F1B", two, 12), **options)
        before = order.text_of(order.rows_of(adapted.pipeline_order))
        found, steps = [[], []], {}
        for seen, schedule, stages in zip(found, (given, adapted), (one, two)):
            for step in range(40):
                seen.append((stepped(schedule, stages, step, 12), gradients(stages)))
                measured = adapted.adaptation.measured
                if measured is not None:
                    steps[measured.step] = measured.time_ms < measured.end_ms - measured.begin_ms
        for step, (a, b) in enumerate(zip(*found)):
            if a[0] != b[0] or not all(map(torch.equal, a[1], b[1])):
                return f"step {step}: losses {b[0]}, given {a[0]}, or other gradients"
        adaptation = adapted.adaptation
        if not adaptation.active or not adaptation.swap_ms:
            return f"{len(adaptation.swap_ms)} swaps; {adaptation.why}"
        if rank:
            return ""
        value = [slackline.simulate(adaptation.problem, text).value_ms for text in (before, order.text_of(order.rows_of(adapted.pipeline_order)))]
        return "" if adaptation.plan.objective == "period" and value[1] < 0.9 * value[0] and any(steps.values()) else \
            f"{adaptation.plan.objective}: {value[0]} ms as given, {value[1]} ms; the steps that overlap with the next one: {steps}"
    return job


CASES = {
    "memory: 1 byte": (same(memory=1, slow=0.02), 3), "memory: without end": (same(memory=math.inf, slow=0.02), 3),
    "memory: same": (same(memory="same", slow=0.02), 3), "memory: same, a wave": (same("ZBVZeroBubble", "wave", memory="same", slow=0.02), 3),
    "problems": (problems_that_do_not_fit, 3), "a period": (steps_that_overlap(False), 3), "a problem with a period": (steps_that_overlap(True), 3),
    "frozen": (same(frozen=True, slow=0.02, swaps=False), 3), "64 microbatches": (same(microbatches=64, steps=10), 3), "1 microbatch": (same("GPipe", microbatches=1), 3),
    "1 microbatch of a loop": (same("LoopedBFS", "loop", microbatches=1), 3), "one microbatch per rank": (same(microbatches=3, slow=0.01), 3),
}


def test_arguments_at_their_limits_change_no_gradient():
    judged(os.path.abspath(__file__), 3, CASES)
