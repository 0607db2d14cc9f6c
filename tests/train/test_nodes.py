# labels: slow
"""Training on three hosts of their own (network, host name and /dev/shm), reached as a cluster's are: by real sshd, by a Slurm with munge,
and in containers. Ranks, sshd and whole nodes are lost, jobs are put back into the queue and reach their time limit; the weights are
those of the undisturbed run, bit by bit. Without Slurm, munge or sshd (tools/install slurm), or the right to make namespaces, skipped."""
import os
import re
import subprocess
import tempfile

from runner import build, expect, skip, source
from lab import Forbidden
from slurm import Slurm
from ssh import Ssh
from star import Star
from test_restart import Runs, checkpoints, said
from training import arguments, command_line, environment, kill, lines, until

HOSTS = 3
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def workers(out):
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        words = command_line(entry)
        if words and os.path.basename(words[0]) == "slackline-worker" and out in words:
            found[int(environment(entry).get("OMPI_COMM_WORLD_RANK", -1))] = int(entry)
    return found


def await_iteration(out, number, over=lambda: False):
    metrics = os.path.join(out, "metrics.jsonl")
    until(lambda: len(lines(metrics)) > number or over(), 90)
    expect(len(lines(metrics)) > number, f"{out}: iteration {number} is reached")


# ---- ssh ----


def train_by_ssh(star, ssh, runs, out, hosts, *settings):
    given = "hosts=[" + ", ".join(star.address(host) for host in hosts) + "]"
    return star.start(0, arguments(build, runs.file, out, [given, *settings]), env={**os.environ, **ssh.environment}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.PIPE, text=True)


def test_ranks_are_started_by_ssh(star, slurm, runs, folder):
    with Ssh(os.path.join(folder, "ssh"), star) as ssh:
        out = runs.out()
        error = (process := train_by_ssh(star, ssh, runs, out, range(HOSTS), "parallel.pipeline=3")).communicate(timeout=150)[1]
        expect(process.returncode == 0, f"ssh: exit {process.returncode}: {error}")
        runs.compare("ssh", out)


def test_a_host_that_refuses_ssh_is_replaced_by_a_spare(star, slurm, runs, folder):
    with Ssh(os.path.join(folder, "ssh-lost"), star) as ssh:
        out = runs.out()
        process = train_by_ssh(star, ssh, runs, out, range(HOSTS))  # two ranks: the third host is spare
        await_iteration(out, 20, lambda: process.poll() is not None)
        ssh.stop(1)
        kill(workers(out)[1])
        error = process.communicate(timeout=150)[1]
        expect(process.returncode == 0, f"ssh: exit {process.returncode}: {error}")
        expect(re.search(rf"slackline: host {star.address(1)} .*Connection refused", error), f"the host is named: {error}")
        runs.compare("ssh, a host lost", out)


# ---- Slurm ----


def submit(star, runs, out, *options, nodes=HOSTS, settings=()):
    """The number of the job."""
    script = out + ".sh"
    with open(script, "w") as file:
        file.write("#!/bin/bash\nexec " + " ".join(f"'{word}'" for word in arguments(build, runs.file, out, settings, True)) + "\n")
    done = star.run(0, ["sbatch", "-N", str(nodes), "-n", str(nodes), "--open-mode=append", *options, "-o", out + ".log", "-e", out + ".error", script],
                    env={**os.environ, **ROOT}, capture_output=True, text=True)
    expect(done.returncode == 0, f"sbatch: {done.stderr}")
    return re.search(r"\d+", done.stdout)[0]


def ends(slurm, out, seconds=150):
    expect(until(lambda: not slurm.jobs(), seconds), f"the job ends: {open(out + '.error').read()[-2000:]}")


def test_ranks_of_srun_train_on_three_nodes(star, slurm, runs):
    out = runs.out()
    done = star.run(0, ["srun", "-N", "3", "-n", "3", "--mpi=pmix", *arguments(build, runs.file, out, ["parallel.pipeline=3"])],
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=150)
    expect(done.returncode == 0, f"srun: exit {done.returncode}: {done.stderr}")
    runs.compare("srun on three nodes", out)


