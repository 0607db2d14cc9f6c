# SPDX-License-Identifier: Apache-2.0
"""One random case each, of a kind: the tool's answer next to that of the reference. A try returns what it tried (None: nothing came of it) and
what is wrong."""
import collections
import json
import os
import random
import re

import asked
import cases
import comparing
import exhaustive
import interleavings
import moves
import values
from calling import run, write
from reference import Op, Problem, Replay, check, check_ends, ns, pytorch_ends
from runner import expect

FAMILIES = {"linear": ("gpipe", "1f1b", "zb-h1", "zb-h2", "adaptra", "zb-auto", "cross-ud-sub"), "bidirectional": ("gpipe", "chimera"),
            "loop": ("gpipe", "interleaved-1f1b", "zb-auto"), "wave": ("gpipe", "zb-v", "dualpipe-v", "zb-auto")}


def drawn(rng, most_blocks=60):
    placement, regime = rng.choice(cases.PLACEMENTS), rng.choice(cases.REGIMES)
    return f"{placement} {regime}", cases.problem(rng, placement, regime, most_blocks)


def shown(said, problem, rows, ends=None):
    return json.dumps({"pipeline": said}) + "\n" + cases.csv(problem, rows, ends)


def order(rng):
    """A valid order, often with parts, pairs or an order of issue of its own: all of its times, memory and values."""
    name, said = drawn(rng)
    if rng.random() < 0.1:
        said["parts"] = rng.choice((2, 3))
    problem = Problem(said)
    rows = cases.order(rng, problem)
    ends = None
    if problem.regime == "fifo" and problem.parts == 1 and rng.random() < 0.4:
        ends = cases.ends(rng, problem, rows)
    handle = asked.problem(said)
    plan = asked.simulated_ops(handle, rows) if problem.parts > 1 else asked.simulated(handle, cases.csv(problem, rows, ends))
    asked.free(handle)
    if problem.regime == "fifo" and ends is None:
        ends = pytorch_ends(problem, rows)
    why = check(problem, rows) or ends and check_ends(problem, rows, ends)
    if why:
        name += ", sends and receives that are wrong"
        wrong = [] if isinstance(plan, str) else [f"accepted: {why}"]
    else:
        replay = Replay(problem, rows, ends)
        if replay.stuck or isinstance(plan, str):
            name += ", a deadlock"
            stops = isinstance(plan, str) and "deadlock" in plan
            wrong = [] if replay.stuck and stops else [f"{'stuck' if replay.stuck else 'valid'} here, there: {plan}"]
        else:
            wrong = comparing.differences(problem, rows, ends, replay, plan)
    return name, wrong, shown(said, problem, rows, ends)


def spoiled(rng):
    """An order with one or two mistakes, which may have left it valid."""
    name, said = drawn(rng)
    said["parts"] = rng.choice((1, 1, 1, 2))
    problem = Problem(said)
    rows = cases.order(rng, problem)
    for _ in range(rng.choice((1, 1, 2))):
        rows = cases.spoiled(rng, problem, rows)
    handle = asked.problem(said)
    plan = asked.simulated_ops(handle, rows) if problem.parts > 1 else asked.simulated(handle, cases.csv(problem, rows))
    asked.free(handle)
    why = check(problem, rows)
    if not why and problem.regime == "fifo":
        why = check_ends(problem, rows, pytorch_ends(problem, rows))
    refused = isinstance(plan, str)
    wrong = [f"here {why or 'valid'}, there {plan if refused else 'accepted'}"] if bool(why) != refused else []
    if why == "deadlock" and "deadlock" not in str(plan):
        wrong.append(f"a deadlock, there {plan}")
    return "valid" if not why else "a deadlock" if why == "deadlock" else "invalid", wrong, shown(said, problem, rows)


