#!/usr/bin/env python3
"""PyTorch's pipelining with slackline.adapt while something gets slow and recovers: PyTorch alone, with plans by hand that are swapped
at the right steps, and live; and random mixtures of jobs and faults against the best static plan in hindsight.

Usage: bench/pytorch/run.py [BUILD_DIR] [--write docs/results/evidence/pytorch.md] [what]...
    --case NAME     a named case (several: repeat it). Without any of these options: all named cases
    --mixtures N    N random mixtures, from --seed on: with real processes
    --briefly       mixtures: only the best static plan and live
    --virtual N     N random mixtures in simulated time
    --static        PyTorch's schedules and static plans; a plan from a profile
    --all           all named cases, 20 mixtures, 200 virtual ones, and --static
Runs under .venv's Python (torch 2.13, tests/requirements.txt) where this one has no torch; --virtual needs none.
Exit code: 1 if losses differ, or a named case or a mixture misses its goal; times are only meaningful on a machine without other work."""
import argparse
import multiprocessing
import os
import statistics
import sys
from collections import Counter

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
from page import finish, machine, need_torch, source, table  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--case", action="append", default=[], metavar="NAME")
parser.add_argument("--mixtures", type=int, default=0, metavar="N")
parser.add_argument("--briefly", action="store_true")
parser.add_argument("--virtual", type=int, default=0, metavar="N")
parser.add_argument("--seed", type=int, default=0, help="of the first mixture")
parser.add_argument("--static", action="store_true")
parser.add_argument("--all", action="store_true")
parser.add_argument("--steps", type=int, default=100, help="of a mixture")
parser.add_argument("--iterations", type=int, default=11, help="of each static schedule")
parser.add_argument("--noise", type=float, default=0.02, help="of virtual ops, messages and steps, as a share of their time")
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()
os.environ["SLACKLINE_LIBRARY"] = os.path.join(os.path.abspath(arguments.build), "libslackline.so")
sys.path[:0] = [here, os.path.join(source, "python"), os.path.join(source, "examples", "python")]
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:3], os.environ.get("PYTHONPATH", "")])
named = arguments.case or not (arguments.mixtures or arguments.virtual or arguments.static)
if arguments.all:
    named, arguments.static = True, True
    arguments.mixtures, arguments.virtual = arguments.mixtures or 20, arguments.virtual or 200
if named or arguments.mixtures or arguments.static:
    need_torch()
    import torch
import slackline  # noqa: E402
from cases import NAMED, Hindsight, mixture  # noqa: E402
from virtual import Job  # noqa: E402

SETTLED = 10  # steps after a change, from which on its goal holds
NEAR = 1.05  # a step time that counts as settled, and the goal of a case without one in ms, relative to the plan by hand
GOAL = 1.10  # of a mixture's whole run, relative to the best static plan


def median(values):
    return statistics.median(values) if values else float("nan")


def verdict(good):
    return "pass" if good else "MISS"


def losses_apart(found, reference):
    return max(abs(a - b) for a, b in zip(found["losses"], reference["losses"]))


def apart_of(case):
    """Replicas with other splits add the gradients of the same samples in another order."""
    return 0 if case.replicas == 1 else 1e-9


def progress(what, found):
    print(f"{what}: {[round(one) for one in found['times']]}", *(event for event in found["events"] if event[1] != "profile"), found["why"],
          sep="\n    ", file=sys.stderr, flush=True)


# ---- the named cases ---------------------------------------------------------------------------------------------------------


def settles(times, first, last, ms):
    """Steps from `first` on until two consecutive steps take at most `ms`."""
    good = [time <= ms for time in times[first:last]]
    return next((at for at in range(len(good) - 1) if good[at] and good[at + 1]), len(good))


