"""docs/theory.md is true: its figures and tables are what its commands print now, the figures of its sentences hold in a replay of the
orders that is written here, apart from the program's, and no sentence has a time that nothing here has checked. The wording is free."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

from runner import build, expect, require, source

require("slackline")
os.environ["PATH"] = os.path.abspath(build) + ":" + os.environ["PATH"]
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
problem = os.path.join(source, "examples", "four-ranks.yaml")


def test_figures_and_tables_are_what_the_commands_print():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, os.path.join(source, "bench", "theory", "figures.py"), "--check", folder], capture_output=True, text=True)
        expect(done.returncode == 0, f"figures and tables: {done.stdout}{done.stderr}")


page = open(os.path.join(source, "docs", "theory.md")).read()
for name in set(re.findall(r"\]\((?!https?:)([^)#]+)\)", page)):
    expect(os.path.exists(os.path.join(source, "docs", name)), f"a link leads nowhere: {name}")
for name in re.findall(r"`((?:src|bench|examples)/[\w./-]+)`", page):
    expect(os.path.exists(os.path.join(source, name)), f"a name of nothing: {name}")


def order_of(schedule, microbatches, *more):
    sets = [word for key in (f"microbatches={microbatches}", *more) for word in ("--set", "pipeline." + key)]
    done = subprocess.run(["slackline", "plan", problem, "--schedule", schedule, "--format", "csv", *sets], capture_output=True, text=True)
    expect(done.returncode == 0, f"{schedule} {more}: {done.stderr}")
    return [[(kind, int(m)) for kind, m in re.findall(r"\d+([FIWB])(\d+)", line)] for line in done.stdout.splitlines()]


def replay(order, latency=None, transfer=None, time=None, inorder=0):
    """Makespan; latency and transfer by the lower rank of a link, time(rank, kind); `inorder`: places for sends, 0: decoupled."""
    latency, transfer = latency or {}, transfer or {}
    time = time or (lambda rank, kind: 20 if kind == "B" else 10)
    ranks = len(order)
    arrive, wire, clock, at = {}, collections.defaultdict(float), [0.0] * ranks, [0] * ranks
    held = collections.defaultdict(list)  # arrivals of the last sends of a rank to a peer
    end = 0.0
    while any(at[r] < len(order[r]) for r in range(ranks)):
        ready = []
        for r in range(ranks):
            if at[r] == len(order[r]):
                continue
            kind, m = order[r][at[r]]
            needs = ("F", r - 1, m) if kind == "F" and r > 0 else ("I", r + 1, m) if kind in "IB" and r < ranks - 1 else None
            if needs is None or needs in arrive:
                ready.append((max(clock[r], arrive.get(needs, 0.0)), r))
        assert ready, "the order deadlocks"
        start, r = min(ready)
        kind, m = order[r][at[r]]
        at[r] += 1
        finish = start + time(r, kind)
        clock[r] = finish
        end = max(end, finish)
        peer = r + 1 if kind == "F" else r - 1
        if kind != "W" and 0 <= peer < ranks:
            link = min(r, peer)
            issued = finish
            if inorder and latency.get(link, 0) + transfer.get(link, 0) > 0:
                places = held[(r, peer)]
                if len(places) >= inorder:
                    issued = max(issued, places[-inorder])
                clock[r] = max(clock[r], issued)
            sent = max(issued, wire[(r, peer)]) + transfer.get(link, 0)
            wire[(r, peer)] = sent
            arrive[("F" if kind == "F" else "I", r, m)] = sent + latency.get(link, 0)
            held[(r, peer)].append(sent + latency.get(link, 0))
    return end


prose = re.sub(r"^!\[.*$", "", re.sub(r"```.*?```", "", page, flags=re.S), flags=re.M)
paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n", prose)]
checked = [set() for _ in paragraphs]  # places of the characters that statements found
statements = 0


def states(text, *values):
    """A paragraph of the page has these facts in this order, with any words in between: pieces separated by |, values at {}."""
    global statements
    statements += 1
    shown = ["%g" % round(v, 6) if isinstance(v, (int, float)) else v for v in values]
    facts = [fact.strip() for fact in text.format(*shown).split("|")]
    pattern = ".*?".join(r"(?<![\w.])(" + re.escape(fact) + r")(?!\w)" if re.match(r"\w", fact) else f"({re.escape(fact)})" for fact in facts)
    for number, paragraph in enumerate(paragraphs):
        match = re.search(pattern, paragraph)
        if match:
            checked[number].update(place for group in range(1, len(facts) + 1) for place in range(*match.span(group)))
            return
    expect(False, f"no paragraph of the page states: {' ... '.join(facts)}")


f1b, h1, h2 = (order_of(name, 12) for name in ("1f1b", "zb-h1", "zb-h2"))
adapted20 = order_of("adaptra", 12, "links.list.0.latency_ms=20")


def warmup(row):
    return next(i for i, (kind, _) in enumerate(row) if kind != "F")


def cost_a_microbatch(schedule, delay, *more, link=0, time=None):
    few, many = order_of(schedule, 24, *more), order_of(schedule, 48, *more)
    return (replay(many, {link: delay}, time=time) - replay(many, time=time) - replay(few, {link: delay}, time=time) + replay(few, time=time)) / 24


def largest_absorbed(schedule, *more, **how):
    """In steps of 2.5 ms."""
    delay = 0
    while delay < 100 and cost_a_microbatch(schedule, delay + 2.5, *more, **how) < 1e-9:
        delay += 2.5
    return delay


def published(slack, here, there):
    """Adaptra's equation 1: tF + tI of both ranks."""
    return max(0, (slack * there - here) / 2)


