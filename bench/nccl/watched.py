# SPDX-License-Identifier: Apache-2.0
"""Data-parallel-like loop over NCCL, several ranks on one GPU (torchrun): compute of 10 ms on the GPU's clock, two allreduces, a host wait.
watched.py SECONDS SLOW_FROM_S CASE: device (rank 2's kernels take 2.5 times as long), host (rank 2's host sleeps 15 ms before its work), none"""
import ctypes
import os
import sys
import time

rank = int(os.environ["RANK"])
os.environ.update(NCCL_HOSTID=f"gpuhost{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", GLOO_SOCKET_IFNAME="lo")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

seconds, slow_from_s, case = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
op = float(os.environ.get("OP_MS", "10")) / 1e3
cpu = not torch.cuda.is_available()
device = torch.device("cpu" if cpu else "cuda:0")
dist.init_process_group("gloo" if cpu else "nccl")
library = ctypes.CDLL(os.environ["SPIN"])
library.spin.argtypes = [ctypes.c_void_p, ctypes.c_longlong]


def spin(seconds):
    if cpu:
        time.sleep(seconds)
    else:
        library.spin(torch.cuda.current_stream().cuda_stream, int(seconds * 1e9))


a, b = torch.ones(1 << 16, device=device), torch.ones(1 << 18, device=device)


def iterate(slow):
    t0 = time.monotonic()
    if slow and case == "host":
        time.sleep(1.5 * op)
    spin(op * (2.5 if slow and case == "device" else 1))
    dist.all_reduce(a)
    spin(op / 2)
    dist.all_reduce(b)
    a.fill_(1)
    b.fill_(1)
    if not cpu:
        torch.cuda.synchronize()
    return (time.monotonic() - t0) * 1e3


took = [iterate(False) for _ in range(30)]
each = torch.tensor([sorted(took)[15]], device=device)
dist.broadcast(each, 0)
each = each.item() / 1e3
iterations, slow_from = int(seconds / each), int(slow_from_s / each)
began = time.monotonic()
took = [iterate(rank == 2 % int(os.environ["WORLD_SIZE"]) and i >= slow_from) for i in range(iterations)]
if rank == 0:
    healthy, after = sorted(took[:slow_from]), sorted(took[slow_from:])
    print(f"watched program: {iterations} iterations in {time.monotonic() - began:.1f} s, median {healthy[len(healthy) // 2]:.1f} ms, then {after[len(after) // 2] if after else 0:.1f} ms", flush=True)
dist.barrier()
dist.destroy_process_group()
