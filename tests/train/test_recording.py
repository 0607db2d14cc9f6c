"""What a run's decisions were made from is in its folder on demand, and gives the decisions and the orchestrator's events
again, byte for byte."""
import json
import os
import subprocess

from runner import build, folder
from training import Result, arguments, train

RUN = """model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s"], seed: 1}
parallel: {pipeline: 2, data: 2}
batch: {microbatches: 12, size: 1}
iterations: 44
transport: auto
device: {kind: cpu, pace_ms: {F: 5, I: 5, W: 5}}
adaptation: {strategies: [schedule, delegate, balance], dwell: 10}
faults:
  - {iterations: [8, 22], rank: 1, replica: 1, slowdown: 2.5}
  - {iterations: [26, 36], link: [0, 1], latency_ms: 40}
"""
DECIDED = {"onset", "suspect", "verdict", "swap", "keep", "return", "delegate", "direct", "decision", "relief"}


def played(build, out):
    program = os.path.join(build, "tests", "play_recording")
    done = subprocess.run([program, os.path.join(out, "measurements.jsonl")], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout, done.stderr


def written(out, name):
    with open(os.path.join(out, name)) as file:
        return file.read()


def orchestrators(events):
    return "".join(line for line in events.splitlines(keepends=True) if json.loads(line)["kind"] in DECIDED)


def test_decisions_and_events_come_again(file, out, result):
    decisions, events = played(build, out)
    assert decisions == written(out, "decisions.txt")
    assert events == orchestrators(written(out, "events.jsonl"))
    assert {"onset", "decision", "relief"} <= {event["kind"] for event in result.events}, "nothing was decided"
    assert result.kinds("arrange"), "nothing was done"


def test_every_iteration_is_there_once(file, out, result):
    calls = [json.loads(line) for line in written(out, "measurements.jsonl").splitlines()]
    observed = [call["iteration"] for call in calls if call["call"] == "observe"]
    assert observed == list(range(len(result.metrics))), observed
    assert [call["time"] for call in calls if call["call"] == "observe"] == [
        round(float(line["time_ms"]) * 1e6) for line in result.metrics]


def run(build, file, out, *settings, how):
    done = subprocess.run(arguments(build, file, out, settings) + [how], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return Result(out)


def test_a_run_that_goes_on_is_recorded_behind_what_is_there(file, out):
    result = run(build, file, out, "adaptation.record=true", "iterations=47", "checkpoint.every=100", how="--resume")
    assert result.kinds("resumed") and len(result.metrics) == 47
    test_decisions_and_events_come_again(file, out, result)
    test_every_iteration_is_there_once(file, out, result)


def test_nothing_is_recorded_unasked(file, out):
    run(build, file, out, "iterations=2", "faults=[]", how="--overwrite")
    assert not os.path.exists(os.path.join(out, "measurements.jsonl"))


def given():
    file, out = os.path.join(folder, "run.yaml"), os.path.join(folder, "out")
    with open(file, "w") as written_file:
        written_file.write(RUN % os.path.abspath(__file__))
    yield file, out, train(build, file, out, "adaptation.record=true", "checkpoint.every=100")
