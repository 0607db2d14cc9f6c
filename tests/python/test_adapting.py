"""What the first rank of an adapted PyTorch job decides (slackline.adapting.deciding), on jobs whose steps are replayed by the
library: other times, placements and faults in each; no PyTorch."""
import json
import os
import random
import re
import sys

import package
import slackline
from runner import expect
from slackline.adapting import order
from slackline.adapting.tuning import Tuner, sizes

sys.path.insert(0, os.path.join(package.source, "bench", "pytorch"))
from cases import Hindsight, mixture, rank_of  # noqa: E402
from virtual import Job as Virtual  # noqa: E402


class Job(Virtual):
    """`times` of its ops in ms, I and W as they really are; `given`, the family that it begins with; `overhead` of an op and a message."""

    def __init__(self, placement, ranks, microbatches, times, given, overhead=(0, 0), objective="makespan", **shape):
        truth = {"pipeline": {"ranks": ranks, "microbatches": microbatches, "placement": placement, "times_ms": times, "objective": objective,
                              "links": {"default": {"latency_ms": 0.1}}, "overhead_ms": dict(zip(("op", "message"), overhead))}}
        super().__init__(truth, rank_of(placement, ranks), slackline.plan(truth, given).csv(), **shape)

    def best(self, slow=None):
        return slackline.plan(self.truth, "auto", 1, changes=slow, threads=1, exact=False).value_ms


EVEN = {"F": 10, "I": 10, "W": 10, "B": 20}


def between(a, b, ms):
    return {"pipeline.links.list": [{"between": [a, b], "latency_ms": ms}]}


def within(found, best, share, what):
    expect(found <= best * (1 + share), f"{what}: {found} ms, the best plan takes {best}")


def test_a_slow_link_is_planned_around_and_relief_goes_back():
    job = Job("linear", 4, 12, EVEN, "1f1b")
    healthy = job.run(30)
    within(healthy[-1], job.best(), 0.05, "healthy")
    slow = job.run(40, between(0, 1, 60))
    within(slow[10], job.best(between(0, 1, 60)), 0.08, "10 steps after the onset")
    again = job.run(30)
    within(again[10], healthy[-1], 0.02, "10 steps after relief")
    expect(job.kinds().count("onset") == 1 and "verdict" in job.kinds(), f"events: {job.kinds()}")


def test_steps_without_a_pause_have_the_shortest_period():
    """1F1B takes 450 ms from step to step, as long as its makespan. A rank works for 360."""
    job = Job("linear", 4, 12, EVEN, "1f1b", objective="period")
    healthy = job.run(30)
    expect(healthy[0] > 450 and abs(job.decider.predicted_ms - healthy[-1]) < 1, f"healthy: {healthy}, predicted {job.decider.predicted_ms}")
    within(healthy[-1], 360, 0.02, "healthy")
    slow = job.run(40, between(0, 1, 60))
    within(slow[10], job.best(between(0, 1, 60)), 0.08, "10 steps after the onset")
    expect("onset" in job.kinds(), f"events: {job.kinds()}")
    again = job.run(30)
    within(again[10], healthy[-1], 0.02, "10 steps after relief")


def test_a_link_that_is_slow_again_keeps_the_order_made_for_it():
    """It recovers for six steps, fewer than two swaps are apart, so the return waits; and is not made when the link is slow again."""
    job, slow = Job("linear", 4, 8, EVEN, "1f1b"), between(2, 3, 50)
    job.run(20)
    for _ in range(2):
        times = job.run(6, slow)
        order_then = job.ran[-1]
        job.run(6)
    within(max(times), job.best(slow), 0.08, "slow again")
    expect(order_then in job.ran[26:32], "the order of the first time was not kept")


def test_a_link_that_comes_and_goes_keeps_its_plan():
    """5 steps slow and 5 healthy, faster than swaps follow: after some rounds each step takes what the best plan for it takes, within 2 %, and nothing is swapped."""
    job, slow = Job("linear", 4, 12, EVEN, "1f1b"), between(0, 1, 60)
    job.run(20)
    for _ in range(8):
        job.run(5, slow)
        job.run(5)
    swaps = job.version
    times = [(job.run(5, slow), job.run(5)) for _ in range(6)]
    for late, healthy in times:
        within(max(late), job.best(slow), 0.02, "slow")
        within(max(healthy), job.best(), 0.02, "healthy")
    expect(job.version == swaps, f"{job.version - swaps} swaps")


