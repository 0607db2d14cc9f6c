# labels: slow
"""slackline watch --on-event: a program is called when a rank of a real MPI job becomes slow, told what it is and asked to do
what the ladder says; what it answers counts. Whatever it does (it hangs, floods, dies, is missing), the job's output and exit
code are its own, and nothing stays behind."""
import json
import os
import stat
import subprocess
import sys
import time

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
from probing import MPI, found, installed
from real import Watched
from runner import build, folder, has_facts, require, skip

SLOW_RANK, EXIT = 2, 5

require("slackline", "libslackline_probe.so", "redis-server")
if not installed():
    skip("no MPI compiler")

# Notes what it is told: a line of JSON a call, its environment beside its input; then does what the mode says.
HOOK = """#!{python}
import json, os, signal, subprocess, sys, time
with open(os.path.join({folder!r}, "calls"), "a") as file:
    variables = {{k: v for k, v in os.environ.items() if k.startswith("SLACKLINE_")}}
    file.write(json.dumps([variables, json.load(sys.stdin)]) + "\\n")
{mode}
"""
HANG = "subprocess.Popen(['sleep', '1000'], start_new_session=True); time.sleep(1000)"
FLOOD = "os.execvp('yes', ['yes'])"
DIE = "os.kill(os.getpid(), signal.SIGKILL)"


