# labels: long alone
"""LAMMPS on 4 ranks, unchanged, under watch: when one rank gets less of a processor than before, the onset, the rank and the
cause are named, and the relief when it has it back; what LAMMPS computes and its exit code are those of a run by itself."""
import os
import subprocess

from real import Watched, lammps, mpirun, thermodynamics
from runner import build, folder, require, skip
from trouble import Load, Quota, ranks_of

require("mpirun", "lmp", "redis-server", "taskset")
if len(os.sched_getaffinity(0)) < 2:
    skip("one core")
ENDLESS = 1_000_000


def named(run, after, rank, cause):
    """Behind the first `after` events a verdict names the rank with the cause, and none another rank or a link. There was an
    onset, though the machine's own trouble may have brought it on before; a verdict from a rest after a hold may know nothing."""
    verdict = {"seen": ""}
    while verdict.get("rank") != rank or cause not in verdict["seen"]:
        verdict, after = run.wait_for("verdict", after)
        assert verdict.get("rank") in (rank, None) and "link" not in verdict, run.told()
    run.wait_for("onset", 0, limit=0.5)


def bound(ranks, core_of):
    """mpirun with each rank bound to a core."""
    return lambda words: mpirun(1, ["taskset", "-c", str(core_of[0]), *words]) + sum(
        ([":", "-np", "1", "taskset", "-c", str(core_of[rank]), *words] for rank in range(1, ranks)), [])


def test_output_and_exit_code_are_the_programs_own(folder):
    words = mpirun(4, lammps(folder, 6, 300))
    alone = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    with Watched(build, folder, words, ["--http", "off"]) as run:
        code, text = run.result()
    assert code == 0, run.words()
    assert thermodynamics(text) == thermodynamics(alone.stdout) and len(thermodynamics(text)) == 4, text
    with Watched(build, folder, mpirun(4, ["lmp", "-in", "/nonexistent"]), ["--http", "off"]) as run:
        code, _ = run.result()
    alone = subprocess.run(mpirun(4, ["lmp", "-in", "/nonexistent"]), cwd=folder, capture_output=True, check=False)
    assert code == alone.returncode != 0, (code, alone.returncode)


def test_a_rank_under_a_quota_is_named_with_the_cause(folder):
    with Watched(build, folder, mpirun(4, lammps(folder, 16, ENDLESS)), ["--http", "off"]) as run:
        _, after = run.wait_for("profiled")  # the reference
        with Quota(ranks_of(run.process.pid)[2], 0.15):
            named(run, after, 2, "quota")
        run.wait_for("relief", len(run.events()))


def test_other_load_on_a_ranks_core_is_named(folder):
    """Ranks 0, 1 and 2 share a core; rank 3 has one for itself until others come."""
    with Watched(build, folder, bound(4, [0, 0, 0, 1])(lammps(folder, 16, ENDLESS)), ["--http", "off"]) as run:
        _, after = run.wait_for("profiled")
        with Load(core=1, processes=7):
            named(run, after, 3, "load")
        run.wait_for("relief", len(run.events()))
