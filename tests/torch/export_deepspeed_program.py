"""Run by test_export_deepspeed.py: instructions that `plan --format deepspeed` wrote, as DeepSpeed's, checked by the rules of its engine, and run by
engines on four ranks next to ones with its own schedule. Prints what is wrong."""
import json
import os
import sys
from collections import defaultdict

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from deepspeed.pipe import LayerSpec, PipelineModule
from deepspeed.runtime.pipe import schedule as instructions
from forked_ranks import free_port

RANKS, MICROBATCHES, WIDTH = 4, 6, 8


class Planned(instructions.PipeSchedule):
    """A schedule as docs/howto/export.md shows it."""

    def __init__(self, plan, stage):
        super().__init__(plan["config"]["gradient_accumulation_steps"], plan["topology"]["pipe"], stage)
        self.plan = plan

    def num_pipe_buffers(self):
        return self.plan["buffers"][self.stage_id]

    def steps(self):
        for step in self.plan["stages"][self.stage_id]:
            yield [getattr(instructions, name)(*buffer) for name, *buffer in step]


class Cut(PipelineModule):
    """Layers on stages as the plan says."""
    parts_of_plan = None

    def _partition_layers(self, method="uniform"):
        super()._partition_layers(method)
        if self.parts_of_plan:
            self.parts = self.parts_of_plan
            self._set_bounds(start=self.parts[self.stage_id], stop=self.parts[self.stage_id + 1])


# ---- the rules of its engine ---------------------------------------------------------------------------------------------------


def wrong(plan):
    """What the engine would miss, overwrite, or wait for forever, if every send and receive holds its stage until the other end is there."""
    stages, microbatches = plan["topology"]["pipe"], plan["config"]["gradient_accumulation_steps"]
    todo = [[one for step in Planned(plan, stage).steps() for one in step] for stage in range(stages)]
    at, done = [0] * stages, defaultdict(list)
    inputs, outputs, gradient, labels, loss, batch = ([defaultdict(lambda: None) for _ in range(stages)] for _ in range(6))

    def peer(stage, kind):
        return stage + (1 if kind in ("SendActivation", "RecvGrad") else -1)

    opposite = {"SendActivation": "RecvActivation", "RecvActivation": "SendActivation", "SendGrad": "RecvGrad", "RecvGrad": "SendGrad"}
    while any(at[stage] < len(todo[stage]) for stage in range(stages)):
        moved = False
        for stage in range(stages):
            if at[stage] == len(todo[stage]):
                continue
            one = todo[stage][at[stage]]
            kind, slot = one.name, getattr(one, "buffer_id", None)
            if slot is not None and not 0 <= slot < plan["buffers"][stage]:
                return f"stage {stage}: buffer {slot} of {plan['buffers'][stage]}"
            if kind in opposite:
                other = peer(stage, kind)
                theirs = todo[other][at[other]] if 0 <= other < stages and at[other] < len(todo[other]) else None
                if theirs is None or theirs.name != opposite[kind] or peer(other, theirs.name) != stage:
                    continue
                sender, receiver = ((stage, one), (other, theirs)) if kind.startswith("Send") else ((other, theirs), (stage, one))
                (a, sends), (b, takes) = sender, receiver
                if sends.name == "SendActivation":
                    if outputs[a][sends.buffer_id] is None or inputs[b][takes.buffer_id] is not None:
                        return f"stage {a}: no output in buffer {sends.buffer_id}, or stage {b}: buffer {takes.buffer_id} is in use"
                    inputs[b][takes.buffer_id] = outputs[a][sends.buffer_id]
                else:
                    if done[a, "B"].count(inputs[a][sends.buffer_id]) != 1:
                        return f"stage {a}: sends the gradient of buffer {sends.buffer_id}, which has none"
                    gradient[b]["only"] = inputs[a][sends.buffer_id]
                    inputs[a][sends.buffer_id] = None
                at[stage] += 1
                at[other] += 1
            elif kind == "LoadMicroBatch":
                number = batch[stage]["next"] or 0
                batch[stage]["next"] = number + 1
                if stage == 0:
                    if inputs[0][slot] is not None:
                        return f"stage 0: buffer {slot} is in use"
                    inputs[0][slot] = number
                labels[stage][slot] = number
                at[stage] += 1
            elif kind == "ForwardPass":
                number = inputs[stage][slot]
                if number is None or (stage == stages - 1 and labels[stage][slot] != number):
                    return f"stage {stage}: ForwardPass({slot}) of {number} with labels of {labels[stage][slot]}"
                outputs[stage][slot], loss[stage]["only"] = number, number
                done[stage, "F"].append(number)
                at[stage] += 1
            elif kind == "BackwardPass":
                number = outputs[stage][slot]
                has = loss[stage]["only"] if stage == stages - 1 else gradient[stage]["only"]
                if number is None or has != number:
                    return f"stage {stage}: BackwardPass({slot}) of {number} with the gradient or loss of {has}"
                outputs[stage][slot] = None
                if stage == 0:
                    inputs[0][slot] = None
                done[stage, "B"].append(number)
                at[stage] += 1
            else:
                if len(done[stage, "B"]) != microbatches:
                    return f"stage {stage}: {kind} after {len(done[stage, 'B'])} backwards"
                at[stage] += 1
            moved = True
        if not moved:
            return f"deadlock at {[str(todo[stage][at[stage]]) for stage in range(stages) if at[stage] < len(todo[stage])]}"
    kinds = [one.name for one in todo[0]][-3:]
    if kinds != ["ReduceTiedGrads", "ReduceGrads", "OptimizerStep"]:
        return f"ends with {kinds}"
    return "" if all(sorted(done[stage, op]) == list(range(microbatches)) for stage in range(stages) for op in "FB") else f"ran {dict(done)}"


