"""Published figures through the command: S=4, N=12, F=I=W=10 ms (Adaptra, figures 4 and 5, and its adapted schedules);
bubbles of the Zero Bubble paper; tolerances, bounds and bandwidths by hand."""
import os

from calling import delay, folder, plan, problem, refused, run
from runner import expect

order = os.path.join(folder, "order.csv")

# the ideal schedule and its replay under delay
ideal = plan("plan", problem, "--schedule", "adaptra")


def test_the_published_ideal_order_loses_what_is_published():
    expect(ideal["makespan_ms"] == 390 and ideal["warmup"] == [7, 5, 3, 1], "the ideal schedule takes 390 ms with 7, 5, 3, 1")
    expect(ideal["gap"] == 0 and ideal["lower_bound_ms"] == 390, "390 ms is proven optimal")
    expect(run("plan", problem, "--schedule", "adaptra", "--format", "csv", "-o", order).returncode == 0, "csv to a file")
    for ms, makespan in ((0, 390), (10, 400), (20, 440)):
        replayed = plan("simulate", problem, "--order", order, *delay(ms))
        expect(replayed["makespan_ms"] == makespan, f"the same order at {ms} ms: {replayed['makespan_ms']}, not {makespan}")
        expect(replayed["lost"] == {"dependency_ms": makespan - 390, "blocking_ms": 0}, f"lost at {ms} ms: {replayed['lost']}")
        expect(replayed["schedule"] == "file" and replayed["warmup"] == [7, 5, 3, 1], "the order is the one of the file")


def test_adapted_schedules_take_390_ms_and_the_delay():
    # adapted: 390 + c, the lower bound, up to 80 ms
    for ms in (10, 20, 30, 40, 50, 60, 70, 80):
        adapted = plan("plan", problem, "--schedule", "adaptra", *delay(ms))
        expect(adapted["makespan_ms"] == 390 + ms, f"adapted to {ms} ms: {adapted['makespan_ms']}")
        expect(adapted["lower_bound_ms"] == 390 + ms and adapted["gap"] == 0, f"the bound at {ms} ms")
    # beyond, the first backward's round trip bounds: 4 F and 3 I on the way, two delays, then 12 I and W on rank 0
    expect(plan("plan", problem, *delay(100))["lower_bound_ms"] == 70 + 200 + 240, "the bound at 100 ms")


def test_tolerance_is_that_of_the_formula():
    # tolerance by hand: slack 2 of equal stages: 10 + 10 + 2c <= 2 * 20; with B: 10 + 20 + 2c <= 1 * 30
    expect([link["tolerance_ms"] for link in ideal["links"]] == [10, 10, 10], "tolerance of slack 2 is 10 ms")
    full = plan("plan", problem, "--schedule", "1f1b")
    expect([link["tolerance_ms"] for link in full["links"]] == [0, 0, 0] and full["warmup"] == [4, 3, 2, 1], "1f1b tolerates nothing")


def test_spans_are_those_of_zero_bubble():
    # Zero Bubble, table 1: 1F1B (p-1)(F+I+W), ZB-H1 (p-1)(F+I-W), ZB-H2 (p-1)(F+I-2W) in addition to the work of 12 microbatches
    for schedule, bubble, warmup in (("1f1b", 90, [4, 3, 2, 1]), ("zb-h1", 30, [4, 3, 2, 1]), ("zb-h2", 0, [7, 5, 3, 1])):
        published = plan("plan", problem, "--schedule", schedule)
        expect(published["span_ms"] == 360 + bubble, f"{schedule}: span {published['span_ms']}, not {360 + bubble}")
        expect(abs(published["bubble"]["span"] - bubble / (360 + bubble)) < 1e-12, f"{schedule}: {published['bubble']}")
        expect(published["warmup"] == warmup, f"{schedule}: warm-up {published['warmup']}")
        expect(max(published["peak_memory"]) == warmup[0], f"{schedule}: {published['peak_memory']}")
    # GPipe: (p-1)(F+B) too, and every activation in memory
    gpipe = plan("plan", problem, "--schedule", "gpipe")
    expect(gpipe["makespan_ms"] == 450 and gpipe["peak_memory"] == [12] * 4, "gpipe: (p-1)(F+B) of bubble, all in memory")


def test_memory_limits_are_kept():
    # memory: rank 0 of zb-h2 holds 7 (2p - 1), adaptra keeps to whatever limit there is; x_0 is the limit, slack balanced
    limited = ["--set", "pipeline.memory={delta: {F: 1, I: 0, W: -1}, limit: 5}"]
    refused(1, "zb-h2 | memory | 7", "plan", problem, "--schedule", "zb-h2", *limited)
    for limit in range(1, 13):
        kept = plan("plan", problem, "--schedule", "adaptra", "--set", f"pipeline.memory.limit={limit}")
        expect(max(kept["peak_memory"]) <= limit and kept["memory_ok"], f"limit {limit}: {kept['peak_memory']}")
        expect(kept["warmup"][0] == limit, f"limit {limit}: {kept['warmup']}")
    balanced = plan("plan", problem, "--schedule", "adaptra", "--set", "pipeline.memory.limit=10")
    expect(balanced["warmup"] == [10, 7, 4, 1] and balanced["makespan_ms"] == 390, f"algorithm 1: {balanced['warmup']}")
    refused(1, "schedule | memory | limit | rank | 0 | 1 | 0.5", "plan", problem, "--set", "pipeline.memory.limit=0.5")
    over = plan("simulate", problem, "--order", order, *limited)
    expect(over["memory_ok"] is False and over["peak_memory"][0] >= 7, "simulate tells an order over the limit and goes on")


def test_transfers_and_whole_backwards_take_the_times_by_hand():
    # 8 megabit at 2 Gbit/s take 4 ms, plus 1 ms of latency: F0 0-1, on rank 1 from 6
    sized = plan("plan", "-", "--schedule", "gpipe", text=(
        "pipeline:\n  ranks: 2\n  microbatches: 1\n  times_ms: {F: 1, I: 1, W: 1}\n"
        "  links: {default: {latency_ms: 1, bandwidth_gbps: 2, message_mb: 1}}\n"))
    expect([op["start_ms"] for op in sized["ops"]] == [0, 6, 7, 14], f"bandwidth: {[op['start_ms'] for op in sized['ops']]}")
    expect([(t["start_ms"], t["end_ms"], t["arrive_ms"]) for t in sized["transfers"]] == [(1, 5, 6), (9, 13, 14)], "transfers")
    # B of its own: 2 rather than I + W = 2.5
    own = plan("plan", "-", "--schedule", "1f1b", text="pipeline: {ranks: 1, microbatches: 3, times_ms: {F: 1, I: 1, W: 1.5, B: 2}}")
    expect(own["makespan_ms"] == 9 and own["ideal_ms"] == 9, "times_ms.B is the time of B")
