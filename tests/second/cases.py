# SPDX-License-Identifier: Apache-2.0
"""Random problems and orders, valid and invalid, for the second opinion: a problem as the dict of a file's `pipeline`, an order as rows of
blocks (reference.py) and as the CSV that the tool reads. Half of the problems have times of whole ms, where much happens at one instant."""
from reference import End, Op, Problem, check, per, pytorch_ends

PLACEMENTS = ("linear", "loop", "wave", "bidirectional")
TASTES = {"any": {"F": 1, "I": 1, "B": 1, "W": 1}, "backward first": {"F": 1, "I": 8, "B": 8, "W": 0.3}, "forward first": {"F": 8, "I": 2, "B": 2, "W": 1}}
REGIMES = ("decoupled", "inorder", "batched", "fifo pipeline", "fifo pair", "fifo direction", "fifo kind")


def problem(rng, placement, regime, most_blocks=60):
    """A problem of a placement and a regime, small enough to be replayed quickly."""
    while True:
        ranks, laps = rng.choice((1, 2, 2, 3, 3, 4, 5)), rng.choice((1, 2, 2, 3)) if placement in ("loop", "wave") else 1
        stages = 2 * ranks if placement == "bidirectional" else laps * ranks
        microbatches = rng.randint(1, 6)
        if 3 * stages * microbatches <= most_blocks * (2 if placement == "bidirectional" else 1):
            break
    fine = rng.random() < 0.5

    def time(least=0.0, most=5.0):
        return rng.randint(int(least * 1000), int(most * 1000)) / 1000 if fine else float(rng.randint(int(least), int(most)))

    def times(least=1.0):
        return [time(least) for _ in range(stages)] if rng.random() < 0.5 else time(least)

    least = 0.0 if rng.random() < 0.15 else 1.0  # an op may take no time
    said = {"ranks": ranks, "microbatches": microbatches, "placement": placement, "stages": stages,
            "times_ms": {kind: times(least) for kind in "FIW"}, "communication": regime if " " not in regime else {}}
    if rng.random() < 0.3:
        said["times_ms"]["B"] = times(least)
    if rng.random() < 0.2:  # less than F and B one after the other
        held = said["times_ms"]
        split = [i + w for i, w in zip(per(held["I"], stages), per(held["W"], stages))]
        full = per(held.get("B", split), stages)
        held["FB"] = [round(max(f, b) + rng.choice((0, 0.25, 0.5, 1)) * min(f, b), 3) for f, b in zip(per(held["F"], stages), full)]
    if rng.random() < 0.2:
        said["recompute"] = [rng.random() < 0.5 for _ in range(stages)] if rng.random() < 0.7 else True
    if rng.random() < 0.2:
        said["overhead_ms"] = {"op": time(0, 2), "message": time(0, 2)}
    sized = regime.startswith("fifo") and rng.random() < 0.4
    said["links"] = links(rng, ranks, time, sized)
    if rng.random() < 0.4:
        said["memory"] = memory(rng, ranks, stages)
    if rng.random() < 0.3:
        said["data_parallel"] = collectives(rng, stages, times, time)
    if regime == "inorder":
        said["queue"] = rng.choice((1, 1, 2, 3))
    if regime.startswith("fifo"):
        said["communication"] = {"regime": "fifo", "communicators": regime.split()[1]}
        if sized:
            said["communication"]["eager_kb"] = rng.choice((0, 500, 1000, 2000, 100000))
        if rng.random() < 0.2:
            said["communication"]["receive_buffers"] = rng.choice((2, 3, 9))
            if "limit" not in said.get("memory", {}):
                said["communication"]["receive_memory"] = rng.choice((0, 0.25))
    said["objective"] = rng.choice(("makespan", "makespan", "span", "period"))
    if said["objective"] == "period":
        norm = regime.startswith("fifo") or "shared" in said["links"]
        said["synchronization"] = "norm" if norm else rng.choice(("none", "update", "norm"))
    return said


