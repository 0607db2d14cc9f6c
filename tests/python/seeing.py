"""What the tests of PyTorch scripts over Gloo under watch share: seen_program.py started alone and watched, and what came of it.
Imported first: it goes on under .venv's Python."""
import functools
import os
import re
import subprocess
import sys

from runner import folder, require
import venv_torch  # noqa: F401
import package  # noqa: F401  finds the package of this tree
import slackline
from forked_ranks import ForkedRanks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen_program.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
require("slackline", "libslackline_probe.so", "redis-server")
os.environ["OMP_NUM_THREADS"] = "1"


def torchrun(ranks, *words):
    return [*TORCHRUN, "--standalone", "--nproc-per-node", str(ranks), PROGRAM, *words]


@functools.lru_cache(maxsize=None)
def forked_ranks():
    return ForkedRanks(sys.executable, "torch.distributed")


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


def alone(ranks, *words, program=PROGRAM, **environment):
    """A program without watching: its exit code as torchrun's, and what its ranks printed."""
    code, output = forked_ranks().run(ranks, program, *words, **environment)
    return code, told(output)


def errors(name):
    with open(os.path.join(folder, name + ".err")) as file:
        return file.read()
