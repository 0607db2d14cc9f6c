"""Falcon, figure 17: slow communication, then a slow device, then a restart without the host that has both."""
import os
import stat
import statistics
import subprocess

from command import table
from congestion import gradient_bytes
from live import HOLD, quoted, shape

HEADING = "Compound trouble, live"
STAGES, REPLICAS, MICROBATCHES, OP, WIDTH, CONTEXT = 4, 2, 18, 10.0, 64, 16
LINK_SLOW, DEVICE_SLOW, END = 10, 26, 70  # iterations
BAD = "b"
HOSTS = ["a:1", f"{BAD}:1", "c:6", "spare:1"]  # world ranks in this order: b has replica 1 of stage 0
MORE_MS, SLOWER = 420.0, 3.5  # extra time of an iteration by the slow sum; slowdown of the slow host's ops
PUBLISHED = {"healthy": 1.7, "link slow": 1.0, "after the first answer": 1.3, "device slow, too": 0.5, "after the second answer": 0.9,
             "after the restart": 1.7}

# Stands for ssh: this machine under another name, with a /dev/shm of its own.
AGENT = """#!/bin/bash
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec unshare -u -m bash -c 'mount -t tmpfs tmpfs /dev/shm; hostname "$0"; exec bash -c "$1"' "$host" "$*"
"""


def possible():
    words = ["unshare", "-u", "-m", "bash", "-c", "mount -t tmpfs tmpfs /dev/shm && hostname other"]
    return subprocess.run(words, capture_output=True).returncode == 0


def run_file():
    bandwidth = gradient_bytes(WIDTH, CONTEXT) * 8 / (MORE_MS * 1e6)
    faults = [{"iterations": [LINK_SLOW, END], "rank": 0, "replicas": [0, 1], "host": BAD, "bandwidth_gbps": bandwidth},
              {"iterations": [DEVICE_SLOW, END], "host": BAD, "slowdown": SLOWER}]
    return shape(STAGES, REPLICAS, MICROBATCHES, OP, END, width=WIDTH, context=CONTEXT, schedule="1f1b", adapt=True, faults=faults,
                 hosts=HOSTS, checkpoint={"every": 10 * END},
                 adaptation={"strategies": ["schedule", "balance", "topology", "restart"]}), bandwidth


def phases(run):
    """[(name, first, end, change)] of phases in iterations, with the change at the begin of each; and the first iteration after the host left."""
    left = next((event["iteration"] for event in run.events if event["kind"] == "leave"), END)
    first = [c for c in run.arranged() if LINK_SLOW < c[0] <= DEVICE_SLOW]
    second = [c for c in run.arranged() if DEVICE_SLOW < c[0] <= left]
    answered = first[0][0] if first else DEVICE_SLOW
    again = second[0][0] if second else left
    settled = second[-1][0] if second else left
    found = [("healthy", 1, LINK_SLOW, ""), ("link slow", LINK_SLOW, answered, ""),
             ("after the first answer", answered, DEVICE_SLOW, text_of(first)), ("device slow, too", DEVICE_SLOW, again, ""),
             ("after the second answer", settled, left, text_of(second)), ("after the restart", left + 1, END, f"without {BAD}")]
    return [phase for phase in found if phase[1] < phase[2]], left


def text_of(changes):
    if not changes:
        return "nothing was changed"
    _, seats, split = changes[-1]
    return f"positions {' '.join(map(str, seats))}, split {' '.join(map(str, split))}"


