# labels: long torch
"""slackline.adapt in jobs of many kinds: each trains as it does without, bit for bit, and goes on adapting."""
import gc
import logging
import os
import threading
import time
import warnings

from adapt_torch import Paced, batch, judged, made, slackline, stages_of, stepped
from waiting import until

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

MICROBATCHES, STEPS = 6, 9


def part(index, widths, dtype):
    torch.manual_seed(index)
    return torch.nn.Sequential(torch.nn.Linear(widths[index], widths[index + 1]), torch.nn.Tanh()).to(dtype)


def stages_from(modules, rank, ranks, group, count):
    return [PipelineStage(modules(index), index, count, torch.device("cpu"), group=group) for index in range(rank, count, ranks)]


def steps_of(schedule, stages, steps, arguments, clear_every=1):
    """Losses and gradients of each step. arguments(step): positional and named ones of the first stage, named ones of all, the target."""
    found = []
    first, last = stages[0].is_first, stages[-1].is_last
    for step in range(steps):
        if step % clear_every == 0:
            for stage in stages:
                stage.submod.zero_grad()
        inputs, named, target = arguments(step)
        losses = []
        schedule.step(*(inputs if first else ()), target=target if last else None, losses=losses, **named)
        found.append(([loss.item() for loss in losses],
                      [p.grad.clone() for stage in stages for p in stage.submod.parameters() if p.grad is not None]))
    return found


def equal(given, adapted, schedule):
    for step, (wanted, found) in enumerate(zip(given, adapted)):
        if wanted[0] != found[0] or len(wanted[1]) != len(found[1]) or not all(torch.equal(a, b) for a, b in zip(wanted[1], found[1])):
            return f"step {step}: losses {found[0]}, given {wanted[0]}, or other gradients"
    return "" if schedule.adaptation.active else f"it gave up: {schedule.adaptation.why}"


def same(modules, arguments, kind="Interleaved1F1B", each=1, steps=STEPS, clear_every=1):
    def job(rank, ranks, group, where):
        one, two = (stages_from(modules, rank, ranks, group, ranks * each) for _ in range(2))
        given, adapted = made(kind, one, MICROBATCHES), slackline.adapt(made(kind, two, MICROBATCHES))
        return equal(steps_of(given, one, steps, arguments, clear_every), steps_of(adapted, two, steps, arguments, clear_every), adapted)
    return job


def vectors(width, out, dtype=torch.float64):
    def arguments(step):
        draw = torch.Generator().manual_seed(step)
        return ((torch.randn(MICROBATCHES * 2, width, generator=draw, dtype=torch.float64).to(dtype),), {},
                torch.randn(MICROBATCHES * 2, out, generator=draw, dtype=torch.float64).to(dtype))
    return arguments


WIDTHS = [16, 40, 8, 24, 3, 12, 16]


class Several(torch.nn.Module):
    """A stage with two inputs, a named one, and two outputs of other shapes; the last has one output."""

    def __init__(self, index):
        super().__init__()
        torch.manual_seed(index)
        self.a, self.b, self.last = torch.nn.Linear(8, 8).double(), torch.nn.Linear(4, 4).double(), index == 2

    def forward(self, x, h, scale=None):
        x, h = torch.tanh(self.a(x)) * scale, self.b(h)
        return x + h.sum(1, keepdim=True) if self.last else (x, h)


def several(step):
    draw = torch.Generator().manual_seed(step)
    x, h, y = (torch.randn(MICROBATCHES * 2, width, generator=draw, dtype=torch.float64) for width in (8, 4, 8))
    return (x, h), {"scale": torch.full((MICROBATCHES * 2, 1), 1.5, dtype=torch.float64)}, y


def compiled(backend):
    return lambda index: torch.compile(part(index, [16] * 4, torch.float64), backend=backend)


def without_losses(rank, ranks, group, where):
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    for step in range(STEPS):
        x, y = batch(step, MICROBATCHES)
        adapted.step(*((x,) if rank == 0 else ()), target=y if rank == ranks - 1 else None)
    return "" if adapted.adaptation.active else "it gave up"


