"""A long watch of many short programs: what it keeps does not grow with how many there were. 200 processes, one after the
other, each make calls under one watch; the folder of rings and gates, the watch's memory and its open files stay what they were
after the first few, and no call is lost. Programs that a probe of another version watches are an error that names both versions,
never "no calls seen". A small stand-in takes NCCL's place, so neither MPI nor a GPU is needed."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
from probing import compile_with, found
from runner import build, folder, require, skip

command = os.path.join(build, "slackline")
require("slackline", "libslackline_probe.so", "redis-server")
compiler = found(["cc", "gcc"])
if not compiler:
    skip("no C compiler")

# Runs the program COUNT times; after each tenth: files and KiB in the folder, KiB of memory and open files of the watch.
LOOP = """
for i in $(seq "$2"); do
    RANK=0 WORLD_SIZE=1 "$1" 0 50 0 || exit 3
    if [ $((i % 10)) = 0 ]; then
        sleep 0.3 # three looks of the agent
        echo "$(ls "$SLACKLINE_PROBE" | grep -c -e ring -e gate) $(du -sk "$SLACKLINE_PROBE" | cut -f1)" \\
             "$(sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$PPID/status) $(ls /proc/$PPID/fd | wc -l)"
    fi
done
"""


def watch(folder, *words, slackline=command):
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run([slackline, "watch", "--out", out, "--http", "off", *words], capture_output=True, text=True, cwd=folder,
                          timeout=300, check=False)
    with open(os.path.join(out, "report.json")) as file:
        report = json.load(file)
    with open(os.path.join(out, "events.jsonl")) as file:
        events = [json.loads(line) for line in file]
    return done, report, events


def test_what_is_kept_does_not_grow_with_the_programs(folder, program):
    count = 200
    done, report, _ = watch(folder, "--record", "--", "sh", "-c", LOOP, "sh", program, str(count))
    assert done.returncode == 0, done
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len(rows) == count // 10, done.stdout
    files, room, memory, opened = zip(*rows)
    print(f"after 10 to {count} programs: files {files[0]} to {max(files)}, KiB {room[0]} to {max(room)}, "
          f"resident KiB {memory[0]} to {max(memory)}, open files {opened[0]} to {max(opened)}")
    # 20 programs leave 40 files and 30 MiB where nothing is removed; one may be there still
    assert max(files) <= 20, files
    assert max(room) <= 20 << 10, room
    assert max(opened) <= opened[0] + 10, opened
    assert memory[-1] <= memory[len(memory) // 2] + (4 << 10), memory  # the rooms of messages are filled by then
    assert report["status"]["records_lost"] == 0, report["status"]
    logs = os.listdir(os.path.join(folder, "out", "calls"))
    assert len(logs) == count, f"{len(logs)} call logs of {count} programs"
    for name in logs:
        with open(os.path.join(folder, "out", "calls", name)) as file:
            rows = file.read().splitlines()
        assert len(rows) == 52, (name, len(rows))  # its head, the making of a communicator, 50 calls


def test_a_probe_of_another_version_is_named(folder, program):
    """The same probe, with another version in it."""
    with open(os.path.join(build, "libslackline_probe.so"), "rb") as file:
        code = file.read()
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    old = b"slackline-build " + re.search(r"^id +(\S+)$", said, re.M).group(1).encode()
    other = b"9" * 16 + b".9"
    assert code.count(old) == 1 and len(old) == len(b"slackline-build " + other), "the probe holds its build"
    installed = os.path.join(folder, "other")
    os.mkdir(installed)
    for name in os.listdir(build):
        if name.startswith("slackline") and os.access(os.path.join(build, name), os.X_OK):
            shutil.copy(os.path.join(build, name), installed)
    with open(os.path.join(installed, "libslackline_probe.so"), "wb") as file:
        file.write(code.replace(old, b"slackline-build " + other))
    done, report, events = watch(folder, "--", "sh", "-c", 'RANK=0 WORLD_SIZE=1 "$0" 0 1000 1000', program,
                                 slackline=os.path.join(installed, "slackline"))
    both = f"of slackline {other.decode()}, and this is slackline {old.decode().split()[1]}"
    assert done.returncode == 0 and both in done.stderr, done.stderr
    assert "no MPI or NCCL call" not in done.stderr + json.dumps(report), (done.stderr, report)
    assert both in json.dumps(report), report
    assert [event for event in events if event["kind"] == "node" and both in event["seen"]], events
    print("another version: said, and in the events")


def given():
    library, repeated = os.path.join(folder, "libnccl.so.2"), os.path.join(folder, "repeated")
    probes = os.path.join(here, "..", "probe")
    compile_with(compiler, os.path.join(probes, "standin_nccl.c"), library, "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2")
    compile_with(compiler, os.path.join(probes, "repeated.c"), repeated, library, f"-Wl,-rpath,{folder}")
    yield repeated,