def rows_of_case(case, runs):
    """A row for each run of a case, and whether its goals are met."""
    onset, relief = case.faults[0].first, case.faults[0].last
    spans = [(onset - 5, onset), (onset + SETTLED, relief), (relief + SETTLED, case.steps)]
    hand = [median(runs["by hand"]["times"][first:last]) for first, last in spans]
    goals = [goal if goal is not None else NEAR * ms for goal, ms in zip(case.goals, hand)]
    rows, good = [], True
    for how, found in runs.items():
        times = found["times"]
        took = [median(times[first:last]) for first, last in spans]
        row = [case.name, how, *(f"{ms:.0f}" for ms in took), "", "", ""]
        if how == "live":
            overhead = case.overhead_ms(found["problem"])
            predicted = [case.predicted_ms(last - 1, found["ran"][last - 1], overhead) for _, last in spans]
            after = [settles(times, onset, relief, goals[1]), settles(times, relief, case.steps, goals[2])]
            good = all(ms <= goal for ms, goal in zip(took, goals)) and max(after) <= SETTLED
            row[5:] = [", ".join(f"{ms:.0f}" for ms in predicted), f"{after[0]}, {after[1]}",
                       f"{verdict(good)} (at most {', '.join(f'{goal:.0f}' for goal in goals)})"]
        rows.append(row)
    return rows, good


def named_cases(chosen):
    import ranks
    rows, apart, swaps, good = [], 0.0, [], True
    for case in chosen:
        by_hand = [case.best(first) for first, _ in case.phases()]
        runs = {"PyTorch alone": ranks.run(case), "by hand": ranks.run(case, by_hand), "live": ranks.run(case, live=True)}
        for how, found in runs.items():
            progress(f"{case.name}, {how}", found)
            differ = losses_apart(found, runs["PyTorch alone"])
            apart, good = max(apart, differ), good and differ <= apart_of(case)
        more, met = rows_of_case(case, runs)
        rows += more
        good &= met
        swaps += runs["live"]["swaps"]
    heads = ["what gets slow", "schedule", "healthy", "slow", "recovered", "predicted", "steps until settled", "goal"]
    finish(arguments.write, "Live: something gets slow and recovers", f"""`bench/pytorch/run.py`, {machine()}, load {os.getloadavg()[0]:.1f} at its end, PyTorch {torch.__version__}. 4 processes over Gloo, 12
microbatches, ops of 10 ms on each rank. Something is slow from step 20 to 60 of 100. Times are medians in ms per step: of the five steps before
the onset, from {SETTLED} steps after it, and from {SETTLED} steps after the relief. "By hand" uses plans for the true times, made in advance and swapped at the
right steps; with replicas, the best split of the microbatches. Predicted: the orders that the live job ran, replayed on the true times and the overhead per op that the healthy job measured. Settled: steps after the onset and the relief until two
steps in a row meet the goal; at most {SETTLED} are allowed. A goal without a number of its own is {NEAR:g} times the time by hand. Losses differ by at
most {apart:.0e}; a swap took {median(swaps):.1f} ms (median, at most {max(swaps, default=0):.1f}).

{table(heads, rows)}""")
    return good


# ---- the mixtures ------------------------------------------------------------------------------------------------------------


def described(case):
    return f"{case.schedule}, {case.ranks} ranks, {case.microbatches} microbatches, memory {case.memory}; {'; '.join(map(str, case.faults))}"


