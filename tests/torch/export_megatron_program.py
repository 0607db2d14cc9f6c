"""Run by test_export_megatron.py: what megatron-core makes of flags and layouts. Prints it."""
import json
import sys
from types import SimpleNamespace

import torch
from megatron.core.pipeline_parallel import schedules
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

LETTERS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}


def config_of(flags):
    """The fields that Megatron-LM's arguments.py takes from these flags."""
    full = "--recompute-granularity" in flags
    return TransformerConfig(
        num_layers=int(flags["--num-layers"]), hidden_size=8, num_attention_heads=8, pipeline_dtype=torch.float32, mtp_num_layers=int(flags.get("--mtp-num-layers", 0)) or None,
        tensor_model_parallel_size=int(flags["--tensor-model-parallel-size"]), pipeline_model_parallel_size=int(flags["--pipeline-model-parallel-size"]),
        context_parallel_size=int(flags["--context-parallel-size"]), pipeline_model_parallel_layout=flags["--pipeline-model-parallel-layout"],
        microbatch_group_size_per_vp_stage=int(flags.get("--microbatch-group-size-per-virtual-pipeline-stage", flags["--pipeline-model-parallel-size"])),
        recompute_granularity="full" if full else None, recompute_method=flags.get("--recompute-method"), recompute_num_layers=1 if full else None)


def order_of(config, microbatches):
    """As forward_backward_pipelining_with_interleaving and without run their ops."""
    ranks, chunks = config.pipeline_model_parallel_size, config.virtual_pipeline_model_parallel_size
    table = schedules.get_schedule_table(microbatches, chunks or 1, config.microbatch_group_size_per_vp_stage if chunks else 1)
    rows = []
    for rank in range(ranks):
        group = SimpleNamespace(size=lambda: ranks, rank=lambda rank=rank: rank)
        talks = SimpleNamespace(pp_group=group, virtual_pipeline_model_parallel_size=chunks)
        total, _, warmup, remaining = schedules.get_pp_rank_microbatches(microbatches, chunks or 1, config.microbatch_group_size_per_vp_stage, p2p_communicator=talks)
        forwards = [f"{chunk * ranks + rank}F{microbatch}" for microbatch, chunk in table]
        backwards = [f"{((chunks or 1) - 1 - chunk) * ranks + rank}B{microbatch}" for microbatch, chunk in table]
        row = forwards[:warmup]
        for at in range(remaining):
            row += [forwards[warmup + at], backwards[at]]
        rows.append(row + backwards[remaining:total])
    return rows


def letters_of(layout):
    """Per stage, in the order of a microbatch."""
    return ["".join(LETTERS[one.name] for one in layout.layout[rank][chunk])
            for chunk in range(layout.virtual_pipeline_model_parallel_size) for rank in range(layout.pipeline_model_parallel_size)]


def plan(asked):
    config = config_of(asked["flags"])
    letters = letters_of(config.pipeline_model_parallel_layout)
    microbatches = int(asked["flags"]["--global-batch-size"]) // int(asked["flags"]["--micro-batch-size"])
    return {"order": order_of(config, asked["microbatches"]), "decoders": [one.count("t") for one in letters], "letters": "".join(letters), "sequences": microbatches}


def layout(text):
    """Stages without layers are right for megatron-core."""
    found = {"stages": 0, "letters": None}
    try:
        found["stages"] = PipelineParallelLayerLayout.get_num_stages_from_str(text)
        read = PipelineParallelLayerLayout(text, found["stages"])
        read.validate_layer_layout(read.flatten_layout.count(type(read.flatten_layout[0]).decoder), read.flatten_layout.count(type(read.flatten_layout[0]).mtp))
        found["letters"] = letters_of(read)
    except (AssertionError, IndexError) as error:
        found["why"] = str(error)
    return found


def interleaved(shape):
    ranks, chunks, microbatches, group = shape
    return order_of(SimpleNamespace(pipeline_model_parallel_size=ranks, virtual_pipeline_model_parallel_size=chunks, microbatch_group_size_per_vp_stage=group), microbatches)


asked = json.load(open(sys.argv[1]))
print(json.dumps({"plans": {name: plan(one) for name, one in asked.get("plans", {}).items()}, "layouts": [layout(text) for text in asked.get("layouts", [])],
                  "orders": [interleaved(shape) for shape in asked.get("orders", [])]}))
