# labels: slow
"""As test_same_bits.py at a width of 768, in f32 and bf16: more schedules, numbers of threads, and ranks that are bound."""
import sys

sys.dont_write_bytecode = True
from bits import WIDE, compare
from runner import build, folder, skip, source



def test_schedules_threads_and_binding_change_no_bit():
    compare(build, source, folder, "wide", WIDE, {
        "2-ranks-zb-h1": ["parallel.pipeline=2", "schedule=zb-h1"],
        "4-ranks-adaptra": ["parallel.pipeline=4", "schedule=adaptra"],
        "1-thread": ["device.threads=1"],  # the reference has as many as the machine gives
        "3-threads": ["device.threads=3"],
        "bound": ["device.threads=1", "device.bind=always"],
    })


def test_the_same_in_bf16():
    " avx512_bf16" in open("/proc/cpuinfo").read() or skip("this processor has no avx512_bf16")
    compare(build, source, folder, "wide-bf16", WIDE.replace("adapt: false", "adapt: false\ndevice: {precision: bf16}"), {
        "2-ranks-zb-h1": ["parallel.pipeline=2", "schedule=zb-h1"],
        "4-ranks-2-threads": ["parallel.pipeline=4", "schedule=adaptra", "device.threads=2"],
        "1-thread": ["device.threads=1"],
    })