def mixtures():
    import ranks
    rows, shares, apart = [], [], 0.0
    for seed in range(arguments.seed, arguments.seed + arguments.mixtures):
        case = mixture(seed, steps=arguments.steps)
        best = Hindsight(case, 1.0)
        runs = {} if arguments.briefly else {"PyTorch alone": ranks.run(case)}
        runs["one static plan"] = ranks.run(case, [[best.one]] * len(best.each))
        if not arguments.briefly:
            runs["a plan per phase"] = ranks.run(case, [[one] for one in best.each])
        runs["live"] = ranks.run(case, live=True)
        for how, found in runs.items():
            progress(f"{case.name} ({described(case)}), {how}", found)
            apart = max(apart, losses_apart(found, runs["one static plan"]))
        seconds = {how: sum(found["times"]) / 1e3 for how, found in runs.items()}
        share = seconds["live"] / seconds["one static plan"]
        shares.append(share)
        rows.append([seed, described(case), *(f"{seconds[how]:.1f}" if how in seconds else "" for how in ("PyTorch alone", "one static plan", "a plan per phase", "live")),
                     f"{100 * (share - 1):+.1f}%", "" if arguments.briefly else f"{100 * (seconds['live'] / seconds['a plan per phase'] - 1):+.1f}%",
                     verdict(share <= GOAL)])
    heads = ["seed", "job and faults", "PyTorch alone, s", "best static plan", "best plan per phase", "live, s", "to the static plan", "per phase", "goal"]
    finish(arguments.write, "Live: random mixtures", f"""`bench/pytorch/run.py --mixtures {arguments.mixtures} --seed {arguments.seed} --steps {arguments.steps}{' --briefly' * arguments.briefly}`, {machine()}, load {os.getloadavg()[0]:.1f} at its end, PyTorch {torch.__version__}.
Seconds of the whole run, with all steps before and while something is noticed. The best static plan is known only in hindsight: the shortest
whole run of the plans for each combination of faults, for all at once, of every family, and of the job's own order. "Per phase" swaps to the
best plan for each combination of faults, at the right steps. Plans and job have the same memory. Live is within {100 * (GOAL - 1):.0f}% of the best static plan in
{sum(share <= GOAL for share in shares)} of {len(shares)} mixtures: {100 * (median(shares) - 1):+.1f}% (median), {100 * (max(shares) - 1):+.1f}% at most. Gradients of plans in another order differ in their last bits: losses by at most {apart:.0e}.

{table(heads, rows)}""")
    return max(shares) <= GOAL and apart < 1e-9


def virtual_mixture(seed):
    case = mixture(seed, steps=arguments.steps)
    best = Hindsight(case, 0.5)
    job = Job(case.problem(0), case.rank_of, case.given(), seed=seed, noise=arguments.noise, memory=case.memory)
    took = sum(job.run(case.steps, truth=case.problem))
    return seed, case, took / best.one_ms, took / best.each_ms, best.given_ms / best.one_ms, sum(kind == "swap" for kind in job.kinds())


def virtual():
    with multiprocessing.get_context("spawn").Pool(min(os.cpu_count() or 1, arguments.virtual)) as pool:
        found = pool.map(virtual_mixture, range(arguments.seed, arguments.seed + arguments.virtual), chunksize=1)
    rows = []
    for name, at in (("live, to the best static plan", 2), ("live, to the best plan per phase", 3), ("the job's own order, to the best static plan", 4)):
        values = sorted(one[at] for one in found)
        rows.append([name, *(f"{100 * (value - 1):+.1f}%" for value in (median(values), values[len(values) * 9 // 10], values[-1])),
                     f"{sum(value <= GOAL for value in values)} of {len(values)}"])
    worst = sorted(found, key=lambda one: -one[2])[:5]
    by = Counter(one[1].schedule for one in found)
    finish(arguments.write, "Simulated: random mixtures", f"""`bench/pytorch/run.py --virtual {arguments.virtual} --seed {arguments.seed}`: the same mixtures in simulated time, with noise of up to {100 * arguments.noise:g}% on ops, messages and
steps. What decides is the code that decides in a live job. {', '.join(f'{count} {name}' for name, count in by.most_common())}.

{table(["time of the whole run", "median", "9 of 10 below", "most", f"within {100 * (GOAL - 1):.0f}%"], rows)}
The farthest from the best static plan:

{table(["seed", "job and faults", "to the static plan", "swaps"], [[one[0], described(one[1]), f"{100 * (one[2] - 1):+.1f}%", one[5]] for one in worst])}""")
    return sum(one[2] <= GOAL for one in found) >= 0.95 * len(found)


def main():
    chosen = [case for case in NAMED if not arguments.case or case.name in arguments.case]
    if len(chosen) < len(arguments.case):
        parser.error(f"the named cases are {'; '.join(case.name for case in NAMED)}")
    good = True
    if named:
        good &= named_cases(chosen)
    if arguments.mixtures:
        good &= mixtures()
    if arguments.virtual:
        good &= virtual()
    if arguments.static:
        import static
        good &= static.run(arguments) <= 1e-9
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
