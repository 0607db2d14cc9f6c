# SPDX-License-Identifier: Apache-2.0
"""Torchtitan's Trainer with its Llama debug model over a link that becomes slow: with the schedule as given, and with slackline.adapt.

One process per pipeline rank, on CPUs over Gloo. torchtitan 0.3.0 expects GPUs and a PyTorch later than 2.13; `on_cpu` and
`takes_lists` close the gap, and SDPA replaces flex attention. On GPUs, only the line with slackline.adapt remains.

    python3 -m venv env && env/bin/pip install torch==2.13.0 torchtitan==0.3.0 ./python
    $ SLACKLINE_LIBRARY=build/libslackline.so env/bin/python examples/python/torchtitan_adapt.py
    > Interleaved1F1B as given ... ms per step over the slow link
    > Interleaved1F1B, adapted ... ms per step over the slow link, ... changes of order
    > losses of 40 steps at most ... apart

Times are medians. The order changes while the job runs. Losses differ only by rounding, if backwards are split (f32, about 8).
"""
import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from types import SimpleNamespace
from unittest import mock

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from slow_link import SlowLink

# ---- torchtitan on a CPU, with PyTorch 2.13 --------------------------------------------------------------------------------


def on_cpu():
    """Makes torchtitan use the CPU, without its Triton kernels, which only some GPU jobs run."""
    sys.modules["torchtitan.distributed.minimal_async_ep.kernels"] = mock.MagicMock()
    from torchtitan.tools import utils
    nothing = dict.fromkeys(("set_device", "reset_peak_memory_stats", "empty_cache", "synchronize"), lambda *_: None)
    utils.device_type, utils.device_module = "cpu", SimpleNamespace(
        **nothing, current_device=lambda: 0, device_count=lambda: 1, get_device_name=lambda _: "cpu", memory_stats=lambda _: {},
        get_device_properties=lambda _: SimpleNamespace(total_memory=1))
    dist.set_timeout = lambda *_: None  # of a later PyTorch


def takes_lists(schedule):
    """torchtitan gives lists of microbatches to `step`, as a later PyTorch accepts; an adapted schedule accepts them, too."""
    step, run = schedule.step, schedule._step_microbatches

    def listed(*, arg_mbs=None, kwarg_mbs=None, target_mbs=None, **options):
        schedule._step_microbatches = lambda a, k, t, *rest, **more: run(arg_mbs, kwarg_mbs, target_mbs, *rest, **more)
        return step(**options)
    schedule.step = listed


def configuration(options, folder):
    """torchtitan's llama3_debugmodel as a pipeline, with a tokenizer and a text made here."""
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from torchtitan.hf_datasets import DatasetConfig, text_datasets
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.llama3.config_registry import llama3_debugmodel
    words = [f"w{number}" for number in range(500)]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    draw = torch.Generator().manual_seed(3)
    text = [" ".join(words[at] for at in torch.randint(0, 500, (1000,), generator=draw)) for _ in range(50)]
    for name in ("c4_test", "c4_validation"):
        text_datasets.DATASETS[name] = DatasetConfig(path="", loader=lambda _: Dataset.from_dict({"text": text}), sample_processor=lambda one: one["text"])
    config = llama3_debugmodel()
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.hf_assets_path = config.dump_folder = folder
    config.training.disable_cuda_graphs, config.training.mixed_precision_param, config.activation_checkpoint = True, "float32", None
    config.training.local_batch_size, config.training.seq_len, config.training.steps = options.microbatches, 32, options.steps
    config.parallelism.pipeline_parallel_degree, config.parallelism.pipeline_parallel_schedule = options.ranks, options.schedule
    config.debug.seed, config.debug.enable_structured_logging = 1, False
    return config


# ---- one rank --------------------------------------------------------------------------------------------------------------


def build(rank, options, folder, adapt):
    """A Trainer, adapted or not."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port + adapt))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    on_cpu()
    own = os.path.join(folder, f"{adapt}{rank}")
    os.makedirs(own, exist_ok=True)
    trainer = options.configuration(options, own).build()
    if adapt:
        slackline.adapt(trainer)
    else:
        takes_lists(trainer.pp_schedule)
    return trainer


def rank_main(rank, options, folder, adapt, results):
    trainer = build(rank, options, folder, adapt)
    link = SlowLink(1 - rank, 0.0) if rank < 2 else None
    times, losses, log, train_step = [], [], trainer.metrics_processor.log, trainer.train_step

    def timed_step(data):
        if link:
            link.delay = options.delay_ms / 1e3 if trainer.step > options.onset else 0.0
        dist.barrier()
        began = time.monotonic()
        train_step(data)
        times.append((time.monotonic() - began) * 1e3)
    trainer.train_step = timed_step
    trainer.metrics_processor.log = lambda step, loss, *rest, **more: (losses.append(loss), log(step, loss, *rest, **more))
    trainer.train()
    results.put((rank, times, losses, len(trainer.adaptation.swap_ms) if adapt else 0))
    trainer.close()
    dist.destroy_process_group()


# ---- all of them -----------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--schedule", default="Interleaved1F1B")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--onset", type=int, default=18, help="step from which the link between ranks 0 and 1 is slow")
    parser.add_argument("--delay-ms", type=float, default=150)
    parser.add_argument("--port", type=int, default=29531)
    options = parser.parse_args()
    options.configuration = configuration
    runs = []
    for adapt, name in ((0, "as given"), (1, ", adapted")):
        results = multiprocessing.get_context("spawn").SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            multiprocessing.spawn(rank_main, (options, folder, adapt, results), nprocs=options.ranks)
        found = sorted(results.get() for _ in range(options.ranks))
        _, times, _, swaps = found[0]
        runs.append(found[-1][2])  # the last rank has the losses
        print(f"{options.schedule} {name}: {statistics.median(times[options.onset // 2:options.onset] or times):.0f} ms per step, "
              f"{statistics.median(times[-8:]):.0f} ms per step over the slow link" + (f", {swaps} changes of order" if adapt else ""), flush=True)
    apart = max(abs(a - b) for a, b in zip(*runs))
    print(f"losses of {len(runs[0])} steps at most {apart:.1e} apart")
    return 0 if apart < 1e-3 and len(runs[0]) == options.steps else 1


if __name__ == "__main__":
    sys.exit(main())
