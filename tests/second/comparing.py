# SPDX-License-Identifier: Apache-2.0
"""Where a plan's JSON says something else than the reference."""
import values
from reference import ns


def differences(problem, order, ends, replay, plan):
    """[(what, here, there)], empty if all is equal."""
    found = []

    def same(what, here, there):
        if here != there:
            found.append((what, here, there))

    times = {}
    for op in plan["ops"]:
        times[op["stage"], op["op"], op["microbatch"], op.get("part", 0)] = op["rank"], ns(op["start_ms"]), ns(op["end_ms"])
    here = {tuple(op): (problem.rank(op.stage), replay.start[op], replay.end[op]) for op in replay.end}
    here.update({(stage, name, -1, 0): (rank, start, end) for rank, name, stage, start, end in replay.collectives})
    for key in sorted(set(here) | set(times), key=lambda key: (here.get(key, (0, 0))[1], str(key))):
        same(("op", key), here.get(key), times.get(key))
    moved = {(m["from"], m["to"], m["stage"], "F" if m["op"] == "F" else "B", m["microbatch"]): (ns(m["start_ms"]), ns(m["end_ms"]), ns(m["arrive_ms"]))
             for m in plan["transfers"]}
    here = {(m.sender, m.receiver, m.stage, m.kind, m.microbatch): (replay.leave[m], replay.free[m], replay.taken(m)) for m in replay.arrive}
    for key in sorted(set(here) | set(moved), key=lambda key: (here.get(key, (0,))[0], key)):
        same(("message", key), here.get(key), moved.get(key))
    if replay.regime == "fifo":
        here = [(rank, end.way, end.message.stage, end.message.kind, end.message.microbatch, sum(map(len, order[rank][:end.after])))
                for rank, row in enumerate(ends) for end in row]
        there = [(issue["rank"], issue["end"][0].upper(), issue["stage"], "F" if issue["op"] == "F" else "B", issue["microbatch"], issue["after_ops"])
                 for issue in plan["issues"]]
        same("issues", sorted(here, key=lambda end: end[0]), sorted(there, key=lambda end: end[0]))
    makespan, span, work = values.makespan(problem, replay), values.span(problem, replay), values.work(problem, order)
    same("makespan", makespan, ns(plan["makespan_ms"]))
    same("span", span, ns(plan["span_ms"]))
    same("ideal", max(work), ns(plan["ideal_ms"]))
    same("value", values.value(problem, order, replay), ns(plan["value_ms"]))
    same("bubble", round(1 - sum(work) / (problem.ranks * makespan), 6) if makespan else 0, round(plan["bubble"]["makespan"], 6))
    same("bubble of span", round((span - max(work)) / span, 6) if span else 0, round(plan["bubble"]["span"], 6))
    same("warm-up", values.warmup(order), plan["warmup"])
    peak = [values.peak_memory(problem, replay, rank) for rank in range(problem.ranks)]
    same("peak memory", peak, plan["peak_memory"])
    same("memory_ok", all(most <= limit for most, limit in zip(peak, problem.limit)), plan["memory_ok"])
    same("lost", values.lost(problem, order, ends, replay), (ns(plan["lost"]["dependency_ms"]), ns(plan["lost"]["blocking_ms"])))
    warm = values.warmup(order)
    for link in plan["links"]:
        rank, next_rank = link["from"], link["to"]
        same(("link", rank), tuple(problem.link[rank, next_rank][:2]), (ns(link["latency_ms"]), ns(link["transfer_ms"])))
        same(("slack", rank), warm[rank] - warm[next_rank], link["slack"])
        if problem.placement == "linear":
            same(("tolerance", rank), values.tolerance(problem, order, rank), ns(link["tolerance_ms"]))
    if plan["memory_ok"] and ns(plan["lower_bound_ms"]) > ns(plan["value_ms"]):
        found.append(("bound above value", plan["value_ms"], plan["lower_bound_ms"]))
    return found
