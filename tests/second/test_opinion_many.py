# labels: slow
"""test_opinion.py on 100,000 random cases. SL_SEED chooses others; SL_CASES divides them: the number per 1,000."""
import os

import hindsight
import tries

AT_ONCE = 2
share = int(os.environ.get("SL_CASES", 1000)) / 1000


def test_times():
    tries.agree(tries.order, round(70000 * share), asked_by=None)


def test_mistakes():
    tries.agree(tries.spoiled, round(15000 * share), asked_by=None)


def test_moves():
    tries.agree(tries.moved, round(6000 * share), asked_by=None)


def test_plans():
    tries.agree(tries.plan, round(6000 * share), asked_by=None)


def test_best_of_all_orders():
    tries.agree(tries.best, round(600 * share), asked_by=None)


def test_interleavings():
    tries.agree(tries.interleaved, round(2300 * share), asked_by=None)


def test_check():
    tries.agree(tries.checked, round(100 * share), asked_by=None)


def test_small_jobs_with_a_fault():
    tries.agree(hindsight.fault, round(1000 * share), asked_by=None)
