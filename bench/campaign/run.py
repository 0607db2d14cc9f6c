#!/usr/bin/env python3
"""Simulated rows of docs/results/evidence/adapting.md, through `slackline campaign`: the published traces and figures that can be
reproduced, next to the published values. Nothing here runs a training job. Prints the sections; --write FILE puts them into FILE.

Usage: bench/campaign/run.py [BUILD_DIR] [--write FILE] [--only PART]   (PART: adaptra, several, falcon, figures, random, speed)"""
import argparse
import functools
import json
import os
import random
import re
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import finish, machine, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
parser.add_argument("--only")
arguments = parser.parse_args()
folder = tempfile.TemporaryDirectory()
COMMAND = "`bench/campaign/run.py build --write docs/results/evidence/adapting.md`"


def pipeline(ranks, microbatches, op_ms, **more):
    """A problem of even stages: F, I and W take op_ms each."""
    lines = [f"  {key}: {value}" for key, value in
             {"ranks": ranks, "microbatches": microbatches, "times_ms": f"{{F: {op_ms}, I: {op_ms}, W: {op_ms}}}", **more}.items()]
    return "pipeline:\n" + "\n".join(lines) + "\n"


def campaign(problem, text, *more, trace=None):
    """(JSON, standard error)"""
    path = os.path.join(folder.name, "problem.yaml")
    with open(path, "w") as file:
        file.write(problem)
    done = subprocess.run([os.path.join(arguments.build, "slackline"), "campaign", trace or "-", "--problem", path, "--format", "json",
                           *more], input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{text}\n{done.stderr}")
    return json.loads(done.stdout), done.stderr


def rows(answer):
    return {row["strategy"]: row for row in answer["strategies"]}


def inline(**keys):
    return "{" + ", ".join(f"{key}: {value}" for key, value in keys.items()) + "}"


# ---- Adaptra, section 7.5

# medians of the iterations of each event, 8 pipeline ranks, 1F1B, 128 devices
MEASURED = ((15, 2675.6), (120, 2512.3), (230, 1899.6), (340, 3832.0), (450, 2951.4), (560, 2960.6), (670, 1917.1), (780, 3272.0),
            (890, 3833.9))
HEALTHY, RESTART = 1438.0, 87.2


def as_cards():
    """The trace's links as cards: each link becomes the card of its first rank, which slows the rank's other link, too."""
    events = []
    with open(os.path.join(here, "adaptra.csv")) as trace:
        for line in list(trace)[1:]:
            first, last, links, latency = line.strip().split(",")
            if latency:
                events += [inline(at=first, until=int(last) + 1, nic=link.split("-")[0], latency_ms=latency) for link in links.split()]
            else:
                events.append(inline(at=first, nic_lost="true"))
    return "".join(f"  - {event}\n" for event in events)


def adaptra():
    problem = pipeline(8, 24, round(HEALTHY / 31 / 3, 4), communication="batched")
    text = f"job: {{iterations: 1200, schedule: zb-h2, static: [1f1b]}}\ncosts: {{restart_s: {RESTART}}}\ntrace: {here}/adaptra.csv\n"
    answer, _ = campaign(problem, text)
    all_rows = rows(answer)
    stretch = {s["iteration"]: s["iteration_ms"] for s in all_rows["only 1f1b"]["stretches"] if s["iterations"]}
    events = table(["from iteration", "measured by them, 1F1B", "here", ""],
                   [[at, f"{ms:,.0f} ms", f"{stretch[at]:,.0f} ms", f"{100 * (stretch[at] / ms - 1):+.1f}%"] for at, ms in MEASURED])
    minutes = {name: row["total_s"] / 60 for name, row in all_rows.items()}
    best, lines = minutes["adapt+delegate"], []
    for name, label, published in (("only 1f1b", "1F1B", 45.4), ("ignore", "ZB (zb-h2)", 46.9), ("adapt+delegate", "adapted and delegated", 33.2),
                                   ("delegate", "delegated alone", None), ("adapt", "adapted alone", None), ("ladder", "the whole ladder", None),
                                   ("best in hindsight", "best in hindsight", None)):
        lines.append([label, f"{published} min" if published else "", f"{published / 33.2:.2f}" if published else "", f"{minutes[name]:.1f} min",
                      f"{minutes[name] / best:.2f}", f"{all_rows[name]['slowdown']:.3f}"])
    cards = {name: row["total_s"] / 60 for name, row in rows(campaign(problem, text[:text.index("trace:")] + "events:\n" + as_cards())[0]).items()}
    lines = [line[:-1] + [f"{cards[name]:.1f} min", f"{cards[name] / cards['adapt+delegate']:.2f}"] for line, name in
             zip(lines, ("only 1f1b", "ignore", "adapt+delegate", "delegate", "adapt", "ladder", "best in hindsight"))]
    healthy = 1200 * answer["healthy_ms"] / 6e4
    slow = [s for s in all_rows["ignore"]["stretches"] if s["iterations"] and s["iteration_ms"] > 1.01 * answer["healthy_ms"]]
    waited = sum(4 * (s["iteration_ms"] - answer["healthy_ms"]) for s in slow) / 6e4
    if arguments.write:
        picture = os.path.join(os.path.dirname(os.path.abspath(arguments.write)), "campaign.svg")
        subprocess.run([os.path.join(arguments.build, "slackline"), "campaign", "-", "--problem", os.path.join(folder.name, "problem.yaml"),
                        "--format", "svg", "-o", picture], input=text, text=True, check=True)
    return f"""Adaptra's trace of section 7.5 ({os.path.relpath(here, source)}/adaptra.csv: nine events on links and a lost NIC in 1,200 iterations; 8 pipeline ranks of
128 devices). Simulated: neither op times nor microbatches are published. F = I = W = {HEALTHY / 93:.2f} ms and 24 microbatches give their healthy 1F1B (1,438 ms). The 24, and
sends and receives batched as Megatron does it, are fitted to their iterations below (tried: 8, 12, 16, 20, 24 and 32 microbatches, decoupled, in order,
batched). The first event does not fit: it is said to be 30 ms and cost them more than the 40 ms of the second:

{events}

The NIC costs a restart ({RESTART} s, as in their run) where there are no delegates. Ratios are to the adapted and delegated row; healthy,
zb-h2 takes {healthy:.1f} min in all. An event must last 3 iterations before anything is done, so 4 pass as slow as they are, which costs {waited:.1f} min. *Cards*: the same with the card of each link's
first rank as late, which slows the rank's other link, too.

{table(["", "published", "ratio", "links, simulated", "ratio", "cards, simulated", "ratio"], lines)}

![Throughput over time of every strategy](campaign.svg)
"""


# ---- Adaptra, figure 17

# name: (links, cards that slow at least those), all 30 ms later
SEVERAL = {"adjacent": ((0, 1), (1,)), "skip": ((0, 2), (0, 2)), "first and last": ((0, 6), (0, 7)), "three skip": ((0, 3, 6), (0, 3, 7))}


def several_delays(events):
    text = "job: {iterations: 4000, schedule: zb-h2, static: [1f1b]}\ncosts: {topology_s: 1e6, restart_s: 1e6}\nevents:\n" + \
           "".join(f"  - {event}\n" for event in events)
    answer = campaign(pipeline(8, 24, round(HEALTHY / 31 / 3, 4), communication="batched"), text)[0]
    return [steady(answer, name) for name in ("only 1f1b", "ignore", "delegate", "adapt+delegate")]


def figure_17():
    lines, shares = [], {"links": [], "cards": []}
    for name, (links, cards) in SEVERAL.items():
        faults = {"links": [inline(at=1, link=[a, a + 1], latency_ms=30) for a in links],
                  "cards": [inline(at=1, nic=a, latency_ms=30) for a in cards]}
        for kind, events in faults.items():
            times = several_delays(events)
            shares[kind].append([100 * (1 - times[3] / time) for time in times[:3]])
            where = ", ".join(f"{a}-{a + 1}" for a in links) if kind == "links" else ", ".join(map(str, cards))
            lines.append([name, f"{kind} {where}", *(f"{time:,.0f}" for time in times), *(f"{share:.1f}%" for share in shares[kind][-1])])
    for kind, rows_of in shares.items():
        lines.append(["mean", kind, "", "", "", "", *(f"**{sum(column) / 4:.1f} %**" for column in zip(*rows_of))])
    lines.append(["mean, published", "links", "", "", "", "", "51.6 %", "57.5 %", "23.1 %"])
    return f"""Adaptra's figure 17: delays of 30 ms on several links of 8 pipeline ranks at once, and below each the same with cards: those of ranks that hold
the same links, whose other links are as late then. Shapes as in its trace above. Milliseconds of an iteration after all that was done;
less by: the adapted and delegated iteration against the others. The last rank begins after the first microbatch has passed all links, and then has
24 microbatches to compute: {HEALTHY * 79 / 93:,.0f} ms, and each delay once. Every adapted iteration takes just that, so none can be shorter; the shares are below the
published ones where the others lose less here than there (forward and backward messages behind each other in NCCL's streams are not simulated).

{table(["delays", "of", "1F1B", "ZB (zb-h2)", "delegated", "adapted and delegated", "less than 1F1B by", "than ZB", "than delegated"], lines)}
"""


# ---- Falcon, table 7

FALCON_MICROBATCHES = 64
DEVICES = ((200, 800, 2, 1, 1.20), (900, 1500, 9, 2, 1.35), (1800, 2400, 4, 0, 1.15), (2600, 3200, 11, 3, 1.25), (3400, 4000, 6, 1, 1.30),
           (4500, 5100, 13, 2, 1.15), (4800, 5400, 0, 3, 1.20), (6000, 6600, 8, 0, 1.30))
LINKS = ((1200, 2640, 1, 5, 6), (4200, 5640, 2, 10, 11))  # durations as in Falcon's table 1: 10 and 24 minutes


def falcon_trace(rate, scale):
    lines = [f"  - {inline(at_s=a * scale, until_s=b * scale, device=[d, r], slowdown=x)}" for a, b, d, r, x in DEVICES]
    lines += [f"  - {inline(at_s=a * scale, until_s=b * scale, replica_link=[r, d, e], slowdown=rate)}" for a, b, r, d, e in LINKS]
    return "events:\n" + "\n".join(lines) + "\n"


EACH = 60e3 / 17.1
RING = 0.05 * EACH


@functools.lru_cache(maxsize=None)
def falcon_problem(microbatches):
    """17.1 healthy iterations per minute of the best schedule. The ring over replicas is a twentieth of an iteration."""
    op = (EACH - RING) / microbatches / 3
    for _ in range(4):
        problem = pipeline(4, microbatches, round(op, 6), data_parallel=inline(reduce_ms=round(RING, 3)))
        text = "job: {replicas: 16, iterations: 1, schedule: auto, static: []}\nevents:\n  - {at: 0, device: [0, 0], slowdown: 1.000001}\n"
        op *= (EACH - RING) / (campaign(problem, text)[0]["healthy_ms"] - RING)
    return problem


def falcon(microbatches, rate, topology=5, notice=3, scale=1):
    problem = falcon_problem(microbatches)
    text = f"job: {{replicas: 16, duration_s: {7200 * scale}, schedule: auto, static: [], notice: {notice}}}\n" \
           f"costs: {{balance_s: 0.1, topology_s: {topology}, restart_s: 1200}}\n" + falcon_trace(rate, scale)
    return campaign(problem, text)[0]


def per_minute(answer, name):
    return 6e4 / rows(answer)[name]["mean_iteration_ms"]


def table_7():
    rate, other, before = 4.5, 3.5, per_minute(falcon(FALCON_MICROBATCHES, 3.5), "ignore")
    for _ in range(2):  # the links' slowdown follows from Falcon's throughput without mitigation
        now = per_minute(falcon(FALCON_MICROBATCHES, rate), "ignore")
        rate, other, before = rate + (14.8 - now) * (other - rate) / (before - now), rate, now
    rate = round(rate, 2)
    names = ("balance", "topology", "restart", "ladder", "best in hindsight")
    lines = [["Falcon, published", "17.1", "14.8", "16.2", "", "", "", "", "60.1 %", ""]]
    for microbatches, topology, notice, scale in ((16, 5, 3, 1), (32, 5, 3, 1), (64, 5, 3, 1), (128, 5, 3, 1), (32, 30, 3, 1), (64, 30, 3, 1), (64, 5, 3, 0.5),
                                                  (64, 5, 3, 2), (32, 5, 0, 1), (64, 5, 0, 1), (256, 5, 3, 1), (256, 0.05, 0, 1)):
        answer = falcon(microbatches, rate, topology, notice, scale)
        times = "" if scale == 1 else f"; all in {'half' if scale < 1 else 'twice'} the time"
        lines.append([f"{microbatches}; {topology} s; {notice}{times}"] +
                     [f"{v:.2f}" for v in (6e4 / answer["healthy_ms"], *(per_minute(answer, name) for name in ("ignore", "ladder", "best in hindsight")))] +
                     [f"{100 * rows(answer)[name]['recovered']:.1f}%" for name in names])
    answer = falcon(FALCON_MICROBATCHES, rate)
    events = "; ".join(f"{x} from {a:,} to {b:,} s" for a, b, _, _, x in DEVICES)
    ladder = rows(answer)["ladder"]
    applied = ", ".join(f"{name} {count}" for name, count in ladder["applied"].items() if count)
    return f"""Falcon's table 7: 16 replicas of 4 ranks, whose schedule is the best found (`schedule: auto`), two slow links and eight slow devices; theirs are not published. Ours, in two hours, one device
of another replica each, ops times as long: {events}. Two links of rings over replicas are {rate:.1f} times as slow from 1,200 to 2,640 and
from 4,200 to 5,640 s (10 and 24 minutes, as such events last in table 1), partly together with devices, which makes 14.8 of 17.1 iterations a minute where nothing is done, as in the table. The ring is a
twentieth of a healthy iteration. An event, or its end, is believed after 3 iterations (10 s). Another split costs 0.1 s, a restart 20 min; another
arrangement 5 s, since what a device of 13 billion parameters in 4 stages has to exchange (52 GB) takes 1 s at 400 Gbit/s; Falcon's pauses are under a
minute, so two rows count 30 s. Iterations a minute, and the share of the slowdown that is taken away:

{table(["microbatches of a replica; cost of an arrangement; iterations until an event is believed", "healthy", "ignored", "ladder", "best in hindsight", "balance alone", "topology alone", "restart alone", "ladder", "best in hindsight"], lines)}

With {FALCON_MICROBATCHES} microbatches the ladder did: {applied}, undone {ladder["undone"]}; it paid {ladder["costs_s"]:.1f} s. Microbatches are not published (some
32 would fit 13 billion parameters and 3.5 s), and the trace is ours: with events half as long less is recovered. What limits it, as the other rows show: splits are whole
microbatches, so some replica takes a whole one more where its share of what the slow one cannot do is less (256: little of it); 10 s until an
event, or its end, is believed; 5 s lost before 5 s are spent on an arrangement; and a slow device is capacity that is gone (at 1.3 times 1.4 % of 16
replicas, or 5 % of what it costs): the last row has that alone.
"""


# ---- Falcon, figures 13 to 16


def steady(answer, name):
    """The time of an iteration after all actions."""
    return rows(answer)[name]["stretches"][-1]["iteration_ms"]


def run_steady(replicas, ranks, microbatches, events, *names, reduce_ms=0.0):
    """The time of an iteration relative to a healthy one: without actions, and with each strategy."""
    problem = pipeline(ranks, microbatches, 20, data_parallel=inline(reduce_ms=reduce_ms))
    text = f"job: {{replicas: {replicas}, iterations: 4000, adapt_with: 1f1b, static: []}}\ncosts: {{topology_s: 30, restart_s: 1e6}}\nevents:\n" + \
           "".join(f"  - {event}\n" for event in events)
    answer, _ = campaign(problem, text)
    healthy = answer["healthy_ms"]
    return [steady(answer, name) / healthy for name in ("ignore", *names)]


def reduced(before, after):
    return 100 * (before - after) / (before - 1)


def figure_13():
    lines = []
    for replicas, published in ((2, 55.3), (4, 77.8), (8, 64.9)):
        for microbatches in (64, 128, 256):
            cells, shares = [], []
            for slowdown in (1.2, 1.5, 2.0):
                before, after = run_steady(replicas, 8 // replicas, microbatches // replicas, [inline(at=1, device=[0, 0], slowdown=slowdown)], "balance")
                cells.append(f"{before:.2f} -> {after:.2f}")
                shares.append(reduced(before, after))
            lines.append([replicas, microbatches, *cells, f"{published}%", f"**{sum(shares) / 3:.1f} %**"])
    return table(["replicas", "microbatches in all", "weak 1.2", "medium 1.5", "severe 2.0", "published: slowdown less by", "here"], lines)


def figure_14():
    lines = []
    for slow in range(5):
        events = [inline(at=1, device=[d, 0], slowdown=1.9) for d in range(slow)] or [inline(at=1, device=[0, 0], slowdown=1.000001)]
        before, after = run_steady(4, 2, 32, events, "balance")
        published = {0: "1.0", 1: "1.9 -> 1.2 (79.7 %)", 4: "no room"}.get(slow, "")
        lines.append([slow, published, f"{before:.2f}", f"{after:.2f}", f"{reduced(before, after):.1f}%" if slow else ""])
    return table(["slow replicas of 4", "published", "here: before", "after", "slowdown less by"], lines)


def congestion(pairs, replicas, kind, rate):
    """Pairs of neighbors in a ring, each pair in a different stage."""
    if kind == "link":
        return [inline(at=1, replica_link=[r, 0, 1], slowdown=rate) for r in range(1, 1 + pairs)]
    return [inline(at=1, nic=[d, r], slowdown=rate) for r in range(1, 1 + pairs) for d in (0, 1)]


def figure_15():
    lines = []
    for ranks, published in ((4, 53.7), (8, 24.8)):
        for kind, what in (("link", "the link between two of a ring"), ("nic", "the cards of two devices of a ring")):
            cells, shares = [], []
            for target in (1.2, 1.6, 2.0):
                healthy = 60 * (16 + ranks - 1) / 0.95
                ring, rate = 0.05 * healthy, 1 + (target - 1) / 0.05
                before, moved, after = run_steady(16 // ranks, ranks, 16, congestion(1, 16 // ranks, kind, rate), "topology", "ladder",
                                                  reduce_ms=ring)
                least = (16 * 60 + rate * ring) / healthy
                cells.append(f"{before:.2f} -> {moved:.2f} -> {after:.2f}")
                shares.append([reduced(before, one) for one in (moved, after, least)])
            means = [f"**{sum(column) / 3:.1f} %**" for column in zip(*shares)]
            lines.append([ranks, what, *cells, f"{published}%", *means[:2], means[2] if kind == "nic" else ""])
    return table(["ranks", "congested", "weak: before -> moved -> ladder", "medium", "severe", "published: slowdown less by", "moved", "the ladder",
                  "at most"], lines)


def figure_16():
    lines = []
    ring = 0.05 * 60 * 19 / 0.95
    for pairs, published in ((1, "1.6 -> 1.3"), (2, "1.7 -> 1.3"), (3, "1.9 -> 1.7")):
        cells = []
        for kind in ("link", "nic"):
            before, moved, after = run_steady(4, 4, 16, congestion(pairs, 4, kind, 1 + 0.6 / 0.05), "topology", "ladder", reduce_ms=ring)
            cells.append(f"{before:.2f} -> {moved:.2f} -> {after:.2f}")
        lines.append([pairs, published, *cells])
    return table(["congested links", "published", "here: the links alone, before -> moved -> ladder", "here: the cards of the devices at them"],
                 lines)


def figures():
    return f"""Falcon's figures 13 to 16 by the timing model; times are in units of a healthy iteration, after all that was done. Severities and microbatches are
not published. Figure 13, one slow device among 8, whose replicas are split anew (F = I = W; pipelines of 8 / replicas). The split is the least there is; with few microbatches it is coarse:

{figure_13()}

Figure 14, four replicas of 2 ranks and 32 microbatches, each slow one at 1.9 times:

{figure_14()}

Figure 15, 16 devices in replicas of 4 or 8 ranks of 1F1B; the ring over replicas is a twentieth of a healthy iteration, and so slow that it
makes 1.2, 1.6 and 2.0 of it. *Moved*: another arrangement, as in Falcon; *the ladder* has all strategies. Which link or which cards it is, the
look at the network tells: a card where all connections of a device are slow. What Falcon congested is not said. Where only the
link between two devices is slow, it can lie where nothing is sent, and nothing is lost any more. Slow cards cannot be left: wherever a device sits, it first
computes for all its microbatches, then its stage's ring waits for its card. The sum of the two is what *at most* stands for: no arrangement and no
schedule leaves less. That bound is below Falcon's figure for 4 ranks, so no strategy that keeps the device reaches it with cards of
these severities (one that leaves its host does). Moving brings both cards to the stage whose ring begins first; another schedule ends the slow stage
earlier, and brings more. More than 100 % can go, since other schedules than 1F1B are shorter in any case. A gain of less than 5 % of
what is lost is left alone, which is why severe cards of 4 ranks stay where they are:

{figure_15()}

Figure 16, 4 replicas of 4 ranks, one to three congested links in as many stages:

{figure_16()}
"""


# ---- random mixed faults


def mixed(seed):
    """300 iterations of 2 x 4 ranks: phases of 25 to 60 iterations, and every other phase has one to three faults."""
    draw, at, lines = random.Random(seed), 10 + seed % 7, []
    while at < 290:
        length = draw.randint(25, 60)
        for _ in range(draw.randint(1, 3)):
            kind, until = draw.choice(("link", "device", "ring", "device", "link")), min(300, at + length)
            d, r = draw.randrange(2), draw.randrange(4)
            if kind == "link":
                r = draw.randrange(3)
                lines.append(inline(at=at, until=until, link=[r, r + 1], replica=d, latency_ms=draw.choice((10, 20, 40, 60))))
            elif kind == "device":
                lines.append(inline(at=at, until=until, device=[d, r], slowdown=draw.choice((1.2, 1.5, 2.0))))
            else:
                lines.append(inline(at=at, until=until, replica_link=[r, 0, 1], slowdown=draw.choice((4, 8, 16))))
        at += length + draw.randint(5, 25)
    return "events:\n" + "".join(f"  - {line}\n" for line in lines)


def random_faults():
    problem = pipeline(4, 12, 10, communication="inorder", data_parallel=inline(reduce_ms=15))
    lines, worst = [], 0
    for seed in range(1, 21):
        text = "job: {replicas: 2, iterations: 300, schedule: zb-h2, static: [], notice: 3}\n" \
               "costs: {adapt_s: 0.02, delegate_s: 0.02, balance_s: 0.05, topology_s: 0.5, restart_s: 20}\nladder: {calm_s: 1}\n" + mixed(seed)
        answer, _ = campaign(problem, text)
        r = rows(answer)
        ratio = r["ladder"]["total_s"] / r["best in hindsight"]["total_s"]
        worst = max(worst, ratio)
        lines.append([seed, len(answer["events"]), f"{r['ignore']['mean_iteration_ms']:.0f} ms", f"{r['ladder']['mean_iteration_ms']:.0f} ms",
                      f"{r['best in hindsight']['mean_iteration_ms']:.0f} ms", f"{100 * (ratio - 1):+.1f}%", f"{100 * r['ladder']['recovered']:.0f}%"])
    return f"""300 iterations on 8 ranks (2 replicas of 4, 12 microbatches, ops of 10 ms, zb-h2, a ring of 15 ms; messages in order), random mixed faults of links
(10 to 60 ms), devices (1.2 to 2 times) and rings (4 to 16 times), one to three at once for 25 to 60 iterations. On the virtual clock: simulated. A
fault, or its end, is believed after 3 iterations; a plan or delegates cost 0.02 s, a split 0.05 s, an arrangement 0.5 s, a restart 20 s. Mean iteration
against the best choice in hindsight for each phase, which pays the same costs; the worst of the 20 seeds is {100 * (worst - 1):+.1f} %:

{table(["seed", "faults", "ignored", "ladder", "best in hindsight", "ladder above it", "slowdown recovered"], lines)}
"""


# ---- the command itself


def speed():
    lines = []
    big = pipeline(8, 16, 100, links="{default: {latency_ms: 0.02, transfer_ms: 1}}")
    day = "job: {{replicas: 1250, duration_s: 86400, gradient_mb: 400, ring_gbps: 400}}\ndraw: {{rates: {}}}\nseed: 1\n"
    small = pipeline(8, 16, 20, communication="batched")
    for label, problem, text, trace, more in (
            ("Adaptra's trace, 1,200 iterations, 16 replicas of 8 ranks", small, None, os.path.join(here, "adaptra.csv"),
             ["--set", "job.iterations=1200", "--set", "job.replicas=16"]),
            ("a day on 10,000 ranks (1,250 replicas of 8), events at the rates of jobs at scale", big, day.format("at-scale"), None, []),
            ("the same at the rates of small jobs, extrapolated to all hosts", big, day.format("probes"), None, [])):
        answer, stats = campaign(problem, text, "--stats", *more, trace=trace)
        seconds, memory = re.search(r"campaign: ([0-9.]+) s, peak memory ([0-9.]+) MB", stats).groups()
        now = max(s["start_s"] for row in answer["strategies"] for s in row["stretches"])
        met = sum(1 for e in answer["events"] if e.get("at_s", 0) <= now)
        lines.append([label, f"{answer['iterations']:,}", f"{met:,}", f"{answer['simulated']['iterations']:,}", f"{float(seconds):.2f} s", f"{float(memory):.0f} MB"])
    return f"""On {machine()}. All strategies together, hindsight included; iterations that are alike are replayed once.

{table(["campaign", "iterations", "events", "different iterations", "time", "peak memory"], lines)}
"""


PARTS = (("adaptra", "Campaign: Adaptra's trace", adaptra), ("several", "Campaign: Adaptra's figure 17", figure_17), ("falcon", "Campaign: Falcon's table 7", table_7),
         ("figures", "Campaign: Falcon's figures", figures), ("random", "Campaign: random faults", random_faults),
         ("speed", "Campaign: speed", speed))
for part, heading, make in PARTS:
    if arguments.only in (None, part):
        finish(arguments.write, heading, f"{COMMAND}. Simulated.\n\n{make()}")
        print()
