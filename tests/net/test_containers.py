# labels: long calm net
"""docs/howto/containers.md: its container and its limits as they stand there, and its commands: what the doctor finds inside, a run that is
the same as outside to the last bit, a slow rank that watch names, a healthcheck, and nothing left behind."""
import glob
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from page import Page
from runner import build, expect, folder, require, skip, source

require("slackline", "slackline-worker", "mpirun", "mpicc", "redis-server", "unshare", "ip")
page = {}
for name in ("containers", "slurm"):
    with open(os.path.join(source, "docs", "howto", name + ".md")) as file:
        page[name] = Page(name + ".md", file.read())
work = os.path.join(folder, "work")
environment = {**os.environ, "PATH": build + ":" + os.environ["PATH"], "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def type_command(command, limit=300):
    return subprocess.run(["bash", "-ec", command], cwd=work, env=environment, capture_output=True, text=True, timeout=limit)


def make_work():
    os.mkdir(work)
    os.symlink(os.path.join(source, "examples"), os.path.join(work, "examples"))
    files = [block for one in page.values() for block in one.blocks if block.kind == "file"]
    for block in files:
        with open(os.path.join(work, block.name), "w") as out:
            out.write(block.text + "\n")
    subprocess.run(["mpicc", "-O2", "ring.c", "-o", "ring"], cwd=work, check=True)
    expect({"contained", "limited"} <= {block.name for block in files}, "the page has its files")


def left():
    return set(glob.glob("/sys/fs/cgroup/*contained-*") + glob.glob("/sys/fs/cgroup/*/contained-*") + glob.glob("/dev/shm/slackline*"))


make_work()
typed = [line for block in page["containers"].blocks if block.kind == "commands" for line in block.text.splitlines()]
type_command(typed[0])
allowed = type_command("./limited 100 500 ./contained true")
if allowed.returncode != 0:
    skip(f"containers are not permitted: {allowed.stderr.strip()}")
before = left()


def command_of(word):
    found = [line for line in typed if f"slackline {word}" in line]
    expect(len(found) == 1 and found[0].startswith("./limited 150 2000 ./contained "), f"the page's command for {word}: {found}")
    return found[0]


def test_namespaces_and_limits_are_those_of_the_page():
    here = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("user", "mnt", "pid", "net", "ipc", "uts")}
    done = type_command("./limited 150 2000 ./contained sh -c 'for kind in user mnt pid net ipc uts; do echo $kind $(readlink /proc/self/ns/$kind); done; exit 3'")
    inside = dict(line.split() for line in done.stdout.splitlines())
    expect(done.returncode == 3 and inside.keys() == here.keys() and not [kind for kind in here if inside[kind] == here[kind]], f"{done.returncode}: {inside}")
    found = type_command(command_of("doctor"))
    expect("1.5 of their time" in found.stdout and "control group 2" in found.stdout, f"the doctor finds the limits: {found.stdout} {found.stderr}")


def test_a_run_is_the_same_as_outside():
    done = type_command(command_of("train"))
    expect(done.returncode == 0, f"train: exit {done.returncode}: {done.stderr[-2000:]}")
    outside = type_command("slackline train examples/slow-link.yaml --out runs/outside --set device.pace_ms.F=1 --set device.pace_ms.I=1 --set device.pace_ms.W=1")
    expect(outside.returncode == 0, f"outside: {outside.stderr[-2000:]}")
    hashes = []
    for name in ("contained", "outside"):
        with open(os.path.join(work, "runs", name, "summary.json")) as file:
            hashes.append(json.load(file)["weights_hash"])
    expect(hashes[0] == hashes[1], f"the weights: {hashes}")


def test_a_slow_rank_is_named():
    done = type_command(command_of("watch"))
    expect(done.returncode == 0 and done.stdout.startswith("sum "), f"watch: exit {done.returncode}: {done.stdout} {done.stderr[-2000:]}")
    with open(os.path.join(work, "runs", "watched", "report.json")) as file:
        report = json.load(file)
    named = {(one["component"], one.get("rank")) for phase in report["phases"] for one in phase["suspects"] + phase["verdicts"]}
    expect((report["ranks"], report["exit_code"]) == (2, 0) and ("device", 1) in named, f"{report['answer']} {named}")


def test_a_healthcheck_ends_with_figures():
    done = type_command(command_of("healthcheck"))
    expect(done.returncode in (0, 1) and "GFLOP/s" in done.stdout and "container" in done.stdout, f"exit {done.returncode}: {done.stdout} {done.stderr[-2000:]}")


def test_nothing_is_left_outside():
    expect(left() == before, f"left: {left() - before}")
    shutil.rmtree(work)
