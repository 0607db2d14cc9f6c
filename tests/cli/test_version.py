"""--version says how the command was built, and what it says is so."""
import os
import re
import subprocess

from calling import folder, run
from runner import build, expect, source

said = run("--version").stdout
lines = said.splitlines()
facts = dict(re.split(r" +", line, maxsplit=1) for line in lines[1:])


def test_name_and_version_come_first():
    declared = re.search(r"project\(slackline VERSION ([\d.]+)", open(os.path.join(source, "CMakeLists.txt")).read()).group(1)
    expect(lines[0] == f"slackline {declared}", "the first line is name and version")
    expect(re.fullmatch(rf"{re.escape(declared)}\+[0-9a-f]{{12}}", facts["id"]), f"the id of the build: {facts['id']}")
    expect(list(facts)[-10:] == ["compiler", "build", "trainer", "MPI", "oneDNN", "hiredis", "UCX", "libmicrohttpd", "hwloc", "xxHash", "OR-tools"][-10:], f"the lines: {list(facts)}")


def test_the_compiler_and_libraries_are_those_of_the_build():
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", open(os.path.join(build, "CMakeCache.txt")).read(), re.M))
    version = subprocess.run([cache["CMAKE_C_COMPILER"], "-dumpfullversion", "-dumpversion"], capture_output=True, text=True).stdout.split()
    expect(version and version[0] in facts["compiler"], f"the compiler is {version}: {facts['compiler']}")
    expect(("sanitizers" in facts["build"]) == (cache.get("SL_SANITIZE", "OFF") != "OFF"), f"sanitizers: {facts['build']}")
    for name, module in (("hiredis", "hiredis"), ("libmicrohttpd", "libmicrohttpd"), ("hwloc", "hwloc"), ("xxHash", "libxxhash"), ("UCX", "ucx")):
        found = subprocess.run(["pkg-config", "--modversion", module], capture_output=True, text=True).stdout.strip()
        expect(not found or facts[name].startswith(found) or (name == "UCX" and cache.get("SL_UCX") == "OFF"), f"{name} is {found}: {facts[name]}")
    expect((facts["trainer"] == "built") == os.path.exists(os.path.join(build, "slackline-worker")), f"trainer: {facts['trainer']}")


def test_the_commit_is_the_trees():
    head = subprocess.run(["git", "-C", source, "log", "-1", "--format=%h %cs", "--abbrev=12"], capture_output=True, text=True)
    if head.returncode == 0 and os.path.exists(os.path.join(source, ".git")):
        commit, date = head.stdout.split()
        expect(re.fullmatch(r"[0-9a-f]{12,}\+? of \d{4}-\d\d-\d\d", facts.get("commit", "")), f"the commit: {facts.get('commit')}")
        if commit not in facts["commit"]:
            print(f"built from {facts['commit']}, the tree is at {commit} now")
    else:
        expect("commit" not in facts, "no repository, no commit")


def test_ortools_is_looked_for_when_it_is_asked():
    nowhere = run("--version", env={**os.environ, "SLACKLINE_ORTOOLS": os.path.join(folder, "none")}).stdout
    expect(re.search(r"^OR-tools +not found", nowhere, re.M), "OR-tools is looked for when it is asked")


def test_no_commit_is_borrowed_from_a_repository_above():
    # An archive inside another repository has no commit of its own.
    inside = os.path.join(folder, "archive", "src", "cli")
    os.makedirs(inside)
    subprocess.run(["git", "init", "-q", folder], check=True)
    out = os.path.join(folder, "commit.h")
    subprocess.run(["cmake", f"-DSOURCE={os.path.join(folder, 'archive')}", f"-DOUT={out}", "-P", os.path.join(source, "src", "cli", "commit.cmake")], check=True)
    expect('#define SL_COMMIT ""' in open(out).read(), "no commit is borrowed from a repository above")
