"""labels: long
slackline explain on traces with everything at once that makes real ones hard to read: virtual stages, tensor ranks, clocks milliseconds apart,
missing durations, early receives, messages that overlap. They are made by rules that explain does not know (independent_job.py), which also
give the cause and its cost."""
import json
import os
import subprocess

from independent_job import Job, breadth, chrome
from runner import build, expect

TOLERANCE = 0.02  # of the iteration


def check(folder, what, job, cause, clocks=5.0, lacking=0.05, pipeline=None, replica=None, **shape):
    events, _ = chrome(job, clocks, lacking, **shape)
    path = os.path.join(folder, "trace.json")
    with open(path, "w") as file:
        json.dump({"traceEvents": events}, file)
    done = subprocess.run([os.path.join(build, "slackline"), "explain", path, "--format", "json"], capture_output=True, text=True)
    expect(done.returncode == 0, f"{what}: exit {done.returncode} {done.stderr}")
    answer = json.loads(done.stdout)
    first, truth = answer["causes"][0], job.cost() if cause != "none" else 0
    for key in ("tensor", "data", "pipeline", "chunks"):
        expect(answer["layout"][key] == getattr(job, key), f"{what}: layout {answer['layout']}")
    expect(not answer["skipped"], f"{what}: left out {answer['skipped']}")
    expect(abs(answer["median_difference"]) < 0.015, f"{what}: replayed {answer['median_difference']:+.3%} of the traced time")
    expect(first["cause"] == cause, f"{what}: {first['text']}, not {cause}")
    expect(abs(first["cost"] - truth) < TOLERANCE, f"{what}: costs {first['cost']:.4f}, not {truth:.4f}")
    expect(len(answer["causes"]) == 1, f"{what}: also {[also['text'] for also in answer['causes'][1:]]}")
    expect(pipeline is None or first.get("pipeline") == pipeline, f"{what}: pipeline rank {first.get('pipeline')}")
    expect(replica is None or first.get("replica") == replica, f"{what}: replica {first.get('replica')}")


def test_nothing(folder):
    check(folder, "healthy", Job(tensor=2, data=4, pipeline=4, ahead=2, seed=3), "none")


def test_a_slow_worker_with_tensor_ranks(folder):
    job = Job(tensor=2, data=4, pipeline=8, order=breadth, eager=True, ahead=0, noise=0.01, slow={(5, 1): 1.6}, seed=2)
    check(folder, "64 workers", job, "worker", pipeline=5, replica=1)


def test_a_slow_stage_among_shuffled_pids(folder):
    job = Job(data=8, pipeline=4, chunks=3, ahead=2, noise=0.03, cut={2: 1.4}, seed=28)
    check(folder, "shuffled", job, "stage", pipeline=2, shuffled=True)


def test_a_long_last_chunk(folder):
    """The layers after the last chunk's make it longer; the others of its rank are as long as elsewhere."""
    job = Job(tensor=2, data=4, pipeline=4, order=breadth, eager=True, cut={(3, 1): 2.2}, seed=19)
    check(folder, "last chunk", job, "stage", pipeline=3)


def test_lengths_of_microbatches(folder):
    job = Job(data=8, pipeline=4, steps=4, ahead=0, eager=True, noise=0.03, lengths=0.4, seed=1)
    check(folder, "lengths", job, "lengths", sequence=True)


def test_a_link_that_is_slow_in_one_direction(folder):
    """Sends end before their messages come, so the delay looks like an offset of the clocks of this pair alone."""
    for data in (2, 6):
        job = Job(data=data, pipeline=4, order=breadth, eager=True, ahead=2, noise=0.01, links={(3, 2, 1, "B"): 25.0}, seed=35)
        check(folder, f"{data} replicas", job, "link", pipeline=2, replica=1)


def test_links_between_two_ranks(folder):
    """Twelve milliseconds, more than twice as long as between two messages: several are on their way."""
    job = Job(data=6, pipeline=4, ahead=2, order=breadth, links={(1, 2, None, "F"): 12.0}, seed=8)
    check(folder, "links", job, "links")


def test_slow_collectives(folder):
    check(folder, "collectives", Job(tensor=4, data=4, pipeline=4, collectives={1: 30.0}, seed=18), "collectives")
