# SPDX-License-Identifier: Apache-2.0
"""slackline.adapt over NCCL with several ranks on one GPU. An op takes --op-ms by the GPU's clock (spin.cu, SPIN=libspin.so), as on GPUs of
their own. The link between ranks 0 and 1 is slow from one step to another: messages leave later, from streams of their own.

    adapt.py --ranks 2 --slow-link-ms 20 --jobs given,adapted,carried

Jobs: the given schedule, 1F1B; adapted; adapted with delegates for the messages. --pipelining FOLDER: PyTorch's torch.distributed.pipelining
of another version (its Python source)."""
import argparse
import ctypes
import faulthandler
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from datetime import timedelta

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--cpu", action="store_true")
parser.add_argument("--pipelining")
parser.add_argument("--jobs", default="given,adapted,carried")
parser.add_argument("--op-ms", type=float, default=10)
parser.add_argument("--microbatches", type=int, default=8)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--slow-from", type=int, default=12)
parser.add_argument("--slow-to", type=int, default=40)
parser.add_argument("--slow-link-ms", type=float, default=0)
parser.add_argument("--slow-rank", type=float, default=1, help="factor of rank 1's ops")
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--rows", type=int, default=64)
parser.add_argument("--out", default="")
parser.add_argument("--limit", type=int, default=60)
parser.add_argument("--memory", default="same")


def graft(folder):
    """PyTorch's pipelining from this folder, on the installed PyTorch."""
    import functools
    import torch
    import torch.distributed
    fork_rng = torch.random.fork_rng

    @functools.wraps(fork_rng)
    def on_any_device(*arguments, device_type="cuda", **options):  # 2.13 calls it with None on CPUs
        return fork_rng(*arguments, device_type=device_type or "cuda", **options)
    torch.random.fork_rng = on_any_device
    name = "torch.distributed.pipelining"
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    sys.modules[name] = torch.distributed.pipelining = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


class Spin:
    def __init__(self, torch, cpu):
        self.torch, self.cpu = torch, cpu
        if not cpu:
            self.library = ctypes.CDLL(os.environ["SPIN"])
            self.library.spin.argtypes = [ctypes.c_void_p, ctypes.c_longlong]

    def __call__(self, seconds):
        if self.cpu:
            time.sleep(seconds)
        elif self.library.spin(self.torch.cuda.current_stream().cuda_stream, int(seconds * 1e9)):
            raise RuntimeError("spin")


