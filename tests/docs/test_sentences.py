"""Every sentence of README.md has an entry in bench/fresh/readme.py that says how it is tried on a fresh system, and no entry is
left of one that is gone; the tests that entries name are there and are quick or not as the entry says; the pages that
sentences point at hold what they say. The folders of its last section are all there are. First the check is tried on lists made
wrong. The trying itself takes a fresh system: bench/fresh/run.py."""
import os
import re
import sys

build, source = (os.path.realpath(path) for path in sys.argv[1:3])
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(source, "bench", "fresh"))
import readme  # noqa: E402
from sentences import complaints, ctest, sentences  # noqa: E402

with open(os.path.join(source, "README.md")) as file:
    text = file.read()
tests, fast = ctest(build), ctest(build, "-LE", "long|slow|gpu")
found = complaints(text, readme.SENTENCES, source, tests, fast) if tests else ["ctest lists no tests"]

# ---- sentences, by hand
split = sentences("# A head. Not one\n\nOne, `a. b` and [two. x](c. d.md). Three (four.)\nFive? **Six.**\n\n![a picture. of](x.svg)\n\n| a. | b |\n\n    a block. of commands\n\nthe end:\n<!-- no. words -->\n")
if split != ["One, `a. b` and [two. x](c. d.md).", "Three (four.)", "Five?", "**Six.**", "the end:"]:
    found.append(f"sentences: {split}")

# ---- what has to be noticed
first = readme.SENTENCES[0][0]
for wrong, changed, listed in (
    ("no entry: Something new.", text.replace("## The tree", "Something new.\n\n## The tree"), readme.SENTENCES),
    ("no longer a sentence: " + first, text.replace(first, "S" + first[1:]), readme.SENTENCES),
    ("not tried", text, [(first, []), *readme.SENTENCES[1:]]),
    ("there is no test nothing", text, [(first, [readme.here("nothing")]), *readme.SENTENCES[1:]]),
    ("base_clock is among the quick tests", text, [(first, [readme.here("base_clock")]), *readme.SENTENCES[1:]]),
    ("train_restart is not among the quick tests", text, [(first, [readme.quick("train_restart")]), *readme.SENTENCES[1:]]),
    ("docs/README.md has no nonsense", text, [(first, [readme.page("docs/README.md", "nonsense")]), *readme.SENTENCES[1:]]),
    ("docs/nothing.md is not there", text, [(first, [readme.page("docs/nothing.md")]), *readme.SENTENCES[1:]]),
    ("neither a test nor a file bench/nothing.py", text, [(first, [readme.later("bench/nothing.py", "")]), *readme.SENTENCES[1:]]),
):
    said = complaints(changed, listed, source, tests, fast)
    if not any(wrong in complaint for complaint in said):
        found.append(f"the check does not notice: {wrong}: {said}")

# ---- The tree
tree = text.partition("## The tree")[2]
named = set(re.findall(r"(?m)(?:^|  )((?:src/)?[a-z]+)/?(?= )", tree.split("```")[1]))
folders = {f"src/{name}" for name in os.listdir(os.path.join(source, "src")) if os.path.isdir(os.path.join(source, "src", name))}
found += [f"The tree: {name} is not named" for name in folders - named]
found += [f"The tree: there is no {name}" for name in named if name.startswith("src/") and name not in folders]

for complaint in found:
    print("FAILED:", complaint)
print(f"{len(sentences(text))} sentences, {len(found)} failed")
sys.exit(1 if found else 0)
