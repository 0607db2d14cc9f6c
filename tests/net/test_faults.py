# labels: slow net
"""At least a hundred randomised faults during training over two rails (delegates killed, rails down, flapping, deaf in one
direction, all down for up to 5 s): bit-identical to the undisturbed run, nothing left behind.

Usage: storm.py BUILD_DIR SOURCE_DIR [--faults N] [--write FILE]. SL_SEED repeats the faults (not their timing against the run)."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from faulted import Faulted, Lab, needs, seed_of, summary

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("source")
parser.add_argument("--faults", type=int, default=100)
parser.add_argument("--write", metavar="FILE")
arguments = parser.parse_args()

needs(arguments.build)
seed = seed_of()
outcomes = []
with Faulted(arguments.build, arguments.source, seed) as faulted, Lab(rails=2) as lab:
    faulted.undisturbed()
    while len(faulted.thrown) < arguments.faults:
        outcomes.append(faulted.round(lab, arguments.faults))
    text = summary(faulted.thrown, faulted.reference, outcomes)
print(text)
if arguments.write:
    from page import machine, write
    write(arguments.write, "Faults", f"`tests/net/test_faults.py BUILD_DIR SOURCE_DIR --write {arguments.write}`, seed {seed}, "
          f"{machine()}. {text}")