def main(rank, o, store, results):
    faulthandler.dump_traceback_later(o.limit, exit=True)
    warnings.simplefilter("always")
    os.environ.update(NCCL_HOSTID=f"gpuhost{rank}", NCCL_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
    import torch
    import torch.distributed as dist
    if o.pipelining:
        graft(o.pipelining)
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, schedules
    import slackline
    torch.set_num_threads(1)
    device = torch.device("cpu") if o.cpu else torch.device("cuda", 0)
    if not o.cpu:
        torch.cuda.set_device(0)
    began = time.monotonic()
    dist.init_process_group("gloo" if o.cpu else "cpu:gloo,cuda:nccl", f"file://{store}", rank=rank, world_size=o.ranks, timeout=timedelta(seconds=40))
    x = torch.ones(4, device=device)
    dist.all_reduce(x)
    if not o.cpu:
        torch.cuda.synchronize()
    if rank == 0:
        print(f"torch {torch.__version__} nccl {torch.cuda.nccl.version() if not o.cpu else None} ranks {o.ranks}: first allreduce {x[0].item()} after {time.monotonic() - began:.2f} s", flush=True)
    spin = Spin(torch, o.cpu)

    class Paced(PipelineStage):
        factor = 1.0

        def forward_one_chunk(self, *a, **k):
            r = super().forward_one_chunk(*a, **k)
            spin(o.op_ms / 1e3 * self.factor)
            return r

        def backward_one_chunk(self, chunk, loss=None, full_backward=True, last_backward=False):
            r = super().backward_one_chunk(chunk, loss=loss, full_backward=full_backward, last_backward=last_backward)
            spin(o.op_ms / 1e3 * self.factor * (2 if full_backward else 1))
            return r

        def backward_weight_one_chunk(self, *a, **k):
            r = super().backward_weight_one_chunk(*a, **k)
            spin(o.op_ms / 1e3 * self.factor)
            return r

    # a slow link between ranks 0 and 1: messages leave later, on streams of their own
    delay = [0.0]
    batch, at = schedules._batch_p2p, [0]
    streams = [torch.cuda.Stream() for _ in range(16)] if not o.cpu else []

    def slow_batch(ops, desc=None):
        if delay[0] and ops and ops[0].op == dist.isend and {rank, ops[0].group_peer} == {0, 1} and not o.cpu:
            at[0] += 1
            side = streams[at[0] % len(streams)]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                spin(delay[0])
                return batch(ops, desc)
        return batch(ops, desc)
    schedules._batch_p2p = slow_batch

    def layer(index):
        torch.manual_seed(100 + index)
        return torch.nn.Sequential(torch.nn.Linear(o.width, o.width), torch.nn.Tanh(), torch.nn.Linear(o.width, o.width)).to(device)

    def job(name):
        stage = Paced(layer(rank), rank, o.ranks, device)
        schedule = Schedule1F1B(stage, o.microbatches, loss_fn=torch.nn.functional.mse_loss)
        if name != "given":
            options = {"carried": {"transport": "slackline"}}.get(name.split("-")[0], {})
            schedule = slackline.adapt(schedule, memory=o.memory, out=os.path.join(o.out, name) if o.out else None, **options)
            if rank == 0 or schedule.adaptation.why:
                print(f"{name}: rank {rank} active {schedule.adaptation.active} {schedule.adaptation.why}", flush=True)
        optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
        times, losses, hosts = [], [], []
        for step in range(o.steps):
            slow = o.slow_from <= step < o.slow_to
            stage.factor = o.slow_rank if slow and rank == 1 else 1.0
            delay[0] = o.slow_link_ms / 1e3 if slow else 0.0
            draw = torch.Generator().manual_seed(step)
            x, y = (torch.randn(o.microbatches * o.rows, o.width, generator=draw).to(device) for _ in range(2))
            optimizer.zero_grad()
            found = []
            if not o.cpu:
                torch.cuda.synchronize()
            dist.barrier(group=gloo)
            t0 = time.monotonic()
            schedule.step(*((x,) if stage.is_first else ()), target=y if stage.is_last else None, losses=found)
            t1 = time.monotonic()
            if not o.cpu:
                torch.cuda.synchronize()
            took = torch.tensor(time.monotonic() - t0, dtype=torch.float64)
            dist.all_reduce(took, dist.ReduceOp.MAX, group=gloo)
            optimizer.step()
            times.append(took.item() * 1e3)
            hosts.append((t1 - t0) * 1e3)
            losses.append(torch.stack(found).double().sum().item().hex() if stage.is_last else None)
        weights = float(sum(p.detach().double().sum() for p in stage.submod.parameters())).hex()
        a = getattr(schedule, "adaptation", None)
        said = {"job": name, "rank": rank, "times_ms": [round(t, 2) for t in times], "hosts_ms": [round(t, 2) for t in hosts], "losses": losses, "weights": weights}
        if a is not None:
            time.sleep(0.3)
            said.update(active=a.active, swap_ms=a.swap_ms, events=[(e.step, e.kind, e.text) for e in a.events], predicted_ms=a.predicted_ms,
                        problem=a.problem if isinstance(a.problem, (dict, type(None))) else str(a.problem))
            m = a.measured
            if m is not None:
                said["measured"] = repr(m)[:6000]
        results.put(said)
        dist.barrier(group=gloo)
    gloo = dist.new_group(list(range(o.ranks)), backend="gloo")
    for name in o.jobs.split(","):
        job(name)
    dist.barrier(group=gloo)
    dist.destroy_process_group()


def report(said, o, names):
    """A table for people; the details are JSON lines."""
    given = [one for one in said if one["job"] == "given"]
    for name in names:
        rows = sorted((one for one in said if one["job"] == name), key=lambda one: one["rank"])
        if len(rows) != o.ranks:
            print(f"{name}: {len(rows)} of {o.ranks} ranks reported")
            continue
        t = rows[0]["times_ms"]
        parts = {"healthy": t[3:o.slow_from], "slow, first 3": t[o.slow_from:o.slow_from + 3], "slow, last 8": t[max(o.slow_to - 8, o.slow_from):o.slow_to],
                 "after, last 3": t[o.slow_to:][-3:]}
        print(f"{name}: " + ", ".join(f"{k} {statistics.median(v):.1f} ms" for k, v in parts.items() if v), end="")
        base = sorted(given, key=lambda one: one["rank"])
        if len(base) == o.ranks:
            same = all(one["losses"] == other["losses"] and one["weights"] == other["weights"] for one, other in zip(rows, base))
            print(f"; losses and weights {'bit-equal to' if same else 'DIFFER from'} given", end="")
        print(f"; swaps {[round(x, 2) for x in rows[0].get('swap_ms', [])]}")
        for event in rows[0].get("events", []):
            print("   ", *event)
    print("", flush=True)


if __name__ == "__main__":
    options = parser.parse_args()
    import torch.multiprocessing as multiprocessing
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    folder = tempfile.mkdtemp()
    processes = [context.Process(target=main, args=(rank, options, os.path.join(folder, "store"), results)) for rank in range(options.ranks)]
    for process in processes:
        process.start()
    said, until, shown = [], time.monotonic() + options.limit + 5, set()
    while any(process.is_alive() for process in processes) and time.monotonic() < until:
        while not results.empty():
            said.append(results.get())
        for name in options.jobs.split(","):
            if name not in shown and sum(one["job"] == name for one in said) == options.ranks:
                shown.add(name)
                report(said, options, [name])
        time.sleep(0.05)
        if any(process.exitcode for process in processes):
            time.sleep(1)
            break
    while not results.empty():
        said.append(results.get())
    for process in processes:
        if process.is_alive():
            process.kill()
    print("exit codes", [process.exitcode for process in processes])
    report(said, options, [name for name in options.jobs.split(",") if name not in shown])
    if options.out:
        with open(os.path.join(options.out, "said.jsonl"), "w") as file:
            for one in said:
                file.write(json.dumps(one) + "\n")
