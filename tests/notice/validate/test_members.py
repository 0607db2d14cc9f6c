#!/usr/bin/env python3
# labels: slow
"""Validating processes beside ranks that are held: they meet what the rank meets. A rank under a processor quota is a
slow device because of its quota, a rank on a core that others use is a slow device because of those, and a process that
does not come is named without anybody waiting for it.

Faults are large (a twentieth of a core, four others on a core), for what is tested is who is named, not how finely."""
import os
import subprocess
import time

from trouble import Load, Quota
from runner import has_facts
from members import Round, Store, accused, doubts, figures, need_programs
from waiting import until

RANKS = 4
cores = sorted(os.sched_getaffinity(0))


class Held:
    """Processes that stand still, each on its cores: the ranks of a program that is held."""

    def __init__(self, affinity=None):
        self.affinity = affinity or [cores] * RANKS

    def __enter__(self):
        self.process = [subprocess.Popen(["sleep", "1000"], preexec_fn=lambda a=a: os.sched_setaffinity(0, a))
                        for a in self.affinity]
        return [process.pid for process in self.process]

    def __exit__(self, *_):
        for process in self.process:
            process.kill()
            process.wait()


def validate(store, pids, absent=(), words=("--gemm", "--repeat", "3", "--deadline", "30000")):
    with Round(store, RANKS) as round:
        for member, pid in enumerate(pids):
            if member not in absent:
                round.start(member, words=["--pid", str(pid), *words])
        report = round.report()
        return report, round


def test_a_quota_is_found(store):
    with Held() as pids:
        with Quota(pids[2], share=0.05):
            report, round = validate(store, pids)
    found = [one for one in report["verdicts"] if one["component"] == "device" and one["rank"] == 2]
    assert found, figures(report)
    assert found[0]["cause"].startswith("cgroup quota"), figures(report)
    assert found[0]["measured"] < 0.5 * found[0]["expected"], figures(report)
    assert "cgroup quota" not in str([one for one in report["verdicts"] if one is not found[0]]), figures(report)
    assert not any(2 in one[1:3] for one in accused(report) if one[0] == "link"), figures(report)  # its links are well
    evidence = report["devices"][2]["evidence"]
    assert evidence["joined"] and abs(evidence["quota"] - 0.05) < 0.01 and evidence["throttled"] > 0.4, evidence
    assert report["healthy"] is False and 1 in round.codes.values() and set(round.codes.values()) <= {0, 1}, round.codes
    assert [e for e in round.errors.values() if e] == [], round.errors


def test_other_load_is_found(store):
    if len(cores) < 2:
        print("  not tried: one processor")
        return
    with Held([cores[:1], cores[:1], cores[1:2], cores[:1]]) as pids:
        with Load(cores[1], processes=4) as load:
            guilty = [process.pid for process in load.started]
            for pid in guilty:  # busier than whatever else this machine does
                try:
                    os.setpriority(os.PRIO_PROCESS, pid, -5)
                except PermissionError:
                    pass
            time.sleep(0.5)
            report, _ = validate(store, pids)
    waiting = sorted(device["evidence"]["waited"] for device in report["devices"])
    if waiting[1] > 0.25:  # other programs keep the other ranks from their core as well: then it is the host
        print("  this machine is busy: all ranks wait for processors")
        assert "contention" in report["verdicts"][0]["cause"], figures(report)
        return
    found = [one for one in report["verdicts"] if one["component"] == "device" and one["rank"] == 2]
    assert found, figures(report)
    assert "contention" in found[0]["cause"] and "co-located load" in found[0]["cause"], found
    assert report["devices"][2]["evidence"]["busiest"]["pid"] in guilty, report["devices"][2]
    assert report["devices"][2]["evidence"]["load"] > 0.5, report["devices"][2]


def test_devices_alone_are_tested_when_asked(store):
    with Held() as pids:
        report, _ = validate(store, pids, words=("--gemm", "--only", "devices"))
    assert len(report["devices"]) == RANKS and report["links"] == [], figures(report)


def test_one_suspect_is_compared_with_others(store):
    with Held() as pids, Round(store, RANKS) as round:
        for member, pid in enumerate(pids):
            round.start(member, rank=10 + member, words=["--pid", str(pid), *(["--gemm"] if member == 1 else [])])
        report = round.report()
    assert [device["rank"] for device in report["devices"]] == [10, 11, 12, 13], figures(report)


def test_given_links_are_tested_and_no_others(store):
    with Held() as pids:
        report, _ = validate(store, pids, words=("--links", "0-2,3-1,2-0"))
    assert report["devices"] == [], figures(report)
    assert [(l["from"], l["to"]) for l in report["links"]] == [(0, 2), (2, 0), (1, 3), (3, 1)], figures(report)
    assert report["passes"] == 1, report


def test_a_member_that_does_not_come_is_named_and_the_others_continue(store):
    with Held() as pids:
        report, round = validate(store, pids, absent=[0], words=("--gemm", "--deadline", "6000"))
    assert report["missing"] == [{"member": 0, "rank": None}], report["missing"]
    assert any(has_facts(why, "process 0 did not arrive") for why in doubts(report)), report["verdicts"]
    assert [device["rank"] for device in report["devices"]] == [1, 2, 3], figures(report)
    assert len(report["links"]) == 6, figures(report)


def test_a_member_that_is_killed_is_named_and_the_others_continue(store):
    with Held() as pids, Round(store, RANKS) as round:
        for member, pid in enumerate(pids):
            round.start(member, words=["--pid", str(pid), "--gemm", "--repeat", "200", "--deadline", "8000"])
        talk = f"slackline:test:validation:{round.number}:talk"
        until(lambda: int(store.ask("XLEN", talk)) >= 8 * RANKS, 20, 0.01)  # well into the repeats
        round.process.pop(3).kill()
        report = round.report()
    assert report["missing"] == [{"member": 3, "rank": 3}], report["missing"]
    assert any("rank 3" in why for why in doubts(report)), report["verdicts"]
    assert not any(3 in one[1:3] for one in accused(report)), figures(report)
    assert len(report["devices"]) == 3, figures(report)


def test_a_missing_store_is_an_error(store):
    class Nowhere:
        url = "unix:/nonexistent/redis.sock"
    with Round(Nowhere, 2) as round:
        round.start(0, words=["--deadline", "1000"])
        _, error = round.process[0].communicate(timeout=60)
        assert round.process[0].returncode == 1 and error.count("\n") == 1, error


def given():
    need_programs()
    with Store() as store:
        yield store,
