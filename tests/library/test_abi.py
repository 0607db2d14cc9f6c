# labels: long
"""Programs that were linked to libslackline.so or libslackline_transport.so, or run under libslackline_probe.so, go on working with a newer one of the same
soname: functions, their types, structs, enums and constants are those of the committed descriptions (*.abi and slackline.constants in this folder). Adding is allowed. Breaking it on purpose is found.

test_abi.py BUILD SOURCE --write writes the descriptions again (docs/releasing.md says when)."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runner import build, expect, skip, source  # noqa: E402

DESCRIPTIONS = {"libslackline.so": "tests/library/libslackline.abi", "libslackline_probe.so": "tests/library/libslackline_probe.abi",
                "libslackline_transport.so": "tests/library/libslackline_transport.abi"}
CONSTANTS = "tests/library/slackline.constants"
FORM = ("--exported-interfaces-only --no-show-locs --no-corpus-path --no-comp-dir-path --no-elf-needed --no-write-default-sizes "
        "--no-parameter-names --drop-undefined-syms --type-id-style hash --drop-private-types").split()
ADVICE = """
What was linked to the library would misbehave with this one. Either keep what was there and add beside it, or, when it must change:
  1. raise the minor version (CMakeLists.txt; the soname follows), as tools/release does,
  2. say in CHANGELOG.md what changes for programs,
  3. python3 tests/library/test_abi.py BUILD_DIR SOURCE_DIR --write
docs/releasing.md has more."""


def run(*words, ok=(0,), **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if ok and done.returncode not in ok:
        raise AssertionError(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


for tool in ("abidw", "abidiff", "cc", "readelf"):
    if not shutil.which(tool):
        skip(f"{tool} is missing" + (" (apt-get install abigail-tools)" if tool.startswith("abi") else ""))
if re.search(r"^SL_SANITIZE:.*=(ON|thread)", read(build, "CMakeCache.txt"), re.M):
    skip("a library built with sanitizers is not what is installed")
if not os.path.exists(os.path.join(build, "libslackline_transport.so")):
    skip("libslackline_transport.so is not built (xxHash is missing)")
for name in DESCRIPTIONS:
    if ".debug_info" not in run("readelf", "-S", "-W", os.path.join(build, name)).stdout:
        skip(f"{name} was built without debug information (-g), which the layouts are read from")


def describe(library, headers):
    """What a library shows: its soname, symbols, and the types that they lead to, as far as the headers show them."""
    text = run("abidw", *FORM, "--suppressions", os.path.join(source, "tests/library/abi.ignore"), "--headers-dir", headers, library).stdout
    return re.sub(rf"path='(?:{re.escape(source)}/|(?:\.\./)+)", "path='", text)  # not where the tree lies


def soname(description):
    found = re.search(r"soname='([^']*)'", description.splitlines()[0])
    return found.group(1) if found else ""


def constants(include):
    """The numbers that programs get compiled into them: every SLACKLINE_ macro but the version and the guards."""
    said = "".join(run("cc", "-E", "-dM", "-I", include, os.path.join(include, "slackline", name)).stdout for name in ("slackline.h", "transport.h"))
    found = re.findall(r"^#define (SLACKLINE_\w+) (.+)$", said, re.M)
    return "".join(f"{name} {value}\n" for name, value in sorted(found) if "_VERSION_" not in name)


def compare(old, new):
    """("same" | "added" | "changed", what) of two descriptions."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("old", old), ("new", new)):
            with open(os.path.join(folder, f"{name}.abi"), "w") as file:
                file.write(text)
        files = [os.path.join(folder, "old.abi"), os.path.join(folder, "new.abi")]
        strict = run("abidiff", "--no-added-syms", *files, ok=(0, 4, 8, 12))
        if strict.returncode:
            return "changed", strict.stdout
        every = run("abidiff", *files, ok=(0, 4))
        added = [line for line in every.stdout.splitlines() if "[A]" in line]
        return ("added" if added else "same"), "\n".join(added)


def compare_constants(old, new):
    old, new = (dict(line.split(" ", 1) for line in text.splitlines()) for text in (old, new))
    changed = [f"{name} was {value}, is {new.get(name, 'gone')}" for name, value in old.items() if new.get(name) != value]
    added = sorted(set(new) - set(old))
    return ("changed", "\n".join(changed)) if changed else ("added", "\n".join(added)) if added else ("same", "")


include = os.path.join(source, "include")
present = {name: describe(os.path.join(build, name), include) for name in DESCRIPTIONS}
present[CONSTANTS] = constants(include)
files = {**DESCRIPTIONS, CONSTANTS: CONSTANTS}
committed = {name: read(source, path) if os.path.exists(os.path.join(source, path)) else "" for name, path in files.items()}


def verdict(name):
    return (compare_constants if name == CONSTANTS else compare)(committed[name], present[name])


