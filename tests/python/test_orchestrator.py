"""slackline.Orchestrator as a PyTorch job uses it: measurements as far as there are any, of one replica or several, with their
work; events and actions as data; every mistake an exception."""
import dataclasses
import json
import os
import pickle
import subprocess
import sys
import threading

from package import raises
import slackline
from runner import expect
from slackline import Measurements, Network, Op, Orchestrator, Slow, Transfer

FOUR = {"pipeline": {"ranks": 4, "microbatches": 12, "times_ms": {"F": 10, "I": 10, "W": 10},
                     "links": {"list": [{"between": [0, 1], "latency_ms": 0}]}}}
FIRST = slackline.plan(FOUR, "adaptra")


def delay(ms):
    return {"pipeline.links.list.0.latency_ms": ms}


def hear(job, into):
    for event in job.events():
        into.append(event)


def run(job, plans, changes, iterations, measure=lambda ran, i, replica: ran, begin=0, now=0.0, **more):
    """Plays iterations: changes(i, replica) is what differs from the problem; carries plans out. (events, actions, last times, now)"""
    events, actions, times = [], [], []
    for i in range(begin, begin + iterations):
        ran = [slackline.simulate(FOUR, plan, changes=changes(i, replica)) for replica, plan in enumerate(plans)]
        times = [one.makespan_ms for one in ran]
        now += max(times)
        job.observe(i, now, max(times), [measure(one, i, replica) for replica, one in enumerate(ran)], **more)
        hear(job, events)
        for action in job.actions():
            actions.append(action)
            if action.what == "plan":
                for replica in [action.replica] if action.replica is not None else range(len(plans)):
                    plans[replica] = action.plan
            now += 1
            job.carried_out(action, now, 1)
            hear(job, events)
    return events, actions, times, now


def some_ops(ran, i, replica):
    if i % 3 == 2:
        return None
    return Measurements([op for op in ran.ops if op.microbatch % 4 == i % 4])


def slow_rank(i, replica):
    return {} if i < 20 or replica != 0 else {"pipeline.times_ms": {"F": [10, 10, 20, 10], "I": [10, 10, 20, 10], "W": [10, 10, 20, 10]}}


def test_a_slow_link_is_adapted_to_and_a_resume_knows_what_is_healthy():
    with Orchestrator(FOUR, FIRST) as job:
        plans = [FIRST]
        events, actions, times, now = run(job, plans, lambda i, r: delay(60 if i >= 20 else 0), 40)
        expect(times == [450], f"adapted: {times}")
        expect([action.what for action in actions] == ["plan"] and actions[0].plan.makespan_ms == 450 and actions[0].strategy == "schedule", f"{actions}")
        kinds = [event.kind for event in events]
        expect(kinds.count("onset") == 1 and kinds.count("swap") == 1 and "verdict" in kinds, f"events: {kinds}")
        onset = next(event for event in events if event.kind == "onset")
        expect((onset.from_rank, onset.to_rank, onset.rank, onset.replica) == (0, 1, None, None) and 20 <= onset.iteration < 25, f"{onset}")
        found = job.incidents()
        expect(len(found) == 1 and found[0].slow.part == "link" and (found[0].slow.a, found[0].slow.b) == (0, 1) and found[0].verdict, f"{found}")
        expect(abs(found[0].growth - 60) < 1 and abs(found[0].slow.latency_ms[0] - 60) < 1, f"{found}")
        expect(job.troubled and job.adapted() and job.forecast_ms() == 450 and job.plan().makespan_ms == 450, "asked while a link is slow")
        question = job.question()
        expect(question is not None and slackline.plan(question, "adaptra").makespan_ms == 450, f"a question: {question}")
        expect("link" in job.decisions() and job.decisions() == "", "decisions are said once")
        for what in (*events, *found, job.layout, *actions):
            expect(json.loads(json.dumps(dataclasses.asdict(what))), f"JSON of {type(what).__name__}")
        events, actions, times, now = run(job, plans, lambda i, r: delay(0), 40, begin=40, now=now)
        expect(times == [390] and not job.adapted() and not job.incidents() and [event.kind for event in events].count("relief") == 1, f"relief: {times} {events}")
        saved = job.save()
    raises(slackline.InvalidRequest, job.save, "closed")
    raises(slackline.InvalidRequest, lambda: list(job.events()), "closed")
    job.close()

    with Orchestrator(FOUR, pickle.loads(pickle.dumps(FIRST))) as job:  # a plan that comes from another process
        job.load(saved)
        events, actions, times, now = run(job, [FIRST], lambda i, r: delay(60), 15, begin=80, now=1e6)
        expect(times == [450] and [event.kind for event in events].count("onset") == 1, f"resumed: {times} {events}")
    with Orchestrator(FOUR, replicas=2) as job:
        raises(slackline.InvalidRequest, lambda: job.load(saved))
        raises(slackline.InvalidRequest, lambda: job.load("{"))


