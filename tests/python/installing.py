"""What the tests of installations share: an environment of its own for pip, and what has to work in it. pip fetches what builds the
package, so a package index is needed."""
import os
import subprocess
import sys

from package import EXAMPLE  # first: it makes the sources importable
from runner import expect, folder, has_facts, skip, source
import slackline

environment = {name: value for name, value in os.environ.items()
               if not name.startswith(("SLACKLINE_", "PYTHON", "LD_")) and name != "VIRTUAL_ENV"}
tree = os.path.join(source, "python")
own = os.path.join(folder, "env")
python = os.path.join(own, "bin", "python")
site = os.path.join(own, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=700, cwd=folder, stdin=subprocess.DEVNULL,
                          env={name: value for name, value in {**environment, **more}.items() if value is not None})


def pip(*words, **more):
    return run(python, "-m", "pip", "--disable-pip-version-check", *words, **more)


def files(top):
    return {os.path.join(at, name) for at, _, names in os.walk(top) for name in names if not name.endswith(".pyc")}


def given():
    done = run(sys.executable, "-m", "venv", own)
    if done.returncode:
        skip(f"no environment can be made (Debian: python3-venv): {done.stdout[-200:]}")
    if pip("download", "-q", "--no-deps", "-d", os.path.join(folder, "index"), "scikit-build-core>=1.1").returncode:
        skip("pip reaches no package index with scikit-build-core")
    yield ()


def installs(*words):
    done = pip("install", "--quiet", *words)
    expect(done.returncode == 0, f"pip install {words}: {done.stdout[-3000:]}{done.stderr[-3000:]}")


def removes_all(before):
    done = pip("uninstall", "--quiet", "-y", "slackline")
    expect(done.returncode == 0, f"pip uninstall: {done.stdout}{done.stderr}")
    expect(files(own) == before, f"left behind: {sorted(files(own) - before)}, gone: {sorted(before - files(own))}")
    expect(not os.path.exists(os.path.join(site, "slackline", "bin")), "its folder is still there")


def works(package):
    """All of it, without a word about where anything is; `package` is the folder that has to have the Python files."""
    ask = ("import slackline, sys\nfrom slackline._library import library\nprint(slackline.__file__, library()._name, slackline.version())\n"
           f"print(slackline.plan({EXAMPLE!r}, 'adaptra').makespan_ms)\nassert 'torch' not in sys.modules")
    done = run(python, "-c", ask, PATH="/usr/bin:/bin")
    built = os.path.join(site, "slackline")
    expect(done.stdout.split() == [os.path.join(package, "__init__.py"), os.path.join(built, "lib", "libslackline.so.0.1"), slackline.__version__, "390.0"],
           f"planned by its own library: {done.stdout}{done.stderr}")
    done = run(python, "-c", "from slackline import _transport; print(_transport.library()._name, _transport.host() != '')", PATH="/usr/bin:/bin")
    expect(done.stdout.split() == [os.path.join(built, "lib", "libslackline_transport.so.0.1"), "True"], f"the library of messages: {done.stdout}{done.stderr}")
    for line in ([os.path.join(own, "bin", "slackline")], [python, "-m", "slackline"]):
        for words, says in ((["--version"], f"slackline {slackline.__version__}\n"), (["plan", EXAMPLE], "makespan 390 ms")):
            done = run(*line, *words, PATH="/usr/bin:/bin")
            expect(done.returncode == 0 and says in done.stdout, f"{line} {words}: {done.stdout[:500]}{done.stderr}")
    done = run(os.path.join(own, "bin", "slackline"), "doctor", PATH="/usr/bin:/bin")
    for part in ("slackline-solver", "slackline-delegate", "libslackline_probe"):
        line = next((line for line in done.stdout.splitlines() if part in line and "present" in line), "")
        expect(built in line, f"{part} is found in the package: {done.stdout[:1500]}{done.stderr}")
    done = run(os.path.join(own, "bin", "slackline"), "train", os.path.join(source, "examples", "slow-link.yaml"), "--out", os.path.join(folder, "trained"))
    expect(done.returncode == 1 and has_facts(done.stderr, "slackline-worker is not in ") and has_facts(done.stderr, "not part of the Python package"), f"train says what is missing: {done.stderr}")
