"""Programs run under MPI without and with the probe, and what its rings say afterwards."""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

Record = collections.namedtuple("Record", "kind sequence call communicator peer tag bytes start end device rank thread")
Ring = collections.namedtuple("Ring", "name pid rank size family program lost untracked records")

# family: how it compiles, how it starts ranks
MPI = {
    "openmpi": {"cc": ["mpicc.openmpi", "mpicc"], "f": ["mpif90.openmpi", "mpif90"],
                "run": ["mpirun.openmpi", "mpirun"],
                "options": ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                            "--mca", "btl_vader_single_copy_mechanism", "none"], "number": 1},
    "mpich": {"cc": ["mpicc.mpich"], "f": ["mpif90.mpich"], "run": ["mpirun.mpich", "mpiexec.hydra"], "options": [], "number": 2},
}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def found(names):
    """The first of these programs that is installed."""
    return next((shutil.which(name) for name in names if shutil.which(name)), None)


class Probe:
    def __init__(self, build):
        self.library = os.path.join(os.path.abspath(build), "libslackline_probe.so")
        self.reader = os.path.join(os.path.abspath(build), "tests", "print_rings")
        for need in (self.library, self.reader):
            if not os.path.exists(need):
                skip(f"{need} is not built")
        self.folder = tempfile.mkdtemp(prefix="slackline-probe-test.")
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, **more):
        """A new folder for rings, and the environment that has a program watched."""
        self.count += 1
        rings = os.path.join(self.folder, f"rings{self.count}")
        os.mkdir(rings)
        return rings, {**os.environ, "LD_PRELOAD": self.library, "SLACKLINE_PROBE": rings, **more}

    def rings(self, folder):
        done = subprocess.run([self.reader, folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        records, rings = collections.defaultdict(list), []
        for line in done.stdout.splitlines():
            name, kind, *rest = line.split(" ")
            if kind == "ring":
                pid, rank, size, family, program, lost, untracked = rest
                rings.append(Ring(name, int(pid), int(rank), int(size), int(family), program, int(lost), int(untracked),
                                  records[name]))
            else:
                sequence, call, communicator, *numbers = rest
                records[name].append(Record(kind, int(sequence), call, communicator, *map(int, numbers)))
        return sorted(rings, key=lambda ring: (ring.rank, ring.name))


def mpirun(family, ranks, command, environment=None, timeout=120):
    mpi = MPI[family]
    return subprocess.run([found(mpi["run"]), *mpi["options"], "-n", str(ranks), *command], capture_output=True, text=True,
                          env=environment, timeout=timeout)


def installed(need="cc"):
    """The families whose compiler and starter are here."""
    here = [name for name, mpi in MPI.items() if found(mpi[need]) and found(mpi["run"])]
    # mpicc and mpirun without a suffix may belong to the other family
    return [name for name in here if is_family(name, need)]


def is_family(name, need):
    shown = subprocess.run([found(MPI[name][need]), "-show"], capture_output=True, text=True).stdout
    return ("mpich" in shown) == (name == "mpich")


def compile_with(compiler, source, target, *options):
    done = subprocess.run([compiler, "-w", "-O1", "-o", target, source, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
