# labels: slow
"""Random problems through the command, judged from outside: what a plan says is checked against the rules of
docs/formats.md by this script alone (dependencies, links, queues, memory, bound), and damaged files are refused, never
worse. SL_SEED repeats a run, SL_ROUNDS makes it longer."""
import os
import random
import re

from calling import plan, run, write
from runner import expect

seed = int(os.environ.get("SL_SEED", random.randrange(1 << 30)))
rounds = int(os.environ.get("SL_ROUNDS", 40))
print("seed", seed)
random.seed(seed)
near = 1e-6  # ms; times are whole ns


def some_problem():
    ranks, n = random.randint(1, 6), random.choice([1, 2, 3, 5, 8, 13])
    per_stage = lambda most: [round(random.uniform(0.1, most), 3) for _ in range(ranks)]
    p = {"ranks": ranks, "microbatches": n, "times": {kind: per_stage(20) for kind in "FIWB"}, "links": {}}
    p["inorder"], p["queue"] = random.random() < 0.5, random.randint(1, 3)
    p["delta"] = {"F": random.choice([1, 2.5]), "I": random.choice([0, -0.5, 0.25])}
    p["delta"]["W"] = -p["delta"]["F"] - p["delta"]["I"]
    p["delta"]["B"] = -p["delta"]["F"]
    p["limit"] = [round(random.uniform(1, 20), 2) for _ in range(ranks)] if random.random() < 0.5 else None
    for a in range(ranks - 1):
        for b in ((a, a + 1), (a + 1, a)):
            p["links"][b] = (random.choice([0, 0, 5, 60]), random.choice([0, 0, 1, 12]))
    return p


def text_of(p):
    lines = ["pipeline:", f"  ranks: {p['ranks']}", f"  microbatches: {p['microbatches']}",
             f"  times_ms: {{{', '.join(f'{kind}: {times}' for kind, times in p['times'].items())}}}",
             "  memory:", f"    delta: {{{', '.join(f'{kind}: {change}' for kind, change in p['delta'].items())}}}"]
    if p["limit"]:
        lines.append(f"    limit: {p['limit']}")
    if p["links"]:
        lines += ["  links:", "    list:"]
    lines += [f"      - {{between: [{a}, {b}], one_way: true, latency_ms: {latency}, transfer_ms: {transfer}}}"
              for (a, b), (latency, transfer) in p["links"].items()]
    return "\n".join(lines + [f"  communication: {'inorder' if p['inorder'] else 'decoupled'}", f"  queue: {p['queue']}"]) + "\n"


def check_memory(p, rank, ops, what):
    used = most = 0
    for op in ops:  # one after the other, so F counts before it runs and the others after
        used += p["delta"][op["op"]]
        most = max(most, used)
    expect(abs(most - what["peak_memory"][rank]) < 1e-6, f"rank {rank}: peak {most}, said {what['peak_memory'][rank]}")
    if p["limit"]:
        expect((most <= p["limit"][rank] + 1e-6) or not what["memory_ok"], f"rank {rank} passes its limit")


