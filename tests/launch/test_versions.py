"""Programs of different builds of slackline refuse each other, in one line that names both builds and both programs: worker,
delegate and solver those that start them, and ranks each other. A copy of a program is made to be of another build of the same
version."""
import os
import re
import subprocess
import tempfile

from runner import build, expect, require, source

require("slackline", "slackline-worker", "slackline-delegate", "slackline-solver", "mpirun")
said = subprocess.run([os.path.join(build, "slackline"), "--version"], capture_output=True, text=True).stdout
version = re.search(r"^id +(\d+\.\d+\.\d+\+[0-9a-f]{12})$", said, re.M).group(1)
other = version[:-12] + version[-12:].translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
compiler = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", open(os.path.join(build, "CMakeCache.txt")).read(), re.M).group(1)
_folder = tempfile.TemporaryDirectory(prefix="slackline-versions.")
folder = _folder.name


def install(name, *foreign):
    """The programs of this build in a folder of their own, some of them of another build."""
    place = os.path.join(folder, name)
    os.mkdir(place)
    for program in ("slackline", "slackline-worker", "slackline-delegate", "slackline-solver"):
        with open(os.path.join(build, program), "rb") as file:
            bytes_ = file.read()
        if program in foreign:
            expect(version.encode() in bytes_, f"{program} holds its build")
            bytes_ = bytes_.replace(version.encode(), other.encode())
        with open(os.path.join(place, program), "wb") as file:
            file.write(bytes_)
        os.chmod(os.path.join(place, program), 0o755)
    return place


def run(*words, **variables):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=folder, env={**os.environ, **variables})


def refused(what, done, *programs):
    """One line that names both builds and both programs."""
    lines = [line for line in done.stderr.splitlines() if version in line and other in line]
    expect(done.returncode == 1, f"{what}: exit {done.returncode} {done.stderr!r}")
    expect(len(lines) == 1 and all(program in lines[0] for program in programs), f"{what}: {done.stderr!r}")


runs = os.path.join(folder, "run.yaml")
with open(runs, "w") as file:
    file.write("model: {kind: gpt2, layers: 2, width: 8, heads: 2, context: 8}\ndata: {files: [/usr/share/common-licenses/*], seed: 1}\n"
               "parallel: {pipeline: 2}\nbatch: {microbatches: 2, size: 1}\noptimizer: {kind: adamw, lr: 1e-3, clip: 1.0}\niterations: 1\n"
               "schedule: 1f1b\nadapt: false\ndevice: {kind: cpu}\n")


def train(place, *options):
    return [os.path.join(place, "slackline"), "train", runs, "--overwrite",
            "--out", os.path.join(folder, "out-" + os.path.basename(place)), *options]


same = install("same")


def test_programs_of_one_version_work():
    done = run(*train(same, "--set", "transport=delegated"))
    expect(done.returncode == 0, f"programs of one version work: {done.stderr!r}")


def test_a_foreign_worker_is_refused():
    worker = install("worker", "slackline-worker")
    names = (os.path.join(worker, "slackline"), os.path.join(worker, "slackline-worker"))
    refused("train", run(*train(worker)), *names)
    refused("healthcheck", run(names[0], "healthcheck", "--ranks", "2"), *names)


def test_a_foreign_delegate_is_refused():
    delegate = install("delegate", "slackline-delegate")
    refused("a delegate", run(*train(delegate, "--set", "transport=delegated")), os.path.join(delegate, "slackline-delegate"), os.path.join(delegate, "slackline-worker"))


def test_ranks_of_two_versions_refuse_each_other():
    # two hosts with an installation each: both commands fit their workers, but the ranks do not fit each other
    foreign = install("foreign", "slackline", "slackline-worker")
    mpirun = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe"]
    there = [os.path.join(foreign, "slackline"), *train(same)[1:]]
    done = run(*mpirun, "-np", "1", *train(same), ":", "-np", "1", *there)
    lines = [line for line in done.stderr.splitlines() if version in line and other in line]
    expect(done.returncode != 0 and lines and all(os.path.join(place, "slackline-worker") in line for line in lines for place in (same, foreign)),
           f"ranks of two versions: {done.returncode} {done.stderr!r}")


def test_a_foreign_solver_is_refused():
    # the solver refuses before it loads the library, so any will do
    solver = install("solver", "slackline-solver")
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", os.path.join(folder, "libortools.so.9")], check=True)
    plan = ["plan", os.path.join(source, "examples", "shared-wire.yaml"), "--time-limit", "0.2"]
    ortools = {"SLACKLINE_ORTOOLS": folder}
    refused("the solver", run(os.path.join(solver, "slackline"), *plan, **ortools), os.path.join(solver, "slackline-solver"), os.path.join(solver, "slackline"))
    done = run(os.path.join(same, "slackline"), *plan, **ortools)
    expect(done.returncode == 0, f"a solver of the same version is started: {done.stderr!r}")