def test_the_event_of_a_swap_is_that_of_the_last_step_before_it():
    job = Job("linear", 4, 12, EVEN, "1f1b")
    job.run(30)
    job.run(25, between(0, 1, 60))
    job.run(25)
    changed = [step for step in range(1, len(job.ran)) if job.ran[step] != job.ran[step - 1]]
    swaps = [one.step for one in job.decider.happened if one.event and one.kind in ("swap", "return")]
    expect(len(swaps) > 1 and all(step + 1 in changed for step in swaps), f"swaps after steps {swaps}, other orders from steps {changed}")


def test_what_is_kept_has_the_times_of_now():
    """A link gets slow while the first better order is on its way: what is said of it afterwards is predicted for the order that runs then."""
    for delay in (5, 25):
        job, slow, kept = Job("linear", 4, 12, EVEN, "1f1b"), between(0, 1, delay), []
        job.run(3)
        job.run(30, slow)
        for one in job.decider.happened:
            if one.kind == "keep":
                took = slackline.simulate(job.truth, order.text_of(job.ran[one.step]), changes=slow).makespan_ms
                kept += [(took, float(ms)) for ms in re.findall(r"the running schedule is predicted to take ([\d.]+) ms|both schedules are predicted to take ([\d.]+) ms", one.text) for ms in ms if ms]
        expect(kept and all(abs(took - said) < 0.02 * took for took, said in kept), f"{delay} ms: takes, said to take: {kept}")


def test_steps_are_urgent_from_an_onset_until_its_swap_and_no_longer():
    job = Job("linear", 4, 12, EVEN, "1f1b")
    job.run(30)
    expect(not job.decider.urgent, "urgent although nothing is slow")
    before, urgent = job.ran[-1], []
    for _ in range(20):
        job.run(1, between(0, 1, 60))
        urgent.append((job.ran[-1] != before, job.decider.urgent))
    expect((False, True) in urgent, f"(swapped, urgent) of each step: {urgent}")
    swapped = [now for changed, now in urgent if changed]
    expect(len(swapped) > 5 and not any(swapped), f"urgent in the steps of the new order: {swapped}")


def test_the_overhead_of_the_runtime_is_measured_and_predicted():
    """Ops as short as their overhead: without it, steps would be predicted to take half the time."""
    for placement, ranks, given in (("linear", 4, "1f1b"), ("wave", 2, "zb-v"), ("loop", 3, "interleaved-1f1b")):
        job = Job(placement, ranks, 12, {"F": 1, "I": 1, "W": 1, "B": 2}, given, overhead=(0.6, 0.3))
        times = job.run(40)
        found = job.decider.problem["pipeline"]["overhead_ms"]
        expect(abs(found["op"] - 0.6) < 0.01 and abs(found["message"] - 0.3) < 0.01, f"{placement}: {found}")
        within(abs(job.decider.predicted_ms - times[-1]), 0.02 * times[-1], 0, f"{placement}: the error of the prediction")
        expect(not set(job.kinds()) - {"profile", "swap", "keep"}, f"{placement}: {job.kinds()}")


def test_a_slow_device_is_named():
    job = Job("linear", 4, 8, EVEN, "1f1b", noise=0.02)
    job.run(25)
    job.run(25, {"pipeline.times_ms": {"F": [10, 10, 20, 10], "I": [10, 10, 20, 10], "W": [10, 10, 20, 10], "B": [20, 20, 40, 20]}})
    named = [one.event.rank for one in job.decider.happened if one.event and one.kind == "onset"]
    expect(named == [2], f"onset: {named}")


def test_two_slow_links_of_a_wave():
    job = Job("wave", 4, 10, {"F": 4, "I": 5, "W": 4, "B": 9}, "zb-v")
    job.run(25)
    slow = {"pipeline.links.list": [{"between": [0, 1], "latency_ms": 15}, {"between": [2, 3], "latency_ms": 10}]}
    times = job.run(30, slow)
    within(times[-1], job.best(slow), 0.12, "two slow links")
    expect(times[-1] < times[0], f"nothing gained: {times[0]} to {times[-1]} ms")


