"""The examples in C, from what is installed: each builds by the command in its first lines and prints what they say."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from heads import broken, of_kind, run, tries  # noqa: E402

build, source = map(os.path.abspath, sys.argv[1:3])
for tool in ("cc", "pkg-config", "cmake"):
    if not shutil.which(tool):
        print(f"skipped: {tool} is missing")
        sys.exit(77)
with open(os.path.join(build, "CMakeCache.txt")) as file:
    if re.search(r"^SL_SANITIZE:.*=(ON|thread)", file.read(), re.M):
        print("skipped: a library built with sanitizers is not linked into plain programs")
        sys.exit(77)
failed = 0
with tempfile.TemporaryDirectory() as folder:
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
            if code or lost is not None:
                failed += 1
                print(f"FAILED: examples/{name}: {one.command}: exit {code}, no '{lost}' in\n{output}")
print(f"{failed} failed")
sys.exit(1 if failed else 0)
