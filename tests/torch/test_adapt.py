# labels: long torch
"""slackline.adapt with every schedule of torch.distributed.pipelining over Gloo, while a link gets slow and recovers: losses and gradients
of each step are those of the given schedule, bit for bit."""
import functools
import os

from adapt_torch import Given, SlowLink, gradients, judged, made, slackline, stages_of, stepped

import torch


@functools.lru_cache(maxsize=None)
def link_of(rank):
    """The slow link of ranks 0 and 1, one in a process."""
    return SlowLink(1 - rank, 0.0) if rank < 2 else None


def same(kind, placement, microbatches, steps=40, bits=True):
    """Adapted while a link is slow for some steps: losses and gradients are those of the given schedule; `bits`: which adds
    microbatches in ascending order."""
    def job(rank, ranks, group, where):
        link = link_of(rank)
        given_stages, stages = stages_of(placement, rank, ranks, group), stages_of(placement, rank, ranks, group)
        given = Given(made(kind, given_stages, microbatches), given_stages, microbatches)
        adapted = slackline.adapt(made(kind, stages, microbatches))
        if not isinstance(adapted, slackline.adapting.schedule.AdaptedSchedule):
            return f"not adapted: {adapted.adaptation.why}"
        for step in range(steps):
            if link:
                link.delay = 0.012 if 14 <= step < 30 else 0.0
            wanted = given.step(step)
            found = stepped(adapted, stages, step, microbatches), gradients(stages)
            if wanted[0] != found[0]:
                return f"step {step}: losses {found[0]}, given {wanted[0]}"
            if not all(torch.equal(a, b) if bits else torch.allclose(a, b, rtol=1e-6, atol=1e-12) for a, b in zip(wanted[1], found[1])):
                return f"step {step}: gradients differ after {len(adapted.adaptation.swap_ms)} swaps"
        if not adapted.adaptation.active:
            return "it gave up"
        return "" if adapted.adaptation.swap_ms else "nothing was swapped"
    return job



CASES = {
    "GPipe": (same("GPipe", "linear", 8), 4), "1F1B on two ranks": (same("1F1B", "linear", 6), 2),
    "1F1B of ranks in different numbers of groups": (same("1F1B", "linear", 8), 4),
    "Interleaved1F1B": (same("Interleaved1F1B", "loop", 8), 4), "LoopedBFS": (same("LoopedBFS", "loop", 6, bits=False), 3),
    "InterleavedZeroBubble": (same("InterleavedZeroBubble", "loop", 8), 4), "ZBVZeroBubble": (same("ZBVZeroBubble", "wave", 8), 3),
    "DualPipeV": (same("DualPipeV", "wave", 8), 4), "a wave of 4 stages per rank": (same("planned", "wave of 4", 6), 2),
}


def test_steps_are_those_of_the_given_schedule():
    judged(os.path.abspath(__file__), 4, CASES)