def test_a_better_plan_for_the_healthy_job_is_an_action():
    first = slackline.plan(FOUR, "1f1b")
    for replicas in (1, 2):
        with Orchestrator(FOUR, first, replicas=replicas) as job:
            job.improve(1_000_000)
            job.keep_sums()
            events, actions, times, now = run(job, [first] * replicas, lambda i, r: delay(0), 20)
            found = [(one.what, one.strategy, one.replica, one.plan and one.plan.makespan_ms, one.undo, one.incidents, one.expected) for one in actions]
            expect(found == [("plan", "schedule", None, 390, False, (), 0.0)], f"{actions}")
            expect(abs(actions[0].loss - 60 / 450) < 1e-9 and times == [390] * replicas and not job.adapted() and job.plan().makespan_ms == 390, f"{actions[0].loss} {times}")
            expect([event.kind for event in events] == ["swap"] and "nothing is slow" in events[0].seen, f"{events}")
    raises(slackline.InvalidRequest, lambda: job.improve(1))
    with Orchestrator(FOUR, first) as job:
        raises(slackline.InvalidRequest, lambda: job.improve(-1))


ENDS = """
import atexit, threading, time
atexit.register(time.sleep, 0.5)  # the last thing before the interpreter ends
import slackline
four = {"pipeline": {"ranks": 4, "microbatches": 12, "times_ms": {"F": 10, "I": 10, "W": 10}}}
job = slackline.Orchestrator(four, slackline.plan(four, "1f1b"))

def calls():
    while True:
        job.save()
        slackline.plan(four, "1f1b")
threading.Thread(target=calls, daemon=True).start()
time.sleep(0.1)
"""


def test_a_process_may_end_while_a_thread_is_in_a_call():
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=60)
        expect(ended.returncode == 0 and not ended.stderr, f"exit code {ended.returncode}: {ended.stderr}")


def test_some_ops_are_enough():
    for replicas in (1, 2):
        with Orchestrator(FOUR, FIRST, replicas=replicas, can=()) as job:
            events, actions, times, now = run(job, [FIRST] * replicas, slow_rank, 40, some_ops)
            found = job.incidents()
            expect(len(found) == 1 and found[0].slow.part == "device" and found[0].slow.a == 2 * replicas, f"of {replicas}: {found}")
            expect(bool(found) and abs(found[0].slow.slowdown - 2) < 0.01, f"twice as long: {found}")
            expect(not actions, "nothing can be carried out")


def test_messages_alone_are_enough():
    # messages alone
    with Orchestrator(FOUR, FIRST, can=()) as job:
        run(job, [FIRST], lambda i, r: delay(60 if i >= 20 else 0), 35, lambda ran, i, r: Measurements((), ran.transfers))
        expect([one.slow.part for one in job.incidents()] == ["link"], f"messages alone: {job.incidents()}")


def test_longer_sequences_are_not_slow():
    for slow in (1, 1.5):
        with Orchestrator(FOUR, FIRST, can=()) as job:
            events = []
            for i in range(60):
                tokens = 800 + 100 * (i * 7 % 5) if i < 30 else 1900 + 100 * (i % 3)
                times = {kind: [tokens / 100, tokens / 100, tokens / 100 * (slow if i >= 30 else 1), tokens / 100] for kind in "FIW"}
                ran = slackline.simulate(FOUR, FIRST, changes={"pipeline.times_ms": times})
                job.observe(i, 10000.0 * i, ran.makespan_ms, Measurements(ran.ops, ran.transfers, [tokens] * len(ran.ops)), work=12 * tokens)
                hear(job, events)
            found = [(one.slow.part, one.slow.a, round(one.slow.slowdown, 1)) for one in job.incidents()]
            expect(found == ([("device", 2, 1.5)] if slow > 1 else []), f"{slow}: {found}")
            expect(("onset" in [event.kind for event in events]) == (slow > 1), f"{slow}: {events}")


