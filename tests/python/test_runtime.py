# labels: long torch
"""PyTorch over Gloo trains with plans as its schedules: losses and weights after several steps are those of PyTorch's own
1F1B (one stage a rank) or of the model in sequence (two), for fixed, searched and adapted plans; every rank runs the first
one's plan; what does not fit is refused on every rank."""
import os
import sys
import traceback
from datetime import timedelta

from runner import expect, folder, missing, source
import venv_torch  # noqa: F401  continues under .venv's Python
from environments import variables
from forked_ranks import ForkedRanks
from package import EXAMPLE, python

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

import slackline

WIDTH, ROWS, STEPS = 6, 2, 3


def problem(ranks, microbatches, placement="linear", latency=0):
    return {"pipeline": {"ranks": ranks, "microbatches": microbatches, "placement": placement,
                         "times_ms": {"F": 10, "I": 11, "W": 7}, "links": {"default": {"latency_ms": latency}}}}


def layer(stage):
    torch.manual_seed(100 + stage)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH)).double()


def batch(microbatches):
    draw = torch.Generator().manual_seed(7)
    return [torch.randn(microbatches * ROWS, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2)]


loss_of = torch.nn.functional.mse_loss


def in_sequence(stages, microbatches):
    """Mean losses of the steps and the weights after them, by stage."""
    model = [layer(stage) for stage in range(stages)]
    optimizer = torch.optim.SGD([p for module in model for p in module.parameters()], lr=0.5)
    x, y = batch(microbatches)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        parts = []
        for part, target in zip(x.chunk(microbatches), y.chunk(microbatches)):
            for module in model:
                part = module(part)
            parts.append(loss_of(part, target))
        mean = sum(parts) / microbatches
        mean.backward()
        optimizer.step()
        losses.append(mean.item())
    return losses, [[p.detach() for p in module.parameters()] for module in model]


def train(schedule, mine, microbatches):
    optimizer = torch.optim.SGD([p for stage in mine for p in stage.submod.parameters()], lr=0.5)
    x, y = batch(microbatches)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        found = []
        schedule.step(*((x,) if any(s.is_first for s in mine) else ()), target=y if any(s.is_last for s in mine) else None, losses=found)
        optimizer.step()
        if found:
            losses.append(torch.stack(found).mean().item())
    return losses, {stage.stage_index: [p.detach() for p in stage.submod.parameters()] for stage in mine}


def same(found, wanted, what):
    losses, weights = found
    for a, b in zip(losses, wanted[0]):
        if not abs(a - b) <= 1e-13:
            return f"{what}: losses {losses}, wanted {wanted[0]}"
    for stage, parameters in weights.items():
        for a, b in zip(parameters, wanted[1][stage], strict=True):
            if not torch.allclose(a, b, rtol=1e-11, atol=1e-13):
                return f"{what}: weights of stage {stage} differ by {(a - b).abs().max().item()}"
    return None


def stages_of(rank, ranks, placement, group):
    indices = {"linear": [rank], "loop": [rank, rank + ranks], "wave": [rank, 2 * ranks - 1 - rank]}[placement]
    count = ranks if placement == "linear" else 2 * ranks
    return [PipelineStage(layer(i), i, count, torch.device("cpu"), group=group) for i in indices], count


def by_hand(stages, microbatches):
    """What the model gives for the batch."""
    out = batch(microbatches)[0]
    for stage in range(stages):
        out = layer(stage)(out)
    return out.detach()


