# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Runs at the start of each Python process of a watched program, including the children of torchrun: `python -m slackline watch`
and `slackline.watch` put this folder at the front of PYTHONPATH. Nothing is imported for the program. If the program itself
imports torch.distributed, gloo.py next to this file records its calls over Gloo. Then the interpreter's or the user's own
sitecustomize runs, as it would without slackline."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HOOKS = {"torch.distributed.distributed_c10d": "see_calls", "torch.distributed": "see_ddp"}


class Finder:
    """Finds nothing itself: the other finders find a module of HOOKS, and its hook is called after its execution."""

    def find_spec(self, name, path=None, target=None):
        if name not in HOOKS:
            return None
        found = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            hook(name, module)
        spec.loader.exec_module = exec_module
        return spec


def hook(name, module):
    try:
        gloo = sys.modules.get("_slackline_gloo")
        if gloo is None:
            import importlib.util
            spec = importlib.util.spec_from_file_location("_slackline_gloo", os.path.join(HERE, "gloo.py"))
            gloo = importlib.util.module_from_spec(spec)
            sys.modules["_slackline_gloo"] = gloo
            spec.loader.exec_module(gloo)
        getattr(gloo, HOOKS[name])(module)
    except Exception as error:  # whatever the error is, the program continues
        print(f"slackline: calls over Gloo are not seen: {type(error).__name__}: {error}", file=sys.stderr)


def the_next():
    """Imports the next sitecustomize on the path, which this file shadows."""
    import importlib
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine


if os.environ.get("SLACKLINE_PROBE"):
    sys.meta_path.insert(0, Finder())
the_next()
