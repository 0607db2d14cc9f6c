# labels: long torch
"""When slackline.adapt changes an order: soon after the decision; from a given problem at once; and for a link that was slow before a resume."""
import json
import os
import time

from adapt_torch import Paced, SlowLink, batch, judged, made, slackline, stages_of, stepped

from runner import expect
from slackline.adapting import kept, order, timings
from slackline.adapting.leader import CLOCKS_EVERY, Leader
from slackline.adapting.control import Record
from slackline.adapting.measured import Shape
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage

MICROBATCHES = 6


def ran(schedule):
    return order.text_of(order.rows_of(schedule.pipeline_order))


def soon_after_the_decision(rank, ranks, group, where):
    """The step after a decision offers the order, and the next one runs it: three steps after the one that it is based on, or two on an idle machine.
    The first rank hears how long that took on the slowest one."""
    Paced.op = 0.01
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES), memory="same")
    decided, orders, took = 6, [], []
    if rank == 0:
        decider = adapted._agent.leader.decider

        def observe(steps):
            if decider.pending is not None and decider.pending.version == steps[0].version:
                took.append(decider.pending.took_ms)
            if steps[0].step != decided:
                return None
            rows = order.parsed(slackline.plan({"pipeline": {"ranks": ranks, "microbatches": MICROBATCHES, "times_ms": {"F": 1, "I": 1, "W": 1, "B": 2}}}, "gpipe").csv())
            return decider._swap([rows], decider.split, steps[0], None, None, "on purpose")
        decider.observe = observe
    for step in range(14):
        stepped(adapted, stages, step, MICROBATCHES)
        orders.append(ran(adapted))
    Paced.op = 0.002
    changed = [step for step in range(1, len(orders)) if orders[step] != orders[step - 1]]
    everyone = [None] * ranks
    dist.all_gather_object(everyone, (changed, adapted.adaptation.swap_ms), group=group)
    slowest = max(ms for _, swaps in everyone for ms in swaps)
    if rank == 0 and not (took and all(abs(ms - slowest) < 1e-3 for ms in took)):
        return f"the swap took {took} ms, on the ranks {everyone}"
    return "" if len(changed) == 1 and decided < changed[0] <= decided + 4 and [one for one, _ in everyone] == [changed] * ranks else f"the order changes at {everyone}"


def from_a_given_problem(rank, ranks, group, where):
    """Nothing is measured first: the best plan for the problem runs after some steps, and the state keeps the problem."""
    stages = stages_of("linear", rank, ranks, group)
    problem = {"pipeline": {"ranks": ranks, "microbatches": MICROBATCHES, "times_ms": {"F": 2, "I": 2, "W": 2, "B": 4},
                            "links": {"default": {"latency_ms": 12}}}}
    wrong = {"pipeline": {**problem["pipeline"], "microbatches": MICROBATCHES + 1}}
    try:
        slackline.adapt(made("1F1B", stages_of("linear", rank, ranks, group), MICROBATCHES), problem=wrong)
        return "the problem of another job was taken"
    except slackline.InvalidRequest as error:
        if f"{MICROBATCHES + 1} microbatches" not in str(error):
            return str(error)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES), problem=problem)
    before = ran(adapted)
    for step in range(8):
        stepped(adapted, stages, step, MICROBATCHES)
    if ran(adapted) == before or not adapted.adaptation.active:
        return "the given order still runs, and 12 ms on each link were given"
    if rank == 0 and (adapted.adaptation.problem != problem or "predicted for the given problem" not in adapted.adaptation.events[0].text):
        return f"{adapted.adaptation.problem}, {adapted.adaptation.events}"
    return ""


def resumed_on_a_slow_link(rank, ranks, group, where):
    """The link has become slow while the job was saved: the saved baseline is compared with, not a new one."""
    link = SlowLink(1 - rank, 0.0) if rank < 2 else None
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    for step in range(40):
        stepped(adapted, stages, step, MICROBATCHES)
    dist.barrier(group)
    time.sleep(0.3)
    state = json.loads(json.dumps(adapted.adaptation.state_dict()))
    if rank == 0 and not state:
        return "no state after 40 steps"
    again = stages_of("linear", rank, ranks, group)
    resumed = slackline.adapt(made("1F1B", again, MICROBATCHES))
    resumed.adaptation.load_state_dict(state)
    if link:
        link.delay = 0.03
    for step in range(16):
        stepped(resumed, again, step, MICROBATCHES)
    if link:
        link.delay = 0.0
    dist.barrier(group)
    time.sleep(0.3)
    found = [(one.kind, one.step, one.event.from_rank, one.event.to_rank) for one in resumed.adaptation.events if one.event is not None and one.kind == "onset"]
    if rank == 0 and not any(sorted((a, b)) == [0, 1] for _, _, a, b in found if a is not None):
        return f"{[(one.step, one.kind, one.text) for one in resumed.adaptation.events]}"
    return "" if resumed.adaptation.active else "it gave up"


def leader_of(samples):
    rows = order.one_forward_one_backward(2, 4)
    shape = Shape([0, 1], 2, "linear", 4, rows, True, True)
    return Leader(shape, lambda rows, split: "", None, 0, None, None, samples=samples)