def forward_only(rank, groups, problems):
    """`eval` and schedules without a loss give the model's output, also in a V, and training goes on after them."""
    for ranks, microbatches, placement, name in ((3, 5, "linear", "zb-h1"), (2, 4, "wave", "zb-v"), (3, 4, "loop", "auto")):
        if rank >= ranks:
            continue
        what = f"forward only, {placement}, {name}, rank {rank}"
        plan = slackline.plan(problem(ranks, microbatches, placement), name, 0.1)
        x, y = batch(microbatches)
        for loss in (loss_of, None):
            mine, count = stages_of(rank, ranks, placement, groups[ranks])
            first, last = (any(getattr(stage, which) for stage in mine) for which in ("is_first", "is_last"))
            schedule = plan.schedule(mine, loss_fn=loss)
            losses = []
            found = [schedule.eval(*((x,) if first else ()), target=y if last else None, losses=losses) if loss else schedule.step(*((x,) if first else ()))]
            if loss and last and abs(torch.stack(losses).mean().item() - loss_of(by_hand(count, microbatches), y).item()) > 1e-13:
                problems.append(f"{what}: losses {losses}")
            if last and not torch.allclose(found[0], by_hand(count, microbatches), rtol=1e-12, atol=1e-14):
                problems.append(f"{what}: another output")
            if any(p.grad is not None for stage in mine for p in stage.submod.parameters()):
                problems.append(f"{what}: gradients")
            if loss:
                problems.append(same(train(schedule, mine, microbatches), in_sequence(count, microbatches), f"training after {what}"))


def other_ways(rank, groups, problems):
    """One rank, fewer microbatches than ranks, limits, arguments by name, and orders that come back from files."""
    cases = [(1, 4, "linear", "1f1b", {}), (1, 3, "wave", "zb-v", {}), (4, 2, "linear", "auto", {}), (3, 1, "linear", "auto", {}),
             (3, 5, "loop", "interleaved-1f1b", {}), (4, 8, "linear", "auto", {"memory": {"limit": 3}}), (4, 7, "wave", "auto", {"memory": {"limit": 6}})]
    for ranks, microbatches, placement, name, more in cases:
        if rank >= ranks:
            continue
        asked = problem(ranks, microbatches, placement, 5)
        asked["pipeline"].update(more)
        plan = slackline.plan(asked, name, 0.1)
        for form in ("csv", "json"):
            if slackline.simulate(asked, plan.write(form)).csv() != plan.csv():
                problems.append(f"{name}, {placement}: another order came back from {form}")
        mine, count = stages_of(rank, ranks, placement, groups[ranks])
        problems.append(same(train(plan.schedule(mine, loss_fn=loss_of), mine, microbatches), in_sequence(count, microbatches),
                             f"{name}, {placement}, {ranks} ranks, {microbatches} microbatches, rank {rank}"))


def comms_of(schedule):
    """The cells that PyTorch runs, as it names them."""
    order = schedule.pipeline_order_with_comms
    return [[str(action) for action in order[rank] if action is not None] for rank in sorted(order)]


def moved_messages(rank, groups, problems):
    """Plans whose receives move ahead run as they are, and train to the same bits as the ops with PyTorch's own lowering."""
    cases = [(4, 8, "loop", "interleaved-1f1b", "pipeline"), (2, 6, "loop", "interleaved-1f1b", "pair"), (4, 8, "linear", "1f1b", "pipeline"),
             (3, 6, "wave", "auto", "direction"), (4, 8, "loop", "auto", "kind")]
    for ranks, microbatches, placement, name, communicators in cases:
        if rank >= ranks:
            continue
        what = f"moved messages, {placement}, {name}, {communicators}, rank {rank}"
        asked = problem(ranks, microbatches, placement, 1)
        asked["pipeline"]["links"]["default"]["transfer_ms"] = 3
        asked["pipeline"]["communication"] = {"regime": "fifo", "communicators": communicators}
        carried = [slackline.plan(asked, name, 0.1) if rank == 0 else None]
        dist.broadcast_object_list(carried, group=groups[ranks], group_src=0)
        plan = carried[0]
        lowered = slackline.simulate(problem(ranks, microbatches, placement), plan.csv())
        if plan.csv_comms() == lowered.csv_comms() or not plan.makespan_ms < slackline.simulate(asked, plan.csv()).makespan_ms:
            problems.append(f"{what}: no message moved")
        results = []
        for one in (plan, lowered):
            mine, count = stages_of(rank, ranks, placement, groups[ranks])
            schedule = one.schedule(mine, loss_fn=loss_of)
            results.append(train(schedule, mine, microbatches))
            if comms_of(schedule) != [row.split(",") for row in one.csv_comms().splitlines()]:
                problems.append(f"{what}: PyTorch runs other cells than the plan's")
        problems.append(same(results[0], in_sequence(count, microbatches), what))
        if results[0][0] != results[1][0] or any(not torch.equal(a, b) for stage in results[0][1] for a, b in zip(results[0][1][stage], results[1][1][stage])):
            problems.append(f"{what}: other bits than with PyTorch's lowering")


