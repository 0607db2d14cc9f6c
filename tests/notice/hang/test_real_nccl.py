"""slackline explain on what NCCL 2.28.9 and PyTorch 2.11.0 really wrote: three ranks on one NVIDIA H200, made to hang by bench/nccl/hang.py
(folder real; the paths in it were replaced by others of equal length)."""
import glob
import json
import os
import pickle
import subprocess

from runner import build, expect, require

require("slackline")
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real")


def explained(*files):
    done = subprocess.run([os.path.join(build, "slackline"), "explain", "--format", "json", *files], capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, f"{done}")
    return json.loads(done.stdout)


def dumps(case):
    return sorted(glob.glob(os.path.join(HERE, f"{case}_rank_*")))


def test_the_rank_that_does_not_come_to_a_collective_is_named():
    verdict = explained(*dumps("collective"))
    expect((verdict["cause"], verdict["rank"], verdict["ranks"]) == ("a rank that has not entered", 2, 3), f"{verdict}")
    expect("ranks 0,1 wait in all_reduce (collective 4 of all ranks)" in verdict["seen"], f"{verdict}")


def test_the_rank_that_does_not_send_is_named():
    """Rank 2 waits for rank 1, whose send is queued behind its receive from rank 0, which sends nothing."""
    verdict = explained(*dumps("message"))
    expect((verdict["cause"], verdict["rank"]) == ("a rank that has not entered", 0), f"{verdict}")
    expect("rank 1 waits for a message from rank 0 to rank 1" in verdict["seen"], f"{verdict}")


def test_messages_of_a_batch_end_with_the_batch():
    """PyTorch never changes the state of such a message, only that of the entry that ends the batch: without it, each rank waits for another."""
    entries = pickle.load(open(dumps("message")[0], "rb"))["entries"]
    names = {one["profiling_name"]: one["state"] for one in entries}
    expect(names["nccl:coalesced"] == "completed" and names["nccl:recv 0<-2"] == "scheduled", f"{names}")
    expect("rank 2 to rank 0" not in explained(*dumps("message"))["seen"], "a batch that has ended")


def test_other_calls_a_batch_and_a_circle_are_told_apart():
    verdict = explained(*dumps("other"))
    expect((verdict["cause"], verdict["rank"], verdict["certain"]) == ("another collective", 2, True) and "rank 2 calls broadcast, ranks 0,1 call all_reduce" in verdict["seen"], f"{verdict}")
    verdict = explained(*dumps("batch"))  # rank 1 does not come to a ring of messages
    expect((verdict["cause"], verdict["rank"]) == ("a rank that has not entered", 1) and "rank 2 waits for a message from rank 1 to rank 2" in verdict["seen"], f"{verdict}")
    verdict = explained(*dumps("circle"))  # each receives before it sends: the sends are queued
    expect((verdict["cause"], verdict["certain"]) == ("ranks that wait for each other", True) and "ranks 0-2 wait for each other" in verdict["seen"], f"{verdict}")


def changed(folder, case, change):
    """The dumps after `change(rank, dump)`."""
    paths = []
    for rank, path in enumerate(dumps(case)):
        with open(path, "rb") as file:
            dump = pickle.load(file)
        change(rank, dump)
        paths.append(os.path.join(folder, os.path.basename(path)))
        with open(paths[-1], "wb") as file:
            pickle.dump(dump, file, 2)
    return explained(*paths)


def test_a_batch_under_way_waits_for_all_its_partners(folder):
    """As if the ring of messages had not ended: each rank has entered it, so that nobody is missing; without the calls of rank 1, it is."""
    def open_ring(rank, dump):
        dump["entries"] = [one for one in dump["entries"] if one["record_id"] <= {0: 5, 1: 7, 2: 5}[rank]]
        dump["entries"][-1].update(state="started", retired=False)

    def untimed(rank, dump):
        """Without TORCH_NCCL_ENABLE_TIMING, nothing is known to have started."""
        open_ring(rank, dump)
        for one in dump["entries"]:
            one.update(time_discovered_started_ns=None, state="completed" if one["retired"] else "scheduled")
    for change in open_ring, untimed:
        verdict = changed(folder, "collective", change)
        expect(verdict["rank"] == -1 and verdict["cause"] in ("all inside", "nothing"), f"{verdict}")

    def without_one(rank, dump):
        open_ring(rank, dump)
        if rank == 1:
            dump["entries"] = dump["entries"][:-3]
    verdict = changed(folder, "collective", without_one)
    expect((verdict["cause"], verdict["rank"]) == ("a rank that has not entered", 1), f"{verdict}")


def test_ranks_of_a_group_are_those_of_the_world(folder):
    """The same job, with the group of the messages on ranks 2, 0, 1 of the world: ranks of a message are of the group."""
    def moved(rank, dump):
        dump["pg_config"]["1"]["ranks"] = "[2, 0, 1]"
        dump["entries"] = [one for one in dump["entries"] if one["process_group"][0] == "0"]
        if rank == 0:  # rank 1 of the group
            dump["entries"].append({**dump["entries"][0], "record_id": 99, "process_group": ("1", "pipeline"), "is_p2p": True, "state": "started", "retired": False,
                                    "profiling_name": "nccl:recv 1<-0", "collective_seq_id": 0, "p2p_seq_id": 9})
    verdict = changed(folder, "message", moved)
    expect(verdict["rank"] == 2 and "rank 0 waits for a message from rank 2 to rank 0" in verdict["seen"], f"{verdict}")


def test_the_service_names_the_rank_with_fewer_operations():
    verdict = explained(os.path.join(HERE, "ras.json"))
    expect((verdict["cause"], verdict["rank"], verdict["size"]) == ("a rank that has not entered", 2, 3), f"{verdict}")
    expect("rank 2 has not entered: ranks 0,1 wait in AllReduce (collective 5 of all ranks)" in verdict["seen"] and "4 operations" in verdict["why"], f"{verdict}")
