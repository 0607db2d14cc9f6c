"""Results packed with gzip: FILE.json.gz holds the bytes of FILE.json, and every command that reads plans and orders reads it. Damage and
a full disk are one line with the file's name, and leave no file."""
import glob
import gzip
import json
import os
import random
import re
import signal
import subprocess
import time

from calling import command, folder, problem, refused, run, write
from runner import expect

seed = int(os.environ.get("SL_SEED", random.randrange(1 << 30)))
print("seed", seed)
random.seed(seed)


def made(*arguments):
    done = run(*arguments)
    expect(done.returncode == 0 and done.stdout == "", f"{arguments}: exit {done.returncode} {done.stdout[:80]!r} {done.stderr}")


def without_time(text):
    return re.sub(r'"solve_ms": [^,\n]*', "", text)


def path(name):
    return os.path.join(folder, name)


def test_packed_and_plain_are_the_same_plan():
    schedules = [("linear", "1f1b", 1), ("linear", "zb-h1", 1), ("linear", "cross-ud-sub", 2), ("loop", "interleaved-1f1b", 1), ("wave", "zb-v", 1)]
    for number in range(8):
        placement, schedule, parts = random.choice(schedules)
        ranks, microbatches = random.randint(2, 6), random.randint(1, 4)
        stages = ranks * (1 if placement == "linear" else 2)
        text = (f"pipeline: {{ranks: {ranks}, stages: {stages}, microbatches: {microbatches * ranks}, placement: {placement}, parts: {parts}, "
                f"times_ms: {{F: {random.uniform(1, 9):.4f}, I: {random.uniform(1, 9):.6f}, W: {random.uniform(1, 9):.2f}}}, "
                f"links: {{default: {{latency_ms: {random.uniform(0, 3):.5f}, transfer_ms: {random.uniform(0, 1):.5f}}}}}}}\n")
        file = write("random.yaml", text)
        plain, packed, again = path("plan.json"), path("plan.json.gz"), path("again.json.gz")
        made("plan", file, "--schedule", schedule, "-o", plain)
        made("plan", file, "--schedule", schedule, "-o", packed)
        content = gzip.open(packed, "rt").read()
        expect(without_time(content) == without_time(open(plain).read()), f"{text}: not the same bytes")
        made("simulate", file, "--order", packed, "-o", again)
        first, second = json.loads(content), json.load(gzip.open(again))
        expect(first["ops"] == second["ops"] and first["transfers"] == second["transfers"] and first["memory"] == second["memory"],
               f"{text}: simulated otherwise")
        for other in plain, packed, again:
            os.remove(other)


def test_keys_in_another_order_and_another_form_are_read():
    made("plan", problem, "--schedule", "1f1b", "-o", path("plan.json"))
    plan = json.load(open(path("plan.json")))
    ops = [dict(sorted(op.items(), reverse=True)) for op in plan.pop("ops")]
    other = path("other.json.gz")
    for indent in None, 1:
        with gzip.open(other, "wt") as file:
            json.dump({"format": plan["format"], "ops": ops, **dict(sorted(plan.items()))}, file, indent=indent)
        done = run("simulate", problem, "--order", other, "--format", "json")
        expect(done.returncode == 0, done.stderr)
        expect(json.loads(done.stdout)["makespan_ms"] == plan["makespan_ms"], "another makespan")


def test_other_forms_are_packed_and_read_too():
    plain, packed = path("order.csv"), path("order.csv.gz")
    made("plan", problem, "--schedule", "1f1b", "-o", plain)
    made("plan", problem, "--schedule", "1f1b", "-o", packed)
    expect(gzip.open(packed, "rb").read() == open(plain, "rb").read(), "CSV differs")
    shown = [run("simulate", problem, "--order", file, "--format", "csv").stdout for file in (plain, packed)]
    expect(shown[0] == shown[1] != "", f"{shown}")
    made("plan", problem, "--schedule", "1f1b", "-o", path("plan.json.gz"))
    for file in "plan.json.gz", "order.csv.gz":
        made("draw", problem, "--order", path(file), "-o", path("order.svg"))
    made("draw", path("plan.json.gz"), "--what", "gantt,memory", "-o", path("plan.svg.gz"))
    expect(gzip.open(path("plan.svg.gz"), "rt").read().startswith("<svg"), "not a picture")
    made("plan", problem, "--schedule", "1f1b", "--format", "torchtitan", "-o", path("plan.toml.gz"))
    expect(os.path.exists(path("plan.csv")), sorted(os.listdir(folder)))


def test_damage_is_refused_by_name():
    made("plan", problem, "--schedule", "1f1b", "-o", path("plan.json.gz"))
    with open(path("plan.json.gz"), "rb") as file:
        whole = file.read()
    damaged = path("damaged.json.gz")
    for content in whole[:-1], whole[:len(whole) // 2], whole[:-8] + b"\0" * 8, whole[:200] + bytes(byte ^ 255 for byte in whole[200:]):
        with open(damaged, "wb") as file:
            file.write(content)
        refused(2, damaged, "simulate", problem, "--order", damaged)
        refused(2, damaged, "draw", damaged, "-o", path("none.svg"))
        expect(not os.path.exists(path("none.svg")), "drawn")
    for text in "", "hello", "[1, 2]", '{"format": "slackline-plan-1"}', '{"format": "slackline-plan-1", "ranks": 4, "transfers": [], "ops": [{}]}':
        with gzip.open(damaged, "wt") as file:
            file.write(text)
        refused(2, damaged, "simulate", problem, "--order", damaged)


def test_a_full_disk_leaves_no_file():
    large = ["--set", "pipeline.ranks=8", "--set", "pipeline.microbatches=200", "--set", "pipeline.memory.limit=16"]
    for name, most in (("full.json", 300_000), ("full.json.gz", 10_000)):
        done = subprocess.run(["bash", "-c", f'ulimit -f {most // 1024}; exec "$@"', "-", command, "plan", problem, "--schedule", "1f1b", *large, "-o", path(name)],
                              capture_output=True, text=True, timeout=240)
        expect(done.returncode == 1 and done.stdout == "", f"exit {done.returncode}: {done.stderr}")
        expect(done.stderr.startswith(f"slackline: {path(name)}: cannot be written") and done.stderr.count("\n") == 1, done.stderr)
        expect(not glob.glob(path(name) + "*"), f"{glob.glob(path(name) + '*')}")


def test_the_file_before_stays_after_a_failure():
    kept = write("kept.json.gz", "kept")
    refused(1, "memory", "plan", problem, "--schedule", "gpipe", "--set", "pipeline.memory.limit=2", "-o", kept)
    expect(open(kept).read() == "kept", "it is gone")
    refused(1, "cannot be written", "plan", problem, "--schedule", "1f1b", "-o", path("nowhere/plan.json.gz"))


def test_a_signal_while_writing_leaves_no_file():
    """When, is chance: before, while or after the file is written. It is whole or absent, and nothing is left beside it."""
    large = ["--set", "pipeline.ranks=32", "--set", "pipeline.microbatches=1000", "--set", "pipeline.memory.limit=64"]
    for number in range(6):
        target = path(f"signal{number}.json.gz")
        child = subprocess.Popen([command, "plan", problem, "--schedule", "1f1b", *large, "-o", target])
        time.sleep(random.uniform(0, 0.6))
        child.send_signal(signal.SIGTERM)
        expect(child.wait(60) in (0, -signal.SIGTERM), f"exit {child.returncode}")
        left = glob.glob(target + "*")
        expect(left in ([], [target]), f"{left}")
        if left:
            json.load(gzip.open(target))
