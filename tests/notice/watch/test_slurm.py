# labels: long calm net
"""docs/howto/slurm.md under a real Slurm of two nodes: its files as they stand there, its commands as they stand there, and what
is promised beside them: one report for all ranks of both nodes, the program's exit code and output, a job that is queued again
by the page's program once a rank is slow, and nothing left behind. Where Slurm comes from says tests/net/slurm.py; without it,
or without the right to make hosts, this is skipped."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from page import Page
from runner import build, expect, folder, require, skip, source
from slurm import Slurm, until
from star import Star, permitted

require("slackline", "redis-server", "mpicc")
if permitted():
    skip(permitted())
with open(os.path.join(source, "docs", "howto", "slurm.md")) as file:
    page = Page("slurm.md", file.read())
RANKS, NODES = 8, 2


def report(out, code=0):
    """What the watch of a job says at its end."""
    path = os.path.join(out, "report.json")
    if not os.path.exists(path):
        expect(False, f"{out}: no report.json among {os.listdir(out) if os.path.isdir(out) else 'nothing'}")
        return
    with open(path) as file:
        said = json.load(file)
    expect((said["ranks"], said["nodes"], said["exit_code"]) == (RANKS, NODES, code), f"{out}: {said['ranks']} ranks on {said['nodes']} nodes, exit code {said['exit_code']}")
    expect(said["status"]["period_calls"] == 2 and said["status"]["iterations"] > 400, f"{out}: {said['status']}")


def jobs_end(slurm):
    expect(until(lambda: not slurm.jobs(), 120), f"jobs that do not end: {slurm.ask('squeue')}")


class Reader:
    """Types commands on the first node, in a folder that both share."""

    def __init__(self, star, folder):
        self.star, self.folder = star, folder
        # what containers, root and two cores need, and a reader does not
        self.environment = {**os.environ, "PATH": build + ":" + os.environ["PATH"], "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "eth0", "OMPI_MCA_pml": "ob1",
                            "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}

    def type(self, commands, limit=150):
        done = subprocess.run([*self.star.inside(0), "bash", "-ec", commands], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=limit)
        return done


def files_of_page(folder):
    for block in page.blocks:
        if block.kind == "file":
            with open(os.path.join(folder, block.name), "w") as out:
                out.write(block.text + "\n")
            os.chmod(os.path.join(folder, block.name), 0o755)


REQUEUED = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --time=10 --requeue
out=$SLURM_SUBMIT_DIR/again-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
srun --mpi=pmix slackline watch --no-validate --cost balance=off,topology=off,restart=1 --out "$out" --on-event "$SLURM_SUBMIT_DIR/leave-node" -- ./ring 2
"""

def given():
    with Star(hosts=NODES) as star:
        work = os.path.join(folder, "work")
        os.mkdir(work)
        os.mkdir(os.path.join(folder, "slurm"))
        with Slurm(os.path.join(folder, "slurm"), star) as slurm:
            yield Reader(star, work), work, slurm


def test_the_commands_of_the_page_give_one_report_for_all_ranks(reader, work, slurm):
    files_of_page(work)
    expect(os.path.exists(os.path.join(work, "watched.sbatch")) and os.path.exists(os.path.join(work, "leave-node")), "the page has its files")
    expect(reader.type("mpicc -O2 ring.c -o ring").returncode == 0, "the program is built")
    typed = [line for block in page.blocks if block.kind == "commands" and block.not_run and "Slurm" in block.not_run for line in block.text.splitlines()]
    expect(len(typed) >= 3, f"the page's commands for Slurm: {typed}")
    for command in typed:
        shutil.rmtree(os.path.join(work, "watched"), ignore_errors=True)
        done = reader.type(command)
        expect(done.returncode == 0, f"{command}: exit {done.returncode}: {done.stderr[-2000:]}")
        if command.startswith("sbatch"):
            number = re.search(r"Submitted batch job (\d+)", done.stdout)
            jobs_end(slurm)
            log = open(os.path.join(work, f"slurm-{number[1]}.out")).read() if number else done.stdout
            expect("sum " in log, f"{command}: the job's output: {log[-2000:]}")
            report(os.path.join(work, f"watch-{number[1] if number else ''}"))
        elif "watch" in command:
            expect(done.stdout.startswith("sum "), f"{command}: printed {done.stdout!r}")
            report(os.path.join(work, "watched"))
        print(command, flush=True)


def test_the_programs_exit_code_is_the_jobs(reader, work):
    done = reader.type("srun --mpi=pmix -n 8 slackline watch --out $PWD/ends -- sh -c './ring && exit 3'")
    expect(done.returncode == 3, f"the program's exit code: {done.returncode}: {done.stderr[-1000:]}")
    report(os.path.join(work, "ends"), 3)


def test_devices_and_links_of_both_nodes_are_tested(reader, work):
    done = reader.type("code=0; srun --mpi=pmix -n 8 slackline healthcheck --format json > tested.json || code=$?; echo $code")
    expect(done.stdout.strip() in ("0", "1"), f"healthcheck: {done.stdout} {done.stderr[-1000:]}")
    with open(os.path.join(work, "tested.json")) as file:
        tested = json.load(file)
    expect(len(tested["devices"]) == RANKS and tested["links"], f"healthcheck: {len(tested['devices'])} devices, {len(tested['links'])} links")


def test_advice_is_carried_out(reader, work, slurm):
    with open(os.path.join(work, "again.sbatch"), "w") as out:
        out.write(REQUEUED)
    number = re.search(r"\d+", reader.type("sbatch again.sbatch").stdout)[0]
    shows = lambda: slurm.ask("scontrol", "show", "job", number)  # noqa: E731
    expect(until(lambda: "Restarts=1" in shows(), 90), f"the job is queued again: {shows()}: {glob.glob(os.path.join(work, 'again-*', '*'))}")
    expect(until(lambda: "JobState=PENDING" in shows() or "JobState=RUNNING" in shows(), 30), f"and waits or runs: {shows()}")
    with open(os.path.join(work, f"again-{number}-0", "events.jsonl")) as file:
        events = [json.loads(line) for line in file if line.endswith("\n")]
    expect(any(e["kind"] == "verdict" and e.get("rank") == 2 for e in events), f"rank 2 is named: {[e.get('seen') for e in events]}")
    slurm.ask("scancel", number)
    jobs_end(slurm)


def test_nothing_is_left_behind():
    expect(not glob.glob(f"/dev/shm/slackline-{os.getuid()}-watch-*"), "left in /dev/shm")
