# labels: slow alone
"""Every way of standing that stands.c and stands.py know, under both families of MPI and over Gloo: the right rank is named, none is wrong."""
import os
import sys

from runner import build, require, source

sys.path.insert(0, os.path.join(source, "tests", "torch"))
import venv_torch  # noqa: E402,F401  continues under .venv's Python
from hanging import FAMILIES, GLOO, MPI, stands, text_of, usable  # noqa: E402

require("redis-server")


def run(family, kinds, folder, ranks):
    results = {}
    for number, kind in enumerate(kinds):
        wrong = number % ranks
        results[kind], event = stands(build, folder, family, kind, wrong, ranks, 5 if family == "gloo" else 3)
        print(family, kind, "rank", wrong, results[kind], "" if results[kind] == "named" else text_of(event), flush=True)
    assert "wrong" not in results.values(), results
    assert sum(result == "named" for result in results.values()) >= 0.9 * len(results), results


def test_mpi_programs(folder):
    for family in filter(usable, FAMILIES):
        run(family, MPI, folder, 4)


def test_gloo_scripts(folder):
    run("gloo", GLOO, folder, 3)
