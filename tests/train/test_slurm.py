"""Under a real Slurm, of one node and of this test's own: ranks that srun starts, and a batch job whose mpirun slackline
starts, come to the same bits as without it; SIGTERM through scancel leaves a checkpoint that the next job continues.
Where Slurm comes from says tests/net/slurm.py; without it this is skipped."""
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from runner import build, source
from slurm import Slurm
from test_restart import Runs, checkpoints, owner, said
from training import arguments, command_line, environment, kill, lines, shared_files, until


def srun(runs, out, *settings, resume=False):
    words = ["srun", "--mpi=pmix", "-n", "2", "--overcommit"] + arguments(runs.build, runs.file, out, settings, resume)
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def await_iteration(out, number, process=None):
    metrics = os.path.join(out, "metrics.jsonl")
    until(lambda: len(lines(metrics)) > number or (process and process.poll() is not None), 60)
    assert len(lines(metrics)) > number, f"{out}: iteration {number} was not reached"


def nothing_is_left(runs):
    left = [path for path in shared_files(0) if owner(path).startswith(runs.folder) or "job-slurm" in path]
    assert not left, f"left: {left}"


def test_ranks_of_srun_train(runs):
    out = runs.out()
    process = srun(runs, out)
    error = process.communicate(timeout=100)[1]
    assert process.returncode == 0, f"srun: exit {process.returncode}: {error}"
    runs.compare("srun", out)
    print("srun: the same bits", flush=True)


def test_ranks_of_srun_are_warned(runs, slurm):
    out, never = runs.out(), "checkpoint.every=1000"
    process = srun(runs, out, never)
    await_iteration(out, 20, process)
    slurm.cancel()
    error = process.communicate(timeout=60)[1]
    ended = re.search(r"slackline: .*SIGTERM\D* (\d+) .*--resume.*\n", error)
    assert process.returncode == 1 and ended, f"exit {process.returncode}: {error}"
    assert checkpoints(out) == [f"step-{int(ended.group(1)):06d}"], checkpoints(out)
    nothing_is_left(runs)
    process = srun(runs, out, never, resume=True)
    error = process.communicate(timeout=100)[1]
    assert process.returncode == 0, f"resumed: exit {process.returncode}: {error}"
    runs.compare("srun, warned", out)
    print(f"srun, SIGTERM after {ended.group(1)} iterations: the same bits after --resume", flush=True)


def submit(runs, out, number, *settings):
    script = os.path.join(runs.folder, f"job{number}.sh")
    with open(script, "w") as file:
        file.write("#!/bin/bash\nexec " + " ".join(f"'{word}'" for word in arguments(runs.build, runs.file, out, settings, True)) + "\n")
    subprocess.run(["sbatch", "-n", "2", "--overcommit", "-o", script + ".out", "-e", script + ".error", script], check=True,
                   stdout=subprocess.DEVNULL)
    return script + ".error"


def workers(out):
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        words = command_line(entry)
        if words and os.path.basename(words[0]) == "slackline-worker" and out in words:
            found[int(environment(entry).get("OMPI_COMM_WORLD_RANK", -1))] = int(entry)
    return found


def test_a_batch_job_is_restarted_warned_and_continued(runs, slurm):
    """Killed, started again, warned; the next job goes on."""
    out, never = runs.out(), "checkpoint.every=15"
    error = submit(runs, out, 1, never)
    await_iteration(out, 20)
    kill(workers(out)[1])
    assert until(lambda: [e for e in lines(os.path.join(out, "events.jsonl")) if e["kind"] == "resumed" and e["iteration"] > 0], 30)
    await_iteration(out, 40)
    slurm.cancel("--batch")
    assert until(lambda: not slurm.jobs(), 60), "the job does not end"
    words = open(error).read()
    assert re.search(r"slackline: rank 1 \(pid \d+\) .*\b9\b.*; .*\b1\b.*\b3\b.* 0.5 s\n", words), words
    last = re.search(r"slackline: .*SIGTERM\D* (\d+)\b.*`slackline train .* --resume`.*\n", words)
    assert last and checkpoints(out)[-1] == f"step-{int(last.group(1)) + 1:06d}", words
    error = submit(runs, out, 2, never)
    assert until(lambda: not slurm.jobs(), 100), "the second job does not end"
    assert said(open(error).read()) == "", open(error).read()
    runs.compare("batch job", out)
    nothing_is_left(runs)
    print(f"a batch job, killed and warned after iteration {last.group(1)}: the same bits by the next job", flush=True)


def given():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="slackline-slurm-test.") as folder, Slurm(os.path.join(folder, "slurm")) as slurm:
        runs = Runs(build, source, folder)
        runs.bits()
        yield runs, slurm
