# labels: long
"""Every run file among the examples trains: three iterations of each command of its head."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from heads import of_kind, run, tries  # noqa: E402

build, source = map(os.path.abspath, sys.argv[1:3])
if not os.path.exists(os.path.join(build, "slackline-worker")):
    print("skipped: slackline-worker is not built (MPI, oneDNN or xxHash is missing)")
    sys.exit(77)
failed = 0
with tempfile.TemporaryDirectory() as folder:
    os.symlink(os.path.join(source, "examples"), os.path.join(folder, "examples"))
    names = of_kind(source, "train")
    for name in names:
        for one in tries(os.path.join(source, "examples", name)):
            code, output = run(one.command + " --set iterations=3", folder, build)
            for good, what in ((code == 0, f"exit {code}"), ("weights_hash" in output, "no weights"), ("iteration    2 " in output, "no third iteration")):
                if not good:
                    failed += 1
                    print(f"FAILED: {one.command}: {what}\n{output}")
    if len(names) < 6:
        failed += 1
        print(f"FAILED: only {len(names)} run files among the examples")
print(f"{failed} failed")
sys.exit(1 if failed else 0)
