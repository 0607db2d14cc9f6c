"""The facts of every sentence of README.md have an entry in bench/fresh/readme.py that says how they are tried on a fresh system, and
every entry has a sentence; a change of wording alone breaks nothing; the tests that entries name are there and are quick or not as the entry says; the pages that
sentences point at hold what they say. README.md is no longer than 120 lines; its picture, its table, and its sentences are of the
same run. docs/design.md names every folder. First the check is tried on lists made wrong. The trying itself takes a fresh system: bench/fresh/run.py."""
import os
import re
import sys

from runner import build, expect, source

sys.path.insert(0, os.path.join(source, "bench", "fresh"))
import readme  # noqa: E402
from sentences import complaints, ctest, sentences  # noqa: E402

with open(os.path.join(source, "README.md")) as file:
    text = file.read()
with open(os.path.join(source, "docs", "slow-link.svg")) as file:
    picture = file.read()
tests, fast = ctest(build), ctest(build, "-LE", "long|slow|gpu")


def wrong_with(page):
    return complaints(page, readme.SENTENCES, source, tests, fast)


def test_every_fact_of_the_readme_has_a_test_of_its_own():
    expect(tests, "ctest lists no tests")
    for complaint in wrong_with(text):
        expect(False, complaint)


def test_sentences_are_found_as_by_hand():
    split = sentences("# A head. Not one\n\nOne, `a. b` and [two. x](c. d.md). Three (four.)\nFive? **Six.**\n\n![a picture. of](x.svg)\n\n| a. | b |\n\n    a block. of commands\n\nthe end:\n<!-- no. words -->\n")
    expect(split == ["One, `a. b` and [two. x](c. d.md).", "Three (four.)", "Five?", "**Six.**", "the end:"], f"sentences: {split}")


def test_wrong_entries_are_noticed():
    first, opening = readme.SENTENCES[0][0], sentences(text)[0]
    for wrong, changed, listed in (
        ("no entry: Something new.", text.replace("## License", "Something new.\n\n## License"), readme.SENTENCES),
        ("no sentence states: " + first, text.replace(opening[:40], ""), readme.SENTENCES),
        ("no sentence states: 60 ms", text.replace("60 ms each way", "61 ms each way"), readme.SENTENCES),
        ("not tried", text, [(first, []), *readme.SENTENCES[1:]]),
        ("there is no test nothing", text, [(first, [readme.here("nothing")]), *readme.SENTENCES[1:]]),
        ("base_clock is among the quick tests", text, [(first, [readme.here("base_clock")]), *readme.SENTENCES[1:]]),
        ("train_restart is not among the quick tests", text, [(first, [readme.quick("train_restart")]), *readme.SENTENCES[1:]]),
        ("docs/README.md has no nonsense", text, [(first, [readme.page("docs/README.md", "nonsense")]), *readme.SENTENCES[1:]]),
        ("docs/nothing.md does not exist", text, [(first, [readme.page("docs/nothing.md")]), *readme.SENTENCES[1:]]),
        ("neither a test nor a file bench/nothing.py", text, [(first, [readme.later("bench/nothing.py", "")]), *readme.SENTENCES[1:]]),
    ):
        said = complaints(changed, listed, source, tests, fast)
        expect(any(wrong in complaint for complaint in said), f"{wrong}: {said}")


def test_another_wording_breaks_nothing():
    reworded = text.replace("Four ranks train a small", "Here, four ranks train one small").replace("The program drew the picture", "Our program drew this picture")
    expect(reworded != text and wrong_with(reworded) == wrong_with(text), f"another wording: {wrong_with(reworded)}")


def test_the_readme_is_no_longer_than_120_lines():
    expect(len(text.splitlines()) <= 120, f"README.md has {len(text.splitlines())} lines")


def disagreements(page, picture):
    """Where a page's table, its sentences, and the texts of the picture differ."""
    wrong = []
    medians = dict(re.findall(r"(?m)^(healthy|slow, not adapted|adapted) +\d+ +([\d.]+) ms", page))
    saved, share = re.search(r"(?m)^Adapting saved ([\d.]+) ms .*: (\d+)%", page).groups()
    prose = " ".join(sentences(page))
    for row, name in (("healthy", "Before"), ("slow, not adapted", "During"), ("adapted", "After")):
        drawn = re.search(rf">{name}: (\d+) ms per iteration<", picture)
        if not drawn or abs(float(medians[row]) - int(drawn[1])) > 0.55 or f" {drawn[1]} ms" not in prose:
            wrong.append(f"{name}: {drawn and drawn[1]} ms on the picture, {medians[row]} ms in the table")
    cost = re.search(r">\+(\d+) ms per iteration<", picture)
    if not cost or abs(float(medians["slow, not adapted"]) - float(medians["healthy"]) - int(cost[1])) > 0.65:
        wrong.append(f"the cost: {cost and cost[1]} ms on the picture")
    gain = re.search(r">-(\d+) ms, (\d+)% of the loss<", picture)
    if not gain or abs(float(saved) - int(gain[1])) > 0.55 or gain[2] != share:
        wrong.append(f"the gain: {gain and gain.groups()} on the picture, {saved} ms and {share} % below the table")
    bound = re.search(r">bound (\d+) ms<", picture)
    if not bound or f" {bound[1]} ms on that link" not in prose:
        wrong.append(f"the bound: {bound and bound[1]} ms on the picture")
    return wrong


def test_picture_table_and_sentences_are_of_one_run():
    for complaint in disagreements(text, picture):
        expect(False, complaint)
    for piece in (">Before: ", ">During: ", ">After: ", ">+", ">-", ">bound "):
        expect(disagreements(text, picture.replace(piece, ">1" + piece[1:])), f"another picture is not noticed: {piece}")


def test_the_design_names_every_folder():
    with open(os.path.join(source, "docs", "design.md")) as file:
        tree = file.read().partition("## The tree")[2].partition("\n## ")[0]
    named = {name.strip().split("/")[0] for cell in re.findall(r"(?m)^\| ([^|]*) \|", tree) for name in cell.split(",")}
    folders = {name for name in os.listdir(os.path.join(source, "src")) if os.path.isdir(os.path.join(source, "src", name))}
    expect(folders <= named, f"docs/design.md does not name {sorted(folders - named)}")