def refusals(rank, group, problems):
    """What a rank of two says of plans that do not fit its stages."""
    mine, _ = stages_of(rank, 2, "linear", group)
    fitting = slackline.plan(problem(2, 4), "1f1b")
    wrong = {"microbatches": (slackline.plan(problem(2, 4), "1f1b"), 6, "the plan is for 4 microbatches, here are 6"),
             "ranks": (slackline.plan(problem(4, 4), "1f1b"), None, "the plan is for 4 ranks, here are 2"),
             "stages": (slackline.plan(problem(2, 4, "wave"), "zb-v"), None, "the plan is for 4 stages, here are 2"),
             "no plan": (None if rank == 0 else fitting, None, "needs a plan"),
             "parts": (slackline.plan({"pipeline": {**problem(2, 4)["pipeline"], "parts": 2}}, "cross-ud-sub"), None, ""),
             "bidirectional": (slackline.plan(problem(2, 4, "bidirectional"), "chimera"), None, "two copies")}
    for name, (plan, microbatches, says) in wrong.items():
        if name == "parts" and not any(op.part for op in plan.ops):
            continue
        try:
            slackline.pytorch_schedule(plan, mine, microbatches, loss_of)
            problems.append(f"rank {rank}: {name} was not refused")
        except slackline.SlacklineError as error:
            if says not in str(error):
                problems.append(f"rank {rank}: {name}: {error}")
    both, _ = stages_of(rank, 2, "loop", group)
    try:
        slackline.plan(problem(2, 4, "wave"), "zb-v").schedule(both, loss_fn=loss_of)
        problems.append(f"rank {rank}: a wave's plan on a loop's stages was not refused")
    except slackline.InvalidRequest as error:
        if f"on rank {rank}, which was given {[rank, rank + 2]}" not in str(error):
            problems.append(f"rank {rank}: {error}")


CASES = [(2, 4, "linear", "1f1b", 0), (3, 7, "linear", "zb-h1", 0), (4, 8, "linear", "adaptra", 0), (4, 8, "linear", "adaptra", 60),
         (4, 6, "linear", "auto", 25), (2, 4, "loop", "interleaved-1f1b", 0), (2, 6, "wave", "zb-v", 0), (4, 9, "wave", "auto", 10)]


