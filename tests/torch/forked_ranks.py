"""One process imports PyTorch, and each rank of a job is a copy of it: a rank costs a tenth of the processor's time that it costs from a Python's
start on.

    ranks = ForkedRanks(python, "torch.distributed")              # imported once, for all jobs of a test file
    code, output = ranks.run(4, "program.py", "an argument")      # as torchrun runs it on one node; 0 ranks: as Python runs it

A rank runs the script as __main__ and ends as any Python does: threads are joined, functions of atexit are called, the interpreter is finalized.
What a copy cannot show is a start: of torchrun, of multiprocessing, under a preloaded library. Tests of those start it themselves."""
import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time

GRACE_S = 5  # for the other ranks, once one has failed
END = b"\0"  # between a job's output and its exit codes
kept = []  # what the names of a rank's script stand for, until the end of the process


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class ForkedRanks:
    """Used by the test. Its process ends with the test's. Several tests may run jobs at once."""

    def __init__(self, python, *modules, env=None):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("")  # to a name that no other has
            listener.listen()
            self._name = listener.getsockname()
            words = [python, os.path.abspath(__file__), str(listener.fileno()), *modules]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env={**(env or os.environ), "OMP_NUM_THREADS": "1"})
        atexit.register(lambda: (process.stdin.close(), process.wait()))  # so that its time is the test's

    def run(self, ranks, program, *arguments, seconds=400, **environment):
        """The exit code, 1 if any of the ranks has failed, and what all have printed. program: a script, or the name of a module."""
        job = {"ranks": ranks, "program": program, "arguments": arguments, "environment": environment, "seconds": seconds, "folder": os.getcwd()}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._name)
            connection.sendall(json.dumps(job).encode() + b"\n")
            output, _, codes = b"".join(iter(lambda: connection.recv(1 << 16), b"")).rpartition(END)
        codes = json.loads(codes)  # fails if the process has not imported what it should
        code = codes[0] if not ranks else int(any(codes))
        output = output.decode(errors="replace")
        sys.stdout.write(output + f"exit codes {codes}\n" if code else "")
        return code, output


# ---- the process that is copied ----------------------------------------------------------------------------------------------


def next_job(listener):
    """Returns in a copy for each job, with the connection to its test; in the process itself when the test is over."""
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return connection
        connection.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    return None


def become(rank, job, port, connection):
    """Makes this process a rank of a job."""
    os.setpgid(0, 0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for stream in (1, 2):
        os.dup2(connection.fileno(), stream)
    connection.close()
    os.chdir(job["folder"])
    os.environ.update(job["environment"])
    if job["ranks"]:
        ranks = str(job["ranks"])
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=ranks, LOCAL_WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def end_all(processes):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)


def rank_of(job, connection):
    """Returns in each rank. The process that has started them awaits their end, and does not return."""
    port, codes, running = free_port(), {}, {}
    for rank in range(max(1, job["ranks"])):
        process = os.fork()
        if process == 0:
            become(rank, job, port, connection)
            return rank
        running[process] = rank
    until = time.monotonic() + job["seconds"]
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process:
            codes[running.pop(process)] = os.waitstatus_to_exitcode(status)
            until = min(until, time.monotonic() + GRACE_S) if any(codes.values()) else until
        elif time.monotonic() > until:
            end_all(running)
            until += GRACE_S
        elif select.select([connection], [], [], 0.02)[0]:  # the test has ended
            end_all(running)
            os._exit(1)
    connection.sendall(END + json.dumps([code for _, code in sorted(codes.items())]).encode())
    os._exit(0)


def main():
    for module in ["torch.distributed.pipelining", *sys.argv[2:]]:
        importlib.import_module(module)
    sys.stdout.flush()
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        connection = next_job(listener)
    if connection is None:
        return
    with connection:
        job = json.loads(connection.makefile().readline())
        rank_of(job, connection)
    program, sys.argv = job["program"], [job["program"], *job["arguments"]]
    if program.endswith(".py"):
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        kept.append(runpy.run_path(program, run_name="__main__"))
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
