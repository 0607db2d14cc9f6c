# labels: torch
"""The package as pip installs it, without a network: into an environment of its own, with its types, and removed again.
Called with BUILD_DIR SOURCE_DIR. The environment borrows setuptools from .venv (what pip would fetch)."""
import glob
import os
import shutil
import subprocess

from package import LIBRARY
from runner import build, expect, folder, skip, source

venv = os.path.join(source, ".venv")
borrowed = glob.glob(os.path.join(venv, "lib", "python3*", "site-packages"))
if not borrowed or not os.path.isdir(os.path.join(borrowed[0], "setuptools")):
    skip("no .venv with setuptools (tools/test --full makes it)")

own = os.path.join(folder, "env")
python = os.path.join(own, "bin", "python")
subprocess.run([os.path.join(venv, "bin", "python"), "-m", "venv", "--without-pip", own], check=True)
site = glob.glob(os.path.join(own, "lib", "python3*", "site-packages"))[0]
with open(os.path.join(site, "borrowed.pth"), "w") as file:
    file.write(borrowed[0] + "\n")
tree = os.path.join(folder, "tree")  # a build leaves files next to the sources
shutil.copytree(os.path.join(source, "python"), tree, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLACKLINE_", "PYTHON", "PIP_", "LD_"))}


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=folder, env={**environment, **more})


installed = os.path.join(site, "slackline")

ask = ("import slackline, sys\nassert slackline.__file__.startswith(sys.prefix), slackline.__file__\n"
       "print(slackline.plan({'pipeline': {'ranks': 4, 'microbatches': 12, 'times_ms': {'F': 10, 'I': 10, 'W': 10}}}, 'adaptra').makespan_ms)\n"
       "assert 'torch' not in sys.modules")


def test_the_package_is_installed_and_plans():
    done = run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation", tree)
    expect(done.returncode == 0, f"pip install: {done.stdout}{done.stderr}")
    found = sorted(os.listdir(installed)) if os.path.isdir(installed) else []
    wanted = sorted(name for name in os.listdir(os.path.join(source, "python", "slackline")) if name != "__pycache__")
    expect([name for name in found if name != "__pycache__"] == wanted and "py.typed" in wanted, f"installed are {found}")
    done = run(python, "-c", ask, SLACKLINE_LIBRARY=LIBRARY)
    expect(done.returncode == 0 and done.stdout.strip() == "390.0", f"planned from the environment: {done.stdout}{done.stderr}")
    done = run(python, "-c", "import importlib.metadata as m, slackline; print(m.version('slackline') == slackline.__version__ == slackline.version())", SLACKLINE_LIBRARY=LIBRARY)
    expect(done.stdout.strip() == "True", f"one version everywhere: {done.stdout}{done.stderr}")


def test_its_metadata_has_the_license():
    ask_terms = "import importlib.metadata as m; d = m.distribution('slackline'); print(d.metadata['License-Expression']); print(*(p.read_text() for p in d.files if p.name == 'LICENSE'), sep='', end='')"
    done = run(python, "-c", ask_terms)
    with open(os.path.join(source, "LICENSE")) as file:
        expect(done.stdout == "Apache-2.0\n" + file.read(), f"its metadata names the license, and its text comes with it: {done.stdout[:300]}{done.stderr}")


def test_the_environments_own_library_is_found():
    # installed into the environment as cmake --install puts it there: nothing has to be said
    for link in ("libslackline.so.0.1",):
        shutil.copy(os.path.join(build, link), os.path.join(own, "lib", link))
    done = run(python, "-c", ask + "\nfrom slackline._library import library\nassert library()._name.startswith(sys.prefix)")
    expect(done.returncode == 0 and done.stdout.strip() == "390.0", f"the environment's own library: {done.stdout}{done.stderr}")


def test_it_is_removed():
    done = run(python, "-m", "pip", "uninstall", "--quiet", "--disable-pip-version-check", "-y", "slackline")
    expect(done.returncode == 0 and not os.path.exists(os.path.join(installed, "__init__.py")), f"removed: {done.stdout}{done.stderr}")