def rank_main(rank, store, results):
    problems = []
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=4, timeout=timedelta(seconds=60))
        groups = {n: dist.new_group(list(range(n)), timeout=timedelta(seconds=60)) for n in (1, 2, 3, 4)}
        for ranks, microbatches, placement, name, latency in CASES:
            if rank >= ranks:
                continue
            what = f"{name}, {placement}, {ranks} ranks, {microbatches} microbatches, {latency} ms, rank {rank}"
            mine, count = stages_of(rank, ranks, placement, groups[ranks])
            # each rank searches by itself, with a seed of its own; only the first one's counts
            plan = slackline.plan(problem(ranks, microbatches, placement, latency), name, 0.1, seed=rank + 1)
            schedule = plan.schedule(mine if len(mine) > 1 or rank else mine[0], loss_fn=loss_of)
            if not isinstance(schedule, _PipelineScheduleRuntime):
                problems.append(f"{what}: a {type(schedule).__name__}")
            found = train(schedule, mine, microbatches)
            wanted = in_sequence(count, microbatches)
            problems.append(same(found, wanted, what))
            # the order that runs is the first rank's, in PyTorch's own words
            carried = [plan.csv()]
            dist.broadcast_object_list(carried, group=groups[ranks], group_src=0)
            runs = "".join(",".join(str(a) for a in schedule.pipeline_order[r]) + "\n" for r in sorted(schedule.pipeline_order))
            if runs != carried[0]:
                problems.append(f"{what}: another order runs than the first rank's")
            if slackline.simulate(problem(ranks, microbatches, placement, latency), schedule).csv() != carried[0]:
                problems.append(f"{what}: PyTorch's schedule is read back as another order")
            if placement == "linear":
                theirs, _ = stages_of(rank, ranks, placement, groups[ranks])
                reference = train(Schedule1F1B(theirs[0], microbatches, loss_fn=loss_of), theirs, microbatches)
                problems.append(same(reference, wanted, f"PyTorch's own 1F1B beside {what}"))
                if found[0] and not (len(found[0]) == STEPS and max(abs(a - b) for a, b in zip(found[0], reference[0])) <= 1e-13):
                    problems.append(f"{what}: losses {found[0]}, PyTorch's 1F1B {reference[0]}")
        forward_only(rank, groups, problems)
        other_ways(rank, groups, problems)
        moved_messages(rank, groups, problems)
        if rank < 2:
            refusals(rank, groups[2], problems)
            # without broadcast each takes its own; a plan that only the first rank has is enough with it
            mine, _ = stages_of(rank, 2, "linear", groups[2])
            plan = slackline.plan(problem(2, 4), "zb-h1")
            problems.append(same(train(plan.schedule(mine, 4, loss_of, broadcast=False), mine, 4), in_sequence(2, 4), f"no broadcast, rank {rank}"))
            mine, _ = stages_of(rank, 2, "linear", groups[2])
            schedule = slackline.pytorch_schedule(plan if rank == 0 else None, mine, loss_fn=loss_of, scale_grads=True)
            problems.append(same(train(schedule, mine, 4), in_sequence(2, 4), f"the first rank's plan, rank {rank}"))
        dist.barrier()
        dist.destroy_process_group()
    except Exception:
        problems.append(f"rank {rank}: {traceback.format_exc()}")
    results.put([text for text in problems if text])


def test_plans_train_as_pytorchs_own_schedules():
    context = multiprocessing.get_context("fork")  # each has imported PyTorch
    results = context.SimpleQueue()
    ranks = [context.Process(target=rank_main, args=(rank, os.path.join(folder, "store"), results)) for rank in range(4)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(200)
        expect(process.exitcode == 0, f"a rank ended with {process.exitcode}")
        process.kill()
    told = 0
    while not results.empty():
        told += 1
        for text in results.get():
            expect(False, text)
    expect(told == 4, f"{told} of 4 ranks told what they found")


def test_the_example_prints_every_row_and_the_same_losses():
    ranks = ForkedRanks(sys.executable, env=variables())
    code, output = ranks.run(0, os.path.join(source, "tests", "torch", "forked_spawn.py"), os.path.join(source, "examples", "python", "slow_link.py"),
                             "--op-ms", "2", "--delay-ms", "12", "--microbatches", "6", "--iterations", "2")
    expect(code == 0 and output.count(" ms ") == 8 and "apart" in output, f"the example: {output}")
    print(output)


def test_without_pytorch_a_schedule_is_an_error():
    done = python("import sys; sys.modules['torch'] = None\nimport slackline\n"
                  f"slackline.plan({EXAMPLE!r}, '1f1b').schedule([1])")
    expect(not missing(done.stderr, "ImportError: | PyTorch"), f"without PyTorch: {done.stderr}")
