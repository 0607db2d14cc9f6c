"""A Slurm of a test's own: on this host alone, or of several nodes, the hosts of a Star (star.py). It is taken from PATH, or from
the folder SL_SLURM into which Debian's packages (slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins, libmunge2) were
unpacked with `dpkg -x`; without it, or where it does not come up, the test is skipped with the reason.

    with Slurm(folder) as slurm: subprocess.run(["srun", ...])
    with Star(hosts=2) as star, Slurm(folder, star) as slurm: star.run(0, ["srun", ...])

Its daemons end with the block, and with what they have started."""
import glob
import os
import shutil
import socket
import subprocess

from lab import skip
from waiting import until

CONFIG = """
ClusterName=lab
SlurmctldHost=%(host)s(%(address)s)
%(authentication)s
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=%(user)s
SlurmdUser=%(user)s
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool-%%n
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd-%%n.pid
SlurmctldPort=%(port1)d
SlurmdPort=%(port2)d
%(plugins)s
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
MailProg=/bin/true
KillWait=10
%(nodes)s
PartitionName=p Nodes=ALL Default=YES State=UP
"""


def find(name):
    return shutil.which(name) or shutil.which(name + "-wlm")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def from_folder():
    """The line of the configuration that names the plugins of SL_SLURM; its programs come first in PATH from now on."""
    root = os.environ.get("SL_SLURM")
    if not root:
        return ""
    found = glob.glob(os.path.join(root, "usr/lib/*/slurm-wlm"))
    if not found:
        skip(f"SL_SLURM={root}: no usr/lib/*/slurm-wlm is there")
    os.environ["LD_LIBRARY_PATH"] = f"{found[0]}:{os.path.dirname(found[0])}"
    os.environ["PATH"] = f"{root}/usr/bin:{root}/usr/sbin:{os.environ['PATH']}"
    return f"PluginDir={found[0]}"


class Slurm:
    def __init__(self, folder, star=None, cpus=4):
        """`cpus` of a node, as Slurm is told."""
        self.folder, self.star, self.daemons, self.munged = folder, star, [], None
        plugins = from_folder()
        missing = [name for name in ("slurmctld", "slurmd", "slurmstepd", "srun", "sbatch", "scancel", "squeue", "sinfo", "scontrol") if not find(name)]
        if missing:
            skip(f"{missing[0]} is not installed (tools/install slurm); SL_SLURM may name unpacked packages")
        os.makedirs(os.path.join(folder, "state"))
        self.nodes = list(star.host_name[: star.hosts]) if star else [socket.gethostname().split(".")[0]]
        addresses = [star.address(host) for host in range(star.hosts)] if star else ["127.0.0.1"]
        self.user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        authentication = self._munge()
        config = os.path.join(folder, "slurm.conf")
        with open(config, "w") as out:
            out.write(CONFIG % {"host": self.nodes[0], "address": addresses[0], "user": self.user, "folder": folder, "port1": free_port(),
                                "port2": free_port(), "plugins": plugins,
                                "authentication": authentication,
                                "nodes": "\n".join(f"NodeName={node} NodeAddr={address} CPUs={cpus}" for node, address in zip(self.nodes, addresses))})
        os.environ["SLURM_CONF"] = config
        with open(os.path.join(folder, "mpi.conf"), "w") as out:
            out.write(f"PMIxCliTmpDirBase={folder}/pmix\n")
        os.makedirs(os.path.join(folder, "pmix"))

    def _inside(self, node):
        return self.star.inside(node) if self.star else []

    def _start(self, node, words):
        log = open(os.path.join(self.folder, f"daemon{len(self.daemons)}-on-{node}.log"), "w")
        self.daemons.append(subprocess.Popen([*self._inside(node), *words], stdout=log, stderr=log))

    def _munge(self):
        """Its lines of the configuration, and a munged of this Slurm's own, with its own key, for all nodes."""
        if not find("munged"):
            return "AuthType=auth/none\nCredType=cred/none"
        munge = os.path.join(self.folder, "munge")
        os.makedirs(munge, mode=0o700)
        at = {name: os.path.join(munge, name) for name in ("key", "socket", "pid", "seed", "log")}
        with open(os.open(at["key"], os.O_CREAT | os.O_WRONLY, 0o600), "wb") as key:
            key.write(os.urandom(128))
        self.munged = subprocess.Popen([find("munged"), "--foreground", "--force", *(f"--{name}-file={at[name]}" for name in ("key", "pid", "seed", "log")),
                                        f"--socket={at['socket']}", "--num-threads=2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not until(lambda: os.path.exists(at["socket"]), 10):
            skip("munged does not come up here")
        return f"AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={at['socket']}"

    def _own_folder(self, node):
        """PMIx makes a folder of the same name on each node of a step: hosts of one machine see one of their own there."""
        if not self.star:
            return []
        own = os.path.join(self.folder, f"pmix-{node}")
        os.makedirs(own)
        return ["unshare", "--mount", "sh", "-ec", 'mount --bind "$0" "$1"; shift; exec "$@"', own, os.path.join(self.folder, "pmix")]

    def __enter__(self):
        self._start(0, [find("slurmctld"), "-D"])
        for number, node in enumerate(self.nodes):
            os.makedirs(os.path.join(self.folder, f"spool-{node}"))
            self._start(number, [*self._own_folder(node), find("slurmd"), "-D", "-N", node, "-d", find("slurmstepd")])
        if not until(lambda: self.ask("sinfo", "-h", "-N", "-o", "%T").split().count("idle") == len(self.nodes), 30):
            said = "".join(open(path).read()[-1000:] for path in sorted(glob.glob(os.path.join(self.folder, "*.log"))))
            self.__exit__()
            skip(f"this Slurm does not come up here: {said}")
        return self

    def __exit__(self, *_):
        self.ask("scancel", "--user", self.user)
        until(lambda: not self.jobs(), 20)
        for daemon in [*self.daemons[::-1], *([self.munged] if self.munged else [])]:
            daemon.terminate()
            daemon.wait()

    def ask(self, *words):
        """What one of Slurm's commands prints."""
        return subprocess.run([*self._inside(0), *words], capture_output=True, text=True).stdout

    def jobs(self):
        return self.ask("squeue", "-h", "-o", "%A").split()

    def cancel(self, *words):
        subprocess.run([*self._inside(0), "scancel", "--signal=TERM", *words, self.jobs()[0]], check=True)
