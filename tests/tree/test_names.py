"""A name means one thing: under src/ no two files have one name, no two types, and no two external functions."""
import collections
import os
import re
import subprocess

from runner import build, source

root = os.path.join(source, "src")
paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith((".c", ".h", ".cu"))]
BODY = re.compile(r"^\s*(?:typedef\s+)?(?:struct|enum|union)\s+(\w+)\s*\{", re.M)
NAMED = re.compile(r"^\}\s*(?:__attribute__\(\(.*?\)\)\s*)?(\w+);", re.M)
ALIAS = re.compile(r"^typedef\s+(?!struct|enum|union)[^;{()]*?\b(\w+);", re.M)
FUNCTION = re.compile(r"^typedef\s[^;{]*?\(\*?(\w+)\)\(", re.M)


def none_twice(found):
    repeated = {name: sorted(where) for name, where in found.items() if len(where) > 1}
    assert not repeated, "\n".join(f"{name}: {', '.join(where)}" for name, where in sorted(repeated.items()))


def test_no_two_files_have_one_name():
    found = collections.defaultdict(set)
    for path in paths:
        found[os.path.basename(path)].add(os.path.relpath(path, root))
    none_twice(found)


def test_no_two_types_have_one_name():
    """By what gives a type its members or its meaning; `typedef struct a a;` only announces one."""
    found = collections.defaultdict(set)
    for path in paths:
        with open(path) as file:
            text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), file.read(), flags=re.S)
        for pattern in (BODY, NAMED, ALIAS, FUNCTION):
            for match in pattern.finditer(text):
                found[match[1]].add(os.path.relpath(path, root))
    none_twice(found)


def test_no_two_functions_have_one_name():
    """As the linker sees them. Programs have a `main` each."""
    found = collections.defaultdict(set)
    objects = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(build, "CMakeFiles"))
               if os.sep + "src" in folder for name in names if name.endswith(".o")]
    assert len(objects) > 300, f"{len(objects)} objects in {build}"
    listed = subprocess.run(["nm", "-A", "--defined-only", "--extern-only", *objects], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        where, _, symbol = line.partition(":")
        _, kind, name = symbol.split()
        if kind == "T" and name != "main":
            path = re.sub(r".*?/src/", "", where).removesuffix(".o")
            if os.path.exists(os.path.join(root, path)):  # else it was left by a file that had another name
                found[name].add(path)
    assert len(found) > 1000, len(found)
    none_twice(found)
