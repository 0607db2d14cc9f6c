"""Run by test_deepspeed.py: engines of DeepSpeed in several shapes on four ranks, each beside one that is not adapted and trains on the same
batches. The link between ranks 0 and 1 is slow all the time, so that the adapted engine changes its order. Prints what is wrong."""
import faulthandler
import json
import os
import sys
import tempfile
import warnings

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from deepspeed_adapt import batches
from forked_ranks import free_port
from slow_link import WIDTH, Held, SlowLink, layer

RANKS = 4


class Layer(torch.nn.Module):
    def __init__(self, stage):
        super().__init__()
        self.layers = layer(stage).float()

    def forward(self, x):
        return Held.apply(self.layers(x))


class Twice(torch.nn.Module):
    """Two tensors from each stage to the next."""

    def __init__(self, stage):
        super().__init__()
        self.layer, self.other = Layer(stage), Layer(50 + stage)

    def forward(self, given):
        x, kept = given if isinstance(given, tuple) else (given, given)
        return self.layer(x), self.other(kept) + x


def loss_of(output, target):
    return torch.nn.functional.mse_loss(sum(output) if isinstance(output, tuple) else output, target)


def engine_of(stages, microbatches, layer=Layer, each=1, **config):
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule
    model = PipelineModule([LayerSpec(layer, stage) for stage in range(stages * each)], num_stages=stages, loss_fn=loss_of, partition_method="uniform",
                           activation_checkpoint_interval=config.pop("recompute", 0))
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config={
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": microbatches, "steps_per_print": 10 ** 6, **config})
    return engine


def weights(engine):
    return torch.cat([parameter.detach().float().flatten() for parameter in engine.module.parameters()])


def same(given, adapted, steps, microbatches, swapped=True, between=lambda engine, step: None):
    """What differs between the two engines."""
    if not adapted.adaptation.active:
        return f"not adapted: {adapted.adaptation.why}"
    data = [batches(), batches()]
    for step in range(steps):
        losses = []
        for engine, own in zip((given, adapted), data):
            losses.append((engine.train_batch(own).item(), between(engine, step)))
        if losses[0] != losses[1] or not torch.equal(weights(given), weights(adapted)):
            return f"step {step}: losses {losses}"
    if not adapted.adaptation.active:
        return "it gave up"
    return "nothing was swapped" if swapped and not adapted.adaptation.swap_ms else ""


def four_stages_evaluated_and_with_other_batches():
    def between(engine, step):
        if step in (8, 10):
            engine.set_train_batch_size(4 * (3 if step == 8 else 6))
        return engine.eval_batch(batches()).item() if step % 5 == 0 else None
    return same(engine_of(4, 6), slackline.adapt(engine_of(4, 6)), 20, 6, between=between)


def two_tensors_between_stages():
    return same(engine_of(4, 6, Twice), slackline.adapt(engine_of(4, 6, Twice)), 14, 6)


def two_replicas_with_recomputation_and_zero_1():
    config = {"each": 2, "recompute": 1, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": True}
    return same(engine_of(2, 6, **config), slackline.adapt(engine_of(2, 6, **config)), 14, 6, swapped=False)


def fewer_microbatches_than_stages():
    return same(engine_of(4, 2), slackline.adapt(engine_of(4, 2)), 10, 2, swapped=False)


def a_checkpoint_is_resumed():
    first, given, folder = slackline.adapt(engine_of(4, 6)), engine_of(4, 6), [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folder)
    wrong = same(given, first, 12, 6)
    first.save_checkpoint(folder[0])
    second = slackline.adapt(engine_of(4, 6))
    second.load_checkpoint(folder[0])
    return wrong or same(given, second, 12, 6)


def a_schedule_of_its_own_is_left_alone():
    engine = engine_of(4, 6)
    made = engine._train_schedule()
    engine._train_schedule = lambda: type("Own", (type(made),), {})(6, 4, engine.stage_id)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        slackline.adapt(engine)
    engine.train_batch(batches())
    said = [str(one.message) for one in caught if "slackline" in str(one.message)]
    return "" if len(said) == 1 and "a schedule of its own, Own" in said[0] and "Own" in engine.adaptation.why else f"warnings: {said}"


CASES = [four_stages_evaluated_and_with_other_batches, two_tensors_between_stages, two_replicas_with_recomputation_and_zero_1, fewer_microbatches_than_stages,
         a_checkpoint_is_resumed, a_schedule_of_its_own_is_left_alone]


def main(rank, names):
    faulthandler.dump_traceback_later(380, exit=True)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS))
    torch.set_num_threads(1)
    Held.op = 0.003
    import deepspeed
    deepspeed.ops.__compatible_ops__.clear()  # compiles nothing
    deepspeed.init_distributed("gloo", verbose=False)
    if rank < 2:
        SlowLink(1 - rank, 0.03)  # of isend, which DeepSpeed itself does not call
    for case in CASES:
        if not names or case.__name__ in names:
            wrong = case()
            dist.barrier()
            print(json.dumps({"case": case.__name__, "rank": rank, "wrong": wrong}) + "\n", end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    import deepspeed  # noqa: F401  once for all ranks
    multiprocessing.start_processes(main, (sys.argv[1:],), nprocs=RANKS, start_method="fork")
