"""The programs of run.py: how each is started, with its faults. A program that works by sleeping can be slowed from inside; one that
computes can have its processor taken away; one on hosts of its own can have a slow link."""
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

here = os.path.dirname(os.path.abspath(__file__))
source = os.path.dirname(os.path.dirname(here))
sys.path[:0] = [os.path.join(source, "tests", "notice", "watch"), os.path.join(source, "tests", "net"), os.path.join(source, "tests")]
# the modules of tests are told by their command line where they are
_words, sys.argv[1:] = sys.argv[1:], [os.path.join(source, "build"), source]
from real import Watched, lammps, mpi4py, mpirun, need  # noqa: E402,F401
from star import Star, permitted  # noqa: E402,F401
from trouble import Load, Quota, below, ranks_of  # noqa: E402,F401
sys.argv[1:] = _words

MEGABIT = 1000
INSIDE, PROCESSOR, LINKS = ("inside", "two at once"), ("quota", "load"), ("link", "host")


@dataclass(frozen=True)
class Program:
    name: str
    kind: str  # shape: neighbors.c; foreign: foreign.c; unusual: unusual.c; loop: loop.py over MPI; torch: loop.py over Gloo; real: another's program
    faults: tuple  # that it can have


def _shapes(*names, faults):
    return [Program(name, "shape", faults) for name in names]


PROGRAMS = [  # a slow link is felt by long messages alone
    *_shapes("ring", "shifts", faults=INSIDE + PROCESSOR + ("host",)),
    *_shapes("long-blocking", "long-allreduce", "long-pipeline", "long-alltoall", faults=INSIDE + PROCESSOR + LINKS),
    *_shapes("long-ring", "long-shifts", "long-grid", "long-persistent", "long-sharded", faults=INSIDE + PROCESSOR + LINKS),
    *_shapes("polled", "polled-any", "buckets", "gathered", "master", "sparse", "onesided", "levels", faults=INSIDE + PROCESSOR),
    Program("halo", "foreign", INSIDE + PROCESSOR + ("host",)),
    *[Program(name, "foreign", INSIDE + PROCESSOR + LINKS) for name in ("uneven", "stream")],
    *[Program(name, "foreign", INSIDE + PROCESSOR) for name in ("waitany", "locked")],
    *[Program(name, "unusual", INSIDE + PROCESSOR)
      for name in ("farm", "borders", "panels", "graph", "keys", "wave", "threaded", "refined")],
    Program("LAMMPS", "real", PROCESSOR), Program("hpcc", "real", PROCESSOR), Program("mpi4py", "loop", INSIDE),
    Program("DDP", "torch", INSIDE), Program("FSDP", "torch", INSIDE), Program("PyTorch pipeline", "torch", INSIDE),
    Program("parameter server", "torch", INSIDE), Program("experts", "torch", INSIDE),
]


class Tools:
    """What the programs need, made once: neighbors, foreign, mpi4py, an input of hpcc."""

    def __init__(self, folder):
        self.folder, self.python = folder, None
        self.compiled = {}
        for kind, file in (("shape", "tests/notice/watch/neighbors.c"), ("foreign", "bench/watch/foreign.c"), ("unusual", "bench/watch/unusual.c")):
            self.compiled[kind] = os.path.join(folder, kind)
            subprocess.run(["mpicc", "-O1", "-o", self.compiled[kind], os.path.join(source, file)], check=True)

    def environment(self, program):
        """Variables for a program, or None: it cannot run here."""
        if program.name == "mpi4py":
            self.python = self.python or mpi4py(self.folder)
            return self.python and {"PYTHONPATH": self.python["PYTHONPATH"], "MPI4PY_MPIABI": "openmpi"}
        if program.kind == "torch":
            return {"OMP_NUM_THREADS": "1"} if os.path.exists(self.torch()) else None
        if program.name in ("LAMMPS", "hpcc") and not shutil.which({"LAMMPS": "lmp"}.get(program.name, program.name)):
            return None
        return {}

    @staticmethod
    def torch():
        return os.path.join(source, ".venv", "bin", "python")

    def words(self, program, folder, fault, ms):
        """The program itself, for each rank; of Gloo's with its launcher."""
        file = os.path.join(folder, "slow")
        if program.kind in self.compiled:
            return [self.compiled[program.kind], program.name, str(ms), file, *(["burn"] if fault in PROCESSOR else [])]
        if program.name == "mpi4py":
            return [sys.executable, os.path.join(here, "loop.py"), "mpi4py", str(ms), file]
        if program.kind == "torch":
            what = {"DDP": "ddp", "FSDP": "fsdp", "parameter server": "server", "experts": "exchange"}.get(program.name, "pipeline")
            if what == "exchange":
                return [self.torch(), os.path.join(here, "loop.py"), what, str(ms), file]
            return [self.torch(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4",
                    os.path.join(here, "loop.py"), what, str(ms), file]
        if program.name == "LAMMPS":
            return lammps(folder, 16, 1_000_000)
        with open("/usr/share/doc/hpcc/examples/_hpccinf.txt") as given:
            lines = given.read().splitlines()
        lines[5], lines[10], lines[11] = "6000         Ns", "1            Ps", "4            Qs"
        with open(os.path.join(folder, "hpccinf.txt"), "w") as made:
            made.write("\n".join(lines) + "\n")
        return ["hpcc"]


def bound(words, ranks, core_of):
    """mpirun with each rank bound to a core."""
    return mpirun(1, ["taskset", "-c", str(core_of[0]), *words]) + sum(
        ([":", "-np", "1", "taskset", "-c", str(core_of[rank]), *words] for rank in range(1, ranks)), [])
