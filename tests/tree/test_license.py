"""The license is Apache-2.0 everywhere: its text is the Apache Software Foundation's, unchanged; README, the package metadata and
what has been built say it, and so does every file that users copy or install as it is: public headers, Python modules, examples.
What the Debian package holds is package_deb's."""
import glob
import hashlib
import os
import re
import tomllib

from runner import build, expect, source
LINE = "SPDX-License-Identifier: Apache-2.0"
TEXT = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def test_the_text_is_the_foundations():
    system = "/usr/share/common-licenses/Apache-2.0"
    text = read(source, "LICENSE")
    if os.path.exists(system):
        expect(text == read(system), f"LICENSE is not {system}")
    expect(hashlib.sha256(text.encode()).hexdigest() == TEXT, "LICENSE is not the Foundation's text")
    expect(read(source, "python", "LICENSE") == text, "python/LICENSE is another text")


def test_readme_and_packages_say_it():
    readme = read(source, "README.md").partition("\n## License\n")[2]
    expect("Apache-2.0" in readme and "(LICENSE)" in readme and "the slackline authors" in readme, "README.md says the license and links its text")
    project = tomllib.loads(read(source, "python/pyproject.toml"))["project"]
    expect(project.get("license") == "Apache-2.0" and project.get("license-files") == ["LICENSE"], f"pyproject.toml: {project.get('license')}")
    expect("License: Apache-2.0" in read(build, "slackline.pc").splitlines(), "slackline.pc says no license")


def test_files_that_go_elsewhere_say_it():
    copied = [name for pattern in ("include/slackline/*.h", "python/pyproject.toml", "python/slackline/**/*.py", "examples/*.yaml", "examples/*/*.c", "examples/*/*.py")
              for name in glob.glob(pattern, root_dir=source, recursive=True)]
    expect(len(copied) > 40, f"files that go elsewhere: {len(copied)}")
    for name in copied:
        head = read(source, name).splitlines()[:2]
        expect(any(re.fullmatch(rf"(/\* {LINE} \*/|# {LINE})", line) for line in head), f"{name} does not begin with: {LINE}")
