# labels: slow
"""The other ways that the package is installed from sources: editable, and from an sdist. Called with BUILD_DIR SOURCE_DIR."""
import glob
import os
import subprocess

from installing import environment, files, given, installs, own, python, removes_all, site, tree, works  # noqa: F401
from runner import expect


def test_an_editable_installation_works_on_the_sources():
    before = files(own)
    installs("--editable", tree)
    works(os.path.join(tree, "slackline"))
    removes_all(before)


def test_an_sdist_has_all_that_is_built(folder):
    installs("scikit-build-core>=1.1")
    done = subprocess.run([python, "-c", f"from scikit_build_core.build import build_sdist; print(build_sdist({folder!r}))"], cwd=tree, capture_output=True, text=True, env=environment)
    made = glob.glob(os.path.join(folder, "slackline-*.tar.gz"))
    expect(done.returncode == 0 and len(made) == 1, f"an sdist: {done.stdout}{done.stderr}")
    before = files(own)
    installs(*made)
    works(os.path.join(site, "slackline"))
    removes_all(before)
