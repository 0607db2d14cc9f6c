# labels: slow alone
"""20 runs of loops with nonblocking and blocking exchanges and collectives, in each of which one rank works 1.4 to 2.5 times as
long: it alone is suspected and named, in all of them."""

from culprit import SHAPES, runs
from runner import build


def test_the_rank_that_works_longer_is_named():
    runs(build, [SHAPES[i % len(SHAPES)] for i in range(20)])
