# labels: slow
"""test_held_programs.py with 30 holds."""
import os

os.environ.setdefault("SL_HOLDS", "30")
from test_held_programs import given, test_hpcc_says_the_same_when_held, test_lammps_says_the_same_when_held, test_mpi4py_says_the_same_when_held  # noqa: E402,F401
