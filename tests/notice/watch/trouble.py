"""Trouble for running programs, on purpose and undone at the end: a processor quota for one process (cgroup v1 or v2), and
load beside it on its cores. Links are made slow by ../../net/star.py.

    with Quota(pid, share=0.2): ...       # the process and its threads get a fifth of one core
    with Load(core=1, processes=3): ..."""
import os
import subprocess
import sys

from runner import skip

V1 = "/sys/fs/cgroup/cpu"
V2 = "/sys/fs/cgroup"
PERIOD = 20_000  # us


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


class Quota:
    def __init__(self, pid, share):
        self.pid, self.share = pid, share

    def __enter__(self):
        name = f"slackline-test-{os.getpid()}-{self.pid}"
        quota = int(PERIOD * self.share)
        self.v1 = os.path.exists(os.path.join(V1, "cpu.cfs_quota_us"))
        self.folder = os.path.join(V1 if self.v1 else V2, name)
        self.list = "tasks" if self.v1 else "cgroup.procs"
        try:
            self.before = os.path.join(V1 if self.v1 else V2, self._group().lstrip("/"))
            os.mkdir(self.folder)
            if self.v1:
                _write(os.path.join(self.folder, "cpu.cfs_period_us"), str(PERIOD))
                _write(os.path.join(self.folder, "cpu.cfs_quota_us"), str(quota))
            else:
                _write(os.path.join(self.folder, "cpu.max"), f"{quota} {PERIOD}")
            self._move(self.folder)
        except OSError as error:
            self.__exit__()
            skip(f"a processor quota: {error}")
        return self

    def __exit__(self, *_):
        """Back to where it was; the group goes when nobody is in it."""
        try:
            self._move(self.before)
        except OSError:
            pass  # it has ended
        try:
            with open(os.path.join(self.folder, self.list)) as file:
                for pid in file.read().split():  # who was started meanwhile and joined
                    _write(os.path.join(self.before, self.list), pid)
        except OSError:
            pass
        try:
            os.rmdir(self.folder)
        except OSError:
            pass

    def throttled(self):
        """Seconds for which it was stopped."""
        with open(os.path.join(self.folder, "cpu.stat")) as file:
            values = dict(line.split() for line in file.read().splitlines())
        return int(values["throttled_time"]) / 1e9 if self.v1 else int(values["throttled_usec"]) / 1e6

    def _group(self):
        with open(f"/proc/{self.pid}/cgroup") as file:
            for line in file.read().splitlines():
                _, controllers, path = line.split(":", 2)
                if ("cpu" in controllers.split(",")) if self.v1 else not controllers:
                    return path
        raise OSError("the process is in no group of the processor controller")

    def _move(self, folder):
        ids = os.listdir(f"/proc/{self.pid}/task") if self.v1 else [str(self.pid)]
        for one in ids:
            _write(os.path.join(folder, self.list), one)


class Load:
    """Processes that only compute, on one core."""

    def __init__(self, core, processes=1):
        self.core, self.processes, self.started = core, processes, []

    def __enter__(self):
        for _ in range(self.processes):
            self.started.append(subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{self.core}])\nwhile True: pass"]))
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            process.wait()


def below(pid):
    """A process and all that descend from it."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                children.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            pass
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def ranks_of(pid):
    """{rank: pid} of the MPI processes below a process, by the launcher's word in their environment; the innermost of each."""
    found = {}
    for one in below(pid):
        try:
            with open(f"/proc/{one}/environ", "rb") as file:
                for word in file.read().split(b"\0"):
                    if word.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")):
                        found[int(word.split(b"=")[1])] = one
        except OSError:
            pass
    return found
