# labels: long
"""The test of the documentation can fail: each rule of docs/README.md, The pages' rules, on a page that keeps it and one that breaks it."""
import os
import subprocess
import sys
import tempfile

from runner import build, expect, require

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
from page import remade, renumber  # noqa: E402
from samples import disturbed, renew  # noqa: E402

require("slackline")


def run(text, *more):
    """Exit code and output for a page with this text, in a tree of its own."""
    with tempfile.TemporaryDirectory(prefix="rule") as tree:
        os.mkdir(os.path.join(tree, "docs"))
        with open(os.path.join(tree, "docs", "page.md"), "w") as file:
            file.write(text)
        done = subprocess.run([sys.executable, os.path.join(here, "commands.py"), build, tree, "docs/page.md", *more], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def check(what, text, code, says="", *more):
    got, output = run(text, *more)
    expect(got == code and says in output, f"{what}: exit {got}, not {code}, or {says!r} is missing\n{output}")


sh = "```sh\n{}\n```\n"
text = "```text\n{}\n```\n"


def test_commands_are_run_and_their_ends_checked():
    check("a command that ends well passes", "# A\n\n    true\n", 0, "1 run")
    check("an unmarked command is run, and its failure told with its line", "# A\n\n    true\n    false\n", 1, "docs/page.md:4: `false` ended with 1")
    check("so is one in a fence", "# A\n" + sh.format("false"), 1, "docs/page.md:3")
    check("one right below a heading, too", "# A\n    false\n", 1, "docs/page.md:2")
    check("indented text is no command and fails", "# A\n\n    a table of 3 figures\n", 1)
    check("a fence says what it holds", "```\nfalse\n```\n", 1, "a fence says what it holds")
    check("other languages are left alone", "```c\nint x;\n```\n", 0, "0 run")
    check("what is not run is listed with its reason", "<!-- not run: needs Slurm -->\n\n    false\n", 0, "false  (needs Slurm)")
    check("a comment is for the next block alone", "<!-- not run: needs Slurm -->\n\n    false\n\nNext:\n\n    false\n", 1, "docs/page.md:7")
    check("a comment before no block is told", "<!-- not run: needs Slurm -->\nWords.\n\n    true\n", 1, "stands before no block")
    check("a slow block is left out", "<!-- slow -->\n\n    false\n", 0, "(slow: run by the test")
    check("and run with --slow", "<!-- slow -->\n\n    false\n", 1, "`false` ended with 1", "--slow")
    check("a program that is missing", "<!-- needs: no-such-program -->\n\n    false\n", 0, "not here: no-such-program")
    check("another exit code can be promised", "<!-- exit 3 -->\n\n    bash -c 'exit 3'\n", 0)
    check("and is then demanded", "<!-- exit 3 -->\n\n    true\n", 1, "ended with 0, not 3")
    check("the shell stays the same", "    x=5\n\nand\n\n    test $x = 5\n", 0, "2 run")
    check("a command may take several lines", "    for i in 1 2; do\n      echo $i\n    done\n    cat <<END\n    false\n    END\n    echo a \\\n        b\n", 0, "3 run")
    check("a command that ends the shell fails", "    exit 0\n    true\n", 1, "the shell has ended")
    check("what is done first is not shown", "<!-- first: x=7 -->\n\n    test $x = 7\n", 0)
    check("a file of the page is there", "```yaml in/a.yaml\nkey: 1\n```\n" + sh.format("grep -q 'key: 1' in/a.yaml"), 0)


def test_outputs_are_compared_as_they_are_marked():
    for how, shown, printed, code in (
        ("the same", "one\ntwo 2 ms", "one\n\ntwo  2 ms", 0),
        ("a line more in the output, in between", "one\ntwo", "one\nand\ntwo", 1),
        ("the same with ...", "one\n...\ntwo", "one\nand\ntwo", 0),
        ("in another order", "two\n...\none", "one\nand\ntwo", 1),
        ("another number", "two 2 ms", "two 3 ms", 1),
        ("... in a line", "two ... ms", "two 3 ms", 0),
        ("a missing line", "one\ntwo", "one", 1),
    ):
        check(f"output: {how}", sh.format(f"printf '{printed}\\n'") + text.format(shown), code)
    for how, mark, shown, printed, code in (
        ("near", "numbers within 10%", "two 100 ms", "two 108 ms", 0),
        ("too far", "numbers within 10%", "two 100 ms", "two 130 ms", 1),
        ("any number", "numbers differ", "two 100 ms", "two 300 ms", 0),
        ("other words", "numbers differ", "two 100 ms", "two 100 s", 1),
        ("nothing alike", "not compared: measured", "two", "three", 0),
    ):
        check(f"output: {how}", sh.format(f"echo '{printed}'") + f"<!-- {mark} -->\n" + text.format(shown), code)
    check("text in a section without commands is only text", sh.format("echo a") + "# B\n" + text.format("b"), 0)


def test_figures_are_in_the_output():
    check("a figure in a comment is in the output", "    echo it takes 390.0 ms   # 390 ms, proven\n", 0, "1 figures")
    check("or the page is wrong", "    echo it takes 391 ms   # 390 ms, proven\n", 1, "the comment says 390")


def test_samples_get_the_numbers_of_the_output():
    line = "healthy    20      395.1 ms    7.7%  a"
    for what, shown, real, made in (
        ("a column ends where it ended", line, "healthy 5 1391.75 ms 17.7% a", "healthy     5    1391.75 ms   17.7%  a"),
        ("a number in a sentence moves what follows", "after 5 s, 2 of 3", "after 12 s, 10 of 13", "after 12 s, 10 of 13"),
        ("signs are part of numbers", "saved +5 ms (-3.1%)", "saved -6 ms (+3.0%)", "saved -6 ms (+3.0%)"),
        ("what is left out stays so", "row 10: ... -> 5", "row 11: onset, 39 -> 686", "row 11: ... -> 686"),
        ("other words", "a 1", "b 1", None),
    ):
        expect(renumber(shown, real) == made, f"{what}: {renumber(shown, real)!r}")
    expect(remade("...\ntwo 2\n\nthree 3\n...\nfive 5", "one 9\ntwo 8\nthree 7\nfour 6\nfive 4") == "...\ntwo 8\n\nthree 7\n...\nfive 4", "lines are found as they are compared")
    expect(remade("two 2\nfour 4", "two 2\nthree 3\nfour 4") is None, "lines that are not side by side")
    with tempfile.TemporaryDirectory(prefix="rule") as tree:
        os.mkdir(os.path.join(tree, "docs"))
        path = os.path.join(tree, "docs", "page.md")
        shown = sh.format("echo took 12 ms") + "<!-- numbers differ -->\n\n" + text.format("took 391 ms") + "\n" + text.format("took 391 ms")
        with open(path, "w") as file:
            file.write(shown)
        subprocess.run([sys.executable, os.path.join(here, "commands.py"), build, tree, "docs/page.md", "--write"], capture_output=True)
        with open(path) as file:
            expect(file.read() == shown.replace("took 391 ms", "took 12 ms", 1), "a measured sample is written, and one that has to be exact is not")


TABLE = """healthy                            25      401.9 ms       402.0 ms    8.7%  adaptra
slow, not adapted                   6      692.4 ms       692.2 ms   46.1%  adaptra
adapted                            19      462.2 ms       462.1 ms   21.0%  adaptra (adapted)
"""


def test_figures_of_readme_are_of_one_run():
    page = "From 392 ms to\n682 ms, then 452 ms.\n\n```text\n" + TABLE.replace("401.9", "391.9").replace("692.4", "682.4").replace("462.2", "452.2") + "```\n"
    expect(renew(page, "slackline: 4 ranks\n" + TABLE) == "From 402 ms to\n692 ms, then 462 ms.\n\n```text\n" + TABLE + "```\n", "table and sentences")
    expect(disturbed(TABLE) == [], "a quiet run")
    expect(len(disturbed(TABLE.replace("692.4", "702.4"))) == 1 and len(disturbed(TABLE.replace("adapted      ", "x"))) >= 1, "a disturbed one is noticed")


def test_inline_commands_and_links_are_checked():
    check("a command in a sentence has the options of the help", "Try `slackline plan FILE --schedule NAME`.\n", 0, "1 inline")
    check("or is told", "Try `slackline plan FILE --scedule NAME`.\n", 1, "no option --scedule")
    check("as is a command that is none", "Try `slackline plam FILE`.\n", 1, "there is no command plam")
    check("options behind -- are the program's", "Try `slackline watch -- PROGRAM --xyzzy`.\n", 0, "1 inline")
    check("a link leads somewhere", "[here](page.md#a-part)\n\n## A part\n", 0, "1 links")
    check("a file that is not there is told", "[there](nowhere.md)\n", 1, "leads nowhere")
    check("and a heading", "[here](page.md#b)\n\n## A\n", 1, "no such heading")
