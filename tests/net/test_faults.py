# labels: slow net
"""At least a hundred randomised faults during training over two rails (delegates killed, rails down, flapping, deaf in one
direction, all down for up to 5 s): bit-identical to the undisturbed run, nothing left behind.

Usage: storm.py BUILD_DIR SOURCE_DIR [--faults N] [--write FILE]. SL_SEED repeats the faults (not their timing against the run)."""
import sys

from faulted import Faulted, Lab, needs, seed_of, summary
from runner import build, source


def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def test_a_hundred_faults_change_no_bit():
    needs(build)
    seed, outcomes, count = seed_of(), [], int(option("--faults", 100))
    with Faulted(build, source, seed) as faulted, Lab(rails=2) as lab:
        faulted.undisturbed()
        while len(faulted.thrown) < count:
            outcomes.append(faulted.round(lab, count))
        text = summary(faulted.thrown, faulted.reference, outcomes)
    print(text)
    if file := option("--write"):
        from page import machine, write
        write(file, "Faults", f"`tests/runner.py tests/net/test_faults.py BUILD_DIR SOURCE_DIR --write {file}`, seed {seed}, "
              f"{machine()}. {text}")
