# labels: long torch
"""slackline.adapt on replicas of a pipeline over Gloo: their numbers of microbatches change together, and losses and gradients are those of
one model that trains on all samples, whoever sums the gradients."""
import os

from adapt_torch import judged, slackline
from replicas_torch import Job, alike, evaluated, given_of


def shortest(decider, problem):
    """Of the schedules that the job can run."""
    found = []
    for name in set(slackline.schedules()) - {"auto", "optimal"}:
        try:
            found.append(slackline.plan(problem, name, 0))
        except slackline.SlacklineError:
            continue
    return min((plan for plan in found if decider._runnable(plan)), key=lambda plan: plan.makespan_ms)


def told(kind, placement, sums, splits, ranks=2, microbatches=6, replicas=None):
    """The first rank is told to run these splits, one after the other."""
    def case(rank, world, group, where):
        job = Job(kind, placement, ranks, microbatches, sums, world // ranks)
        adapted = job.schedule = slackline.adapt(job.schedule, replicas=given_of(job, replicas))
        if adapted.adaptation.why:
            return f"not adapted: {adapted.adaptation.why}"
        if rank == 0:
            decider, due = adapted._agent.leader.decider, list(splits)

            def decides(steps):
                if decider.pending is not None and steps[0].version == decider.pending.version:
                    decider._carried_out(decider.pending, steps)
                if decider.pending is not None or not due:
                    return None
                split = due.pop(0)
                pipeline = {"ranks": ranks, "placement": placement, "times_ms": {kind: 1 for kind in "FIW"}}
                plans = [shortest(decider, {"pipeline": {**pipeline, "microbatches": number}}) for number in split]
                return decider._swap([decider._runnable(plan) for plan in plans], list(split), steps[0], None, plans, "told")
            decider.observe = decides
        ran = []
        for step in range(9 * len(splits) + 12):
            text = str(adapted.pipeline_order)
            wrong = job.step(step) or (evaluated(job, step) if step % 9 == 5 and sums != "ddp" else "")
            if wrong:
                return wrong
            ran.append((adapted.split, text))
        seen = [split for at, (split, _) in enumerate(ran) if at == 0 or split != ran[at - 1][0]]
        wanted = [tuple(split) for split in splits]
        return alike(job, ran) or ("" if seen[1:] == wanted and adapted.adaptation.active else f"ran {seen}, told {wanted}")
    return case


# PyTorch 2.13 itself fails with DistributedDataParallel under GPipe, or with an evaluation between steps
SPLITS = [(9, 3), (1, 11), (6, 6), (11, 1), (5, 7), (6, 6)]
CASES = {
    "1F1B, by hand": (told("1F1B", "linear", "hand", SPLITS, replicas="mesh"), 4),
    "1F1B, DistributedDataParallel": (told("1F1B", "linear", "ddp", SPLITS), 4),
    "1F1B, fully_shard": (told("1F1B", "linear", "fsdp", SPLITS), 4),
    "InterleavedZeroBubble, fully_shard": (told("InterleavedZeroBubble", "loop", "fsdp", SPLITS), 4),
    "ZBVZeroBubble, by hand": (told("ZBVZeroBubble", "wave", "hand", SPLITS, replicas="group"), 4),
    "Interleaved1F1B, DistributedDataParallel": (told("Interleaved1F1B", "loop", "ddp", SPLITS), 4),
    "four replicas of one rank": (told("1F1B", "linear", "ddp", [(6, 8, 6, 4), (1, 1, 1, 21), (6, 6, 6, 6)], ranks=1), 4),
}


def test_splits_change_together_and_gradients_stay():
    judged(os.path.abspath(__file__), 4, CASES)
