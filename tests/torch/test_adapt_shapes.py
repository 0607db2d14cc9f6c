# labels: long torch
"""slackline.adapt with stages and steps of many shapes, while a link gets slow and recovers: losses, outputs and gradients of each step are those of
the given schedule, bit for bit."""
import os
import random

from adapt_torch import Paced, SlowLink, judged, slackline

import numpy
import torch
from slackline.adapting import order
from slow_link import layer
from torch.distributed.pipelining import SplitPoint, pipeline, schedules

MICROBATCHES, ROWS, STEPS, WIDTH = 6, 3, 26, 16
CPU = torch.device("cpu")


def floats(seed):
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(MICROBATCHES * ROWS, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))


def words(seed):
    x = torch.randint(0, 20, (MICROBATCHES * ROWS, 5), generator=torch.Generator().manual_seed(seed))
    return x, x.roll(1, 1)


def cross_entropy(output, target):
    return torch.nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


class Masked(torch.nn.Module):
    """Passes a mask of booleans and numbers of rows through, beside its output; takes a named argument of the step."""

    def __init__(self, index, last):
        super().__init__()
        self.layer, self.last = layer(index), last

    def forward(self, x, mask=None, rows=None, *, scale):
        if mask is None:
            mask, rows = x > 0, torch.arange(len(x))
        x = self.layer(x).masked_fill(mask, 0.1) * scale + rows[:, None]
        return x if self.last else (x, mask, rows)


class Words(torch.nn.Module):
    """Whole numbers as inputs; an embedding, a layer of a transformer with dropout, and a head."""

    def __init__(self, index, last, drop=0.2):
        super().__init__()
        torch.manual_seed(index)
        self.embedding = torch.nn.Embedding(20, WIDTH) if index == 0 else torch.nn.Identity()
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=drop, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, 20) if last else torch.nn.Identity()

    def forward(self, x):
        return self.head(self.layer(self.embedding(x)))


class Mixed(torch.nn.Module):
    """float32 parameters under autocast, bfloat16 between stages."""

    def __init__(self, index, last):
        super().__init__()
        self.layer, self.last = layer(index).float(), last

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.layer(x if x.dtype == torch.bfloat16 else x.float())
        return x.double() if self.last else x


class Halved(torch.nn.Module):
    """A layer whose output is halved at random, by Python's generator or by NumPy's."""
    draw = random.random

    def __init__(self, index, last):
        super().__init__()
        self.layer = layer(index)

    def forward(self, x):
        return self.layer(x) * (1 if type(self).draw() < 0.7 else 0.5)


class HalvedByNumpy(Halved):
    draw = numpy.random.rand


class Odd(torch.nn.Module):
    """A batch norm, which counts; parameters that are not used, or not always."""

    def __init__(self, index, last):
        super().__init__()
        self.layer, self.norm = layer(index), torch.nn.BatchNorm1d(WIDTH, dtype=torch.float64)
        self.unused, self.sometimes = (torch.nn.Parameter(torch.ones(WIDTH, dtype=torch.float64)) for _ in range(2))

    def forward(self, x):
        x = self.norm(self.layer(x))
        return x * self.sometimes if int(self.norm.num_batches_tracked) % 3 == 0 else x


class Still(torch.nn.Module):
    """The middle stages have no parameters, or none that are trained."""

    def __init__(self, index, last):
        super().__init__()
        self.layer = torch.nn.Tanh() if index == 1 else layer(index).requires_grad_(index % 2 == 0)

    def forward(self, x):
        return self.layer(x)


def manual(module, each=1):
    def stages(rank, ranks, group):
        return [Paced(module(index, index == ranks * each - 1), index, ranks * each, CPU, group=group) for index in range(rank, ranks * each, ranks)]
    return stages


