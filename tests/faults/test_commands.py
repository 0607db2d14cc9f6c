"""Each system call of commands that read and write files fails once: the result is the undisturbed one, or a clear error and nothing left."""
import json
import os
import shutil

import faults
from runner import build, expect, folder, source

AT_ONCE = 2
command = os.path.join(build, "slackline")


def example(name):
    return os.path.join(source, "examples", name)


def files(where):
    """{name: content} of a folder."""
    return {os.path.relpath(os.path.join(at, name), where): open(os.path.join(at, name), "rb").read()
            for at, _, names in os.walk(where) for name in names}


def without_times(text):
    """A plan's JSON but for how long planning took."""
    try:
        return {key: value for key, value in json.loads(text).items() if key != "solve_ms"}
    except ValueError:
        return text


def judge(name, words, prepare=None, most=60):
    """Whether the command, run in a folder of its own, withstands each fault."""
    where = os.path.join(folder, name)

    def attempt(fault):
        shutil.rmtree(where, ignore_errors=True)
        os.makedirs(where)
        if prepare:
            prepare(where)
        before = files(where)
        outcome = faults.run([command, *words], "slackline", fault, folder=where)
        after = files(where)
        if outcome.code == 0 and fault:
            expected = expected_out, expected_files
            return outcome, "" if (without_times(outcome.out), after) == expected else f"another result: {outcome.out[:200]!r} {sorted(after)}"
        lost = [path for path in before if after.get(path) != before[path] and after.get(path) != expected_files.get(path)] if fault else []
        left = [path for path in after if path not in before and after[path] != expected_files.get(path)] if fault else []
        return outcome, f"exit {outcome.code}, lost {lost}, left {left}: {outcome.error[:200]}" if lost or left else ""

    expected_out, expected_files = "", {}
    healthy, _ = attempt(None)
    expect(healthy.code == 0, f"{name}: exit {healthy.code}: {healthy.error}")
    expected_out, expected_files = without_times(healthy.out), files(where)
    tried, _, wrong = faults.each(attempt, lambda: range(most))
    print(f"{name}: {tried} faults")
    expect(tried > 5, f"{name}: only {tried} faults happened")
    for complaint in wrong:
        expect(False, f"{name}: {complaint}")


def made(*words):
    done = faults.run([command, *words], "", folder=folder)
    expect(done.code == 0, f"{words}: {done.error}")
    return done.out


def holding(**content):
    """Puts files into the folder: name_suffix=text."""
    def prepare(where):
        for name, text in content.items():
            open(os.path.join(where, name.replace("_", ".")), "w").write(text)
    return prepare


FOUR = example("four-ranks.yaml")


def test_a_plan():
    judge("plan", ["plan", FOUR, "--format", "json", "--time-limit", "0"], most=30)


def test_a_picture():
    judge("draw", ["draw", "plan.json", "--output", "plan.svg"], holding(plan_json=made("plan", FOUR, "--format", "json", "--time-limit", "0")))


def test_an_order_that_is_read():
    judge("simulate", ["simulate", FOUR, "--order", "order.csv", "--format", "json"],
          holding(order_csv=made("plan", FOUR, "--schedule", "1f1b", "--format", "csv")))


def test_a_proof():
    judge("check", ["check", "order.csv", FOUR], holding(order_csv=made("plan", FOUR, "--schedule", "1f1b", "--format", "csv-comms")))


def test_an_output_that_was_there_stays():
    judge("again", ["plan", FOUR, "--schedule", "1f1b", "--format", "csv", "--output", "order.csv"], holding(order_csv="of before\n"))


def test_a_campaign():
    judge("campaign", ["campaign", example("campaign.yaml"), "--problem", FOUR, "--format", "csv", "--output", "stretches.csv"], most=5)


def test_a_topology():
    judge("topology", ["topology", example("cluster.yaml")], most=5)
