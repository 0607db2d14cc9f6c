# labels: long
"""Telemetry never ends a job: files that cannot be written, a folder that vanishes and a file system that hangs are told once,
training goes on to the same weights with exit code 0, and signals reach the ranks."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from checkpoints import write_run
from runner import build, folder, skip, source
from training import arguments, descendants, is_alive, until

SETTINGS = ("iterations=12", "checkpoint.every=0")
LIMIT = 120  # s; only a run that hangs meets it


class Run:
    """In the background; what it has said so far."""

    def __init__(self, file, out, *settings):
        self.said = open(f"{out}.said", "w+")
        self.process = subprocess.Popen(arguments(build, file, out, SETTINGS + settings) + ["--overwrite"], stdout=self.said,
                                        stderr=self.said, text=True)

    def text(self):
        with open(self.said.name) as file:
            return file.read()

    def end(self):
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {LIMIT} s: {self.text()}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in [self.process.pid] + descendants(self.process.pid):
            if self.process.poll() is None or pid != self.process.pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()
        self.said.close()


def hash_of(text):
    return next(line for line in text.splitlines() if line.startswith("weights_hash"))


def trained(run, whole, *troubles):
    """To the end with the same weights; each of the files has one line."""
    code, text = run.end(), run.text()
    assert code == 0 and hash_of(text) == whole, f"exit {code}: {text}"
    for file, why in troubles:
        said = [line for line in text.splitlines() if file in line and why in line]
        assert len(said) == 1 and said[0].startswith("slackline: warning: "), f"{file}: {text}"
    print(*(line for line in text.splitlines() if "warning" in line), sep="\n")


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def test_a_device_that_is_full_is_said_once_a_file(file, folder, whole):
    """Each file by itself on a device that is always full, and files that cannot take their place."""
    out = os.path.join(folder, "full")
    os.mkdir(out)
    full = ("metrics.jsonl", "events.jsonl", "timeline.json", "decisions.txt")
    for name in full:
        os.symlink("/dev/full", os.path.join(out, name))
    blocked = ("summary.json", "profile.yaml", "iterations.svg", "order.csv")
    for name in blocked:
        os.makedirs(os.path.join(out, name, "in-the-way"))
    with Run(file, out, "adapt=true", "faults=[{iterations: [4, 12], link: [0, 1], latency_ms: 8}]") as run:
        code, text = run.end(), run.text()
        assert code == 0 and hash_of(text) == whole, f"exit {code}: {text}"
        for name in ("metrics.jsonl", "events.jsonl", "timeline.json") + blocked:
            assert text.count(f"{name}: cannot be") == 1, f"{name}: {text}"


def test_a_full_disk_leaves_whole_lines(file, folder, whole):
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        skip("nothing can be mounted here")
    try:
        out = os.path.join(disk, "out")
        with open(os.path.join(folder, "said"), "w") as said:
            code = subprocess.run(arguments(build, file, out, SETTINGS), stdout=said, stderr=said, timeout=LIMIT).returncode
        with open(os.path.join(folder, "said")) as said:
            text = said.read()
        assert code == 0 and hash_of(text) == whole, f"exit {code}: {text}"
        assert "No space left on device" in text, text
        found = lines(os.path.join(out, "metrics.jsonl"))  # whole lines, whatever is missing
        assert [line["iteration"] for line in found] == sorted({line["iteration"] for line in found})
        with open(os.path.join(out, "timeline.json")) as timeline:
            json.load(timeline)
        for name in os.listdir(out):
            assert ".json." not in name and ".yaml." not in name, f"half written: {os.listdir(out)}"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_vanishes_is_said(file, folder, whole):
    out = os.path.join(folder, "gone")
    with Run(file, out, "faults=[{iterations: [0, 12], rank: 0, slowdown: 8}]") as run:
        until(lambda: os.path.exists(os.path.join(out, "metrics.jsonl")) and lines(os.path.join(out, "metrics.jsonl")), 60)
        shutil.rmtree(out)
        trained(run, whole, ("gone/metrics.jsonl", "No such file"), ("gone/summary.json", "No such file"))


def test_a_file_system_that_hangs_holds_no_rank(file, folder, whole):
    """A pipe without a reader is a file system that hangs: whoever opens it waits."""
    out = os.path.join(folder, "hangs")
    os.mkdir(out)
    os.mkfifo(os.path.join(out, "events.jsonl"))
    with Run(file, out) as run:
        trained(run, whole, ("hangs/events.jsonl", "could not be written for 10 s"))
    with Run(file, out, "iterations=100000") as run:
        until(lambda: "iteration   10" in run.text() or run.process.poll() is not None, 60)
        assert run.process.poll() is None, run.text()
        pids = descendants(run.process.pid)
        assert len(pids) >= 4, "reaper, mpirun and two ranks"
        begun = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        code = run.end()
        assert code == 1 and "interrupted" in run.text(), f"exit {code}: {run.text()}"
        until(lambda: not any(is_alive(pid) for pid in pids), 20)
        assert not any(is_alive(pid) for pid in pids), "the ranks did not hear it"
        print(f"a signal: all are gone after {time.monotonic() - begun:.1f} s")

def given():
    path = write_run(folder, source)
    with Run(path, os.path.join(folder, "whole")) as undisturbed:
        assert undisturbed.end() == 0, undisturbed.text()
        yield path, hash_of(undisturbed.text())
