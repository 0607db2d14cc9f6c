# labels: slow torch alone
"""The examples in Python: the commands of their first lines, with .venv as the environment, and what they say to expect. Those of a framework
run in its environment, if its own test has made it (tests/torch/environments.py)."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from heads import broken, of_kind, run, tries
from runner import build, expect, folder, require, skip, source

venv = os.path.join(source, ".venv")
if subprocess.run([os.path.join(venv, "bin", "python"), "-c", "import torch.distributed.pipelining"], capture_output=True).returncode if os.path.exists(venv) else True:
    skip("no .venv with PyTorch (tools/test --full makes it)")
require("libslackline.so")


def test_each_example_prints_what_its_head_says():
    for name, target in (("examples", os.path.join(source, "examples")), ("build", build)):
        os.symlink(target, os.path.join(folder, name))
    for name in of_kind(source, "python"):
        framework = os.path.join(build, "envs", os.path.basename(name).split("_")[0])
        environment = framework if name.endswith("_adapt.py") else venv
        if not os.path.exists(os.path.join(environment, "complete")) and environment != venv:
            print(f"skipped: examples/{name}: {framework} is not installed")
            continue
        if os.path.lexists(os.path.join(folder, "env")):
            os.remove(os.path.join(folder, "env"))
        os.symlink(environment, os.path.join(folder, "env"))
        for one in tries(os.path.join(source, "examples", name)):
            for attempt in range(3): # what is measured is measured again
                code, output = run(one.command, folder, build, 400, PYTHONPATH=os.path.join(source, "python"), PYTHONDONTWRITEBYTECODE="1")
                lost = broken(one, output)
                if code or lost is None:
                    break
            expect(code == 0 and lost is None, f"examples/{name}: {one.command}: exit {code}, no '{lost}' in\n{output}")
