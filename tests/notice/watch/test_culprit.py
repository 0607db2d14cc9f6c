# labels: long alone
"""The rank that works longer is suspected and named, and nobody who waits for it, in loops with nonblocking and with blocking
exchanges. test_culprit_many.py tries more."""

from culprit import runs
from runner import build


def test_the_rank_that_works_longer_is_named():
    runs(build, ("ring", "long-shifts", "long-pipeline"))
