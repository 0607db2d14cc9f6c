"""`slackline topology`: what it prints agrees with itself, errors name file, line and key, the example says what it says."""
import os
import re

from calling import plan, refused, run, write
from runner import expect, source

example = os.path.join(source, "examples", "cluster.yaml")
a = plan("topology", example)
where = {s["host"]: s for s in a["arrangement"]}


def test_an_arrangement_agrees_with_itself():
    expect(a["format"] == "slackline-topology-1", "format")
    expect(sorted(seat["host"] for seat in a["arrangement"]) == sorted(f"node{i}" for i in range(16)), "every host sits once")
    expect(len({(s["tensor"], s["data"], s["pipeline"]) for s in a["arrangement"]}) == 16, "on a position of its own")
    expect(a["lower_bound_ms"] <= a["iteration_ms"] < a["present_ms"], "better than now, not better than the bound")
    expect(abs(a["gain"] - (1 - a["iteration_ms"] / a["present_ms"])) < 1e-9, "the gain is of the present time")
    expect(abs(a["gap"] - (a["iteration_ms"] / a["lower_bound_ms"] - 1)) < 1e-9, "the gap is to the bound")
    for move in a["moves"]:
        expect({k: where[move["host"]][k] for k in ("tensor", "data", "pipeline")} == move["to"], "a move ends where the host sits")
        expect(move["from"] != move["to"], "and is one")
        expect(move["weights"] == (move["from"]["pipeline"] != move["to"]["pipeline"]), "another stage needs other weights")
    moved = {m["host"] for m in a["moves"]}
    for i in range(16):
        if f"node{i}" not in moved:
            expect(where[f"node{i}"]["data"] == i % 4 and where[f"node{i}"]["pipeline"] == i // 4, f"node{i} stays")


def test_slow_hosts_share_a_stage_and_slow_links_carry_no_ring():
    expect(where["node3"]["pipeline"] == where["node7"]["pipeline"], "the two slow hosts share a stage")
    five, six = where["node5"], where["node6"]
    expect(not (five["pipeline"] == six["pipeline"] and (five["data"] - six["data"]) % 4 in (1, 3)), "the congested link is in no ring")
    expect(any("node5-node6" in line for line in a["why"]), "and the reason names it")


def test_volumes_are_those_of_the_formulas():
    # 2 m b n h k and 2 (D - 1) / D k (12 h^2 + 5 h) 6
    expect(abs(a["volumes_mb"]["pipeline"] - 2 * 16 * 2048 * 2048 * 2 / 1e6) < 1e-6, "volume of a boundary")
    expect(abs(a["volumes_mb"]["data"][1] - 1.5 * 2 * 6 * (12 * 2048**2 + 5 * 2048) / 1e6) < 1e-6, "volume of a ring")


def test_what_is_proposed_is_left_alone():
    # what it proposes, as the present arrangement, takes what it said and is left alone
    names = ",".join(s["host"] for s in sorted(a["arrangement"], key=lambda s: (s["pipeline"], s["data"], s["tensor"])))
    again = plan("topology", example, "--set", f"present=[{names}]")
    expect(abs(again["present_ms"] - a["iteration_ms"]) < 1e-9, "the proposed arrangement takes what was foretold")
    expect(again["moves"] == [] and again["gain"] == 0, "and nothing moves any more")
    expect({k: v for k, v in plan("topology", example, "--seed", "1").items() if k != "solve_ms"} == {k: v for k, v in a.items() if k != "solve_ms"}, "the same answer for the same seed")


def test_text_says_the_gain():
    text = run("topology", example).stdout
    expect(re.search(r"rearranged: +[0-9.]+ ms, [0-9.]+% less", text) and "why:" in text, "text")


def test_tensor_ranks_share_a_host():
    """Two hosts of two devices, tensor ranks now on different hosts. A sum of 100 MB takes two steps of half: 100 ms at 8 Gbit/s between hosts, 1 ms at 800
    inside. F 10 + 2 sums, B 20 + 2 sums, through two stages and back: 2 * (210 + 220) ms, and 2 * (12 + 22)."""
    of_two = write("devices.yaml", "parallel: {tensor: 2, data: 1, pipeline: 2}\nbatch: {microbatches: 1}\ntimes_ms: {F: 10, I: 10, W: 10}\n"
                   "hosts: [{name: a, devices: 2}, {name: b, devices: 2}]\nlinks: {default: {bandwidth_gbps: 8}, inside: {bandwidth_gbps: 800}}\n"
                   "volumes: {tensor_mb: 100, tensor_sums: {F: 2, I: 2}}\npresent: [a/0, b/0, a/1, b/1]\n")
    found = plan("topology", of_two)
    expect(abs(found["present_ms"] - 860) < 1e-9, f"now {found['present_ms']} ms")
    expect(abs(found["iteration_ms"] - 68) < 1e-9, f"rearranged {found['iteration_ms']} ms")
    hosts = {(s["pipeline"], s["tensor"]): s["host"] for s in found["arrangement"]}
    expect(sorted(hosts.values()) == ["a/0", "a/1", "b/0", "b/1"], f"devices {hosts}")
    expect(all(hosts[stage, 0][0] == hosts[stage, 1][0] for stage in range(2)), f"tensor ranks share a host: {hosts}")


cluster = open(example).read()


def test_a_profile_gives_the_op_times():
    # a profile of a run gives the op times
    profile = write("profile.yaml", "pipeline:\n  ranks: 4\n  microbatches: 16\n  times_ms: {F: [10, 10, 10, 10], I: 10, W: 10}\n")
    without = write("without.yaml", re.sub(r"times_ms:.*\n", "\n", cluster))
    measured = plan("topology", without, "--profile", profile)
    expect(measured["iteration_ms"] == a["iteration_ms"], "the same times from a profile, the same answer")
    refused(2, "times_ms", "topology", example, "--profile", profile)
    refused(2, "hosts", "topology", profile)
    refused(2, "'times_ms'", "topology", without)
    refused(2, "tensor", "topology", without, "--profile", profile, "--set", "parallel.tensor=2", "--set", "parallel.data=2")
    short = write("short.yaml", "pipeline: {ranks: 2, microbatches: 16, times_ms: {F: 1, I: 1, W: 1}}\n")
    refused(2, "4", "topology", without, "--profile", short)


def test_wrong_clusters_are_named_with_line_and_key():
    # what is wrong is named with file, line and key
    line = next(i for i, text in enumerate(cluster.splitlines(), 1) if text.startswith("hosts"))
    for sets, says in (
            (["parallel.data=5"], f"cluster.yaml:{line}: 'hosts' has 16 hosts for the 20 positions"),
            (["parallel.data=3"], "hosts | 12 | positions"),
            (["parallel.dta=3"], "'dta'"),
            (["hosts.1.speed=0"], "'speed'"),
            (["hosts.1.speed=nan"], "'speed'"),
            (["hosts.1.name=node0"], "'node0'"),
            (["hosts.0='node[2-0]'"], "range"),
            (["hosts.0='node[0-'"], "hosts"),
            (["links.list.0.between=[node5, node99]"], "'node99' | hosts"),
            (["links.list.0.between=[node5, node5]"], "hosts"),
            (["links.list.0.bandwidth_gbps=0"], "'bandwidth_gbps'"),
            (["links.default={latency_ms: 1}"], "'bandwidth_gbps'"),
            (["present=[node0, node1]"], "16 | hosts | 2"),
            (["volumes={activation_mb: 1}"], "'model'"),
            (["model.layers=2"], "2 | layers | 4"),
            (["times_ms.F=[1, 2]"], "list | 4"),
            (["times_ms.F=-1"], "'F'"),
            (["batch.microbatches=0"], "'microbatches'"),
            (["schedule=dualpipe"], "dualpipe"),
            (["parallel={tensor: 4096, data: 4096}"], "positions")):
        refused(2, says, "topology", example, *[word for s in sets for word in ("--set", s)])
    refused(2, "option", "topology", example, "--sede", "1")
    refused(2, "--effort", "topology", example, "--effort", "0")
    refused(2, "CLUSTER", "topology")
    refused(2, "no-such", "topology", "no-such.yaml")


def test_tensor_ranks_sit_where_links_are_fast():
    # volumes as numbers, groups, both directions apart, tensor ranks
    numbers = write("numbers.yaml", """parallel: {tensor: 2, data: 2, pipeline: 2}
batch: {microbatches: 4}
times_ms: {F: 5, I: 5, W: 5}
hosts: [a0, b0, c0, d0, a1, b1, c1, d1]
links:
  default: {latency_ms: 0.1, bandwidth_gbps: 10}
  groups:
    - {hosts: [a0, a1], bandwidth_gbps: 1000}
    - {hosts: [b0, b1], bandwidth_gbps: 1000}
    - {hosts: [c0, c1], bandwidth_gbps: 1000}
    - {hosts: [d0, d1], bandwidth_gbps: 1000}
  list:
    - {between: [[a0, a1], "*"], one_way: true, latency_ms: 0.2, bandwidth_gbps: 10}
    - {between: [a0, a1], bandwidth_gbps: 1000}
volumes: {activation_mb: 1, gradient_mb: [10, 20], tensor_mb: 10, tensor_sums: {F: 2, I: 2}}
""")
    t = plan("topology", numbers)
    cells = {}
    for s in t["arrangement"]:
        cells.setdefault((s["data"], s["pipeline"]), set()).add(s["host"][0])
    expect(t["proven"] and all(len(c) == 1 for c in cells.values()), "tensor ranks sit where their links are fast")