def chart(path, run, pause, left):
    """A chart of throughput over time, as steps. Restarts and measurements of the network are gaps."""
    width, height, edge, below, most = 760, 260, 50, 40, 2.0
    points, at, pauses = [], 0.0, run.pauses()
    for row in run.rows:
        at += pauses.get(row["iteration"], 0) / 1e3
        points.append((at, 1e3 / row["time_ms"]))
        at += row["time_ms"] / 1e3
    most = max(most, max(rate for _, rate in points))

    def x(seconds):
        return edge + (width - edge - 10) * seconds / at

    def y(rate):
        return height - below - (height - below - 30) * rate / most
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{edge}" y="16" font-size="14">Iterations a second, measured; paced devices</text>']
    for mark in (0, 0.5, 1, 1.5, 2):
        out.append(f'<path d="M{edge} {y(mark):.1f}H{width - 10}" stroke="#ddd"/><text x="{edge - 6}" y="{y(mark) + 4:.1f}" '
                   f'text-anchor="end">{mark:g}</text>')
    for seconds in range(0, int(at) + 1, 10):
        out.append(f'<text x="{x(seconds):.1f}" y="{height - below + 16}" text-anchor="middle">{seconds}</text>')
    out.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">s</text>')
    for iteration, word in ((LINK_SLOW, "link slow"), (DEVICE_SLOW, "device slow"), (left, "restart")):
        if iteration < len(points):
            place = x(points[iteration][0] - (pause if iteration == left else 0))
            out.append(f'<path d="M{place:.1f} 30V{height - below}" stroke="#b3261e" stroke-dasharray="4 3"/>'
                       f'<text x="{place + 3:.1f}" y="40" fill="#b3261e">{word}</text>')
    for (begin, rate), row in zip(points, run.rows):
        end = begin + row["time_ms"] / 1e3
        out.append(f'<path d="M{x(begin):.1f} {y(rate):.1f}H{x(end):.1f}" stroke="#1f4e9c" stroke-width="2.5"/>')
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n</svg>\n")


def rate(run, first, end):
    rows = [row for row in run.rows if first <= row["iteration"] < end]
    return 1e3 / statistics.median(row["time_ms"] for row in rows)


def section(bench, write):
    if not possible():
        raise SystemExit("compound: namespaces for hosts of their own are not permitted (unshare -u -m)")
    agent = os.path.join(bench.slackline.folder, "agent")
    with open(agent, "w") as file:
        file.write(AGENT)
    os.chmod(agent, stat.S_IRWXU)
    problem, bandwidth = run_file()
    run = bench.run("figure 17", problem, {"OMPI_MCA_plm_rsh_agent": agent})
    found, left = phases(run)
    pause = sum(run.pauses(("left",)).values()) / 1e3
    picture = os.path.join(os.path.dirname(os.path.abspath(write)) if write else bench.slackline.folder, "adapting-compound.svg")
    chart(picture, run, pause, left)
    rows, healthy = [], rate(run, found[0][1], found[0][2])
    for name, first, end, change in found:
        now = rate(run, first, end)
        rows.append([name, f"{first} to {end - 1}", f"{now:.2f}", f"{100 * now / healthy:.0f}%", f"{PUBLISHED[name]:g}",
                     f"{100 * PUBLISHED[name] / 1.7:.0f}%", change])
    what = "" if left < END else "\n**The run has not restarted: what was lost did not come to the cost.**\n"
    return f"""\
Falcon's figure 17: slow communication, then a slow device, and a restart without the host when what was lost has come to its cost. Here
{REPLICAS} replicas x {STAGES} stages, {MICROBATCHES} microbatches each, F = I = W = {OP:g} ms, 1F1B, gpt2 of {STAGES} blocks of width {WIDTH}. Hosts are this machine under
other names ({', '.join(HOSTS)}; the last one spare), through a stand-in for ssh. From iteration {LINK_SLOW} on the link of host {BAD} to the other replica
of stage 0 has {1e3 * bandwidth:.2f} Mbit/s, from iteration {DEVICE_SLOW} on its device takes {SLOWER:g} times as long, as in the figure; both are the host's, so that the run
is rid of them without it. `strategies: [schedule, balance, topology, restart]`, all of it one run without an order; a change must last
{HOLD} iterations.
{what}
{table(["", "iterations", "iterations/s", "of healthy", "published", "of healthy", "what was done"], rows)}
The restart took {pause:.1f} s in all (a checkpoint, the end of all ranks, the start on the other hosts), the longest look at the network
{run.look():.2f} s; neither is part of an iteration.

![iterations a second over time](adapting-compound.svg)

decisions.txt:

{quoted(run.log())}"""
