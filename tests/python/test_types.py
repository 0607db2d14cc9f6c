# labels: torch
"""The package's types hold together: mypy --strict finds nothing in python/slackline, and a caller's mistakes are found by them.
Called with BUILD_DIR SOURCE_DIR; mypy is .venv's, else the one in PATH."""
import os
import shutil
import subprocess
import sys

from runner import expect, folder, skip, source

sys.dont_write_bytecode = True
own = os.path.join(source, ".venv", "bin", "mypy")
mypy = own if os.path.exists(own) else shutil.which("mypy")
if not mypy:
    skip("no mypy in .venv (.venv/bin/pip install -r tests/requirements.txt) nor in PATH")

# What a caller writes; each line of WRONG must be found, by what mypy says of it.
RIGHT = """
import slackline
from pathlib import Path

plan: slackline.Plan = slackline.plan({"pipeline": {"ranks": 2}}, "auto", 1.5, changes=["pipeline.ranks=3"])
slower = slackline.simulate(Path("problem.yaml"), plan, changes={"pipeline.links.list.0.latency_ms": 60})
total: float = sum(op.end_ms - op.start_ms for op in plan.rank_ops(0)) + slower.makespan_ms + plan.explain().work_ms
choices: slackline.Choices = slackline.choose({"layers": []}, Path("cluster.yaml"), fix={"tensor": 8}, schedules=["1f1b"])
best: slackline.Plan = choices.arrangements[0].plan()
seen = slackline.watch(["torchrun", "train.py"], out=Path("runs"), options=("--record",), timeout=10)
code: int = seen.exit_code
with slackline.Orchestrator(["problem.yaml", slackline.Problem("problem.yaml")], plan, replicas=2) as job:
    job.observe(0, 390.0, 390.0, [plan, slackline.Measurements(plan.ops, plan.transfers), None])
    kinds: list[str] = [event.kind for event in job.events()]
    for action in job.actions():
        job.carried_out(action, 391.0, outcome="done")
"""
WRONG = ['slackline.plan("problem.yaml", 3)', 'slackline.plan("problem.yaml", time_limit="soon")', "slackline.plan(4)", "slackline.plan()",
         'slackline.plan("problem.yaml").makespan', 'slackline.plan("problem.yaml").ranks = 3', "slackline.watch(print)", "slackline.plans()",
         'slackline.Orchestrator(3)', 'job.observe("0", 1.0)', "job.carried_out(1, 1.0)", "job.layout.split.append(3)"]


def check(*words):
    return subprocess.run([mypy, "--config-file", os.path.join(source, "python", "pyproject.toml"), "--cache-dir", os.path.join(folder, "cache"), *words],
                          capture_output=True, text=True, timeout=280, cwd=folder, env={**os.environ, "MYPYPATH": os.path.join(source, "python")})


def test_mypy_finds_nothing_in_the_package():
    done = check(os.path.join(source, "python", "slackline"))
    expect(done.returncode == 0, f"mypy --strict python/slackline\n{done.stdout}{done.stderr}")


def test_mypy_finds_a_callers_mistakes():
    caller = os.path.join(folder, "caller.py")
    with open(caller, "w") as file:
        file.write(RIGHT + "\n".join(WRONG) + "\n")
    done = check(caller)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    first = RIGHT.count("\n") + 1
    expect(found == set(range(first, first + len(WRONG))),
           f"wrong are the lines {first} to {first + len(WRONG) - 1} of a caller, mypy finds {sorted(found)}\n{done.stdout}{done.stderr}")
