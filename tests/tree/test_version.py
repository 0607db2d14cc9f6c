"""There is one version: what CMakeLists.txt says is said by the header, the library, its soname, pkg-config, CMake's package, the
command, its manual pages, the Debian package's settings and the Python package; CHANGELOG.md knows it or what is unreleased.
tools/release changes it everywhere, and refuses what makes no sense."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from runner import build, expect, has_facts, source


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def one(pattern, text):
    found = re.search(pattern, text, re.M)
    return found.group(1) if found else None


def of_tree(tree):
    """What each file of a source tree says; the first is the one that counts."""
    header = read(tree, "include/slackline/status.h")
    return {"CMakeLists.txt": one(r"^project\(slackline VERSION ([\d.]+) ", read(tree, "CMakeLists.txt")),
            "include/slackline/status.h": ".".join(one(rf"^#define SLACKLINE_VERSION_{part} (\d+)$", header) or "?" for part in ("MAJOR", "MINOR", "PATCH")),
            "python/slackline/__init__.py": one(r'^__version__ = "([^"]*)"$', read(tree, "python/slackline/__init__.py"))}


def interface(tree):
    return one(r'^INTERFACE = "([^"]*)"', read(tree, "python/slackline/_library.py"))


version = of_tree(source)["CMakeLists.txt"]
minor = version.rpartition(".")[0]


def test_the_sources_say_one_version():
    expect(re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version), f"a semantic version: {version}")
    for file, says in of_tree(source).items():
        expect(says == version, f"{file} says {says}, CMakeLists.txt {version}: tools/release sets both")
    expect(interface(source) == minor, f"python looks for interface {interface(source)}, not {minor}")
    expect('dynamic = ["version"]' in read(source, "python/pyproject.toml") and not re.search(r"^version *=(?! *\{attr)", read(source, "python/pyproject.toml"), re.M),
           "python/pyproject.toml takes the version from the package")


def test_what_was_built_says_it():
    built = {"slackline.pc": one(r"^Version: (.*)$", read(build, "slackline.pc")),
             "slacklineConfigVersion.cmake": one(r'^set\(PACKAGE_VERSION "([^"]*)"\)', read(build, "slacklineConfigVersion.cmake")),
             "CPackConfig.cmake": one(r'^set\(CPACK_PACKAGE_VERSION "([^"]*)"\)', read(build, "CPackConfig.cmake"))}
    command = os.path.join(build, "slackline")
    if os.path.exists(command):
        built["slackline --version"] = one(r"^slackline (\S+)$", subprocess.run([command, "--version"], capture_output=True, text=True).stdout)
    page = os.path.join(build, "pages/man1/slackline.1")
    if os.path.exists(page):
        built["the manual page"] = one(r'^\.TH .*slackline ([\d.]+)', read(page))
    library = os.path.join(build, "libslackline.so")
    if os.path.exists(library):
        expect(os.path.basename(os.path.realpath(library)) == f"libslackline.so.{version}", f"the library is {os.path.realpath(library)}")
        if shutil.which("readelf"):
            soname = one(r"SONAME.*\[(.*)\]", subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout)
            expect(soname == f"libslackline.so.{minor}", f"soname {soname}")
        if "asan" not in subprocess.run(["ldd", library], capture_output=True, text=True).stdout and "SL_SANITIZE:BOOL=OFF" in read(build, "CMakeCache.txt"):
            ask = f"import ctypes; f = ctypes.CDLL({library!r}).slackline_version; f.restype = ctypes.c_char_p; print(f().decode())"
            built["slackline_version()"] = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout.strip()
    for what, says in built.items():
        expect(says == version, f"{what} says {says}, not {version}")


def test_the_changelog_is_in_order():
    log = read(source, "CHANGELOG.md")
    heads = re.findall(r"^## (.*)$", log, re.M)
    expect(heads and heads[0] == "[Unreleased]", f"CHANGELOG.md begins with [Unreleased]: {heads[:1]}")
    expect(all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head) for head in heads[1:]), f"versions with dates: {heads}")
    numbers = [tuple(map(int, head[1:head.index("]")].split("."))) for head in heads[1:]]
    expect(numbers == sorted(numbers, reverse=True), f"the newest first: {heads}")
    expect(not numbers or tuple(map(int, version.split("."))) >= numbers[0], f"the tree is at {version}, CHANGELOG.md has {heads[1:2]}")
    expect(set(re.findall(r"^### (.*)$", log, re.M)) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}, "Keep a Changelog's sections")


def test_a_release_sets_it_everywhere():
    with tempfile.TemporaryDirectory() as tree:
        for path in ("CMakeLists.txt", "CHANGELOG.md", "include", "python/slackline", "tools"):
            here, there = os.path.join(source, path), os.path.join(tree, path)
            os.makedirs(os.path.dirname(there), exist_ok=True)
            shutil.copytree(here, there) if os.path.isdir(here) else shutil.copy(here, there)
        with open(os.path.join(tree, "CHANGELOG.md"), "w") as file:
            file.write("# Changes\n\n## [Unreleased]\n\n### Added\n- a thing.\n")

        def release(*words):
            return subprocess.run([os.path.join(tree, "tools/release"), *words], capture_output=True, text=True)

        for words in (["1.2"], ["v1.2.3"], ["01.2.3"], ["99.0.0", "--date", "yesterday"], ["99.0.0", "--what"], []):
            done = release(*words)
            expect(done.returncode == 2 and done.stderr and of_tree(tree)["CMakeLists.txt"] == version, f"{words}: exit {done.returncode} {done.stderr}")
        done = release("98.7.0", "--unreleased")
        expect(done.returncode == 0 and set(of_tree(tree).values()) == {"98.7.0"} and "98.7" not in read(tree, "CHANGELOG.md"), f"--unreleased: {done.stderr}{of_tree(tree)}")
        done = release("98.7.6", "--date", "2001-02-03")
        expect(done.returncode == 0 and set(of_tree(tree).values()) == {"98.7.6"}, f"a release: {done.stderr}{of_tree(tree)}")
        expect(interface(tree) == "98.7", f"python looks for {interface(tree)}")
        expect(re.findall(r"^## .*$", read(tree, "CHANGELOG.md"), re.M) == ["## [Unreleased]", "## [98.7.6] - 2001-02-03"], "CHANGELOG.md")
        done = release("98.7.6")
        expect(done.returncode == 1 and "98.7.6 already" in done.stderr, f"twice: {done.stderr}")
        done = release("98.7.7")
        expect(done.returncode == 1 and has_facts(done.stderr, "nothing under [Unreleased]"), f"nothing new: {done.stderr}")
        done = release("98.6.9")
        expect(done.returncode == 1 and "newer" in done.stderr, f"backwards: {done.stderr}")
