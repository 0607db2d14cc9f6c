"""Each attack that docs/security.md says was tried has a test of that name, in a file of that name."""
import os
import re

from runner import expect, source


def file_of(name):
    """tests/run/rail/test_endpoint.c for run_rail_endpoint."""
    for folder, _, files in os.walk(os.path.join(source, "tests")):
        for file in files:
            stem = re.fullmatch(r"(?:test_)?(\w+)\.(?:c|py|sh)", file)
            if stem and os.path.relpath(folder, os.path.join(source, "tests")).replace("/", "_") + "_" + stem[1] == name:
                return os.path.join(folder, file)
    return None


def test_every_attack_has_its_test():
    """At least 30 attacks, and no test is named that is not there."""
    with open(os.path.join(source, "docs", "security.md")) as file:
        section = file.read().split("## Attacks that were tried")[1].split("\n## ")[0]
    rows = re.findall(r"^\|(.+)\|(.+)\| `(\w+)`(?: (\w+))? \|$", section, re.M)
    assert len(rows) >= 30 and len(rows) == section.count("\n|") - 2, f"{len(rows)} of {section.count(chr(10) + '|') - 2} rows"
    for attack, _, name, function in rows:
        path = file_of(name)
        expect(path, f"{attack}: no test {name}")
        if path and function:
            with open(path) as file:
                expect(re.search(rf"\b{function}\b", file.read()), f"{attack}: {path} has no {function}")
