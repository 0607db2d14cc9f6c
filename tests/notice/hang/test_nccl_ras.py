"""slackline explain on answers of NCCL's RAS service. No GPU is needed: a server stands in for the service. It speaks the line protocol and has the
fields that NCCL's sources write (src/ras/client_support.cc); the service itself has not been asked."""
import json
import os
import socket
import subprocess
import threading

from runner import build, has_facts, require

require("slackline")
NAMES = "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"


def rank(number, finalized=False, **counts):
    return {"rank": number, "host": f"10.0.0.{number}", "pid": 100 + number, "cuda_dev": 0, "nvml_dev": 0,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": finalized, "destroy_flag": False, "abort_flag": False},
            "collective_counts": {name: counts.get(name, 0) for name in NAMES}}


def missing(number, dead):
    return {"rank": number, "host": "10.0.0.9", "pid": 7, "cuda_dev": 0, "nvml_dev": 0, "status": {"unresponsive": True, "considered_dead": dead}}


def answer(*communicators):
    return {"nccl_version": "2.28.3", "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "timestamp": "2026-01-01 00:00:00",
            "communicators_count": len(communicators),
            "communicators": [{"hash": hex(17 + i), "secondary_hash": "0x1:0x2", "size": len(ranks) + len(lost), "ranks_count": len(ranks),
                               "missing_ranks_count": len(lost), "ranks": ranks, "missing_ranks": lost} for i, (ranks, lost) in enumerate(communicators)],
            "ras": {"collection_time_sec": 0.01, "timeouts_count": 0}}


def explained(*words):
    return subprocess.run([os.path.join(build, "slackline"), "explain", "--format", "json", *words], capture_output=True, text=True)


def verdict_of(folder, *communicators):
    path = os.path.join(folder, "ras.json")
    with open(path, "w") as file:
        json.dump(answer(*communicators), file, indent=2)
    done = explained(path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_rank_with_fewer_operations_is_named(folder):
    verdict = verdict_of(folder, ([rank(i, AllReduce=11 if i == 2 else 12) for i in range(4)], []))
    assert verdict["cause"] == "a rank that has not entered" and verdict["rank"] == 2, verdict
    assert has_facts(verdict["seen"], "ranks 0,1,3 wait in AllReduce (collective 12 of all ranks)") and "11 operations" in verdict["why"], verdict


def test_other_operations_are_named(folder):
    verdict = verdict_of(folder, ([rank(i, AllReduce=5 if i == 1 else 6, Broadcast=4 if i == 1 else 3) for i in range(3)], []))
    assert verdict["cause"] == "another collective" and verdict["rank"] == 1, verdict
    assert "rank 1 calls Broadcast, ranks 0,2 call AllReduce" in verdict["seen"], verdict


def test_a_dead_rank_is_named(folder):
    verdict = verdict_of(folder, ([rank(i, AllReduce=3) for i in range(2)], [missing(2, True)]))
    assert verdict["cause"] == "a peer that ended" and verdict["rank"] == 2 and verdict["certain"], verdict
    silent = verdict_of(folder, ([rank(i, AllReduce=3) for i in range(2)], [missing(2, False)]))
    assert silent["rank"] == 2 and not silent["certain"] and has_facts(silent["why"], "does not answer"), silent


def test_the_communicator_whose_ranks_differ_is_diagnosed(folder):
    same = [rank(i, AllReduce=9) for i in range(8)], []
    verdict = verdict_of(folder, same, ([rank(0, AllGather=2), rank(1, AllGather=1)], []))
    assert verdict["rank"] == 1, verdict
    assert verdict_of(folder, same)["rank"] == -1


def serve(replies):
    """A service that answers lines; the lines it was sent."""
    listener, heard = socket.create_server(("127.0.0.1", 0)), []

    def run():
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                heard.append(line.decode())
                connection.sendall(replies.get(line.decode(), "ERROR\n").encode())
                if line.endswith(b"STATUS\n"):
                    return
    threading.Thread(target=run, daemon=True).start()
    return f"ras://127.0.0.1:{listener.getsockname()[1]}", heard


def test_the_service_is_asked():
    text = json.dumps(answer(([rank(0, AllReduce=2), rank(1, AllReduce=1), rank(2, AllReduce=2)], [])))
    where, heard = serve({"CLIENT PROTOCOL 2\n": "SERVER PROTOCOL 2\n", "SET FORMAT json\n": "OK\n", "VERBOSE STATUS\n": text})
    done = explained(where)
    assert done.returncode == 0 and json.loads(done.stdout)["rank"] == 1, done
    assert heard == ["CLIENT PROTOCOL 2\n", "SET FORMAT json\n", "VERBOSE STATUS\n"], heard


def test_a_service_that_is_another_or_absent_is_reported():
    where, _ = serve({"CLIENT PROTOCOL 2\n": "SERVER PROTOCOL 2\n"})  # without JSON, as before NCCL 2.28
    for address in (where, "ras://127.0.0.1:1", "ras://nowhere"):
        done = explained(address)
        assert done.returncode != 0 and address.removeprefix("ras://") in done.stderr and "RAS" in done.stderr, done
