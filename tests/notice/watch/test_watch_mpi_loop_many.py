# labels: slow
"""test_watch_mpi_loop.py with 200 programs."""
import os

os.environ.setdefault("SL_PROGRAMS", "200")
from test_watch_mpi_loop import test_what_is_kept_stays_bounded  # noqa: E402,F401
