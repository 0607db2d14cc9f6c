# labels: long
"""slackline watch around mpirun, and mpirun or srun around it: 4 ranks give the output and the exit code that they give
unwatched, one of them reports for all, and nothing of the watch stays behind."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
from probing import MPI, found, installed
from runner import build, expect, folder, require, skip
from waiting import until

command = os.path.join(build, "slackline")
AT_ONCE = 2
require("slackline", "libslackline_probe.so", "redis-server")
families = installed()
if not families:
    skip("no MPI compiler")


def run(words, folder):
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=200, check=False)


def left():
    return set(glob.glob(f"/dev/shm/slackline-{os.getuid()}-watch-*"))


def check(name, done, plain, out, ranks=4):
    expect(done.returncode == plain.returncode, f"{name}: exit {done.returncode}, unwatched {plain.returncode}: {done.stderr}")
    expect(done.stdout == plain.stdout, f"{name}: printed {done.stdout!r}, unwatched {plain.stdout!r}")
    expect("no MPI or NCCL call" not in done.stderr, f"{name}: {done.stderr}")
    try:
        with open(os.path.join(out, "report.json")) as file:
            report = json.load(file)
    except FileNotFoundError:
        return expect(False, f"{name}: no report: {done.stderr}")
    status = report["status"]
    expect(report["exit_code"] == plain.returncode, f"{name}: the report says exit {report['exit_code']}")
    expect(report["ranks"] == ranks and report["nodes"] == 1, f"{name}: {report['ranks']} ranks on {report['nodes']} nodes")
    expect(status["period_calls"] == 2, f"{name}: a period of {status['period_calls']} calls, not of an Allreduce and a Sendrecv")
    expect(status["iterations"] > 100, f"{name}: {status['iterations']} iterations")
    expect(status["records_lost"] == 0, f"{name}: {status['records_lost']} records lost")
    return None


def awaited(holds, what):
    value = until(holds, 60)
    expect(value, f"never came: {what}")
    return value


def servers(pid):
    found_ = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in found_.splitlines() if "redis-server" in line]


def kinds(out):
    try:
        with open(os.path.join(out, "events.jsonl")) as file:
            return [json.loads(line)["kind"] for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def check_losses(mpirun, program):
    """Redis is killed, then the watch itself, while the program runs."""
    plain = run([*mpirun, program, "1500", "2000"], folder)
    out = os.path.join(folder, "lost")
    words = [command, "watch", "--out", out, "--overwrite", "--http", "off", "--", *mpirun, program, "1500", "2000"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    awaited(lambda: "tracked" in kinds(out), "an iteration")
    server = awaited(lambda: servers(process.pid), "the private server")
    os.kill(server[0], signal.SIGKILL)
    text, said = process.communicate(timeout=100)
    expect(process.returncode == 0 and text == plain.stdout, f"Redis killed: {process.returncode} {text!r} {said}")
    expect(kinds(out).count("store") == 2, f"Redis is lost and back, once: {said}")
    with open(os.path.join(out, "report.json")) as file:
        report = json.load(file)
    expect(report["status"]["iterations"] > 1000, f"Redis killed: {report['status']['iterations']} iterations: {said}")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
    awaited(lambda: servers(process.pid), "the private server")
    time.sleep(0.5)
    process.kill()
    text = process.stdout.read()  # the program has it, and goes on
    expect(text == plain.stdout, f"watch killed: printed {text!r}")
    process.wait()
    run([command, "watch", "--out", out, "--overwrite", "--http", "off", "--", "true"], folder)  # clears what that one left


def built(family):
    program = os.path.join(folder, f"loop.{family}")
    subprocess.run([found(MPI[family]["cc"]), "-w", "-O1", "-o", program, os.path.join(here, "loop.c")], check=True)
    return program, [found(MPI[family]["run"]), *MPI[family]["options"], "-n", "4"]


def ranks_give_what_they_give_unwatched(family):
    if family not in families:
        skip(f"no MPI compiler of {family}")
    program, mpirun = built(family)
    plain = run([*mpirun, program, "300", "2000"], folder)
    expect(plain.returncode == 0 and plain.stdout.startswith("ranks 4"), f"{family}: {plain.stdout} {plain.stderr}")
    out = os.path.join(folder, f"outside.{family}")
    watch = [command, "watch", "--out", out, "--http", "off", "--"]
    check(f"{family}, watch outside", run([*watch, *mpirun, program, "300", "2000"], folder), plain, out)
    out = os.path.join(folder, f"inside.{family}")
    watch = [command, "watch", "--out", out, "--http", "off", "--record", "--"]
    check(f"{family}, watch inside", run([*mpirun, *watch, program, "300", "2000"], folder), plain, out)
    logs = glob.glob(os.path.join(out, "calls", "*"))
    expect(len(logs) >= 4, f"{family}: a call log for each rank: {logs}")
    failing = run([*mpirun, program, "5", "1000", "3"], folder)
    watch = [command, "watch", "--out", out, "--overwrite", "--http", "off", "--"]
    done = run([*watch, *mpirun, program, "5", "1000", "3"], folder)
    expect(done.returncode == failing.returncode, f"{family}, failing: exit {done.returncode}, not {failing.returncode}")
    done = run([*mpirun, *watch, program, "5", "1000", "3"], folder)
    expect(done.returncode == failing.returncode, f"{family}, failing inside: exit {done.returncode}, "
                                                  f"not {failing.returncode}: {done.stderr}")
    done = run([*watch, program, "100", "1000"], folder)  # a single process, without a launcher
    expect(done.returncode == 0 and done.stdout.startswith("ranks 1"), f"{family}, alone: {done.stdout} {done.stderr}")
    single = run([program, "300", "2000"], folder)
    out = os.path.join(folder, f"alone.{family}")
    check(f"{family}, alone", run([command, "watch", "--out", out, "--http", "off", "--", program, "300", "2000"], folder),
          single, out, ranks=1)


def test_ranks_of_open_mpi_give_what_they_give_unwatched():
    ranks_give_what_they_give_unwatched("openmpi")


def test_ranks_of_mpich_give_what_they_give_unwatched():
    ranks_give_what_they_give_unwatched("mpich")


def test_a_lost_redis_or_watch_changes_nothing():
    check_losses(*built(families[0])[::-1])


def test_ranks_of_srun_give_what_they_give_unwatched():
    if not shutil.which("srun") or run(["srun", "-n", "1", "true"], folder).returncode:
        skip("there is no Slurm here")
    program = built("openmpi")[0]
    srun = ["srun", "--mpi=pmix", "-n", "4", "--overcommit"]
    plain = run([*srun, program, "300", "2000"], folder)
    out = os.path.join(folder, "srun")
    check("srun", run([*srun, command, "watch", "--out", out, "--http", "off", "--", program, "300", "2000"], folder), plain, out)


def given():
    before = left()
    yield ()
    expect(left() <= before, f"left in /dev/shm: {left() - before}")
