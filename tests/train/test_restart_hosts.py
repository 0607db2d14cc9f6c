# labels: long
"""Hosts that are lost: after a failure every host of the list is tested, those that fail are left out while enough slots
are left, and the run ends with the same bits; else it ends and names them.

The hosts are this machine under other names, each with a host name and a /dev/shm of its own (namespaces), reached by Open
MPI as real ones are: through the program that plm_rsh_agent names, which stands for ssh and can be told to fail."""
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

from runner import build, has_facts, skip, source
from test_restart import Runs, nothing_left, said
from training import arguments, kill, until

AGENT = """#!/bin/bash
# agent HOST COMMAND..., as ssh is called
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
echo "$host" >>%(folder)s/called
[ -e %(folder)s/down.$host ] && { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
[ -e %(folder)s/silent.$host ] && exec sleep 600
other=/dev/null # what stands in the worker's place on this host
[ -e %(folder)s/wrong.$host ] && other=%(folder)s/wrong-worker
[ -e %(folder)s/broken.$host ] && other=/bin/false
exec unshare -u -m bash -c 'mount -t tmpfs tmpfs /dev/shm; hostname "$0"
    [ "$2" = /dev/null ] || mount --bind "$2" %(worker)s; exec bash -c "$1"' "$host" "$*" "$other"
"""
# The same answer but for its last digit.
WRONG = """#!/bin/bash
%(folder)s/right-worker "$@" | sed 's/0$/1/; t; s/.$/0/'
"""


def possible():
    words = ["unshare", "-u", "-m", "bash", "-c", "mount -t tmpfs tmpfs /dev/shm && hostname other"]
    return subprocess.run(words, capture_output=True).returncode == 0


class Hosts:
    def __init__(self, build, folder):
        self.folder = folder
        names = {"folder": folder, "worker": os.path.join(build, "slackline-worker")}
        self.write("agent", AGENT % names)
        self.write("wrong-worker", WRONG % names)
        shutil.copy(names["worker"], os.path.join(folder, "right-worker"))
        os.environ["OMPI_MCA_plm_rsh_agent"] = os.path.join(folder, "agent")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as out:
            out.write(text)
        os.chmod(os.path.join(self.folder, name), stat.S_IRWXU)

    def mark(self, what, host):
        open(os.path.join(self.folder, f"{what}.{host}"), "w").close()

    def clear(self):
        for name in os.listdir(self.folder):
            if re.match("(down|silent|wrong|broken)[.]", name) or name == "called":
                os.unlink(os.path.join(self.folder, name))

    def called(self):
        with open(os.path.join(self.folder, "called")) as file:
            return file.read().split()


def rank_of(run, rank):
    return until(lambda: run.workers().get(rank), 20)


def lose_a_host(runs, hosts, what, words, given, ranks_on):
    """The host of rank 1 goes in the middle of training."""
    hosts.clear()
    with runs.start(f"hosts={given}") as run:
        run.await_iteration(25)
        victim = rank_of(run, 1)
        hosts.mark(what, "b")
        kill(victim)
        code, error = run.end(150)
        nothing_left(what, run)
    assert code == 0, f"{what}: exit {code}: {error}"
    words_said = said(error).splitlines()
    assert re.fullmatch(r"slackline: rank 1 on b .*\b9\b.*; .*\b1\b.*\b3\b.* 0.5 s", words_said[0]), error
    assert re.fullmatch("slackline: host b .*: " + words, words_said[1]) and len(words_said) == 2, error
    result = runs.compare(what, run.out)
    event = next(event for event in result.events if event["kind"] == "host")
    assert (event["host"], event["used"]) == ("b", False) and re.fullmatch(words, event["why"]), event
    count = len(given.split(","))
    tests, started = hosts.called()[count:2 * count], hosts.called()[2 * count:] # each host is called for its test, then for ranks
    assert sorted(tests) == ["a", "b", "c"] and sorted(started) == ranks_on, hosts.called()
    print(f"{what}: {words_said[1]}", flush=True)


def test_too_few_slots_end_the_run(runs, hosts):
    hosts.clear()
    with runs.start("hosts=[a, b]") as run:
        run.await_iteration(5)
        victim = rank_of(run, 0)
        hosts.mark("down", "a")
        kill(victim)
        code, error = run.end()
        nothing_left("too few", run)
    last = error.splitlines()[-1]
    assert code == 1, f"exit {code}: {error}"
    assert last.startswith("slackline: 2 ranks ") and has_facts(last, "1") and last.endswith(
        "a (ssh: connect to host a port 22: No route to host)"), error
    print(f"too few: {last}")


