# labels: long
"""What an elastic run cannot do ends with a sentence: a layout that no slots are left for, one that needs more memory than a rank has, a
run file without hosts. A run in a smaller layout can be warned, interrupted, and resumed."""
import os
import re
import signal
import subprocess

from elastic import Elastic, await_layouts, await_more
from runner import build, skip, source
from test_elastic import lost_and_back
from test_restart import nothing_left
from test_restart_hosts import possible
from training import Result, arguments, kill, until

possible() or skip("namespaces for hosts of their own are not permitted (unshare -u -m)")
AT_ONCE = 2
FIXED = ("elastic.test_every_s=0.3", "restarts=3")


def lose_b(elastic, hosts, *settings, at=12):
    run = elastic.start(hosts, *settings)
    run.await_iteration(at)
    assert elastic.lose(run, "b") > 0, "no rank was on b"
    return run


def test_a_pipeline_with_fewer_ranks_and_its_return(folder):
    """As many replicas: every bit stays."""
    lost_and_back(Elastic(build, source, folder, 150, 4, ("elastic.test_every_s=0.3", "restarts=2")), "pipeline", "[a, b]", "1x1", "1x2", bits=True)


def test_too_few_slots_end_the_run(folder):
    elastic = Elastic(build, source, folder, 80, 4, FIXED)
    with lose_b(elastic, "[a, b]", "elastic.min_pipeline=2") as run:
        code, error = run.end(60)
        nothing_left("too few slots", run)
    last = error.splitlines()[-1]
    assert code == 1 and re.search(r"1 replica of 2 pipeline ranks\D*2 slots\D* 1 \D*\bb \(ssh: .*No route to host\)", last), error
    print(last)


def test_too_little_memory_ends_the_run(folder):
    """One rank with all layers needs twice the memory of one of two."""
    elastic = Elastic(build, source, folder, 80, 4, FIXED)
    most = max(rank["measured_bytes"] for rank in elastic.undisturbed().summary["memory"])
    with lose_b(elastic, "[a, b]", f"device.memory_mb={1.3 * most / 1e6}") as run:
        code, error = run.end(60)
        nothing_left("too little memory", run)
    last = error.splitlines()[-1]
    assert code == 1 and re.search(r"1 replica of 1 pipeline rank: .*device\.memory_mb", last), error
    print(last)


def test_wrong_requests_are_refused(folder):
    elastic = Elastic(build, source, folder, 80, 4)
    for given, words in ((["elastic=true"], "'elastic' needs a list of hosts"),
                         (["elastic=true", "hosts=[a]", "checkpoint.every=0"], "'elastic' needs checkpoints"),
                         (["elastic.min_pipeline=2", "hosts=[a]"], "hosts have 1 slots, but .* needs 2 slots")):
        out = elastic.runs.out()
        done = subprocess.run(arguments(build, elastic.runs.file, out, given), capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and re.search(words, done.stderr) and done.stderr.count("\n") == 1, f"{given}: exit {done.returncode}: {done.stderr}"
        assert not os.path.exists(out), f"{given}: made a folder"


def test_a_list_that_is_too_short_is_enough(folder):
    """Fewer slots than the run has ranks, from the beginning."""
    elastic = Elastic(build, source, folder, 40, 1, FIXED)
    with elastic.start("[a, b, c]", "parallel.data=2") as run:
        code, error = run.end(60)
    assert (code, error) == (0, ""), error
    elastic.compare("too short", run.out, "parallel.data=2")


def test_a_smaller_run_is_warned_killed_and_resumed(folder):
    elastic = Elastic(build, source, folder, 150, 4, FIXED)
    layout = ("parallel.data=2",)
    with lose_b(elastic, "['a:2', 'b:2']", *layout) as run:
        await_layouts(run, "1x2")
        until(lambda: len(run.events("start")) == 2, 60)
        await_more(run, 2)
        run.process.send_signal(signal.SIGTERM)
        code, error = run.end(60)
        nothing_left("warned", run)
    assert code == 1 and re.search(r"SIGTERM after iteration \d+; `.*--resume`", error.splitlines()[-1]), error
    with elastic.start("['a:2', 'b:2']", *layout, out=run.out, resume=True) as again: # b is down: found out by its start
        until(lambda: len(again.events("layout")) == 2, 60)
        until(lambda: len(again.events("start")) == 3, 60)
        await_more(again, 2)
        kill(again.process.pid)
        again.process.wait()
        nothing_left("killed", again)
    elastic.give_back("b")
    with elastic.start("['a:2', 'b:2']", *layout, out=run.out, resume=True) as last:
        code, error = last.end(60)
        nothing_left("resumed", last)
    assert (code, error) == (0, ""), error
    elastic.compare("warned, killed, resumed", run.out, *layout)
    assert len(Result(run.out).events) > 0


def test_a_return_in_a_test_that_never_answers_delays_nothing(folder):
    """The test of a silent host takes 30 s; the run ends meanwhile, and the test with it."""
    elastic = Elastic(build, source, folder, 80, 4, FIXED)
    with lose_b(elastic, "[a, b]") as run:
        await_layouts(run, "1x1")
        elastic.give_back("b")
        elastic.hosts.mark("silent", "b")
        code, error = run.end(25)
        nothing_left("silent", run)
    assert code == 0, error
    elastic.compare("silent", run.out, bits=True)
