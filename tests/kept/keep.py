#!/usr/bin/env python3
"""tests/kept/keep.py BUILD: writes tests/kept/VERSION: files of every kind that this version writes, and what it reads out of them. Later
versions read them (test_kept.py). Run for each release (docs/releasing.md), never changed afterwards."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
build = os.path.abspath(sys.argv[1])
command = os.path.join(build, "slackline")
# problem: a schedule that is not the default, so that the order matters
ORDERS = {"four-ranks": "adaptra", "loop": "interleaved-1f1b", "wave": "zb-v", "bidirectional": "chimera", "recompute": "1f1b", "shared-wire": "zb-h1", "layers": "1f1b"}
RUN = """
model: {kind: gpt2, layers: 2, width: 16, heads: 2, context: 8}
data: {files: ["/usr/share/common-licenses/*"], seed: 1}
parallel: {pipeline: 2}
batch: {microbatches: 4, size: 1}
optimizer: {kind: adamw, lr: 2e-3, clip: 1.0}
iterations: 24
schedule: 1f1b
adapt: true
adaptation: {hold: 2, dwell: 4, gain: 0.01}
device: {pace_ms: {F: 3, I: 3, W: 3}}
faults: [{iterations: [8, 16], link: [0, 1], latency_ms: 20}]
checkpoint: {every: 12}
"""
PROGRAM = r"""
#include <mpi.h>
#include <time.h>
int main(int argc, char **argv) {
    int rank;
    double value = 1, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 200; i++) {
        nanosleep(&(struct timespec){0, (i < 100 ? 4 : 8) * 1000000}, NULL);
        MPI_Sendrecv(&value, 1, MPI_DOUBLE, 1 - rank, 0, &sum, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=True, **more).stdout


def makespan(problem, order):
    return json.loads(run(command, "simulate", problem, "--order", order, "--format", "json"))["makespan_ms"]


def keep_plans(out, facts):
    facts["plans"] = []
    for name, schedule in ORDERS.items():
        problem = os.path.join(out, name + ".yaml")
        shutil.copy(os.path.join(source, "examples", name + ".yaml"), problem)
        for form, ending in (("json", "json"), ("csv", "csv"), ("csv-comms", "comms.csv")):
            order = os.path.join(out, f"{name}.{ending}")
            run(command, "plan", problem, "--schedule", schedule, "--format", form, "-o", order)
        csv, comms = os.path.join(out, f"{name}.csv"), os.path.join(out, f"{name}.comms.csv")
        facts["plans"].append({"problem": name, "makespan_ms": makespan(problem, csv), "comms_ms": makespan(problem, comms)})
    run(command, "plan", os.path.join(out, "four-ranks.yaml"), "--schedule", "1f1b", "--format", "trace", "-o", os.path.join(out, "trace.json"))
    for name in ("cluster", "campaign"):
        shutil.copy(os.path.join(source, "examples", name + ".yaml"), out)


def keep_run(out, facts):
    file, made = os.path.join(out, "run.yaml"), os.path.join(out, "run")
    with open(file, "w") as text:
        text.write(RUN.lstrip())
    run(command, "train", file, "--out", made)
    for name in ("report.html", "iterations.svg"):  # written, never read
        os.path.exists(os.path.join(made, name)) and os.unlink(os.path.join(made, name))
    with open(os.path.join(made, "metrics.jsonl")) as lines:
        rows = [json.loads(line) for line in lines]
    with open(os.path.join(made, "events.jsonl")) as lines:
        events = [json.loads(line)["kind"] for line in lines]
    facts["run"] = {"losses": [row["loss"] for row in rows], "events": events, "checkpoints": sorted(os.listdir(os.path.join(made, "checkpoints")))}


def keep_watch(out, facts, scratch):
    program, made = os.path.join(scratch, "program"), os.path.join(out, "watch")
    with open(program + ".c", "w") as text:
        text.write(PROGRAM)
    run("mpicc", "-O1", "-o", program, program + ".c")
    run(command, "watch", "--record", "--http", "off", "--out", made, "--", "mpirun", *(["--allow-run-as-root"] if os.getuid() == 0 else []), "--oversubscribe", "-np", "2", program)
    facts["calls"] = {}
    for log in sorted(glob.glob(os.path.join(made, "calls", "*"))):
        found = json.loads(run(command, "detect", log, "--format", "json"))
        facts["calls"][os.path.relpath(log, out)] = {"period": found["period"], "changes": len(found["change_points"])}


version = run(command, "--version").split()[1]
out = os.path.join(here, version)
if not re.fullmatch(r"\d+\.\d+\.\d+", version):
    sys.exit(f"keep.py: {version} is no version")
shutil.rmtree(out, ignore_errors=True)
os.makedirs(out)
facts = {"version": version}
keep_plans(out, facts)
keep_run(out, facts)
with tempfile.TemporaryDirectory() as scratch:
    keep_watch(out, facts, scratch)
with open(os.path.join(out, "facts.json"), "w") as text:
    json.dump(facts, text, indent=1)
print(out, sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(out) for name in names), "bytes")
