# labels: long alone
"""The rank that works longer is suspected and named, and nobody who waits for it, in loops with nonblocking and with blocking
exchanges. test_culprit_many.py tries more.

Usage: test_culprit.py BUILD_DIR SOURCE_DIR"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from culprit import runs

runs(os.path.abspath(sys.argv[1]), ("ring", "long-shifts", "pipeline"))