def test_replicas_share_a_plan_with_other_strategies():
    hosts = [f"node{rank}" for rank in range(4) for _ in range(2)]
    with Orchestrator([FOUR, FOUR], replicas=2, hosts=hosts, can=slackline.STRATEGIES, message_bytes=1e6, sum_bytes=[1e6] * 4,
                      cost_ms={"balance": 100}, split=[14, 10], looks=True) as job:
        expect(job.layout == slackline.Layout(tuple(range(8)), (14, 10), 0) and job.plan(0).microbatches == 14 and job.plan(1).microbatches == 10, "split")
        job.estimate("restart", 1e5)
        job.may_leave("node3", False)
        job.network(0, [Network(0, 1, 0.01, 0.1), Network(1, 0, 0.01, 0.1)])
        for i in range(20):
            ran = [slackline.simulate(FOUR, job.plan(r), changes={"pipeline.microbatches": n}) for r, n in ((0, 14), (1, 10))]
            job.observe(i, 500.0 * i, 450.0, ran, clock_error_ms=0.01)
            if i == 10:
                job.report(500.0 * i, 3, Slow("device", 5, slowdown=2.0), loss=0.3, seen="GEMM at half speed")
        found = job.incidents()
        expect(len(found) == 1 and found[0].slow.a == 5 and found[0].loss == 0.3 and "GEMM" in found[0].seen, f"reported: {found}")
        job.report(10000.0, 3, found[0].slow, over=True)
        job.observe(20, 10450.0, 450.0)
        expect(not job.incidents(), "over")


pair = {"pipeline": {"ranks": 2, "microbatches": 8, "placement": "wave", "times_ms": {"F": 10, "I": 10, "W": 10, "FB": 24}}}


def a_slow_rank(i, _):
    times = [10, 10, 15 if i >= 20 else 10, 10]
    return {f"pipeline.times_ms.{kind}": times for kind in "FIW"}


def test_pairs_are_one_op():
    twice = slackline.plan(pair, "dualpipe-v")
    with Orchestrator(pair, twice, can=()) as job:
        for i in range(20):
            job.observe(i, 1000.0 * (i + 1), twice.makespan_ms, twice)
            expect(not list(job.events()), "pairs are as fast as the problem says")


def test_parts_of_a_measurement_are_enough():
    for what, part in (("forwards of a rank", lambda i, op: op.op == "F" and op.rank == 2), ("ranks in turn", lambda i, op: op.rank == i % 4)):
        with Orchestrator(FOUR, FIRST, can=()) as job:
            events, _, _, _ = run(job, [FIRST], a_slow_rank, 45, lambda ran, i, r: Measurements([op for op in ran.ops if part(i, op)]))
            verdicts = [event for event in events if event.kind == "verdict"]
            expect(verdicts and verdicts[-1].rank == 2 and [(one.slow.part, one.slow.a) for one in job.incidents()] == [("device", 2)], f"{what}: {events}")


def test_iteration_times_alone_cannot_tell():
    with Orchestrator(FOUR, FIRST, can=()) as job:
        events, _, _, now = run(job, [FIRST], a_slow_rank, 40, lambda ran, i, r: None)
        expect([event.kind for event in events] == ["onset", "suspect", "verdict"] and events[-1].decided == "cannot tell", f"times alone: {events}")
        expect(job.troubled and not job.incidents(), "times alone: something is slow")
        events, _, _, _ = run(job, [FIRST], lambda i, r: {}, 20, lambda ran, i, r: None, begin=40, now=now)
        expect([event.kind for event in events] == ["relief"] and not job.troubled, f"times alone: {events}")


def test_an_unknown_pipeline_is_balanced():
    with Orchestrator(None, replicas=4, hosts=["a", "a", "b", "b"], split=[8] * 4, can=["balance"]) as job:
        expect(job.layout.split == (8, 8, 8, 8) and job.layout.process == (0, 1, 2, 3), f"{job.layout}")
        now, kinds = 0.0, []
        for i in range(80):
            time = 200.0 if i >= 30 else 100.0
            now += time
            job.observe(i, now, time)
            if i == 40:
                job.report(now, 0, Slow("device", 2, slowdown=2), seen="device 2 at half its clock")
            kinds += [event.kind for event in job.events()]
            for action in job.actions():
                expect((action.what, action.strategy, action.plan) == ("layout", "balance", None) and action.layout.process == (), f"{action}")
                expect(sum(action.layout.split) == 32 and action.layout.split[2] <= 5, f"{action}")
                job.carried_out(action, now, 1)
        expect(kinds[:3] == ["onset", "suspect", "verdict"] and kinds.count("onset") == 2, f"{kinds}")
        expect(sum(job.layout.split) == 32 and job.layout.split[2] <= 5, f"{job.layout}")
        raises(slackline.NoAnswer, job.plan, "pipeline")
        raises(slackline.NoAnswer, lambda: job.offer(FIRST), "pipeline")


