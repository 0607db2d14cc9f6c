"""Environments of frameworks in their pinned versions, below the build folder. Each has the PyTorch of .venv, and the packages of
tests/torch/NAME.txt, which are installed at the first use without what they depend on: no other PyTorch is ever fetched."""
import fcntl
import glob
import os
import re
import subprocess
import sys

from runner import build, skip, source

base = os.path.join(source, ".venv", "bin", "python")


def has_torch():
    """Whether .venv has the PyTorch that these tests are for; told without importing it, which takes seconds."""
    return os.path.exists(base) and bool(glob.glob(os.path.join(source, ".venv", "lib", "python3*", "site-packages", "torch-2.13.*.dist-info")))


def environment(name):
    """Its Python. Skips if pip cannot install the packages."""
    wanted = os.path.join(source, "tests", "torch", name + ".txt")
    where = os.path.join(build, "envs", name)
    complete, python = os.path.join(where, "complete"), os.path.join(where, "bin", "python")
    if not has_torch():
        skip("no .venv with torch 2.13 (tools/test --full makes it)")
    if not os.path.exists(os.path.join(build, "libslackline.so")):
        skip("libslackline.so is not built")
    os.makedirs(where, exist_ok=True)
    with open(where + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(wanted) as file:
            pinned = file.read()
        if not os.path.exists(complete) or open(complete).read() != pinned:
            install = [python, "-m", "pip", "install", "--no-deps"]
            for command in ([base, "-m", "venv", "--clear", where], [*install, "setuptools==80.9.0"], [*install, "--no-build-isolation", "-r", wanted]):
                if command[0] == python:
                    shared = subprocess.run([base, "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True).stdout.strip()
                    own = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True).stdout.strip()
                    with open(os.path.join(own, "torch.pth"), "w") as file:
                        file.write(os.path.dirname(shared) + "\n")
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500)
                if done.returncode:
                    skip(f"{name} cannot be installed: " + (re.findall(r"ERROR: .*", done.stdout) or done.stdout.splitlines() or ["no output"])[-1])
            with open(complete, "w") as file:
                file.write(pinned)
        torchrun = os.path.join(where, "bin", "torchrun")  # which belongs to PyTorch, so it is not among those packages
        if not os.path.exists(torchrun):
            with open(torchrun, "w") as file:
                file.write(f"#!{python}\nimport sys\nfrom torch.distributed.run import main\nsys.exit(main())\n")
            os.chmod(torchrun, 0o755)
    return python


def variables(*path):
    """Of a program that uses slackline's package and library, and the modules of further folders."""
    paths = [os.path.join(source, *one) for one in (("python",), ("examples", "python"), ("tests", "torch"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *path]), "SLACKLINE_LIBRARY": os.path.join(build, "libslackline.so"),
            "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}


def run(python, *command, seconds=400, path=()):
    """(exit code, output) of a Python program. It is ended with all its processes."""
    process = subprocess.Popen([python, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, env=variables(*path))
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output = process.communicate()[0] + f"\nstill running after {seconds} s"
    sys.stdout.write(output if process.returncode else "")
    return process.returncode, output
