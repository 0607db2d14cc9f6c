"""The profiler plug-in is found and loaded as NCCL does it, by name or path, at every version of the interface; what it records is in the probe's rings. The program that loads it plays one rank's events in real time; no GPU is in it."""
import os
import subprocess

from probing import Probe
from runner import build, require, skip

require("libnccl-profiler-slackline.so")
plugin, program = os.path.join(build, "libnccl-profiler-slackline.so"), os.path.join(build, "tests", "load_plugin")
ALL = 2 | 4 | 8 | 16 | 64 | 4096  # collectives, messages, proxy ops, their steps, kernels, collectives of the copy engine
with open(os.path.join(build, "CMakeCache.txt")) as file:
    if "SL_SANITIZE:BOOL=ON" in file.read() or "SL_SANITIZE:STRING=thread" in file.read():
        skip("the probe cannot be preloaded into a program with sanitizers (test_events.c has them)")


def play(probe, version, timing="device", **more):
    rings, environment = probe.environment(SLACKLINE_PROBE_TIMING=timing, RANK="2", WORLD_SIZE="4", NCCL_PROFILER_PLUGIN=plugin, **more)
    return rings, subprocess.run([program, str(version)], capture_output=True, text=True, env=environment, timeout=60)


def of(rings, call, kind="completion"):
    return [record for ring in rings for record in ring.records if (record.call, record.kind) == (call, kind)]


def test_every_version_records_the_same_events():
    with Probe(build) as probe:
        for version in range(1, 7):
            folder, done = play(probe, version)
            assert (done.returncode, done.stdout, done.stderr) == (0, f"version {version} mask {ALL} name slackline\n", ""), done
            rings = probe.rings(folder)
            assert {(r.rank, r.size, r.untracked) for r in rings} == {(2, 4, 0)} and len(rings) == 2, rings  # the caller's, the proxy's
            made = of(rings, "ncclAllReduce", "call")
            assert [(c.communicator, c.peer, c.bytes, c.rank) for c in made] == [("0000000000001234", -1, 4000, 2)] * 3, made
            ended = of(rings, "ncclAllReduce")
            assert [c.start for c in ended] == [c.start for c in made], (made, ended)
            for a, b in zip(ended, ended[1:]):
                assert a.end <= b.end, ended
            sends, receives = of(rings, "ncclProxySend"), of(rings, "ncclProxyRecv")
            assert sorted((c.peer, c.tag, c.bytes) for c in sends) == sorted([(3, c, 4000 if version > 3 else 16384) for c in (0, 1)] * 3), sends
            assert sorted((c.peer, c.tag) for c in receives) == sorted([(1, 0), (1, 1)] * 3), receives
            # 4 steps of 4 ms for the network, 2 ms for the GPU, 1 ms for the peer, which versions before 4 count to the GPU's
            for wait, ms in (("ncclProxySend", 16), ("ncclProxyGpuWait", 8 if version > 3 else 12), ("ncclProxyPeerWait", 4)):
                waited = [c.device for c in of(rings, wait) if c.peer == 3]
                assert len(waited) == (6 if version > 3 or ms != 4 else 0), (wait, waited)
                assert all(ms * 1e6 <= ns < 1e9 for ns in waited), (version, wait, waited)  # sleeps are longer on a loaded machine
            if version > 3:  # blocks of 7 and 14 ms by the GPU's clock
                assert [c.device for c in ended] == [14000000] * 3, ended
            elif version == 3:  # as the host saw them
                assert all(40e6 < c.device < 2e9 for c in ended), ended
            else:
                assert [c.device for c in ended] == [-1] * 3 and all(c.end > c.start for c in ended), ended


def test_the_highest_version_is_taken_and_others_are_fallen_back_to():
    with Probe(build) as probe:
        for highest, taken in ((9, 6), (6, 6), (4, 4), (1, 1)):
            _, done = play(probe, highest)
            assert done.stdout.startswith(f"version {taken} "), done


def test_nccl_finds_it_by_name():
    with Probe(build) as probe:
        _, environment = probe.environment(NCCL_PROFILER_PLUGIN="slackline", LD_LIBRARY_PATH=build)
        done = subprocess.run([program, "6", "none"], capture_output=True, text=True, env=environment)
        assert done.stdout.startswith("version 6"), done


def test_without_a_watch_it_asks_for_no_events():
    environment = {name: value for name, value in os.environ.items() if name not in ("SLACKLINE_PROBE", "LD_PRELOAD")}
    done = subprocess.run([program, "6"], capture_output=True, text=True, env={**environment, "NCCL_PROFILER_PLUGIN": plugin})
    assert (done.returncode, done.stdout, done.stderr) == (0, "version 6 mask 0 name slackline\n", ""), done


def test_without_the_probe_it_asks_for_no_events():
    with Probe(build) as probe:
        folder, environment = probe.environment(NCCL_PROFILER_PLUGIN=plugin)
        del environment["LD_PRELOAD"]
        done = subprocess.run([program, "6"], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "version 6 mask 0 name slackline\n", ""), done
        assert os.listdir(folder) == [], os.listdir(folder)


def test_a_folder_that_cannot_be_written_costs_the_records_only():
    environment = {**os.environ, "SLACKLINE_PROBE": "/nonexistent", "NCCL_PROFILER_PLUGIN": plugin,
                   "LD_PRELOAD": os.path.join(build, "libslackline_probe.so")}
    done = subprocess.run([program, "6"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (0, "version 6 mask 0 name slackline\n") and "/nonexistent" in done.stderr, done


def test_between_profiles_it_asks_for_calls_alone():
    with Probe(build) as probe:
        folder, done = play(probe, 6, timing="on")
        assert done.stdout == f"version 6 mask {2 | 4 | 4096} name slackline\n", done
        (ring,) = probe.rings(folder)
        assert [(c.kind, c.call) for c in ring.records] == [("call", "ncclAllReduce")] * 3, ring
