#!/usr/bin/env python3
"""Arrangements of `slackline topology`, by the timing model (nothing here runs a training job): Falcon's figure 16, the most
expensive positions of a slow link (Adaptra, figure 3), and clusters of up to 4,096 hosts. Prints the section; --write FILE
puts it into docs/results/evidence/adapting.md.

Usage: bench/topology/run.py [BUILD_DIR] [--write FILE] [--seed N]"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import finish, machine, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
parser.add_argument("--seed", type=int, default=1)
arguments = parser.parse_args()


def cluster(data, pipeline, microbatches, hosts, links, model, tensor=1):
    """A cluster file. hosts: the speeds other than 1, by number; links: items of `links`."""
    count = tensor * data * pipeline
    lines = [f"parallel: {{tensor: {tensor}, data: {data}, pipeline: {pipeline}}}", f"batch: {{microbatches: {microbatches}}}",
             "times_ms: {F: 20, I: 20, W: 20}", "hosts:"]
    lines += [f"  - {{name: node{i}, speed: {hosts.get(i, 1)}}}" for i in range(count)]
    lines += ["links:", "  default: {latency_ms: 0.02, bandwidth_gbps: 400}", *links, f"model: {model}"]
    return "\n".join(lines) + "\n"


def arrange(text):
    done = subprocess.run([os.path.join(arguments.build, "slackline"), "topology", "-", "--format", "json", "--seed",
                           str(arguments.seed)], input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


SEVEN = "{layers: 32, width: 4096, context: 2048, vocabulary: 50257}"


def congested(pairs, gbps, everywhere):
    """Figure 16: each congested link slows a pair of devices, either in all their messages or only between the two. The pairs are in
    different stages."""
    names = [[f"node{4 * (1 + i) % 16 + k}" for k in (0, 1)] for i in range(pairs)]
    ends = [f"[{', '.join(sum(names, []))}], '*'"] if everywhere else [", ".join(pair) for pair in names]
    return ["  list:"] + [f"    - {{between: [{end}], latency_ms: 0.02, bandwidth_gbps: {gbps}}}" for end in ends]


def figure_16(everywhere):
    healthy = arrange(cluster(4, 4, 8, {}, [], SEVEN))["present_ms"]
    low, high = 1.0, 400.0
    for _ in range(30):  # the bandwidth at which one link costs as much as in the figure
        gbps = (low * high) ** 0.5
        if arrange(cluster(4, 4, 8, {}, congested(1, gbps, everywhere), SEVEN))["present_ms"] > 1.6 * healthy:
            low = gbps
        else:
            high = gbps
    rows = []
    for pairs, published in ((1, ("1.6", "1.3")), (2, ("1.7", "1.3")), (3, ("1.9", "1.7"))):
        a = arrange(cluster(4, 4, 8, {}, congested(pairs, gbps, everywhere), SEVEN))
        rows.append([pairs, published[0], published[1], f"{a['present_ms'] / healthy:.2f}", f"{a['iteration_ms'] / healthy:.2f}",
                     "proven" if a["proven"] else f"{100 * a['gap']:.1f}%", len(a["moves"])])
    return gbps, table(["congested links", "published: before", "after", "here: before", "after", "above the bound", "hosts moved"], rows)


def figure_3():
    rows = []
    for gbps in (100, 40, 20, 10):
        times = []
        for pair in ((0, 1), (0, 4)):  # neighbors in the first stage's ring; first and second stage of a replica
            link = f"    - {{between: [node{pair[0]}, node{pair[1]}], latency_ms: 0.02, bandwidth_gbps: {gbps}}}"
            times.append(arrange(cluster(4, 4, 8, {}, ["  list:", link], SEVEN)))
        healthy = arrange(cluster(4, 4, 8, {}, [], SEVEN))["present_ms"]
        rows.append([gbps, f"{times[0]['present_ms'] / healthy:.2f}", f"{times[1]['present_ms'] / healthy:.2f}",
                     f"{times[0]['iteration_ms'] / healthy:.2f}"])
    return table(["Gbit/s of the slow link", "in a ring", "between stages", "rearranged from the ring"], rows)


def stragglers():
    rows = []
    healthy = arrange(cluster(4, 4, 8, {}, [], SEVEN))["present_ms"]
    for slow, where in ((2, "two stages of a replica"), (4, "two stages of two replicas"), (6, "two stages of three replicas")):
        speeds = {i // 2 + 4 * (2 if i % 2 else 0): 0.5 for i in range(slow)}
        a = arrange(cluster(4, 4, 8, speeds, [], SEVEN))
        stages = {s["pipeline"] for s in a["arrangement"] if int(s["host"][4:]) in speeds}
        rows.append([slow, where, f"{a['present_ms'] / healthy:.3f}", f"{a['iteration_ms'] / healthy:.3f}", len(stages),
                     "proven" if a["proven"] else f"{100 * a['gap']:.1f}%"])
    return table(["slow devices (half speed)", "before in", "before", "after", "in stages", "above the bound"], rows)


def large():
    rows = []
    for tensor, data, pipeline in ((1, 4, 4), (1, 16, 4), (1, 32, 8), (1, 64, 16), (8, 16, 8), (1, 64, 64)):
        draw = random.Random(arguments.seed)
        count = tensor * data * pipeline
        speeds = {i: 0.6 for i in draw.sample(range(count), max(1, count // 50))}
        links = ["  list:"]
        if tensor > 1:
            links = ["  groups:"] + [f"    - {{hosts: 'node[{i}-{i + tensor - 1}]', latency_ms: 0.005, bandwidth_gbps: 3600}}"
                                     for i in range(0, count, tensor)] + links
        for _ in range(max(1, count // 30)):
            i = draw.randrange(count - tensor)
            links.append(f"    - {{between: [node{i}, node{i + tensor}], bandwidth_gbps: 20}}")
        a = arrange(cluster(data, pipeline, 4 * pipeline, speeds, links, "{layers: 96, width: 8192, context: 2048, vocabulary: 50257}",
                            tensor))
        rows.append([count, f"{tensor} x {data} x {pipeline}", f"{a['present_ms']:.1f}", f"{a['iteration_ms']:.1f}",
                     f"{a['lower_bound_ms']:.1f}", "proven" if a["proven"] else f"{100 * a['gap']:.2f}%", len(a["moves"]),
                     f"{a['solve_ms'] / 1e3:.2f}"])
    return table(["hosts", "tensor x data x pipeline", "before ms", "after ms", "bound ms", "above the bound", "hosts moved", "search s"],
                 rows)


gbps, sixteen = figure_16(False)
everywhere = figure_16(True)[1]
body = f"""`bench/topology/run.py build --write docs/results/evidence/adapting.md` on {machine()}. All rows are simulated: the timing model replays
1F1B for every replica with the times of its hosts and links (`src/adapt/topology/topology_inside.h`); nothing was trained.

Falcon's figure 16: 4 replicas of 4 stages, in one, two or three of which a congested link slows a pair of devices. Neither model
nor rates are published, nor whether the pair is slow to everybody; here it is 7 billion parameters at 400 Gbit/s, and
{gbps:.1f} Gbit/s for what is congested, at which one link costs as much as in the figure. Times are in units of the healthy
iteration's. Where only the link between the two is congested, another sequence of the ring leaves it without traffic:

{sixteen}
Where all that the two send is slow, some ring has to wait for them, best the one that hides it (that of the stage that ends
first); more cannot be had by moving hosts:

{everywhere}

Figure 3 of Adaptra says that the same slow link costs more in a ring over replicas than between stages (8.04 against 2.24 times
there). The same cluster, one link slow; last column: the ring's link after rearranging.

{figure_3()}

Falcon's figure 11: slow devices spread over stages cost more than gathered.

{stragglers()}

Larger clusters: every fiftieth host has a speed of 0.6, and as many links as a thirtieth of the hosts, between neighbours in
rings, have 20 of 400 Gbit/s. Seed {arguments.seed}; the search is one thread.

{large()}
"""
finish(arguments.write, "Topology", body)
