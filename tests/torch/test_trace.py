# labels: long torch
"""Traces of PyTorch's own profiler, one a rank over Gloo, become the problem that was run: shape, order and message sizes
are certain; stages take their time by sleeping between two products, so op times have a bound from below, and a stage that
mostly waits for its input inside the label must not be told as slow as the one that it waits for."""
import gzip
import json
import os

from runner import folder, has_facts
from venv_torch import slackline

import multiprocessing
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import ScheduleGPipe, _PipelineScheduleRuntime
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)
WIDTH, ROWS, MICROBATCHES = 64, 8, 4
FORWARD_MS, BACKWARD_MS = (60, 15), (30, 30)  # by stage


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, x, stage):
        context.stage = stage
        y = x * 1.0
        time.sleep(FORWARD_MS[stage] / 1000)
        return y

    @staticmethod
    def backward(context, gradient):
        result = gradient * 1.0
        time.sleep(BACKWARD_MS[context.stage] / 1000)
        return result, None


class Stage(torch.nn.Module):
    def __init__(self, stage):
        super().__init__()
        self.stage, self.linear = stage, torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return Slow.apply(self.linear(x), self.stage)


def rows(stage):
    """1F1B of two ranks, as PyTorch reads it."""
    return (["0F0", "0F1", "0B0", "0F2", "0B1", "0F3", "0B2", "0B3"], ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2", "1F3", "1B3"])[stage]


def worker(rank, errors):
    try:
        dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(seconds=60))
        file = os.path.join(folder, "order.csv")
        loss = lambda output, target: ((output - target) ** 2).mean()
        for kind in ("runtime", "gpipe"):
            stage = PipelineStage(Stage(rank), rank, 2, torch.device("cpu"))
            if kind == "runtime":
                schedule = _PipelineScheduleRuntime([stage], MICROBATCHES, loss_fn=loss)
                schedule._load_csv(file)
            else:
                schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=loss)
            x = torch.randn(MICROBATCHES * ROWS, WIDTH)

            def step():
                schedule.step(*((x,) if rank == 0 else ()), **({"target": x} if rank == 1 else {}))

            step()  # shapes are exchanged
            with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
                for _ in range(3):
                    step()
                    profiler.step()
            profiler.export_chrome_trace(os.path.join(folder, f"{kind}{rank}.json{'.gz' if kind == 'gpipe' else ''}"))
            dist.barrier()
    except Exception as error:
        errors.put(f"rank {rank}: {type(error).__name__}: {str(error)[:300]}")
    errors.close()
    errors.join_thread()
    os._exit(0)


def trace_all():
    context = multiprocessing.get_context("fork")
    errors = context.Queue()
    processes = [context.Process(target=worker, args=(rank, errors)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
    assert errors.empty(), errors.get()


def check(kind, order):
    suffix = ".gz" if kind == "gpipe" else ""
    traces = [os.path.join(folder, f"{kind}{rank}.json{suffix}") for rank in (1, 0)]
    problem, found = os.path.join(folder, f"{kind}.yaml"), os.path.join(folder, f"{kind}.csv")
    done = slackline("import", *traces, "-o", problem, "--order", found, "--format", "json", "--time-limit", "0.2")
    if suffix and has_facts(done.stderr, "without zlib"):
        for path in traces:
            with gzip.open(path) as packed, open(path[:-3], "wb") as plain:
                plain.write(packed.read())
        done = slackline("import", *[path[:-3] for path in traces], "-o", problem, "--order", found, "--format", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(kind, json.dumps(told))
    assert (told["ranks"], told["stages"], told["microbatches"], told["placement"]) == (2, 2, MICROBATCHES, "linear"), told
    assert open(found).read().splitlines() == [",".join(row) for row in order], open(found).read()
    whole = [i for i in told["iterations"] if i["whole"]]
    assert len(whole) == 3, told["iterations"]
    for stage in range(2):
        assert told["times_ms"]["F"][stage] >= FORWARD_MS[stage], told["times_ms"]
        assert told["times_ms"]["B"][stage] >= BACKWARD_MS[stage], told["times_ms"]
    # a label of stage 1 lasts from its last op to the end of its own: in GPipe at least 60 ms, of which it works 15
    assert told["times_ms"]["F"][1] < 45, told["times_ms"]
    for link in told["links"]:
        assert link["messages"] == MICROBATCHES and link["message_mb"] == ROWS * WIDTH * 4 / 1e6, link
    again = slackline("simulate", problem, "--order", found, "--format", "json")
    assert again.returncode == 0 and abs(json.loads(again.stdout)["makespan_ms"] - told["simulated_ms"]) < 1e-5, again.stderr


def given():
    with open(os.path.join(folder, "order.csv"), "w") as out:
        out.write("".join(",".join(rows(rank)) + "\n" for rank in range(2)))
    trace_all()
    yield ()


def test_a_trace_of_the_runtime_is_the_problem_that_was_run():
    check("runtime", [rows(0), rows(1)])


def test_a_trace_of_gpipe_is_the_problem_that_was_run():
    check("gpipe", [[f"{rank}{kind}{m}" for kind in "FB" for m in range(MICROBATCHES)] for rank in range(2)])
