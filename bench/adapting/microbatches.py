"""Falcon, figures 13 and 14: slow replicas get fewer microbatches."""
from statistics import mean

from command import table
from live import HOLD, reduced, shape

ONE, SEVERAL = "One slow replica, live", "Several slow replicas, live"
OP, MICROBATCHES = 4.0, 36  # ms of F, I and W each; per replica
HEALTHY, SLOW, CALM = 6, 20, 15  # iterations; calm: until the split is even again
SEVERITIES = {"weak": 1.25, "medium": 1.5, "severe": 2.0}
PUBLISHED = {2: 55.3, 4: 77.8, 8: 64.9}
FACTOR = 1.9


def least(replicas, slow, factor):
    """The least maximum of m_i t_i over whole numbers with this sum, in units of a healthy replica's op. Exact: tries all possible
    splits of the slow replicas."""
    total = replicas * MICROBATCHES
    if slow == replicas:
        return factor * MICROBATCHES
    found = factor * total
    for of_slow in range(slow, total - (replicas - slow) + 1):
        most = max(-(-of_slow // slow) * factor if slow else 0, -(-(total - of_slow) // (replicas - slow)))
        found = min(found, most)
    return found


def windows(replicas, cases):
    """One run with trouble and then relief for each (slow replicas, factor). Returns [(slow ms, balanced ms or None, split)], healthy ms."""
    faults, first, at = [], HEALTHY, []
    for slow, factor in cases:
        at.append(first)
        faults += [{"iterations": [first, first + SLOW], "rank": 0, "replica": replicas - 1 - number, "slowdown": factor}
                   for number in range(slow)]
        first += SLOW + CALM
    return faults, at, first


def measure(bench, name, replicas, cases):
    faults, at, iterations = windows(replicas, cases)
    run = bench.run(name, shape(1, replicas, MICROBATCHES, OP, iterations, faults=faults, schedule="1f1b", adapt=True,
                                adaptation={"strategies": ["balance"]}))
    healthy, found = run.phase(0, HEALTHY), []
    for first in at:
        changes = [change for change in run.arranged() if first < change[0] < first + SLOW]
        changed, last = (changes[0][0], changes[-1][0]) if changes else (first + SLOW, None)
        slow = run.phase(first, changed, skip=0)
        balanced = run.phase(last, first + SLOW) if last else None
        found.append((slow, balanced, changes[-1][2] if changes else [MICROBATCHES] * replicas, changed - first))
    return healthy, found, run


SETTINGS = f"""`pipeline: 1`, {MICROBATCHES} microbatches a replica, F = I = W = {OP:g} ms, gpt2 of one block of width 32, `strategies: [balance]`;
a change must last {HOLD} iterations."""


def one_slow(bench):
    rows, averages = [], []
    for replicas, published in PUBLISHED.items():
        healthy, found, run = measure(bench, f"figure 13, {replicas} replicas", replicas, [(1, f) for f in reversed(SEVERITIES.values())])
        gained = []
        for (word, factor), (slow, balanced, split, after) in zip(SEVERITIES.items(), reversed(found)):
            best = healthy + 3 * OP * (least(replicas, 1, factor) - MICROBATCHES)
            gained.append(reduced(healthy, slow, balanced or slow))
            rows.append([replicas, f"{word}, {factor:g} x", f"{healthy:.1f}", f"{slow:.1f}", f"{balanced or slow:.1f}", f"{best:.1f}",
                         " ".join(map(str, split)), after, f"{gained[-1]:.1f}%", f"{reduced(healthy, slow, best):.1f}%", ""])
        rows[-1][-1] = f"{mean(gained):.1f}%, published {published:g}%"
        averages.append((replicas, mean(gained), published))
    return f"""\
Falcon's figure 13: one slow device among 2, 4 and 8 replicas, weak, medium and severe (it does not say how slow). {SETTINGS}
A run for each number of replicas, with the three one after the other, severe first, and relief in between. *least*: what the exact optimum over
whole numbers takes: the healthy time and its ops beyond that.

{table(["replicas", "severity", "healthy ms", "slow ms", "balanced ms", "least ms", "split", "after iterations", "slowdown reduced by",
        "at most possible", "on average"], rows)}
"""


def several_slow(bench):
    replicas, rows = 4, []
    cases = [(slow, FACTOR) for slow in range(1, replicas + 1)]
    healthy, found, run = measure(bench, "figure 14", replicas, cases)
    rows.append([0, f"{healthy:.1f}", "", "", "", "", "", ""])
    for (slow_ones, factor), (slow, balanced, split, _) in zip(cases, found):
        best, now = healthy + 3 * OP * (least(replicas, slow_ones, factor) - MICROBATCHES), balanced or slow
        rows.append([slow_ones, f"{slow:.1f}", f"{now:.1f}", f"{best:.1f}", " ".join(map(str, split)),
                     f"{slow / healthy:.2f} -> {now / healthy:.2f}", f"{reduced(healthy, slow, now):.1f}%",
                     {1: "1.9 -> 1.2 (79.7 %)", 4: "no room"}.get(slow_ones, "less room")])
    return f"""\
Falcon's figure 14: none to all of 4 replicas slow by {FACTOR} times. {SETTINGS} One run, with relief in between.

{table(["slow replicas", "slow ms", "balanced ms", "least ms", "split", "slowdown", "reduced by", "published"], rows)}
"""
