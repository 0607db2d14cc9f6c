"""docs/formats.md names every field of a plan. Its tables of keys are docs/reference/: tests/docs/test_reference.py, which
--write calls."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from slackline import build, expect, finish, plan, problem, source  # noqa: E402

if "--write" in sys.argv:
    sys.exit(subprocess.run([sys.executable, os.path.join(source, "tests", "docs", "test_reference.py"), build, source, "--write"]).returncode)
document = open(os.path.join(source, "docs", "formats.md")).read()


def names(value):
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name
        yield from names(inner[0] if isinstance(inner, list) and inner else inner)


for name in names(plan("plan", problem)):
    expect(f"`{name}`" in document, f"docs/formats.md does not describe the field {name} of a plan")
finish()
