# labels: long torch
"""The processes of an adapted job end as they would without, at the end of a script that still holds the schedule: the live bench, shortened."""
import dataclasses
import os
import sys

from adapt_torch import source

here = os.path.abspath(source)
sys.path[:0] = [os.path.join(here, "bench", "pytorch"), os.path.join(here, "bench")]
os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.path.join(here, "python"), os.path.join(here, "examples", "python")])
from cases import NAMED, mixture  # noqa: E402
import ranks  # noqa: E402


def test_processes_end_with_0():
    """Else `run` raises the exit code or the signal of the first that failed."""
    for _ in range(2):
        found = ranks.run(dataclasses.replace(next(iter(NAMED)), steps=12), live=True)
        assert len(found["times"]) == 12 and not found["why"], found


def test_processes_that_end_during_a_search_end_with_0():
    """The first rank searches for a better plan once it has measured the healthy job: for a moment in one of these lengths."""
    for steps in (6, 6, 7, 8):
        found = ranks.run(mixture(5, steps=steps), live=True)
        assert len(found["times"]) == steps and not found["why"], found
