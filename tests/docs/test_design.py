"""docs/design/: every folder of src/ is covered by exactly one page, every file, folder and test that a page names is there, and so
is every function and type, in a header of what the page covers. First the check is tried on a page made wrong."""
import os
import re

from runner import expect, source

pages_folder = os.path.join(source, "docs", "design")
FUTURE = set()  # may come later
PROMISES = 3  # the section of a page; names are free
NAME = re.compile(r"`((?:src|tests|include|docs|bench|examples|python|tools)/[\w./-]+)`")


def covered(text):
    line = re.search(r"^Covers: (.*)$", text, re.M)
    return re.findall(r"`(src/[\w/]+)`", line[1]) if line else []


def folders():
    """Folders of src/ that hold files."""
    for path, _, files in os.walk(os.path.join(source, "src")):
        name = os.path.relpath(path, source)
        if files and name != "src":
            yield name


def sections(text):
    return re.findall(r"^## (.*)$", text, re.M)


def section_of(text, number):
    parts = re.split(r"^## .*$", text, flags=re.M)[1:]
    return parts[number] if number < len(parts) else ""


def headers(covers):
    text = ""
    for place in [*covers, "include"]:
        for path, _, files in os.walk(os.path.join(source, place)):
            for file in files:
                if file.endswith(".h"):
                    text += open(os.path.join(path, file), errors="replace").read()
    return text


def look(name, text):
    """What is wrong with a page."""
    found = []
    for path in set(NAME.findall(text)) - FUTURE:
        if not os.path.exists(os.path.join(source, path)):
            found.append(f"{name}: there is no {path}")
    if name == "README.md":
        return found
    if not covered(text):
        found.append(f"{name}: does not say what it covers")
    if sections(text) != sections(pages["base.md"]):
        found.append(f"{name}: has other sections: {sections(text)}")
    known = headers(covered(text))
    for symbol in set(re.findall(r"`((?:sl|SL)_\w+)`", text)):
        if not re.search(rf"\b{symbol}\b", known):
            found.append(f"{name}: no header of what it covers has {symbol}")
    for promise in re.findall(r"^- (.*?)(?=^- |\Z)", section_of(text, PROMISES), re.S | re.M):
        if "tests/" not in promise and "bench/" not in promise:
            found.append(f"{name}: no test holds: {promise.strip()[:60]}")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        if not os.path.exists(os.path.normpath(os.path.join(pages_folder, link))):
            found.append(f"{name}: a link leads nowhere: {link}")
    if len(text.splitlines()) > 80:
        found.append(f"{name}: is no page but {len(text.splitlines())} lines")
    return found


pages = {name: open(os.path.join(pages_folder, name)).read() for name in sorted(os.listdir(pages_folder)) if name.endswith(".md")}


def test_a_wrong_page_is_noticed():
    wrong = look("wrong.md", pages["base.md"].replace("src/base/file.h", "src/base/fiel.h").replace("`sl_error`", "`sl_eror`").replace("tests/base/test_clock.c", "nothing"))
    for what in ("fiel.h", "sl_eror", "no test holds"):
        expect(any(what in complaint for complaint in wrong), f"{what}: {wrong}")


def test_pages_name_what_is_there():
    for name, text in pages.items():
        for complaint in look(name, text):
            expect(False, complaint)


def test_every_folder_is_covered_by_one_page():
    places = {name: covered(text) for name, text in pages.items()}
    for folder in folders():
        by = [name for name, covers in places.items() for place in covers if folder == place or folder.startswith(place + "/")]
        expect(len(by) == 1, f"{folder}: covered by {by or 'no page'}")
    for name, covers in places.items():
        for place in covers:
            expect(place in FUTURE or os.path.isdir(os.path.join(source, place)), f"{name}: covers {place}, which is not there")


def test_every_page_is_listed():
    for name in pages:
        expect(name == "README.md" or f"({name})" in pages["README.md"], f"README.md does not list {name}")
    expect("design/README.md" in open(os.path.join(source, "docs", "design.md")).read(), "docs/design.md does not lead to the pages")
