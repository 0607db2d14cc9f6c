"""Elastic runs whose hosts are lost and come back. The hosts are this machine under other names (test_restart_hosts.py); one is lost
when its ranks are killed and nothing starts there any more."""
import os
import subprocess

from test_restart import Runs
from test_restart_hosts import Hosts
from training import Result, kill, until

TOLERANCE = 1e-6 # of losses of other numbers of replicas, relative as in test_ladder.py; undisturbed runs: 6e-9
RATE = "optimizer.lr=1e-4" # at 1e-3 AdamW enlarges the rounding of gradients that nearly cancel: 1e-7 to 1e-3 after 90 iterations, depending on the text


class Elastic:
    """Runs of one file on hosts, compared with the undisturbed run on this machine."""

    def __init__(self, build, source, folder, iterations, pace, fixed=()):
        self.runs = Runs(build, source, folder, iterations)
        self.hosts = Hosts(build, folder)
        self.fixed = (RATE, f"device.pace_ms={{F: {pace}, I: {pace}, W: {pace}}}", *fixed)
        self.known = {}

    def undisturbed(self, *layout):
        """By iteration: the loss, and the samples consumed."""
        if layout not in self.known:
            out = self.runs.out()
            with self.runs.start(RATE, *layout, out=out) as run:
                code, error = run.end(120)
            assert code == 0, error
            self.known[layout] = Result(out)
        return self.known[layout]

    def start(self, hosts, *settings, out=None, resume=False):
        return self.runs.start(f"hosts={hosts}", *self.fixed, *settings, out=out, resume=resume)

    def down(self, host):
        return os.path.exists(os.path.join(self.hosts.folder, f"down.{host}"))

    def lose(self, run, host):
        """How many ranks die with it."""
        self.hosts.mark("down", host)
        return sum(kill(pid) for pid in run.workers().values() if host_of(pid) == host)

    def give_back(self, host):
        os.unlink(os.path.join(self.hosts.folder, f"down.{host}"))

    def compare(self, name, out, *layout, bits=False):
        """Each iteration once, each with its own samples, and the losses of the undisturbed run."""
        result, expected = Result(out), self.undisturbed(*layout)
        count = len(expected.metrics)
        assert [line["iteration"] for line in result.metrics] == list(range(count)), f"{name}: iterations"
        samples = [line["samples"] for line in expected.metrics]
        assert len(set(samples)) == count, "two iterations have the same samples: this test says nothing"
        assert [line["samples"] for line in result.metrics] == samples, f"{name}: other samples than the undisturbed run"
        worst = max(abs(float(one["loss"]) / float(other["loss"]) - 1) for one, other in zip(result.metrics, expected.metrics))
        assert worst < TOLERANCE, f"{name}: losses differ by {worst}"
        if bits:
            assert result.bits == expected.bits, f"{name}: other bits"
        return result, worst


def host_of(pid):
    done = subprocess.run(["nsenter", "-t", str(pid), "-u", "hostname"], capture_output=True, text=True)
    return done.stdout.strip()


def layouts(run):
    return [event["layout"] for event in run.events("layout")]


def await_layouts(run, *expected):
    until(lambda: layouts(run) == list(expected) or run.process.poll() is not None, 60)
    assert layouts(run) == list(expected), f"{layouts(run)}: {run.end() if run.process.poll() is not None else 'it goes on'}"


def await_more(run, count):
    """Iterations that the present attempt has made."""
    begun = run.events("start")[-1]["time_s"], len(run.events("start"))
    reached = run.events("start")[-1]["iteration"]
    run.await_iteration(reached + count)
    assert len(run.events("start")) == begun[1], "another attempt began meanwhile"
