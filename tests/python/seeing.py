"""What the tests of PyTorch scripts over Gloo under watch share: seen_program.py started alone and watched, and what came of it.
Imported first: it goes on under .venv's Python."""
import os
import re
import subprocess
import sys

from runner import folder, require
import venv_torch  # noqa: F401
import package  # noqa: F401  finds the package of this tree
import slackline

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen_program.py")
FORKED = os.path.join(os.path.dirname(venv_torch.__file__), "forked_ranks.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
require("slackline", "libslackline_probe.so", "redis-server")
os.environ["OMP_NUM_THREADS"] = "1"


def torchrun(ranks, *words):
    return [*TORCHRUN, "--standalone", "--nproc-per-node", str(ranks), PROGRAM, *words]


def forked(ranks, *words, program=PROGRAM):
    """As torchrun starts it, in less time."""
    return [sys.executable, FORKED, str(ranks), "torch.distributed", program, *words]


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
