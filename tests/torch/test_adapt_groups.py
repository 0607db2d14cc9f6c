# labels: long torch
"""slackline.adapt makes process groups for messages when a plan is first offered, on all ranks together, and uses them from its first step on."""
import os
import threading
import time
import warnings

from adapt_torch import judged, made, slackline, stages_of, stepped

import slackline.adapting.schedule as adapting
import torch.distributed as dist
from slackline.adapting import agreement, order

MICROBATCHES, DECIDED = 6, 5


def threads(more_than=None):
    """Of this process, in C++, too: the fewest within a moment, for some come and go; or as soon as there are more, within 10 s."""
    counts, end = [], time.monotonic() + (0.3 if more_than is None else 10)
    while time.monotonic() < end and not (counts and more_than is not None and counts[-1] > more_than):
        counts.append(len(os.listdir("/proc/self/task")))
        time.sleep(0.02)
    return min(counts) if more_than is None else counts[-1]


def groups():
    return sorted(name for name in dist.distributed_c10d._world.pg_names.values() if name.startswith("slackline-messages"))


def decides(schedule, ranks):
    """Makes the first rank decide for GPipe after the step DECIDED."""
    decider = schedule._agent.leader.decider

    def observe(steps):
        if steps[0].step != DECIDED:
            return None
        rows = order.parsed(slackline.plan({"pipeline": {"ranks": ranks, "microbatches": MICROBATCHES, "times_ms": {"F": 1, "I": 1, "W": 1, "B": 2}}}, "gpipe").csv())
        return decider._swap([rows], decider.split, steps[0], None, None, "on purpose")
    decider.observe = observe


def never(rank, ranks, group, where):
    """Without a swap, there are no groups for messages, and the only thread of ours that a rank runs in addition measures arrivals; the first rank has one that decides."""
    before, stages = groups(), stages_of("linear", rank, ranks, group)
    bare = [thread for thread in threading.enumerate()]
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES), frozen=True)
    for step in range(8):
        stepped(adapted, stages, step, MICROBATCHES)
    neighbors = (rank > 0) + (rank < ranks - 1)
    more = sorted(thread.name for thread in threading.enumerate() if thread not in bare)
    wanted = ["slackline arrivals"] * neighbors + ["slackline leader"] * (rank == 0)
    return "" if groups() == before and more == wanted and adapted.adaptation.active else f"groups {groups()}, threads {more}, wanted {wanted}"


def once(rank, ranks, group, where):
    """A wave needs three more: none before the plan, all of them after it, and messages use them. A second schedule of the stages has its own."""
    stages, before = stages_of("wave", rank, ranks, group), groups()
    for which in ("first", "second"):  # the threads of the first one's groups end some time after it
        adapted = slackline.adapt(made("ZBVZeroBubble", stages, MICROBATCHES))
        if rank == 0:
            adapted._agent.leader.decider.observe = lambda steps: None
        for step in range(4):
            stepped(adapted, stages, step, MICROBATCHES)
        if groups() != before or adapted._agent.kept.groups is not None:
            return f"groups before a plan: {groups()}"
        took = threads()
        if rank == 0:
            decider = adapted._agent.leader.decider
            decider.observe = lambda steps: decider._swap([decider.running], decider.split, steps[0], None, None, "on purpose") if decider._versions == 0 else None
        for step in range(4, 16):
            stepped(adapted, stages, step, MICROBATCHES)
        found = [name for name in groups() if name not in before]
        adapted._agent.kept.adapted = True  # as during its steps
        used = {id(one.group) for stage in stages for one in stage.get_fwd_recv_ops(0) + stage.get_bwd_recv_ops(0)}
        adapted._agent.kept.adapted = False
        if len(found) != 3 or which == "first" and threads(took) <= took or id(group) in used and rank in (0, ranks - 1) and len(used) < 2:
            return f"groups after a plan: {found}; {len(used)} used; {took} threads, then {threads()}"
        if adapted._agent.swap_ms == [] or not adapted.adaptation.active:
            return "no swap"
        before = groups()
    return ""


