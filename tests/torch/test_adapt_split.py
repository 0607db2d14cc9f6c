# labels: slow torch
"""slackline.adapt splits backwards only where no gradient is lost: PyTorch's split backward leaves out tensors that are not parameters of the stage."""
import os

from adapt_torch import Paced, SlowLink, batch, judged, slackline

import torch
from slackline.adapting import order
from slow_link import layer
from torch.distributed.pipelining import schedules

MICROBATCHES, STEPS = 6, 24


class Scaled(torch.nn.Module):
    """A loss with a parameter."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((16,), 1.5, dtype=torch.float64))

    def forward(self, output, target):
        return torch.nn.functional.mse_loss(output * self.scale, target)


class Resharded(torch.nn.Module):
    """A layer whose parameter is another object after each forward, as with FSDP2 if a loss reshards it. `kept` has both."""

    def __init__(self, index):
        super().__init__()
        self.layer = layer(index)
        self.scale = torch.nn.Parameter(torch.full((16,), 1.5, dtype=torch.float64))
        self.kept = [self.scale, torch.nn.Parameter(torch.zeros(8, dtype=torch.float64))]

    def forward(self, x):
        self.scale = self.kept[0]
        result = self.layer(x) * self.scale
        self.scale = self.kept[1]
        return result


def frozen(index):
    """The first layer's outputs need no gradient, so the second has no input that does."""
    made = layer(index)
    return made.requires_grad_(index != 0)


class Apart(torch.nn.Module):
    """A layer with a parameter on no path from its input: it has a second output."""

    def __init__(self, index):
        super().__init__()
        self.layer, self.last = layer(index), index == 2
        self.table = torch.nn.Parameter(torch.full((2, 16), 0.5, dtype=torch.float64)) if index == 1 else None

    def forward(self, x, table=None):
        x = self.layer(x)
        if table is not None:
            x = x * table
        return x if self.last or self.table is None else (x, self.table.exp())


class View(torch.nn.Module):
    """A layer whose output is a view."""

    def __init__(self, index):
        super().__init__()
        self.layer = layer(index)

    def forward(self, x):
        return self.layer(x).view(2, 4, 4).transpose(1, 2).transpose(1, 2).flatten(1)


class Merged(torch.nn.Module):
    """A layer whose weight is the sum of two, which have the same gradient."""

    def __init__(self, index):
        super().__init__()
        self.layer = layer(index)
        self.one, self.two = (torch.nn.Parameter(torch.full((16, 16), value, dtype=torch.float64)) for value in (0.1, 0.2))

    def forward(self, x):
        return torch.tanh(torch.nn.functional.linear(self.layer(x), self.one + self.two))


class Same(torch.nn.Module):
    """A layer with a parameter of the shape of its output, whose gradient is the one that the rank has received."""

    def __init__(self, index):
        super().__init__()
        self.layer = layer(index)
        self.place = torch.nn.Parameter(torch.full((2, 16), 0.1, dtype=torch.float64))

    def forward(self, x):
        return self.layer(x) + self.place


class Compiled(torch.nn.Module):
    """A layer whose output goes through a compiled function."""

    def __init__(self, index):
        super().__init__()
        self.layer, self.last = layer(index), torch.compile(lambda x: torch.tanh(x) * 1.5, backend="aot_eager")

    def forward(self, x):
        return self.last(self.layer(x))


class Plain(torch.nn.Module):
    """A layer in a module of its own: torch.compile leaves PyTorch's Sequential as it is."""

    def __init__(self, index):
        super().__init__()
        self.layer = layer(index)

    def forward(self, x):
        return torch.tanh(self.layer(x))


class Tied(torch.nn.Module):
    """A layer that uses a weight at its begin and at its end: PyTorch's split backward fails."""

    def __init__(self, index):
        super().__init__()
        self.layer = layer(index)

    def forward(self, x):
        return torch.tanh(self.layer(x) @ self.layer[0].weight)


class Once(torch.autograd.Function):
    """A product that frees what it keeps in its backward."""

    @staticmethod
    def forward(context, x, weight):
        context.kept = x.detach(), weight.detach()
        return x @ weight

    @staticmethod
    def backward(context, gradient):
        (x, weight), context.kept = context.kept, None
        return gradient @ weight.T, x.T @ gradient


class Multiplied(torch.nn.Module):
    """A layer that multiplies by a function of its own."""

    def __init__(self, index):
        super().__init__()
        self.layer, self.weight = layer(index), torch.nn.Parameter(torch.eye(16, dtype=torch.float64))

    def forward(self, x):
        return torch.tanh(Once.apply(self.layer(x), self.weight))