def measured_steps(leader, times):
    """The measured ones of steps that take these ms, of 16 rows each."""
    found = []
    for step, ms in enumerate(times):
        if leader._measures(step):
            found.append(step)
            leader.record(Record(step, 0, 0, 0, int(ms * 1e6), 16, 0, 0, 0, 0, 0), [None] * 16, False)
        else:
            leader.unmeasured(step, 0, int(ms * 1e6))
    return found


def test_a_calm_job_measures_few_steps_and_a_changed_one_all():
    leader = leader_of(True)
    leader._calm, leader._urgent = True, False
    leader._put = lambda given: None
    times = [100] * 40 + [150] * 9 + [100] * 20
    steps = measured_steps(leader, times)
    leader.close()
    # 0.5 ms and 16 times 0.05 ms are 0.2% of 650 ms
    expect(steps[:12] == [*range(9), 15, 22, 29], f"calm: {steps}")
    expect(set(range(41, 46)) <= set(steps), f"longer steps from 40 on: {steps}")
    for ms, every in ((20, 16), (700, 1)):
        leader = leader_of(True)
        leader._calm, leader._urgent, leader._put = True, False, lambda given: None
        steps = measured_steps(leader, [ms] * 80)[9:]
        leader.close()
        expect(all(b - a == every for a, b in zip(steps, steps[1:])), f"steps of {ms} ms: {steps}")
    for samples, calm in ((False, True), (True, False)):
        leader = leader_of(samples)
        leader._calm, leader._urgent, leader._put = calm, False, lambda given: None
        expect(measured_steps(leader, [100] * 20) == list(range(20)), f"samples {samples}, calm {calm}")
        leader.close()


def steps_with_a_header(leader, count):
    """Of calm steps of 100 ms, those that have a header, and those that each is for, too."""
    headers, left = [], 0
    for step in range(count):
        if left:
            left -= 1
            leader.unmeasured(step, 0, int(1e8))
            continue
        header, _ = leader.header(step, False, lambda lag: [])
        headers.append((step, header.measured, header.ahead))
        left = header.ahead
        if header.measured:
            leader.record(Record(step, 0, 0, 0, int(1e8), 16, 0, 0, 0, 0, 0), [None] * 16, False)
        else:
            leader.unmeasured(step, 0, int(1e8))
    return headers


def test_calm_steps_share_a_header():
    """No measured step is passed over, nor one in which the ranks compare their clocks."""
    leader = leader_of(True)
    leader._calm, leader._urgent, leader._put = True, False, lambda given: None
    headers = steps_with_a_header(leader, 30)
    expect(headers[9:15] == [(9, 0, 3), (13, 0, 1), (15, 1, 0), (16, 0, 3), (20, 0, 1), (22, 1, 0)], f"{headers}")
    for step, ahead in ((CLOCKS_EVERY - 3, 2), (CLOCKS_EVERY - 1, 0), (CLOCKS_EVERY, 3)):
        leader._measured = step - 1
        header, _ = leader.header(step, False, lambda lag: [])
        expect((header.measured, header.ahead) == (0, ahead), f"step {step}: {header}")
    leader._calm = False
    header, _ = leader.header(CLOCKS_EVERY + 4, False, lambda lag: [])
    leader.close()
    expect((header.measured, header.ahead) == (1, 0), f"a changed job: {header}")


def test_a_step_without_measurements_runs_the_methods_of_the_stage():
    """All but those whose messages change their group, and those that something else has wrapped meanwhile."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        stage = PipelineStage(torch.nn.Linear(2, 2), 0, 1, torch.device("cpu"))
        own = stage.perform_reduce_grad = lambda *arguments: None  # of this object before
        timings.wrap(stage, kept.Kept())
        wrapped = {name: getattr(stage, name) for name in (*timings.OPS, *timings.MESSAGES)}

        def other(*arguments, **options):
            return wrapped["backward_one_chunk"](*arguments, **options)
        stage.backward_one_chunk = other
        timings.unwrap(stage)
        bare = [name for name, method in wrapped.items() if getattr(stage, name) is not method]
        expect(bare == list(wrapped), f"without groups: {bare}")
        expect(stage.backward_one_chunk is other and stage.perform_reduce_grad is own, "what others have set was changed")
        expect(stage.forward_one_chunk.__func__ is PipelineStage.forward_one_chunk, f"{stage.forward_one_chunk}")
        timings.wrap_again(stage)
        again = {name: getattr(stage, name) for name in wrapped}
        expect(again == {**wrapped, "backward_one_chunk": other}, f"put back: {again}")
        stage._slackline.groups = lambda what, up: None
        timings.unwrap(stage)
        bare = [name for name in timings.MESSAGES if getattr(stage, name) is not wrapped[name]]
        expect(not bare and stage.forward_one_chunk is not wrapped["forward_one_chunk"], f"with groups: {bare}")
    finally:
        dist.destroy_process_group()


CASES = {"soon after the decision": (soon_after_the_decision, 3), "from a given problem": (from_a_given_problem, 3),
         "resumed on a slow link": (resumed_on_a_slow_link, 3)}


def test_orders_change_in_time():
    judged(os.path.abspath(__file__), 3, CASES)
