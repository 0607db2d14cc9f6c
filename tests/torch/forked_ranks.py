"""python forked_ranks.py RANKS MODULE[,MODULE]... PROGRAM [ARGUMENT]...: runs a script on several ranks as torchrun does on one node, in a sixth of
the processor's time: PyTorch and the modules are imported once, and each rank is a copy of that process. Ends with 1 when a rank fails; the others
have some seconds to end, too."""
import importlib
import os
import runpy
import socket
import sys
import time

import torch  # noqa: F401
import torch.distributed.pipelining  # noqa: F401


GRACE_S = 5


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def rank_main(rank, ranks, port, program, arguments):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    sys.argv = [program, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    runpy.run_path(program, run_name="__main__")


def main():
    ranks, modules, program, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    for module in modules.split(","):
        importlib.import_module(module)
    context, port = torch.multiprocessing.get_context("fork"), free_port()
    started = [context.Process(target=rank_main, args=(rank, ranks, port, program, arguments)) for rank in range(ranks)]
    for process in started:
        process.start()
    while any(process.exitcode is None for process in started) and not any(process.exitcode for process in started):
        time.sleep(0.05)
    until = time.monotonic() + GRACE_S
    for process in started:
        process.join(max(0.0, until - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            process.join()
    sys.exit(any(process.exitcode for process in started))


if __name__ == "__main__":
    main()