def test_a_killed_rank_of_a_batch_job_is_started_again(star, slurm, runs):
    out = runs.out()
    submit(star, runs, out, settings=["parallel.pipeline=3"])
    await_iteration(out, 20)
    kill(workers(out)[2])
    ends(slurm, out)
    expect(re.search(r"slackline: rank 2 .*\b9\b", open(out + ".error").read()), f"the rank is named: {open(out + '.error').read()}")
    runs.compare("a batch job on three nodes, a rank killed", out)


def test_a_job_that_is_requeued_continues(star, slurm, runs):
    out = runs.out()
    job = submit(star, runs, out, "--requeue", settings=["parallel.pipeline=3"])
    await_iteration(out, 20)
    slurm.ask("scontrol", "requeue", job)
    until(lambda: "Restarts=1" in slurm.ask("scontrol", "show", "job", job), 60)
    slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now")
    ends(slurm, out)
    expect("resumed" in [event["kind"] for event in lines(os.path.join(out, "events.jsonl"))], "the second start resumes")
    runs.compare("requeued", out)


def test_a_job_whose_node_is_lost_continues_on_others(star, slurm, runs):
    out = runs.out()
    job = submit(star, runs, out, "--requeue", nodes=2)
    await_iteration(out, 20)
    shown = slurm.ask("scontrol", "show", "job", job)
    lost = slurm.ask("scontrol", "show", "hostnames", re.search(r"\n +NodeList=(\S+)", shown)[1]).split()[1]
    slurm.ask("scontrol", "update", f"nodename={lost}", "state=down", "reason=lost")
    until(lambda: "Restarts=1" in slurm.ask("scontrol", "show", "job", job), 60)
    slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now")
    ends(slurm, out)
    slurm.ask("scontrol", "update", f"nodename={lost}", "state=resume")
    runs.compare("a node lost", out)


def test_a_time_limit_leaves_a_checkpoint(star, slurm, runs):
    """Slurm warns the script up to a minute early; SIGTERM ends the run after a checkpoint, and the same script continues it."""
    out, never = runs.out(), "checkpoint.every=1000"
    submit(star, runs, out, "--time=1", "--signal=B:TERM@50", settings=["parallel.pipeline=3", never, "iterations=2000"])
    ends(slurm, out)
    ended = re.search(r"slackline: .*SIGTERM\D* (\d+)\b", open(out + ".error").read())
    expect(ended and checkpoints(out), f"a checkpoint is left: {open(out + '.error').read()}")
    submit(star, runs, out, settings=["parallel.pipeline=3", never, f"iterations={int(ended[1]) + 20}"])
    ends(slurm, out)
    numbers = [line["iteration"] for line in lines(os.path.join(out, "metrics.jsonl"))]
    expect(numbers == list(range(int(ended[1]) + 20)), f"every iteration once: {numbers[-3:]}")


# ---- containers ----

CONTAINER = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec",
             'mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /run; exec "$0" "$@"']  # host name and network as outside


def test_a_run_inside_one_container(star, slurm, runs):
    out = runs.out()
    done = subprocess.run([*CONTAINER, *arguments(build, runs.file, out, [])], env={**os.environ, **ROOT}, capture_output=True, text=True, timeout=150)
    expect(done.returncode == 0 and said(done.stderr) == "", f"container: exit {done.returncode}: {done.stderr}")
    runs.compare("a container", out)


def test_ranks_in_containers_of_their_own_share_no_memory(star, slurm, runs):
    """As under Slurm with a container for each task: two ranks of a node have its name, but neither see each other nor share /dev/shm."""
    out = runs.out()
    done = star.run(0, ["srun", "-N", "1", "-n", "2", "--mpi=pmix", *CONTAINER, *arguments(build, runs.file, out, [])], stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, text=True, timeout=150, env={**os.environ, "OMPI_MCA_btl": "self,tcp"})  # Open MPI's own needs a common /dev/shm
    expect(done.returncode == 0, f"containers: exit {done.returncode}: {done.stderr}")
    runs.compare("a container for each rank", out)


def given():
    try:
        with tempfile.TemporaryDirectory(prefix="slackline-nodes-test.") as folder, Star(hosts=HOSTS) as star:
            os.makedirs(os.path.join(folder, "slurm"))
            with Slurm(os.path.join(folder, "slurm"), star) as slurm:
                runs = Runs(build, source, folder)
                runs.bits()
                yield star, slurm, runs
    except Forbidden as error:
        skip(str(error))
