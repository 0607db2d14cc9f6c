#!/usr/bin/env python3
"""A year of a cluster: `slackline campaign` on a published log of 400 servers (infinitehbd-faults.csv), and on drawn faults next to closed
forms. Nothing here runs a training job. Prints the sections; --write FILE puts them into FILE.

Usage: bench/campaign/fleet.py [BUILD_DIR] [--write FILE] [--only PART]   (PART: strategies, spares, intervals, noticing, closed, speed)"""
import argparse
import json
import math
import os
import re
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(source, "bench"))
from page import finish, machine, table  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("build", nargs="?", default=os.path.join(source, "build"))
parser.add_argument("--write")
parser.add_argument("--only")
arguments = parser.parse_args()
COMMAND = "`bench/campaign/fleet.py build --write docs/results/evidence/scale.md`"
LOG = os.path.join(here, "infinitehbd-faults.csv")
LAST = "check+notice"


def campaign(trace, text=None, **keys):
    """(JSON, standard error); keys are those of the section `fleet`."""
    words = [word for key, value in keys.items() for word in ("--set", f"fleet.{key.replace('__', '.')}={value}")]
    done = subprocess.run([os.path.join(arguments.build, "slackline"), "campaign", trace, "--format", "json", "--stats", *words],
                          input=text, capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout), done.stderr


SHORT = {"try_spares": "[16]", "try_checkpoint_every_s": "[3600]"}  # for sections that do not vary them


def year(**keys):
    return campaign(LOG, hosts=400, **keys)[0]


def rows(answer):
    return {row["strategy"]: row for row in answer["strategies"]}


def percent(share, digits=2):
    return f"{100 * share:.{digits}f}%"


def strategies():
    answer = year(**SHORT)
    parts = ["slower", "checkpoints", "rework", "restarts", "checks", "waiting"]
    lines = [[name, f"{percent(row['goodput'])} ± {percent(row['error'])}", percent(row["training"]), *(percent(row["share"][part]) for part in parts),
              f"{row['stops']:.0f}", f"{row['replaced']:.0f}"] for name, row in rows(answer).items()]  # fmt: skip
    kinds = {}
    for cause in answer["causes"]:
        kinds[cause["kind"]] = kinds.get(cause["kind"], 0) + cause["faults"]
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda item: -item[1]))
    return f"""400 servers, of which a job has {400 - answer['spares']}, for {answer['duration_days']:.0f} days; means of {answer['runs']} drawn sets of servers. {answer['faults']} faults ({counted}).
A restart takes 600 s, a check 120 s, a checkpoint 60 s, every {answer['checkpoint_every_s']:.0f} s of work (Daly); a slow server is noticed after 60 s. Assumed slowdowns of the job: PCIe width 1.3,
NIC 2, P2P 1.5, heat 1.2; the log has none. Goodput is useful work per time, training the time in iterations that are never repeated.

{table(["strategy", "goodput", "training", *parts, "stops", "replaced"], lines)}
"""


def spares():
    answer = year(try_checkpoint_every_s="[3600]")
    lines = [[f"{point['spares']}{' (most work)' if point['spares'] == answer['best_spares'] else ''}", str(400 - point["spares"]),
              *(percent(point["goodput"][name]) for name in rows(answer)), percent(point["goodput"][LAST] * (400 - point["spares"]) / 400)]
             for point in answer["by_spares"]]  # fmt: skip
    return f"""Goodput by the number of spares among the 400 servers. Work is the goodput of {LAST} times the job's share of all servers.

{table(["spares", "servers of the job", *rows(answer), "work"], lines)}
"""


def intervals():
    lines = []
    for restart, save in ((600, 60), (600, 300), (600, 5), (120, 60), (1800, 60)):
        answer = year(restart_s=restart, checkpoint_s=save, try_spares="[16]")
        points = answer["by_interval"]
        best = max(points, key=lambda point: point["goodput"][LAST])
        at = {point["checkpoint_every_s"]: point["goodput"][LAST] for point in points}
        lines.append([f"{save} s", f"{restart} s", f"{answer['between_stops_h']:.1f} h", f"{answer['young_s']:.0f} s: {percent(at[answer['young_s']])}",
                      f"{answer['daly_s']:.0f} s: {percent(at[answer['daly_s']])}", f"{best['checkpoint_every_s']:.0f} s: {percent(best['goodput'][LAST])}",
                      f"{points[0]['checkpoint_every_s']:.0f} s: {percent(points[0]['goodput'][LAST])}",
                      f"{points[-1]['checkpoint_every_s']:.0f} s: {percent(points[-1]['goodput'][LAST])}"])  # fmt: skip
    return f"""Goodput with {LAST}, with a checkpoint after so much work. Young's and Daly's intervals follow from the mean time between stops, and assume
exponential times between them. The best is the best of these and of Daly's times 1/8, 1/4, 1/2, 2, 4, and 8.

{table(["checkpoint", "restart", "a stop every", "Young", "Daly", "best of all", "an eighth", "eight times"], lines)}
"""


