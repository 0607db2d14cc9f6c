# labels: long torch
"""What scripts of today's PyTorch do besides DistributedDataParallel and pipelines, under `python -m slackline watch`: functional
collectives, DTensor, fully_shard, meshes, communication hooks, objects, a group begun anew, ranks of two torchruns. Their calls are
seen, results keep every bit and exit codes pass; what is not seen is said in the report."""
import os
import sys

sys.dont_write_bytecode = True
from runner import expect, folder
from seeing import TORCHRUN, alone, errors, watch  # goes on under .venv's Python

import csv
import glob
import socket

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "today_program.py")
PARTS = ["functional_collectives", "tensor_parallel", "fully_sharded", "hooked", "others", "again"]
# Calls of a rank in all parts: functional collectives twice; a sum of fully_shard for each layer and step, here of 3 + 1 layers
EXACTLY = {"IreduceScatter": 2 * 2, "Ibroadcast": 2, "Ialltoall": 2, "ReduceScatter": 3 * (3 + 1), "Alltoall": 1, "Gather": 1,
           "Barrier": len(PARTS) + 1}
# those, what tensors split in pairs and hooks sum, and what fully_shard gathers
AT_LEAST = {"Iallreduce": 2 * 3 + 3 + 3, "Iallgather": 2 * 2 + 2, "Allgather": 3 * (3 + 1), "Broadcast": 2}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def two_torchruns(*parts):
    """A shell that starts two nodes' torchruns here and ends as the worse of them."""
    port = free_port()
    one = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(port), "--node-rank"]
    program = f'{PROGRAM} {" ".join(parts)}'
    return ["sh", "-c", f'"$@" 0 {program} & "$@" 1 {program}; mine=$?; wait $! || mine=$?; exit $mine', "sh", *one]


def logged(name, rank):
    """The names of a rank's calls."""
    (path,) = glob.glob(os.path.join(folder, name, "calls", f"rank-{rank}.csv"))
    with open(path) as file:
        return [call["call"].removeprefix("gloo") for call in csv.DictReader(file)]


def test_every_part_is_seen():
    plain = alone(4, *PARTS, program=PROGRAM, EXIT="3", MEET=os.path.join(folder, "alone.store"))
    seen, printed = watch("today", two_torchruns(*PARTS), "--record", EXIT="3", MEET=os.path.join(folder, "watched.store"))
    expect(len(plain[1]) == 4 and not any("wrong" in line for line in plain[1]), f"without watching: {plain}")
    expect(printed == plain[1], f"{printed}, without watching {plain[1]}\n{errors('today')}")
    expect(seen.exit_code == plain[0] != 0, f"exit code {seen.exit_code}, without watching {plain[0]}")
    expect(seen.report and seen.report["ranks"] == 4, f"four ranks: {seen.report}")
    expect(not [text for text in seen.report["notes"] if "not seen" in text], f"{seen.report['notes']}")
    for rank in range(4):
        names = logged("today", rank)
        count = {name: names.count(name) for name in sorted(set(names))}
        for name, wanted in EXACTLY.items():
            expect(count.get(name) == wanted, f"rank {rank}: {count.get(name)} {name}, not {wanted}: {count}")
        for name, wanted in AT_LEAST.items():
            expect(count.get(name, 0) >= wanted, f"rank {rank}: {count.get(name)} {name}, less than {wanted}: {count}")
        expect(count.get("Allreduce", 0) == rank % 2, f"rank {rank}: the sum of ranks 1 and 3 alone: {count}")
        posted = sum(number for name, number in count.items() if name.startswith("I"))
        expect(count["Wait"] == posted, f"rank {rank}: {posted} calls are posted, {count['Wait']} waited for")


def test_what_is_not_seen_is_said():
    words = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", PROGRAM, "not_waited_for"]
    plain, (seen, printed) = alone(2, "not_waited_for", program=PROGRAM), watch("unseen", words)
    expect(seen.exit_code == plain[0] == 0 and printed == plain[1] and len(printed) == 2, f"{printed}, {plain}\n{errors('unseen')}")
    notes = [text for text in seen.report["notes"] if text.startswith("not seen in 2 processes: ")]
    expect(any("Work was never waited for" in text for text in notes), f"{seen.report['notes']}")
    expect(any("a ProcessGroup of the program's own (Mine)" in text for text in notes), f"{seen.report['notes']}")
    expect("not seen in 2 processes of this node: " in errors("unseen"), errors("unseen"))
