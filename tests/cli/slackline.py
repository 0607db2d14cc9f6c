"""For tests that are no functions yet."""
from calling import command, delay, folder, plan, problem, refused, run, write  # noqa: F401
from runner import build, expect, finish, source  # noqa: F401
