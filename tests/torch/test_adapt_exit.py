# labels: slow torch
"""The processes of an adapted job end as they would without, at the end of a script that still holds the schedule: the live bench, shortened."""
import json
import os
import sys
import tempfile

from environments import variables
from forked_ranks import ForkedRanks
from runner import source
import venv_torch  # noqa: F401  continues under .venv's Python

HERE = os.path.abspath(source)
BENCH = [os.path.join(HERE, "bench", "pytorch"), os.path.join(HERE, "bench")]
sys.path[:0] = [*BENCH, os.path.join(HERE, "python")]
os.environ.update(variables(*BENCH))
from cases import NAMED, mixture  # noqa: E402

forked_ranks = ForkedRanks(sys.executable, "ranks")


def ends(folder, case, job, steps):
    """Every rank ends with 0, neither with an error nor by a signal."""
    code, output = forked_ranks.run(case.processes, os.path.join(HERE, "tests", "torch", "exit_program.py"), job, str(steps), os.path.join(tempfile.mkdtemp(dir=folder), "store"))
    found = [json.loads(line) for line in output.splitlines() if line.startswith('{"steps"')]
    assert code == 0 and found == [{"steps": steps, "why": ""}], output


def test_processes_end_with_0(folder):
    for _ in range(2):
        ends(folder, NAMED[0], "named", 12)


def test_processes_that_end_during_a_search_end_with_0(folder):
    """The first rank searches for a better plan once it has measured the healthy job: for a moment in one of these lengths."""
    for steps in (6, 6, 7, 8):
        ends(folder, mixture(5, steps=steps), "5", steps)