def numbered(rank, ranks, group, where):
    """1 to 4 communicators: with a plan there are so many, kinds and directions use them as the help says, and losses are those of the given schedule."""
    for count in (1, 2, 3, 4):
        before = groups()
        stages, alone = stages_of("wave", rank, ranks, group), stages_of("wave", rank, ranks, group)
        given, adapted = made("ZBVZeroBubble", alone, MICROBATCHES), slackline.adapt(made("ZBVZeroBubble", stages, MICROBATCHES), communicators=count)
        if rank == 0:
            decider = adapted._agent.leader.decider
            decider.observe = lambda steps: decider._swap([decider.running], decider.split, steps[0], None, None, "on purpose") if decider._versions == 0 else None
        for step in range(12):
            if stepped(adapted, stages, step, MICROBATCHES) != stepped(given, alone, step, MICROBATCHES):
                return f"{count} communicators, step {step}: other losses"
        found = [name for name in groups() if name not in before]
        if len(found) != count - 1 or adapted._agent.swap_ms == []:
            return f"{count} communicators: groups {found} after {len(adapted._agent.swap_ms)} swaps"
        adapted._agent.kept.adapted = True  # as during its steps
        used = {}
        for stage in stages:
            for kind, ops in (("F", stage.get_fwd_recv_ops(0)), ("B", stage.get_bwd_recv_ops(0))):
                for one in (op for op in ops if op.peer != rank):
                    used.setdefault((kind, one.peer < rank), set()).add(id(one.group))
        adapted._agent.kept.adapted = False
        of = {key: value.pop() for key, value in used.items() if len(value) == 1}
        if of != {key: of.get(key) for key in used}:
            return f"{count} communicators: several groups for a kind in a direction: {used}"
        apart = {1: lambda key: 0, 2: lambda key: key[0], 3: lambda key: key if key[0] == "F" else "B", 4: lambda key: key}[count]
        wrong = [(a, b) for a in of for b in of if (of[a] == of[b]) != (apart(a) == apart(b))]
        if wrong or rank == 1 and len(of) != 4 or count == 1 and set(of.values()) != {id(group)}:
            return f"{count} communicators: {wrong} of {sorted(of)}"
    return ""


def exactly(rank, ranks, group, where):
    """After a swap to the fewest communicators, a step has the plan's messages and no others: one per microbatch, link and kind, each kind in its group."""
    adapted, counts = slackline.adapt(made("1F1B", stages_of("linear", rank, ranks, group), MICROBATCHES)), {}
    if rank == 0:
        decides(adapted, ranks)

    def counting(name):
        original = getattr(dist, name)

        def count(*arguments, **options):
            counts[name, options["group"]] = counts.get((name, options["group"]), 0) + 1
            return original(*arguments, **options)
        return original, count
    stages = adapted._stages
    for step in range(14):
        stepped(adapted, stages, step, MICROBATCHES)
    replaced = {name: counting(name) for name in ("isend", "irecv")}
    for name, (_, count) in replaced.items():
        setattr(dist, name, count)
        setattr(dist.distributed_c10d, name, count)  # pipelining uses both names
    try:
        stepped(adapted, stages, 14, MICROBATCHES)
    finally:
        for name, (original, _) in replaced.items():
            setattr(dist, name, original)
            setattr(dist.distributed_c10d, name, original)
    groups_of = adapted._agent.kept.groups
    if groups_of is None or adapted.adaptation.swap_ms == []:
        return "no swap"
    of = {kind: groups_of(kind, True) or group for kind in "FB"}
    before, after = MICROBATCHES * (rank > 0), MICROBATCHES * (rank < ranks - 1)  # messages to or from each neighbor, of each kind
    wanted = {("isend", "F"): after, ("irecv", "F"): before, ("isend", "B"): before, ("irecv", "B"): after}
    found = {(name, kind): counts.get((name, of[kind]), 0) for name, kind in wanted}
    others = {dist.distributed_c10d._world.pg_names.get(one, str(one)) for _, one in counts if one not in of.values()}
    return "" if found == wanted and of["F"] is not of["B"] and all("slackline-control" in one for one in others) else f"{found}, wanted {wanted}; others {others}"


def failing(rank, ranks, group, where):
    """A rank that cannot make a group: all keep the order, and rank 1 warns; then the first rank does, and asks for no more."""
    agreement.PATIENCE_S, make = 2.0, adapting.new_group
    stages, alone = stages_of("linear", rank, ranks, group), stages_of("linear", rank, ranks, group)
    given, adapted = made("1F1B", alone, MICROBATCHES), slackline.adapt(made("1F1B", stages, MICROBATCHES))

    def broken(round, members, backend, what, timeout):
        raise OSError("on purpose")
    if rank == 1:
        adapting.new_group = broken
    if rank == 0:
        decides(adapted, ranks)
    before = str(adapted.pipeline_order)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(14):
                if stepped(adapted, stages, step, MICROBATCHES) != stepped(given, alone, step, MICROBATCHES):
                    return f"step {step}: other losses"
            time.sleep(0.2)
    finally:
        agreement.PATIENCE_S, adapting.new_group = 30.0, make
    said = [str(one.message) for one in caught if "slackline" in str(one.message)]
    if str(adapted.pipeline_order) != before or adapted._agent.kept.groups is not None or adapted.adaptation.active:
        return "the order changed, or a group is used, or it goes on"
    return "" if len(said) == 1 and (rank != 1 or "on purpose" in said[0]) else f"warnings: {said}"


CASES = {"never": (never, 3), "once": (once, 3), "1 to 4": (numbered, 3), "exactly the plan's messages": (exactly, 3), "a rank that cannot": (failing, 3)}


def test_groups_are_made_when_a_plan_needs_them():
    judged(os.path.abspath(__file__), 3, CASES)
