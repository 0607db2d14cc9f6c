# labels: torch long alone
"""Traces of PyTorch's own schedules, run over Gloo with its profiler on: the order that `slackline import` finds is the one that
the schedule says it runs, op for op, on the placement that its stages have; op times are the lengths of the labels in the files,
which are read here by themselves, or less where a label begins with a wait, and never less than what the stage slept."""
import collections
import csv
import json
import os
import re

from runner import expect, folder
from venv_torch import slackline

import multiprocessing
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as S
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)
RANKS, WIDTH, ROWS, ITERATIONS = 2, 32, 4, 3
FORWARD_MS, BACKWARD_MS = (8, 3, 5, 2), (4, 6, 3, 7)  # by stage
# name, stages a rank, placement that they have, microbatches
SCHEDULES = [("GPipe", 1, "linear", 4), ("1F1B", 1, "linear", 5), ("Interleaved1F1B", 2, "loop", 4), ("LoopedBFS", 2, "loop", 4),
             ("InterleavedZeroBubble", 2, "loop", 4), ("ZBVZeroBubble", 2, "wave", 4), ("DualPipeV", 2, "wave", 4)]


class Stage(torch.nn.Module):
    def __init__(self, stage):
        super().__init__()
        self.stage, self.first, self.second = stage, torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        y = self.first(x)
        time.sleep(FORWARD_MS[self.stage] / 1000)
        if y.requires_grad:
            y.register_hook(lambda gradient: time.sleep(BACKWARD_MS[self.stage] / 1000))
        return self.second(y)


def stages_of(rank, each, placement):
    return [rank] if each == 1 else [rank, 2 * RANKS - 1 - rank] if placement == "wave" else [rank, rank + RANKS]


def order_of(schedule, rank):
    """What the schedule says it runs: its ops, in the words of its labels."""
    if isinstance(schedule, S.PipelineScheduleSingle):
        actions = schedule._get_pipeline_order()[rank]
    else:
        actions = schedule.pipeline_order[rank]
    cells = [str(action) for action in actions if action is not None]
    return [cell for cell in cells if re.fullmatch(r"\d+[FBIW]\d+|\(.*\)OVERLAP_F_B", cell)]


def run(rank, name, each, placement, microbatches):
    loss = lambda output, target: ((output - target) ** 2).mean()
    numbers = stages_of(rank, each, placement)
    stages = [PipelineStage(Stage(number), number, each * RANKS, torch.device("cpu")) for number in numbers]
    schedule = getattr(S, "Schedule" + name)(stages[0] if each == 1 else stages, microbatches, loss_fn=loss)
    x = torch.randn(microbatches * ROWS, WIDTH)
    last = each * RANKS - 1

    def step():
        schedule.step(*((x,) if 0 in numbers else ()), **({"target": x} if last in numbers else {}))

    step()  # shapes are exchanged
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=name == "1F1B") as profiler:
        for _ in range(ITERATIONS):
            step()
            profiler.step()
    profiler.export_chrome_trace(os.path.join(folder, f"{name}{rank}.json"))
    with open(os.path.join(folder, f"{name}{rank}.order"), "w") as out:
        json.dump(order_of(schedule, rank), out)
    dist.barrier()


def worker(rank, errors):
    try:
        dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=RANKS, timeout=timedelta(seconds=60))
        for shape in SCHEDULES:
            run(rank, *shape)
    except Exception as error:
        errors.put(f"rank {rank}, {shape[0]}: {type(error).__name__}: {str(error)[:300]}")
    errors.close()
    errors.join_thread()
    os._exit(0)


