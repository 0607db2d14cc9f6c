# SPDX-License-Identifier: Apache-2.0
"""A script over Gloo that leaves dumps of its flight recorder: recorded.py KIND RANK FOLDER. RANK makes the mistake after some calls that all make.
The dumps are written by PyTorch, pickled and as JSON, while the mistake's calls are under way."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as recorder

kind, wrong, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
pair = dist.new_group([0, 1])
x = torch.ones(10)
for _ in range(3):
    dist.all_reduce(x)
if rank < 2:
    dist.broadcast(x, 0, group=pair)
mine = rank == wrong
works = []
if kind == "missing" and not mine:
    works.append(dist.all_reduce(torch.ones(4, 3), async_op=True))
if kind == "other" and mine:
    works.append(dist.broadcast(torch.ones(4, 3), wrong, async_op=True))
elif kind == "other":
    works.append(dist.all_reduce(torch.ones(4, 3), async_op=True))
if kind == "shape":
    works.append(dist.all_reduce(torch.ones(6, 2, dtype=torch.int32) if mine else torch.ones(4, 3), async_op=True))  # as many bytes: Gloo aborts otherwise
if kind == "group" and rank < 2 and not mine:
    works.append(dist.all_reduce(x, group=pair, async_op=True))
if kind == "none":
    dist.all_reduce(x)
time.sleep(0.5)
with open(os.path.join(folder, f"nccl_trace_rank_{rank}"), "wb") as file:
    file.write(recorder._dump_fr_trace())
with open(os.path.join(folder, f"json_rank_{rank}.json"), "wb") as file:
    file.write(recorder._dump_fr_trace_json())
open(os.path.join(folder, f"done_{rank}"), "w").close()
while sum(name.startswith("done_") for name in os.listdir(folder)) < size:
    time.sleep(0.05)
os._exit(0)  # the calls under way never end