class Job:
    """A watched job of 4 ranks whose one rank can be made slow. `mode`: what the hook does; "": there is none at that path;
    None: none is asked for."""

    def __init__(self, folder, program, mode, *options):
        self.folder = folder
        self.slow, self.end, self.hook = (os.path.join(folder, name) for name in ("slow", "end", "hook"))
        if mode:
            with open(self.hook, "w") as file:
                file.write(HOOK.format(python=sys.executable, folder=folder, mode=mode))
            os.chmod(self.hook, os.stat(self.hook).st_mode | stat.S_IXUSR)
        family = installed()[0]
        self.mpirun = [found(MPI[family]["run"]), *MPI[family]["options"], "-n", "4"]
        self.words = [*self.mpirun, program, self.slow, self.end, str(SLOW_RANK), "30", str(EXIT)]
        hook = [] if mode is None else ["--on-event", self.hook]
        self.run = Watched(build, folder, self.words, ["--http", "off", "--no-validate", *hook, "--cost", "balance=0.5,restart=9000",
                                                       *options])

    def __enter__(self):
        self.run.__enter__()
        self.run.wait_for("profiled")  # the reference
        return self

    def __exit__(self, *_):
        self.run.__exit__()

    def make(self, path):
        open(path, "w").close()

    def calls(self):
        try:
            with open(os.path.join(self.folder, "calls")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def wait_for_call(self, limit=60, after=0, **wanted):
        until = time.monotonic() + limit
        while time.monotonic() < until:
            for variables, event in self.calls()[after:]:
                if all(variables.get("SLACKLINE_" + name) == value for name, value in wanted.items()):
                    return variables, event
            time.sleep(0.1)
        raise AssertionError(f"no call {wanted}: {[v for v, _ in self.calls()]}\n{self.run.told()}\n{self.run.words()}")

    def wait_for_event(self, kind, limit=60, **wanted):
        until = time.monotonic() + limit
        while time.monotonic() < until:
            for event in self.run.events():
                if event["kind"] == kind and wanted.items() <= event.items():
                    return event
            time.sleep(0.1)
        raise AssertionError(f"no {kind} with {wanted}\n{self.run.told()}\n{self.run.words()}")

    def finish(self):
        """Ends the job: its output and exit code must be those of a run by itself."""
        self.make(self.end)
        code, text = self.run.result()
        alone = subprocess.run(self.words, capture_output=True, text=True, cwd=self.folder, check=False, timeout=100)
        assert (code, text) == (alone.returncode, alone.stdout) == (EXIT, "ranks 4 sum 6\n"), (code, text, alone)
        left = subprocess.run(["grep", "-lsa", self.folder, *[f"/proc/{p}/environ" for p in os.listdir("/proc") if p.isdigit()]],
                              capture_output=True, text=True, check=False).stdout.split()
        assert not left, [open(f.replace("environ", "cmdline")).read() for f in left]

    def text(self, name):
        with open(os.path.join(self.run.out, name)) as file:
            return file.read()


def test_a_hook_is_called_for_what_happens_and_carries_actions_out(folder, program):
    with Job(folder, program, "print('hello from the hook'); time.sleep(0.2)") as job:
        for _ in range(3):  # a busy machine may make the end of the trouble look like the hook's work: then once more
            before = len(job.calls())
            job.make(job.slow)
            job.wait_for_call(EVENT="onset", after=before)
            variables, verdict = job.wait_for_call(EVENT="verdict", RANK=str(SLOW_RANK), after=before)
            assert verdict["kind"] == "verdict" and verdict["rank"] == SLOW_RANK, verdict
            assert verdict["status"]["slow"] and verdict["status"]["verdicts"][0]["rank"] == SLOW_RANK, verdict
            time.sleep(8)  # what it brought is measured
            os.remove(job.slow)
            job.wait_for_call(EVENT="relief", after=before)
            try:
                undo, told = job.wait_for_call(EVENT="advice", ACTION="undo", STRATEGY="balance", limit=40)
                break
            except AssertionError as error:
                reason = error
        else:
            raise reason
        assert told["strategy"] == "balance" and told["action"] == "undo", told
        variables, apply = job.wait_for_call(EVENT="advice", ACTION="apply", STRATEGY="balance")
        assert [one["rank"] for one in apply["incidents"]] == [SLOW_RANK], apply
        assert len(apply["split"]) == 4 and sum(apply["split"]) == 32, apply
        assert apply["split"][SLOW_RANK] < min(m for rank, m in enumerate(apply["split"]) if rank != SLOW_RANK), apply
        assert apply["expected_loss"] < apply["loss"] and apply["cost_s"] == 0.5, apply
        assert float(variables["SLACKLINE_LOSS"]) > 0 and variables["SLACKLINE_DIRECTORY"] == job.run.out, variables
        assert abs(float(variables["SLACKLINE_EXPECTED_LOSS"]) - apply["expected_loss"]) < 1e-4, variables
        assert variables["SLACKLINE_INCIDENTS"] == str(apply["incidents"][0]["id"]), variables
        job.wait_for_event("hook", strategy="balance", outcome="done")
        job.finish()
        decisions, log = job.text("decisions.txt"), job.text("hook.log")
        assert "rank 2" in decisions and "0.5 s" in decisions, decisions  # the component, and the cost that was given
        assert "hello from the hook" in log and "exit 0" in log, log
        report = json.loads(job.text("report.json"))
        assert any((one.get("strategy"), one.get("action")) == ("balance", "apply") for one in report["advice"]), report["advice"]
        assert "balance" in job.text("report.txt")


def test_what_the_hook_refuses_is_not_asked_for_again(folder, program):
    with Job(folder, program, "sys.exit(77)") as job:
        job.make(job.slow)
        job.wait_for_event("hook", outcome="refused")
        time.sleep(5)
        asked = [v for v, _ in job.calls() if v.get("SLACKLINE_ACTION")]
        assert len(asked) == 1, asked
        job.finish()


def disturbs_nobody(folder, program, mode, said, *options):
    """A hook that fails."""
    with Job(folder, program, mode, *options) as job:
        job.make(job.slow)
        event = job.wait_for_event("hook", limit=90, outcome="failed")
        assert has_facts(event["seen"], said), event
        job.finish()


def test_a_hook_that_hangs_disturbs_nobody(folder, program):
    disturbs_nobody(folder, program, HANG, "longer than 1 s", "--on-event-limit", "1")


def test_a_hook_that_floods_disturbs_nobody(folder, program):
    disturbs_nobody(folder, program, FLOOD, "longer than 1 s", "--on-event-limit", "1")


def test_a_hook_that_dies_disturbs_nobody(folder, program):
    disturbs_nobody(folder, program, DIE, "signal 9")


def test_a_hook_that_is_missing_disturbs_nobody(folder, program):
    disturbs_nobody(folder, program, "", "No such file")


def test_a_hook_that_goes_on_when_the_program_ends_is_ended(folder, program):
    with Job(folder, program, HANG) as job:
        job.make(job.slow)
        job.wait_for_call(EVENT="onset")
        job.finish()  # also looks for what is left
        assert "onset" in job.text("hook.log"), job.text("hook.log")


def test_without_a_hook_it_says_what_it_would_do(folder, program):
    with Job(folder, program, None) as job:
        job.make(job.slow)
        event = job.wait_for_event("advice", strategy="balance", action="apply")
        assert event["rank"] == SLOW_RANK and "--on-event" in event["why"], event
        job.finish()
        assert job.calls() == []


def test_a_wrong_request_is_refused_before_the_program_runs(folder):
    for words, part in ((["--on-event", ""], "--on-event needs"), (["--on-event", "true", "--on-event-limit", "0"], "--on-event-limit"),
                        (["--cost", "dance=3"], "--cost takes"), (["--cost", "balance=-1"], "--cost must be"),
                        (["--cost", "balance"], "--cost takes"), (["--microbatches", "0"], "--microbatches"),
                        (["--spares", "x"], "--spares"), (["--on-evnt", "true"], "did you mean '--on-event'")):
        done = subprocess.run([os.path.join(build, "slackline"), "watch", *words, "--", "touch", os.path.join(folder, "ran")],
                              capture_output=True, text=True, cwd=folder, check=False)
        assert done.returncode == 2 and part in done.stderr, (words, done)
    assert not os.path.exists(os.path.join(folder, "ran"))


def given():
    program = os.path.join(folder, "steered")
    subprocess.run([found(MPI[installed()[0]]["cc"]), "-w", "-O1", "-o", program, os.path.join(here, "steered.c")], check=True)
    yield program,