def noticing():
    lines = []
    for label, keys in (("as above", {}), ("slow servers twice as harmful (1.6, 3, 2, 1.4)", {"slow__pcie": 1.6, "slow__nic": 3, "slow__peer": 2, "slow__heat": 1.4}),
                        ("half as harmful (1.15, 1.5, 1.25, 1.1)", {"slow__pcie": 1.15, "slow__nic": 1.5, "slow__peer": 1.25, "slow__heat": 1.1}),
                        ("noticed after an hour", {"notice_s": 3600}), ("noticed after a day", {"notice_s": 86400}),
                        ("a restart of 1800 s", {"restart_s": 1800}), ("2 spares", {"spares": 2})):  # fmt: skip
        row = rows(year(**{**SHORT, **keys}))
        gain = row[LAST]["goodput"] / row["spares"]["goodput"] - 1
        lines.append([label, *(percent(row[name]["goodput"]) for name in ("spares", "check", "notice", LAST)), percent(gain, 1),
                      percent(row["spares"]["share"]["slower"]), percent(row[LAST]["share"]["slower"])])  # fmt: skip
    return f"""Goodput without and with noticing slow servers, and the share of time that they cost. More work: {LAST} against spares.

{table(["case", "spares", "check", "notice", LAST, "more work", "slower: spares", f"slower: {LAST}"], lines)}
"""


def closed():
    lines = []
    for mean, every, save, restart in ((1, 0.3, 0.02, 0.1), (4, 0.5, 0.1, 1), (24, 1.7, 1 / 60, 1 / 6)):
        work = 60 * every / 24
        answer, _ = campaign("-", "fleet: {hosts: 1, in_order: true, runs: 2000, repair_hours: 1e-9, try_spares: [0], try_checkpoint_every_s: [3600]}\n", failure_days=mean / 24, work_days=work,
                             checkpoint_every_s=3600 * every, checkpoint_s=3600 * save, restart_s=3600 * restart)  # fmt: skip
        row = rows(answer)["spares"]
        expected = mean * math.exp(restart / mean) * (math.exp((every + save) / mean) - 1) * 60
        lines.append([f"Daly 2006: a stop every {mean} h, checkpoints of {60 * save:.0f} min every {every} h, restarts of {60 * restart:.0f} min",
                      f"{expected:.3f} h", f"{24 * row['days']:.3f} h", f"± {24 * row['days'] * row['error'] / row['goodput']:.3f} h"])  # fmt: skip
    for crews in (1, 2, 0):
        weight = total = 1.0
        short = 0.0
        for down in range(1, 11):
            weight *= (11 - down) * 0.1 / (min(down, crews) if crews else down)
            total += weight
            short += weight if down > 2 else 0
        answer, _ = campaign("-", "fleet: {hosts: 10, spares: 2, runs: 20, failure_days: 10, repair_hours: 24, duration_days: 20000, restart_s: 0, check_s: 0, checkpoint_s: 0}\n",
                             crews=crews, try_spares="[2]", try_checkpoint_every_s="[1]", checkpoint_every_s=0.001)  # fmt: skip
        row = rows(answer)["spares"]
        lines.append([f"machine repair: 10 hosts, 8 needed, a failure every 10 days, repairs of 1 day, {crews or 'any number of'} crews", percent(short / total, 3),
                      percent(row["share"]["waiting"], 3), f"± {percent(row['error'], 3)}"])  # fmt: skip
    return f"""Drawn faults: the time of a job in the closed form, and simulated, with twice the standard error of the runs.

{table(["case", "closed form", "simulated", "two standard errors"], lines)}
"""


def speed():
    lines = []
    for label, trace, text, keys in (
            ("the log, one set of servers", LOG, None, {"hosts": 400, "runs": 1}), ("the log, 20 sets", LOG, None, {"hosts": 400}),
            ("drawn, 10,000 hosts, a failure every 1000 days each, 348 days, one run", "-", "fleet: {hosts: 10000, runs: 1, failure_days: 1000, repair_hours: 24, slow_days: 5000, duration_days: 348}\n", {})):
        answer, stats = campaign(trace, text, **keys)
        seconds, memory = re.search(r"campaign: ([0-9.]+) s, peak memory ([0-9.]+) MB", stats).groups()
        plays = answer["runs"] * 5 * (1 + len(answer["by_spares"]) + len(answer["by_interval"])) + answer["runs"]
        lines.append([label, f"{plays:,}", f"{float(seconds):.2f} s", f"{float(memory):.0f} MB"])
    return f"""On {machine()}. A year is the job's 348 days with one strategy; every command plays all strategies, numbers of spares, and intervals.

{table(["campaign", "years played", "time", "peak memory"], lines)}
"""


PARTS = (("strategies", "A year of 400 servers: strategies", strategies), ("spares", "A year of 400 servers: spares", spares),
         ("intervals", "A year of 400 servers: checkpoints", intervals), ("noticing", "A year of 400 servers: slow servers", noticing),
         ("closed", "Closed forms", closed), ("speed", "A year of 400 servers: speed", speed))
for part, heading, make in PARTS:
    if arguments.only in (None, part):
        finish(arguments.write, heading, f"{COMMAND}. Simulated.\n\n{make()}")
        print()
