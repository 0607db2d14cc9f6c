#!/usr/bin/env python3
"""NCCL's calls in an unchanged program are recorded by name, with communicators named alike on both ranks. A small
stand-in takes the library's and CUDA's place. Times on the device are the plug-in's part (../plugin)."""
import os
import subprocess

from probing import Probe, compile_with, found
from runner import build

here = os.path.dirname(os.path.abspath(__file__))


def expected(rank):
    """(call, communicator, peer, bytes, its rank in it) as nccl_calls.c makes them; bytes of types by NCCL's documentation:
    7 float32, 8 float64, 9 bfloat16, 4 int64, 0 int8, 2 int32, 11 float8, 6 float16. None: the call has no communicator."""
    other = 1 - rank
    return [
        ("ncclCommInitRank", "world", -1, 0, rank), ("ncclCommInitRankConfig", "more", -1, 0, rank), ("ncclCommInitAll", "all", -1, 0, -1),
        ("ncclCommSplit", "world", -1, 0, rank), ("ncclCommSplit", "world", -1, 0, rank),
        ("ncclAllReduce", "world", -1, 400, rank), ("ncclBroadcast", "world", 1, 80, rank), ("ncclBcast", "more", 0, 20, rank),
        ("ncclReduce", "more", 1, 24, rank), ("ncclAllGather", "world", -1, 5, rank), ("ncclReduceScatter", "world", -1, 40, rank),
        ("ncclAlltoAll", "world", -1, 8, rank), ("ncclGather", "world", 0, 8, rank), ("ncclScatter", "world", 1, 8, rank),
        ("ncclAllReduce", f"part{rank}", -1, 8, 0), ("ncclGroupStart", None, -1, 0, -1), ("ncclSend", "world", other, 32, rank),
        ("ncclRecv", "world", other, 32, rank), ("ncclGroupEnd", None, -1, 0, -1), ("ncclAllReduce", "all", -1, 4, 1),
        ("ncclAllReduce", "world", -1, 0, rank), ("ncclCommFinalize", "more", -1, 0, rank), ("ncclCommDestroy", "more", -1, 0, rank),
        ("ncclCommAbort", f"part{rank}", -1, 0, 0)]


def check_calls(probe, compiler, cuda):
    folder = os.path.join(probe.folder, f"nccl{cuda}")
    os.mkdir(folder)
    compile_with(compiler, os.path.join(here, "standin_nccl.c"), os.path.join(folder, "libnccl.so.2"), "-shared", "-fPIC",
                 "-Wl,-soname,libnccl.so.2", *(["-DWITH_CUDA"] if cuda else []))
    program = os.path.join(folder, "nccl_calls")
    compile_with(compiler, os.path.join(here, "nccl_calls.c"), program, os.path.join(folder, "libnccl.so.2"), f"-Wl,-rpath,{folder}")
    names = {None: "0" * 16}
    for rank in (0, 1):
        alone = subprocess.run([program, str(rank)], capture_output=True, text=True)
        rings, environment = probe.environment(SLACKLINE_PROBE_TIMING="device", RANK=str(rank), WORLD_SIZE="2")
        watched = subprocess.run([program, str(rank)], capture_output=True, text=True, env=environment)
        assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout) == (3, "24 calls, wrong 0, error 4\n"), watched
        assert watched.stderr == alone.stderr, watched.stderr
        (ring,) = probe.rings(rings)
        assert (ring.rank, ring.size, ring.untracked) == (rank, 2, 0), ring[:8]
        calls = [record for record in ring.records if record.kind == "call"]
        wanted = expected(rank)
        assert [r.call for r in calls] == [w[0] for w in wanted], [r.call for r in calls]
        for record, (call, communicator, peer, size, own) in zip(calls, wanted):
            assert (record.peer, record.bytes, record.rank) == (peer, size, own), (record, call)
            assert names.setdefault(communicator, record.communicator) == record.communicator, (record, communicator, names)
        assert all(record.kind == "call" and record.device == -1 for record in ring.records), ring.records
    assert len(set(names.values())) == len(names), names


def test_calls_of_nccl_are_recorded_by_name():
    compiler = found(["gcc", "cc", "clang"])
    with Probe(build) as probe:
        for cuda in (True, False):
            check_calls(probe, compiler, cuda)
