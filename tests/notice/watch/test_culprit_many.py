# labels: slow alone
"""20 runs of loops with nonblocking and blocking exchanges and collectives, in each of which one rank works 1.4 to 2.5 times as
long: it alone is suspected and named, in all of them.

Usage: test_culprit_many.py BUILD_DIR SOURCE_DIR"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from culprit import SHAPES, runs

runs(os.path.abspath(sys.argv[1]), [SHAPES[i % len(SHAPES)] for i in range(20)])
