"""Watched programs one rank of which works longer from some iteration on: what is suspected, and the verdict."""
import os
import random
import re
import subprocess
import tempfile

from real import Watched, mpirun
from runner import require

SHAPES = ("ring", "shifts", "long-ring", "long-pipeline", "long-shifts", "long-blocking", "long-allreduce", "long-alltoall")
NAMES = r"device of rank \d+|host of rank \d+|link \d+ <?-> \d+|group \w+|cannot tell"


def program(folder):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "neighbors.c")
    subprocess.run(["mpicc", "-O1", "-o", os.path.join(folder, "neighbors"), source], check=True)
    return os.path.join(folder, "neighbors")


def named_in(event):
    return re.findall(NAMES, event["seen"])


def run(build, shape, rank, factor):
    """Nothing but this rank is suspected or named."""
    with tempfile.TemporaryDirectory() as folder:
        words = mpirun(4, [program(folder), shape, "20", str(rank), str(factor), "300"])
        with Watched(build, folder, words, ["--http", "off"]) as watched:
            _, after = watched.wait_for("onset")
            suspects, after = watched.wait_for("profiled", after)
            verdict, _ = watched.wait_for("verdict", after)
            all_of_them = [event for event in watched.events() if event["kind"] == "verdict"]
            assert set(named_in(suspects)) == {f"device of rank {rank}"}, watched.told()
            assert verdict.get("rank") == rank and len(all_of_them) == 1, watched.told()
            assert set(named_in(verdict)) == {f"device of rank {rank}"}, watched.told()
            assert "contention" not in verdict["seen"], watched.told()  # it sleeps: nobody takes its processor


def runs(build, shapes):
    require("mpirun", "mpicc", "redis-server")
    seed = int(os.environ.get("SL_SEED", "7"))
    print(f"seed {seed} (SL_SEED)")
    chosen = random.Random(seed)
    for shape in shapes:
        rank, factor = chosen.randrange(4), round(chosen.uniform(1.4, 2.5), 2)
        run(build, shape, rank, factor)
        print(f"passed: {shape}, rank {rank} x {factor}", flush=True)