def links(rng, ranks, time, sized):
    def item():
        if sized:  # half, one or more MB
            return {"latency_ms": time(), "bandwidth_gbps": rng.choice((4, 8, 16)), "message_mb": rng.choice((0.5, 1, 1.5, 2, 3))}
        return rng.choice(({"latency_ms": time(0, 9)}, {"transfer_ms": time()}, {"latency_ms": time(), "transfer_ms": time()},
                           {"latency_ms": time(), "bandwidth_gbps": 8, "message_mb": time()}, {}))
    said = {"default": item()}
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    if pairs and rng.random() < 0.6:
        said["list"] = []
        for pair in rng.sample(pairs, rng.randint(1, min(len(pairs), 4))):
            if rng.random() < 0.5:
                said["list"].append({"between": list(pair), "one_way": True, **item()})
            elif all(set(pair) != set(other["between"]) for other in said["list"]):
                said["list"].append({"between": list(pair), **item()})
        named = [tuple(other["between"]) for other in said["list"]]
        named += [(b, a) for (a, b), other in zip(list(named), said["list"]) if not other.get("one_way")]
        if len(set(named)) < len(named):  # a link twice
            del said["list"]
    if len(pairs) > 2 and rng.random() < 0.3:
        ways = [(a, b) if rng.random() < 0.7 else (b, a) for a, b in pairs if a < b]
        rng.shuffle(ways)
        cut = rng.randint(2, len(ways))
        said["shared"] = [{"name": "one", "links": [list(way) for way in ways[:cut]]}]
        if len(ways) - cut > 1:
            said["shared"].append({"name": "two", "links": [list(way) for way in ways[cut:]]})
    return said


def memory(rng, ranks, stages):
    def amount(least, most):
        whole = [rng.randint(4 * least, 4 * most) / 4 for _ in range(stages)]
        return whole if rng.random() < 0.5 else whole[0]
    delta = {"F": amount(1, 4)}
    if rng.random() < 0.6:
        delta.update(I=amount(-1, 1), W=amount(-3, 0))
    if rng.random() < 0.3:
        delta["B"] = amount(-4, 0)
    if rng.random() < 0.3:
        delta["I_start"] = amount(0, 2)
    if rng.random() < 0.5:
        delta["input"] = amount(0, 1)
    said = {"delta": delta}
    if rng.random() < 0.5:
        said["limit"] = [rng.randint(8, 60) / 2 for _ in range(ranks)] if rng.random() < 0.5 else rng.randint(8, 60) / 2
    if rng.random() < 0.3:
        said["fixed"] = rng.randint(0, 4)
    return said


def collectives(rng, stages, times, time):
    if rng.random() < 0.3:
        replicas = rng.choice((2, 4))
        return {"replicas": replicas, "volume_mb": [replicas * time(0, 3) for _ in range(stages)], "latency_ms": [time(0, 2) for _ in range(replicas)],
                "bandwidth_gbps": rng.choice((8, 4)), "zero": rng.choice((0, 1))}
    said = {}
    if rng.random() < 0.7:
        said["reduce_ms"] = times(0)
    if rng.random() < 0.7:
        said["gather_ms"] = times(0)
    return said


def into_layers(rng, said):
    """Layers instead of stages."""
    stages, ranks = said["stages"], said["ranks"]
    count = stages + rng.randint(0, 3)

    def each(least, most, step=1):
        return [rng.randint(least, most) * step for _ in range(count)]
    del said["times_ms"]
    said.pop("recompute", None)
    said["layers"] = {"count": count, "times_ms": {kind: each(1, 5) for kind in "FIW"},
                      "delta": {"F": each(1, 4, 0.25), "I": each(-1, 1, 0.25), "W": each(-3, 0, 0.25)},
                      "weights": each(0, 2), "speed": [rng.choice((0.5, 1, 2)) for _ in range(ranks)]}
    for key in ("delta", "fixed"):
        said.get("memory", {}).pop(key, None)
    if isinstance(said["communication"], dict):
        said["communication"].pop("receive_memory", None)


def cut(said, first):
    """A problem of layers, with its stages: from each one's first layer to that of the next. Both directions have the same cut."""
    said = {**said, "memory": dict(said.get("memory", {}))}
    layers = said.pop("layers")
    place = Problem({**said, "times_ms": dict.fromkeys("FIW", 1)})
    parts = list(zip(first, first[1:])) * (2 if place.placement == "bidirectional" else 1)

    def total(each):
        return [sum(each[begin:end]) for begin, end in parts]
    said["times_ms"] = {kind: [time / layers["speed"][place.rank(stage)] for stage, time in enumerate(total(each))]
                        for kind, each in layers["times_ms"].items()}
    said["memory"]["delta"] = {kind: total(each) for kind, each in layers["delta"].items()}
    said["memory"]["fixed"] = [fixed + sum(weights for stage, weights in enumerate(total(layers["weights"])) if place.rank(stage) == rank)
                               for rank, fixed in enumerate(place.fixed)]
    return said


# ---- orders ----


