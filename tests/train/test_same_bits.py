"""The loss of every iteration and weights_hash are the same bits whatever the number of pipeline ranks, the schedule,
the regime, the swaps in between and the threads of a rank; `test_same_bits_wide.py` tries more at a width of 768."""
import sys

sys.dont_write_bytecode = True
from bits import SMALL, WIDE, compare
from runner import build, folder, source



def test_ranks_and_schedules_change_no_bit():
    compare(build, source, folder, "small", SMALL, {
        "2-ranks-1f1b": ["parallel.pipeline=2"],
        "4-ranks-gpipe": ["parallel.pipeline=4", "schedule=gpipe"],
        "4-ranks-zb-h1": ["parallel.pipeline=4", "schedule=zb-h1"],
        "4-ranks-zb-h2": ["parallel.pipeline=4", "schedule=zb-h2"],
        "4-ranks-adaptra": ["parallel.pipeline=4", "schedule=adaptra"],
        "4-ranks-inorder": ["parallel.pipeline=4", "schedule=adaptra", "communication=inorder"],
        "3-ranks-auto": ["parallel.pipeline=3", "schedule=auto"],
    })


def test_threads_change_no_bit():
    compare(build, source, folder, "wide", WIDE, {
        # the reference has as many threads as the machine gives
        "4-ranks-1-thread": ["parallel.pipeline=4", "schedule=adaptra", "device.threads=1"],
    })


def test_a_swap_changes_no_bit():
    # a swap and a return in the middle: paced ops, a link that is slow for iterations 2 to 9
    many = SMALL.replace("iterations: 5", "iterations: 26").replace("microbatches: 6", "microbatches: 12")
    compare(build, source, folder, "paced", many, {
        "4-ranks-swap": ["parallel.pipeline=4", "schedule=adaptra", "adapt=true", "device.pace_ms={F: 6, I: 6, W: 6}",
                         "adaptation={hold: 2, dwell: 5, gain: 0.01}",
                         "faults=[{iterations: [2, 9], link: [0, 1], latency_ms: 40}]"],
        "4-ranks-unadapted": ["parallel.pipeline=4", "schedule=zb-h1", "device.pace_ms={F: 4, I: 4, W: 4}",
                              "faults=[{iterations: [2, 9], link: [2, 3], latency_ms: 20, one_way: true}]"],
    })
