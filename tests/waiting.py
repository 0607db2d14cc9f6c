"""Waiting for a condition instead of a time. A deadline may be generous: where all is well it costs nothing."""
import time


def until(holds, seconds, every=0.02):
    """What holds() gives, as soon as that is true; when `seconds` are over what it gave last."""
    end = time.monotonic() + seconds
    while not (value := holds()) and time.monotonic() < end:
        time.sleep(every)
    return value
