# labels: long torch
"""slackline.adapt on replicas in trouble: jobs that cannot be adapted go on as given, and a step that raises leaves the replicas together."""
import os
import time
import warnings

from adapt_torch import judged, slackline
from replicas_torch import ROWS, WIDTH, Job
from runner import expect
import slackline.adapting.schedule as adapting
from slackline.adapting import agreement
import torch
import torch.distributed as dist
from slow_link import layer
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def goes_on_as_given(adapt, says):
    """A job that cannot be adapted: one warning on each rank that called, and the given schedule steps."""
    def case(rank, ranks, group, where):
        job = Job("1F1B", "linear", 2, 4, "hand")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            job.schedule = adapt(job, rank)
        for step in range(6):
            wrong = job.step(step)
            if wrong:
                return wrong
        mine = [str(one.message) for one in caught if "slackline" in str(one.message)]
        return "" if len(mine) == 1 and says in mine[0] and says in job.schedule.adaptation.why else f"warnings: {mine}"
    return case


def other_memory(job, rank):
    return slackline.adapt(job.schedule, replicas=job.copies, memory="same" if rank == 3 else "free")


def other_memory_in_a_replica(job, rank):
    return slackline.adapt(job.schedule, replicas=job.copies, memory="same" if rank > 1 else "free")


def other_replicas(job, rank):
    schedule = slackline.adapt(job.schedule, replicas=job.copies if rank != 1 else False)
    schedule.split, schedule.replica = (4, 4), job.replica  # rank 1 knows no others
    return schedule


def one_replica_does_not_call(job, rank):
    agreement.PATIENCE_S = 1.0
    if rank > 1:
        time.sleep(3)
        agreement.PATIENCE_S = 30.0
        job.schedule.split, job.schedule.microbatches, job.schedule.replica = (4, 4), 4, job.replica
        job.schedule.adaptation = adapting.Adaptation(None, "not called")
        return job.schedule
    try:
        return slackline.adapt(job.schedule, replicas=job.copies)
    finally:
        agreement.PATIENCE_S = 30.0


def only_called(case):
    """Without the warning of the ranks that did not call."""
    def judge(rank, ranks, group, where):
        wrong = case(rank, ranks, group, where)
        return "" if rank > 1 and wrong == "warnings: []" else wrong
    return judge


def microbatches_that_are_not_obeyed(rank, ranks, group, where):
    """A step with the rows of the even split, under another: a clear error before anything is sent, and the next step runs."""
    job = Job("1F1B", "linear", 2, 4, "hand")
    adapted = job.schedule = slackline.adapt(job.schedule, replicas=job.copies)
    if rank == 0:
        decider, told = adapted._agent.leader.decider, []

        def decides(steps):
            if told or steps[0].step < 3:
                return None
            told.append(True)
            rows = [[[cell for cell in row if cell.microbatch < number] for row in slackline.adapting.order.one_forward_one_backward(2, 8)] for number in (5, 3)]
            return decider._swap(rows, [5, 3], steps[0], None, None, "told")
        decider.observe = decides
    raised = ""
    for step in range(30):
        if adapted.split == (5, 3) and not raised:
            try:
                x = torch.zeros(4 * ROWS, WIDTH, dtype=torch.float64)
                adapted.step(*((x,) if job.rank == 0 else ()), target=x if job.rank == 1 else None, losses=[])
                return "a step of other rows did not raise"
            except ValueError as error:
                raised = str(error)
        wrong = job.step(step)
        if wrong:
            return wrong
    number = (5, 3)[job.replica]
    return "" if f"takes {number} microbatches (schedule.microbatches)" in raised and adapted.adaptation.active else f"raised: {raised!r}"


