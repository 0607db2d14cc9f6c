# labels: slow alone
"""Every way of standing that stands.c and stands.py know, under both families of MPI and over Gloo: the right rank is named, none is wrong."""
from hanging import FAMILIES, GLOO, MPI, stands, text_of, usable
from runner import build, require

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
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        return print("skipped: torch is not installed")
    run("gloo", GLOO, folder, 3)
