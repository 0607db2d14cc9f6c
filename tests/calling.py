"""The command as tests call it, in a folder that is removed at the end."""
import json
import os
import subprocess
import tempfile

from runner import build, expect, missing, require, source

require("slackline")
command = os.path.join(build, "slackline")
problem = os.path.join(source, "examples", "four-ranks.yaml")
_folder = tempfile.TemporaryDirectory()
folder = _folder.name


def write(name, content):
    path = os.path.join(folder, name)
    with open(path, "w", newline="") as file:
        file.write(content)
    return path


def run(*arguments, text=None, **more):
    return subprocess.run([command, *arguments], input=text, capture_output=True, text=True, timeout=240, **more)


def plan(*arguments, text=None):
    """The plan that a subcommand prints as JSON."""
    done = run(*arguments, "--format", "json", text=text)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    return json.loads(done.stdout)


def refused(code, says, *arguments, text=None):
    """An error is one line on standard error that has the facts of `says` (runner.missing); nothing is printed."""
    done = run(*arguments, text=text)
    expect(done.returncode == code, f"{arguments}: exit {done.returncode}, not {code}: {done.stderr}")
    expect(done.stdout == "", f"{arguments}: printed {done.stdout[:80]!r}")
    expect(not missing(done.stderr, says), f"{arguments}: {done.stderr!r} lacks {missing(done.stderr, says)}")
    expect(done.stderr.count("\n") == 1, f"{arguments}: not one line: {done.stderr!r}")


def delay(ms):
    return ["--set", f"pipeline.links.list.0.latency_ms={ms}"]
