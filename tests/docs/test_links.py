"""Every link of every Markdown file of the tree leads somewhere, headings included, and every file of the tree that such a file
names in backticks is there; also in the pages whose commands no test runs. First the check is tried on a text made wrong."""
import os
import re
import sys

sys.dont_write_bytecode = True
from page import Page
from runner import expect, source

NAMED = re.compile(r"`((?:src|tests|bench|docs|examples|tools|include|python)/[\w./-]+)`")
HISTORY = "CHANGELOG.md"  # names what has been


def anchors(path):
    with open(path) as file:
        return set(Page(path, file.read()).anchors())


def look(name, text):
    """What is wrong with the file of this name."""
    found, place = [], os.path.join(source, os.path.dirname(name))
    for line, target in Page(name, text).links():
        file, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(place, file)) if file else os.path.join(source, name)
        if re.match(r"[a-z]+:", target):
            continue
        if not os.path.exists(path):
            found.append(f"{name}:{line}: the link {target} leads nowhere")
        elif anchor and path.endswith(".md") and anchor not in anchors(path):
            found.append(f"{name}:{line}: the link {target}: there is no such heading")
    if name != HISTORY:
        found += [f"{name}: there is no {path}" for path in NAMED.findall(text) if not os.path.exists(os.path.join(source, path.rstrip(".")))]
    return found


def test_what_leads_nowhere_is_noticed():
    for wrong, text in (("leads nowhere", "See [a](nowhere.md).\n"), ("no such heading", "See [a](formats.md#nothing).\n"), ("there is no src/none.c", "See `src/none.c`.\n")):
        found = look("docs/made.md", text)
        expect(len(found) == 1 and wrong in found[0], f"{wrong}: {found}")
    expect(not look("docs/made.md", "See [a](formats.md#problem), [b](../README.md), [c](https://example.com), `src/base/yaml.c`.\n"), "fault is found with what is right")


def test_every_link_and_file_name_leads_somewhere():
    pages = 0
    for folder, folders, files in os.walk(source):
        folders[:] = [one for one in folders if not one.startswith((".", "build", "out", "env", "runs", "node_modules"))]
        for file in files:
            if file.endswith(".md"):
                name = os.path.relpath(os.path.join(folder, file), source)
                with open(os.path.join(folder, file)) as text:
                    for complaint in look(name, text.read()):
                        expect(False, complaint)
                pages += 1
    expect(pages >= 60, f"only {pages} Markdown files were found")