def trace_all():
    context = multiprocessing.get_context("fork")
    errors = context.Queue()
    processes = [context.Process(target=worker, args=(rank, errors)) for rank in range(RANKS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        process.kill()
    assert errors.empty(), errors.get()


def labels_of(name):
    """{kind of op, stage: lengths in ms} of the labels in the files."""
    found = collections.defaultdict(list)
    for rank in range(RANKS):
        with open(os.path.join(folder, f"{name}{rank}.json")) as file:
            events = json.load(file)["traceEvents"]
        for event in events:
            label = re.fullmatch(r"PP:(\d+)([FBIW])(\d+)", event.get("name", "")) if event.get("cat") == "user_annotation" else None
            plain = re.fullmatch(r"(Forward|Backward) \d+", event.get("name", "")) if event.get("cat") == "user_annotation" else None
            if label:
                found[label[2], int(label[1])].append(event["dur"] / 1000)
            elif plain:
                found[plain[1][0], rank].append(event["dur"] / 1000)
    return found


def check(name, each, placement, microbatches):
    traces = [os.path.join(folder, f"{name}{rank}.json") for rank in range(RANKS)]
    problem, found = os.path.join(folder, f"{name}.yaml"), os.path.join(folder, f"{name}.csv")
    done = slackline("import", *reversed(traces), "-o", problem, "--order", found, "--format", "json", "--time-limit", "0")
    assert done.returncode == 0, (name, done.stderr)
    told = json.loads(done.stdout)
    print(name, json.dumps({key: told[key] for key in ("times_ms", "links", "traced_ms", "simulated_ms", "plan", "waiting_ops", "overlapping_ops", "halved_stages")}))
    stages = each * RANKS
    assert (told["ranks"], told["stages"], told["microbatches"], told["placement"]) == (RANKS, stages, microbatches, placement), (name, told)
    assert sum(i["whole"] for i in told["iterations"]) == ITERATIONS, (name, told["iterations"])
    with open(found) as file:
        order = list(csv.reader(file))
    for rank in range(RANKS):
        with open(os.path.join(folder, f"{name}{rank}.order")) as file:
            expected = json.load(file)
        if name == "1F1B" and rank == RANKS - 1:  # its listing numbers the last rank's forwards from 1 on
            expected = [f"{cell[0]}F{int(cell[2:]) - 1}" if "F" in cell else cell for cell in expected]
        assert order[rank] == expected, (name, rank, order[rank], expected)
    labels = labels_of(name)
    for stage in range(stages):
        assert told["times_ms"]["F"][stage] >= FORWARD_MS[stage], (name, stage, told["times_ms"])
        # the first stage has no gradient to hand on, so that its I is empty and its W does all
        assert told["times_ms"]["I"][stage] + told["times_ms"]["W"][stage] >= BACKWARD_MS[stage], (name, stage, told["times_ms"])
        for kind in "FBIW":
            lengths = labels.get((kind, stage))
            if lengths and not any("OVERLAP" in cell for row in order for cell in row):
                assert told["times_ms"][kind][stage] <= max(lengths) + 1e-3, (name, kind, stage, told["times_ms"], lengths)
    messages = (stages - 1 if placement != "wave" else stages - 2) * microbatches  # in the middle of a wave nothing is sent
    assert sum(link["messages"] for link in told["links"]) == 2 * messages, (name, told["links"])
    for link in told["links"]:
        assert link["message_mb"] == ROWS * WIDTH * 4 / 1e6, (name, link)
    # the order on the problem: what simulate says of the two files, no less than what the busiest rank works, no more than a better plan
    again = slackline("simulate", problem, "--order", found, "--format", "json")
    assert again.returncode == 0, (name, again.stderr)
    simulated = json.loads(again.stdout)
    assert abs(simulated["makespan_ms"] - told["simulated_ms"]) < 1e-5, (name, simulated["makespan_ms"], told["simulated_ms"])
    assert told["simulated_ms"] >= max(sum(FORWARD_MS[s] + BACKWARD_MS[s] for s in stages_of(rank, each, placement)) for rank in range(RANKS)) * microbatches, (name, told["simulated_ms"])
    assert told["plan_without_limit"]["makespan_ms"] <= told["plan"]["makespan_ms"] <= told["simulated_ms"], (name, told["plan"], told["plan_without_limit"])


def test_traces_of_every_schedule_are_profiled():
    trace_all()
    for shape in SCHEDULES:
        try:
            check(*shape)
        except AssertionError as error:
            expect(False, f"{shape[0]}: {str(error)[:1500]}")
