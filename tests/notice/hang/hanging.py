"""Programs that come to stand in every way that stands.c and stands.py know, under `slackline watch`, and what is reported of them.

    event = reported(build, folder, mpi_words(folder, "openmpi", 4, ["loop", "2"]), after=3)      # the last hang or stall, or None"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "watch"))
from real import events_of  # noqa: E402

SOURCE = os.path.abspath(os.path.join(HERE, *[".."] * 3))
FAMILIES = {"openmpi": ("mpicc.openmpi", "mpirun.openmpi"), "mpich": ("mpicc.mpich", "mpirun.mpich")}
PEER = "peer"  # the rank after the wrong one

# kind: the ranks of which one must be named (the event's rank, or in its text), and a pattern of the event's text. None: any rank
MPI = {
    "skip-barrier": (["wrong"], r"rank {wrong} has not entered.*MPI_Barrier"),
    "other-collective": (["wrong"], r"rank {wrong} calls MPI_Allreduce.*MPI_Barrier"),
    "other-root": (["wrong"], r"rank {wrong} calls MPI_Bcast with root {wrong}"),
    "other-size": (["wrong"], r"rank {wrong} calls MPI_Allreduce of 0 bytes"),
    "receive-without-send": (["wrong"], r"message 1 from rank {peer} to rank {wrong} \(tag 7\), which was never sent"),
    "posted-receive": (["wrong"], r"message 1 from rank {peer} to rank {wrong} \(tag 7\), which was never sent"),
    # one sample of its stack: in the call, or between two of them
    "poll-receive": (["wrong"], r"rank {wrong}.*MPI_Barrier.*rank {wrong} (.*MPI_Test.* message 1 from rank {peer}|computes)"),
    "poll-away": (["wrong"], r"rank {wrong} computes after MPI_Allreduce, at spin_forever < .*main"),
    "any-receive": (["wrong"], r"rank {wrong}.*message from any rank \(tag 7\), which was never sent"),
    "wrong-tag": (["peer"], r"rank {peer} waits for message 1 from rank {wrong}.*\(tag 7\).*rank {wrong} sent tag 8"),
    "sends": (None, r"wait for each other.*MPI_Send"),
    "receives": (None, r"wait for each other.*MPI_Recv"),
    "stopped": (["wrong"], r"rank {wrong} is stopped by a signal"),
    "loop": (["wrong"], r"rank {wrong} computes after MPI_Allreduce, at spin_forever < .*main"),
    "lock": (["wrong"], r"rank {wrong} waits for a lock"),
    "read": (["wrong"], r"rank {wrong} reads /tmp/stands"),
    "finalize": (["wrong"], r"rank {wrong} has (reached its end|ended)"),
    "cross": (["wrong"], r"wait for each other.*communicator 2.*communicator 3|communicator 3.*communicator 2"),
    "window-post": (["wrong"], r"rank {wrong} has left out MPI_Win_post.*rank {wrong} is in MPI_Barrier"),
    "window-complete": (["wrong"], r"rank {wrong} has left out MPI_Win_complete: rank {peer} waits for rank {wrong}'s MPI_Win_complete"),
    "window-late-post": (["wrong"], r"rank {wrong} has not entered.*rank {wrong} computes.*, at spin_forever < .*main"),
    "window-late-complete": (["wrong"], r"rank {wrong} has not entered.*rank {wrong} computes after MPI_Win_start, at spin_forever < .*main"),
    "window-starts": (None, r"wait for each other.*MPI_Win_post"),
    "window-fence": (["wrong"], r"wait for each other.*MPI_Win_fence"),
    "window-unlock": (["wrong"], r"rank {wrong} holds a lock and is in another call: .*waits for the lock on rank {peer}'s window.*MPI_Barrier"),
    "window-late-unlock": (["wrong"], r"rank {wrong} holds a lock: .*the lock on rank {peer}'s window.*rank {wrong} computes"),
}
GLOO = {
    "skip-barrier": (["wrong"], r"rank {wrong} (has not entered|calls glooAllreduce).*glooBarrier"),
    "other-collective": (["wrong"], r"rank {wrong} calls glooAllreduce.*glooBarrier"),
    "other-shape": (["wrong"], r"rank {wrong} calls glooAllreduce of 0 bytes"),
    "other-root": (["wrong"], r"rank {wrong} calls glooBroadcast with root {wrong}"),
    "receive-without-send": (["wrong"], r"message 1 from rank {peer} to rank {wrong} \(tag 7\), which was never sent"),
    "wrong-tag": (["peer"], r"rank {peer} waits for message 1 from rank {wrong}.*\(tag 7\).*rank {wrong} sent tag 8"),
    "receives": (None, r"wait for each other.*glooRecv"),
    "cross": (["wrong"], r"wait for each other"),
    "counts": (["wrong"], r"rank {wrong}.*(glooRecv|message).*from rank {peer}"),
    "ddp": (["wrong"], r"rank {wrong}"),
    "stopped": (["wrong"], r"rank {wrong} is stopped by a signal"),
    "loop": (["wrong"], r"rank {wrong} computes.*spin_forever \(stands.py:\d+\) < mistake"),
    "lock": (["wrong"], r"rank {wrong} waits for a lock.*lock_twice \(stands.py:\d+\)"),
    "read": (["wrong"], r"rank {wrong} reads pipe.*read_nothing \(stands.py:\d+\)"),
    "sleep": (["wrong"], r"rank {wrong} sleeps.*mistake \(stands.py:\d+\)"),
}


def compiled(folder, family):
    program = os.path.join(folder, f"stands-{family}")
    if not os.path.exists(program):
        subprocess.run([FAMILIES[family][0], "-O1", "-g", "-o", program, os.path.join(HERE, "stands.c")], check=True)
    return program


def mpi_words(folder, family, ranks, arguments):
    run = FAMILIES[family][1]
    options = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"] if family == "openmpi" else []
    if family == "openmpi" and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    return [run, *options, "-np", str(ranks), compiled(folder, family), *arguments]


def gloo_words(ranks, arguments):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", "0", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "localhost:0", os.path.join(HERE, "stands.py"), *arguments]


def watch_words(build, gloo):
    return [sys.executable, "-m", "slackline"] if gloo else [os.path.join(build, "slackline")]


def environment(build):
    return {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python"), "SLACKLINE_COMMAND": os.path.join(build, "slackline"),
            "OMP_NUM_THREADS": "1"}


class Standing:
    """A watched program, and its events."""

    def __init__(self, build, folder, words, options=(), gloo=False):
        self.out = tempfile.mkdtemp(dir=folder)
        self.log = open(os.path.join(self.out, "stderr.txt"), "w")
        self.process = subprocess.Popen([*watch_words(build, gloo), "watch", "--http", "off", "--overwrite", "--out", self.out, *options, "--", *words],
                                        stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, env=environment(build), start_new_session=True)

    def events(self):
        return events_of(self.out)

    def hangs(self):
        return [event for event in self.events() if event["kind"] in ("hang", "stall", "moves")]

    def wait_for(self, kinds, seconds, after=0):
        """The first such event from position `after` on, and the position behind it; None if the time is over or the program ends."""
        end = time.monotonic() + seconds
        while True:
            over = self.process.poll() is not None
            for at, event in enumerate(self.events()[after:], after + 1):
                if event["kind"] in kinds:
                    return event, at
            if over or time.monotonic() > end:
                return None, after
            time.sleep(0.2)

    def close(self):
        """Ends the job: all its processes are of the watch's session."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        self.kill_session()
        self.process.wait()
        self.log.close()

    def kill_session(self):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat") as file:
                    words = file.read().rpartition(")")[2].split()
                if int(words[3]) == self.process.pid:
                    os.kill(int(name), signal.SIGKILL)
            except (OSError, IndexError):
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def text_of(event):
    return f"{event['seen']}; {event['why']}" if event else ""


