# SPDX-License-Identifier: Apache-2.0
"""A script over Gloo whose flight recorder can be asked while it stands: recording.py HOW RANK PREFIX. After some sums, RANK sleeps and the others
enter the next. HOW: `server` starts PyTorch's debug server; `pipe` dumps when its pipe is written to and `time-out` 2 s after the last call, as
PyTorch's watchdog of NCCL does, for which the script stands in (Gloo has none), by PyTorch's own dump; `old` has dumps of an earlier job; `some` is `server` without one on RANK."""
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from begun import all_have_begun
from torch._C import _distributed_c10d as recorder

how, wrong, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo")
all_have_begun()
rank = dist.get_rank()


def dump():
    with open(f"{prefix}{rank}.new", "wb") as file:
        file.write(recorder._dump_fr_trace(True, False))  # finding names for its stacks takes seconds of processor time
    os.rename(f"{prefix}{rank}.new", f"{prefix}{rank}")


def dump_when_told():
    name = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe"
    os.mkfifo(name)
    while True:
        with open(name, "rb") as pipe:  # waits for a writer
            pipe.read()
        dump()


if how == "server" or (how == "some" and rank != wrong):
    server = recorder._WorkerServer("::", 0)  # as torch.distributed.debug.start_debug_server does on every rank
if how == "pipe":
    threading.Thread(target=dump_when_told, daemon=True).start()
x = torch.ones(10)
for _ in range(50):
    dist.all_reduce(x)
    time.sleep(0.02)
if how == "time-out":
    threading.Timer(2, dump).start()
if how == "old":
    dump()
    os.utime(f"{prefix}{rank}", (time.time() - 3600,) * 2)
if rank == wrong:
    time.sleep(600)
dist.all_reduce(x)
