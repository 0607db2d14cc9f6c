"""The folder that an adapted PyTorch job writes (slackline.adapting.folder), read by `slackline report` and `draw`: with replicas, with an end, and
after an exception; no PyTorch."""
import json
import os
import re
import subprocess
import sys

import package
from runner import build, expect, require
from slackline._plan import Op, Transfer
from slackline.adapting import order
from slackline.adapting.deciding import Decider
from slackline.adapting.measured import Measured, Shape
from slackline.adapting.folder import Folder, opened

require("slackline")
RANKS, REPLICAS, STEPS = 2, 2, 12


def step_of(number, replica):
    """A step of a replica: one forward and one backward on each rank, which take twice as long on replica 1."""
    begin, unit = 100.0 * number, 10.0 * (1 + replica)
    ops = [Op(rank, op, rank, 0, begin + at * unit, begin + (at + 1) * unit) for at, (rank, op) in enumerate([(0, "F"), (1, "F"), (1, "B"), (0, "B")])]
    transfers = [Transfer(0, 1, "F", 0, 0, begin + unit, begin + unit, begin + unit + 0.5), Transfer(1, 0, "B", 1, 0, begin + 3 * unit, begin + 3 * unit, begin + 3 * unit + 0.5)]
    return Measured(number, 0, begin, begin + 4 * unit, ops, transfers, 0.01)


def written(path):
    rows = [[order.Cell(rank, op, 0) for op in "FB"] for rank in range(RANKS)]
    shape = Shape([0, 1], RANKS, "linear", 1, rows, False, True, replicas=REPLICAS)
    folder, decider = Folder(path, shape), Decider(shape, dict, lambda: [1e9] * RANKS)
    for number in range(STEPS):
        folder.step([step_of(number, replica) for replica in range(REPLICAS)], None, decider, [])
    return folder


def test_a_finished_run_is_never_overwritten(folder):
    path, shape = os.path.join(folder, "run"), Shape([0, 1], RANKS, "linear", 1, [[order.Cell(rank, op, 0) for op in "FB"] for rank in range(RANKS)], False, True)
    written(path)
    expect(opened(path, shape).path == path, "a run without an end kept its folder from the next one")
    for wanted in (path, path + "-2", path + "-3"):
        run = opened(path + "/", shape)
        expect(os.path.normpath(run.path) == wanted, f"written to {run.path}, not to {wanted}")
        run.end()


def lines(path, name):
    with open(os.path.join(path, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def command(*words):
    return subprocess.run([os.path.join(build, "slackline"), *words], capture_output=True, text=True, timeout=120)


def test_a_report_of_it_has_its_end_and_all_replicas(folder):
    path = os.path.join(folder, "run")
    written(path).end()
    done = command("report", path)
    with open(os.path.join(path, "report.html"), encoding="utf-8") as file:
        page = file.read()
    expect(done.returncode == 0 and "summary.json is missing" not in page and "no end recorded" not in page, f"report: {done.stderr}")
    kinds = [one["kind"] for one in lines(path, "events.jsonl")]
    expect(kinds == ["start", "end"], f"events: {kinds}")
    with open(os.path.join(path, "timeline.json"), encoding="utf-8") as file:
        traced = [one for one in json.load(file)["traceEvents"] if one["ph"] == "X"]
    expect({one["pid"] for one in traced} == {0, 1, 2, 3} and len(traced) == STEPS * REPLICAS * 6, f"{len(traced)} events of processes {sorted({one['pid'] for one in traced})}")
    for replica, ms in ((0, 40), (1, 80)):
        done = command("draw", path, "--what", "gantt", "--replica", str(replica), "--iteration", "5")
        expect(done.returncode == 0 and f"{ms} ms" in done.stdout, f"replica {replica}: {done.stderr}{done.stdout[-300:]}")
    with open(os.path.join(path, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    expect(summary["iterations"] == STEPS and summary["ranks"] == 4 and summary["phases"] == {"healthy": {"time_ms": 80.0}}, f"summary: {summary}")


def test_steps_that_were_not_measured_are_lines_of_metrics_in_their_place(folder):
    """The last ones have ended before their records are read: their time is known on the first rank."""
    path = os.path.join(folder, "run")
    made = written(path)
    for number in range(STEPS + 1, STEPS + 6):
        made.ran(number, 81.5)
    made.step([step_of(STEPS + 3, replica) for replica in range(REPLICAS)], None, Decider(made._shape, dict, lambda: [1e9] * RANKS), [])
    before = [one["iteration"] for one in lines(path, "metrics.jsonl")]
    expect(before == [*range(STEPS), STEPS + 1, STEPS + 2, STEPS + 3], f"before the end: {before}")
    made.end()
    rows = {one["iteration"]: one for one in lines(path, "metrics.jsonl")}
    expect(len(rows) == STEPS + 5 and rows[STEPS + 3]["links"], f"lines: {sorted(rows)}")
    for number in (STEPS + 4, STEPS + 5):
        expect(rows[number]["time_ms"] == 81.5 and rows[number]["links"] == [] and "work_ms" not in rows[number], f"{rows[number]}")
    with open(os.path.join(path, "summary.json"), encoding="utf-8") as file:
        expect(json.load(file)["iterations"] == STEPS + 6, "the last step is not the last iteration")
    done = command("report", path)
    expect(done.returncode == 0, done.stderr)
    done = command("draw", path, "--what", "iterations")
    expect(done.returncode == 0 and f"iteration {STEPS + 4}" in done.stdout, done.stderr + done.stdout[:2000])
    curves = [one for one in re.findall(r'<path d="(M[^"]*L[^"]*)"[^>]*stroke-linejoin', command("draw", path, "--what", "links").stdout)]
    expect(len(curves) >= 2 and all(one.count("M") == 1 for one in curves), f"curves of links with a gap: {curves}")


def test_a_job_that_ends_before_anything_is_measured_has_its_steps(folder):
    path = os.path.join(folder, "run")
    made = Folder(path, Shape([0, 1], RANKS, "linear", 1, [], False, True))
    made.ran(0, 20.5)
    made.raised = "RuntimeError: a peer has died"
    made.end()
    expect([(one["iteration"], one["time_ms"], one["phase"]) for one in lines(path, "metrics.jsonl")] == [(0, 20.5, "healthy")], f"{lines(path, 'metrics.jsonl')}")
    last = lines(path, "events.jsonl")[-1]
    expect((last["kind"], last["why"]) == ("failed", "RuntimeError: a peer has died"), f"{last}")


def test_the_end_of_the_process_is_recorded_with_its_exception(folder):
    for what, last, why in (("pass", "end", ""), ("raise ValueError('no data')", "failed", "ValueError: no data"), ("os._exit(0)", None, "")):
        path = os.path.join(folder, what[:4])
        program = f"import os, sys; sys.path[:0] = {sys.path!r}; import test_adapting_folder as test; kept = test.written({path!r}); {what}"
        words = [sys.executable, "-c", program, build, package.source]
        subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))})
        said = [(one["kind"], one["why"]) for one in lines(path, "events.jsonl")][1:]
        expect(said == ([(last, why)] if last else []), f"{what}: {said}")
