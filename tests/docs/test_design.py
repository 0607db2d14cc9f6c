"""docs/design/: every folder of src/ is covered by exactly one page, every file, folder and test that a page names is there, and so
is every function and type, in a header of what the page covers. First the check is tried on a page made wrong."""
import os
import re
import sys

source = sys.argv[2]
pages_folder = os.path.join(source, "docs", "design")
FUTURE = set()  # may come later
SECTIONS = ["What it is for", "Main types and functions", "How data go through it", "What always holds, and what holds it", "Where to add what"]
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
    if re.findall(r"^## (.*)$", text, re.M) != SECTIONS:
        found.append(f"{name}: has other sections: {re.findall(r'^## (.*)$', text, re.M)}")
    known = headers(covered(text))
    for symbol in set(re.findall(r"`((?:sl|SL)_\w+)`", text)):
        if not re.search(rf"\b{symbol}\b", known):
            found.append(f"{name}: no header of what it covers has {symbol}")
    tests = re.search(r"## What always holds.*?(?=^## |\Z)", text, re.S | re.M)
    if tests:
        for promise in re.findall(r"^- (.*?)(?=^- |\Z)", tests[0].split("\n", 1)[1], re.S | re.M):
            if "tests/" not in promise and "bench/" not in promise:
                found.append(f"{name}: no test holds: {promise.strip()[:60]}")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        if not os.path.exists(os.path.normpath(os.path.join(pages_folder, link))):
            found.append(f"{name}: a link leads nowhere: {link}")
    if len(text.splitlines()) > 80:
        found.append(f"{name}: is no page but {len(text.splitlines())} lines")
    return found


def main():
    pages = {name: open(os.path.join(pages_folder, name)).read() for name in sorted(os.listdir(pages_folder)) if name.endswith(".md")}
    found = [complaint for name, text in pages.items() for complaint in look(name, text)]
    wrong = look("wrong.md", pages["base.md"].replace("src/base/file.h", "src/base/fiel.h").replace("`sl_error`", "`sl_eror`").replace("tests/base/test_clock.c", "nothing"))
    for what in ("fiel.h", "sl_eror", "no test holds"):
        if not any(what in complaint for complaint in wrong):
            found.append(f"the check does not notice {what}: {wrong}")
    places = {name: covered(text) for name, text in pages.items()}
    for folder in folders():
        by = [name for name, covers in places.items() for place in covers if folder == place or folder.startswith(place + "/")]
        if len(by) != 1:
            found.append(f"{folder}: covered by {by or 'no page'}")
    for name, covers in places.items():
        for place in covers:
            if place not in FUTURE and not os.path.isdir(os.path.join(source, place)):
                found.append(f"{name}: covers {place}, which is not there")
    overview = open(os.path.join(source, "docs", "design.md")).read()
    for name in pages:
        if name != "README.md" and f"({name})" not in pages["README.md"]:
            found.append(f"README.md does not list {name}")
    if "design/README.md" not in overview:
        found.append("docs/design.md does not lead to the pages")
    for complaint in found:
        print("FAILED:", complaint)
    print(f"{len(pages)} pages, {len(found)} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
