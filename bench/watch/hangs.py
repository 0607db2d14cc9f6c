#!/usr/bin/env python3
"""Hangs of MPI programs and Gloo scripts, made on purpose at random: what `slackline watch` reports of each, and how soon. And programs that are slow
but alive: whether one of them is called a hang.

Usage: bench/watch/hangs.py [BUILD_DIR] [--runs N] [--alive N] [--seed N] [--after S] [--only FAMILY] [--write docs/results/evidence/watch.md]
A row can be repeated by its seed: --runs 1 --seed SEED. Families: openmpi, mpich, gloo (needs torch, tests/requirements.txt)."""
import argparse
import collections
import os
import random
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(here), os.path.join(os.path.dirname(os.path.dirname(here)), "tests", "notice", "hang")]
from page import finish, machine, need_torch, table  # noqa: E402
import hanging  # noqa: E402

ALIVE = ("long", "sleep")


def drawn(seed, only, after):
    """A program that hangs, from its seed alone."""
    chosen = random.Random(seed)
    families = [only] if only else ["openmpi", "mpich", "gloo"]
    family = chosen.choice(families)
    kinds = hanging.GLOO if family == "gloo" else hanging.MPI
    kind = chosen.choice(sorted(kinds))
    ranks = 4 if kind in ("sends", "cross") else chosen.choice((2, 3, 4) if family == "gloo" else (3, 4, 5, 6))
    return family, kind, ranks, chosen.randrange(ranks), chosen.choice((10, 20, 60)), chosen.choice((0, 2, 10))


def words_of(folder, family, kind, ranks, wrong, iterations, pause, seconds=None):
    arguments = [kind, str(wrong), str(iterations), str(pause), *([str(seconds)] if seconds else [])]
    return hanging.gloo_words(ranks, arguments) if family == "gloo" else hanging.mpi_words(folder, family, ranks, arguments)


def one_hang(build, folder, seed, only, after):
    family, kind, ranks, wrong, iterations, pause = drawn(seed, only, after)
    known = (hanging.GLOO if family == "gloo" else hanging.MPI)[kind]
    began = time.monotonic()
    with hanging.Standing(build, folder, words_of(folder, family, kind, ranks, wrong, iterations, pause, 600), ["--hang-after", str(after)], family == "gloo") as run:
        event, _ = run.wait_for(("hang", "stall"), 120)
        ended = run.process.poll() is not None
    result = hanging.outcome(event, known, wrong, ranks)
    if result == "abstained" and ended:
        result = "ended by itself"
    print(f"{seed} {family} {kind} {ranks} ranks, rank {wrong}: {result} ({time.monotonic() - began:.0f} s)", flush=True)
    if result not in ("named", "ended by itself"):
        print("   ", event["decided"] if event else "nothing", "|", hanging.text_of(event), flush=True)
    return family, kind, result, event


def one_alive(build, folder, seed, only, after):
    """A rank computes or sleeps for longer than --hang-after, several times."""
    chosen = random.Random(seed)
    family = only or chosen.choice(["openmpi", "mpich", "gloo"])
    ranks = chosen.choice((2, 3, 4))
    kind, wrong, seconds = chosen.choice(ALIVE), chosen.randrange(ranks), after + chosen.uniform(2, 6)
    words = words_of(folder, family, kind, ranks, wrong, 200, 10, seconds)
    with hanging.Standing(build, folder, words, ["--hang-after", str(after), "--hang", "kill"], family == "gloo") as run:
        code = run.process.wait(180)
        kinds = [event["kind"] for event in run.hangs()]
        stall = next((event for event in run.hangs() if event["kind"] == "stall"), None)
    named = bool(stall) and stall.get("rank") == wrong
    print(f"{seed} alive: {family} {kind} {ranks} ranks, rank {wrong} for {seconds:.0f} s: {' '.join(kinds)}, exit {code}", flush=True)
    return "false alarm" if "hang" in kinds or code != 0 else "named and taken back" if named and kinds[-1] == "moves" else "other"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--alive", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--after", type=float, default=10)
    parser.add_argument("--only", choices=("openmpi", "mpich", "gloo"))
    parser.add_argument("--write")
    a = parser.parse_args()
    if a.only in (None, "gloo"):
        need_torch()
    build = os.path.abspath(a.build)
    counts = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory(prefix="hangs") as folder:
        for seed in range(a.seed, a.seed + a.runs):
            family, _, result, event = one_hang(build, folder, seed, a.only, a.after)
            counts[family][result] += 1
            counts["all"][result] += 1
        alive = collections.Counter(one_alive(build, folder, seed, a.only, a.after) for seed in range(a.seed, a.seed + a.alive))
    columns = ("named", "unclear", "wrong", "abstained", "ended by itself")
    rows = [[family, sum(counts[family].values()), *(counts[family][column] for column in columns)] for family in ("openmpi", "mpich", "gloo", "all")
            if counts[family]]
    body = (f"`bench/watch/hangs.py --runs {a.runs} --alive {a.alive} --seed {a.seed} --after {a.after:g}` on {machine()}.\n\n"
            + table(["programs", "hangs", *columns], rows)
            + f"\nSlow but alive: {sum(alive.values())} programs, {alive['named and taken back']} named and taken back, {alive['false alarm']} false alarms, "
            f"{alive['other']} other.\n")
    finish(a.write, "Hangs", body)


if __name__ == "__main__":
    main()