def steps_that_raise_in_one_replica(rank, ranks, group, where):
    """A replica repeats steps that raised, more often than headers are under way; the job stays adapted, and keeps its split."""
    job = Job("GPipe", "linear", 1, 4, "hand", replicas=4)
    adapted = job.schedule = slackline.adapt(job.schedule, replicas=job.copies)
    loss_of, fails = adapted._loss_fn, []

    def loss(*arguments):
        if fails:
            raise ArithmeticError(fails.pop())
        return loss_of(*arguments)
    adapted._loss_fn = loss
    for step in range(40):
        for _ in range(6 if job.replica == 1 and step in (5, 6, 17) else 0):
            fails.append("on purpose")
            try:
                x = torch.zeros(4 * ROWS, WIDTH, dtype=torch.float64)
                adapted.step(x, target=x)
                return "the step did not raise"
            except ArithmeticError:
                adapted._internal_losses.clear()
        wrong = job.step(step)
        if wrong:
            return wrong
    time.sleep(0.3)
    if rank == 0 and adapted._agent.leader.decider._balances:
        return "it would still balance"
    return "" if adapted.adaptation.active else "it gave up"


def what_wrappers_require(rank, ranks, group, where):
    """A collective in each microbatch keeps a job from being adapted, and static_graph its split even."""
    job = Job("1F1B", "linear", 2, 4, "hand")
    mesh = DeviceMesh.from_group(job.copies, "cpu")
    nested = layer(0)
    fully_shard(nested[0], mesh=mesh)
    gathers = fully_shard(layer(0), mesh=mesh, reshard_after_forward=True)
    layers, kept = layer(0), layer(0)
    for part in (layers[0], layers[2]):
        fully_shard(part, mesh=mesh)
    for part in (kept[0], kept[2]):
        fully_shard(part, mesh=mesh, reshard_after_forward=False)
    for module, alike, even in (
            (torch.nn.Sequential(DistributedDataParallel(layer(0), process_group=job.copies)), "sums gradients in every microbatch", ""),
            (DistributedDataParallel(layer(0), process_group=job.copies, static_graph=True), "", "static_graph"), (nested, "in every microbatch", ""),
            (gathers, "gathers", ""), (fully_shard(layers, mesh=mesh), "gathers", ""), (fully_shard(kept, mesh=mesh), "", "")):
        job.stages[0].submod = module
        copies = adapting.found(None, job.stages)
        if alike not in copies.why_alike or even not in copies.why_even or bool(alike) != bool(copies.why_alike) or bool(even) != bool(copies.why_even) or \
                copies.count != 2 or copies.index != job.replica or not copies.sums:
            return f"found {copies} for {module}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            adapted = slackline.adapt(job.schedule)
        if bool(alike) != any(alike in str(one.message) for one in caught):
            return f"{[str(one.message) for one in caught]} for {module}"
        if not alike and adapted._agent.leader and adapted._agent.leader.decider._balances == bool(even):
            return f"balances with {module}"
    alone = adapting.found(False, job.stages)
    return "" if alone.count == 1 and alone.sums and adapting.found(1, job.stages) == alone else f"found {alone}"


def what_is_no_group(rank, ranks, group, where):
    job = Job("1F1B", "linear", 2, 4, "hand")
    other = dist.new_group([0, 1]), dist.new_group([2, 3])
    for replicas in (3, "dp", True, other[1 - job.replica]):
        try:
            slackline.adapt(job.schedule, replicas=replicas)
            return f"{replicas} was taken"
        except TypeError:
            pass
    return ""


CASES = {
    "other arguments on a rank": (goes_on_as_given(other_memory, "rank 1 called adapt with memory 'same'"), 4),
    "other arguments in a replica": (goes_on_as_given(other_memory_in_a_replica, "replica 1 called adapt with memory 'same'"), 4),
    "other replicas": (goes_on_as_given(other_replicas, "rank 1 called adapt with replicas 1"), 4),
    "microbatches that are not obeyed": (microbatches_that_are_not_obeyed, 4), "steps that raise in one replica": (steps_that_raise_in_one_replica, 4),
    "what wrappers require": (what_wrappers_require, 4), "what is no group": (what_is_no_group, 4),
    "one replica does not call": (only_called(goes_on_as_given(one_replica_does_not_call, "not all replicas have called adapt")), 4),
}


def test_replicas_in_trouble_go_on():
    judged(os.path.abspath(__file__), 4, CASES)