def moved(rng):
    """An order that needs more memory than there is, with host memory."""
    name, said = drawn(rng)
    problem = Problem(said)
    rows = cases.order(rng, problem)
    ends = pytorch_ends(problem, rows) if problem.regime == "fifo" else None
    if ends and check_ends(problem, rows, ends):
        return None, [], ""
    replay = Replay(problem, rows, ends)
    needed = [values.peak_memory(problem, replay, rank) for rank in range(problem.ranks)]
    held = said.setdefault("memory", {"delta": {"F": 1, "I": 0, "W": -1}})
    least = held.get("fixed", 0) + problem.buffer_memory
    held.update(limit=[max(least, int(most * rng.uniform(0.5, 1.1) * 2) / 2) for most in needed], host_limit=rng.choice((1, 2, 4, 100)),
                offload_ms=rng.choice((0.5, 1, 2, 5)))
    problem = Problem(said)
    handle = asked.problem(said)
    plan = asked.simulated(handle, cases.csv(problem, rows))
    asked.free(handle)
    if isinstance(plan, str):
        return name, [plan], shown(said, problem, rows)
    wrong, _ = moves.judged(problem, rows, ends, plan)
    return name + (", moves" if moves.moves_of(plan) else ""), wrong, shown(said, problem, rows)


def plan(rng):
    """A plan of a family or of a short search: its order is valid, within the limits, and its times are right."""
    name, said = drawn(rng)
    if rng.random() < 0.2:
        said["parts"] = 2
    if "limit" in said.get("memory", {}) and rng.random() < 0.5:
        said["memory"].update(host_limit=rng.choice((1, 2, 5)), offload_ms=rng.choice((0.5, 1, 3)))
    if rng.random() < 0.1:
        cases.into_layers(rng, said)
    family = rng.choice(("auto", *FAMILIES[said["placement"]]))
    handle = asked.problem(said)
    found = asked.planned(handle, family)
    asked.free(handle)
    if isinstance(found, str):
        return None, [], ""
    plan, rows = found
    problem = Problem(cases.cut(said, plan["cut"]) if "layers" in said else said)
    ends = asked.issued(problem, rows, plan) if problem.regime == "fifo" else None
    why = check(problem, rows) or ends and check_ends(problem, rows, ends)
    if why:
        wrong = [why]
    elif "peak_host" in plan:
        wrong, fits = moves.judged(problem, rows, ends, plan)
        wrong += [] if fits else ["over the limits"]
    else:
        replay = Replay(problem, rows, ends)
        wrong = comparing.differences(problem, rows, ends, replay, plan) + ([] if plan["memory_ok"] else ["over the limit"])
    return f"{name}, {family}" + (", layers" if "layers" in said else ""), wrong, shown(said, problem, rows)


def best(rng):
    """The best of all orders of a tiny problem: no bound is above it, and no plan below."""
    while True:
        placement, regime = rng.choice(cases.PLACEMENTS), rng.choice(("decoupled", "inorder", "batched"))
        said = cases.problem(rng, placement, regime, 12)
        problem = Problem(said)
        backwards = max(sum(len(problem.microbatches_of(stage)) for stage in range(problem.stages) if problem.rank(stage) == rank)
                        for rank in range(problem.ranks))
        if (backwards, problem.ranks) in ((3, 1), (2, 1), (2, 2), (1, 2), (1, 3), (1, 4)):
            break
    if rng.random() < 0.5 and "limit" not in said.get("memory", {}):
        held = said.setdefault("memory", {"delta": {"F": 1, "I": 0, "W": -1}})
        held["limit"] = held.get("fixed", 0) + rng.choice((1, 2, 3, 4))
    problem = Problem(said)
    if any(limit < fixed for limit, fixed in zip(problem.limit, problem.fixed)):
        return None, [], ""
    handle = asked.problem(said)
    found = asked.planned(handle, "auto", 0.05)
    asked.free(handle)
    least, rows = exhaustive.least(problem)
    text = json.dumps({"pipeline": said}) + (f"\n{cases.csv(problem, rows)}" if rows else "")
    if isinstance(found, str):
        return f"{regime}, " + ("no order fits" if least is None else "an order fits, none was found"), [], text
    plan, _ = found
    value, bound = ns(plan["value_ms"]), ns(plan["lower_bound_ms"])
    wrong = [] if least is not None and bound <= least <= value else [f"best of all orders {least}, plan {value}, bound {bound}"]
    name = f"{regime}, " + ("overlapping, " if any(problem.saved) else "")
    return name + ("reached" if value == least else "not reached") + (", the bound too" if bound == least else ""), wrong, text


