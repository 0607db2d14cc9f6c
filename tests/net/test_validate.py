#!/usr/bin/env python3
# labels: long net
"""Validation between hosts: a direction of a link that is slow, both, everything that a host sends, and a link that
carries nothing, among four hosts on a switch whose ports are all shaped alike. Nothing is named where nothing is slow.

Rates are shaped, so that the machine is faster than any link; slow ones have an eighth."""
import json
import os
import subprocess
import time

from members import Round, Store, accused, command, doubts, figures, need_programs
from runner import has_facts, skip
from star import Star, permitted

HOSTS, MBIT, SLOW = 4, 400, 50


def validate(store, star, words=(), hosts=range(HOSTS)):
    with Round(store, len(hosts)) as round:
        for member, host in enumerate(hosts):
            round.start(member, words=["--deadline", "10000", *words], inside=star.inside(host))
        return round.report()


def test_nothing_is_named_where_nothing_is_slow(store, star):
    star.restore()
    report = validate(store, star)
    assert accused(report) == [] and doubts(report) == [], figures(report)
    assert report["healthy"] and len(report["links"]) == 2 * HOSTS, figures(report)
    assert {link["kind"] for link in report["links"]} == {"between hosts"}, report["links"]
    assert {link["interface"] for link in report["links"]} == {"eth0"}, report["links"]
    for link in report["links"]:  # all shaped alike: within a factor of two of the rate
        assert 0.5 < link["gb_per_s"] / (MBIT / 8000) < 2, figures(report)


def test_one_direction_is_named_with_its_direction(store, star):
    star.restore()
    star.slow(2, 1, SLOW)
    report = validate(store, star)
    assert accused(report) == [("link", 2, 1, False)], figures(report)


def test_the_other_direction_is_named_too(store, star):
    star.restore()
    star.slow(1, 2, SLOW)
    report = validate(store, star)
    assert accused(report) == [("link", 1, 2, False)], figures(report)


def test_both_directions_are_one_link(store, star):
    star.restore()
    star.slow(0, 3, SLOW)
    star.slow(3, 0, SLOW)
    report = validate(store, star)
    found = accused(report)
    assert len(found) == 1 and found[0][0] == "link" and {*found[0][1:3]} == {0, 3} and found[0][3], figures(report)


def test_all_that_a_host_sends_is_a_slow_host(store, star):
    star.restore()
    for to in (0, 2, 3):
        star.slow(1, to, SLOW)
    report = validate(store, star)
    assert accused(report) == [("host", 1)], figures(report)


def test_two_hosts_alone_cannot_be_told_but_with_a_reference(store, star):
    star.restore()
    star.slow(0, 1, SLOW)
    report = validate(store, star, hosts=[0, 1])
    assert accused(report) == [] and any(has_facts(why, "at least 3 of a kind") for why in doubts(report)), figures(report)
    star.restore()
    path = os.path.join(store.folder, "healthy.json")
    validate_to(store, star, path)
    star.slow(0, 1, SLOW)
    report = validate(store, star, hosts=[0, 1], words=["--expect", path])
    assert accused(report) == [("link", 0, 1, False)], figures(report)


def validate_to(store, star, path):
    with open(path, "w") as file:
        json.dump(validate(store, star), file)


def test_a_tree_and_all_pairs_find_it_as_well(store, star):
    star.restore()
    star.slow(1, 3, SLOW)  # a link of the tree, and of all pairs, but not of the ring
    assert accused(validate(store, star)) == [], "the ring does not have this link"
    for topology in ("tree", "all"):
        report = validate(store, star, words=["--topology", topology])
        assert accused(report) == [("link", 1, 3, False)], (topology, figures(report))


def test_a_link_that_nothing_passes_does_not_hang(store, star):
    star.restore()
    began = time.monotonic()
    star.slow(2, 3, 0.1)  # 12 kB in a second: nothing that a test can wait for
    report = validate(store, star)
    assert ("link", 2, 3, False) in accused(report) or ("link", 2, 3, True) in accused(report), figures(report)
    assert not [one for one in accused(report) if {*one[1:3]} != {2, 3}], figures(report)
    assert time.monotonic() - began < 40


def test_an_allocation_over_hosts_finds_it_as_well(store, star):
    star.restore()
    star.slow(3, 2, SLOW)
    words = star.mpirun(store.folder, 1, [command, "healthcheck", "--format", "json", "--only", "links"])
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    assert accused(report) == [("link", 3, 2, False)] and done.returncode == 1, (done.stderr, figures(report))


def given():
    need_programs()
    if reason := permitted():
        skip(reason)
    with Store() as store, Star(hosts=HOSTS, mbit=MBIT) as star:
        yield store, star
