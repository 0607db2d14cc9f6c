# labels: slow
"""Restart without the bad host: the run saves itself, ends and goes on on the other hosts of its list, with the same bits;
that is no failure, tests nobody, and the host stays out. What cannot be is refused with a line and training goes on.

Hosts are this machine under other names (test_restart_hosts.py). SL_SEED repeats the random kills."""
import os
import random
import re
import signal
import subprocess
import tempfile
import time

from runner import build, skip, source
from test_restart import Runs, checkpoints, nothing_left, said
from test_restart_hosts import Hosts, possible, rank_of
from training import Result, arguments, kill, until

ITERATIONS = 40
AT = 13 # no multiple of checkpoint.every: what is saved is saved to leave
LEAVE = "arrangements=[{iteration: %d, without: b}]" % AT
BY_HAND = r".*\barrangements\b.*"
LEFT = r"slackline: host b .*\b%d\b.*: %s" % (AT, BY_HAND)


def run_to_the_end(runs, hosts, name, *settings, resume=False, overwrite=False, out=None):
    hosts.clear()
    out = out or runs.out()
    words = arguments(runs.build, runs.file, out, settings, resume) + ["--overwrite"] * overwrite
    done = subprocess.run(words, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, f"{name}: exit {done.returncode}: {done.stderr}"
    return out, done.stderr


def only(result, kind):
    found = [event for event in result.events if event["kind"] == kind]
    assert len(found) == 1, f"{len(found)} events of kind {kind}"
    return found[0]


def times(result, first, end):
    return [float(line["time_ms"]) for line in result.metrics[first:end]]


def leaves(runs, hosts, given, called_afterwards, *settings, microbatches=4):
    """The pace is a lower bound: with ops of 20 ms on one rank, 4 microbatches make an iteration of at least 240 ms."""
    bound = microbatches * 3 * 20
    slow = "faults=[{iterations: [10, 40], host: b, slowdown: 20}]"
    out, error = run_to_the_end(runs, hosts, given, f"hosts={given}", LEAVE, slow, "restarts=0", *settings)
    assert re.fullmatch(LEFT + "\n", error), error
    result = runs.compare(given, out, *settings)
    assert result.kinds("leave", "host", "resumed", "left", "restart", "end") == ["leave", "host", "resumed", "left", "end"]
    assert (only(result, "host")["host"], only(result, "host")["used"]) == ("b", False)
    assert only(result, "resumed")["iteration"] == AT, only(result, "resumed") # nothing was made twice
    took, total = {phase: float(ms) for phase, ms in only(result, "left")["phases_ms"].items()}, float(only(result, "left")["took_ms"])
    assert set(took) == {"save", "end", "start", "first_iteration"} and abs(sum(took.values()) - total) < 10, only(result, "left")
    first = len(set(re.findall("[abc]", given)))
    assert sorted(hosts.called()[first:]) == called_afterwards, hosts.called()
    assert min(times(result, 10, AT)) >= bound, f"b was not slow: {times(result, 10, AT)}"
    assert min(times(result, AT, 40)) < bound, f"still slow without b: {times(result, AT, 40)}"
    print(f"{given}: left b, the same bits; {took}: {total} ms")


def test_a_host_may_be_named_otherwise(runs, hosts):
    """By the name that the host gives itself, which is short, where the list has a domain. The agent is called
    with the name of the list."""
    hosts.clear()
    agent = os.path.join(hosts.folder, "agent")
    with open(agent) as file:
        text = file.read()
    hosts.write("agent", text.replace("host=$1\n", "host=${1%%.*}\n"))
    out, error = run_to_the_end(runs, hosts, "names", "hosts=[a, b.example.org, c.example.org]", LEAVE)
    hosts.write("agent", text)
    assert re.fullmatch(LEFT.replace("host b", "host b[.]example[.]org") + "\n", error), error
    runs.compare("names", out)
    assert sorted(hosts.called()[3:]) == ["a", "c"], hosts.called()
    print("named otherwise: left")


def test_a_split_made_before_is_taken_up_again(runs, hosts):
    """A split that the run file has made before is taken up again: another would be other bits."""
    settings = ("parallel.data=2", "arrangements=[{iteration: 5, split: [3, 1]}, {iteration: 9, positions: [1, 0, 2, 3]}]")
    leave = settings[1].replace("}]", "}, {iteration: %d, without: b}]" % AT)
    assert runs.bits(*settings) != runs.bits("parallel.data=2"), "the split changes no bit: this test says nothing"
    out, error = run_to_the_end(runs, hosts, "split", "hosts=['a:2', 'b:2', 'c:2']", settings[0], leave)
    assert re.fullmatch(LEFT + "\n", error), error
    assert Result(out).bits == runs.bits(*settings), "other bits than the run that did not leave"
    print("with another split, and other seats: left, the same bits")


def test_the_ladder_leaves_where_nothing_cheaper_helps(runs, hosts):
    """By itself, where nothing cheaper helps: what is lost has come to what a restart costs long before the end."""
    slow = "faults=[{iterations: [8, 40], host: b, slowdown: 40}]"
    out, error = run_to_the_end(runs, hosts, "ladder", "hosts=[a, b, c]", slow, "adapt=true", "adaptation={strategies: [schedule, restart]}")
    assert re.fullmatch(r"slackline: host b .*\b\d+\b.*: .*\n", error), error
    result = runs.compare("ladder", out)
    assert result.kinds("host", "resumed", "left", "restart") == ["host", "resumed", "left"]
    assert min(times(result, only(result, "resumed")["iteration"], 40)) < 480 <= min(times(result, 8, only(result, "resumed")["iteration"]))
    print(f"the ladder: {error.strip()}")


def refused(runs, hosts, name, reason, *settings, host="b"):
    out, error = run_to_the_end(runs, hosts, name, *settings)
    assert re.fullmatch(f"slackline: warning: host {host} .*{reason}.*\n", error), f"{name}: {error}"
    result = runs.compare(name, out)
    assert result.kinds("leave", "host", "resumed", "left", "restart", "end") == ["leave", "end"], name
    event = only(result, "leave")
    assert f"host {host} " in event["decided"] and re.search(reason, event["why"]), event
    print(f"{name}: {error.strip()}")


def test_leaving_needs_a_supervisor(runs):
    out, temporary = runs.out(), os.path.join(runs.folder, "mpi")
    os.makedirs(temporary, exist_ok=True)
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated", "--mca", "orte_tmpdir_base", temporary,
             "--mca", "btl_vader_backing_directory", temporary, "-n", "2"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
    done = subprocess.run(words + arguments(runs.build, runs.file, out, ["hosts=[a, b, c]", LEAVE]), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and re.search("slackline: warning: host b ", done.stderr), done.stderr
    runs.compare("without a supervisor", out)
    print("without a supervisor: refused")


def test_a_host_without_ranks_is_left(runs, hosts):
    refused(runs, hosts, "spare", r"\bc\b", "hosts=[a, b, c]", "arrangements=[{iteration: 13, without: c}]", host="c")
    refused(runs, hosts, "unknown", r"\bd\b", "hosts=[a, b, c]", "arrangements=[{iteration: 13, without: d}]", host="d")


def test_an_order_that_cannot_be_written_is_said(runs, hosts):
    """What stands in the way of hosts.json is said when the attempt begins and when the host should be left."""
    out = runs.out()
    os.makedirs(os.path.join(out, "hosts.json", "in-the-way"))
    _, error = run_to_the_end(runs, hosts, "in the way", "hosts=[a, b, c]", LEAVE, out=out)
    first, second = error.splitlines()
    assert re.match(r"slackline: warning: .*hosts\.json", first), error
    assert re.match(r"slackline: warning: host b [^:]*: .*hosts\.json", second), error
    runs.compare("in the way", out)
    print(f"in the way: {second}")


# ---- and afterwards ----

def hosts_of_workers(run):
    """By the names of the processes that the agent stands for: each host has a name of its own (UTS)."""
    found = set()
    for pid in run.workers().values():
        done = subprocess.run(["nsenter", "-t", str(pid), "-u", "hostname"], capture_output=True, text=True)
        found.add(done.stdout.strip())
    return found


def test_a_failure_afterwards_leaves_it_out(runs, hosts):
    """b is not even tested."""
    hosts.clear()
    with runs.start("hosts=[a, b, c]", LEAVE) as run:
        run.await_iteration(AT + 5)
        assert hosts_of_workers(run) == {"a", "c"}, hosts_of_workers(run)
        kill(rank_of(run, 1))
        code, error = run.end(150)
        nothing_left("afterwards", run)
    assert code == 0, f"exit {code}: {error}"
    words = said(error).splitlines()
    assert re.fullmatch(LEFT, words[0]) and re.fullmatch(r"slackline: rank 1.*\b9\b.*; .*\b1\b.*\b3\b.* 0.5 s", words[1]), error
    assert len(words) == 2 and sorted(hosts.called()[5:]) == ["a", "a", "c", "c"], hosts.called()
    runs.compare("afterwards", run.out)
    print("a failure after leaving: b is not called, the same bits")


def test_better_a_slow_host_than_none(runs, hosts):
    hosts.clear()
    with runs.start("hosts=[a, b, c]", LEAVE) as run:
        run.await_iteration(AT + 5)
        victim = rank_of(run, 1)
        hosts.mark("down", "c")
        kill(victim)
        code, error = run.end(150)
        nothing_left("too few", run)
    assert code == 0, f"exit {code}: {error}"
    words = said(error).splitlines()
    assert re.match("slackline: host c .*: ssh", words[2]), error
    assert re.fullmatch(r"slackline: host b .*\b2\b.*\b1\b.*" + BY_HAND, words[3]), error
    # the order by hand comes again where the newest checkpoint is the one that was written for it
    assert len(words) == 4 or re.match("slackline: warning: host b .*2 ranks", words[4]) and len(words) == 5, error
    assert sorted(hosts.called()[5:8]) == ["a", "b", "c"] and sorted(hosts.called()[8:]) == ["a", "b"], hosts.called()
    result = runs.compare("too few", run.out)
    assert [(event["host"], event["used"]) for event in result.events if event["kind"] == "host"] == [("b", False), ("c", False), ("b", True)]
    print(words[3])


def test_it_stays_out_after_resume(runs, hosts):
    hosts.clear()
    with runs.start("hosts=[a, b, c]", LEAVE) as run:
        run.await_iteration(AT + 2)
        kill(run.process.pid)
        run.process.wait()
        until(lambda: not [pid for pid in run.seen if run.is_own(pid)], 10)
    out, error = run_to_the_end(runs, hosts, "resumed", "hosts=[a, b, c]", LEAVE, resume=True, out=run.out)
    assert re.fullmatch(f"slackline: host b .*: {BY_HAND}\n", said(error)), error
    assert sorted(hosts.called()) == ["a", "c"], hosts.called()
    runs.compare("resumed", out)
    _, error = run_to_the_end(runs, hosts, "anew", "hosts=[a, b, c]", overwrite=True, out=run.out) # another run in the same folder
    assert error == "" and sorted(hosts.called()) == ["a", "b", "c"], (error, hosts.called())
    print("killed, then --resume: b stays out; a new run has it again")


def test_kills_while_it_leaves_change_no_bit(runs, hosts):
    """At any moment from the decision to the next attempt: whoever dies, the bits are the same, and b is out at the end."""
    seed = int(os.environ.get("SL_SEED", random.SystemRandom().randrange(1 << 31)))
    print(f"SL_SEED={seed}", flush=True)
    draw = random.Random(seed)
    hit = []
    for _ in range(6):
        hosts.clear()
        who, wait = draw.choice(["worker", "mpirun", "reaper"]), draw.choice([0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.6])
        never = "checkpoint.every=1000"
        with runs.start("hosts=[a, b, c]", LEAVE, never) as run:
            run.await_iteration(3)
            victim = run.workers().get(1) if who == "worker" else getattr(run, who)()
            folder = os.path.join(run.out, "checkpoints")
            until(lambda: os.path.isdir(folder) and os.listdir(folder) or run.process.poll() is not None, 60)
            time.sleep(wait)
            under_way = [name for name in os.listdir(folder) if name.endswith(".part")]
            was_there = kill(victim)
            run.look()
            code, error = run.end(150)
            nothing_left("killed", run)
        assert code == 0, f"{who} after {wait} s (SL_SEED={seed}): exit {code}: {error}"
        assert re.search(LEFT, error), f"{who} after {wait} s (SL_SEED={seed}): b was not left: {error}"
        result = runs.compare(f"{who} after {wait} s (SL_SEED={seed})", run.out)
        assert not [name for name in checkpoints(run.out) if name.endswith(".part")]
        hit.append(f"{who} {'during the checkpoint' if under_way else 'later' if was_there else 'had ended'}"
                   + (", restarted" if result.kinds("restart") else ""))
    print(f"killed while it leaves: {'; '.join(hit)}: the same bits")


def test_a_kill_during_its_checkpoint_gives_no_order(runs, hosts):
    """All workers, as soon as the part is there: the checkpoint is not whole, so the order is not given."""
    hosts.clear()
    with runs.start("hosts=[a, b, c]", LEAVE, "checkpoint.every=1000") as run:
        run.await_iteration(3)
        victims, folder = list(run.workers().values()), os.path.join(run.out, "checkpoints")
        while run.process.poll() is None and not os.path.exists(os.path.join(folder, f"step-{AT:06d}.part")):
            pass
        for pid in victims:
            kill(pid)
        whole = os.path.exists(os.path.join(folder, f"step-{AT:06d}"))
        code, error = run.end(150)
        nothing_left("its checkpoint", run)
    assert code == 0 and re.search(LEFT, error), f"exit {code}: {error}"
    result = runs.compare("its checkpoint", run.out)
    if not whole: # else the part was renamed before the last of them was dead
        assert result.kinds("restart", "leave", "host")[0] == "restart", result.kinds("restart", "leave", "host")
    print(f"killed during its checkpoint{' (it was whole)' if whole else ''}: the same bits")


def test_a_warning_afterwards_is_obeyed(runs, hosts):
    hosts.clear()
    with runs.start("hosts=[a, b, c]", LEAVE) as run:
        run.await_iteration(AT + 1)
        run.process.send_signal(signal.SIGTERM)
        code, error = run.end()
        nothing_left("warned", run)
    assert code == 1 and re.search(r"slackline: .*SIGTERM\D* \d+\b.*`slackline train .*\n", error), error
    print("warned afterwards: ended, with the command that continues")


def given():
    possible() or skip("namespaces for hosts of their own are not permitted (unshare -u -m)")
    with tempfile.TemporaryDirectory(prefix="slackline-leave-test.") as folder:
        runs = Runs(build, source, folder, ITERATIONS)
        runs.bits()
        yield runs, Hosts(build, folder)


def test_a_host_is_left_with_the_same_bits(runs, hosts):
    leaves(runs, hosts, "[a, b, c]", ["a", "c"])
    leaves(runs, hosts, "[b, 'a:2']", ["a"], "transport=delegated")
    leaves(runs, hosts, "['a:2', 'b:2', 'c:2']", ["a", "c"], "parallel.data=2", microbatches=2)


def test_what_cannot_be_left_is_refused(runs, hosts):
    refused(runs, hosts, "too few slots", r"\b2\b.*\b1\b", "hosts=[a, b]", LEAVE)
    refused(runs, hosts, "no checkpoints", "checkpoint.every", "hosts=[a, b, c]", LEAVE, "checkpoint.every=0")
    refused(runs, hosts, "no hosts", "--hosts", LEAVE)
