"""torchrun torchtitan_cpu.py PROGRAM [ARGUMENTS]: runs a program of torchtitan 0.3.0 on CPUs over Gloo, with PyTorch 2.13. It stands in for the
GPU that torchtitan expects, for its Triton kernels, for flex attention (by SDPA), and for the tokenizer and text that the debug model reads. Each
op does its arithmetic and is then held to OP_MS, a full backward to twice that, so that a few cores behave like a cluster."""
import os
import runpy
import sys
import tempfile
import warnings
from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed as dist
from slow_link import PacedStage

OP_MS = 25

def stand_in():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    sys.modules["torchtitan.distributed.minimal_async_ep.kernels"] = mock.MagicMock()
    from torchtitan.tools import utils
    nothing = dict.fromkeys(("set_device", "reset_peak_memory_stats", "empty_cache", "synchronize"), lambda *_: None)
    utils.device_type, utils.device_module = "cpu", SimpleNamespace(
        **nothing, current_device=lambda: 0, device_count=lambda: 1, get_device_name=lambda _: "cpu", memory_stats=lambda _: {},
        get_device_properties=lambda _: SimpleNamespace(total_memory=1))
    from torchtitan.distributed import pipeline_parallel
    pipeline_parallel.PipelineStage, PacedStage.op = PacedStage, OP_MS / 1e3
    dist.set_timeout = lambda *_: None  # of a later PyTorch
    from torchtitan.models.llama3 import config_registry
    given = config_registry.llama3_debugmodel
    config_registry.llama3_debugmodel = lambda: on_cpu(given(), tempfile.mkdtemp())


def on_cpu(config, folder):
    """The configuration, with a tokenizer and a text made in a folder."""
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from torchtitan.hf_datasets import DatasetConfig, text_datasets
    from torchtitan.models.common.attention import ScaledDotProductAttention
    words = [f"w{number}" for number in range(500)]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    draw = torch.Generator().manual_seed(3)
    text = [" ".join(words[at] for at in torch.randint(0, 500, (1000,), generator=draw)) for _ in range(50)]
    for name in ("c4_test", "c4_validation"):
        text_datasets.DATASETS[name] = DatasetConfig(path="", loader=lambda _: Dataset.from_dict({"text": text}), sample_processor=lambda one: one["text"])
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.hf_assets_path = config.dump_folder = folder
    config.training.disable_cuda_graphs, config.training.mixed_precision_param = True, "float32"
    config.debug.seed, config.debug.enable_structured_logging = 1, False
    return config


if __name__ == "__main__":
    stand_in()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
