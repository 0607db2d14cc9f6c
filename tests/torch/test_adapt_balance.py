# labels: long torch
"""slackline.adapt on replicas of a pipeline over Gloo: a replica with a slow rank gets fewer microbatches until the rank recovers."""
import os

from adapt_torch import Paced, judged, slackline
from replicas_torch import OP_S, ROWS, WIDTH, Job, alike, given_of, happened, is_known

import torch


def balanced(sums, kind="1F1B", placement="linear", ranks=2, microbatches=8, slow=(1, 0), replicas=None, most=150, **arguments):
    """A rank of a replica takes four times as long once the healthy job is known, until the split is uneven; it recovers until the
    split is even."""
    def case(rank, world, group, where):
        job = Job(kind, placement, ranks, microbatches, sums, world // ranks)
        job.schedule = slackline.adapt(job.schedule, replicas=given_of(job, replicas), **arguments)
        if job.schedule.adaptation.why:
            return f"not adapted: {job.schedule.adaptation.why}"
        even, ran, slow_at, uneven_at, even_at = (microbatches,) * (world // ranks), [], None, None, None
        for step in range(3 * most):
            if slow_at is None and is_known(job):
                slow_at = step + 5
            is_slow = slow_at is not None and step >= slow_at and uneven_at is None
            Paced.op = OP_S * (4 if is_slow and (job.replica, job.rank) == slow else 1)
            text = str(job.schedule.pipeline_order)
            wrong = job.step(step)
            if wrong:
                return wrong
            ran.append((job.schedule.split, text))
            if is_slow and job.schedule.split[slow[0]] < microbatches:
                uneven_at = step
            elif uneven_at is not None and job.schedule.split == even:
                even_at = step
                break
            if is_slow and step >= slow_at + most:
                break
        return alike(job, ran) or events_of(job, rank, ran) or ("" if even_at else f"slow at {slow_at}, uneven at {uneven_at}, even at {even_at}: {happened(job)}")
    return case


def events_of(job, rank, ran):
    """Each other split is an event of its first step; the last one has not been heard of yet."""
    said = [(one.step, tuple(one.fields["split"])) for one in job.schedule.adaptation.events if one.kind == "arrange"]
    wanted = [(step + 1, ran[step][0]) for step in range(1, len(ran)) if ran[step][0] != ran[step - 1][0]] if rank == 0 else []
    return "" if said == wanted[:len(said)] and len(said) >= len(wanted) - 1 else f"events of splits {said}, splits {wanted}"


def slow_from_the_beginning(rank, world, group, where):
    """A replica whose rank was slow before the first step is compared with the others."""
    job = Job("1F1B", "linear", 2, 8, "hand")
    job.schedule = slackline.adapt(job.schedule, replicas=job.copies)
    for step in range(80):
        Paced.op = OP_S * (4 if rank == 3 else 1)
        wrong = job.step(step)
        if wrong:
            return wrong
        if job.schedule.split[1] < 8:
            return ""
    return f"the split stays even: {happened(job)}"


def not_asked(rank, world, group, where):
    """A program that gives every replica equally many rows, and never asks for its number of microbatches, goes on beside a slow rank."""
    job = Job("1F1B", "linear", 2, 8, "ddp")
    adapted = job.schedule = slackline.adapt(job.schedule)
    for step in range(80):
        Paced.op = OP_S * (4 if step >= 15 and rank == 3 else 1)
        x, y = (torch.full((8 * ROWS, WIDTH), float(step + at), dtype=torch.float64) for at in range(2))
        job.stages[0].submod.zero_grad()
        adapted.step(*((x,) if job.rank == 0 else ()), target=y if job.rank == 1 else None, losses=[])
    onsets = [one.step for one in adapted.adaptation.events if one.kind == "onset"]
    return "" if adapted.split == (8, 8) and adapted.adaptation.active and (rank or onsets) else f"split {adapted.split}, onsets {onsets}"


def frozen(rank, world, group, where):
    """Measured, but not changed."""
    job = Job("1F1B", "linear", 2, 6, "hand")
    job.schedule = slackline.adapt(job.schedule, replicas=job.copies, frozen=True)
    for step in range(40):
        Paced.op = OP_S * (4 if step >= 15 and rank == 3 else 1)
        wrong = job.step(step) or ("" if job.schedule.split == (6, 6) and not job.schedule.adaptation.swap_ms else "changed")
        if wrong:
            return wrong
    return "" if rank or job.schedule.adaptation.problem else "nothing measured"


CASES = {
    "sum by hand": (balanced("hand", replicas="group"), 4), "DistributedDataParallel": (balanced("ddp", slow=(0, 1)), 4),
    "fully_shard": (balanced("fsdp", slow=(0, 0)), 4), "four replicas of one rank": (balanced("hand", "GPipe", ranks=1, replicas="group"), 4),
    "slow from the beginning": (slow_from_the_beginning, 4), "frozen": (frozen, 4), "not asked": (not_asked, 4),
}


def test_a_slow_replica_gets_fewer_microbatches():
    judged(os.path.abspath(__file__), 4, CASES)
