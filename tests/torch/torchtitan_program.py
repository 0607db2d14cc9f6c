"""Run by test_torchtitan.py: torchtitan's Trainer with validation, checkpoints of activations, and checkpoints of the job, over a link that is slow all the
time. Three jobs on the same batches: one whose ranks do not agree to adapt, so that it trains as given; an adapted one, which stops after 12 steps; and
its continuation from its checkpoint to step 16. Prints the losses."""
import json
import os
import sys
import tempfile
import warnings

import slackline
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from forked_ranks import free_port
from slow_link import PacedStage, SlowLink
import torchtitan_stand_in  # noqa: F401  once for all ranks

RANKS, STEPS, SAVED = 2, 16, 12


def configuration(folder):
    from torchtitan.distributed.activation_checkpoint import SelectiveAC
    from torchtitan.models.llama3.config_registry import llama3_debugmodel
    config = llama3_debugmodel()
    config.activation_checkpoint = SelectiveAC.Config()
    config.training.local_batch_size, config.training.seq_len, config.training.steps = 6, 16, STEPS
    config.parallelism.pipeline_parallel_degree, config.parallelism.pipeline_parallel_schedule = RANKS, "1F1B"
    config.validator.enable, config.validator.freq, config.validator.steps = True, 4, 1
    config.checkpoint.enable, config.checkpoint.interval, config.checkpoint.folder = True, SAVED, folder
    return config


def run(rank, port, folder, until, agree=True):
    """Losses of the steps, and of the validations, and the state of the adaptation."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        trainer = slackline.adapt(configuration(folder).build(), memory="free" if agree else 2.0 ** (30 + rank))
    said = [str(one.message) for one in caught if "slackline" in str(one.message)]
    link = SlowLink(1 - rank, 0.06)
    losses, validated, processor = [], [], trainer.metrics_processor
    log = processor.log
    processor.log = lambda step, loss, *rest, **more: (losses.append(loss), log(step, loss, *rest, **more))
    processor.log_validation = lambda loss, step: validated.append(loss)
    trainer.should_continue_training = lambda: trainer.step < until
    trainer.train()
    swaps, active = len(trainer.adaptation.swap_ms), trainer.adaptation.active
    trainer.close()
    dist.destroy_process_group()
    dist.isend = dist.distributed_c10d.isend = link.send
    return losses, validated, swaps, active, said


def main(rank, folder, ports, results):
    given = run(rank, ports[0], os.path.join(folder, "a"), STEPS, agree=False)
    first = run(rank, ports[1], os.path.join(folder, "b"), SAVED)
    second = run(rank, ports[2], os.path.join(folder, "b"), STEPS)
    if rank == RANKS - 1:
        results.put({"given": given[0], "adapted": first[0], "resumed": second[0], "validated": given[1], "validated_adapted": first[1] + second[1],
                     "swaps": first[2] + second[2], "active": first[3] and second[3], "given_active": given[3], "said": given[4]})


if __name__ == "__main__":
    PacedStage.op = 0.01
    results = multiprocessing.get_context("fork").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(main, (folder, [free_port() for _ in range(3)], results), nprocs=RANKS, start_method="fork")
    print(json.dumps(results.get()))
    sys.exit(0)
