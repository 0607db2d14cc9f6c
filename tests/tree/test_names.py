"""A name means one thing: under src/ no two files have one name, no two types, and no two external functions. Names and comments use the
field's words (docs/words.md)."""
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


# As a word of an identifier or of a comment under src/ and include/: the field's word for it.
REPLACED = {
    "anew": "over, again", "behind": "after", "beside": "next to, with", "calendar": "link emulator", "company": "members",
    "council": "allgather", "courier": "endpoint", "dear": "expensive", "foretell": "predict", "foretold": "predicted", "judge": "diagnosis, decision",
    "LEAST": "MIN", "MOST": "MAX", "place": "slot, position, address, index",
    "places": "slots, positions", "PLACES": "SLOTS, POSITIONS", "seat": "position", "seating": "rank map", "seats": "positions",
    "tell": "report", "telling": "report", "tells": "reports", "told": "reported", "untold": "unreported", "whoever": "the process that",
}
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*", re.S)
ORDINARY = re.compile(r"in place\b|in the place of|cannot tell|left behind|lag behind|behind one interface", re.I)


def replaced_words(text):
    """[(line, word)] of identifiers and comments; what stands in quotes is for users, and MPI's own names are MPI's."""
    found = []
    for token in TOKEN.finditer(text):
        if token[0][0] in "\"'" or re.match(r"SL_IN_PLACE|MPI_", token[0]):
            continue
        words = ORDINARY.sub(lambda ordinary: re.sub(r"\S", " ", ordinary[0]), token[0]) if token[0].startswith("/") else token[0]
        found += [(text.count("\n", 0, token.start() + word.start()) + 1, word[0]) for word in re.finditer("[A-Za-z]+", words)
                  if word[0] in REPLACED or (word[0].lower() in REPLACED and not word[0].isupper())]
    return found


def test_a_replaced_word_is_found_in_names_and_comments_and_nowhere_else():
    source_text = 'int free_place;\n/* dear,\n * written in place */ say("a place"); // Told\nPIECE_LEAST; at_least; replace(placement, SL_IN_PLACE);\n'
    assert replaced_words(source_text) == [(1, "place"), (2, "dear"), (3, "Told"), (4, "LEAST")], replaced_words(source_text)


def test_names_and_comments_use_the_fields_words():
    found = []
    public = [os.path.join(source, "include", "slackline", name) for name in os.listdir(os.path.join(source, "include", "slackline"))]
    assert len(paths) + len(public) > 800, f"{len(paths)} and {len(public)} files"
    for path in paths + public:
        with open(path) as file:
            for line, word in replaced_words(file.read()):
                instead = REPLACED.get(word) or REPLACED[word.lower()]
                found.append(f"{os.path.relpath(path, source)}:{line}: '{word}': write {instead}")
    assert not found, "\n".join(found)


def test_what_names_a_file_names_one_that_exists():
    """Comments under src/ name headers, and the README of a folder names its files in tables; names of files are unique."""
    names = {name for folder in ("src", "include", "tests", "bench") for _, _, found in os.walk(os.path.join(source, folder)) for name in found}
    stems = {os.path.splitext(name)[0] for name in names}
    foreign = {"mpi.h", "nccl.h", "cublasLt.h", "omp.h", "cp_solver_c.h"}
    missing, checked = [], 0
    for path in paths:
        with open(path) as file:
            for comment in re.findall(r"/\*.*?\*/", file.read(), re.S):
                for name in re.findall(r"\w+\.h\b", comment):
                    checked += 1
                    missing += [] if name in names or name in foreign else [f"{os.path.relpath(path, source)}: {name}"]
    for folder, _, found in os.walk(root):
        if "README.md" not in found:
            continue
        column = None
        with open(os.path.join(folder, "README.md")) as file:
            for number, line in enumerate(file, 1):
                cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
                if not cells:
                    column = None
                elif column is None:
                    column = next((i for i, cell in enumerate(cells) if cell in ("file", "files", "part", "parts")), len(cells))
                mentioned = re.findall(r"`(?:\w+/)*(\w+\.(?:h|c|py|html))`", line)
                mentioned += re.findall(r"`(?:\w+/)*(\w+)`", cells[column]) if cells and column < len(cells) else []
                checked += len(mentioned)
                for name in mentioned:
                    if name not in names and name not in stems and f"{name}_inside" not in stems:
                        missing.append(f"{os.path.relpath(folder, source)}/README.md:{number}: {name}")
    assert checked > 300, checked
    assert not missing, "\n".join(missing)