def test_a_loop():
    job = Job("loop", 3, 9, {"F": 6, "I": 6, "W": 6, "B": 12}, "interleaved-1f1b", noise=0.01)
    job.run(25)
    times = job.run(30, between(1, 2, 40))
    within(times[-1], job.best(between(1, 2, 40)), 0.12, "a loop")


def test_a_backward_that_cannot_be_split_is_not_split():
    job = Job("linear", 4, 12, {"F": 10, "B": 20, "I": 10, "W": 10}, "1f1b", can_split=False)
    job.run(30)
    times = job.run(30, between(0, 1, 60))
    expect(not any(order.is_split(rows) for rows in job.ran), "a W ran")
    expect(times[-1] < times[0] * 0.8, f"the slow link: {times[0]} to {times[-1]} ms")


def test_a_rank_that_slows_down_while_it_is_measured_has_no_backward_from_before():
    """The second measurement sees I and W alone on a stage that ran whole backwards in the first. A plan that believes in those makes steps longer."""
    slow = {f"pipeline.times_ms.{kind}.1": 3 * ms for kind, ms in EVEN.items()}
    for healthy in (3, 5, 8, 10):
        job = Job("linear", 2, 8, {kind: [ms, ms] for kind, ms in EVEN.items()}, "1f1b")
        job.run(healthy)
        times = job.run(25, slow)
        expect(max(times[8:]) <= min(times) * 1.001, f"slow after {healthy} steps: {times}")
        within(times[-1], job.best(slow), 0.01, f"slow after {healthy} steps")


def test_memory_stays_that_of_the_given_schedule():
    job = Job("linear", 4, 12, EVEN, "1f1b", memory="same")
    job.run(25)
    job.run(30, between(0, 1, 60))
    free = {"pipeline": {**job.truth["pipeline"], "memory": {"delta": {"F": 1, "I": 0, "W": -1, "B": -1}}}}
    given = slackline.simulate(free, order.text_of(job.shape.given)).peak_memory
    for rows in job.ran:
        peak = slackline.simulate(free, order.text_of(rows)).peak_memory
        expect(all(a <= b for a, b in zip(peak, given)), f"peak {peak}, given {given}")


def test_gradients_are_added_in_the_given_order():
    for seed in range(6):
        draw = random.Random(seed)
        times = {kind: draw.choice([5, 8, 10, 14]) for kind in "FIW"}
        job = Job(draw.choice(["linear", "wave", "loop"]), draw.choice([2, 3, 4]), 12, {**times, "B": times["I"] + times["W"]}, "gpipe" if draw.random() < 0.3 else "auto", seed=seed)
        job.run(20)
        job.run(25, between(0, 1, draw.choice([10, 30, 60])))
        expect(all(order.ascends(rows) and order.runs(rows, job.shape.stages) for rows in job.ran) or not job.shape.ascending, f"seed {seed}")
        expect(all(order.is_complete(rows, job.shape.stages, 12) for rows in job.ran), f"seed {seed}: an order lacks ops")


def test_a_resumed_job_knows_what_is_healthy():
    job = Job("linear", 4, 12, EVEN, "1f1b")
    job.run(30)
    job.run(12, between(0, 1, 60))
    saved = json.loads(json.dumps(job.decider.save()))
    again = Job("linear", 4, 12, EVEN, "1f1b")
    again.decider.resume(saved)
    slow = again.run(25, between(0, 1, 60))
    within(slow[-1], again.best(between(0, 1, 60)), 0.08, "resumed while the link is slow")
    healthy = again.run(25)
    within(healthy[-1], again.best(), 0.05, "and relieved")
    other = Job("linear", 3, 12, EVEN, "1f1b")
    for wrong in (saved, {"format": "else"}, {**saved, "first": "0F0\n"}, {"problem": 3}):
        try:
            other.decider.resume(wrong)
            expect(False, f"resumed with {str(wrong)[:60]}")
        except slackline.InvalidRequest:
            pass
    other.decider.resume({})


def test_noise_changes_nothing():
    job = Job("linear", 4, 8, EVEN, "zb-h2", noise=0.05)
    job.run(80)
    expect(job.kinds().count("onset") == 0 and len({order.text_of(rows) for rows in job.ran[30:]}) == 1, f"events: {job.kinds()}")



