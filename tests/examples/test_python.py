# labels: slow torch alone
"""The examples in Python: the commands of their first lines, with .venv as the environment, and what they say to expect."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from heads import broken, of_kind, run, tries  # noqa: E402

build, source = map(os.path.abspath, sys.argv[1:3])
venv = os.path.join(source, ".venv")
if subprocess.run([os.path.join(venv, "bin", "python"), "-c", "import torch.distributed.pipelining"], capture_output=True).returncode if os.path.exists(venv) else True:
    print("skipped: no .venv with PyTorch (tools/test --full makes it)")
    sys.exit(77)
if not os.path.exists(os.path.join(build, "libslackline.so")):
    print("skipped: libslackline.so is not built")
    sys.exit(77)
failed = 0
with tempfile.TemporaryDirectory() as folder:
    for name, target in (("examples", os.path.join(source, "examples")), ("build", build), ("env", venv)):
        os.symlink(target, os.path.join(folder, name))
    for name in of_kind(source, "python"):
        for one in tries(os.path.join(source, "examples", name)):
            for attempt in range(3): # what is measured is measured again
                code, output = run(one.command, folder, build, 400, PYTHONPATH=os.path.join(source, "python"), PYTHONDONTWRITEBYTECODE="1")
                lost = broken(one, output)
                if code or lost is None:
                    break
            if code or lost is not None:
                failed += 1
                print(f"FAILED: examples/{name}: {one.command}: exit {code}, no '{lost}' in\n{output}")
print(f"{failed} failed")
sys.exit(1 if failed else 0)
