"""labels: long
slackline explain on traces of buffered sends and receives that are asked for late (buffered_job.py): the planted cause and its cost come out whatever
the names' case, with begin and end events, clocks apart and drifting, fewer microbatches than ranks, and counts that change from step to step."""
import json
import os
import subprocess

from buffered_job import Job, chrome
from runner import build, expect

TOLERANCE = 0.015  # of the iteration


def check(folder, what, job, cause, planted, pipeline=None, replica=None, **shape):
    path = os.path.join(folder, "trace.json")
    with open(path, "w") as file:
        json.dump(chrome(job, **shape), file)
    done = subprocess.run([os.path.join(build, "slackline"), "explain", path, "--format", "json"], capture_output=True, text=True)
    expect(done.returncode == 0, f"{what}: exit {done.returncode} {done.stderr}")
    answer = json.loads(done.stdout)
    first, cost = answer["causes"][0], job.cost(**planted) if planted else 0
    layout = [answer["layout"][key] for key in ("tensor", "data", "pipeline", "chunks")]
    expect(layout == [1, job.d, job.p, job.v], f"{what}: layout {layout}")
    expect(first["cause"] == cause, f"{what}: {first['text']}, not {cause}")
    expect(abs(first["cost"] - cost) < TOLERANCE, f"{what}: costs {first['cost']:.4f}, not {cost:.4f}")
    expect(pipeline is None or first.get("pipeline") == pipeline, f"{what}: pipeline rank {first.get('pipeline')}")
    expect(replica is None or first.get("replica") == replica, f"{what}: replica {first.get('replica')}")
    expect(abs(answer["median_difference"]) < 0.01, f"{what}: replayed {answer['median_difference']:+.3%} of the traced time")


def test_nothing(folder):
    check(folder, "healthy", Job(4, 2, 8, 5, seed=18), "none", {}, apart=8.0)


def test_a_slow_worker(folder):
    job = Job(4, 2, 8, 5, seed=11)
    job.worker[1, 2] = 1.5
    for apart in (0.0, 5.0):
        check(folder, f"clocks {apart} ms apart", job, "worker", {"worker": {}}, pipeline=2, replica=1, apart=apart, spell=str.title)
    job.drift = 50.0
    check(folder, "drifting", job, "worker", {"worker": {}}, pipeline=2, replica=1, apart=3.0, spell=str.upper)


def test_a_slow_worker_among_many(folder):
    job = Job(8, 16, 16, 4, seed=19)
    job.worker[9, 5] = 1.3
    check(folder, "128 workers", job, "worker", {"worker": {}}, pipeline=5, replica=9, apart=10.0, number="seq_id")


def test_fewer_microbatches_than_ranks(folder):
    job = Job(8, 2, 4, 5, seed=24)
    job.worker[1, 5] = 1.6
    check(folder, "4 microbatches", job, "worker", {"worker": {}}, pipeline=5, replica=1, apart=5.0)


def test_virtual_stages(folder):
    job = Job(2, 2, 8, 5, chunks=2, seed=16)
    job.worker[0, 1] = 1.4
    check(folder, "2 chunks", job, "worker", {"worker": {}}, pipeline=1, replica=0, apart=3.0)


def test_one_stall(folder):
    job = Job(4, 2, 8, 6, seed=20)
    job.stall[3, 1, 2, 5] = 1000.0
    check(folder, "one second", job, "worker", {"stall": {}}, pipeline=2, replica=1, apart=3.0)


def test_an_uneven_cut(folder):
    job = Job(4, 4, 8, 5, seed=12)
    job.stage[3] = 1.6
    check(folder, "last stage", job, "stage", {"stage": {}}, pipeline=3, apart=2.0, number="seq_id", pairs=True)
    job = Job(6, 1, 12, 5, seed=27)
    job.stage[4] = 1.5
    check(folder, "one replica", job, "stage", {"stage": {}}, pipeline=4, apart=5.0)


def test_more_microbatches_in_each_step(folder):
    job = Job(4, 2, 8, 6, seed=22)
    job.counts = lambda step: 4 + 2 * step
    job.stage[0] = 1.5
    check(folder, "batch grows", job, "stage", {"stage": {}}, pipeline=0, apart=3.0)


def test_a_link_that_is_slow_in_both_directions(folder):
    """Its replica is not slow as a whole."""
    job = Job(4, 2, 8, 5, seed=14)
    job.link[0, 1, 2] = job.link[0, 2, 1] = 30.0
    check(folder, "links", job, "links", {"link": {}}, apart=4.0, without=0.3)


def test_lengths(folder):
    job = Job(2, 4, 8, 8, seed=13)
    length = [0.4, 0.7, 1.0, 1.0, 1.6, 2.6]
    job.length = lambda step, replica, microbatch: length[(7 * step + 5 * replica + 3 * microbatch + step * replica * microbatch) % 6]
    mean = sum(job.length(i, d, m) for i in range(8) for d in range(4) for m in range(8)) / 256
    check(folder, "lengths", job, "lengths", {"length": lambda *_: mean}, apart=3.0)


def test_a_slow_group(folder):
    job = Job(4, 4, 6, 5, seed=15)
    job.group[0] = 8.0
    check(folder, "collectives of one rank", job, "collectives", {"group": {}}, apart=4.0)
