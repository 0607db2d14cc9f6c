"""Calls that a program's own layer reports are recorded as MPI's are, on every thread, with groups named alike on all
members; a call within a reported one is part of it, a failed one has no bytes, a posted one has a completion when it has been
waited for. What cannot be reported says so and nothing else. The program is a Python with ctypes and without torch."""
import os
import subprocess
import sys

from probing import Probe
from runner import build

PROGRAM = """
import ctypes, sys, threading
rank = int(sys.argv[1])
told = ctypes.CDLL(None)
for name in ("sl_reported_end",):
    getattr(told, name).restype = ctypes.c_void_p
pointer = ctypes.c_void_p
number = {name: told.sl_reported_call(b"gloo" + name) for name in (b"Allreduce", b"Isend", b"Irecv", b"Send", b"Ibarrier", b"Broadcast", b"Wait")}
print(told.sl_reported_version(), min(number.values()) > 0, told.sl_reported_call(b"gloo"), told.sl_reported_world(rank, 3))
ranks = lambda *r: (ctypes.c_int32 * len(r))(*r)
everybody, pair = told.sl_reported_group(b"0", ranks(0, 1, 2), 3), told.sl_reported_group(b"0", ranks(0, rank or 1), 2)
print(everybody != pair, told.sl_reported_group(b"0", ranks(0, 1, 2), 3) == everybody)
big = ctypes.c_uint64(1 << 40)

assert told.sl_reported_begin(number[b"Allreduce"], everybody, -1, -1, big) == 1
assert told.sl_reported_begin(number[b"Send"], everybody, 1, 0, ctypes.c_uint64(8)) == 0    # a part of the sum
assert told.sl_reported_end(1) is None
assert told.sl_reported_begin(number[b"Broadcast"], pair, 0, -1, ctypes.c_uint64(12)) == 1
assert told.sl_reported_end(0) is None                                                      # it failed
assert told.sl_reported_begin(number[b"Isend"], everybody, 2, 300, ctypes.c_uint64(40)) == 1
sent = told.sl_reported_end(1)
assert told.sl_reported_begin(number[b"Irecv"], everybody, -2, 5, ctypes.c_uint64(44)) == 1
received = told.sl_reported_end(1)
for request, done, peer in ((sent, 0, -1), (sent, 1, -1), (received, 1, 2), (received, 1, 2)):
    assert told.sl_reported_wait(pointer(request)) == 1
    told.sl_reported_waited(pointer(request), done, peer)
assert told.sl_reported_begin(number[b"Ibarrier"], everybody, -1, -1, ctypes.c_uint64(0)) == 1
barrier = told.sl_reported_end(1)
for request in (sent, received, barrier, None):
    told.sl_reported_forget(pointer(request))
assert told.sl_reported_wait(None) == 0
for wrong in ((0, everybody), (number[b"Send"], 77), (1, everybody), (10 ** 6, everybody)):
    assert told.sl_reported_begin(*wrong, 1, 0, ctypes.c_uint64(8)) == 0, wrong

def other():
    assert told.sl_reported_begin(number[b"Send"], pair, 0, 0, ctypes.c_uint64(7)) == 1
    told.sl_reported_end(1)
thread = threading.Thread(target=other)
thread.start()
thread.join()
"""
NOBODY = "0" * 16


def rings_of(probe, rank):
    rings, environment = probe.environment()
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(rank)], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "2 True 0 1\nTrue True\n"), done
    assert done.stderr == "", done.stderr
    gates = [name for name in os.listdir(rings) if name.endswith(".gate")]
    assert len(gates) == 1, os.listdir(rings)
    return sorted(probe.rings(rings), key=lambda ring: -len(ring.records))


def test_reported_calls_are_recorded(probe):
    names = {}
    for rank in (1, 2):
        main, other = rings_of(probe, rank)
        assert {(ring.rank, ring.size, ring.family) for ring in (main, other)} == {(rank, 3, 0)}, (main, other)
        seen = [(r.kind, r.call, r.peer, r.tag, r.bytes) for r in main.records]
        assert seen == [("call", "glooAllreduce", -1, -1, 1 << 40), ("call", "glooBroadcast", 0, -1, 0), ("call", "glooIsend", 2, 300, 40),
                        ("call", "glooIrecv", -2, 5, 44), ("call", "glooWait", -1, 0, 0), ("call", "glooWait", -1, 1, 0),
                        ("completion", "glooIsend", 2, 300, 40), ("call", "glooWait", -1, 1, 0), ("completion", "glooIrecv", 2, 5, 44),
                        ("call", "glooWait", -1, 0, 0), ("call", "glooIbarrier", -1, -1, 0)], seen
        assert [(r.call, r.peer, r.bytes) for r in other.records] == [("glooSend", 0, 7)], other
        assert all(r.rank == rank and 0 < r.start <= r.end for r in [*main.records, *other.records]), main
        assert all((r.communicator == NOBODY) == (r.call == "glooWait") for r in main.records), main
        everybody, pair = main.records[0].communicator, main.records[1].communicator
        assert other.records[0].communicator == pair != everybody, (everybody, pair)
        names[rank] = everybody, pair
    # one name on all members; two groups of one name and other ranks are two
    assert names[1][0] == names[2][0] and names[1][1] != names[2][1], names


def test_without_a_folder_nothing_is_reported(probe):
    _, environment = probe.environment()
    del environment["SLACKLINE_PROBE"]
    code = "import ctypes; told = ctypes.CDLL(None); print(told.sl_reported_world(0, 1), told.sl_reported_begin(told.sl_reported_call(b'glooBarrier'), 0, -1, -1, 0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 0\n", ""), done


def given():
    with Probe(build) as probe:
        yield probe,
