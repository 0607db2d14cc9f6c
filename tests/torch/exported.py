"""What the tests of exports share: the command's output for problems of several shapes, in a folder."""
import os
import subprocess

from runner import build, expect, folder

COMMAND = os.path.join(build, "slackline")


def problem(ranks, microbatches, placement="linear", stages=0, layers="", **more):
    """A problem file: equal stages, or layers by a layout or with times of their own."""
    costs = f"layers: {{{layers}}}" if layers else "times_ms: {F: 3, I: 4, W: 2}"
    text = f"pipeline:\n  ranks: {ranks}\n  microbatches: {microbatches}\n  placement: {placement}\n  {costs}\n"
    text += f"  stages: {stages}\n" if stages else ""
    return text + "".join(f"  {key}: {value}\n" for key, value in more.items())


def write(name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def output(*words):
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0 and done.stderr == "", f"{words}: exit {done.returncode} {done.stderr}")
    return done.stdout


def order_of(*words):
    """The rows of a plan as lists of cells."""
    return [line.split(",") for line in output(*words, "--format", "csv").splitlines()]
