"""Run by test_torchtitan.py: torchtitan's Trainer as 1F1B with validation, checkpoints, and its default activation checkpointing, over a
link that is always slow: as given for 16 steps; adapted for 12, then resumed from its checkpoint to 16. Prints the losses."""
import json
import os
import sys
import tempfile
from types import SimpleNamespace

import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from slow_link import SlowLink
from torchtitan_adapt import build, configuration

RANKS, STEPS, SAVED = 2, 16, 12


def configured(options, folder):
    config = configuration(options, folder)
    config.activation_checkpoint = type(options).selective()
    config.validator.enable, config.validator.freq, config.validator.steps = True, 4, 1
    config.checkpoint.enable, config.checkpoint.interval = True, SAVED
    config.checkpoint.folder = os.path.join(os.path.dirname(folder), "checkpoint")
    return config


class Options(SimpleNamespace):
    @staticmethod
    def selective():
        from torchtitan.distributed.activation_checkpoint import SelectiveAC
        return SelectiveAC.Config()


def run(rank, options, folder, adapt, until):
    """Losses of the steps, and of the validations, and the state of the adaptation."""
    trainer = build(rank, options, folder, adapt)
    link = SlowLink(1 - rank, 0.15) if rank < 2 else None
    losses, validated, processor = [], [], trainer.metrics_processor
    log = processor.log
    processor.log = lambda step, loss, *rest, **more: (losses.append(loss), log(step, loss, *rest, **more))
    processor.log_validation = lambda loss, step: validated.append(loss)
    trainer.should_continue_training = lambda: trainer.step < until
    trainer.train()
    swaps = len(trainer.adaptation.swap_ms) if adapt else 0
    active = bool(adapt) and trainer.adaptation.active
    trainer.close()
    dist.destroy_process_group()
    if link:
        dist.isend = dist.distributed_c10d.isend = link.send
    return losses, validated, swaps, active


def main(rank, folder, results):
    options = Options(ranks=RANKS, microbatches=6, steps=STEPS, schedule="1F1B", configuration=configured, port=29545)
    os.makedirs(os.path.join(folder, "a"), exist_ok=True)
    given = run(rank, options, os.path.join(folder, "a"), 0, STEPS)
    options.port += 2
    os.makedirs(os.path.join(folder, "b"), exist_ok=True)
    first = run(rank, options, os.path.join(folder, "b"), 1, SAVED)
    options.port += 2
    second = run(rank, options, os.path.join(folder, "b"), 1, STEPS)
    if rank == RANKS - 1:
        results.put({"given": given[0], "adapted": first[0], "resumed": second[0], "validated": given[1], "validated_adapted": first[1] + second[1],
                     "swaps": first[2] + second[2], "active": first[3] and second[3]})


if __name__ == "__main__":
    results = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(main, (folder, results), nprocs=RANKS)
    print(json.dumps(results.get()))
    sys.exit(0)