def like_its_own(plan):
    """1F1B has the forwards and backwards of its TrainSchedule."""
    def ops(schedule):
        return [one.name for step in schedule.steps() for one in step if one.name in ("ForwardPass", "BackwardPass")]
    stages, microbatches = plan["topology"]["pipe"], plan["config"]["gradient_accumulation_steps"]
    return all(ops(Planned(plan, stage)) == ops(instructions.TrainSchedule(microbatches, stages, stage)) for stage in range(stages))


def dump(path):
    """As docs/howto/export.md dumps a schedule."""
    with open(path, "w") as file:
        json.dump([[[[one.name, one.kwargs] for one in step] for step in instructions.TrainSchedule(MICROBATCHES, RANKS, stage).steps()] for stage in range(RANKS)], file)


# ---- its engine ----------------------------------------------------------------------------------------------------------------


class Layer(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        torch.manual_seed(number)
        self.weight = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)

    def forward(self, x):
        return torch.tanh(x @ self.weight)


def engine_of(parts):
    import deepspeed
    Cut.parts_of_plan = parts
    model = Cut([LayerSpec(Layer, number) for number in range(parts[-1])], num_stages=RANKS, loss_fn=torch.nn.functional.mse_loss, partition_method="uniform",
                activation_checkpoint_interval=0)
    return deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config={
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": MICROBATCHES, "steps_per_print": 10 ** 6})[0]


def batches():
    draw = torch.Generator().manual_seed(5)
    while True:
        yield torch.randn(4, WIDTH, generator=draw), torch.randn(4, WIDTH, generator=draw)


def trained(plan):
    """What differs from its own schedule in four steps."""
    given, ours, data = engine_of(plan["partition"]), engine_of(plan["partition"]), [batches(), batches()]
    ours._train_schedule = lambda: Planned(plan, ours.stage_id)
    wanted = plan["partition"][given.stage_id + 1] - plan["partition"][given.stage_id]
    if len(list(given.module.parameters())) != wanted:
        return f"{len(list(given.module.parameters()))} layers, not {wanted}"
    for step in range(4):
        losses = [engine.train_batch(own).item() for engine, own in zip((given, ours), data)]
        if losses[0] != losses[1]:
            return f"step {step}: losses {losses}"
    same = all(torch.equal(a, b) for a, b in zip(given.module.parameters(), ours.module.parameters()))
    return "" if same else "weights differ"


def main(rank, plans):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS))
    torch.set_num_threads(1)
    import deepspeed
    deepspeed.ops.__compatible_ops__.clear()  # compiles nothing
    deepspeed.init_distributed("gloo", verbose=False)
    for name in ("four", "ahead", "uneven"):
        said = trained(plans[name])
        dist.barrier()
        print("\n" + json.dumps({"case": name + " trained", "rank": rank, "wrong": said}) + "\n", end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    folder, names = sys.argv[1], sys.argv[2:]
    dump(os.path.join(folder, "dumped.json"))
    if names[0] == "check":
        for name in names[1:]:
            print("\n" + json.dumps({"case": name, "rank": 0, "wrong": wrong(json.load(open(os.path.join(folder, name + ".json"))))}))
    elif names != ["dump"]:
        plans = {name: json.load(open(os.path.join(folder, name + ".json"))) for name in names}
        print("\n" + json.dumps({"case": "dumped", "rank": 0, "wrong": ""}))
        for name, plan in plans.items():
            said = wrong(plan) or ("" if name == "ahead" or like_its_own(plan) else "other ops than its TrainSchedule")
            print("\n" + json.dumps({"case": name, "rank": 0, "wrong": said}), flush=True)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        import deepspeed  # noqa: F401  once for all ranks
        multiprocessing.start_processes(main, (plans,), nprocs=RANKS, start_method="fork")
