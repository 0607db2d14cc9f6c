"""The package loads no library and starts no command from the working directory, and none that others could replace. Its tests
start in a folder that holds both, made to leave a mark."""
import os
import re
import shutil
import subprocess
import sys

from package import python
from runner import build, expect, folder, has_facts, missing, source
from slackline._library import FILE

compiler = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", open(os.path.join(build, "CMakeCache.txt")).read(), re.M).group(1)
mark = os.path.join(folder, "mark")
# the working directory of every Python here (package.py) is `folder`
subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", os.path.join(folder, FILE)], check=True, text=True,
               input=f'#include <stdio.h>\n__attribute__((constructor)) static void leave(void) {{ fclose(fopen("{mark}", "w")); }}\n')
shutil.copy(os.path.join(folder, FILE), os.path.join(folder, "own.so"))
with open(os.path.join(folder, "slackline"), "w") as file:
    file.write(f"#!/bin/sh\ntouch {mark}\n")
os.chmod(os.path.join(folder, "slackline"), 0o755)
ask = "import slackline; print(slackline.version())"
where = "from slackline._watching import command; print(command())"


def said(code, **environment):
    if os.path.exists(mark):
        os.unlink(mark)
    done = python(code, SLACKLINE_COMMAND=environment.pop("SLACKLINE_COMMAND", None), **environment)
    return done, os.path.exists(mark)


def test_the_library_never_comes_from_the_working_directory():
    for entries in (f":{build}", f".:{build}", f"{build}:"):
        done, was_loaded = said(ask, SLACKLINE_LIBRARY=None, LD_LIBRARY_PATH=entries)
        expect(done.returncode == 0 and not was_loaded, f"LD_LIBRARY_PATH={entries}: {done.returncode}, loaded {was_loaded} {done.stderr}")
    done, was_loaded = said(ask, SLACKLINE_LIBRARY=None, LD_LIBRARY_PATH=":/nowhere")
    expect(done.returncode == 1 and not was_loaded and f"LibraryNotFound: LD_LIBRARY_PATH names {os.path.join(folder, FILE)}" in done.stderr, f"{done.stderr}")
    done, was_loaded = said(ask, SLACKLINE_LIBRARY="own.so")
    expect(was_loaded and f"'{os.path.join(folder, 'own.so')}'" in done.stderr, f"what the user names is loaded, by its absolute path: {done.stderr}")
    os.chmod(os.path.join(folder, "own.so"), 0o757)
    done, was_loaded = said(ask, SLACKLINE_LIBRARY="own.so")
    expect(not was_loaded and not missing(done.stderr, f"{folder}/own.so | 757"), f"{done.stderr}")


def test_the_script_of_the_entry_point_is_no_command(folder):
    # it would search again, and find itself
    entry = "#!" + sys.executable + "\nimport sys\nfrom slackline.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    for place in ("one", "two"):
        os.mkdir(os.path.join(folder, place))
        with open(os.path.join(folder, place, "slackline"), "w") as file:
            file.write(entry)
        os.chmod(os.path.join(folder, place, "slackline"), 0o755)
    one, two = (os.path.join(folder, place) for place in ("one", "two"))
    done, _ = said(where, SLACKLINE_LIBRARY=None, PATH=f"{one}:{two}:{build}")
    expect(done.stdout.strip() == os.path.join(build, "slackline"), f"the next in PATH: {done.stdout}{done.stderr}")
    inside = {**os.environ, "PYTHONPATH": os.path.join(source, "python"), "PATH": f"{one}:{two}:{build}"}
    inside.pop("SLACKLINE_LIBRARY")
    for name, ends in ((None, 0), (os.path.join(one, "slackline"), 0), (os.path.join(two, "slackline"), 0)):
        done = subprocess.run([os.path.join(one, "slackline"), "--version"], capture_output=True, text=True, timeout=60,
                              env={**inside, **({"SLACKLINE_COMMAND": name} if name else {})})
        expect(done.returncode == ends and done.stdout.startswith("slackline "), f"SLACKLINE_COMMAND={name}: {done.stdout[:100]}{done.stderr}")
    done = subprocess.run([os.path.join(one, "slackline"), "--version"], capture_output=True, text=True, timeout=60, env={**inside, "PATH": f"{one}:{two}"})
    expect(done.returncode == 1 and has_facts(done.stderr, "the command slackline is not in this package"), f"none: {done.stdout[:100]}{done.stderr}")


def test_the_command_never_comes_from_the_working_directory():
    for entries in (":/usr/bin:/bin", ".:/usr/bin:/bin"):
        done, _ = said(where, SLACKLINE_LIBRARY=None, PATH=entries)
        expect("LibraryNotFound" in done.stderr or folder not in done.stdout and os.path.isabs(done.stdout), f"PATH={entries}: {done.stdout} {done.stderr}")
        done, was_started = said("import runpy, sys; sys.argv = ['slackline', 'plan']; runpy.run_module('slackline', run_name='__main__')", SLACKLINE_LIBRARY=None, PATH=entries)
        expect(not was_started, f"PATH={entries}: started the working directory's command")
    done, _ = said(where, SLACKLINE_COMMAND="./slackline")
    expect(done.stdout.strip() == os.path.join(folder, "slackline"), f"the user's word, made absolute: {done.stdout} {done.stderr}")
    shared = os.path.join(folder, "shared")
    os.mkdir(shared)
    shutil.copy(os.path.join(folder, "slackline"), shared)
    os.chmod(shared, 0o777)
    for environment in ({"PATH": shared}, {"SLACKLINE_COMMAND": os.path.join(shared, "slackline")}, {"SLACKLINE_COMMAND": "slackline", "PATH": shared}):
        done, _ = said(where, SLACKLINE_LIBRARY=None, **environment)
        expect(not missing(done.stderr, f"{shared}/slackline | {shared} | 777"), f"{environment}: {done.stdout} {done.stderr}")
    os.chmod(shared, 0o1777)
    done, _ = said(where, SLACKLINE_LIBRARY=None, PATH=shared)
    expect(done.stdout.strip() == os.path.join(shared, "slackline"), f"with the sticky bit others cannot replace it: {done.stderr}")
    if os.geteuid() == 0:
        os.chown(os.path.join(shared, "slackline"), 54321, 0)
        done, _ = said(where, SLACKLINE_LIBRARY=None, PATH=shared)
        expect(not missing(done.stderr, f"{shared}/slackline | user 54321"), f"{done.stdout} {done.stderr}")
    else:
        print("not tried: another owner (not root)")
