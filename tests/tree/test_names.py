"""A name means one thing: under src/ no two files have one name, no two types, and no two external functions."""
import collections
import os
import re
import subprocess
import sys

build, source = sys.argv[1:3]
root = os.path.join(source, "src")
paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith((".c", ".h", ".cu"))]
BODY = re.compile(r"^\s*(?:typedef\s+)?(?:struct|enum|union)\s+(\w+)\s*\{", re.M)
NAMED = re.compile(r"^\}\s*(?:__attribute__\(\(.*?\)\)\s*)?(\w+);", re.M)
ALIAS = re.compile(r"^typedef\s+(?!struct|enum|union)[^;{()]*?\b(\w+);", re.M)
FUNCTION = re.compile(r"^typedef\s[^;{]*?\(\*?(\w+)\)\(", re.M)


def several(found):
    return {name: sorted(where) for name, where in found.items() if len(where) > 1}


def files():
    found = collections.defaultdict(set)
    for path in paths:
        found[os.path.basename(path)].add(os.path.relpath(path, root))
    return several(found)


def types():
    """By what gives a type its members or its meaning; `typedef struct a a;` only announces one."""
    found = collections.defaultdict(set)
    for path in paths:
        with open(path) as file:
            text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), file.read(), flags=re.S)
        for pattern in (BODY, NAMED, ALIAS, FUNCTION):
            for match in pattern.finditer(text):
                found[match[1]].add(os.path.relpath(path, root))
    return several(found)


def functions():
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
    return several(found)


for what in (files, types, functions):
    repeated = what()
    assert not repeated, f"{what.__name__} with one name:\n" + "\n".join(f"  {name}: {', '.join(where)}" for name, where in sorted(repeated.items()))
    print(f"each of the {what.__name__} has a name of its own")
