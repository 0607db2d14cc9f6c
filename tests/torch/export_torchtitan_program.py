"""Run by test_export_torchtitan.py: torchtitan reads what `plan --format torchtitan` wrote, rank by rank in one process. Prints what it found."""
import json
import os
import sys
import tomllib
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining.schedules import REDUCE_GRAD, RESHARD, UNSHARD, _simulate_comms_compute
from torch.testing._internal.distributed.fake_pg import FakeStore

sys.modules["torchtitan.distributed.minimal_async_ep.kernels"] = mock.MagicMock()  # Triton's


class Model(torch.nn.Module):
    """With the names of torchtitan's models."""

    def __init__(self, layers):
        super().__init__()
        self.tok_embeddings, self.norm, self.lm_head = (torch.nn.Linear(2, 2) for _ in range(3))
        self.layers = torch.nn.ModuleDict({str(layer): torch.nn.Linear(2, 2) for layer in range(layers)})


def modules_of(model):
    return sorted(f"layers.{name}" for name in model.layers) + sorted(name for name in ("tok_embeddings", "norm", "lm_head") if getattr(model, name) is not None)


def found_in(path):
    from torchtitan.config import ParallelismConfig, TrainingConfig
    from torchtitan.distributed import pipeline_parallel
    with open(path, "rb") as file:
        document = tomllib.load(file)
    parallelism, training = ParallelismConfig(**document["parallelism"]), TrainingConfig(**document["training"])
    parts, ranks = parallelism.module_fqns_per_model_part, parallelism.pipeline_parallel_degree
    layers = sum(name.startswith("layers.") for part in parts for name in part)
    found = {"modules": {}, "order": None, "training": {"local": training.local_batch_size, "global": training.global_batch_size, "sequence": training.seq_len},
             "tensor": parallelism.tensor_parallel_degree, "shard": [parallelism.data_parallel_shard_degree, parallelism.fsdp_reshard_after_forward]}
    for rank in range(ranks):
        dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
        mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("pp",))
        stages, models = pipeline_parallel._pipeline_module_split(Model(layers), mesh, parallelism.pipeline_parallel_schedule, torch.device("cpu"), parts)
        found["modules"].update({stage.stage_index: sorted(modules_of(model)) for stage, model in zip(stages, models)})
        schedule = pipeline_parallel._build_pipeline_schedule(parallelism=parallelism, local_batch_size=training.local_batch_size, stages=stages, loss_fn=lambda *_: None)
        found["order"] = [[str(action) for action in schedule.pipeline_order[one]] for one in range(ranks)]
        # PyTorch's simulator knows ops and messages
        rows = {one: [part for action in row for part in action.sub_actions or (action,) if part.computation_type not in (UNSHARD, RESHARD, REDUCE_GRAD)]
                for one, row in schedule.pipeline_order_with_comms.items()}
        found["simulated"] = len(_simulate_comms_compute(rows, lambda stage: schedule.stage_index_to_group_rank[stage], len(parts)))
        dist.destroy_process_group()
    return found


print(json.dumps({name: found_in(os.path.join(sys.argv[1], name + ".toml")) for name in sys.argv[2:]}))
