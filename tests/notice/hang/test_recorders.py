# labels: long
"""slackline watch asks PyTorch itself when a job stands: its debug server, a pipe that makes it dump, and dumps that it has written since. What it
says joins the verdict and hang.json. Dumps of an earlier job are not read, and a recorder that lacks a rank names nobody."""
import json
import os
import re
import socket
import sys
import tempfile

from runner import build, require, source

sys.path.insert(0, os.path.join(source, "tests", "torch"))
import venv_torch  # noqa: E402,F401  continues under .venv's Python
from hanging import HERE, Standing  # noqa: E402

require("slackline", "redis-server")
WRONG = 1
START = 'for rank in $(seq 0 $((WORLD_SIZE - 1))); do RANK=$rank "$@" & done; wait'  # torchrun would import PyTorch once more


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def reported(how, after, ranks=2):
    """The first event of a script that stands, and hang.json."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(TORCH_FR_BUFFER_SIZE="100", TORCH_FR_DUMP_TEMP_FILE=os.path.join(folder, "dump_"),
                          TORCH_NCCL_DEBUG_INFO_PIPE_FILE=os.path.join(folder, "pipe_"),
                          WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        words = ["sh", "-c", START, "sh", sys.executable, os.path.join(HERE, "recording.py"), how, str(WRONG), os.path.join(folder, "dump_")]
        with Standing(build, folder, words, ["--hang-after", str(after)], gloo=True) as run:
            event, _ = run.wait_for(("hang", "stall"), 120)
            assert event, open(os.path.join(run.out, "stderr.txt")).read()[-2000:]
            with open(os.path.join(run.out, "hang.json")) as file:
                state = json.load(file)
            assert event["kind"] == "stall" and event["rank"] == WRONG, event
            return event, state


def agrees(event, state, ranks=2):
    verdict = state["torch"]["verdict"]
    assert len(state["torch"]["ranks"]) == ranks and verdict["rank"] == WRONG, verdict
    assert verdict["cause"] == "a rank that has not entered", verdict
    assert re.search(r"all_reduce \(collective 51 of (communicator \d+, )?all ranks\)", verdict["seen"]), verdict
    assert f"PyTorch's flight recorder: rank {WRONG} has not entered" in event["why"], event


def test_the_debug_server_is_asked():
    agrees(*reported("server", 4, 3), 3)


def test_a_process_with_a_pipe_is_told_to_dump():
    agrees(*reported("pipe", 4))


def test_a_dump_written_since_the_job_stands_is_read():
    agrees(*reported("time-out", 12))


def test_dumps_of_an_earlier_job_are_not_read():
    event, state = reported("old", 4)
    assert "torch" not in state and "flight recorder" not in event["why"], event


def test_a_recorder_that_lacks_a_rank_names_nobody():
    event, state = reported("some", 4)
    assert len(state["torch"]["ranks"]) == 1 and state["torch"]["verdict"]["cause"] == "nothing", state["torch"]
    assert "flight recorder" not in event["why"], event