def test_a_host_that_is_down_from_the_beginning_is_left_out(runs, hosts):
    """Found out when mpirun cannot start there; a hostfile this time."""
    hosts.clear()
    hosts.mark("down", "a")
    file = os.path.join(hosts.folder, "hostfile")
    with open(file, "w") as out:
        out.write("# three hosts\na slots=2\nb slots=1 max_slots=4\nc:1\n")
    out = runs.out()
    done = subprocess.run(arguments(runs.build, runs.file, out, []) + ["--hosts", file], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr}"
    assert has_facts(done.stderr, "host a failed its test and is left out: ssh: connect to host a port 22"), done.stderr
    assert re.search(r"\nslackline: .*\ba: No route to host; .*\b1\b.*\b3\b", "\n" + done.stderr), done.stderr
    runs.compare("down from the beginning", out)
    print("down from the beginning: left out, the same bits")


def test_a_warning_reaches_other_hosts(runs, hosts):
    hosts.clear()
    never = "checkpoint.every=1000"
    with runs.start(never, "hosts=[a, b]") as run:
        run.await_iteration(15)
        run.process.send_signal(signal.SIGTERM)
        code, error = run.end()
        nothing_left("warned", run)
    ended = re.fullmatch(r"slackline: .*SIGTERM\D* (\d+)\b.*\n", error)
    assert code == 1 and ended, f"exit {code}: {error}"
    assert os.path.isdir(os.path.join(run.out, "checkpoints", f"step-{int(ended.group(1)) + 1:06d}"))
    with runs.start(never, out=run.out, resume=True) as again: # on this host
        code, error = again.end()
    assert (code, error) == (0, ""), error
    runs.compare("warned", run.out)
    print("a warning reaches other hosts: the same bits after --resume, elsewhere")


def test_words_of_other_hosts_are_heard(runs, hosts):
    """The supervisor cannot look into another host's /dev/shm: a worker's own words come through mpirun."""
    hosts.clear()
    for setting, code, words in (('data.files=["/nowhere/text"]', 2, "rank [01]: data: no file matches '/nowhere/text'"),
                                 ("device.memory_mb=0.001", 1, "rank [01]: no schedule fits into device.memory_mb of 0.001: .*")):
        out = runs.out()
        done = subprocess.run(arguments(runs.build, runs.file, out, [setting, "hosts=[a, b]"]), capture_output=True, text=True, timeout=100)
        assert done.returncode == code and re.fullmatch(f"slackline: {words}\n", done.stderr), f"exit {done.returncode}: {done.stderr}"
    print("words of workers on other hosts arrive")


def test_wrong_hosts_are_refused(runs):
    file = os.path.join(runs.folder, "wrong-hosts")
    with open(file, "w") as out:
        out.write("a slots=1\nb slots=two\n")
    for given, words in ((["--hosts", "a:1"], "the hosts have 1 slots, but the run has 2 ranks"),
                         (["--hosts", "a:1,b:x"], "hosts 'a:1,b:x': 'x' is not a number of slots"),
                         (["--hosts", "a,,b"], "hosts 'a,,b': a host without a name"),
                         (["--hosts", file], f"{file}:2: 'two' is not a number of slots"),
                         (["--hosts", "/nowhere/hosts"], "/nowhere/hosts.*"),
                         (["--set", "hosts=[a, 'b c']"], r".*'hosts' cannot be used: hosts 'a,b c': 'b c' is not a host name")):
        out = runs.out()
        done = subprocess.run(arguments(runs.build, runs.file, out, []) + given, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and re.fullmatch(f"slackline: {words}\n", done.stderr), f"{given}: exit {done.returncode}: {done.stderr}"
        assert not os.path.exists(out), f"{given}: made a folder"
    print("wrong lists are refused")


def given():
    possible() or skip("namespaces for hosts of their own are not permitted (unshare -u -m)")
    with tempfile.TemporaryDirectory(prefix="slackline-hosts-test.") as folder:
        runs = Runs(build, source, folder)
        runs.bits()
        yield runs, Hosts(build, folder)


def test_a_host_that_fails_its_test_is_left_out(runs, hosts):
    for state, words in (("down", "ssh: connect to host b port 22: No route to host"), ("wrong", "its self-test gives 'slackline self-test .*', not 'slackline self-test .*'"),
                         ("broken", "rank 0 ended with exit code 1"), ("silent", "no end within 30 s")):
        lose_a_host(runs, hosts, state, words, "[a, b, c]", ["a", "c"])