def slack_in_the_middle(order):
    """Forwards ahead of a backward on rank 0, less the same on rank 1, where the iteration is half over."""
    ahead = []
    for row in order[:2]:
        backs = [m for kind, m in row if kind in "IB"]
        k = backs[len(backs) // 2]
        ahead.append(sum(kind == "F" for kind, _ in row[:next(i for i, op in enumerate(row) if op[0] in "IB" and op[1] == k)]) - k)
    return ahead[0] - ahead[1]


def test_slack_is_what_the_page_says():
    states("1F1B | 4, 3, 2, 1 | slack 1 | {} ms instead of {} ms", replay(f1b, {0: 20}), replay(f1b))
    states("ZB-H2 | 7, 5, 3, 1 | slack 2 | {} ms instead of {} ms", replay(h2, {0: 20}), replay(h2))
    states("Adaptra's schedule | {} ms | optimal | three forwards and the link ({} + 20 ms) | {} ms of work", replay(adapted20, {0: 20}), 3 * 10, 12 * 30)
    expect(3 * 10 + 20 + 12 * 30 == 410, "the sum is that")
    states("first link | 20 ms each way")

    expect([warmup(r) for r in f1b] == [4, 3, 2, 1] and [warmup(r) for r in h2] == [7, 5, 3, 1] and [warmup(r) for r in h1] == [4, 3, 2, 1], "warm-ups")


def slow_time(rank, kind):
    return (15 if rank == 3 else 10) * (2 if kind == "B" else 1)


def test_tolerance_is_that_of_formula_and_loop():
    states("P is {} ms | {} ms of work | 3 microbatches | tolerance is {} ms", 10 + 10, 4 * 10, (3 * 20 - 40) / 2)
    expect(largest_absorbed("adaptra") == 10 == published(2, 20, 20), "Adaptra's own order: formula, loop and replay agree")
    for delay in (20, 40, 60):
        expect(abs(cost_a_microbatch("adaptra", delay) - 2 / 3 * (delay - 10)) < 1e-6, f"beyond: 2 / (slack + 1) of every ms, at {delay}")
        expect(abs(cost_a_microbatch("1f1b", delay) - delay) < 1e-6, f"1F1B: a ms for every ms, at {delay}")
    states("1F1B has no tolerance | {} ms | 2 microbatches | P is {} ms | every ms of delay costs 1 ms per microbatch", 2 * 30, 30)
    expect(largest_absorbed("1f1b") == 0 == published(1, 30, 30), "1F1B has none")
    states("every further ms | 2 / (slack + 1) ms")
    gpipe = order_of("gpipe", 24)
    expect(all(replay(gpipe, {0: c}) - replay(gpipe) == 2 * c for c in (10, 30, 60)) and [warmup(r) for r in gpipe] == [24] * 4, "GPipe: twice c, whatever c")
    states("GPipe | x is 12 on every rank | slack and tolerance are 0 | 2c in total")
    states("ZB-H1 | equation 1 gives {} ms | P is {} ms | absorbs {} ms", published(1, 20, 20), 30, largest_absorbed("zb-h1"))
    expect((2 * 30 - 50) / 2 == 5, "the loop of ZB-H1: F, I, W and F, I")
    states("ZB-H2 | slack 2 | equation 1 gives {} ms | absorbs {} ms | in the middle of the iteration, the slack is {}",
           published(2, 20, 20), largest_absorbed("zb-h2"), slack_in_the_middle(order_of("zb-h2", 48)))
    drained = order_of("adaptra", 48, "memory.limit=10")
    expect([warmup(r) for r in drained] == [10, 7, 4, 1], "with room for 10")
    states("room for 10 | 10, 7, 4, 1 | slack 3 | equation 1 gives {} ms | absorbs {} ms", published(3, 20, 20), largest_absorbed("adaptra", "memory.limit=10"))
    slow = ("times_ms.F=[10,10,10,15]", "times_ms.I=[10,10,10,15]", "times_ms.W=[10,10,10,15]")

    states("rank 3 | 50% longer | P is {} ms | {} ms of work for 2 microbatches | absorbs {} ms | Equation 1 | gives {} ms | gives {} ms, which is exact",
           3 * 15, 2 * 30, largest_absorbed("1f1b", *slow, time=slow_time), published(1, 30, 30), published(1, 30, 45))
    expect(largest_absorbed("1f1b", *slow, link=2, time=slow_time) == 7.5, "in front of the slow rank")
    healthy = order_of("adaptra", 48)
    whole = replay(healthy)
    one, two, both = (replay(healthy, links) - whole for links in ({0: 25}, {1: 25}, {0: 25, 1: 25}))
    states("{} ms for 48 microbatches | 25 ms on the first link", whole)
    states("{} ms and {} ms alone | {} ms together instead of {} ms", one, two, both, one + two)
    expect(replay(healthy, {0: 10, 1: 10}) - whole == 20, "below the tolerance each costs its c once")


def held(order):
    """Most activations that each rank holds, from its F to its W or B, by the order alone."""
    most = []
    for row in order:
        count = peak = 0
        for kind, _ in row:
            count += (kind == "F") - (kind in "WB")
            peak = max(peak, count)
        most.append(peak)
    return most


def test_slack_comes_from_ranks_or_delay():
    ranks = range(4)
    expect([warmup(r) for r in h1] == [4 - r for r in ranks] and [warmup(r) for r in h2] == [2 * (4 - r) - 1 for r in ranks], "Zero Bubble: by ranks alone")
    for count in (6, 8):
        wide = order_of("zb-h2", 24, f"ranks={count}", f"stages={count}")
        expect([warmup(r) for r in wide] == [2 * (count - r) - 1 for r in range(count)], f"ZB-H2 on {count} ranks")
    states("R - r | 2 (R - r) - 1")
    states("room for 10 activations on rank 0 | {} for three links | 10, 7, 4, 1", 10 - 1)
    states("60 ms on the first link | (20 + 120) / 20 = {} | 5, 3, 1 | 12, 5, 3, 1", (20 + 2 * 60) / 20)
    expect([warmup(r) for r in order_of("adaptra", 12, "links.list.0.latency_ms=60")] == [12, 5, 3, 1], "algorithm 2 for 60 ms")
    expect([warmup(r) for r in adapted20] == [11, 5, 3, 1], "more than algorithm 2 asks for, for 20 ms")
    states("20 ms | slack {} and {} forwards | 11", (20 + 2 * 20) / 20, 5 + 3)


def bound(*more):
    sets = [word for key in more for word in ("--set", "pipeline." + key)]
    done = subprocess.run(["slackline", "plan", problem, "--schedule", "adaptra", "--format", "json", *sets], capture_output=True, text=True)
    plan = json.loads(done.stdout)
    return plan["makespan_ms"], plan["lower_bound_ms"]


def test_memory_limits_the_slack():
    expect(held(f1b) == [4, 3, 2, 1] and held(h1) == [4] * 4 and held(h2) == [7] * 4, "what is held")
    states("1F1B holds 4, 3, 2, 1 | ZB-H1 holds 4 on every rank | ZB-H2 holds 7 on every rank")
    states("two ops | {} ms through the other ranks and back | the link twice | 60 ms on the first link | at least {} ms", 6 * 10, 2 * 10 + 60 + 2 * 60 + 10)
    states("M microbatches | at most M in {} ms | 12 microbatches | 12 * {} / M ms | {} ms for M = 4", 210, 210, 12 * 210 / 4)

    limited = {m: bound("links.list.0.latency_ms=60", f"memory.limit={m}") for m in range(4, 13)}
    expect(all(low >= 12 * 210 / m for m, (_, low) in limited.items()), "the proven bound is above the one by hand")
    expect(all(limited[m][1] > 450 for m in range(4, 10)) and limited[11][0] == 450 and limited[10] == (470, 450), f"limits: {limited}")
    states("With 9 activations or fewer, no schedule reaches the {} ms that 11 allow | With 10 | {} ms", limited[11][0], limited[10][0])
    states("bounds of section 4 are above {} ms", 450)


adapted = order_of("adaptra", 12, "links.list.0.latency_ms=60")


def test_w_and_delegates_give_what_the_page_says():
    states("1F1B | healthy links | {} ms | ZB-H1 takes {} ms", replay(f1b), replay(h1))
    expect(all(kind == "W" for kind, _ in adapted[3][-12:]), "W at the end of the last rank")
    states("Adaptra's schedule for 60 ms keeps all W for the end")
    expect(held(adapted) == [12] * 4, "all 12 are held")
    plan = json.loads(subprocess.run(["slackline", "plan", problem, "--schedule", "adaptra", "--set", "pipeline.links.list.0.latency_ms=60", "--format", "json"], capture_output=True, text=True).stdout)
    under_way = max(sum(t["start_ms"] <= u["start_ms"] < t["arrive_ms"] for t in plan["transfers"] if (t["from"], t["to"]) == (0, 1)) for u in plan["transfers"])
    expect(under_way == 6, f"on their way at once: {under_way}")
    states("six activations are in flight at once | all 12 activations")
    last = sorted((o["start_ms"], o["end_ms"]) for o in plan["ops"] if o["rank"] == 3)
    expect(all(a[1] == b[0] for a, b in zip(last, last[1:])), "the last rank is busy from its first op to its last")
    states("The order for {} ms of section 5", 60)
    states("the twelfth activation | 10 + 12 * 60 = {} ms", 10 + 12 * 60)
    states("Delegates alone | ZB-H2 from {} ms to {} ms | order alone | {} ms | Both together give {} ms",
           replay(h2, {0: 60}, inorder=1), replay(h2, {0: 60}), replay(adapted, {0: 60}, inorder=1), replay(adapted, {0: 60}))
    states("2 slots | {} ms | 4 slots {} ms | makes one per {} ms", replay(adapted, {0: 60}, inorder=2), replay(adapted, {0: 60}, inorder=4), 10 + 10)
    states("703 ms | 579 ms with delegates | 398 ms with both (section 7.2)")  # Adaptra, section 7.2


def test_bandwidth_costs_what_the_page_says():
    for t in (40, 60):
        own = order_of("adaptra", 12, f"links.list.0={{between: [0, 1], transfer_ms: {t}}}")
        makespan, low = bound(f"links.list.0={{between: [0, 1], transfer_ms: {t}}}")
        expect(replay(own, transfer={0: t}) == makespan and low == 90 + 13 * t == 10 + 12 * t + 60 + t + 20, f"a wire that is held for {t}")
    states("At {} ms, latency and bandwidth cost the same", 10)
    expect(bound("links.list.0={between: [0, 1], transfer_ms: 10}") == bound("links.list.0.latency_ms=10"), "at 10 ms")
    states("At {} ms, latency costs | {} ms | bandwidth costs it {} ms", 60, replay(adapted, {0: 60}) - 390, makespan - 390)
    states("three ranks and back, {} ms", 60)
    states("90 + 13 T | {} ms for T = 40 | {} ms for T = 60", 90 + 13 * 40, 90 + 13 * 60)


def test_bounds_and_gains_are_those_of_the_page():
    expect(all(bound(f"links.list.0.latency_ms={c}")[1] == 390 + c for c in (0, 10, 25, 60)), "the bound of this setting")
    states("390 + c | first microbatch to the last rank, 30 + c | that rank's work, {} ms", 360)
    gains = {c: replay(h2, {0: c}) - replay(order_of("adaptra", 12, f"links.list.0.latency_ms={c}"), {0: c}) for c in (10, 20, 60)}
    expect(gains[10] == 0, "within the tolerance nothing is gained")
    states("gain per iteration | {} ms at a delay of 10 ms | {} ms at 20 ms | {} ms at 60 ms", gains[10], gains[20], gains[60])
    states("2 s | {} iterations at 20 ms | {} at 60 ms", -(-2000 // int(gains[20])), -(-2000 // int(gains[60])))


def test_nothing_else_is_claimed():  # than the tests above have checked
    states("F, I, and W of 10 ms each")  # the setting
    left = [paragraph[max(0, time.start() - 40) : time.end() + 20] for paragraph, seen in zip(paragraphs, checked)
            for time in re.finditer(r"\b\d[\d.]* ms", paragraph) if not set(range(*time.span())) <= seen]  # fmt: skip
    expect(not left, f"times that nothing has checked: {left}")
    print(f"{statements} statements")
