"""Whatever process of a run with delegates is killed: within 10 s no process, shared memory, socket or file outside of the
run's folder is left, and standard error is one clear line, or the run goes on and ends well. Runs a fixed list of kills;
`test_kill_random.py` draws many more."""
import json
import os
import re
import signal
import tempfile
import time

from runner import build, source
from training import Training, kill, lines, shared_files, train, until

began = time.time()
PATIENCE = 10
RUN = """
model: {kind: gpt2, layers: 4, width: 32, heads: 4, context: 16}
data: {files: ["%s/docs/*.md"], seed: 3}
parallel: {pipeline: 4}
batch: {microbatches: 6, size: 1}
optimizer: {kind: adamw, lr: 1e-3}
iterations: %d
schedule: 1f1b
adapt: false
transport: delegated
device: {kind: cpu, pace_ms: {F: 2, I: 2, W: 2}}
"""
# the processes of a run that a kill can hit, and what is said when one is the first
SAID = {
    "worker": r"slackline: rank \d \(pid \d+\) was killed by signal 9 \(SIGKILL\)",
    "mpirun": r"slackline: mpirun \(pid \d+\) was killed by signal 9 \(SIGKILL\)",
    "reaper": r"slackline: the reaper \(pid \d+\) was killed by signal 9 \(SIGKILL\)",
    "supervisor": "",
}


def victim(run, kind, draw):
    if kind == "supervisor":
        return run.process.pid
    if kind in ("sender", "receiver"):
        return draw(sorted(pid for name, pid in run.delegates().items() if f" {kind} " in name))
    if kind == "worker":
        return draw(sorted(run.workers().values()))
    return getattr(run, kind)()


def first(some):
    return some[len(some) // 2]


def check_gone(name, run, temporary):
    left = lambda: [pid for pid in run.seen if run.is_own(pid)]  # noqa: E731
    until(lambda: not left() and not os.path.exists(temporary), PATIENCE)
    assert not left(), f"{name}: processes are left: {left()}"
    assert not os.path.exists(temporary), f"{name}: {temporary} is left: {os.listdir(temporary)}"
    for file in ("metrics.jsonl", "events.jsonl"):
        text = open(os.path.join(run.out, file)).read()
        assert text == "" or text.endswith("\n"), f"{name}: {file} ends within a line"
        lines(os.path.join(run.out, file))
    assert not [path for path in os.listdir(run.out) if re.search(r"\.(json|jsonl|yaml|svg)\..+$", path)], os.listdir(run.out)
    done, recorded = [line["iteration"] for line in lines(os.path.join(run.out, "metrics.jsonl"))], set()
    for line in open(os.path.join(run.out, "timeline.json")):
        if line.rstrip().endswith("},"):  # the last before a kill may be cut
            recorded.add(json.loads(line.rstrip()[:-1]).get("args", {}).get("iteration"))
    missing = [i for i in done[:-1] if i not in recorded]
    assert not missing, f"{name}: iterations {missing} were done and are not in timeline.json"


class Kills:
    def __init__(self, build, source, folder):
        self.build, self.folder, self.count = build, folder, 0
        self.file = os.path.join(folder, "run.yaml")
        with open(self.file, "w") as out:
            out.write(RUN % (source, 100000))

    def start(self, *settings):
        self.count += 1
        return Training(self.build, self.file, os.path.join(self.folder, f"run{self.count}"), *settings)

    def end(self, name, kinds, settings=(), how=signal.SIGKILL, draw=first, pause=0, after=1, delegated=True):
        """Kills one of each kind, `pause` seconds apart; the run ends, and nothing of it stays."""
        with self.start(*settings) as run:
            run.await_iteration(after)
            assert run.delegates() or not delegated, f"{name}: there are no delegates"
            temporary = run.temporary()
            run.look()
            victims = [victim(run, kind, draw) for kind in kinds] # a later one may be hard to find
            began = time.monotonic()
            for pid in victims:
                kill(pid, how)
                time.sleep(pause)
            code, error = run.end(PATIENCE)
            took = time.monotonic() - began
            watchers = {"supervisor", "reaper"} & set(kinds)
            if watchers == {"supervisor", "reaper"}: # nobody is left to clear files: the next start does
                until(lambda: not [pid for pid in run.seen if run.is_own(pid)], PATIENCE)
                assert not [pid for pid in run.seen if run.is_own(pid)], f"{name}: processes are left"
                self.clear()
            check_gone(name, run, temporary)
        if how != signal.SIGKILL:
            assert code == 1 and re.fullmatch(r"slackline: interrupted after iteration \d+; `slackline report .+` shows the run\n", error), f"{name}: exit {code}: {error}"
        elif code == -signal.SIGKILL:
            assert "supervisor" in kinds and error == "", f"{name}: exit {code}: {error}"
        else: # a supervisor that is not the first to be killed may have ended the run itself by then
            said = [SAID[kind] for kind in kinds if SAID.get(kind)]
            assert code == 1, f"{name}: exit {code}: {error}"
            assert any(re.fullmatch(one + "\n", error) for one in said), f"{name}: '{error}' is none of {said}"
        print(f"{name}: over after {took:.1f} s: {error.strip()}", flush=True)

    def clear(self):
        self.count += 1
        train(self.build, self.file, os.path.join(self.folder, f"run{self.count}"), "iterations=1", "transport=direct")


def test_more_than_20_deaths_end_the_run(kills):
    """More than 20 delegates within 10 s: that is no accident any more."""
    with kills.start() as run:
        run.await_iteration(0)
        temporary, deaths = run.temporary(), 0
        while run.process.poll() is None and deaths < 200:
            for name, pid in run.delegates().items():
                if name.startswith("1->2."):
                    deaths += kill(pid)
            time.sleep(0.02)
        code, error = run.end(PATIENCE)
        check_gone("too many deaths", run, temporary)
    assert code == 1 and deaths > 20, f"exit {code} after {deaths} deaths: {error}"
    assert re.fullmatch(r"slackline: rank [12]: .*link 1 -> 2: .*\b21\b.*\b10 s.*\n", error), error
    print(f"too many deaths: {error.strip()}")


def given():
    with tempfile.TemporaryDirectory(prefix="slackline-kill-test.") as folder:
        yield Kills(build, source, folder),


def test_nothing_is_left_whichever_process_is_killed(kills):
    for kind in ("worker", "mpirun", "reaper", "supervisor"):
        kills.end(f"{kind} killed", [kind])
    kills.end("three queues, worker killed", ["worker"], ["network.queues=3"])


def test_nothing_is_left_of_a_run_that_is_interrupted(kills):
    kills.end("interrupted", ["supervisor"], how=signal.SIGINT)
    kills.end("terminated", ["supervisor"], how=signal.SIGTERM)


def test_nothing_is_left_when_two_processes_are_killed(kills):
    for kinds in (("worker", "mpirun"), ("reaper", "mpirun"), ("supervisor", "worker"), ("sender", "worker"),
                  ("receiver", "mpirun"), ("sender", "reaper"), ("receiver", "supervisor"), ("supervisor", "reaper")):
        kills.end(" and ".join(kinds) + " killed", list(kinds))


def test_no_shared_memory_of_these_runs_is_left(kills):
    inside = [path for path in shared_files(began) if "kill-test" not in path and owner(path).startswith(kills.folder)]
    assert not inside, f"left: {inside}"


def owner(path):
    try:
        return open(os.path.join(path, "owner")).read().partition("run: ")[2]
    except OSError:
        return ""
