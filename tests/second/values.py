# SPDX-License-Identifier: Apache-2.0
"""A second opinion on what a plan says of its times: makespan, span, work, warm-up, slack, memory, losses, and the period of an order that
repeats. From docs/formats.md and docs/theory.md, like reference.py."""
import collections

from reference import Op, Replay


def last_end(replay):
    """Of the last op or reduction."""
    return max([*replay.end.values(), *(end for _, name, _, _, end in replay.collectives if name == "reduce")])


def makespan(problem, replay):
    """From the first F, which the gathers of its stage may precede."""
    return last_end(replay) - min(replay.start[op] for op in replay.start if op.kind == "F")


def span(problem, replay):
    """Of the rank that takes longest from its first op to its last one."""
    return max((replay.end[row[-1][0]] - replay.start[row[0][0]] for row in replay.order if row), default=0)


def work(problem, order):
    """Of each rank."""
    return [sum(problem.busy(block) for block in row) for row in order]


def warmup(order):
    """Of each rank: forwards before its first backward."""
    counts = []
    for row in order:
        kinds = [op.kind for block in row for op in block if op.part == 0]
        first = next((at for at, kind in enumerate(kinds) if kind in "IB"), len(kinds))
        counts.append(kinds[:first].count("F"))
    return counts


def tolerance(problem, order, rank):
    """Of the link between a rank and the next one, in linear placement: the largest c with tF + tI + 2c <= slack * (tF' + tI'); tB for tI if the
    link's first rank runs a B."""
    with_b = any(op.kind == "B" for block in order[rank] for op in block)

    def loop(rank):
        return sum(problem.whole(Op(rank, kind, 0)) for kind in ("FB" if with_b else "FI"))
    warm = warmup(order)
    return max(0, ((warm[rank] - warm[rank + 1]) * loop(rank + 1) - loop(rank)) // 2)


def memory_changes(problem, replay, rank):
    """[(time, change)] of a rank: F takes at its start, the others change at their end, and I and B take I_start at their start. F of a stage
    that recomputes keeps only `input`, until I or B starts. An op in parts starts with its first one and ends with its last one."""
    changes = []
    for op, end in replay.end.items():
        if problem.rank(op.stage) == rank and op.part == problem.parts - 1:
            start, stage = replay.start[op._replace(part=0)], op.stage
            again = problem.delta["F"][stage] - problem.input[stage] if problem.recompute[stage] else 0
            if op.kind == "F":
                changes.append((start, problem.delta["F"][stage] - again))
            else:
                changes.append((end, problem.delta[op.kind][stage]))
            if op.kind in "IB":
                changes.append((start, problem.at_start[stage] + again))
    return changes


def highest(changes):
    """The most that is held of [(time, change)], from 0 on. Releases at an instant count before acquisitions, so what is held after both is the
    most of that instant."""
    at = collections.defaultdict(float)
    for time, change in changes:
        at[time] += change
    held = most = 0
    for time in sorted(at):
        held += at[time]
        most = max(most, held)
    return most


def peak_memory(problem, replay, rank):
    return problem.fixed[rank] + problem.buffer_memory + highest(memory_changes(problem, replay, rank))


def lost(problem, order, ends, replay):
    """(dependency, blocking)."""
    free = makespan(problem, Replay(problem, order, None, "decoupled", free_links=True))
    decoupled = makespan(problem, Replay(problem, order, None, "decoupled"))
    return decoupled - free, makespan(problem, replay) - decoupled


# ---- the period ----


def waits(problem, order):
    """[(before, after, time, iterations)]: `after` begins no earlier than so long after `before` of so many iterations earlier. Nodes are
    blocks (rank, position), messages on their link and their issue, and collectives."""
    found, block_of = [], {op: (rank, at) for rank, row in enumerate(order) for at, block in enumerate(row) for op in block}
    update = problem.synchronization == "update"

    def chain(nodes):
        """One after another, the last before the first of the next iteration. [(node, how long it takes)]"""
        for (node, takes), (following, _) in zip(nodes, nodes[1:]):
            found.append((node, following, takes, 0))
        if nodes:
            found.append((nodes[-1][0], nodes[0][0], nodes[-1][1], 1))

    sends, wires = collections.defaultdict(list), collections.defaultdict(list)
    for rank, row in enumerate(order):
        blocks = [((rank, at), problem.busy(block)) for at, block in enumerate(row)]
        chain(blocks)
        for at, block in enumerate(row):
            following = blocks[(at + 1) % len(row)][0], at + 1 == len(row)
            for op in block:
                for message in problem.sent(op):
                    link = problem.link[message.sender, message.receiver]
                    found.append(((rank, at), ("issue", message), blocks[at][1], 0))
                    found.append((("issue", message), ("move", message), 0, 0))
                    if problem.regime == "inorder":
                        found.append((("issue", message), following[0], 0, int(following[1])))
                    if problem.regime == "batched":
                        found.append((("move", message), following[0], link.transfer + link.latency, int(following[1])))
                    sends[message.sender, message.receiver].append(message)
                    wires[message.sender, message.receiver].append(message)
                for message in problem.received(op):
                    link = problem.link[message.sender, message.receiver]
                    found.append((("move", message), (rank, at), link.transfer + link.latency, 0))
        _collectives(problem, rank, row, blocks, chain, found, update)
    for way, messages in wires.items():
        chain([(("move", message), problem.link[way].transfer) for message in messages])
    if problem.regime == "inorder":
        for way, messages in sends.items():
            for at, message in enumerate(messages):
                later = at + problem.queue
                found.append((("move", message), ("issue", messages[later % len(messages)]), problem.link[way].transfer + problem.link[way].latency,
                              later // len(messages)))
    return found


def _collectives(problem, rank, row, blocks, chain, found, update):
    first, last = {}, {}
    for at, block in enumerate(row):
        for op in block:
            if op.kind == "F":
                first.setdefault(op.stage, at)
            if op.kind in "WB":
                last[op.stage] = at
    gathers = [stage for stage in sorted(first, key=first.get) if problem.gather[stage]]
    reductions = [stage for stage in sorted(last, key=last.get) if problem.reduce[stage]]
    chain([(("gather", stage), problem.gather[stage]) for stage in gathers] + [(("reduce", stage), problem.reduce[stage]) for stage in reductions])
    for stage in gathers:
        found.append((("gather", stage), (rank, first[stage]), problem.gather[stage], 0))
    if gathers:
        found.append((blocks[-1][0], ("gather", gathers[0]), blocks[-1][1], 1))
    for stage in reductions:
        found.append(((rank, last[stage]), ("reduce", stage), blocks[last[stage]][1], 0))
        if update:
            found.append((("reduce", stage), (rank, first[stage]), problem.reduce[stage], 1))


def keeps(found, period):
    """Whether the order can repeat every `period`: the earliest times that keep all waits exist, so no circle of waits takes longer than its
    iterations. They are found by putting off what is too early, at most as often as there are nodes."""
    times = {node: 0 for before, after, _, _ in found for node in (before, after)}
    for _ in range(len(times) + 1):
        moved = False
        for before, after, takes, iterations in found:
            earliest = times[before] + takes - period * iterations
            if times[after] < earliest:
                times[after], moved = earliest, True
        if not moved:
            return True
    return False


def period(problem, order, replay):
    """In whole ns, rounded up. With a norm, an iteration is over before the next one begins."""
    if problem.synchronization == "norm":
        return last_end(replay)
    found = waits(problem, order)
    low, high = 0, sum(takes for _, _, takes, _ in found)  # low: too short
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(found, middle) else (middle, high)
    return high


def value(problem, order, replay):
    if problem.objective == "period":
        return period(problem, order, replay)
    return makespan(problem, replay) if problem.objective == "makespan" else span(problem, replay)