def without_gradients(rank, ranks, group, where):
    """A step under no_grad raises PyTorch's error, and leaves the job as it was; one that raises later is an event on the first rank."""
    stages, errors = stages_of("linear", rank, ranks, group), []
    given = made("1F1B", stages_of("linear", rank, ranks, group), MICROBATCHES)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    for step in range(STEPS):
        stepped(adapted, stages, step, MICROBATCHES)
        if step == 6:
            adapted._agent.begin()
            adapted._agent.abandon(ValueError("on purpose\nbelow"))
        if step == 4:
            for schedule in (given, adapted):
                try:
                    with torch.no_grad():
                        schedule.step()
                    errors.append(None)
                except RuntimeError as error:
                    errors.append(str(error))
    if errors[0] is None or errors[0] != errors[1]:
        return f"errors: {errors}"
    until(lambda: rank > 0 or any(one.kind == "raised" for one in adapted.adaptation.events), 20)  # another thread hears of it
    raised = [(one.step, one.text) for one in adapted.adaptation.events if one.kind == "raised"]
    if raised != ([(7, "ValueError: on purpose")] if rank == 0 else []):
        return f"events of a step that raised: {raised}"
    return "" if adapted.adaptation.active else "it gave up"


def from_another_thread(rank, ranks, group, where):
    stages, found = stages_of("linear", rank, ranks, group), []
    given_stages = stages_of("linear", rank, ranks, group)
    given, adapted = made("1F1B", given_stages, MICROBATCHES), slackline.adapt(made("1F1B", stages, MICROBATCHES))
    for step in range(STEPS):
        wanted = stepped(given, given_stages, step, MICROBATCHES)
        if step % 3 == 1:
            thread = threading.Thread(target=lambda: found.append(stepped(adapted, stages, step, MICROBATCHES)))
            thread.start()
            thread.join()
        else:
            found.append(stepped(adapted, stages, step, MICROBATCHES))
        if found[-1] != wanted:
            return f"step {step}: {found[-1]}, given {wanted}"
    return "" if adapted.adaptation.active else "it gave up"


class Seen(torch.utils.data.Dataset):
    """Batches made by processes that are forked while the job adapts; what they see of the adaptation."""

    def __init__(self, adaptation):
        self.adaptation = adaptation

    def __len__(self):
        return 6

    def __getitem__(self, step):
        return (*batch(step, MICROBATCHES), int(self.adaptation.active))


def loaded_by_forked_processes(rank, ranks, group, where):
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    count = 0
    for _ in range(2):
        for x, y, active in torch.utils.data.DataLoader(Seen(adapted.adaptation), batch_size=None, num_workers=2, multiprocessing_context="fork"):
            if active:
                return "the adaptation is active in a child"
            adapted.step(*((x,) if rank == 0 else ()), target=y if rank == ranks - 1 else None)
            count += 1
    return "" if adapted.adaptation.active and count == 12 else f"{count} steps, or it gave up"


