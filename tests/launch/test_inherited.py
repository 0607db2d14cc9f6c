"""Whatever signals a parent had ignored or blocked, a run ends when its processes have; and a program under watch finds the
signals as it would without the watch. Also on a kernel without pidfds, which a filter of system calls plays."""
import ctypes
import errno
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile

from runner import build, expect, require, source
from waiting import until

require("slackline", "slackline-worker", "mpirun")
slackline = os.path.join(build, "slackline")
_folder = tempfile.TemporaryDirectory(prefix="slackline-inherited.", dir="/tmp")
folder = _folder.name
RUN = """model: {kind: gpt2, layers: 2, width: 8, heads: 2, context: 8}
data: {files: ["/usr/share/common-licenses/*"], seed: 1}
parallel: {pipeline: 2}
batch: {microbatches: 4, size: 1}
optimizer: {kind: adamw, lr: 1e-3, clip: 1.0}
iterations: ITERATIONS
schedule: 1f1b
adapt: false
device: {kind: cpu}
"""


def begin_with(ignored, blocked=(), pidfds=True):
    """What a child does between fork and exec."""
    def prepare():
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python's own
            signal.signal(number, signal.SIG_DFL)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        if not pidfds:
            refuse_pidfds()
    return prepare


PIDFD_OPEN = 434  # on every architecture
filter_lines = [struct.pack("HBBI", *line) for line in (
    (0x20, 0, 0, 0),                                # load the number of the call
    (0x15, 0, 1, PIDFD_OPEN),                       # if it is that one
    (0x06, 0, 0, 0x00050000 | errno.ENOSYS),        # it fails as on Linux before 5.3
    (0x06, 0, 0, 0x7fff0000))]
filter_bytes = ctypes.create_string_buffer(b"".join(filter_lines))
filter_program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(filter_lines), ctypes.addressof(filter_bytes)))
libc = ctypes.CDLL(None)


def refuse_pidfds():
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter_program, 0, 0):
        raise OSError("no filter of system calls")


def train(name, iterations, *sets):
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w") as file:
        file.write(RUN.replace("ITERATIONS", str(iterations)))
    return [slackline, "train", path, "-o", os.path.join(folder, name), *sets]


def ends(words, what, **how):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                               preexec_fn=begin_with(**how))
    try:
        out, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return expect(False, f"{what}: no end within a minute")
    expect(process.returncode == 0 and not errors, f"{what}: exit {process.returncode}: {errors}")


EVERY = [signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGPIPE]


def test_a_run_ends_whatever_its_parent_ignored():
    ends(train("ignored", 2), "SIGCHLD ignored", ignored=[signal.SIGCHLD])
    ends(train("all", 2), "much ignored and blocked", ignored=EVERY, blocked=EVERY)
    if os.path.exists(os.path.join(build, "slackline-delegate")):
        ends(train("delegated", 2, "--set", "transport=delegated"), "SIGCHLD ignored, delegates", ignored=[signal.SIGCHLD])
    try:
        subprocess.run(["true"], preexec_fn=begin_with([], pidfds=False), check=True)
        filters = True
    except subprocess.SubprocessError:
        filters = False
        print("not tried without pidfds: no filter of system calls here")
    if filters:
        ends(train("old", 2), "no pidfds", ignored=[], pidfds=False)
        ends(train("old-ignored", 2, "--set", "transport=delegated"), "no pidfds, SIGCHLD ignored, delegates",
             ignored=[signal.SIGCHLD], pidfds=False)


metrics = os.path.join(folder, "nohup", "metrics.jsonl")


def lines():
    try:
        with open(metrics) as file:
            return file.read().count("\n")
    except FileNotFoundError:
        return 0


def test_a_run_outlives_its_terminal():
    process = subprocess.Popen(train("nohup", 100000), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
                               preexec_fn=begin_with([signal.SIGHUP]))

    expect(until(lambda: lines() > 2, 60), "nohup: the run did not start")
    process.send_signal(signal.SIGHUP)
    before = lines()
    expect(until(lambda: lines() > before + 50, 60) and process.poll() is None, "nohup: SIGHUP ended the run")
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        expect(False, "nohup: SIGINT did not end the run")
        process.kill()


def test_a_program_under_watch_finds_what_it_would_find_without():
    LOOK = ["grep", "-E", "^Sig(Ign|Blk):", "/proc/self/status"]
    if not shutil.which("redis-server"):
        print("not tried: watch (redis-server is not installed)")
    else:
        for name, how in (("nothing", {"ignored": []}), ("CHLD", {"ignored": [signal.SIGCHLD]}),
                          ("much", {"ignored": EVERY + [signal.SIGHUP], "blocked": [signal.SIGUSR1, signal.SIGCHLD, signal.SIGINT]})):
            plain = subprocess.run(LOOK, capture_output=True, text=True, preexec_fn=begin_with(**how), check=True).stdout
            try:
                watched = subprocess.run([slackline, "watch", "-o", os.path.join(folder, "watch-" + name), "--", *LOOK], timeout=60,
                                         capture_output=True, text=True, preexec_fn=begin_with(**how), check=False, cwd=folder)
            except subprocess.TimeoutExpired:
                expect(False, f"watch with {name} ignored: no end within a minute")
                continue
            expect(watched.stdout == plain, f"watched with {name} ignored: {watched.stdout!r}, unwatched {plain!r}: {watched.stderr}")


def test_every_program_begins_with_its_signals():
    for main in ("cli", "worker", "delegate", "solver"):
        with open(os.path.join(source, "src", main, f"{main}_main.c")) as file:
            body = re.search(r"^int main\(.*?\{(.*?)^\}", file.read(), re.S | re.M).group(1)
        first = [line.strip() for line in body.splitlines() if re.match(r"    [a-z_]+\(|    (if|return|switch)", line)][0]
        expect(first.startswith(("sl_signals_begin(", "sl_delegate_signals(")) and "sl_signals_begin(" in body,
               f"src/{main}/main.c: the first call is {first!r}, not sl_signals_begin")
