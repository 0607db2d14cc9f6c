"""No circles of files: NAME.c, NAME.h and NAME_inside.h are one unit, and units that include each other, directly or through others,
could be neither understood nor changed one at a time. A header that the files of a part share belongs to that part: NAME_inside.h."""
import re
from pathlib import Path

from runner import source

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def unit_of(name):
    return re.sub(r"(_inside)?\.(c|cc|cu|h)$", "", name)


def includes(root):
    """{unit: units that its files include}; includes are relative to the root."""
    names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.suffix in (".c", ".cc", ".cu", ".h")}
    units = {unit_of(name): set() for name in names}
    for name in names:
        for other in INCLUDE.findall((root / name).read_text(errors="replace")):
            if other in names and unit_of(other) != unit_of(name):
                units[unit_of(name)].add(unit_of(other))
    return units


def circles(units):
    """Largest sets of units of which each reaches each other by includes."""
    reached = {}
    for unit in units:
        seen, ahead = set(), [unit]
        while ahead:
            new = units[ahead.pop()] - seen
            seen |= new
            ahead.extend(new)
        reached[unit] = seen
    return sorted({tuple(sorted(other for other in reached[unit] if unit in reached[other])) for unit in units if unit in reached[unit]})


def write_tree(root, files):
    for name, text in files.items():
        path = Path(root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


RIGHT = {
    "base/a.h": "", "base/a.c": '#include "base/a.h"\n#include "base/a_inside.h"\n', "base/a_inside.h": '#include "base/a.h"\n',
    "base/a_more.c": '#include "base/a_inside.h"\n', "run/b.h": '#include "base/a.h"\n', "run/b.c": '#include "run/b.h"\n#include <stdio.h>\n',
    "run/c.h": "", "run/c.c": '#include "run/b.h"\n#include "run/c.h"\n',
}


def test_a_tree_without_circles_has_none(folder):
    write_tree(folder, RIGHT)
    assert circles(includes(Path(folder))) == []


def test_two_files_that_include_each_other_are_found(folder):
    write_tree(folder, {**RIGHT, "run/b.c": '#include "run/b.h"\n  #  include "run/c.h"\n'})
    assert circles(includes(Path(folder))) == [("run/b", "run/c")]


def test_a_circle_over_an_inner_header_is_found(folder):
    write_tree(folder, {**RIGHT, "base/a_inside.h": '#include "base/d.h"\n', "base/d.h": '#include "base/a.h"\n'})
    assert circles(includes(Path(folder))) == [("base/a", "base/d")]


def test_circles_of_three_and_several_circles_are_found(folder):
    write_tree(folder, {**RIGHT, "x/p.h": '#include "x/q.h"\n', "x/q.c": '#include "x/r.h"\n', "x/q.h": "", "x/r.h": '#include "x/p.h"\n',
                        "y/s.h": '#include "y/t.h"\n#include "x/p.h"\n', "y/t.h": '#include "y/s.h"\n'})
    assert circles(includes(Path(folder))) == [("x/p", "x/q", "x/r"), ("y/s", "y/t")]


def test_the_source_has_no_circles():
    units = includes(Path(source) / "src")
    assert len(units) > 400 and sum(map(len, units.values())) > 1000, f"{len(units)} units"
    found = circles(units)
    assert not found, "\n".join("circle: " + ", ".join(circle) for circle in found)
