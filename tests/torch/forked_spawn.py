"""forked_spawn.py PROGRAM [ARGUMENT]...: a script in which torch.multiprocessing.spawn makes copies of a process that has imported PyTorch, instead of
starting a Python for each rank. Run by ForkedRanks (forked_ranks.py)."""
import os
import runpy
import sys

import torch.multiprocessing as multiprocessing

get_context = multiprocessing.get_context


def spawn(work, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    return multiprocessing.start_processes(work, args, nprocs, join, daemon, "fork" if start_method == "spawn" else start_method)


multiprocessing.spawn = spawn
multiprocessing.get_context = lambda method=None: get_context("fork" if method == "spawn" else method)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
runpy.run_path(sys.argv[0], run_name="__main__")
