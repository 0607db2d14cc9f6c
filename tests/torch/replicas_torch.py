"""What the tests of slackline.adapt with replicas share: a pipeline in several replicas, next to the same model in one piece."""
from adapt_torch import Paced, STAGES, made

import torch
import torch.distributed as dist
from slow_link import layer
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

ROWS, WIDTH = 2, 16
OP_S = 0.004


class Job:
    """A pipeline of `ranks` ranks in two replicas, on 2 * `ranks` processes, and the same model trained on all samples in one piece."""

    def __init__(self, kind, placement, ranks, microbatches, sums, replicas=2):
        me = dist.get_rank()
        self.replica, self.rank, self.microbatches, self.sums = me // ranks, me % ranks, microbatches, sums
        self.total = microbatches * replicas
        pipelines = [dist.new_group([replica * ranks + rank for rank in range(ranks)]) for replica in range(replicas)]
        copies = [dist.new_group([replica * ranks + rank for replica in range(replicas)]) for rank in range(ranks)]
        self.pipeline, self.copies = pipelines[self.replica], copies[self.rank]
        mine = STAGES[placement](self.rank, ranks) if ranks > 1 else [0]
        count = ranks * len(mine)
        Paced.op = OP_S
        self.stages = [Paced(self.wrapped(layer(index)), index, count, torch.device("cpu"), group=self.pipeline) for index in mine]
        self.schedule = made(kind, self.stages, microbatches)
        self.whole = torch.nn.Sequential(*[layer(index) for index in range(count)])

    def wrapped(self, module):
        if self.sums == "ddp":
            return DistributedDataParallel(module, process_group=self.copies)
        if self.sums == "fsdp":
            return fully_shard(module, mesh=DeviceMesh.from_group(self.copies, "cpu"))
        return module

    def step(self, step):
        """What is wrong with a step, or ""."""
        split, replica = self.schedule.split, self.replica
        if sum(split) != self.total or split[replica] != self.schedule.microbatches or self.schedule.replica != replica:
            return f"step {step}: split {split}, {self.schedule.microbatches} microbatches on replica {self.schedule.replica}"
        draw = torch.Generator().manual_seed(step)
        x, y = (torch.randn(self.total * ROWS, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))
        mine = slice(sum(split[:replica]) * ROWS, sum(split[:replica + 1]) * ROWS)
        first, last = any(stage.is_first for stage in self.stages), any(stage.is_last for stage in self.stages)
        for stage in self.stages:
            stage.submod.zero_grad()
        losses = []
        self.schedule.step(*((x[mine],) if first else ()), target=y[mine] if last else None, losses=losses)
        if self.sums == "hand":
            for stage in self.stages:
                for parameter in stage.submod.parameters():
                    dist.all_reduce(parameter.grad, group=self.copies)
                    parameter.grad /= len(split)
        return self.compared(step, split, x, y, losses if last else None)

    def compared(self, step, split, x, y, losses):
        self.whole.zero_grad()
        parts = [torch.nn.functional.mse_loss(self.whole(part), target) for part, target in zip(x.chunk(self.total), y.chunk(self.total))]
        torch.stack(parts).mean().backward()
        before = sum(split[:self.replica])
        if losses is not None and not torch.allclose(torch.stack(losses), torch.stack(parts[before:before + split[self.replica]]), rtol=1e-12, atol=0):
            return f"step {step}: losses {losses}"
        for stage in self.stages:
            for mine, wanted in zip(stage.submod.parameters(), self.whole[stage.stage_index].parameters()):
                found = mine.grad.full_tensor() if self.sums == "fsdp" else mine.grad
                if not torch.allclose(found, wanted.grad, rtol=1e-9, atol=1e-15):
                    return f"step {step}: split {split}, gradients of stage {stage.stage_index} differ: {(found / wanted.grad).mean()}"
        return ""


def alike(job, ran):
    """Whether the ranks ran the same splits, and those of a replica the same orders."""
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (job.replica, ran))
    splits = {tuple(split for split, _ in one) for _, one in everyone}
    orders = {(replica, tuple(text for _, text in one)) for replica, one in everyone}
    return "" if len(splits) == 1 and len(orders) == len({replica for replica, _ in everyone}) else f"ranks differ: {splits}"


def given_of(job, replicas):
    return {"group": job.copies, "mesh": DeviceMesh.from_group(job.copies, "cpu"), None: None, False: False}[replicas]


def is_known(job):
    """Whether the first rank has measured the healthy job; the same on all ranks."""
    leader = job.schedule._agent.leader
    known = torch.tensor(int(leader is not None and leader.decider.orchestrator is not None))
    dist.broadcast(known, 0)
    return bool(known)


def happened(job):
    return [(one.step, one.kind, one.text[:60]) for one in job.schedule.adaptation.events]


def evaluated(job, step):
    """An evaluation takes the given number of microbatches."""
    x = torch.full((job.microbatches * ROWS, WIDTH), 0.25, dtype=torch.float64)
    first, last = any(stage.is_first for stage in job.stages), any(stage.is_last for stage in job.stages)
    with torch.no_grad():
        found = job.schedule.eval(*((x,) if first else ()), target=x if last else None, losses=[])
        return "" if not last or torch.allclose(found, job.whole(x)) else f"step {step}: eval differs"
