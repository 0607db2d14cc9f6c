"""The examples in C, from what is installed: each builds by the command in its first lines and prints what they say."""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from heads import broken, of_kind, run, tries
from runner import build, expect, folder, require, skip, source

require("cc", "pkg-config", "cmake")
with open(os.path.join(build, "CMakeCache.txt")) as file:
    if re.search(r"^SL_SANITIZE:.*=(ON|thread)", file.read(), re.M):
        skip("a library built with sanitizers is not linked into plain programs")


def test_each_example_builds_and_prints_what_its_head_says():
    prefix = os.path.join(folder, "usr")
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    config = next(top for top, _, names in os.walk(prefix) if "slackline.pc" in names)
    copy = os.path.join(folder, "library")
    shutil.copytree(os.path.join(source, "examples", "library"), copy)
    for name in of_kind(source, "library"):
        for one in tries(os.path.join(source, "examples", name)):
            if os.path.basename(name) not in one.command:
                continue
            code, output = run(one.command, copy, build, PKG_CONFIG_PATH=config, LD_LIBRARY_PATH=os.path.dirname(config))
            lost = broken(one, output)
            expect(code == 0 and lost is None, f"examples/{name}: {one.command}: exit {code}, no '{lost}' in\n{output}")
