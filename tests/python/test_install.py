# labels: long
"""The package as pip installs it from the source tree: library, command, probe and package, into an environment of its own, and removed
again; and what is said where the build cannot be done. Called with BUILD_DIR SOURCE_DIR."""
import glob
import os

os.environ["SKBUILD_CMAKE_BUILD_TYPE"] = "Debug"  # compiles in half the time; test_install_sources.py optimises
from installing import files, given, installs, pip, python, removes_all, run, site, tree, own, works  # noqa: F401
from runner import expect, folder, source
import slackline


HARD = {"pipeline": {"ranks": 4, "microbatches": 6, "times_ms": {'F': [12, 14, 10, 9], 'I': [7, 7, 15, 5], 'W': [10, 13, 12, 14]},
                     "links": {"default": {"latency_ms": 2, "transfer_ms": 1}}, "memory": {"limit": 3}}}


def the_solver_is_started():
    """By the library in a Python process, which has it in no folder of its own: a stand-in leaves a mark and fails."""
    mark, ortools = os.path.join(folder, "mark"), os.path.join(folder, "libortools.so.9")
    with open(os.path.join(site, "slackline", "bin", "slackline-solver"), "w") as file:
        file.write(f"#!/bin/sh\ntouch {mark}\nexit 1\n")
    open(ortools, "w").close()
    done = run(python, "-c", f"import slackline; print(slackline.plan({HARD}, 'optimal', time_limit=2).makespan_ms)", PATH="/usr/bin:/bin", SLACKLINE_ORTOOLS=ortools)
    expect(done.returncode == 0 and os.path.exists(mark), f"the package's solver: {done.stdout}{done.stderr}")


def test_it_is_built_installed_and_removed():
    before, sources = files(own), files(tree)
    installs(tree)
    expect({path for path in files(tree) if "__pycache__" not in path} == {path for path in sources if "__pycache__" not in path}, f"left in the sources: {files(tree) - sources}")
    works(os.path.join(site, "slackline"))
    the_solver_is_started()
    done = run(python, "-c", "import importlib.metadata as m; d = m.distribution('slackline'); print(d.version, d.metadata['License-Expression']); print(*(p.read_text() for p in d.files if p.name == 'LICENSE'), sep='', end='')")
    with open(os.path.join(source, "LICENSE")) as file:
        expect(done.stdout == f"{slackline.__version__} Apache-2.0\n" + file.read(), f"its version, its license, and the text: {done.stdout[:300]}{done.stderr}")
    done = run(python, "-c", "import os, slackline; print(*sorted(os.listdir(os.path.dirname(slackline.__file__))))")
    wanted = {name for name in os.listdir(os.path.join(tree, "slackline"))} | {"bin", "lib"}
    expect(set(done.stdout.split()) - {"__pycache__"} == wanted - {"__pycache__"} and "py.typed" in wanted, f"installed are {done.stdout}")
    removes_all(before)


def test_what_the_build_lacks_is_named_at_once(folder):
    done = pip("wheel", "--no-deps", "-w", folder, tree, PKG_CONFIG_LIBDIR="/nowhere", PKG_CONFIG_PATH=None, CC="/nowhere/cc")
    said = " ".join((done.stdout + done.stderr).split())
    expect(done.returncode == 1 and "apt-get install gcc libc6-dev libyaml-dev libjansson-dev libssl-dev libhiredis-dev libmicrohttpd-dev libxxhash-dev zlib1g-dev" in said, f"{said[-2000:]}")
    expect(not glob.glob(os.path.join(folder, "*.whl")), "no wheel is made")
