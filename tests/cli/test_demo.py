# labels: long calm
"""slackline demo plays a slow link without arguments: as lines into a file, drawn anew in a terminal, and interrupted it ends its run."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from runner import build, expect, require, skip

require("slackline-worker")
if not os.path.isdir("/usr/share/common-licenses"):
    skip("this system has no /usr/share/common-licenses to train on")
command = os.path.join(build, "slackline")


def lives(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


def test_lines_without_a_terminal(folder):
    out = os.path.join(folder, "run")
    done = subprocess.run([command, "demo", "--out", out], capture_output=True, text=True, timeout=400)
    expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr}")
    expect("&" not in done.stdout, f"nothing is escaped for a page: {done.stdout}")
    expect("\033" not in done.stdout and "iteration 25: fault of link 0 -> 1, injected" in done.stdout, done.stdout)
    expect(len(re.findall(r"^rank [0-3] ", done.stdout, re.M)) >= 8, f"iterations op by op: {done.stdout}")
    expect(re.search(r"an iteration .*\d+ ms|\d+ ms an iteration", " ".join(done.stdout.splitlines()[-6:])), f"the answer: {done.stdout.splitlines()[-3:]}")
    expect(os.path.exists(os.path.join(out, "report.html")) and sorted(os.listdir(folder)) == ["run"], f"the run's folder: {os.listdir(folder)}")
    again = subprocess.run([command, "demo", "--out", out], capture_output=True, text=True, timeout=60)
    expect(again.returncode == 2 and again.stderr.count("\n") == 1 and "finished run" in again.stderr, f"a finished run stays: {again.stderr}")


def test_a_terminal_is_drawn_anew_and_an_interrupt_ends_the_run(folder):
    """Without arguments: the folder is runs/demo."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 90, 0, 0))
    process = subprocess.Popen([command, "demo"], stdin=slave, stdout=slave, stderr=slave, cwd=folder, start_new_session=True, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    text, end = b"", time.monotonic() + 120
    while time.monotonic() < end and not (text.count(b"\033[H") > 3 and b"rank 3" in text):
        if select.select([master], [], [], 1)[0]:
            text += os.read(master, 65536)
    shown = re.sub(rb"\033\[[0-9;]*[A-Za-z]", b"", text.rpartition(b"\033[H")[2] or text).decode()
    expect("iteration" in shown and "of 80" in shown, f"progress: {shown}")
    expect(all(len(line) <= 90 for line in shown.splitlines() if line.startswith("rank")), f"as wide as the terminal: {shown}")
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        children = [int(pid) for pid in file.read().split()]
    process.send_signal(signal.SIGINT)
    text = b""
    try:
        while select.select([master], [], [], 30)[0]:
            text += os.read(master, 65536)
    except OSError:
        pass  # the other end is closed
    expect(process.wait(30) == 1 and b"interrupted" in text, f"exit {process.returncode}: {text[-300:]}")
    until = time.monotonic() + 10
    while any(map(lives, children)) and time.monotonic() < until:
        time.sleep(0.1)
    expect(children and not any(map(lives, children)), "the run has ended, too")
    expect(os.path.isdir(os.path.join(folder, "runs", "demo")), "the run's folder")