def test_random_jobs_and_faults_stay_near_the_best_static_plan():
    """The best plan for the whole run, known only in hindsight: bench/pytorch/run.py --virtual has more of them."""
    for seed in (1, 3, 7, 18, 23):
        case = mixture(seed)
        job = Virtual(case.problem(0), case.rank_of, case.given(), seed=seed, noise=0.02, memory=case.memory)
        took = sum(job.run(case.steps, truth=case.problem))
        within(took, Hindsight(case, 0.3).one_ms, 0.10, f"{case.name}")


def test_texts_travel_in_the_rows_of_a_record():
    from slackline.adapting.control import rows_of_text, texts_of_rows
    texts = ["x", "sixteen bytes ab", "seventeen bytes a", "\xe4\xf6\xfc " * 20, "[\"rail\", 1]"]
    other = (0, 1, 2, 3, 4, 5)
    rows = [row for text in texts for row in [other, *rows_of_text(text)]]
    expect(texts_of_rows(rows) == texts and all(-2**63 <= value < 2**63 for row in rows for value in row), f"{texts_of_rows(rows)}")
    expect(texts_of_rows(rows[:-1]) == texts[:-1], "a text without its end was taken")
    expect(texts_of_rows(rows_of_text("a" * 40)[1:]) == [], "a text without its start was taken")


def test_a_last_stage_that_runs_each_backward_right_after_its_forward_keeps_doing_so():
    for seed, (ranks, memory) in enumerate([(4, "free"), (3, "same"), (2, "free"), (4, 1e9)]):
        job = Job("linear", ranks, 12, {"F": 10, "I": 20, "W": 0, "B": 20}, "1f1b", can_split=False, alternating=True, memory=memory, seed=seed)
        job.run(20)
        slow = job.run(25, between(0, 1, 60))
        given = slackline.simulate(job.truth, order.text_of(job.shape.given), changes=between(0, 1, 60)).makespan_ms
        expect(all(order.alternates(rows) for rows in job.ran), f"{ranks} ranks, {memory}: another order ran")
        expect(memory == "same" or slow[-1] < 0.8 * given, f"{ranks} ranks, {memory}: {slow[-1]} ms, {given} as given")


def test_the_numbers_that_megatron_core_runs_are_those_that_it_does_not_refuse():
    def refused(size, ranks, microbatches):  # the two checks of its interleaved schedule
        return not ranks <= size <= microbatches or 0 < microbatches % size < ranks
    for ranks, microbatches in ((2, 8), (3, 9), (4, 12), (4, 4), (5, 64)):
        found = sizes(ranks, microbatches)
        expect(found[-1] == microbatches and not any(refused(size, ranks, microbatches) for size in found), f"{ranks} ranks, {microbatches} microbatches: {found}")
    expect(sizes(3, 9, at_most=5) == [3, 5], "more than memory allows")


def test_a_number_is_kept_until_steps_change_and_noise_changes_nothing():
    def drive(tuner, steps, time_of, candidates=(3, 5, 6)):
        ran, last = [], None
        for _ in range(steps):
            drive.step += 1
            ran.append(tuner.next(drive.step, last, list(candidates), 0.0))
            last = time_of(ran[-1])
        return ran
    drive.step = 0
    draw = random.Random(7)
    healthy, slow = (lambda size: 100 + 10 * (size - 3) + draw.uniform(-2, 2)), (lambda size: 300 - 20 * (size - 3) + draw.uniform(-2, 2))
    tuner = Tuner(3)
    ran = drive(tuner, 100, healthy)
    expect(set(ran[:13]) == {3, 5, 6} and set(ran[13:]) == {3}, f"healthy: {ran}")
    ran = drive(tuner, 60, slow)
    expect(set(ran[-30:]) == {6} and [event.kind for event in tuner.events] == ["kept", "changed", "setting"], f"slow: {ran} {tuner.events}")
    ran = drive(tuner, 60, healthy)
    expect(set(ran[-30:]) == {3}, f"relieved: {ran}")
    expect(set(drive(tuner, 60, healthy, candidates=[])) == {3}, "without candidates, the number stays")
    restless = Tuner(3)
    ran = drive(restless, 400, lambda size: draw.choice((100, 150)))
    expect(sum(event.kind == "changed" for event in restless.events) < 12, f"{len(restless.events)} events on noise")
