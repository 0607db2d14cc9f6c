"""PyTorch's _PipelineScheduleRuntime over Gloo, one process per rank, with ops padded to given times: the other side of
bench/overhead. run.py starts it with an interpreter that has torch.

    torch_runtime.py ITERATIONS RANKS STAGES MICROBATCHES F_MS I_MS W_MS ORDER.csv

Prints one line per iteration: ms from the first F of stage 0 to the end of the last op on any rank (one host, so one clock). Then
prints "overruns N of M". An op does its real work and then sleeps until its start + its time, by absolute time and with the
smallest timer slack. Nothing else in PyTorch's runtime is changed."""
import ctypes
import multiprocessing
import os
import re
import sys
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, ROWS = 64, 32  # width of a layer, rows of a microbatch: 8192 bytes per message


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("ns", ctypes.c_long)]


libc = ctypes.CDLL(None)


def sleep_until(ns):
    """CLOCK_MONOTONIC, absolute."""
    libc.clock_nanosleep(1, 1, ctypes.byref(Timespec(ns // 10**9, ns % 10**9)), None)


class Padded:
    """Holds the ops of a stage to their times, and records their begins and ends."""

    def __init__(self, stage, ms, log):
        self.log = log
        self.wrap(stage, "forward_one_chunk", lambda keys: ms["F"])
        self.wrap(stage, "backward_one_chunk", lambda keys: ms["I"] + (ms["W"] if keys.get("full_backward", True) else 0))
        self.wrap(stage, "backward_weight_one_chunk", lambda keys: ms["W"])

    def wrap(self, stage, name, ms_of):
        inner = getattr(stage, name)

        def outer(*arguments, **keys):
            begin = time.monotonic_ns()
            result = inner(*arguments, **keys)
            until = begin + int(ms_of(keys) * 1e6)
            self.log["overruns"] += time.monotonic_ns() > until
            sleep_until(until)
            self.log["ops"].append((name, begin, time.monotonic_ns()))
            return result

        setattr(stage, name, outer)


def layer(stage):
    torch.manual_seed(1000 + stage)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, WIDTH))


def worker(rank, iterations, ranks, stages, microbatches, ms, order, store, results):
    libc.prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: 1 ns instead of 50 us
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    held = sorted({int(n) for n in re.findall(r"(\d+)[FIB]", open(order).read().splitlines()[rank])})
    log = {"ops": [], "overruns": 0}
    mine = [PipelineStage(layer(stage), stage, stages, torch.device("cpu")) for stage in held]
    for stage in mine:
        Padded(stage, ms, log)
    schedule = _PipelineScheduleRuntime(mine, microbatches, loss_fn=lambda output, target: ((output - target) ** 2).mean())
    schedule._load_csv(order, format="compute_only")
    x = torch.randn(microbatches * ROWS, WIDTH)
    arguments = (x,) if any(stage.is_first for stage in mine) else ()
    target = x if any(stage.is_last for stage in mine) else None
    done = []
    for _ in range(iterations):
        log["ops"].clear()
        dist.barrier()
        schedule.step(*arguments, target=target)
        for stage in mine:
            stage.submod.zero_grad()
        done.append((log["ops"][0][1], log["ops"][-1][2]))
    results.put((rank, done, log["overruns"], iterations * len(log["ops"])))
    dist.barrier()
    dist.destroy_process_group()


def main():
    iterations, ranks, stages, microbatches = map(int, sys.argv[1:5])
    ms = dict(zip("FIW", map(float, sys.argv[5:8])))
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        results = context.Queue()
        processes = [context.Process(target=worker, args=(rank, iterations, ranks, stages, microbatches, ms, sys.argv[8],
                                                          os.path.join(folder, "store"), results), daemon=True)
                     for rank in range(ranks)]
        for process in processes:
            process.start()
        found = dict((rank, rest) for rank, *rest in (results.get(timeout=300) for _ in range(ranks)))
        for process in processes:
            process.join()
    for i in range(iterations):
        print((max(found[rank][0][i][1] for rank in range(ranks)) - found[0][0][i][0]) / 1e6)
    print(f"overruns {sum(found[rank][1] for rank in found)} of {sum(found[rank][2] for rank in found)}")


if __name__ == "__main__":
    main()
