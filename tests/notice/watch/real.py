"""Programs that others wrote, unchanged, under `slackline watch`: how each is started, and a run of it that can be talked to.

    with Watched(build, folder, words) as run:          # words: the whole command after --
        run.wait_until(lambda s: s["iteration"] > 50)    # by /status.json
        event = run.wait_for("onset", after=0)           # by events.jsonl"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {size} 0 {size} 0 {size}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 100
run {steps}
"""
LIMIT = 150  # s; for what takes a few


def events_of(folder):
    """The complete lines of the events.jsonl of a watch; none if there is no file yet."""
    try:
        with open(os.path.join(folder, "events.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def mpirun(ranks, words):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-np", str(ranks), *words]


def lammps(folder, size, steps):
    """LAMMPS melting a Lennard-Jones crystal of 4 size^3 atoms."""
    name = os.path.join(folder, "in.melt")
    with open(name, "w") as file:
        file.write(MELT.format(size=size, steps=steps))
    return ["lmp", "-in", name, "-log", "none", "-nocite"]


def thermodynamics(text):
    """What LAMMPS computed, without what it measured."""
    return [line.split() for line in text.splitlines() if re.fullmatch(r"(\s+[-+.\de]+){6}\s*", line)]


class Watched:
    def __init__(self, build, folder, words, options=(), before=(), inside=None):
        """`before`: words that start the watch itself (nsenter). `inside`: a function that is given the watch's words and
        returns the command, where the watch is below mpirun; otherwise it is above it."""
        self.out, self.log = os.path.join(folder, "watch"), os.path.join(folder, "stderr.txt")
        watch = [os.path.join(build, "slackline"), "watch", "--out", self.out, "--overwrite", *options, "--"]
        command = inside([*watch, *words]) if inside else [*before, *watch, *words]
        self.port, self.read = None, 0
        self.stdout, self.stderr = open(os.path.join(folder, "stdout.txt"), "w+"), open(self.log, "w+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.stdout, stderr=self.stderr, cwd=folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.stdout.close()
        self.stderr.close()

    def words(self):
        with open(self.log) as file:
            return file.read()

    def events(self):
        return events_of(self.out)

    def wait_for(self, kind, after=0, limit=LIMIT):
        """The first event of that kind behind the first `after` events, and how many events there are up to it."""
        until = time.monotonic() + limit
        while time.monotonic() < until:
            events = self.events()
            for number, event in enumerate(events[after:], after + 1):
                if event["kind"] == kind:
                    return event, number
            if self.process.poll() is not None:
                raise AssertionError(f"no {kind}: the program ended ({self.process.returncode})\n{self.words()}\n{self.told()}")
            time.sleep(0.1)
        raise AssertionError(f"no {kind} within {limit} s\n{self.words()}\n{self.told()}")

    def told(self):
        return "\n".join(map(json.dumps, self.events()))

    def result(self, limit=LIMIT):
        code = self.process.wait(limit)
        self.stdout.seek(0)
        return code, self.stdout.read()


def need(*programs):
    """None, or what is missing."""
    missing = [program for program in programs if not shutil.which(program)]
    return f"{', '.join(missing)} is not installed" if missing else None


def status(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json", timeout=5) as answer:
        return json.load(answer)


def mpi4py(folder):
    """A Python that has mpi4py from the index, or None."""
    packages = os.path.join(folder, "packages")
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", packages,
                           "mpi4py==4.1.1"], capture_output=True, text=True, check=False)
    return None if done.returncode else {**os.environ, "PYTHONPATH": packages}
