# labels: long
"""What a run survives: whatever process of it is killed, the ranks are started again from the newest checkpoint and the
loss of every iteration and the final weights are those of an undisturbed run, bit by bit. What it does not try again, what
a scheduler's warning does, and that nothing is left behind in any of these. `test_restart_random.py` draws many more."""
import os
import re
import signal
import subprocess
import tempfile
import time

from runner import build, has_facts, source
from training import Result, Training, arguments, kill, shared_files, train, until

ITERATIONS, AT_ONCE = 80, 3
RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 2}
batch: {microbatches: 4, size: 1}
optimizer: {kind: adamw, lr: 1e-3}
iterations: %d
schedule: 1f1b
adapt: false
device: {kind: cpu, pace_ms: {F: 1, I: 1, W: 1}}
checkpoint: {every: 10, keep: 2}
"""
KILLED = {
    "worker": r"rank \d \(pid \d+\) .*\b9\b.*",
    "mpirun": r"mpirun \(pid \d+\) .*\b9\b.*",
    "reaper": r".*\breaper \(pid \d+\) .*\b9\b.*",
}


class Runs:
    """Runs of one file in a folder of their own, and what the undisturbed one came to."""

    def __init__(self, build, source, folder, iterations=ITERATIONS):
        self.build, self.folder, self.count, self.known = build, folder, 0, {}
        self.file = os.path.join(folder, "run.yaml")
        with open(self.file, "w") as out:
            out.write(RUN % (source, iterations))

    def out(self):
        self.count += 1
        return os.path.join(self.folder, f"run{os.getpid()}-{self.count}")

    def start(self, *settings, out=None, resume=False):
        return Training(self.build, self.file, out or self.out(), *settings, resume=resume)

    def bits(self, *settings):
        """Of the undisturbed run; `settings`: those that change them (sizes of data and tensor parallelism)."""
        if settings not in self.known:
            self.known[settings] = train(self.build, self.file, self.out(), *settings).bits
        return self.known[settings]

    def compare(self, name, out, *settings):
        result, bits = Result(out), self.bits(*settings)
        assert [line["iteration"] for line in result.metrics] == list(range(len(bits[0]))), f"{name}: iterations"
        assert result.bits == bits, f"{name}: other bits than the undisturbed run"
        return result


def said(error):
    """What was said beside that a checkpoint was under way when somebody was killed, which is chance."""
    return "".join(line for line in error.splitlines(True) if "slackline: warning: " not in line)


def nothing_left(name, run):
    left = lambda: [pid for pid in run.seen if run.is_own(pid)]  # noqa: E731
    until(lambda: not left(), 10)
    assert not left(), f"{name}: processes are left: {left()}"
    parts = [path for path in shared_files(0) if owner(path).startswith(run.out + "\n")]
    assert not parts, f"{name}: left: {parts}"
    unfinished = [path for path in os.listdir(run.out) if re.search(r"\.(json|jsonl|yaml|svg)\..+$", path)]
    assert not unfinished, f"{name}: {unfinished}"


def owner(path):
    try:
        return open(os.path.join(path, "owner")).read().partition("run: ")[2]
    except OSError:
        return ""


def checkpoints(out):
    try:
        return sorted(name for name in os.listdir(os.path.join(out, "checkpoints")) if re.fullmatch(r"step-\d+", name))
    except FileNotFoundError:
        return []


# ---- killed ----

def kill_one(runs, kind, after):
    """The run goes on by itself from its newest checkpoint."""
    with runs.start() as run:
        run.await_iteration(after)
        assert until(lambda: checkpoints(run.out), 60), f"{kind}: no checkpoint after iteration {after}" # written while iterations go on
        victim = run.workers()[1] if kind == "worker" else getattr(run, kind)()
        kill(victim)
        code, error = run.end()
        nothing_left(kind, run)
    assert code == 0, f"{kind}: exit {code}: {error}"
    assert re.fullmatch("slackline: " + KILLED[kind] + r"; .*\b1\b.*\b3\b.* 0.5 s\n", said(error)), error
    result = runs.compare(kind, run.out)
    assert result.kinds("restart", "resumed", "end") == ["restart", "resumed", "end"], result.kinds("restart", "resumed", "end")
    restart = next(event for event in result.events if event["kind"] == "restart")
    assert has_facts(restart["decided"], "1 of 3") and re.fullmatch(KILLED[kind], restart["why"]), restart
    resumed = next(event for event in result.events if event["kind"] == "resumed")
    assert resumed["iteration"] > 0, f"{kind}: it began anew although it had come to iteration {after}"
    print(f"{kind} killed: {error.strip()}, went on from iteration {resumed['iteration']}")


def test_a_killed_supervisor_is_resumed_by_the_user(runs):
    """Nobody is left to start it again: the user does, at once, with --resume."""
    with runs.start() as run:
        run.await_iteration(35)
        kill(run.process.pid)
        run.process.wait()
        with runs.start(out=run.out, resume=True) as again:
            code, error = again.end()
        nothing_left("supervisor", run)
    assert (code, said(error)) == (0, ""), f"supervisor: exit {code}: {error}"
    runs.compare("supervisor", run.out)
    print("supervisor killed: the same bits after --resume")


def test_a_kill_during_a_checkpoint_goes_back_to_the_one_before(runs):
    with runs.start() as run:
        run.await_iteration(15)
        folder = os.path.join(run.out, "checkpoints")
        part = until(lambda: [name for name in os.listdir(folder) if name.endswith(".part")] or run.process.poll() is not None, 60)
        run.look()
        for pid in run.workers().values():
            kill(pid)
        code, error = run.end()
        nothing_left("during a checkpoint", run)
    assert code == 0, f"during a checkpoint: exit {code}: {error}"
    runs.compare("during a checkpoint", run.out)
    left = [name for name in os.listdir(folder) if not re.fullmatch(r"step-\d+", name)]
    assert not left, f"during a checkpoint: {left}"
    print(f"killed during a checkpoint ({part}): the same bits")


def test_a_rank_killed_by_the_run_file_dies_once(runs):
    out = runs.out()
    faults = "faults=[{iteration: 25, kill: 1}, {iteration: 60, kill: 0}]"
    done = subprocess.run(arguments(runs.build, runs.file, out, [faults]), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr}"
    causes = re.findall(r"slackline: rank (\d) \(pid \d+\) .*\b9\b.*; \D*(\d)\D* 3\b", done.stderr)
    assert causes == [("1", "1"), ("0", "2")], done.stderr
    runs.compare("killed by the run file", out)
    print("killed twice by the run file: the same bits")


def test_before_the_first_checkpoint_it_starts_over(runs):
    with runs.start("checkpoint.every=1000") as run:
        run.await_iteration(3)
        kill(run.workers()[0])
        code, error = run.end()
    assert code == 0, error
    resumed = next(event for event in Result(run.out).events if event["kind"] == "resumed")
    assert resumed["iteration"] == 0, resumed
    runs.compare("before the first checkpoint", run.out)
    print("killed before the first checkpoint: begins anew, the same bits")


# ---- not tried again ----

def test_restarts_are_counted(runs):
    faults = ", ".join("{iteration: %d, kill: 1}" % at for at in (5, 25, 45))
    for given, restarts in (("restarts=2", 2), ("restarts=0", 0)):
        out = runs.out()
        done = subprocess.run(arguments(runs.build, runs.file, out, [given, f"faults=[{faults}]"]), capture_output=True, text=True,
                              timeout=200)
        words = said(done.stderr).splitlines()
        assert done.returncode == 1 and len(words) == restarts + 1, f"{given}: exit {done.returncode}: {done.stderr}"
        after = f" (after {restarts} restarts)" if restarts else ""
        assert re.fullmatch("slackline: " + KILLED["worker"] + re.escape(after), words[-1]), words
        events = open(os.path.join(out, "events.jsonl")).read()
        assert events.count('"restart"') == restarts, events
    print("restarts used up: exit 1")


def refused(runs, name, code, words, *settings, restarts=0, out=None):
    out = out or runs.out()
    done = subprocess.run(arguments(runs.build, runs.file, out, settings), capture_output=True, text=True, timeout=100)
    assert done.returncode == code, f"{name}: exit {done.returncode}: {done.stderr}"
    assert len(done.stderr.splitlines()) == restarts + 1, f"{name}: {done.stderr}"
    assert re.search(words, done.stderr.splitlines()[-1]), f"{name}: {done.stderr}"
    print(f"{name}: {done.stderr.splitlines()[-1]}")


def test_what_would_come_again_is_not_tried_again(runs):
    refused(runs, "a wrong request", 2, "/nowhere/text", 'data.files=["/nowhere/text"]', "restarts=9")
    refused(runs, "no answer", 1, "memory_mb", "device.memory_mb=0.001", "restarts=9")
    out = runs.out()
    os.makedirs(os.path.join(out, "gradients", "tensors.json"))
    refused(runs, "an error of its own", 1, r"tensors.json: .*\(after 1 restart; not tried again, because no new iteration was reached\)",
            "restarts=9", "dump_gradients=1", restarts=1, out=out)


def test_a_folder_belongs_to_one_run(runs):
    """Also where a living run waits between two attempts, and where mpirun was started by somebody else."""
    with runs.start("iterations=100000") as run:
        run.await_iteration(1)
        for resume in ([], ["--resume"]):
            done = subprocess.run(arguments(runs.build, runs.file, run.out, []) + resume, capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and done.stderr.startswith(f"slackline: {run.out}: ") and done.stderr.count("\n") == 1, done.stderr
        run.process.send_signal(signal.SIGINT)
        code, error = run.end()
        assert code == 1 and re.fullmatch("slackline: .*\n", error), f"exit {code}: {error}"
        nothing_left("interrupted", run)
    out = runs.out()
    temporary = os.path.join(runs.folder, "mpi")
    os.makedirs(temporary, exist_ok=True)
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated", "--mca", "orte_tmpdir_base", temporary,
             "--mca", "btl_vader_backing_directory", temporary, "-n", "2"]
    words += ["--allow-run-as-root"] if os.getuid() == 0 else []
    train_words = arguments(runs.build, runs.file, out, ["iterations=100000"])
    other = subprocess.Popen(words + train_words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert until(lambda: checkpoints(out) or other.poll() is not None, 60), "the run inside mpirun does not come up"
        done = subprocess.run(arguments(runs.build, runs.file, out, []), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stderr.startswith(f"slackline: {out}: ") and done.stderr.count("\n") == 1, done.stderr
        other.send_signal(signal.SIGUSR1) # mpirun carries it to the ranks, as Slurm sends SIGTERM to them
        error = other.communicate(timeout=60)[1]
    finally:
        other.kill()
        other.wait()
    assert other.returncode == 1, f"inside mpirun: exit {other.returncode}: {error}"
    words = re.search(r"slackline: .*SIGTERM\D* (\d+) .*--resume.*\n", error)
    assert words, error
    assert checkpoints(out)[-1] == f"step-{int(words.group(1)):06d}", f"{checkpoints(out)} after {words.group(1)}"
    print("one run a folder: the second is refused")


# ---- a scheduler's warning ----

def warned(runs, how):
    never = "checkpoint.every=1000" # so that the one that is written is for the warning
    with runs.start(never) as run:
        run.await_iteration(23)
        run.process.send_signal(how)
        code, error = run.end()
        nothing_left("warned", run)
    words = re.fullmatch(r"slackline: .*SIGTERM\D* (\d+)\b.*`slackline train (\S+) --set (\S+) --out (\S+) --resume`.*\n",
                        error)
    assert code == 1 and words and words.group(2, 3, 4) == (runs.file, never, run.out), f"warned: exit {code}: {error}"
    last = int(words.group(1))
    assert len(run.metrics()) == last + 1 and checkpoints(run.out) == [f"step-{last + 1:06d}"], checkpoints(run.out)
    assert [event["iteration"] for event in run.events("warned")] == [last + 1]
    assert not run.events("restart") and not os.path.exists(os.path.join(run.out, "summary.json"))
    with runs.start(never, out=run.out, resume=True) as again:
        code, error = again.end()
    assert (code, error) == (0, ""), f"resumed: exit {code}: {error}"
    runs.compare("warned", run.out)
    print(f"{signal.Signals(how).name} after iteration {last}: the same bits after --resume")


def test_a_second_warning_ends_a_rank_that_hangs(runs):
    """A rank that hangs cannot end by itself: the second signal ends it."""
    with runs.start() as run:
        run.await_iteration(3)
        kill(run.workers()[1], signal.SIGSTOP)
        run.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert run.process.poll() is None, "it ended although a rank was stopped"
        run.process.send_signal(signal.SIGTERM)
        code, error = run.end(20)
        nothing_left("warned twice", run)
    assert code == 1 and re.fullmatch("slackline: .*\n", error), f"exit {code}: {error}"
    print("warned twice: interrupted")


def interrupted_between_two_attempts(runs, how, words):
    with runs.start() as run:
        run.await_iteration(25)
        kill(run.workers()[0])
        assert until(lambda: run.events("restart"), 20), "no restart"
        run.process.send_signal(how)
        code, error = run.end()
        nothing_left("between two attempts", run)
    assert code == 1 and re.fullmatch(words, error.splitlines()[-1]), f"exit {code}: {error}"
    print(f"{signal.Signals(how).name} between two attempts: {error.splitlines()[-1]}")


def given():
    with tempfile.TemporaryDirectory(prefix="slackline-restart-test.") as folder:
        runs = Runs(build, source, folder)
        runs.bits()
        yield runs,


def test_a_killed_run_goes_on_from_its_newest_checkpoint(runs):
    for kind, after in (("worker", 25), ("mpirun", 12), ("reaper", 41)):
        kill_one(runs, kind, after)


def test_a_warned_run_saves_itself(runs):
    warned(runs, signal.SIGTERM)
    warned(runs, signal.SIGUSR1)


def test_a_run_can_be_interrupted_between_two_attempts(runs):
    interrupted_between_two_attempts(runs, signal.SIGINT, r"slackline: interrupted after iteration \d+; `slackline report .+` shows the run")
    interrupted_between_two_attempts(runs, signal.SIGTERM, r"slackline: ended by SIGTERM after iteration \d+; `.*` continues")
