"""Figures that papers print, held without the clock: Zero Bubble's rates to 4 decimals, CrossPipe's proven optimum and
its order of schedules, Adaptra's delay against slack, and a slow link in the middle at the bound. The problems and the
published numbers are those of bench/planner, which writes the whole table."""
import os
import sys

from runner import build, expect, require, source

require("slackline")
sys.path.insert(0, os.path.join(source, "bench", "planner"))
import adaptra
import crosspipe
import slow_link
import zero_bubble
from command import Command

command = Command(os.path.abspath(build))


def test_recipes_have_the_published_bubble_rates():
    cells = 0
    for profiles, per_rank in ((zero_bubble.PROFILES, 1), (zero_bubble.WAVES, 2)):
        for model, p, m, *times, hidden, heads, chunks, f1b1, interleaved, h1, h2 in (row[:14] for row in profiles):
            if m > 64:
                continue
            times = [per_rank * t for t in times[:3]] + times[3:]
            line = zero_bubble.shape(p, m, *times)
            loop = zero_bubble.shape(p, m, *times, chunks, "loop")
            for schedule, keys, published in (("1f1b", line, f1b1), ("interleaved-1f1b", loop, interleaved),
                                              ("zb-h1", line, h1), ("zb-h2", line, h2)):
                if not command.has(schedule):
                    continue
                rate = command.plan("zero-bubble.yaml", schedule, keys)["bubble"]["span"]
                expect(round(rate, 4) == published, f"{model} {p} x {m} {schedule}: {rate:.6f}, published {published}")
                cells += 1
    expect(cells >= 36, f"only {cells} rates were compared")


def test_automatic_schedules_are_not_above_zb_1p():
    for model, p, m, F, I, W, c, hidden, heads, *_, one, _ in zero_bubble.PROFILES[:3]:
        keys = zero_bubble.shape(p, m, F, I, W, c) | zero_bubble.memory(p, heads, hidden)
        rate = command.plan("zero-bubble.yaml", "optimal", keys, 0.05)["bubble"]["span"]
        expect(round(rate, 4) <= one, f"{model} {p} x {m} within 1F1B's memory: {rate:.6f}, published {one}")


def test_sixteen_ranks_over_two_sites_are_proven_at_258():
    plan = command.plan("crosspipe.yaml", "optimal", crosspipe.tower(16))
    # by hand: the last rank may hold one microbatch, so F I W follow each other: it begins after 15 F and a crossing of
    # 3 (33), its last I ends 31 * 6 + 4 later (223), and is back at rank 0 after 15 I and a crossing, where W follows
    expect(plan["makespan_ms"] == 258 and plan["gap"] == 0, f"{plan['makespan_ms']}, gap {plan['gap']}")
    expect(all(peak <= 16 - r for r, peak in enumerate(plan["peak_memory"])), f"memory: {plan['peak_memory']}")


def test_schedules_come_in_crosspipes_order():
    bench = crosspipe.Bench(command)
    items = {item[0]: item for item in bench.schedules}
    for (lat, bw), order in (((0, 0), ("CrossWave", "ZBH1", "1F1B")), ((0.25, 0.25), ("CrossWave", "CrossUD", "1F1B")),
                             ((2, 0.25), ("CrossWave", "CrossUD", "ZBH1", "1F1B")), ((2, 2), ("CrossUD", "ZBH1", "1F1B", "ZBV"))):
        took = []
        for name in order:
            if name in items:
                keys = bench.keys(items[name], 8, 16, crosspipe.TIMES, 2, lat * 38.0, bw * 38.0)
                took.append((name, bench.run(items[name], keys, 0.2)[0]["makespan_ms"]))
        expect(all(a[1] < b[1] for a, b in zip(took, took[1:])), f"latency {lat}, bandwidth {bw}: {took}")


def test_delay_beyond_the_slack_grows_the_makespan_in_every_round():
    for slack in (1, 2, 3, 4):
        order, _ = adaptra.kept_slack(4, 30, slack)
        keys = {"microbatches": 30}
        free = command.simulate("four-ranks.yaml", order, keys)["makespan_ms"]

        def grown(ms):
            return command.simulate("four-ranks.yaml", order, keys | adaptra.delayed((0, 1), ms=ms))["makespan_ms"] - free
        if slack > 1:
            edge = (slack - 1) * 10
            expect(edge <= grown(edge) <= 2 * edge, f"slack {slack} absorbs {edge} ms: {grown(edge)}")
        slope = (grown(60) - grown(50)) / 10
        rounds = 2 * 30 / (slack + 1)  # less those of warm-up and cool-down, in which the rank waits for nobody
        expect(0.75 * rounds <= slope <= rounds, f"slack {slack}: {slope} ms per ms, published about {rounds}")


def test_one_slow_link_in_the_middle_costs_its_delay_alone():
    for ranks, microbatches in ((8, 32), (16, 64)):
        for ms in (20, 60):
            plan = command.plan("four-ranks.yaml", "auto", slow_link.problem(ranks, microbatches, ms))
            # by hand: rank 0's or the last rank's work of 3 N ops, the way there of R - 1 ops, and the delay
            expect(plan["makespan_ms"] == 10 * (3 * microbatches + ranks - 1) + ms and plan["gap"] == 0,
                   f"{ranks} x {microbatches}, {ms} ms: {plan['makespan_ms']}, gap {plan['gap']}")
