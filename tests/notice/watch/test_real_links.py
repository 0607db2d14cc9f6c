# labels: long alone net
"""A ring of mpi4py's own benchmark and NetPIPE, unchanged, on 4 hosts (network namespaces) under watch: when one direction of
one link gets slow, the onset and that link are named, and the relief when it is over."""
import os
import sys

from real import Watched, mpi4py
from runner import build, folder, has_facts, require, skip
from star import Star, permitted

require("mpirun", "redis-server", "NPopenmpi")
if why := permitted():
    skip(why)
MEGABIT, SLOW = 1000, 250


def a_slow_direction_is_named(folder, words, link):
    def inside(watch):
        return star.mpirun(folder, 1, watch)

    with Star(hosts=4, mbit=MEGABIT) as star, Watched(build, folder, words, ["--http", "off"], inside=inside) as run:
        _, after = run.wait_for("profiled")
        star.slow(*link, SLOW)
        _, after = run.wait_for("onset", after)
        verdict, after = run.wait_for("verdict", after)
        assert verdict.get("link") == list(link), run.told()
        # ranks that send each other nothing could sit there: in a ring of four the opposite ones, between two the others
        advice = {}
        while advice.get("link") != list(link):  # the verdict may name others beside it
            advice, after = run.wait_for("advice", after)
        # Which pair sends least is known where the profile of the healthy program holds all of them; else that is said.
        topology = advice.get("strategy") == "topology" and has_facts(advice["decided"], "60 s, 0.0%")
        assert topology or "topology" in advice["why"], run.told()
        star.restore()
        run.wait_for("relief", after)


def test_a_slow_direction_of_a_ring_in_python_is_named(folder):
    python = mpi4py(folder)
    python or skip("mpi4py cannot be installed")
    words = ["env", f"PYTHONPATH={python['PYTHONPATH']}", "MPI4PY_MPIABI=openmpi", sys.executable, "-m", "mpi4py.bench", "ringtest",
             "-n", "1000000", "-l", "1000000"]
    a_slow_direction_is_named(folder, words, (1, 2))


def test_a_slow_direction_of_netpipe_is_named(folder):
    """The first and the last rank play; the others watch."""
    a_slow_direction_is_named(folder, ["NPopenmpi", "-l", "1000000", "-u", "1000000", "-p", "0", "-n", "1000000", "-o",
                                       os.path.join(folder, "np.out")], (3, 0))
