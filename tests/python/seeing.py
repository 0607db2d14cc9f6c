"""What the tests of PyTorch scripts over Gloo under watch share: seen_program.py started alone and watched, and what came of it.
Imported first: it goes on under .venv's Python."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.argv[2], "tests", "torch"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import venv_torch  # noqa: E402,F401
from package import build, folder, skip  # noqa: E402

import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402

import slackline  # noqa: E402

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen_program.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
if not os.path.exists(os.path.join(build, "slackline")) or not os.path.exists(os.path.join(build, "libslackline_probe.so")):
    skip("slackline or its probe is not built")
if not shutil.which("redis-server"):
    skip("redis-server is missing")
os.environ["OMP_NUM_THREADS"] = "1"


def torchrun(ranks, *words):
    return [*TORCHRUN, "--standalone", "--nproc-per-node", str(ranks), PROGRAM, *words]


def told(text):
    """What ranks printed: several may write at once, so a line's end is not always where it should be."""
    return sorted(re.findall(r"rank \d+: (?:[0-9a-f]{64}|all right|wrong.*)", text))


def watch(name, words, *options, **environment):
    """A program under watch, and what its ranks printed."""
    seen = slackline.watch(words, out=os.path.join(folder, name), options=["--http", "off", *options], stdin=subprocess.DEVNULL,
                           stdout=open(os.path.join(folder, name + ".out"), "w"),
                           stderr=open(os.path.join(folder, name + ".err"), "w"), env={**os.environ, **environment}, timeout=300)
    with open(os.path.join(folder, name + ".out")) as file:
        return seen, told(file.read())


def alone(words, **environment):
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300, stdin=subprocess.DEVNULL)
    return done.returncode, told(done.stdout)


def errors(name):
    with open(os.path.join(folder, name + ".err")) as file:
        return file.read()
