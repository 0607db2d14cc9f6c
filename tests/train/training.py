"""A training run as a test meets it: started and read, its processes found in /proc, what it leaves behind. Every process
of a run is found by the run's folder, which a worker has among its arguments, and by who started whom."""
import glob
import json
import os
import signal
import subprocess

from runner import require
from waiting import until  # noqa: F401  for tests, too

require("slackline-worker", "slackline-delegate")  # MPI, oneDNN or xxHash is missing, if they are not built

OPEN_MPI = ("vader_segment.*", "ompi.*", "openmpi-sessions*", "pmix*")


def arguments(build, file, out, settings, resume=False):
    words = [os.path.join(build, "slackline"), "train", file, "--out", out]
    for setting in settings:
        words += ["--set", setting]
    return words + (["--resume"] if resume else [])


def lines(path):
    """The whole lines of a file that may still be written."""
    try:
        with open(path) as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return [json.loads(line, parse_float=str) for line in text[: text.rfind("\n") + 1].splitlines()]


class Result:
    """What a run that went well has left in its folder."""

    def __init__(self, out):
        self.metrics = lines(os.path.join(out, "metrics.jsonl"))
        self.events = lines(os.path.join(out, "events.jsonl"))
        with open(os.path.join(out, "summary.json")) as file:
            self.summary = json.load(file, parse_float=str)
        # the text of the loss, not a float made of it: nine digits tell every f32 apart
        self.bits = ([line["loss"] for line in self.metrics], self.summary["weights_hash"], self.summary["validation_loss"])
        self.delegates = [line["delegates"] for line in self.metrics]

    def kinds(self, *of):
        return [event["kind"] for event in self.events if event["kind"] in of]

    def phase(self, name):
        return next(phase for phase in self.summary["phases"] if phase["phase"] == name)


def train(build, file, out, *settings):
    done = subprocess.run(arguments(build, file, out, settings), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"{os.path.basename(out)}: exit {done.returncode}: {done.stderr}"
    return Result(out)


def train_swapping(build, file, out, *settings):
    """A run with a swap and a return. On a busy machine it may have other trouble instead; then it is repeated, each time with the same bits."""
    results = []
    while len(results) < 5:
        results.append(train(build, file, f"{out}-{len(results)}" if results else out, *settings))
        assert results[-1].bits == results[0].bits, f"{out}: {results[-1].bits} is not {results[0].bits}"
        if set(results[-1].kinds("swap", "return")) == {"swap", "return"}:
            return results[-1]
    raise AssertionError(f"{out}: no swap and return in any of {len(results)} runs: {results[-1].events}")


# ---- processes ----

def parent_and_state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[1]), fields[0]
    except (OSError, IndexError):
        return 0, "X"


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().split("\0")[:-1]
    except OSError:
        return []


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", errors="replace") as file:
            return dict(entry.partition("=")[::2] for entry in file.read().split("\0") if "=" in entry)
    except OSError:
        return {}


def is_alive(pid):
    return parent_and_state(pid)[1] not in "XZ"


def descendants(pid):
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            children.setdefault(parent_and_state(entry)[0], []).append(int(entry))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def kill(pid, how=signal.SIGKILL):
    try:
        os.kill(pid, how)
        return True
    except ProcessLookupError:
        return False


class Training:
    """A run that goes on in the background."""

    def __init__(self, build, file, out, *settings, resume=False):
        self.out = out
        self.process = subprocess.Popen(arguments(build, file, out, settings, resume), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        self.seen = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Whatever the test has found: nothing of the run stays."""
        self.look()
        for pid in [self.process.pid] + sorted(self.seen):
            if self.process.pid == pid and self.process.poll() is None or self.is_own(pid):
                kill(pid)
        self.process.wait()
        self.process.stderr.close()

    def is_own(self, pid):
        return is_alive(pid) and any(self.out in word for word in command_line(pid)) or self.is_delegate(pid)

    def is_delegate(self, pid):
        return is_alive(pid) and command_line(pid)[:1] == ["slackline-delegate"] and pid in self.seen

    def look(self):
        self.seen.update(descendants(self.process.pid))

    def metrics(self):
        return lines(os.path.join(self.out, "metrics.jsonl"))

    def events(self, kind):
        return [event for event in lines(os.path.join(self.out, "events.jsonl")) if event["kind"] == kind]

    def await_iteration(self, number):
        """A line is written when the next iteration begins."""
        until(lambda: len(self.metrics()) > number or self.process.poll() is not None, 60)
        assert len(self.metrics()) > number, f"iteration {number} was not reached: {self.end()}"
        self.look()

    def end(self, seconds=60):
        """Exit code and standard error."""
        try:
            error = self.process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.out}: still there after {seconds} s") from None
        return self.process.returncode, error

    # who is who

    def workers(self):
        found = {}
        for pid in descendants(self.process.pid):
            words = command_line(pid)
            if words and os.path.basename(words[0]) == "slackline-worker":
                found[int(environment(pid).get("OMPI_COMM_WORLD_RANK", -1))] = pid
        return found

    def delegates(self):
        """Name, such as "0->1.0 sender of rank 0", and process."""
        found = {}
        for pid in descendants(self.process.pid):
            words = command_line(pid)
            if words[:1] == ["slackline-delegate"] and is_alive(pid):
                found[words[1]] = pid
        self.seen.update(found.values())
        return found

    def mpirun(self):
        return parent_and_state(self.workers()[0])[0]

    def reaper(self):
        return parent_and_state(self.mpirun())[0]

    def temporary(self):
        return environment(self.workers()[0])["SLACKLINE_RUN"]


def shared_files(since):
    """What Open MPI or a run has left outside of the runs' folders after this time."""
    found = []
    for folder in ("/dev/shm", "/tmp"):
        for pattern in OPEN_MPI + ("slackline-*",):
            for path in glob.glob(os.path.join(folder, pattern)):
                try:
                    status = os.lstat(path)
                except FileNotFoundError:
                    continue
                if status.st_uid == os.getuid() and status.st_ctime > since:
                    found.append(path)
    return found
