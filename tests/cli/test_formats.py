"""docs/formats.md names every field of a plan. Its tables of keys are docs/reference/ (tests/docs/test_reference.py)."""
import os

from calling import plan, problem
from runner import expect, source

document = open(os.path.join(source, "docs", "formats.md")).read()


def names(value):
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield name
        yield from names(inner[0] if isinstance(inner, list) and inner else inner)


def test_every_field_of_a_plan_is_described():
    for name in names(plan("plan", problem)):
        expect(f"`{name}`" in document, f"docs/formats.md does not describe the field {name} of a plan")