def test_mistakes_are_named_and_threads_take_turns():
    wrong = slackline.InvalidRequest
    ran = slackline.simulate(FOUR, FIRST)
    job = Orchestrator(FOUR, FIRST)
    job.observe(5, 1000.0, 390.0, ran)
    raises(wrong, lambda: job.observe(4, 2000.0), "iteration")
    raises(wrong, lambda: job.observe(6, 500.0), "after")
    raises(wrong, lambda: job.observe(6, float("nan")), "now_ms")
    raises(wrong, lambda: job.observe(6, 2000.0, 1.0, [ran, ran]), "2 | replicas | 1")
    raises(wrong, lambda: job.observe(6, 2000.0, 1.0, Measurements(ran.ops, (), [1.0])), "op_work | 1")
    raises(wrong, lambda: job.observe(6, 2000.0, 1.0, Measurements([Op(1, "F", 0, 0, 0.0, 1.0)])), "0 | rank | 1")
    raises(wrong, lambda: job.observe(6, 2000.0, 1.0, Measurements([Op(0, "F", 0, 12, 0.0, 1.0)])), "12")
    raises(wrong, lambda: job.observe(6, 2000.0, 1.0, Measurements([Op(0, "X", 0, 0, 0.0, 1.0)])), "F | I")
    raises(wrong, lambda: job.observe(6, 2000.0, 1.0, Measurements((), [Transfer(0, 9, "F", 0, 0, 0.0, 1.0, 1.0)])), "link | 0-9")
    raises(TypeError, lambda: job.observe(6, 2000.0, 1.0, [3]), "int")
    raises(TypeError, lambda: job.observe("6", 2000.0), "iteration")
    raises(wrong, lambda: job.estimate("prayer", 1), "schedule | delegate")
    raises(wrong, lambda: job.report(2000.0, 0, Slow("cable", 0)), "part | device | link")
    raises(wrong, lambda: job.report(2000.0, 0, Slow("device", 4, slowdown=2)), "slow.a | 0 | 3 | 4")
    raises(wrong, lambda: job.network(2000.0, [Network(0, 0, 1, 1)]), "itself")
    raises(wrong, lambda: job.plan(1), "replica | 0 | 1")
    raises(wrong, lambda: job.skip(10, 1.0), "1.000")
    raises(wrong, lambda: job.offer(slackline.plan(pair, "dualpipe-v")), "replica | 0")
    raises(TypeError, lambda: job.offer("adaptra"), "plan | str")
    raises(wrong, lambda: Orchestrator(FOUR, FIRST, can=["schedul"]), "strategy")
    raises(wrong, lambda: Orchestrator(FOUR, FIRST, replicas=0), "replicas")
    raises(wrong, lambda: Orchestrator([FOUR], FIRST, replicas=2), "1 | 2 | replicas")
    raises(wrong, lambda: Orchestrator(FOUR, FIRST, split=[11]), "plan | 4 | 12")
    raises(wrong, lambda: Orchestrator(FOUR, FIRST, hosts=["a"]), "hosts | 1 | 4")
    raises(wrong, lambda: Orchestrator(FOUR, FIRST, schedule="1f1"), "'1f1'")
    raises(wrong, lambda: Orchestrator(FOUR, FIRST, hold=0), "hold")
    raises(wrong, lambda: Orchestrator(FOUR, FIRST, cost_ms={"balance": -1}), "cost_ns")
    raises(wrong, lambda: Orchestrator(None, FIRST), "plan | sum_bytes")
    raises(TypeError, lambda: Orchestrator(7, FIRST), "dict")
    raises(wrong, lambda: Orchestrator(None, can=["schedule"]), "pipeline")
    raises(wrong, lambda: Orchestrator(None, replicas=2, hosts=["a"]), "hosts | 1 | 2")
    raises(wrong, lambda: job.report(2000.0, 0, Slow("link", 0, 1, latency_ms=(1,))), "pairs")
    raises(wrong, lambda: job.report(2000.0, 0, Slow("device", 1, slowdown=float("nan"))), "slow.slowdown")
    raises(wrong, lambda: job.observe(6, 2000.0, -1.0), "time_ns")
    raises(wrong, lambda: job.observe(6, 2000.0, 1.0, Measurements(ran.ops, (), [float("nan")] * len(ran.ops))), "finite")
    raises(wrong, lambda: Orchestrator([], FIRST), "0 | 1 | replicas")
    action = slackline.Action("plan", 77, False, "schedule", 0, FIRST, None, None, 0, 0, 0, ())
    raises(wrong, lambda: job.carried_out(action, 2000.0), "77")
    raises(wrong, lambda: job.carried_out(action, 2000.0, 0, "perhaps"), "outcome")

    # one at a time: other threads wait
    threads = [threading.Thread(target=lambda: [(job.incidents(), job.forecast_ms(), job.layout, list(job.events())) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(6, 60):
        job.observe(i, 1000.0 * i, 390.0, ran)
    for thread in threads:
        thread.join()
    expect(job.forecast_ms() == 390, "threads")
    job.close()
