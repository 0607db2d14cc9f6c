# SPDX-License-Identifier: Apache-2.0
"""Ranks on one GPU of which one does not come: flight recorder dumps of real NCCL. hang.py RANKS CASE FOLDER"""
import os
import pickle
import sys
import tempfile
import threading
import time
from datetime import timedelta


def main(rank, ranks, case, folder, store):
    os.environ.update(NCCL_HOSTID=f"gpuhost{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", GLOO_SOCKET_IFNAME="lo", TORCH_FR_BUFFER_SIZE="200",
                      TORCH_NCCL_TRACE_BUFFER_SIZE="200", TORCH_NCCL_ENABLE_TIMING="1")
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    x, y = torch.ones(1024, device="cuda"), torch.ones(1024, device="cuda")
    part = dist.new_group(list(range(ranks)), group_desc="pipeline")
    dist.all_reduce(x)
    for _ in range(2):  # a pipeline's messages
        if rank > 0:
            dist.recv(y, rank - 1, group=part)
        if rank < ranks - 1:
            dist.send(y, rank + 1, group=part)
    ops = [dist.P2POp(dist.isend, x, (rank + 1) % ranks), dist.P2POp(dist.irecv, y, (rank - 1) % ranks)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    dist.all_gather_into_tensor(torch.empty(1024 * ranks, device="cuda"), x)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()

    def hang():
        if case == "collective":  # the last rank does not come
            if rank != ranks - 1:
                dist.all_reduce(x)
        elif case == "message":  # rank 0 does not send
            if rank > 0:
                dist.recv(y, rank - 1, group=part)
            if 0 < rank < ranks - 1:
                dist.send(y, rank + 1, group=part)
        elif case == "batch":  # rank 1 does not come to a ring of messages
            if rank != 1:
                for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % ranks), dist.P2POp(dist.irecv, y, (rank - 1) % ranks)]):
                    work.wait()
        elif case == "circle":  # each waits for a message of the one before
            dist.recv(y, (rank - 1) % ranks, group=part)
            dist.send(y, (rank + 1) % ranks, group=part)
        elif case == "other":  # the last rank calls something else
            if rank != ranks - 1:
                dist.all_reduce(x)
            else:
                dist.broadcast(y, 0)
        torch.cuda.synchronize()
    threading.Thread(target=hang, daemon=True).start()
    time.sleep(2.0)
    data = torch._C._distributed_c10d._dump_nccl_trace(includeCollectives=True, includeStackTraces=True, onlyActive=False)
    with open(os.path.join(folder, f"{case}_rank_{rank}"), "wb") as file:
        file.write(data)
    found = pickle.loads(data)
    if rank == 0:
        print(case, "version", found.get("version"), "entries", len(found["entries"]), sorted(found), flush=True)
    time.sleep(0.7)
    os._exit(0)


if __name__ == "__main__":
    ranks, case, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    import torch.multiprocessing as multiprocessing
    context = multiprocessing.get_context("spawn")
    os.makedirs(folder, exist_ok=True)
    store = os.path.join(tempfile.mkdtemp(), "store")
    processes = [context.Process(target=main, args=(r, ranks, case, folder, store)) for r in range(ranks)]
    for p in processes:
        p.start()
    until = time.monotonic() + 30
    for p in processes:
        p.join(max(0.1, until - time.monotonic()))
        if p.is_alive():
            p.kill()
