"""`slackline campaign` with a fleet: a published log is read whole, the forms agree, times add up, more spares never hurt a job of the
same size, and errors name file, line and key."""
import csv
import io
import json
import os
import re
import xml.etree.ElementTree as xml

from calling import plan, problem, refused, run, write
from runner import expect, source

log = os.path.join(source, "bench", "campaign", "infinitehbd-faults.csv")
SET = ("--set", "fleet.hosts=400", "--set", "fleet.runs=3")
a = plan("campaign", log, *SET)
rows = {row["strategy"]: row for row in a["strategies"]}


def test_a_published_log_is_read_whole():
    with open(log) as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    starts = [line for line in lines if line["event"] == "start"]
    expect(len(lines) == 1168 and a["faults"] == len(starts) == 584, f"{a['faults']} faults")
    expect(a["duration_days"] == float(lines[-1]["time_days"]) and a["hosts"] == 400 and a["spares"] == 16, "as long as the log, and one spare in 25")
    counted = {}
    for line in starts:
        text = f"{line['level']}, {line['class']}, {line['description']}"
        counted[text] = counted.get(text, 0) + 1
    expect({cause["cause"]: cause["faults"] for cause in a["causes"]} == counted, "each cause")
    expect(all(cause["known"] for cause in a["causes"]), "every word is known")
    slow = {kind: sum(cause["faults"] for cause in a["causes"] if cause["kind"] == kind) for kind in ("pcie", "nic", "peer", "heat")}
    expect(slow == {"pcie": 26, "nic": 10, "peer": 3, "heat": 2}, f"slow hosts: {slow}")
    open_, hours = {}, 0  # every fault of the log ends
    for line in lines:
        key = (line["node"], line["class"], line["description"], line["level"])
        if line["event"] == "start":
            open_.setdefault(key, []).append(float(line["time_days"]))
        else:
            hours += 24 * (float(line["time_days"]) - open_[key].pop(0))
    expect(abs(sum(cause["hours"] for cause in a["causes"]) - hours) < 1e-3, "hours of all faults")


def test_shares_add_up_and_strategies_gain():
    for name, row in rows.items():
        expect(abs(sum(row["share"].values()) - 1) < 1e-9, f"{name}: {row['share']}")
        expect(row["goodput"] == row["share"]["useful"] and abs(row["training"] - row["goodput"] - row["share"]["slower"]) < 1e-9, name)
    expect(list(rows) == ["wait", "spares", "check", "notice", "check+notice"], "the strategies")
    expect(rows["wait"]["goodput"] < rows["spares"]["goodput"] < rows["notice"]["goodput"], "spares pay, and so does noticing")
    expect(rows["spares"]["replaced"] == 0 < rows["notice"]["replaced"], "who replaces slow hosts")
    expect(abs(a["young_s"] - (2 * 60 * a["between_stops_h"] * 3600) ** 0.5) < 0.01, "Young's interval")
    expect(a["checkpoint_every_s"] == a["daly_s"] < a["young_s"], "Daly's is shorter, and the default")
    best = max(a["by_spares"], key=lambda point: point["goodput"]["check+notice"] * (400 - point["spares"]))
    expect(best["spares"] == a["best_spares"], "the most work")


def test_forms_say_the_same():
    for form in ("text", "json", "csv", "svg"):
        first, second = (run("campaign", log, *SET, "--format", form, "--log") for _ in range(2))
        expect(first.returncode == 0 and first.stdout and first.stdout == second.stdout, f"{form}: the same bytes again")
    text = run("campaign", log, *SET, "--log").stdout
    for name, row in rows.items():
        expect(re.search(rf"^{re.escape(name)} +{100 * row['goodput']:.2f}% ", text, re.M), f"{name} in the table")
    expect(all(cause["cause"] in text for cause in a["causes"]), "--log lists causes")
    lines = list(csv.DictReader(io.StringIO(run("campaign", log, *SET, "--format", "csv").stdout)))
    expect(len(lines) == 5 * (1 + len(a["by_spares"]) + len(a["by_interval"])), "a line per strategy and variation")
    shown = "".join(xml.fromstring(run("campaign", log, *SET, "--format", "svg").stdout).itertext())
    expect(all(name in shown for name in rows), "a line per strategy")
    named = write("named.yaml", f"fleet: {{faults: {log}, hosts: 400, runs: 3}}\n")
    expect(plan("campaign", named) == a, "a campaign file names the same log")
    expect(plan("campaign", named, "--seed", "2")["strategies"] != a["strategies"], "another seed, other hosts")
    stats = run("campaign", log, *SET, "--stats")
    expect(re.fullmatch(r"campaign: [0-9.]+ s, peak memory [0-9.]+ MB\n", stats.stderr), "--stats")


def test_wrong_requests_are_named():
    refused(2, "a fleet | --problem", "campaign", log, "--problem", problem)
    refused(2, "'node' | 'fleet.hosts'", "campaign", log, "--set", "fleet.hosts=100")
    refused(2, "'spares' | 400", "campaign", log, *SET, "--set", "fleet.spares=400")
    refused(2, "'restart'", "campaign", log, *SET, "--set", "fleet.restart=1")
    bad = write("bad.csv", "time_days,node,event\n1,0,start\n0.5,0,end\n")
    refused(2, "bad.csv:3 | 'time_days' | before", "campaign", bad)
    unknown = write("unknown.csv", "time_days,node,event,class\n1,0,start,Cosmic Ray\n2,0,end,Cosmic Ray\n3,3,start,Fan\n")
    text = run("campaign", unknown, "--set", "fleet.spares=1", "--log").stdout
    expect("1 have no known word" in text and re.search(r"stop +-, Cosmic Ray, - \(no known word\)", text), text)
    expect("no known word" not in run("campaign", unknown, "--set", "fleet.words=[{word: cosmic, kind: warn}]").stdout, "a word of the file")
