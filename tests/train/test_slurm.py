"""Under a real Slurm, of one node and of this test's own: ranks that srun starts, and a batch job whose mpirun slackline
starts, come to the same bits as without it; SIGTERM through scancel leaves a checkpoint that the next job continues.
Slurm is taken from PATH, or from the folder SL_SLURM into which Debian's packages (slurmctld, slurmd, slurm-client,
slurm-wlm-basic-plugins, libmunge2) were unpacked; without it this is skipped."""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_restart import Runs, checkpoints, owner, said  # noqa: E402
from training import arguments, command_line, environment, kill, lines, need, shared_files, until  # noqa: E402

CONFIG = """
ClusterName=lab
SlurmctldHost=%(host)s(127.0.0.1)
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=%(user)s
SlurmdUser=%(user)s
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd.pid
SlurmctldPort=%(port1)d
SlurmdPort=%(port2)d
%(plugins)s
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
MailProg=/bin/true
KillWait=10
NodeName=%(host)s NodeAddr=127.0.0.1 CPUs=4
PartitionName=p Nodes=%(host)s Default=YES State=UP
"""


def find(name):
    return shutil.which(name) or shutil.which(name + "-wlm")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Slurm:
    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        root, plugins = os.environ.get("SL_SLURM"), ""
        if root:
            found = glob.glob(os.path.join(root, "usr/lib/*/slurm-wlm"))
            assert found, f"{root}: no usr/lib/*/slurm-wlm"
            plugins = f"PluginDir={found[0]}"
            os.environ["LD_LIBRARY_PATH"] = f"{found[0]}:{os.path.dirname(found[0])}"
            os.environ["PATH"] = f"{root}/usr/bin:{root}/usr/sbin:{os.environ['PATH']}"
        missing = [name for name in ("slurmctld", "slurmd", "slurmstepd", "srun", "sbatch", "scancel", "squeue", "sinfo") if not find(name)]
        if missing:
            print(f"skipped: {missing[0]} is not installed (Debian: slurmctld slurmd slurm-client); SL_SLURM may name unpacked ones")
            sys.exit(77)
        os.makedirs(os.path.join(folder, "state"))
        os.makedirs(os.path.join(folder, "spool"))
        self.host = socket.gethostname().split(".")[0]
        config = os.path.join(folder, "slurm.conf")
        with open(config, "w") as out:
            out.write(CONFIG % {"host": self.host, "user": os.popen("id -un").read().strip(), "folder": folder, "port1": free_port(),
                                "port2": free_port(), "plugins": plugins})
        os.environ["SLURM_CONF"] = config

    def __enter__(self):
        for words in ([find("slurmctld"), "-D"], [find("slurmd"), "-D", "-N", self.host, "-d", find("slurmstepd")]):
            log = open(os.path.join(self.folder, os.path.basename(words[0]) + ".log"), "w")
            self.daemons.append(subprocess.Popen(words, stdout=log, stderr=log))
        if not until(lambda: "idle" in subprocess.run(["sinfo", "-h"], capture_output=True, text=True).stdout, 30):
            said = "".join(open(path).read()[-2000:] for path in glob.glob(os.path.join(self.folder, "*.log")))
            self.__exit__()
            print(f"skipped: this Slurm does not come up here: {said}")
            sys.exit(77)
        return self

    def __exit__(self, *_):
        subprocess.run(["scancel", "--user", os.popen("id -un").read().strip()], capture_output=True)
        until(lambda: not self.jobs(), 20)
        for daemon in self.daemons[::-1]:
            daemon.terminate()
            daemon.wait()

    def jobs(self):
        return subprocess.run(["squeue", "-h", "-o", "%A"], capture_output=True, text=True).stdout.split()

    def cancel(self, *words):
        subprocess.run(["scancel", "--signal=TERM", *words, self.jobs()[0]], check=True)


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


def ranks_of_srun(runs):
    out = runs.out()
    process = srun(runs, out)
    error = process.communicate(timeout=100)[1]
    assert process.returncode == 0, f"srun: exit {process.returncode}: {error}"
    runs.compare("srun", out)
    print("srun: the same bits", flush=True)


def ranks_of_srun_are_warned(runs, slurm):
    out, never = runs.out(), "checkpoint.every=1000"
    process = srun(runs, out, never)
    await_iteration(out, 20, process)
    slurm.cancel()
    error = process.communicate(timeout=60)[1]
    ended = re.search(r"slackline: ended by SIGTERM after (\d+) iterations; the same command with --resume continues\n", error)
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


def a_batch_job(runs, slurm):
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
    assert re.search(r"slackline: rank 1 \(pid \d+\) was killed by signal 9 \(SIGKILL\); restart 1 of 3 in 0.5 s\n", words), words
    last = re.search(r"slackline: ended by SIGTERM after iteration (\d+); `slackline train .* --resume` continues\n", words)
    assert last and checkpoints(out)[-1] == f"step-{int(last.group(1)) + 1:06d}", words
    error = submit(runs, out, 2, never)
    assert until(lambda: not slurm.jobs(), 100), "the second job does not end"
    assert said(open(error).read()) == "", open(error).read()
    runs.compare("batch job", out)
    nothing_is_left(runs)
    print(f"a batch job, killed and warned after iteration {last.group(1)}: the same bits by the next job", flush=True)


def main():
    build, source = sys.argv[1:3]
    need(build)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="slackline-slurm-test.") as folder, Slurm(os.path.join(folder, "slurm")) as slurm:
        runs = Runs(os.path.abspath(build), os.path.abspath(source), folder)
        runs.bits()
        ranks_of_srun(runs)
        ranks_of_srun_are_warned(runs, slurm)
        a_batch_job(runs, slurm)
    print("all as promised")


if __name__ == "__main__":
    main()
