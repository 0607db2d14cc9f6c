"""Files of earlier versions are read by this one, with the same results: problems, plans, orders, traces, cluster and campaign files, the
folder of a run with its checkpoints, the folder of a watch with its call logs. tests/kept/VERSION has those of each release (keep.py)."""
import glob
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from runner import build, expect, require, skip, source

require("slackline")
command = os.path.join(build, "slackline")
VERSIONS = sorted(glob.glob(os.path.join(source, "tests", "kept", "*", "facts.json")))


def facts():
    """(folder, facts) of each version."""
    for path in VERSIONS:
        with open(path) as file:
            yield os.path.dirname(path), json.load(file)


def run(*words):
    return subprocess.run([command, *words], capture_output=True, text=True, timeout=120)


def makespan(problem, order):
    done = run("simulate", problem, "--order", order, "--format", "json")
    expect(done.returncode == 0, f"simulate {problem} --order {order}: {done.stderr}")
    return json.loads(done.stdout)["makespan_ms"] if done.returncode == 0 else None


def test_there_are_files_of_a_version():
    assert VERSIONS, "tests/kept has no version"


def test_problems_and_orders_have_the_same_makespan():
    """Orders in both forms of CSV; plans in JSON are drawn."""
    for folder, kept in facts():
        for plan in kept["plans"]:
            problem = os.path.join(folder, plan["problem"] + ".yaml")
            for ending, wanted in (("csv", plan["makespan_ms"]), ("comms.csv", plan["comms_ms"])):
                found = makespan(problem, os.path.join(folder, f"{plan['problem']}.{ending}"))
                expect(found == wanted, f"{problem}, {ending}: {found} ms, not {wanted}")
            drawn = run("draw", os.path.join(folder, plan["problem"] + ".json"), "-o", "/dev/null")
            expect(drawn.returncode == 0, f"draw {plan['problem']}.json: {drawn.stderr}")


def test_traces_clusters_and_campaigns_are_read():
    for folder, _ in facts():
        for words in (("import", os.path.join(folder, "trace.json")), ("topology", os.path.join(folder, "cluster.yaml")),
                      ("campaign", os.path.join(folder, "campaign.yaml"), "--problem", os.path.join(folder, "four-ranks.yaml"))):
            done = run(*words)
            expect(done.returncode == 0 and done.stdout, f"{words}: exit {done.returncode}, {done.stderr}")


def test_a_runs_folder_is_reported_and_found_whole(folder):
    for kept_folder, kept in facts():
        copy = os.path.join(folder, "run-" + kept["version"])
        shutil.copytree(os.path.join(kept_folder, "run"), copy)
        page = os.path.join(folder, "page.html")
        done = run("report", copy, "-o", page)
        expect(done.returncode == 0, f"report of {kept['version']}: exit {done.returncode}, {done.stderr}")
        text = open(page).read() if done.returncode == 0 else ""
        for word in set(kept["run"]["events"]) & {"swap", "return", "suspect", "verdict"}:
            expect(word in text, f"the report of {kept['version']} has no {word}")
        found = run("detect", os.path.join(copy, "metrics.jsonl"), "--format", "json")
        expect(found.returncode == 0 and json.loads(found.stdout)["change_points"], f"detect: {found.stderr}")


def test_call_logs_have_the_same_period_and_changes():
    for folder, kept in facts():
        assert kept["calls"], f"{kept['version']} kept no call logs"
        for log, wanted in kept["calls"].items():
            done = run("detect", os.path.join(folder, log), "--format", "json")
            found = json.loads(done.stdout) if done.returncode == 0 else {}
            expect((found.get("period"), len(found.get("change_points", []))) == (wanted["period"], wanted["changes"]), f"{log}: {found} {done.stderr}, not {wanted}")
        done = run("report", os.path.join(folder, "watch"), "-o", "/dev/null")
        expect(done.returncode == 0, f"report of a watch of {kept['version']}: {done.stderr}")


def test_a_run_resumes_from_a_checkpoint(folder):
    """From the one in the middle, to the losses that the run had; another build may round differently."""
    if not os.path.exists(os.path.join(build, "slackline-worker")):
        skip("slackline-worker is not built")
    for kept_folder, kept in facts():
        out = os.path.join(folder, "resumed-" + kept["version"])
        shutil.copytree(os.path.join(kept_folder, "run"), out)
        last = kept["run"]["checkpoints"][-1]
        shutil.rmtree(os.path.join(out, "checkpoints", last))
        done = run("train", os.path.join(kept_folder, "run.yaml"), "--out", out, "--resume", "--set", "faults=[]", "--set", "adapt=false")
        expect(done.returncode == 0, f"train --resume of {kept['version']}: {done.stderr}")
        with open(os.path.join(out, "metrics.jsonl")) as file:
            losses = [json.loads(line)["loss"] for line in file]
        wanted = kept["run"]["losses"]
        expect(len(losses) == len(wanted) and all(abs(a - b) < 1e-4 * b for a, b in zip(losses, wanted)), f"losses {losses}, not {wanted}")
