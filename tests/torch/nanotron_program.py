"""Run by test_nanotron.py: nanotron's engines in several shapes on four ranks, each beside one that is not adapted and trains on the same
batches. The link between ranks 0 and 1 is slow all the time, so that an adapted engine changes its order. Prints what is wrong.

The package of nanotron 0.4 imports itself in a circle by its configuration, which its engines do not use: a stub takes its place."""
import faulthandler
import json
import os
import sys
import warnings
from unittest import mock

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from forked_ranks import free_port
from slow_link import Held, SlowLink

RANKS, WIDTH = 4, 16
for name in ("nanotron.config", "nanotron.config.config"):
    sys.modules[name] = mock.MagicMock()


class Layer(torch.nn.Module):
    """Passes on a mask, too, which has no gradient."""

    def __init__(self, stage):
        super().__init__()
        torch.manual_seed(100 + stage)
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))

    def forward(self, x, mask):
        return {"x": Held.apply(self.layers(x) * mask), "mask": mask}


class Loss(torch.nn.Module):
    def forward(self, x, mask, target):
        return {"loss": torch.nn.functional.mse_loss(x * mask, target)}


class Model(torch.nn.Module):
    def __init__(self, p2p, stages):
        from nanotron.parallel.pipeline_parallel.block import PipelineBlock
        super().__init__()
        keys = {"module_input_keys": {"x", "mask"}, "module_output_keys": {"x", "mask"}}
        self.blocks = torch.nn.ModuleList(PipelineBlock(p2p, Layer, {"stage": stage}, **keys) for stage in range(stages))
        self.loss = PipelineBlock(p2p, Loss, {}, {"x", "mask", "target"}, {"loss"})
        for stage, block in enumerate([*self.blocks, self.loss]):
            block.build_and_set_rank(min(stage, stages - 1))

    def forward(self, x, mask, target):
        values = {"x": x, "mask": mask}
        for block in self.blocks:
            values = block(**values)
        return self.loss(**values, target=target)["loss"]


class Job:
    """A model, an engine, and a step of training."""

    def __init__(self, group, kind, adapt):
        from nanotron.parallel.pipeline_parallel import engine
        from nanotron.parallel.pipeline_parallel.p2p import P2P
        self.group, self.rank, self.stages = group, dist.get_rank(group), dist.get_world_size(group)
        self.model = Model(P2P(group, torch.device("cpu")), self.stages)
        self.engine = getattr(engine, kind + "PipelineEngine")()
        if adapt:
            slackline.adapt(self.engine)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1) if any(True for _ in self.model.parameters()) else None

    def batch(self, step, microbatches, rows):
        from nanotron.parallel.pipeline_parallel.tensor_pointer import TensorPointer
        draw = torch.Generator().manual_seed(step)
        for _ in range(microbatches):
            x, target, mask = torch.randn(rows, WIDTH, generator=draw), torch.randn(rows, WIDTH, generator=draw), torch.randint(0, 2, (rows, 1), generator=draw).float()
            yield {"x": x if self.rank == 0 else TensorPointer(0), "mask": mask if self.rank == 0 else TensorPointer(0),
                   "target": target if self.rank == self.stages - 1 else TensorPointer(self.stages - 1)}

    def step(self, number, microbatches, rows):
        outputs = self.engine.train_batch_iter(model=self.model, pg=self.group, batch=self.batch(number, microbatches, rows), nb_microbatches=microbatches,
                                               grad_accumulator=None)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return [one["loss"].item() for one in outputs if isinstance(one["loss"], torch.Tensor)]

    def weights(self):
        return torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])


def same(group, kind, steps, microbatches=6, swapped=True, shape=lambda step: (None, 4)):
    """What differs between an engine as given and an adapted one."""
    given, adapted = Job(group, kind, False), Job(group, kind, True)
    for step in range(steps):
        count, rows = shape(step)
        losses = [job.step(step, count or microbatches, rows) for job in (given, adapted)]
        if losses[0] != losses[1] or not torch.equal(given.weights(), adapted.weights()):
            return f"step {step}: losses {losses}"
    if not adapted.engine.adaptation.active:
        return f"not adapted: {adapted.engine.adaptation.why}"
    return "nothing was swapped" if swapped and not adapted.engine.adaptation.swap_ms else ""


def one_forward_one_backward(group):
    return same(group, "OneForwardOneBackward", 16)


def all_forward_all_backward(group):
    return same(group, "AllForwardAllBackward", 16, swapped=False)


def other_shapes_and_other_numbers_of_microbatches(group):
    return same(group, "OneForwardOneBackward", 24, shape=lambda step: (8 if step in (12, 15) else None, 7 if 8 <= step < 11 or step == 14 else 4))


def two_pipelines_of_two_ranks(group):
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    return same(halves[dist.get_rank() // 2], "OneForwardOneBackward", 12, swapped=False)


def an_engine_of_its_own_is_left_alone(group):
    from nanotron.parallel.pipeline_parallel import engine
    engine.OwnPipelineEngine = type("Own", (engine.OneForwardOneBackwardPipelineEngine,), {})
    job = Job(group, "Own", True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        losses = [job.step(step, 6, 4) for step in range(2)]
    said = [str(one.message) for one in caught if "slackline" in str(one.message)]
    return "" if len(said) == 1 and "an order of its own, Own" in said[0] and all(map(bool, losses)) == (job.rank == RANKS - 1) else f"warnings: {said}"


CASES = [one_forward_one_backward, all_forward_all_backward, other_shapes_and_other_numbers_of_microbatches, two_pipelines_of_two_ranks,
         an_engine_of_its_own_is_left_alone]


def main(rank, names):
    faulthandler.dump_traceback_later(380, exit=True)
    torch.set_num_threads(1)
    Held.op = 0.003
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    group = dist.new_group(list(range(RANKS)))
    if rank < 2:
        SlowLink(1 - rank, 0.03)
    for case in CASES:
        if not names or case.__name__ in names:
            wrong = case(group)
            dist.barrier()
            print(json.dumps({"case": case.__name__, "rank": rank, "wrong": wrong}) + "\n", end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    # PyTorch is imported once for all ranks; nanotron, which keeps the isend that it finds, by each when the link is slow
    multiprocessing.start_processes(main, (sys.argv[1:],), nprocs=RANKS, start_method="fork")
