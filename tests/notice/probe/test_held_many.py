# labels: slow
"""test_held.py with 1,000 holds."""
import os

os.environ.setdefault("SL_HOLDS", "1000")
from test_held import test_a_held_program_goes_on_as_if_nothing_had_happened  # noqa: E402,F401