class Halved(torch.nn.Module):
    """A layer that halves the gradients of its output and of a tensor inside it."""

    def __init__(self, index):
        super().__init__()
        self.layer = layer(index)

    def forward(self, x):
        for part in self.layer:
            x = part(x)
            if x.requires_grad:
                x.register_hook(lambda gradient: 0.5 * gradient)
        return x


class HalvedMse(torch.nn.Module):
    """A loss that halves the gradient of its input."""

    def forward(self, output, target):
        output.register_hook(lambda gradient: 0.5 * gradient)
        return torch.nn.functional.mse_loss(output, target)


def compiled_in_place(index):
    made = Plain(index)
    made.compile(backend="aot_eager")
    return made


def hooked(register):
    def module(index):
        made = layer(index)
        register(made, [])
        return made
    return module


def counted(made, seen):
    """Gradients that depend on how often the hook has been called."""
    def accumulated(parameter):
        seen.append(1)
        parameter.grad += len(seen)
    made[0].weight.register_post_accumulate_grad_hook(accumulated)


def scaled(made, seen):
    made[2].register_full_backward_hook(lambda module, inputs, outputs: seen.append(1) or (inputs[0] * len(seen),))


def job(module, loss, splits, hold=False):
    """Trains with the given order and adapted, over a slow link; compares all gradients. splits: whether the adapted order has I and W."""
    def trained(rank, ranks, group, adapt):
        stage = Paced(module(rank), rank, ranks, torch.device("cpu"), group=group)
        loss_fn, found = loss(), []
        tensors = [*stage.submod.parameters(), *getattr(stage.submod, "kept", [])[:1], *(loss_fn.parameters() if rank == ranks - 1 else [])]
        schedule = schedules.Schedule1F1B(stage, MICROBATCHES, loss_fn=loss_fn)
        if adapt and hold:
            slackline.adapt(schedule)  # one that never steps
        schedule = slackline.adapt(schedule) if adapt else schedule
        orders = set()
        for step in range(STEPS):
            for tensor in tensors if step % 2 == 0 else ():
                tensor.grad = None
            x, y = batch(step, MICROBATCHES)
            orders.add(order.text_of(order.rows_of(schedule.pipeline_order)) if adapt else "")
            schedule.step(*((x,) if rank == 0 else ()), target=y if rank == ranks - 1 else None, losses=[])
            found.append([None if tensor.grad is None else tensor.grad.clone() for tensor in tensors])
        return found, orders, schedule

    def case(rank, ranks, group, where):
        link = SlowLink(1 - rank, 0.02) if rank < 2 else None
        (given, _, _), (found, orders, schedule) = trained(rank, ranks, group, False), trained(rank, ranks, group, True)
        if link:
            link.delay = 0.0
        for step, (wanted, got) in enumerate(zip(given, found)):
            lost = [at for at, (a, b) in enumerate(zip(wanted, got)) if (a is None) != (b is None) or a is not None and not torch.equal(a, b)]
            if lost:
                return f"step {step}: gradients {lost} of {len(wanted)} differ"
        if not schedule.adaptation.active or len(orders) < 2:
            return f"it has not adapted: {schedule.adaptation.why}"
        return "" if any("I" in text for text in orders) == splits else f"split: {not splits}"
    return case


class Mse(torch.nn.Module):
    def forward(self, output, target):
        return torch.nn.functional.mse_loss(output, target)


CASES = {"nothing is lost": (job(layer, Mse, True), 3), "a loss with a parameter": (job(layer, Scaled, False), 3),
         "a parameter that is resharded": (job(Resharded, Mse, False), 3),
         "frozen stages before": (job(frozen, Mse, False), 3), "a parameter apart from the input": (job(Apart, Mse, False), 3),
         "an output that is a view": (job(View, Mse, False), 3), "two parameters with one gradient": (job(Merged, Mse, True), 3),
         "a parameter with the received gradient": (job(Same, Mse, True), 3), "a hook after accumulation": (job(hooked(counted), Mse, False), 3),
         "a hook of a module": (job(hooked(scaled), Mse, False), 3),
         "hooks of tensors": (job(Halved, Mse, False), 3), "a hook of a loss": (job(layer, HalvedMse, False), 3),
         "a weight in two places": (job(Tied, Mse, False), 3), "a function that runs once": (job(Multiplied, Mse, False), 3),
         "a compiled function": (job(Compiled, Mse, False), 3), "a module compiled in place": (job(compiled_in_place, Mse, False), 3),
         "after an adaptation that never stepped": (job(layer, Scaled, False, hold=True), 3)}


def test_backwards_are_split_only_where_no_gradient_is_lost():
    judged(os.path.abspath(__file__), 3, CASES)
