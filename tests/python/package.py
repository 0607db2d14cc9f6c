"""What the tests of the Python package share: the package of this tree on this build's library."""
import os
import subprocess
import sys

from runner import build, expect, folder, missing, require, skip, source  # noqa: F401

LIBRARY = os.path.join(build, "libslackline.so")
EXAMPLE = os.path.join(source, "examples", "four-ranks.yaml")
SLOW = {"pipeline.links.list.0.latency_ms": 60}
if sys.version_info < (3, 10):
    skip(f"the package needs Python 3.10, this is {sys.version.split()[0]}")
require("libslackline.so")
with open(os.path.join(build, "CMakeCache.txt")) as cache:
    if any(line.startswith("SL_SANITIZE:") and line.rstrip().endswith(("=ON", "=thread")) for line in cache):
        skip("a library built with sanitizers is not loaded into a plain Python")
os.environ.update(SLACKLINE_LIBRARY=LIBRARY, PYTHONDONTWRITEBYTECODE="1")
sys.path.insert(0, os.path.join(source, "python"))


def raises(kind, work, *says):
    """The error that a call must raise, whose text has the facts of `says` (runner.missing)."""
    try:
        found = work()
    except kind as error:
        expect(not any(missing(str(error), facts) for facts in says), f"{kind.__name__} says {str(error)!r}, not {says}")
        return error
    except Exception as error:
        expect(False, f"{type(error).__name__}: {error}, not {kind.__name__}")
        return error
    expect(False, f"no {kind.__name__} but {found!r}"[:300])
    return None


def python(code, *words, executable=sys.executable, **environment):
    """A Python of its own on this package; `environment` None: that variable is not set."""
    given = {**os.environ, "PYTHONPATH": os.path.join(source, "python"), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run([executable, "-c", code, *words], capture_output=True, text=True, timeout=120, cwd=folder,
                          env={name: value for name, value in given.items() if value is not None})