def sharded(rank, ranks, group, where):
    """FSDP2, over a mesh of this rank alone: stages are sharded and gathered again in each step."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    meshes = [DeviceMesh.from_group(dist.new_group([one], use_local_synchronization=True), "cpu") for one in (rank,)]
    widths = [16] * 7

    def modules(index):
        return fully_shard(part(index, widths, torch.float32), mesh=meshes[0], reshard_after_forward=False)

    def arguments(step):
        inputs, named, target = vectors(16, 16, torch.float32)(step)
        return inputs, named, target
    one, two = (stages_from(modules, rank, ranks, group, ranks * 2) for _ in range(2))
    given, adapted = made("Interleaved1F1B", one, MICROBATCHES), slackline.adapt(made("Interleaved1F1B", two, MICROBATCHES))

    def local(found):
        return [(losses, [gradient.to_local() for gradient in gradients]) for losses, gradients in found]
    return equal(local(steps_of(given, one, STEPS, arguments)), local(steps_of(adapted, two, STEPS, arguments)), adapted)


def two_models(rank, ranks, group, where):
    one, two = stages_of("linear", rank, ranks, group), stages_of("wave", rank, ranks, group)
    alone = stages_of("linear", rank, ranks, group)
    given = made("1F1B", alone, MICROBATCHES)
    a, b = slackline.adapt(made("1F1B", one, MICROBATCHES)), slackline.adapt(made("ZBVZeroBubble", two, MICROBATCHES))
    for step in range(STEPS):
        stepped(b, two, step, MICROBATCHES)
        if stepped(a, one, step, MICROBATCHES) != stepped(given, alone, step, MICROBATCHES):
            return f"step {step}: other losses"
    return "" if a.adaptation.active and b.adaptation.active else "one gave up"


def tied(rank, ranks, group, where):
    """Two stages of a rank share a weight. PyTorch divides its gradient after the last backward of each of them, so that it depends on the order."""
    def stages():
        mine = stages_from(lambda index: part(index, [16] * 5, torch.float64), rank, ranks, group, 2 * ranks)
        mine[1].submod[0].weight = mine[0].submod[0].weight
        return mine

    def schedule(mine, scales):
        return ScheduleInterleaved1F1B(mine, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss, scale_grads=scales)
    for scales in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one, two = stages(), stages()
            adapted = slackline.adapt(schedule(two, scales))
        if adapted.adaptation.active == scales or ("share parameters" in adapted.adaptation.why) != scales:
            return f"scale_grads {scales}: active {adapted.adaptation.active}, {adapted.adaptation.why}"
        wanted, found = (steps_of(made, mine, STEPS, vectors(16, 16)) for made, mine in ((schedule(one, scales), one), (adapted, two)))
        if not all(torch.allclose(a, b, rtol=1e-10, atol=0) for (_, given), (_, own) in zip(wanted, found) for a, b in zip(given, own)):
            return f"scale_grads {scales}: other gradients"
    return ""


def on_another_default_device(transport):
    """The program's default device is another one than the stages'."""
    def job(rank, ranks, group, where):
        found = []
        for adapts in (False, True):
            stages = stages_of("linear", rank, ranks, group)
            with torch.device("meta"):
                schedule = made("1F1B", stages, MICROBATCHES)
                schedule = slackline.adapt(schedule, transport=transport) if adapts else schedule
            for step in range(STEPS):
                x, y = batch(step, MICROBATCHES)
                with torch.device("meta"):
                    schedule.step(*((x,) if rank == 0 else ()), target=y if rank == ranks - 1 else None)
            found.append([one.grad for one in stages[0].submod.parameters()])
        if not all(map(torch.equal, *found)):
            return "other gradients"
        return "" if schedule.adaptation.active else "it gave up"
    return job


def adapted_twice(rank, ranks, group, where):
    """Once more from the given schedule, and from the adapted one."""
    stages, alone = stages_of("linear", rank, ranks, group), stages_of("linear", rank, ranks, group)
    given, bare = made("1F1B", stages, MICROBATCHES), made("1F1B", alone, MICROBATCHES)
    first = slackline.adapt(given)
    for step, schedule in enumerate([first] * 3 + [slackline.adapt(given)] * 3 + [slackline.adapt(first)] * 8):
        if stepped(schedule, stages, step, MICROBATCHES) != stepped(bare, alone, step, MICROBATCHES):
            return f"step {step}: other losses"
    return "" if schedule.adaptation.active else f"it gave up: {schedule.adaptation.why}"


def collected(rank, ranks, group, where):
    """A schedule that is dropped leaves no threads and no groups."""
    def ours():
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("slackline")]
    until(lambda: gc.collect() >= 0 and not ours(), 10, 0.2)  # of the cases before
    threads, groups, none = len(ours()), len(dist.distributed_c10d._world.pg_map), ""
    for _ in range(2):
        stages = stages_of("wave", rank, ranks, group)
        adapted = slackline.adapt(made("ZBVZeroBubble", stages, MICROBATCHES))
        for step in range(4):
            stepped(adapted, stages, step, MICROBATCHES)
        now = len(ours()), len(dist.distributed_c10d._world.pg_map)
        none = none or ("" if now[0] > threads and now[1] > groups else f"{now[0]} threads and {now[1]} groups, {threads} and {groups} before: {ours()}")
        dist.barrier(group)
        del adapted, stages
        gc.collect()
        dist.barrier(group)
    def left():
        gc.collect()
        return len(ours()) - threads, len(dist.distributed_c10d._world.pg_map) - groups
    until(lambda: max(left()) <= 0, 5, 0.05)  # the first rank may still be planning
    if none:
        return none
    more = left()
    return "" if max(more) <= 0 else f"{more[0]} threads and {more[1]} groups are left: {ours()}"


def settled(adapted, stages, rank, group):
    """Steps until the first rank knows the healthy job, and 20 more, in which its orchestrator learns how much steps vary."""
    known, since = torch.zeros(1), 0
    for step in range(100):
        stepped(adapted, stages, step, MICROBATCHES)
        known[0] = len(adapted.adaptation.state_dict()) if rank == 0 else 0
        dist.broadcast(known, 0, group=group)
        since += bool(known.item())
        if since == 20:
            return True
    return False


def resumed_with_a_fault(rank, ranks, group, where):
    """A job that resumes on a rank that has become slow in the meantime: it learns nothing again, and notices the rank."""
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES))
    if not settled(adapted, stages, rank, group):
        return "no baseline after 100 steps"
    state = adapted.adaptation.state_dict()
    again = stages_of("linear", rank, ranks, group)
    resumed = slackline.adapt(made("1F1B", again, MICROBATCHES))
    resumed.adaptation.load_state_dict(state)
    before = Paced.op
    Paced.op = 8 * before if rank == 1 else before
    for step in range(24):
        stepped(resumed, again, step, MICROBATCHES)
    Paced.op = before
    dist.barrier(group)
    time.sleep(0.3)
    kinds = [one.kind for one in resumed.adaptation.events]
    if rank == 0 and ("profile" in kinds or "onset" not in kinds):
        return f"events: {kinds}"
    return "" if resumed.adaptation.active else "it gave up"


class Kept(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))


class Full(logging.Handler):
    def emit(self, record):
        raise OSError("no space left on device")


def events_reach_all(rank, ranks, group, where):
    """on_event, the logger and `adaptation.events` have the same events, even if another handler of the logger raises."""
    kept, full, seen = Kept(), Full(), []
    logger = logging.getLogger("slackline")
    logger.addHandler(kept)
    logger.addHandler(full)
    logger.setLevel(logging.INFO)
    stages = stages_of("linear", rank, ranks, group)
    adapted = slackline.adapt(made("1F1B", stages, MICROBATCHES), on_event=seen.append)
    for step in range(16):
        stepped(adapted, stages, step, MICROBATCHES)
    dist.barrier(group)
    time.sleep(0.5)
    logger.removeHandler(kept)
    logger.removeHandler(full)
    logger.setLevel(logging.NOTSET)
    events = adapted.adaptation.events
    if rank:
        return "" if not events and not seen and not kept.lines else "events on another rank than the first"
    if not events or seen != events or [line for level, line in kept.lines if level == "INFO"] != [f"step {one.step}: {one.kind}: {one.text}" for one in events]:
        return f"{events}, on_event {seen}, logged {kept.lines}"
    return ""


def labels_of(schedule, stages):
    """The names of the runtime's record_function labels in one step, sorted."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        stepped(schedule, stages, 5, MICROBATCHES)
    return sorted(event.name for event in profiler.events() if event.name.startswith("PP:"))


