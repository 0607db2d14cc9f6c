# labels: long
"""slackline explain on dumps of PyTorch's flight recorder, written by PyTorch over Gloo: the same ranks are named as by PyTorch's own analyzer
(torch.distributed.flight_recorder.fr_trace), from pickles and from JSON. A pickle that would run code is refused and runs none."""
import glob
import json
import os
import pickle
import subprocess
import sys
import tempfile

from runner import build, expect, has_facts, require, source

sys.path.insert(0, os.path.join(source, "tests", "torch"))
import venv_torch  # noqa: E402,F401  continues under .venv's Python
from forked_ranks import ForkedRanks  # noqa: E402

require("slackline")
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, ANALYZER = 3, "torch.distributed.flight_recorder.fr_trace"
forked_ranks = ForkedRanks(sys.executable, "torch.distributed.flight_recorder.components.builder", env={**os.environ, "TORCH_FR_BUFFER_SIZE": "200"})


def dumps(kind, wrong, folder):
    _, output = forked_ranks.run(RANKS, os.path.join(HERE, "recorded.py"), kind, str(wrong), folder)
    assert len(glob.glob(os.path.join(folder, "nccl_trace_rank_*"))) == RANKS, output[-2000:]


def explained(*files):
    done = subprocess.run([os.path.join(build, "slackline"), "explain", "--format", "json", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def analyzed(folder):
    """What PyTorch's analyzer says of the pickles. It needs the members of each group, which dumps over Gloo lack: they are added."""
    members = {"0": ("default_pg", list(range(RANKS))), "1": ("undefined", [0, 1])}
    with tempfile.TemporaryDirectory() as completed:
        for name in glob.glob(os.path.join(folder, "nccl_trace_rank_*")):
            with open(name, "rb") as file:
                dump = pickle.load(file)
            dump["pg_config"] = {group: {"name": group, "desc": desc, "ranks": str(ranks)} for group, (desc, ranks) in members.items()}
            with open(os.path.join(completed, os.path.basename(name)), "wb") as file:
                pickle.dump(dump, file, 2)
        return forked_ranks.run(0, ANALYZER, "--prefix", "nccl_trace_rank_", completed)[1]


def both(kind, wrong, analyzer=True):
    """Our verdict from pickles, and, if asked for, the analyzer's words; both forms of our input must give one verdict."""
    with tempfile.TemporaryDirectory() as folder:
        dumps(kind, wrong, folder)
        verdict = explained(*sorted(glob.glob(os.path.join(folder, "nccl_trace_rank_*"))))
        again = explained(*sorted(glob.glob(os.path.join(folder, "json_rank_*"))))
        for key in ("cause", "rank", "seen", "certain"):
            assert verdict[key] == again[key], (verdict, again)
        return verdict, analyzed(folder) if analyzer else ""


def test_a_rank_that_did_not_enter_is_named():
    for wrong in (0, 2):
        verdict, theirs = both("missing", wrong)
        assert verdict["cause"] == "a rank that has not entered" and verdict["rank"] == wrong, verdict
        assert has_facts(verdict["seen"], "all_reduce (collective 4 of all ranks)") and "recorded.py" in verdict["why"], verdict
        print(theirs[-1500:])
        assert f"{wrong}" in theirs and "all_reduce" in theirs, theirs


def test_a_rank_in_another_collective_is_named():
    verdict, theirs = both("other", 1)
    assert verdict["cause"] == "another collective" and verdict["rank"] == 1 and verdict["certain"], verdict
    assert has_facts(verdict["seen"], "rank 1 calls broadcast, ranks 0,2 call all_reduce"), verdict
    print(theirs[-1500:])


def test_calls_of_other_shapes_that_all_have_left_are_no_hang():
    verdict, _ = both("shape", 2, analyzer=False)
    assert verdict["cause"] == "nothing" and verdict["rank"] == -1, verdict


def test_only_members_of_a_group_are_awaited():
    verdict, _ = both("group", 1, analyzer=False)
    assert verdict["cause"] == "a rank that has not entered" and verdict["rank"] == 1, verdict
    assert "ranks 0,1" in verdict["seen"], verdict


def test_a_job_in_which_all_have_entered_all_names_nobody():
    verdict, _ = both("none", 0, analyzer=False)
    assert verdict["cause"] in ("nothing", "all inside") and verdict["rank"] == -1, verdict


class Runs:
    def __reduce__(self):
        return os.mkdir, (Runs.path,)


def test_a_pickle_that_runs_code_is_refused_and_runs_none(folder):
    Runs.path = os.path.join(folder, "made")
    path = os.path.join(folder, "nccl_trace_rank_0")
    for protocol in (2, 4):
        with open(path, "wb") as file:
            pickle.dump({"version": "2.10", "entries": [], "pg_config": Runs()}, file, protocol)
        done = subprocess.run([os.path.join(build, "slackline"), "explain", path], capture_output=True, text=True)
        assert done.returncode == 2 and has_facts(done.stderr, "runs code") and path in done.stderr, done
        assert not os.path.exists(Runs.path)


def test_files_without_a_rank_twice_or_cut_are_refused(folder):
    good = pickle.dumps({"version": "2.10", "entries": [], "pg_config": {}}, 2)
    for names, content, words in ((["dump"], good, "does not end with the rank"), (["a_1", "b_1"], good, "another dump of rank 1"),
                                  (["rank_0"], good[:-3], "ends too early"), (["rank_0"], pickle.dumps({"version": "2.10"}, 2), "'entries' is missing")):
        paths = [os.path.join(folder, name) for name in names]
        for path in paths:
            with open(path, "wb") as file:
                file.write(content)
        done = subprocess.run([os.path.join(build, "slackline"), "explain", *paths], capture_output=True, text=True)
        expect(done.returncode == 2 and words in done.stderr and paths[-1] in done.stderr, f"{names}: {done}")
