# labels: slow
"""What hangs is a finding, too: an mpirun that never ends is killed at the limit, with what it has started."""
import json
import os
import subprocess

from calling import command, folder
from runner import expect, require


def test_an_mpirun_that_hangs_is_broken_and_ended():
    require("slackline-worker")
    path = os.path.join(folder, "mpirun")
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "mpirun (Open MPI) 4.1.4"; exit 0; }}\nsleep 1000 & echo $! > {folder}/pid\nwait\n')
    os.chmod(path, 0o755)
    done = subprocess.run([command, "doctor", "--format", "json"], capture_output=True, text=True, timeout=250,
                          env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    expect(done.returncode == 1 and found["two ranks"]["state"] == "broken", f"{found['two ranks']}")
    pid = int(open(os.path.join(folder, "pid")).read())
    try:
        left = open(f"/proc/{pid}/cmdline").read().startswith("sleep")
    except OSError:
        left = False
    expect(not left, "what it has started has ended")
