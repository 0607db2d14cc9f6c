"""Run by test_primus.py: the handlers and the runner of a checkout of Primus (PRIMUS, in its Python path) run tables of plans on ranks over Gloo, with
megatron-core's forward and backward on CPUs. What Primus' launcher adds to the nodes is added here, because the launcher needs all of Megatron-LM.
Prints, per case and rank, what is wrong with the gradients of two steps on one table."""
import faulthandler
import json
import os
import sys
import types
from unittest import mock

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from forked_ranks import free_port

RANKS, WIDTH, ROWS = 4, 8, 3
SETTINGS = types.SimpleNamespace(overlap_moe_expert_parallel_comm=False, dump_pp_data=False, communication_method="async_p2p")
PRIMUS = "primus.core.pipeline_parallel"


def stand_in():
    """For what Primus' handlers import of Megatron-LM and CUDA, and do not need here."""
    for name in ("megatron.training", "megatron.training.global_vars"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].get_args = lambda: SETTINGS
    for name in ("primus.backends.megatron.core.pipeline_parallel.pp_visualizer", PRIMUS + ".handler.offload_handler"):
        sys.modules[name] = mock.MagicMock()
    torch.cuda.current_device, torch.cuda.synchronize = lambda: torch.device("cpu"), lambda *_: None


class Deferred(torch.autograd.Function):
    """A product whose weight gradient is left to the W of Primus' table."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(context, gradient):
        from primus.core.pipeline_parallel.handler.wgrad_handler import WGRAD_RUNNING_CACHE
        x, weight = context.saved_tensors

        def add():
            found = x.flatten(0, -2).T @ gradient.flatten(0, -2)
            weight.grad = found if weight.grad is None else weight.grad + found
        WGRAD_RUNNING_CACHE.append(add)
        return gradient @ weight.T, None


class Chunk(torch.nn.Module):
    """A stage as megatron-core wants it."""

    def __init__(self, config, stage, chunk):
        super().__init__()
        torch.manual_seed(stage)
        self.weight = torch.nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.float64) / WIDTH)
        self.config, self.vp_stage, self.model_type, self.given = config, chunk, None, None

    def set_input_tensor(self, tensor):
        self.given = tensor[0] if isinstance(tensor, list) else tensor

    def forward(self, x):
        return torch.tanh(Deferred.apply(x if self.given is None else self.given, self.weight))


def forward_step(data, model):
    x, target = next(data)
    return model(x), lambda output: ((loss := torch.nn.functional.mse_loss(output, target)), {"loss": loss.detach()})


def prepared(row, group, config, chunks, batch, last, stores):
    """As PrimusPipelineParallelLauncher.run prepares the nodes of a rank before each step."""
    shapes = [(ROWS, 1, WIDTH)]
    kinds = type(row[0].func_type)
    for node in row:
        node.args = node.args if node.args is not None else {}
        node.meta = {"pp_size": group.size(), "vpp_size": len(chunks), "last_pp_stage_rank": last, "pp_rank": group.rank()}
        node.args["config"] = config
        if node.func_type == kinds.F:
            node.args.update(forward_step_func=forward_step, data_iterator=batch, models=chunks, num_microbatches=stores[1], forward_data_store=stores[0],
                             cp_group_size=1, collect_non_loss_data=False, is_last_stage=group.rank() == last, total_num_tokens=torch.zeros([], dtype=torch.int),
                             recv_tensor_shapes=shapes)
        elif node.func_type in (kinds.B, kinds.BW):
            node.args.update(model_type=None, send_tensor_shapes=shapes)
        elif node.func_type in (kinds.RF, kinds.RB):
            node.args.update(recv_tensor_shapes=shapes, dtype=torch.float64, pp_group=group)
        elif node.func_type in (kinds.SF, kinds.SB):
            node.args.update(send_tensor_shapes=shapes, pp_group=group)


def batches(step, microbatches):
    draw = torch.Generator().manual_seed(step)
    return [tuple(torch.randn(ROWS, 1, WIDTH, dtype=torch.float64, generator=draw) for _ in range(2)) for _ in range(microbatches)]


def whole(stages, step, microbatches):
    """The gradients of the model in one piece."""
    chunks = [Chunk(None, stage, 0) for stage in range(stages)]
    loss = torch.zeros((), dtype=torch.float64)
    for x, target in batches(step, microbatches):
        for chunk in chunks:
            x = torch.tanh(x @ chunk.weight)
        loss = loss + torch.nn.functional.mse_loss(x, target) / microbatches
    loss.backward()
    return [chunk.weight.grad for chunk in chunks]


def wrong(plan, group):
    from importlib import import_module

    from megatron.core.transformer import TransformerConfig
    handlers = import_module("primus.backends.megatron.core.pipeline_parallel.primuspipe.handlers")
    rank, config = group.rank(), TransformerConfig(num_layers=plan.stages, hidden_size=WIDTH, num_attention_heads=1, pipeline_dtype=torch.float64)
    rank_of = {op.stage: op.rank for op in plan.ops}
    mine = sorted(stage for stage, at in rank_of.items() if at == rank)
    chunks = [Chunk(config, stage, at) for at, stage in enumerate(mine)]
    table, runner = plan.primus_table(), import_module(PRIMUS + ".scheduler.scheduler").ScheduleRunner(handlers.megatron_primuspipe_handler_dict)
    for step in range(2):
        for chunk in chunks:
            chunk.weight.grad = None
        getattr(handlers.communication_handler, "reset_pp_comm_caches", lambda: None)()  # as the launcher does
        store = []
        prepared(table[rank], group, config, chunks, [iter(batches(step, plan.microbatches)) for _ in chunks], rank_of[plan.stages - 1], (store, plan.microbatches))
        runner.run(table, rank)
        dist.barrier(group)
        for stage, chunk in zip(mine, chunks):
            wanted = whole(plan.stages, step, plan.microbatches)[stage]
            if chunk.weight.grad is None or not torch.allclose(chunk.weight.grad, wanted, rtol=1e-12, atol=1e-15):
                return f"step {step}: the gradient of stage {stage} differs"
        if not import_module(PRIMUS + ".handler.wgrad_handler").WGradRunningCache.is_empty():
            return f"step {step}: weight gradients are left"
        if (rank == rank_of[plan.stages - 1]) != (len(store) == plan.microbatches):
            return f"step {step}: {len(store)} losses"
    return ""


def case(ranks, microbatches, placement, family, latency=0):
    shape = {"ranks": ranks, "microbatches": microbatches, "placement": placement, "times_ms": {"F": 3, "I": 4, "W": 2},
             "links": {"list": [{"between": [0, 1], "latency_ms": latency}]}}
    return f"{family}, {placement}, {ranks} ranks", ranks, slackline.plan({"pipeline": shape}, family)


def main(rank, cases):
    faulthandler.dump_traceback_later(100, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    stand_in()
    for name, ranks, plan in cases:
        group = dist.new_group(list(range(ranks)))
        if rank < ranks:
            print(json.dumps({"case": name, "rank": rank, "wrong": wrong(plan, group)}) + "\n", end="", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    cases = [case(2, 5, "linear", "1f1b"), case(4, 9, "linear", "zb-h1"), case(4, 12, "linear", "adaptra", 20), case(3, 7, "linear", "gpipe"),
             case(4, 8, "loop", "interleaved-1f1b"), case(2, 6, "loop", "interleaved-1f1b"), case(4, 8, "wave", "zb-v"), case(2, 5, "wave", "zb-v")]
    multiprocessing.start_processes(main, (cases,), nprocs=RANKS, start_method="fork")
