# labels: long torch
"""slackline.adapt over a backend whose Works complete by themselves and whose messages between two ranks share a queue, as NCCL's do, and
with events of a stand-in for a device (device_torch.py): losses and gradients stay those of the given schedule, bit for bit."""
import os

from adapt_torch import Given, gradients, judged, made, slackline, stages_of, stepped
from device_torch import Event, register

import torch
import torch.distributed as dist
from slackline.adapting import timings


def same(kind, placement, microbatches, ranks, device, communicators=None):
    """device: ops are measured by events that complete 2 ms after the program has recorded them."""
    def job(rank, world, group, where):
        register()
        polled = dist.new_group(list(range(ranks)), backend="polled")
        given_group = dist.new_group(list(range(ranks)))
        if rank >= ranks:
            return ""
        before = torch.Event, timings.Clock.__init__
        if device:
            def on_a_device(clock, _):
                clock._device = torch.device("cuda", 0)
                clock.compare()
            torch.Event, timings.Clock.__init__, Event.behind = Event, on_a_device, 0.002
        try:
            return compared(kind, placement, microbatches, rank, ranks, given_group, polled, communicators)
        finally:
            torch.Event, timings.Clock.__init__ = before
    return job


def compared(kind, placement, microbatches, rank, ranks, given_group, polled, communicators):
    given_stages, stages = stages_of(placement, rank, ranks, given_group), stages_of(placement, rank, ranks, polled)
    given, adapted = Given(made(kind, given_stages, microbatches), given_stages, microbatches), slackline.adapt(made(kind, stages, microbatches), communicators=communicators)
    if not adapted.adaptation.active:
        return f"not adapted: {adapted.adaptation.why}"
    for step in range(24):
        wanted = given.step(step)
        found = stepped(adapted, stages, step, microbatches), gradients(stages)
        if wanted[0] != found[0] or not all(torch.equal(a, b) for a, b in zip(wanted[1], found[1])):
            return f"step {step}: losses {found[0]}, given {wanted[0]}, or other gradients, after {len(adapted.adaptation.swap_ms)} swaps"
    if not adapted.adaptation.active:
        return "it gave up"
    measured = adapted.adaptation.measured
    if rank:
        return ""
    ops, messages = len(stages) * ranks * microbatches, 2 * microbatches * (ranks - 1) * len(stages)
    if measured is None or len(measured.ops) < 2 * ops or len(measured.transfers) < messages / 4:
        return f"measured {measured and (len(measured.ops), len(measured.transfers))}, {ops} forwards and about {messages} messages ran"
    short = [op for op in measured.ops if not 0.5 < op.end_ms - op.start_ms < 200]
    return f"ops of 2 and 4 ms took {short[:3]}" if len(short) > len(measured.ops) / 4 else ""


CASES = {
    "1F1B": (same("1F1B", "linear", 8, 4, False), 4), "1F1B on a device": (same("1F1B", "linear", 8, 4, True), 4),
    "1F1B in one group": (same("1F1B", "linear", 6, 4, False, 1), 4), "ZBVZeroBubble on a device": (same("ZBVZeroBubble", "wave", 8, 4, True), 4),
    "Interleaved1F1B of 2 ranks": (same("Interleaved1F1B", "loop", 6, 2, False), 4), "GPipe of 3 ranks on a device": (same("GPipe", "linear", 6, 3, True), 4),
}


def test_steps_over_another_backend_are_those_of_the_given_schedule():
    judged(os.path.abspath(__file__), 4, CASES)