def traced(rank, ranks, group):
    model = torch.nn.Sequential(*[layer(index) for index in range(ranks)])
    pipe = pipeline(model, (torch.randn(ROWS, WIDTH, dtype=torch.float64),), split_spec={str(index): SplitPoint.BEGINNING for index in range(1, ranks)})
    return [pipe.build_stage(rank, CPU, group)]


def from_csv(rank, where, stages, loss):
    """Two ranks; split on the first one only."""
    path = os.path.join(where, f"given{rank}.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("0F0,0F1,0F2,,0I0,0W0,0F3,0I1,0F4,0I2,0W1,0F5,0I3,0W2,0I4,0W3,0I5,0W4,0W5\n" + ",".join(f"1F{at},1B{at}" for at in range(MICROBATCHES)) + "\n")
    schedule = schedules._PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=loss)
    schedule._load_csv(path)
    return schedule


def called(name):
    def make(rank, where, stages, loss):
        cls = getattr(schedules, name)
        return cls(stages[0] if issubclass(cls, schedules.PipelineScheduleSingle) else stages, MICROBATCHES, loss_fn=loss)
    return make


def ran(schedule, stages, named):
    """What a job sees that adds the gradients of two steps, clips them, trains, and evaluates now and then; all in its state of random numbers."""
    first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
    parameters = [parameter for stage in stages for parameter in stage.submod.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=0.01) if parameters else None
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS // 2) if parameters else None

    def step(number, batch, link):
        link(number)
        for seed in (torch.manual_seed, random.seed, numpy.random.seed):
            seed(number)
        x, y = batch(number)
        losses = []
        options = {"target": y, "losses": losses} if last else {}
        seen = [schedule.step(*((x,) if first else ()), **options, **named)]
        if number % 2:
            seen += [torch.nn.utils.clip_grad_norm_(parameters, 0.5)] + [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad()
                rates.step()
        if number in (4, 20):  # while no message is delayed: one of an evaluation would overtake those that set up the next step
            with torch.no_grad():
                seen.append(schedule.eval(*((x,) if first else ()), **options, **named))
        return [one if last or at else None for at, one in enumerate(seen)] + losses
    return step


def same(stages_of, make=called("Schedule1F1B"), batch=floats, loss=torch.nn.functional.mse_loss, swaps=True, named=False):
    """swaps: whether the order has to change."""
    def job(rank, ranks, group, where):
        slow = SlowLink(1 - rank, 0.0) if rank < 2 else None
        options = {"scale": torch.linspace(0.5, 1.5, MICROBATCHES * ROWS, dtype=torch.float64)[:, None]} if named else {}

        def link(step):
            if slow:
                slow.delay = 0.02 if 8 <= step < 18 else 0.0
        jobs = []
        for adapts in (False, True):
            stages = stages_of(rank, ranks, group)
            given = make(rank, where, stages, loss)
            jobs.append((given if not adapts else slackline.adapt(given), stages, [dict(stage.submod.named_buffers()) for stage in stages]))
        adapted, orders = jobs[1][0], set()
        if adapted.adaptation.why:
            return f"not adapted: {adapted.adaptation.why}"
        given, found = (ran(schedule, stages, options) for schedule, stages, _ in jobs)
        for step in range(STEPS):
            wanted, got = given(step, batch, link), found(step, batch, link)
            orders.add(order.text_of(order.rows_of(adapted.pipeline_order)))
            if len(wanted) != len(got) or not all(a is b or torch.equal(a, b) for a, b in zip(wanted + values(jobs[0]), got + values(jobs[1]))):
                return f"step {step}: other losses, outputs or gradients after {len(orders) - 1} swaps"
        if slow:
            slow.delay = 0.0
        return "" if adapted.adaptation.active and (len(orders) > 1 or not swaps) else f"{len(orders)} orders, {adapted.adaptation.active}"
    return job


def values(job):
    """Counts, but not means: those begin with what PyTorch's metadata inference finds in new buffers."""
    return [buffer for buffers in job[2] for buffer in buffers.values() if not buffer.is_floating_point()]


def renumbered(rank, ranks, group, where):
    """The number of microbatches changes between steps, as GPipe lets a program do; those of the adapted number are still adapted."""
    found = []
    for adapts in (False, True):
        stages = manual(lambda index, last: layer(index))(rank, ranks, group)
        schedule = called("ScheduleGPipe")(rank, where, stages, torch.nn.functional.mse_loss)
        schedule = slackline.adapt(schedule) if adapts else schedule
        found.append([])
        for step in range(40):  # at least every eighth is measured
            schedule._n_microbatches = number = {5: 4, 6: 2, 13: 5}.get(step, MICROBATCHES)
            x, y = (part[:number * ROWS] for part in floats(step))
            losses = []
            options = {"target": y, "losses": losses} if rank == ranks - 1 else {}
            output = schedule.step(*((x,) if rank == 0 else ()), **options)
            with torch.no_grad():
                again = schedule.eval(*((x,) if rank == 0 else ()), **options) if step in (6, 9) else None
            found[-1].append([one for one in (output, again, *losses) if one is not None] + [parameter.grad.clone() for parameter in stages[0].submod.parameters()])
    wrong = [step for step, (a, b) in enumerate(zip(*found)) if len(a) != len(b) or not all(map(torch.equal, a, b))]
    measured = schedule.adaptation.measured
    return f"steps {wrong} differ" if wrong else "" if schedule.adaptation.active and (rank or measured.step > 13) else "it gave up"


def as_given_again(rank, ranks, group, where):
    """After a swap that makes process groups for messages, the given schedule steps the same stages, and so does another one."""
    stages, alone = (manual(lambda index, last: layer(index))(rank, ranks, group) for _ in range(2))
    given, bare = (called("Schedule1F1B")(rank, where, one, torch.nn.functional.mse_loss) for one in (stages, alone))
    adapted = slackline.adapt(given)
    if rank == 0:
        decider = adapted._agent.leader.decider
        decider.observe = lambda steps: decider._swap([decider.running], decider.split, steps[0], None, None, "on purpose") if decider._versions == 0 else None
    other = called("ScheduleGPipe")(rank, where, stages, torch.nn.functional.mse_loss)
    for step, schedule in enumerate([adapted] * 10 + [given, adapted, other, adapted]):
        x, y = floats(step)
        found = []
        for one in (schedule, bare):
            losses = []
            one.step(*((x,) if rank == 0 else ()), **({"target": y, "losses": losses} if rank == ranks - 1 else {}))
            found.append(losses)
        if not all(map(torch.equal, *found)):
            return f"step {step}: losses {found}"
    return "" if adapted.adaptation.active and adapted._agent.kept.groups is not None else "it gave up, or there are no groups"


CASES = {
    "the given schedule again": (as_given_again, 3),
    "another number of microbatches": (renumbered, 3),
    "a mask, numbers and a named argument": (same(manual(Masked), called("ScheduleGPipe"), named=True), 3),
    "an embedding and dropout": (same(manual(Words), batch=words, loss=cross_entropy), 3),
    "dropout in two stages of a rank": (same(manual(Words, 2), called("ScheduleInterleaved1F1B"), words, cross_entropy, swaps=False), 2),
    "outputs halved at random in two stages of a rank": (same(manual(Halved, 2), called("ScheduleInterleaved1F1B"), swaps=False), 2),
    "outputs halved by NumPy": (same(manual(HalvedByNumpy, 2), called("ScheduleInterleaved1F1B"), swaps=False), 2),
    "autocast": (same(manual(Mixed)), 3), "a batch norm and unused parameters": (same(manual(Odd)), 3), "stages that are not trained": (same(manual(Still)), 3),
    "traced": (same(traced), 3), "from CSV": (same(manual(lambda index, last: layer(index)), from_csv, swaps=False), 2),
}


def test_steps_of_many_shapes_are_those_of_the_given_schedule():
    judged(os.path.abspath(__file__), 3, CASES)
