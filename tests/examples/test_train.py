# labels: slow alone
"""The run files among the examples show what their first lines say: the commands as they stand there, whole. What is measured
is measured again, at most twice, where it is off; it is not judged while other programs take much of the processor."""
import os
import resource
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from heads import broken, of_kind, run, tries  # noqa: E402

build, source = map(os.path.abspath, sys.argv[1:3])
if not os.path.exists(os.path.join(build, "slackline-worker")):
    print("skipped: slackline-worker is not built (MPI, oneDNN or xxHash is missing)")
    sys.exit(77)


def busy():
    """Seconds that the processors have worked, for all programs."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK") # without idle and waiting for disks


def own():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


failed, unjudged = 0, []
with tempfile.TemporaryDirectory() as folder:
    os.symlink(os.path.join(source, "examples"), os.path.join(folder, "examples"))
    for name in of_kind(source, "train"):
        for one in tries(os.path.join(source, "examples", name)):
            said, others = [], 0.0
            for attempt in range(3):
                before, mine, began = busy(), own(), time.monotonic()
                code, output = run(one.command, folder, build)
                others = max(0, busy() - before - (own() - mine)) / (time.monotonic() - began)
                lost = broken(one, output) if code == 0 else f"exit 0 (exit {code})"
                print(f"{one.command}: {'as its head says' if lost is None else f'no `{lost}`'}; others had {others:.2f} processors")
                if lost is None:
                    break
                said.append(f"no '{lost}' in\n{output}")
                if code:
                    failed += 1
                    break
            if said and lost is not None and code == 0:
                if others > 0.25:
                    unjudged.append(one.command)
                else:
                    failed += 1
            if lost is not None:
                print(f"{'NOT JUDGED' if one.command in unjudged else 'FAILED'}: {one.command}: {said[-1]}")
print(f"{failed} failed")
if not failed and unjudged:
    print(f"skipped: other programs are busy, so these were not judged: {', '.join(unjudged)}")
    sys.exit(77)
sys.exit(1 if failed else 0)
