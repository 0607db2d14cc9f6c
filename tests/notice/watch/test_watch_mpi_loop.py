# labels: long
"""40 MPI programs of 2 ranks, one after the other, under one watch: the folder, the watch's memory and its processor time stay
bounded. SL_PROGRAMS says another number."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
from probing import MPI, compile_with, found, installed
from runner import build, folder, require, skip

command = os.path.join(build, "slackline")
require("libslackline_probe.so", "redis-server")
families = installed()
if not families:
    skip("no MPI compiler")
programs = int(os.environ.get("SL_PROGRAMS", "40"))

# After each tenth: KiB in the folder, resident KiB of the watch, and the ticks of the processor that it has had.
LOOP = """
for i in $(seq "$0"); do
    "$@" >/dev/null || exit 3
    if [ $((i % 10)) = 0 ]; then
        sleep 0.5
        echo "$(du -sk "$SLACKLINE_PROBE" | cut -f1) $(sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$PPID/status)" \\
             "$(sed 's/.*) //' /proc/$PPID/stat | cut -d' ' -f12,13)"
    fi
done
"""

# The address sanitizer keeps what was freed, 256 MiB of it, unless it is told to keep less.
SANITIZED = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=4"]))


def test_what_is_kept_stays_bounded():
    # The quicker one to start: the test is about the watch.
    family = "mpich" if "mpich" in families else families[0]
    program, out = os.path.join(folder, "loop"), os.path.join(folder, "out")
    compile_with(found(MPI[family]["cc"]), os.path.join(here, "loop.c"), program)
    words = [found(MPI[family]["run"]), *MPI[family]["options"], "-n", "2", program, "20", "1000"]
    done = subprocess.run([command, "watch", "--out", out, "--http", "off", "--", "sh", "-c", LOOP, str(programs), *words],
                          capture_output=True, text=True, cwd=folder, timeout=550, check=False,
                          env=os.environ | {"ASAN_OPTIONS": SANITIZED})
    assert done.returncode == 0, done
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len(rows) == programs // 10, done.stdout
    room, memory = [row[0] for row in rows], [row[1] for row in rows]
    ticks = [row[2] + row[3] for row in rows]
    print(f"{family}, {programs} programs: KiB in the folder {min(room)} to {max(room)}, resident KiB {memory[0]} to {max(memory)}, "
          f"ticks of the first half {ticks[len(ticks) // 2]}, of the second {ticks[-1] - ticks[len(ticks) // 2]}")
    # a launch of 2 ranks leaves 2.8 MiB where nothing is removed: 110 MiB in all
    assert max(room) <= 8 << 10, room
    # some MiB for each process that is there at one time, and rooms for messages; not for those that have been
    assert max(memory) <= 64 << 10, memory
    assert ticks[-1] - ticks[len(ticks) // 2] <= 3 * ticks[len(ticks) // 2] + 100, ticks
    with open(os.path.join(out, "report.json")) as file:
        assert json.load(file)["status"]["records_lost"] == 0