def check(p, what):
    """Every time follows from the sequence and the rules: an op starts when its rank, its inputs and its sends allow."""
    done, arrived, left, places = {}, {}, {}, {}
    for t in what["transfers"]:
        latency, transfer = p["links"][t["from"], t["to"]]
        expect(abs(t["end_ms"] - t["start_ms"] - transfer) < near and abs(t["arrive_ms"] - t["end_ms"] - latency) < near,
               f"a transfer takes its time: {t}")
        arrived[t["to"], t["op"] == "F", t["microbatch"]] = t["arrive_ms"]
        left[t["from"], t["to"], t["op"] == "F", t["microbatch"]] = t
    for rank in range(p["ranks"]):
        ops = [op for op in what["ops"] if op["rank"] == rank]
        kinds = sorted((op["op"], op["microbatch"]) for op in ops)
        full = {m for kind, m in kinds if kind == "B"}
        expect(kinds == sorted((kind, m) for m in range(p["microbatches"]) for kind in ("FB" if m in full else "FIW")), "each op once")
        check_memory(p, rank, ops, what)
        free, wire, queue = 0.0, {}, {}
        for op in ops:
            kind, m = op["op"], op["microbatch"]
            ready = free
            if kind == "F" and rank > 0:
                ready = max(ready, arrived[rank, True, m])
            if kind in "IB" and rank < p["ranks"] - 1:
                ready = max(ready, arrived[rank, False, m])
            needed = {"F": [], "I": ["F"], "B": ["F"], "W": ["I"]}[kind]
            expect(all((rank, other, m) in done for other in needed), f"{rank}{kind}{m} comes after what it needs")
            expect(abs(op["start_ms"] - ready) < near, f"{rank}{kind}{m} starts at {op['start_ms']}, could at {ready}")
            expect(abs(op["end_ms"] - op["start_ms"] - p["times"][kind][rank]) < near, f"{rank}{kind}{m} takes its time")
            done[rank, kind, m] = free = op["end_ms"]
            to = rank + 1 if kind == "F" else rank - 1
            if kind == "W" or not 0 <= to < p["ranks"]:
                continue
            under_way = queue.setdefault(to, [])
            if p["inorder"] and len(under_way) >= p["queue"]:
                free = max(free, under_way[-p["queue"]])
            t = left[rank, to, kind == "F", m]
            expect(abs(t["start_ms"] - max(free if p["inorder"] else op["end_ms"], wire.get(to, 0))) < near, f"a message waits for its link only: {t}")
            wire[to] = t["end_ms"]
            under_way.append(t["arrive_ms"])
    expect(what["makespan_ms"] >= what["lower_bound_ms"] - near, "not below the bound")


def damage(text):
    kind = random.randrange(4)
    at = random.randrange(len(text))
    if kind == 0:
        return text[:at] + random.choice("0-x,:{[\n\"' #&*!\t.e") + text[at + 1:]
    if kind == 1:
        return text[:at] + text[at + random.randint(1, 12):]
    if kind == 2:
        return text[:at] + text[random.randrange(len(text)):][:20] + text[at:]
    return re.sub(r"\d+", lambda m: random.choice([m[0], m[0], m[0], "0", "-1", "99999999999999999999", "1e308", ".nan"]), text)


def test_every_answer_keeps_the_rules():
    answered = 0
    for _ in range(rounds):
        p = some_problem()
        file = write("problem.yaml", text_of(p))
        for schedule in ("auto", "optimal", "gpipe", "1f1b", "zb-h1", "zb-h2", "adaptra", "cross-ud-sub"):
            limit = "0.02"
            done = run("plan", file, "--schedule", schedule, "--time-limit", limit, "--format", "csv")
            expect(done.returncode in (0, 1), f"{schedule}: exit {done.returncode} {done.stderr}")
            if done.returncode:
                expect(done.stdout == "" and p["limit"], f"{schedule}: no answer without a limit")
                continue
            answered += 1
            order = write("order.csv", done.stdout)
            planned, simulated = plan("plan", file, "--schedule", schedule, "--time-limit", limit), plan("simulate", file, "--order", order)
            if schedule in ("auto", "optimal") and planned["ops"] != simulated["ops"]:
                continue  # how far a search comes in its time differs
            expect(planned["memory_ok"], f"{schedule}: within the limit")
            for field in planned.keys() - {"schedule", "why", "solve_ms"}:
                expect(planned[field] == simulated[field], f"{schedule}: simulate says another {field} of the same order")
            check(p, planned)
            for _ in range(3):
                broken = run("simulate", file, "--order", write("damaged.csv", damage(done.stdout)))
                expect(broken.returncode in (0, 2) and (broken.returncode == 0) == (broken.stderr == ""), f"damaged order: {broken}")
        for _ in range(6):
            broken = run("plan", write("damaged.yaml", damage(text_of(p))), "--time-limit", "0.02")
            said = broken.stderr.count("\n") == 1 and broken.stdout == ""
            expect(broken.returncode == 0 or (broken.returncode in (1, 2) and said), f"damaged problem: {broken}")
    expect(answered > rounds, "enough of them have an answer")