def write():
    # once a version with this soname is out, nothing of it may change any more
    minor = soname(present["libslackline.so"]).rpartition(".so.")[2]
    released = [version for version in re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-", read(source, "CHANGELOG.md"), re.M) if version.rpartition(".")[0] == minor]
    for name, path in files.items():
        kind, what = verdict(name) if committed[name] and soname(committed[name]) == soname(present[name]) else ("same", "")
        if kind == "changed" and released:
            sys.exit(f"{path} is not written: {released[0]} is released with the same soname, and this changes:\n{what}{ADVICE}")
    for name, path in files.items():
        with open(os.path.join(source, path), "w") as file:
            file.write(present[name])
        print("written:", path)


def test_the_libraries_are_as_described():
    for name, path in files.items():
        if not committed[name]:
            expect(False, f"{path} is missing: write it with --write")
        elif soname(committed[name]) != soname(present[name]):
            expect(False, f"the soname was {soname(committed[name])}, is {soname(present[name])}: if that is meant, write the descriptions with --write")
        else:
            kind, what = verdict(name)
            expect(kind != "changed", f"{name} is not what {path} describes:\n{what}{ADVICE}")
            if kind == "added":
                print(f"{name}: new since {path} was written, which is allowed; a release writes it anew (--write):\n{what}")


library = "libslackline.so"
parts = [os.path.join(build, f"libsl_{part}.a") for part in ("adapt", "detect", "plan", "record", "base")]


def broken(folder, *changes, symbols=None, more=""):
    """Description of the library made from headers and sources in which each (regex, new) of `changes` was done."""
    include = os.path.join(folder, "include")
    code = os.path.join(folder, "library")
    shutil.copytree(os.path.join(source, "include"), include)
    shutil.copytree(os.path.join(source, "src", "library"), code)
    for pattern, new in changes:
        done = 0
        for path in glob.glob(f"{include}/slackline/*.h") + glob.glob(f"{code}/*.c"):
            text, count = re.subn(pattern, new, read(path))
            done += count
            with open(path, "w") as file:
                file.write(text)
        assert done, pattern
    with open(os.path.join(code, "more.c"), "w") as file:
        file.write(more or "extern int nothing;\n")
    with open(os.path.join(code, "symbols.map"), "w") as file:
        file.write(symbols or read(source, "src/library/symbols.map"))
    made = os.path.join(folder, library)
    # library_handles.h of the copy is found first; other headers of the project in src
    run("cc", "-shared", "-fPIC", "-g", "-O0", "-std=c11", "-D_GNU_SOURCE", '-DSL_VERSION="0"', "-I", include, "-I", code, "-I", os.path.join(source, "src"),
        *sorted(glob.glob(f"{code}/*.c")), "-o", made, f"-Wl,--version-script={code}/symbols.map", f"-Wl,-soname,{soname(present[library])}",
        "-Wl,--start-group", *parts, "-Wl,--end-group", *run("pkg-config", "--libs", "yaml-0.1", "jansson").stdout.split(), "-lm", "-lpthread")
    return describe(made, include)


CASES = [
    ("nothing", "same", "", dict()),
    ("a function removed", "changed", "slackline_plan_op_cost", dict(symbols="{ global: slackline_*; local: *; };", changes=[(r"\bslackline_plan_op_cost\b", "hidden_plan_op_cost")])),
    ("a function added", "added", "slackline_new_one", dict(more="int slackline_new_one(void);\nint slackline_new_one(void) { return 1; }\n")),
    ("members of a struct swapped", "changed", "slackline_replica", dict(changes=[(r"(    double time;[^\n]*\n)(    double fill;[^\n]*\n)", r"\2\1")])),
    ("a member appended to a struct", "changed", "slackline_replica", dict(changes=[(r"(    int limit; +/\*[^\n]*\n)", r"\1    double more;\n")])),
    ("a member of a struct within a struct made larger", "changed", "slackline_incident", dict(changes=[(r"    int a, b; ( +/\*[^\n]*\*/\n)", r"    int64_t a, b; \1")])),
    ("an enumerator inserted", "changed", "slackline_status", dict(changes=[(r"(    SLACKLINE_NO_ANSWER,)", r"    SLACKLINE_NEW,\n\1")])),
    ("an enumerator removed", "changed", "slackline_kind", dict(changes=[(r"\n    SLACKLINE_FETCH\n", "\n")])),
    ("a parameter of another type", "changed", "slackline_orchestrator_idle", dict(changes=[(r"(slackline_orchestrator_idle\(const slackline_orchestrator \*orchestrator, )int64_t ", r"\1int32_t ")])),
    ("a constant changed", "constants", "SLACKLINE_STRATEGIES", ("STRATEGIES 5", "STRATEGIES 6")),
]


def test_what_is_broken_is_found():
    for what, kind, names, how in CASES:
        with tempfile.TemporaryDirectory() as folder:
            if kind == "constants": # of the headers alone
                found = compare_constants(present[CONSTANTS], present[CONSTANTS].replace(*how))
            else:
                found = compare(present[library], broken(folder, *how.pop("changes", []), **how))
        expect(found[0] == kind.replace("constants", "changed") and names in found[1], f"{what}: {found[0]} {found[1]}")


if __name__ == "__main__" and "--write" in sys.argv:
    write()