def outcome(event, known, wrong, ranks):
    """named, wrong, or abstained: of a program whose rank `wrong` made the mistake."""
    who, pattern = known
    if not event:
        return "abstained"
    roles = {"wrong": wrong, PEER: (wrong + 1) % ranks}
    named = who is None or any(event.get("rank") == roles[role] or f"rank {roles[role]}" in event["seen"] for role in who)
    if event.get("rank", -1) >= 0 and who is not None and event["rank"] not in roles.values():
        return "wrong"
    return "named" if named and re.search(pattern.format(wrong=wrong, peer=roles[PEER]), text_of(event), re.S) else "unclear"


def stands(build, folder, family, kind, wrong, ranks, after, seconds=60):
    """What is reported of one program: the outcome, and the event."""
    gloo = family == "gloo"
    known = (GLOO if gloo else MPI)[kind]
    words = gloo_words(ranks, [kind, str(wrong)]) if gloo else mpi_words(folder, family, ranks, [kind, str(wrong)])
    with Standing(build, folder, words, ["--hang-after", str(after)], gloo) as run:
        event, _ = run.wait_for(("hang", "stall"), seconds)
        result = outcome(event, known, wrong, ranks)
        return result, event


def usable(family):
    return all(map(shutil.which, FAMILIES[family]))
