#!/usr/bin/env python3
"""The rings hold exactly the calls that a program makes: a program of 4 ranks writes down each of its calls (kind, peer,
tag, bytes, its own name of the communicator) and what it completes; the rings of each family of libraries must say the
same, in the same order, with communicators named alike on all ranks. Watched or not: same output, same exit code."""
import os

from probing import MPI, Probe, compile_with, found, installed, mpirun
from runner import build, skip

here = os.path.dirname(os.path.abspath(__file__))


def said_by(folder, rank):
    """What a rank wrote of itself: calls in order, completions as a multiset, its result."""
    calls, done, result = [], [], None
    with open(os.path.join(folder, f"rank{rank}.txt")) as file:
        for line in file:
            what, *words = line.split()
            if what == "result":
                result = words
            else:
                assert int(words[0]) == rank
                (calls if what == "made" else done).append(tuple(words[1:]))
    return calls, done, result


def compare(family, ranks, folder, timed):
    """Each ring against what its rank wrote; names of communicators against the program's, over all ranks."""
    names = {"-": "0" * 16}
    assert [ring.rank for ring in ranks] == [0, 1, 2, 3], f"{family}: rings of ranks {[ring.rank for ring in ranks]}"
    for ring in ranks:
        calls, done, _ = said_by(folder, ring.rank)
        assert (ring.size, ring.family, ring.lost, ring.untracked) == (4, MPI[family]["number"], 0, 0), ring[:8]
        assert [r.sequence for r in ring.records] == list(range(len(ring.records)))

        def seen(kind):
            return [r for r in ring.records if r.kind == kind]

        def key(record):
            return record.call, record.communicator, str(record.peer), str(record.tag), str(record.bytes)

        def named(words):
            call, place, *rest = words
            if place == "self":
                place = f"self of {ring.rank}"
            return call, place, *rest

        for record, words in zip(seen("call"), map(named, calls)):
            assert key(record)[0] == words[0] and key(record)[2:] == words[2:], \
                f"{family}: rank {ring.rank} made {words}, record {record.sequence} says {key(record)}"
            known = names.setdefault(words[1], record.communicator)
            assert known == record.communicator, f"{family}: {words[1]} is {known} and, on rank {ring.rank}, {record.communicator}"
        assert len(seen("call")) == len(calls), f"{family}: rank {ring.rank}: {len(calls)} calls, {len(seen('call'))} records"
        wanted = sorted((w[0], names[w[1]], *w[2:]) for w in map(named, done))
        assert sorted(map(key, seen("completion"))) == wanted, f"{family}: rank {ring.rank}: completions differ"
        for record in ring.records:
            assert record.rank == ring.rank and record.device == -1
            if timed:
                assert 0 < record.start <= record.end, record
            else:
                assert record.start == record.end == 0, record
        if timed:
            starts = [record.start for record in seen("call")]
            assert starts == sorted(starts)
    assert len(set(names.values())) == len(names), f"{family}: two communicators have one name: {names}"
    return names


def test_rings_hold_exactly_the_calls_of_a_program():
    families = installed()
    if not families:
        skip("neither Open MPI nor MPICH is installed")
    with Probe(build) as probe:
        for family in families:
            program = os.path.join(probe.folder, f"calls-{family}")
            compile_with(found(MPI[family]["cc"]), os.path.join(here, "calls.c"), program)
            alone = mpirun(family, 4, [program, probe.folder])
            assert alone.returncode == 7 and alone.stdout.startswith("result "), (alone.returncode, alone.stdout, alone.stderr)
            assert alone.stdout.endswith("error 1\n")
            names = []
            for timing in ("on", "off"):
                rings, environment = probe.environment(SLACKLINE_PROBE_TIMING=timing)
                watched = mpirun(family, 4, [program, probe.folder], environment)
                assert watched.returncode == 7, (watched.returncode, watched.stderr)
                assert watched.stdout == alone.stdout, (watched.stdout, alone.stdout)
                assert "slackline" not in watched.stderr, watched.stderr
                ranks = probe.rings(rings)
                names.append(compare(family, ranks, probe.folder, timing == "on"))
            assert names[0] == names[1], "names differ between runs"
            print(f"{family}: {sum(len(ring.records) for ring in ranks)} records, {len(names[0]) - 1} communicators")
        for family in MPI:
            if family not in families:
                print(f"not tried: {family} is not installed")