def labels_remain(rank, ranks, group, where):
    given_stages, stages = (stages_of("loop", rank, ranks, group) for _ in range(2))
    given = made("Interleaved1F1B", given_stages, MICROBATCHES)
    adapted = slackline.adapt(made("Interleaved1F1B", stages, MICROBATCHES), frozen=True)
    for step in range(3):
        stepped(given, given_stages, step, MICROBATCHES)
        stepped(adapted, stages, step, MICROBATCHES)
    wanted, found = labels_of(given, given_stages), labels_of(adapted, stages)
    if len(wanted) < 4 * MICROBATCHES:
        return f"PyTorch's runtime has labels {wanted}"
    return "" if wanted == found else f"labels {found}, given {wanted}"


def profiled(rank, ranks, group, where):
    """PyTorch's profiler records some steps again and again. What it records of a message must end before it does."""
    from torch.profiler import ProfilerActivity, profile, schedule
    stages = stages_of("linear", rank, ranks, group)
    adapted, steps = slackline.adapt(made("1F1B", stages, MICROBATCHES)), []
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2, repeat=8), on_trace_ready=lambda one: steps.append(one.step_num)) as profiler:
        for step in range(34):
            stepped(adapted, stages, step, MICROBATCHES)
            profiler.step()
    return "" if len(steps) == 8 and adapted.adaptation.active else f"recorded until steps {steps}; {adapted.adaptation.why}"


CASES = {
    "stages of other shapes": (same(lambda index: part(index, WIDTHS, torch.float64), vectors(16, 16), each=2), 3),
    "several inputs and outputs": (same(Several, several), 3),
    "bfloat16": (same(lambda index: part(index, [16] * 4, torch.bfloat16), vectors(16, 16, torch.bfloat16)), 3),
    "float32 split": (same(lambda index: part(index, [16] * 7, torch.float32), vectors(16, 16, torch.float32), "InterleavedZeroBubble", 2), 3),
    "accumulated gradients": (same(lambda index: part(index, [16] * 4, torch.float64), vectors(16, 16), clear_every=3), 3),
    "torch.compile, eager": (same(compiled("eager"), vectors(16, 16)), 3), "torch.compile, aot_eager": (same(compiled("aot_eager"), vectors(16, 16)), 3),
    "FSDP2": (sharded, 3), "no losses": (without_losses, 3), "no gradients": (without_gradients, 3), "another thread": (from_another_thread, 3),
    "forked loaders": (loaded_by_forked_processes, 3), "two models": (two_models, 3), "tied stages of a rank": (tied, 2), "twice": (adapted_twice, 3), "collected": (collected, 3),
    "default device": (on_another_default_device("torch"), 3), "default device, delegates": (on_another_default_device("slackline"), 3),
    "resumed": (resumed_with_a_fault, 3), "events": (events_reach_all, 3), "labels": (labels_remain, 3), "profiled": (profiled, 3),
}


def test_jobs_of_many_kinds_train_as_without():
    warnings.simplefilter("default")
    judged(os.path.abspath(__file__), 3, CASES)
