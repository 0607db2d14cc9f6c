"""No code from the working directory: what the command looks for (OR-tools, its own programs, the preloaded library, mpirun,
redis-server) comes from where the user or the installation says. What others could replace is refused with a sentence that
names the path."""
import os
import re
import shutil
import subprocess

from calling import command, folder, write
from runner import build, expect, missing, source

compiler = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", open(os.path.join(build, "CMakeCache.txt")).read(), re.M).group(1)
WHEEL = "lib/python3.11/site-packages/ortools/.libs"
NAME = "libortools.so.9"
# no bound proves a plan of this one in the time that it gets here, so the search asks the exact solver, too
uneven = os.path.join(source, "examples", "shared-wire.yaml")
loaded = os.path.join(folder, "loaded")  # made by whatever was loaded or started and should not have been


def make(path, text, mode=0o755):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def stub(where):
    """A library that leaves a mark when it is loaded."""
    os.makedirs(where, exist_ok=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", os.path.join(where, NAME)], check=True, text=True,
                   input=f'#include <stdio.h>\n__attribute__((constructor)) static void mark(void) {{ fclose(fopen("{loaded}", "w")); }}\n')
    return os.path.join(where, NAME)


# next to the build there may be a .venv with OR-tools, which is trusted: these two have none next to them
alone = os.path.join(folder, "alone", "slackline")
os.makedirs(os.path.dirname(alone))
for name in ("slackline", "slackline-solver"):
    shutil.copy(os.path.join(build, name), os.path.dirname(alone))


def here(place, *words, program=command, **variables):
    """The command, started in `place`; was something loaded or started that leaves a mark?"""
    if os.path.exists(loaded):
        os.unlink(loaded)
    names = ("SLACKLINE_ORTOOLS", "SLACKLINE_SOLVER", "VIRTUAL_ENV")
    given = {**{name: value for name, value in os.environ.items() if name not in names}, **variables}
    done = subprocess.run([program, *words], cwd=place, capture_output=True, text=True, timeout=240, env=given)
    return done, os.path.exists(loaded)


def plans(place, **variables):
    return here(place, "plan", uneven, "--schedule", "auto", "--time-limit", "0.2", program=alone, **variables)


place = os.path.join(folder, "place")
library = stub(os.path.join(place, ".venv", WHEEL))


def test_ortools_comes_from_the_active_environment_and_never_from_the_working_directory():
    stub(os.path.join(place, WHEEL))
    for what, variables in (("nothing", {}), ("VIRTUAL_ENV=.venv", {"VIRTUAL_ENV": ".venv"}), ("VIRTUAL_ENV=.", {"VIRTUAL_ENV": "."}), ("an empty VIRTUAL_ENV", {"VIRTUAL_ENV": ""})):
        done, was_loaded = plans(place, **variables)
        expect(done.returncode == 0 and not was_loaded, f"{what}: a library below the working directory is not loaded: {done.returncode} {done.stderr}")
        said = here(place, "--version", program=alone, **variables)[0].stdout
        expect(place not in said and ".venv" not in said.split("OR-tools")[-1], f"{what}: nor found: {said}")
    done, was_loaded = plans(folder, VIRTUAL_ENV=os.path.join(place, ".venv"))
    expect(done.returncode == 0 and was_loaded and not done.stderr, f"the active environment's is: {done.returncode} {done.stderr}")
    for named in (".venv", os.path.join(".venv", WHEEL, NAME), library):
        done, was_loaded = plans(place, SLACKLINE_ORTOOLS=named)
        expect(was_loaded, f"what the user names is: {named}")
        said = here(place, "--version", program=alone, SLACKLINE_ORTOOLS=named)[0].stdout
        expect(re.search(rf"^OR-tools +{re.escape(library)}$", said, re.M), f"and its path is absolute: {named} {said}")


def test_what_others_could_replace_is_refused_with_its_path():
    venv = os.path.join(place, ".venv")
    held = [(library, 0o666), (os.path.dirname(library), 0o777), (venv, 0o757), (place, 0o777)]
    for part, mode in held:
        before = os.stat(part).st_mode & 0o7777
        os.chmod(part, mode)
        done, was_loaded = plans(folder, VIRTUAL_ENV=venv)
        facts = f"{library} | {part} | {mode:o}"
        expect(not was_loaded and done.returncode == 0, f"{part} {mode:o}: exit {done.returncode}, loaded {was_loaded}")
        expect(done.stderr.count("\n") == 1 and not missing(done.stderr, facts), f"{part} {mode:o}: {done.stderr!r}")
        for named in (library, venv):
            said = here(place, "--version", program=alone, SLACKLINE_ORTOOLS=named)[0].stdout
            expect(not missing(said, facts), f"{part} {mode:o}, SLACKLINE_ORTOOLS={named}: {said}")
        os.chmod(part, before)
    os.chmod(place, 0o1777)
    expect(plans(folder, VIRTUAL_ENV=venv)[1], "in a folder with the sticky bit others cannot replace what is ours")
    os.chmod(place, 0o755)
    link = os.path.join(folder, "open", "link")
    os.makedirs(os.path.dirname(link))
    os.symlink(venv, link)
    os.chmod(os.path.dirname(link), 0o777)
    done, was_loaded = plans(folder, VIRTUAL_ENV=link)
    expect(not was_loaded and not missing(done.stderr, f"{os.path.dirname(link)} | 777"), f"a link that others could turn elsewhere: {done.stderr!r}")
    if os.geteuid() == 0:
        stranger = os.stat(library)
        os.chown(library, 54321, 0)
        done, was_loaded = plans(folder, VIRTUAL_ENV=venv)
        expect(not was_loaded and not missing(done.stderr, f"{library} | user 54321"), f"a file of somebody else's: {done.stderr!r}")
        os.chown(library, 0, 54321)
        os.chmod(library, 0o664)
        done, was_loaded = plans(folder, VIRTUAL_ENV=venv)
        expect(not was_loaded and not missing(done.stderr, f"group 54321 | {library} | 664"), f"a shared group's: {done.stderr!r}")
        os.chown(library, stranger.st_uid, stranger.st_gid)
        expect(plans(folder, VIRTUAL_ENV=venv)[1], "the user's private group may write")
        os.chmod(library, 0o755)
        os.chmod(folder, 0o755)  # in a user namespace that does not know root, its files show as an unknown user's
        apart = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "unshare", "--user", "--map-current-user"]
        if subprocess.run([*apart, "test", "-x", alone], capture_output=True).returncode == 0:
            said = subprocess.run([*apart, alone, "--version"], env={**os.environ, "VIRTUAL_ENV": venv}, capture_output=True, text=True).stdout
            expect(re.search(rf"^OR-tools +{re.escape(library)}$", said, re.M), f"root's files are trusted in a user namespace: {said}")
        else:
            print("not tried: a user namespace (unshare or setpriv fails, or others may not enter the test's folder)")
    else:
        print("not tried: other owners (not root)")


