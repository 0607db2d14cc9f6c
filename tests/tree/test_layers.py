"""The tree keeps its layers: a folder of src/ includes its own headers and those of folders that stand above it in the
table of docs/design.md, never what stands below; MPI is known to three folders only; records and probe need libc alone. The check is
tried on a small tree made wrong in every way that it should notice, and on a right one: a check that cannot fail says nothing."""
import re
from pathlib import Path

from runner import folder, source

# From the top of the table down. Folders in one row may not include each other.
ROWS = [
    ["base"], ["pack"], ["plan/pipeline"], ["plan/lower"], ["plan/timing"], ["plan/family"], ["plan/bound"],
    ["plan/exact"], ["plan/search"], ["plan/export"], ["plan/draw"], ["notice/record"], ["plan/trace"], ["plan/explain"],
    ["notice/detect"], ["notice/gate"],
    ["adapt/balance", "adapt/topology"], ["adapt/model"], ["adapt/ladder"], ["adapt/orchestrator"], ["adapt/campaign"], ["choose/model"], ["choose/search"], ["library"], ["run/conduit"], ["run/rail"], ["run/transport"], ["run/device"], ["run/device/cuda"], ["run/collective"], ["run/model"], ["run/checkpoint"], ["run/engine"],
    ["run/file"], ["run/binding"], ["run/journal"], ["run/saving"], ["run/arrange"], ["run/train"], ["notice/probe"], ["notice/plugin"], ["launch"], ["carry"], ["notice/store"], ["notice/gpu"], ["notice/validate"], ["notice/round"], ["notice/message"], ["notice/hang"], ["notice/agent", "notice/control"], ["http"], ["notice/watch"], ["folder"], ["report"], ["dashboard"], ["doctor"], ["cli", "worker", "delegate", "solver"],
]
LEVEL = {folder: level for level, row in enumerate(ROWS) for folder in row}
MPI = {"run/collective", "notice/probe", "worker"}
ALONE = {"notice/record": {"notice/record"}, "notice/gate": {"notice/record", "notice/gate"}, "notice/probe": {"notice/record", "notice/gate", "notice/probe"},
         "notice/plugin": {"notice/record", "notice/probe", "notice/plugin"}}  # beside libc
LIBC_ALONE = {"base/build_id.h"}  # needs nothing else itself, so these folders may have it
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def complaints(source):
    found = []
    files = sorted(p for p in source.rglob("*") if p.suffix in (".c", ".h", ".cu", ".cc"))
    for path in files:
        name = path.relative_to(source)
        folder = name.parent.as_posix()
        if folder not in LEVEL:
            found.append(f"{name}: {folder}/ is not in the table of layers")
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quoted, angled = match.groups()
            where = f"{name}:{number}"
            if (quoted or angled) == "mpi.h" and folder not in MPI:
                found.append(f"{where}: mpi.h belongs in {', '.join(sorted(MPI))}")
            if angled and (source / angled).is_file():
                found.append(f"{where}: <{angled}> is a header of this project")
            if not quoted or quoted == "mpi.h":
                continue
            if not (source / quoted).is_file():
                found.append(f'{where}: "{quoted}" is no file below src/ (includes are relative to it)')
                continue
            other = Path(quoted).parent.as_posix()
            if other not in LEVEL:
                continue  # already a complaint of its own
            if folder in ALONE and other not in ALONE[folder] and quoted not in LIBC_ALONE:
                found.append(f"{where}: {folder} includes {other}, but needs libc alone")
            elif other != folder and LEVEL[other] >= LEVEL[folder]:
                found.append(f"{where}: {folder} includes {other}, which does not stand above it")
    return len(files), found


def write_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_wrong_trees_are_noticed():
    right = {
        "base/a.h": "", "base/a.c": '#include "base/a.h"\n#include <stdio.h>\n',
        "plan/search/b.c": '#include "base/a.h"\n', "worker/worker_main.c": '#include "base/a.h"\n#include <mpi.h>\n',
        "notice/record/r.h": "", "notice/probe/p.c": '#include "notice/record/r.h"\n#include <mpi.h>\n',
    }
    wrong = {
        "base/up.c": ('#include "plan/search/s.h"\n', "does not stand above it"),
        "plan/pipeline/draw.c": ('  #  include "plan/draw/d.h"\n', "does not stand above it"),
        "cli/beside.c": ('#include "worker/w.h"\n', "does not stand above it"),
        "run/engine/mpi.c": ("#include <mpi.h>\n", "mpi.h belongs in"),
        "launch/mpi.c": ('#include "mpi.h"\n', "mpi.h belongs in"),
        "notice/record/needs.c": ('#include "base/a.h"\n', "libc alone"),
        "run/train/relative.c": ('#include "../../base/a.h"\n#include "local.h"\n', "relative"),
        "adapt/ladder/angled.c": ("#include <base/a.h>\n", "header of this project"),
        "utils/x.c": ("", "not in the table"),
    }
    headers = {"plan/search/s.h": "", "plan/draw/d.h": "", "worker/w.h": "", "run/train/local.h": ""}
    root = Path(folder)
    write_tree(root, {**right, **headers})
    assert complaints(root)[1] == [], complaints(root)[1]
    for name, (text, words) in wrong.items():
        write_tree(root, {name: text})
        found = complaints(root)[1]
        assert found and all(c.startswith(name) for c in found) and any(words in c for c in found), (name, found)
        (root / name).unlink()


def table_of(document):
    """The rows of the table of layers in docs/design.md, from the top down."""
    rows, inside = [], False
    for line in document.read_text().splitlines():
        if line.startswith("| folder under src/"):
            inside = True
        elif inside and not line.startswith("|"):
            break
        elif inside and not line.startswith("|---"):
            rows.append([folder.strip() for folder in line.split("|")[1].split(",")])
    return rows


def test_folders_include_only_what_is_above_them():
    files, found = complaints(Path(source) / "src")
    assert files and not found, "\n".join(found)


def test_the_table_of_the_design_names_every_folder_in_this_order():
    named = [folder for row in table_of(Path(source) / "docs" / "design.md") for folder in row]
    root = Path(source) / "src"
    missing = {p.parent.relative_to(root).as_posix() for p in root.rglob("*.[ch]")} - set(named)
    assert not missing, f"not in the table of docs/design.md: {sorted(missing)}"
    levels = [LEVEL.get(folder, -1) for folder in named]
    assert -1 not in levels and levels == sorted(levels), f"the table of docs/design.md has another order than this test: {named}"