def order(rng, problem):
    """A valid order: ranks take turns at random, each with one of the ops whose needs have run, by a taste of its own."""
    taste = rng.choice(("any", "any", "backward first", "forward first", "full backward", "mixed"))
    full = {"full backward": 1.0, "mixed": 0.5, "any": rng.choice((0, 0, 0.5, 1))}.get(taste, 0)
    todo = [[] for _ in range(problem.ranks)]
    for stage in range(problem.stages):
        for microbatch in problem.microbatches_of(stage):
            for kind in "FB" if rng.random() < full else "FIW":
                todo[problem.rank(stage)] += [[Op(stage, kind, microbatch, part) for part in range(problem.parts)]]
    rows, ended = [[] for _ in todo], set()
    ascending = rng.random() < 0.7
    while any(todo):
        rank = rng.choice([rank for rank, left in enumerate(todo) if left])
        ready = [ops for ops in todo[rank]
                 if all(any((stage, kind, microbatch) in ended for kind in kinds) for stage, kinds, microbatch in problem.needs(ops[0]))]
        if not ready:
            continue
        if ascending:  # the lowest microbatch of each stage and kind
            ready = [ops for ops in ready if all(other[0][:2] != ops[0][:2] or other[0].microbatch >= ops[0].microbatch for other in ready)]
        ops = rng.choices(ready, [TASTES.get(taste, TASTES["any"])[ops[0].kind] for ops in ready])[0]
        rows[rank].append((ops.pop(0),))
        if not ops:
            todo[rank].remove(ops)
            ended.add(tuple(rows[rank][-1][0][:3]))
    return overlapped(rng, problem, rows) if rng.random() < 0.3 and problem.parts == 1 else rows


def overlapped(rng, problem, rows):
    """Some F and the B after it as one block, where the order stays valid."""
    for row in rows:
        at = 0
        while at + 1 < len(row):
            first, second = row[at][0], row[at + 1][0]
            if first.kind == "F" and second.kind == "B" and len(row[at]) == len(row[at + 1]) == 1 and rng.random() < 0.5:
                kept = row[at:at + 2]
                row[at:at + 2] = [(first, second)]
                if check(problem, rows):
                    row[at:at + 1] = kept
            at += 1
    return rows


def ends(rng, problem, rows):
    """Another order of issue: PyTorch's, with some sends later and some receives earlier or later. It may be invalid or stop."""
    changed = [list(row) for row in pytorch_ends(problem, rows)]
    for row in changed:
        for _ in range(rng.randint(0, 3)):
            if len(row) > 1:
                at = rng.randrange(len(row) - 1)
                if rng.random() < 0.5:  # swaps two
                    row[at], row[at + 1] = End(*row[at + 1][:2], row[at].after), End(*row[at][:2], row[at + 1].after)
                else:  # moves one along the ops
                    least = row[at - 1].after if at else 0
                    row[at] = row[at]._replace(after=rng.randint(least, row[at + 1].after))
    return changed


def spoiled(rng, problem, rows):
    """One change, which may leave the order valid: an op lost, doubled, moved, renamed or on another rank."""
    rows = [list(row) for row in rows]
    rank = rng.choice([rank for rank, row in enumerate(rows) if row])
    row = rows[rank]
    at, to = rng.randrange(len(row)), rng.randrange(len(row))
    how = rng.choice(("lost", "doubled", "moved", "moved", "moved", "swapped", "swapped", "renamed", "elsewhere"))
    if how == "lost":
        del row[at]
    elif how == "doubled":
        row.insert(to, row[at])
    elif how == "moved":
        row.insert(to, row.pop(at))
    elif how == "swapped":
        row[at], row[to] = row[to], row[at]
    elif how == "renamed":
        op = row[at][0]
        row[at] = (rng.choice((op._replace(kind=rng.choice("FIWB")), op._replace(microbatch=rng.randrange(problem.microbatches)),
                               op._replace(stage=rng.randrange(problem.stages)))), *row[at][1:])
    else:
        other = rng.choice(rows)
        other.insert(rng.randint(0, len(other)), row.pop(at))
    return rows


# ---- as CSV ----


def csv(problem, rows, ends=None):
    lines = []
    for rank, row in enumerate(rows):
        cells = [[] for _ in range(len(row) + 1)]
        for end in ends[rank] if ends else ():
            stage = end.message.stage if end.way == "S" else end.message.stage + (1 if end.message.kind == "F" else -1)
            cells[end.after].append(f"{stage}{'SEND' if end.way == 'S' else 'RECV'}_{end.message.kind}{end.message.microbatch}")
        line = list(cells[0])
        for block, after in zip(row, cells[1:]):
            names = [f"{op.stage}{op.kind}{op.microbatch}" for op in block]
            line += [names[0] if len(names) == 1 else f"({names[0]};{names[1]})OVERLAP_F_B", *after]
        lines.append(",".join(line))
    return "\n".join(lines) + "\n"
