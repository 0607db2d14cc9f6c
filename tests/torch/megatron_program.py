"""Run by test_megatron.py: megatron-core's interleaved schedule on three ranks with two virtual stages each, as given and adapted, on the same
batches. The link between ranks 0 and 1 is slow in some steps. Prints what rank 0 found.

megatron-core computes on CUDA devices only. Here `Faked` puts every tensor that it asks for there on the CPU, and its calls of
torch.cuda do nothing: what runs is its schedule, over Gloo."""
import argparse
import faulthandler
import json
import os
import time

import slackline
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from forked_ranks import free_port
from slow_link import Held, SlowLink
from torch.overrides import TorchFunctionMode

RANKS, CHUNKS, MICROBATCHES, WIDTH = 3, 2, 9, 16


class Faked(TorchFunctionMode):
    """The CPU in place of a CUDA device."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = dict(options or {})
        if str(options.get("device", "")).startswith("cuda"):
            options["device"] = "cpu"
        return function(*arguments, **options)

    @staticmethod
    def install():
        torch.cuda.current_device, torch.cuda.synchronize = lambda: torch.device("cpu"), lambda *_: None
        Faked().__enter__()


class Chunk(torch.nn.Module):
    """A virtual stage as megatron-core wants it."""

    def __init__(self, config, stage):
        super().__init__()
        torch.manual_seed(stage)
        self.config, self.stage, self.given = config, stage, None
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())
        self.model_type, self.vp_stage = None, stage // RANKS

    def set_input_tensor(self, tensor):
        self.given = tensor[0]

    def forward(self, x):
        return Held.apply(self.layers(x if self.given is None else self.given))


class Job:
    def __init__(self, adapt, **options):
        from megatron.core.transformer import TransformerConfig
        self.config = TransformerConfig(num_layers=RANKS * CHUNKS, hidden_size=WIDTH, num_attention_heads=2, pipeline_model_parallel_size=RANKS,
                                        virtual_pipeline_model_parallel_size=CHUNKS, pipeline_dtype=torch.float32)
        if adapt:
            slackline.adapt(self.config, **options)
        self.chunks = [Chunk(self.config, dist.get_rank() + RANKS * chunk) for chunk in range(CHUNKS)]
        self.optimizer = torch.optim.SGD([one for chunk in self.chunks for one in chunk.parameters()], lr=0.1)

    @staticmethod
    def forward_step(data, model):
        x, target = next(data)
        return model(x), lambda output: ((loss := torch.nn.functional.mse_loss(output, target)), {"loss": loss.detach()})

    def step(self, number, microbatches=MICROBATCHES, forward_only=False):
        from megatron.core.pipeline_parallel import get_forward_backward_func
        draw = torch.Generator().manual_seed(number)
        batch = [(torch.randn(4, 2, WIDTH, generator=draw), torch.randn(4, 2, WIDTH, generator=draw)) for _ in range(microbatches)]
        found = get_forward_backward_func()(forward_step_func=self.forward_step, data_iterator=[iter(batch) for _ in self.chunks], model=self.chunks,
                                            num_microbatches=microbatches, seq_length=4, micro_batch_size=2, forward_only=forward_only)
        if not forward_only:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return [one["loss"].item() for one in found]

    def weights(self):
        return torch.cat([one.detach().flatten() for chunk in self.chunks for one in chunk.parameters()])


def trained(options, link, adapt):
    """Per step: losses, seconds, and the number that ran; and the weights at the end. As given, losses are all that is asked for."""
    job, steps = Job(adapt), []
    Held.op = 0.006 if adapt else 0.0
    for step in range(options.steps):
        if link and adapt:
            link.delay = 0.05 if options.onset <= step < options.relief else 0.0
        dist.barrier()
        began = time.monotonic()
        losses = job.step(step)
        steps.append((losses, time.monotonic() - began, job.config.microbatch_group_size_per_vp_stage))
        if step == options.steps // 2:
            steps[-1][0].append(job.step(step, forward_only=True))
    return steps, job


def main(rank, options, results):
    faulthandler.dump_traceback_later(380, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    Faked.install()
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel(pipeline_model_parallel_size=RANKS, virtual_pipeline_model_parallel_size=CHUNKS)
    link = SlowLink(1 - rank, 0.0) if rank < 2 else None
    (given, first), (adapted, second) = (trained(options, link, adapt) for adapt in (False, True))
    same = [one[0] for one in given] == [one[0] for one in adapted] and torch.equal(first.weights(), second.weights())
    few = Job(True, memory="same")
    for step in range(6):
        few.step(step, microbatches=6 if step == 4 else MICROBATCHES)
    results.put((rank, {"same": same, "active": second.config.adaptation.active, "adapted": [one[1:] for one in adapted],
                        "events": [(one.step, one.kind, one.text) for one in second.config.adaptation.events],
                        "few": len(few.config.adaptation.swap_ms)}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--onset", type=int, default=36)
    parser.add_argument("--relief", type=int, default=1000)
    options = parser.parse_args()
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    import megatron.core.pipeline_parallel  # noqa: F401  once for all ranks
    results = multiprocessing.get_context("fork").SimpleQueue()
    multiprocessing.start_processes(main, (options, results), nprocs=RANKS, start_method="fork")
    print(json.dumps([one for _, one in sorted(results.get() for _ in range(RANKS))]))
