# labels: slow torch
"""slackline.adapt in jobs that are started in other ways: by torchrun with and without its own rendezvous, by all methods of torch.multiprocessing, without
assertions (`python -OO`), and with what PyTorch offers for debugging."""
import os
import socket
import subprocess
import sys

import venv_torch  # noqa: F401
from runner import build, expect, source

here = os.path.abspath(source)
PROGRAM = os.path.join(here, "tests", "torch", "launch_program.py")
PATHS = [os.path.join(here, "python"), os.path.join(here, "examples", "python"), os.path.join(here, "tests", "torch")]
DEBUGGED = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_SHOW_CPP_STACKTRACES": "1"}


def ran(words, **environment):
    """The ranks' lines, if it ended with 0."""
    environment = {**os.environ, "SLACKLINE_LIBRARY": os.path.join(os.path.abspath(build), "libslackline.so"), "PYTHONPATH": os.pathsep.join(PATHS), **environment}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=400)
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("rank "))
    expect(done.returncode == 0 and "slackline:" not in done.stderr, f"{words}: {done.returncode}, {lines}, {done.stderr[-3000:]}")
    return lines


def test_torchrun_alone_without_assertions_and_with_details():
    lines = ran([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", PROGRAM], PYTHONOPTIMIZE="2", OMP_NUM_THREADS="1", **DEBUGGED)
    expect(len(lines) == 2 and all("same True" in line for line in lines), f"{lines}")


def test_torchrun_with_a_static_rendezvous():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    lines = ran([sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "static", "--nnodes", "1", "--node-rank", "0", "--master-addr", "127.0.0.1",
                 "--master-port", str(port), "--nproc-per-node", "2", PROGRAM], OMP_NUM_THREADS="1")
    expect(len(lines) == 2 and all("same True" in line for line in lines), f"{lines}")


def test_all_start_methods_over_a_file(folder):
    lines = ran([sys.executable, PROGRAM, folder])
    expect(len(lines) == 6 and all("same True" in line for line in lines), f"{lines}")
