# labels: torch
"""slackline.adapt with stages that a program changes while its job runs: in such a way that backwards can no longer be split, or that forwards draw
random numbers. Gradients stay those of the given schedule, and the order soon takes the change into account."""
import os

from adapt_torch import STAGES, Paced, SlowLink, batch, judged, slackline

import torch
from slackline.adapting import order
from slow_link import layer
from torch.distributed.pipelining import schedules
from torch.utils.checkpoint import checkpoint

MICROBATCHES, PATIENCE, AFTER = 6, 80, 3  # steps until a change of the order, and from then until the change of the stages


class Layer(torch.nn.Module):
    """A layer that recomputes its activations, uses a weight once more (always, or in every `ties_of`th forward), or drops outputs, as soon as it is
    told to."""

    def __init__(self, index):
        super().__init__()
        self.layer, self.recomputes, self.ties, self.drops = layer(index), False, False, 0.0
        self.ties_of, self.count = 0, 0

    def forward(self, x):
        x = checkpoint(self.layer, x, use_reentrant=True) if self.recomputes and x.requires_grad else self.layer(x)
        self.count += 1
        x = x @ self.layer[0].weight if self.ties or self.ties_of and self.count % self.ties_of == 3 else x
        return torch.nn.functional.dropout(x, self.drops) if self.drops else x


def told(**values):
    def change(module):
        vars(module).update(values)
    return change


def hooked(module):
    for one in module.modules():
        one.register_full_backward_hook(lambda module, inputs, outputs: tuple(0.5 * gradient if gradient is not None else None for gradient in inputs))


def changed(change, placement="linear", kind="1F1B", ranks=3, exact=True, bends=lambda rows, given: order.is_split(rows)):
    """bends: whether an order relies on what the change takes away; exact: whether the steps in which it still runs have the given gradients."""
    def trained(rank, group, adapt, until):
        """Gradients of each step; the step of the change, and the number of steps."""
        stages = [Paced(Layer(index), index, ranks * len(STAGES[placement](rank, ranks)), torch.device("cpu"), group=group)
                  for index in STAGES[placement](rank, ranks)]
        made = getattr(schedules, "Schedule" + kind)(stages if len(stages) > 1 else stages[0], MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
        schedule = slackline.adapt(made) if adapt else made
        given = order.rows_of(schedule.pipeline_order) if adapt else []
        found, bent, back = [], None, None
        while until is None or len(found) < until[1]:
            if adapt:
                bends_now = bends(order.rows_of(schedule.pipeline_order), given)
                bent = len(found) if bent is None and bends_now else bent
                back = len(found) if bent is not None and len(found) > bent + AFTER and not bends_now else None
                if back is not None or len(found) > PATIENCE:
                    break
            if len(found) == (until[0] if until else bent + AFTER if bent is not None else -1):
                for stage in stages:
                    change(stage.submod)
            for stage in stages:
                stage.submod.zero_grad()
            x, y = batch(len(found), MICROBATCHES)
            torch.manual_seed(len(found))
            schedule.step(*((x,) if rank == 0 else ()), target=y if any(stage.is_last for stage in stages) else None, losses=[])
            found.append([None if one.grad is None else one.grad.clone() for stage in stages for one in stage.submod.parameters()])
        return found, bent, back, schedule

    def case(rank, _, group, where):
        link = SlowLink(1 - rank, 0.02) if rank < 2 else None
        found, bent, back, schedule = trained(rank, group, True, None)
        if bent is None or back is None or not schedule.adaptation.active:
            return f"an order that relies on it ran from step {bent}, the last one until step {back}; {schedule.adaptation.why}"
        given = trained(rank, group, False, (bent + AFTER, len(found)))[0]
        if link:
            link.delay = 0.0
        differ = [step for step, (a, b) in enumerate(zip(given, found)) if any((x is None) != (y is None) or x is not None and not torch.equal(x, y) for x, y in zip(a, b))]
        return f"gradients of steps {differ} differ; changed before {bent + AFTER}, back from {back}" if exact and differ else ""
    return case


CASES = {
    "hooks of modules": (changed(hooked), 3), "recomputed activations": (changed(told(recomputes=True)), 3), "a weight in two places": (changed(told(ties=True)), 3),
    "a weight in two places, not in the first microbatch": (changed(told(ties_of=MICROBATCHES)), 3),
    "dropout": (changed(told(drops=0.1), "loop", "Interleaved1F1B", 2, exact=False,
                        bends=lambda rows, given: order.forwards(rows, range(4)) != order.forwards(given, range(4))), 2),
}


def test_changes_of_the_stages_change_no_gradient():
    judged(os.path.abspath(__file__), 3, CASES)