def interleaved(rng):
    """Whether the ranks of a small order in regime fifo can stop: in all ways in which they can get ahead of each other."""
    while True:
        placement = rng.choice(cases.PLACEMENTS)
        name = rng.choice(cases.REGIMES[3:])
        said = cases.problem(rng, placement, name, 24)
        problem = Problem(said)
        rows = cases.order(rng, problem)
        ends = cases.ends(rng, problem, rows)
        if not check_ends(problem, rows, ends) and any(ends):
            break
    found = interleavings.outcomes(problem, rows, ends, 4000)
    if found is None:
        return None, [], ""
    handle = asked.problem(said)
    plan = asked.simulated(handle, cases.csv(problem, rows, ends))
    asked.free(handle)
    stops = isinstance(plan, str) and "deadlock" in plan
    alike = found == {not stops} == {not Replay(problem, rows, ends).stuck}
    wrong = [] if alike else [f"all ways {found}, there: {plan if isinstance(plan, str) else 'runs'}"]
    return f"{placement} {name}, " + ("stops" if stops else "runs"), wrong, shown(said, problem, rows, ends)


def checked(rng):
    """`slackline check`: which kinds of communicators can stop with an order."""
    while True:
        placement = rng.choice(cases.PLACEMENTS)
        said = cases.problem(rng, placement, "fifo pair", 24)
        said["communication"] = {"regime": "fifo", "communicators": "pair"}
        problem = Problem(said)
        rows = cases.order(rng, problem)
        ends = cases.ends(rng, problem, rows)
        if not check_ends(problem, rows, ends) and problem.ranks > 1:
            break
    text = shown(said, problem, rows, ends)
    done = run("check", write("order.csv", cases.csv(problem, rows, ends)), write("problem.yaml", json.dumps({"pipeline": said})), "--format", "json")
    here = {kind: Replay(Problem({**said, "communication": {"regime": "fifo", "communicators": kind}}), rows, ends).stuck
            for kind in ("pipeline", "pair", "direction", "kind")}
    wrong = []
    if done.stdout:
        there = {regime["communicators"]: bool(regime["deadlock"]) for regime in json.loads(done.stdout)["regimes"] if regime["regime"] == "fifo"}
        wrong += [f"stops here {here}, there {there}"] if here != there else []
    wrong += [f"exit {done.returncode}: {done.stderr}"] if done.returncode != here["pair"] else []
    return f"{placement}, stops with {', '.join(kind for kind in here if here[kind]) or 'none'}", wrong, text


# ---- many cases ----


def block(text):
    """A cell such as 0F7, or (0F7;3B2) as a block."""
    return tuple(Op(int(stage), kind, int(microbatch)) for stage, kind, microbatch in re.findall(r"(\d+)([FIWB])(\d+)", text))


def agree(one, count, asked_by="SL_CASES"):
    """Tries so many cases and prints what was tried. None may differ, and most must have been possible."""
    count, seed = int(os.environ.get(asked_by, count)) if asked_by else count, int(os.environ.get("SL_SEED", 1))
    tried, wrong = collections.Counter(), []
    for number in range(count):
        name, found, text = one(random.Random(f"{one.__name__} {seed} {number}"))
        if name:
            tried[name] += 1
        if found:
            wrong.append(f"{one.__name__} {number}, {name}:\n{text}" + "\n".join(map(str, found[:4])))
    print(f"{one.__name__}: {sum(tried.values())} of {count} cases, SL_SEED={seed}", *(f"{times:8} {name}" for name, times in sorted(tried.items())),
          sep="\n", flush=True)
    expect(not wrong, f"{len(wrong)} differ\n" + "\n\n".join(wrong[:5]))
    expect(sum(tried.values()) >= count / 4, f"only {sum(tried.values())} of {count} cases could be tried")
    return tried
