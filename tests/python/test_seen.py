# labels: long torch
"""A script over Gloo that knows nothing of it, under `python -m slackline watch` and slackline.watch: every kind of call is seen
with its peer, bytes and group, and does what it does without. A Python that never asks for torch gets none."""
import csv
import glob
import os
import subprocess
import sys

from runner import expect, folder, source
from seeing import errors, torchrun, watch  # continues under .venv's Python


def logged(name, rank):
    (path,) = glob.glob(os.path.join(folder, name, "calls", f"rank-{rank}.csv"))
    with open(path) as file:
        return list(csv.DictReader(file))


def test_every_call_is_seen():
    seen, printed = watch("calls", torchrun(3, "calls", "1"), "--record")
    expect(seen.exit_code == 0 and printed == [f"rank {rank}: all right" for rank in range(3)], f"{seen.exit_code} {printed}\n{errors('calls')}")
    expect(seen.report and seen.report["ranks"] == 3, f"three ranks: {seen.report}")
    expect("no longer seen" not in errors("calls") and "are not seen" not in errors("calls"), errors("calls"))
    for rank in range(3):
        calls = logged("calls", rank)
        names = {call["call"] for call in calls}
        # sums of gather, scatter and reduce among others; all_gather_object is two gathers of bytes
        wanted = {"gloo" + name for name in ("Allreduce", "Iallreduce", "Broadcast", "Reduce", "Allgather", "Gather", "Scatter", "ReduceScatter",
                                             "Alltoall", "Barrier", "Send", "Recv", "Isend", "Irecv", "Wait")}
        expect(wanted <= names, f"rank {rank}: not seen: {sorted(wanted - names)}")
        right, left = (rank + 1) % 3, (rank - 1) % 3
        sent = [call for call in calls if call["call"] == "glooIsend"]
        expect([(int(c["peer"]), int(c["tag"]), int(c["bytes"])) for c in sent] == [(right, 3, 4), (right, 0, 4), (right, 9, 4)], f"{sent}")
        received = [call for call in calls if call["call"] == "glooIrecv"]
        expect([(int(c["peer"]), int(c["tag"])) for c in received if c["peer"] == str(left)][:2] == [(left, 3), (left, 0)], f"{received}")
        roots = [call for call in calls if call["call"] == "glooBroadcast"]
        expect(roots[0]["peer"] == "1" and roots[0]["bytes"] == "4", f"the root of a broadcast: {roots}")
        if rank != 1:  # a group's ranks are told as ranks of the world
            expect(roots[-1]["peer"] == "2" and roots[-1]["communicator"] != roots[0]["communicator"], f"a group of ranks 0 and 2: {roots}")
        expect({call["rank"] for call in calls} == {str(rank)}, f"rank {rank} is told as such")
    groups = [{call["communicator"] for call in logged("calls", rank)} - {"x0000000000000000"} for rank in range(3)]
    expect(groups[0] == groups[2] and len(groups[0]) == 2 and groups[1] < groups[0], f"groups have one name on all members: {groups}")


def test_a_program_that_asks_for_nothing_gets_nothing():
    # a Python that does not ask for torch gets none, nor anything else of ours, and its own sitecustomize runs
    own = os.path.join(folder, "own")
    os.mkdir(own)
    with open(os.path.join(own, "sitecustomize.py"), "w") as file:
        file.write("import sys\nsys.mine = 'ran'\n")
    code = "import sys; print(sys.mine, [m for m in sys.modules if m.split('.')[0] in ('torch', 'slackline', 'ctypes', '_slackline_gloo')], [p for p in sys.path if 'seen' in p])"
    done = subprocess.run([sys.executable, "-m", "slackline", "watch", "--http", "off", "--out", os.path.join(folder, "quiet"), "--", sys.executable, "-c", code],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([own, os.path.join(source, "python")])})
    expect(done.stdout.strip() == "ran [] []", f"nothing is imported for a program that asks for nothing: {done.stdout!r} {done.stderr!r}")