bare = shutil.copy(command, make(os.path.join(folder, "bare", "slackline"), ""))
runs = write("run.yaml", "model: {kind: gpt2, layers: 2, width: 8, heads: 2, context: 8}\ndata: {files: [/usr/share/common-licenses/*], seed: 1}\n"
             "parallel: {pipeline: 2}\nbatch: {microbatches: 2, size: 1}\noptimizer: {kind: adamw, lr: 1e-3, clip: 1.0}\niterations: 1\n"
             "schedule: 1f1b\nadapt: false\ndevice: {kind: cpu}\n")


def test_programs_never_come_from_the_working_directory():
    inside = os.path.join(folder, "inside")
    for name in ("mpirun", "redis-server", "slackline-solver", "slackline-worker", "nvidia-smi", "hook"):
        make(os.path.join(inside, name), f"#!/bin/sh\ntouch {loaded}\necho mpirun '(Open MPI)' 4.1.4\n")
    silent = make(os.path.join(folder, "silent", NAME), "not a library, and never loaded without a solver", 0o644)
    for entries in (":/usr/bin:/bin", ".:/usr/bin:/bin", "../inside:/usr/bin:/bin"):
        tried = [(command, ["train", runs, "--out", os.path.join(folder, "out")]), (bare, ["plan", uneven, "--time-limit", "0.2"])]
        for program, words in [*tried, (command, ["doctor"])] if entries[0] == ":" else tried:
            ortools = {"SLACKLINE_ORTOOLS": silent} if program == bare else {}
            done, was_started = here(inside, *words, program=program, PATH=entries, **ortools)
            expect(not was_started, f"PATH={entries}: {words[0]} starts nothing of the working directory: {done.stderr}")
            shutil.rmtree(os.path.join(folder, "out"), ignore_errors=True)
    done, was_started = here(inside, "watch", "--out", os.path.join(folder, "watched"), "--http", "off", "--on-event", "hook", "--", "true", PATH=":/usr/bin:/bin")
    expect(not missing(done.stderr, "hook | PATH") and not was_started, f"nor a hook: {done.returncode} {done.stderr}")


def test_own_parts_that_others_may_write_are_refused():
    own = os.path.join(folder, "own")
    shutil.copytree(os.path.dirname(bare), own)
    mine = os.path.join(own, "slackline")
    parts = [(["watch", "--out", os.path.join(folder, "w"), "--http", "off", "--", "true"], "libslackline_probe.so"),
             (["train", runs, "--out", os.path.join(folder, "t")], "slackline-worker"),
             (["train", runs, "--set", "transport=delegated", "--out", os.path.join(folder, "t")], "slackline-delegate"),
             (["healthcheck"], "slackline-worker")]
    for words, part in parts:
        file = make(os.path.join(own, part), f"#!/bin/sh\ntouch {loaded}\n", 0o777)
        done, was_started = here(folder, *words, program=mine)
        expect(done.returncode == 1 and not was_started and done.stderr == f"slackline: {file} is not used, because others could replace it: everybody may write to {file} (mode 777)\n",
               f"{words[0]}: {part} that others may write: {done.returncode} {done.stderr!r}")
        found = here(folder, "doctor", program=mine)[0].stdout
        expect(re.search(rf"^  broken +{part.removesuffix('.so')} +{re.escape(file)} is not used", found, re.M), f"the doctor says so: {part}: {found}")
        os.unlink(file)
    shutil.copy(os.path.join(build, "libslackline_probe.so"), own)
    file = make(os.path.join(own, "libnccl-profiler-slackline.so"), "", 0o777)
    done, _ = here(folder, *parts[0][0], program=mine)
    expect(done.returncode == 1 and done.stderr.startswith(f"slackline: {file} is not used, because others could replace it"), f"the plug-in: {done.stderr!r}")
    expect(re.search(rf"^  broken +NCCL plug-in +{re.escape(file)} is not used", here(folder, "doctor", program=mine)[0].stdout, re.M), "the doctor says so of the plug-in")
