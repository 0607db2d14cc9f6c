# labels: long
"""The disk of a watch's results matters to nobody: when it hangs, signals reach the program at once; when it is full, the program
runs to its end with its exit code, and that is said once."""
import os
import signal
import subprocess

from calling import command, folder
from runner import expect, has_facts, require
from waiting import until

require("libslackline_probe.so", "redis-server")

LIMIT = 60  # s; only what hangs meets it
PROGRAM = 'trap "echo heard; exit 7" USR1; echo ready; while :; do sleep 0.1; done'


def start(out, script, *options):
    return subprocess.Popen([command, "watch", "--http", "off", "--out", out, *options, "--", "bash", "-c", script],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def end(process):
    try:
        said = process.communicate(timeout=LIMIT)
        return process.returncode, *said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the watch, and the program that it has not told
        return "killed", *process.communicate()


def seated(pid):
    """It has begun to write: a thread of it waits for the pipe's reader."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/wchan") as file:
                if "fifo" in file.read() or "wait_for_partner" in file.read():
                    return True
        except OSError:
            pass
    return False


def test_signals_reach_a_program_whose_disk_hangs():
    # a pipe without a reader is a file system that hangs: whoever opens it waits
    out = os.path.join(folder, "hangs")
    os.mkdir(out)
    os.mkfifo(os.path.join(out, "events.jsonl"))
    watch = start(out, PROGRAM)
    expect(watch.stdout.readline() == "ready\n", "the program runs")
    until(lambda: os.path.exists(os.path.join(out, "events.jsonl")) and seated(watch.pid), 5)  # where the kernel shows it
    watch.send_signal(signal.SIGUSR1)
    code, printed, said = end(watch)
    expect(code == 7 and printed == "heard\n", f"the signal reaches the program: exit {code}, {printed!r}, {said!r}")
    expect(said.count("hangs/events.jsonl: could not be written for 10 s") == 1, f"what is lost is said: {said!r}")


def test_a_full_disk_costs_the_program_nothing():
    # always full
    out = os.path.join(folder, "full")
    os.mkdir(out)
    os.symlink("/dev/full", os.path.join(out, "events.jsonl"))
    for name in ("report.txt", "report.json", "watch.json"):
        os.makedirs(os.path.join(out, name, "in-the-way"))
    watch = start(out, "sleep 1; exit 5", "--overwrite")
    code, printed, said = end(watch)
    expect(code == 5 and printed == "", f"the program's exit code: {code} {said!r}")
    for name in ("events.jsonl", "report.txt", "report.json"):
        expect(said.count(f"full/{name}: cannot be") == 1, f"{name} is said once: {said!r}")
    expect(has_facts(said, "full/events.jsonl: cannot be written: No space left on device"), said)
