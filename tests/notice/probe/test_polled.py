"""A rank that makes one MPI_Test after the other waits: its record takes as long as the wait. With time to compute between tests nobody
knows, and the record takes none. A fence is recorded where it ends a region."""
import os

from probing import MPI, Probe, compile_with, found, installed, mpirun
from runner import build, skip

here = os.path.dirname(os.path.abspath(__file__))
TRIES = 25  # on a busy machine a rank may get no processor between two tests for as long as if it computed


def given():
    families = installed()
    if not families:
        skip("neither Open MPI nor MPICH is installed")
    with Probe(build) as probe:
        for family in families:
            compile_with(found(MPI[family]["cc"]), os.path.join(here, "polled.c"), os.path.join(probe.folder, family))
        yield probe, families


def recorded(probe, family, pause):
    rings, environment = probe.environment()
    done = mpirun(family, 2, [os.path.join(probe.folder, family), str(pause)], environment)
    assert done.returncode == 0, done.stderr
    return probe.rings(rings)


def tested(ring):
    """ms that the one test took which completed something."""
    taken = [(record.end - record.start) / 1e6 for record in ring.records if record.kind == "call" and record.call == "MPI_Test"]
    assert len(taken) == 1, taken
    return taken[0]


def test_a_rank_that_only_tests_waits(probe, families):
    for family in families:
        taken = []
        while not any(ms > 30 for ms in taken) and len(taken) < TRIES:
            taken.append(tested(recorded(probe, family, 0)[0]))
        assert any(30 < ms < 5000 for ms in taken), f"{family}: {taken}"


def test_between_tests_that_are_apart_a_rank_may_have_computed(probe, families):
    for family in families:
        early, late = recorded(probe, family, 5_000_000)
        assert tested(early) == 0, f"{family}: {tested(early)}"


def test_fences_are_recorded_like_barriers_where_they_end_something(probe, families):
    for family in families:
        rings = recorded(probe, family, 0)
        fences = [[record.communicator for record in ring.records if record.call == "MPI_Win_fence"] for ring in rings]
        assert len(fences[0]) == 2 and len(set(fences[0] + fences[1])) == 1, f"{family}: {fences}"
        barriers = {record.communicator for record in rings[0].records if record.call == "MPI_Barrier"}
        assert not barriers & set(fences[0]), "a window has a name of its own"
