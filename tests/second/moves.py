# SPDX-License-Identifier: Apache-2.0
"""A second opinion on moves of activations to host memory. Which activation moves when is the tool's choice; that the moves of a plan are
possible, that no limit is exceeded, and that ops wait for nothing else, follows from docs/formats.md."""
import collections

import values
from reference import Op, Replay, ns


def moves_of(plan):
    """{(stage, microbatch): [(name, rank, start, end)]}, by start."""
    found = collections.defaultdict(list)
    for op in plan["ops"]:
        if op["op"] in ("offload", "fetch"):
            found[op["stage"], op["microbatch"]].append((ns(op["start_ms"]), ns(op["end_ms"]), op["op"], op["rank"]))
    return {key: [(name, rank, start, end) for start, end, name, rank in sorted(listed)] for key, listed in found.items()}


def judged(problem, order, ends, plan):
    """[what is wrong], and whether the plan is within the limits."""
    found, replay = _wrong(problem, order, ends, plan)
    if replay.stuck:
        return [*found, "stuck"], False
    most = [peaks(problem, replay, plan, rank) for rank in range(problem.ranks)]
    fits = all(device <= problem.limit[rank] and host <= problem.host_limit[rank] for rank, (device, host) in enumerate(most))
    for what, here, there in (("memory", [device for device, _ in most], plan["peak_memory"]),
                              ("host memory", [host for _, host in most], plan["peak_host"]), ("memory_ok", fits, plan["memory_ok"])):
        if here != there:
            found.append(f"{what}: {here}, there {there}")
    return found, fits


def _wrong(problem, order, ends, plan):
    """[what is wrong with the moves], and the replay in which no op starts before its time in the plan."""
    starts = {Op(op["stage"], op["op"], op["microbatch"], op.get("part", 0)): ns(op["start_ms"]) for op in plan["ops"] if op["op"] in "FIWB"}
    replay, moves, found = Replay(problem, order, ends, not_before=starts), moves_of(plan), []
    by_rank = collections.defaultdict(list)
    for (stage, microbatch), listed in moves.items():
        found += _wrong_moves(problem, replay, stage, microbatch, listed)
        for name, rank, start, end in listed:
            by_rank[rank].append((start, end))
            if end - start != problem.offload[stage] or rank != problem.rank(stage):
                found.append(f"{name} of stage {stage}, microbatch {microbatch} takes {end - start} on rank {rank}")
    for rank, listed in by_rank.items():
        listed.sort()
        found += [f"rank {rank} moves two at {after[0]}" for before, after in zip(listed, listed[1:]) if after[0] < before[1]]
    for op, start in starts.items():
        first = next(block[0] for block in order[problem.rank(op.stage)] if op in block)
        if replay.start.get(op) != start or start != replay.could[first] and all(end != start for _, end in by_rank[problem.rank(op.stage)]):
            found.append(f"{op} starts at {start}, could at {replay.could.get(first)}")
    return found, replay


def _wrong_moves(problem, replay, stage, microbatch, listed):
    """They go out and come back between two ops of the activation: F and I or B, or I and W; at most once each."""
    last = problem.parts - 1
    ops = [Op(stage, kind, microbatch) for kind in "FIWB" if Op(stage, kind, microbatch) in replay.start]
    gaps = [(replay.end[before._replace(part=last)], replay.start[after]) for before, after in zip(ops, ops[1:])]
    if [name for name, *_ in listed] != ["offload", "fetch"] * (len(listed) // 2) or not listed:
        return [f"moves of stage {stage}, microbatch {microbatch}: {listed}"]
    found = []
    for out, back in zip(listed[::2], listed[1::2]):
        fitting = [gap for gap in gaps if gap[0] <= out[2] and back[3] <= gap[1] and out[3] <= back[2]]
        if fitting:
            gaps.remove(fitting[0])
        else:
            found.append(f"moves of stage {stage}, microbatch {microbatch} fit between no two ops: {out}, {back}")
    return found


def kept(problem, replay, stage, microbatch, time):
    """The memory of an activation between two ops."""
    held = problem.input[stage] if problem.recompute[stage] else problem.delta["F"][stage]
    i = Op(stage, "I", microbatch, problem.parts - 1)
    if i in replay.end and replay.end[i] <= time:
        held = problem.delta["F"][stage] + problem.at_start[stage] + problem.delta["I"][stage]
    return held


def peaks(problem, replay, plan, rank):
    """(device, host): a move out takes host memory at its start and frees the device at its end, a fetch the other way around."""
    device, host = values.memory_changes(problem, replay, rank), []
    for (stage, microbatch), listed in moves_of(plan).items():
        for name, where, start, end in listed:
            if where == rank:
                size = kept(problem, replay, stage, microbatch, start)
                device.append((end, -size) if name == "offload" else (start, size))
                host.append((start, 1) if name == "offload" else (end, -1))
    return problem.fixed[rank] + problem.buffer_memory + values.highest(device), values.highest(host)
