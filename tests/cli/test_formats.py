"""docs/formats.md holds the tables of keys as the program has them, and names every field of a plan.
Usage: test_formats.py BUILD SOURCE [--write]; --write puts the tables of this build into the document."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from slackline import expect, finish, plan, problem, run, source  # noqa: E402

begin, end = "<!-- from `slackline formats` -->\n", "<!-- end of `slackline formats` -->\n"
path = os.path.join(source, "docs", "formats.md")
tables = run("formats").stdout
document = open(path).read()
head, rest = document.split(begin)
held, tail = rest.split(end)
if "--write" in sys.argv:
    with open(path, "w") as file:
        file.write(head + begin + tables + end + tail)
    sys.exit(0)
expect(held == tables, "docs/formats.md is behind the tables: run tests/cli/test_formats.py BUILD SOURCE --write")


def names(value):
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name
        yield from names(inner[0] if isinstance(inner, list) and inner else inner)


for name in names(plan("plan", problem)):
    expect(f"`{name}`" in document, f"docs/formats.md does not describe the field {name} of a plan")
finish()
