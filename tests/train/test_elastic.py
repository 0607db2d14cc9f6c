"""A run that loses a host without a spare goes on with fewer ranks, and with all of them when the host is back: each iteration is made
once, with the samples of an undisturbed run and its losses. test_elastic_random.py draws many more losses and returns."""
import re

from elastic import Elastic, await_layouts, await_more
from runner import build, skip, source
from test_restart import nothing_left, said
from test_restart_hosts import possible
from training import until

possible() or skip("namespaces for hosts of their own are not permitted (unshare -u -m)")
FIXED = ("elastic.test_every_s=0.3", "restarts=2")


def lost_and_back(elastic, name, hosts, smaller, full, *layout, bits):
    with elastic.start(hosts, *layout) as run:
        run.await_iteration(12)
        assert elastic.lose(run, "b") > 0, "no rank was on b"
        await_layouts(run, smaller)
        until_started(run, 2)
        await_more(run, 3)
        elastic.give_back("b")
        await_layouts(run, smaller, full)
        code, error = run.end(120)
        nothing_left(name, run)
    assert code == 0, f"{name}: exit {code}: {error}"
    result, worst = elastic.compare(name, run.out, *layout, bits=bits)
    kinds = result.kinds("restart", "host", "layout", "resumed", "resized", "grow", "end")
    assert kinds == ["restart", "host", "layout", "resumed", "resized", "grow", "host", "layout", "resumed", "resized", "end"], kinds
    check_events(result, error)
    print(f"{name}: lost and back, losses at most {worst:.1e} apart; {[event['decided'] for event in result.events if event['kind'] == 'resized']}")


def until_started(run, count):
    assert until(lambda: len(run.events("start")) == count, 60), f"{len(run.events('start'))} starts"


def check_events(result, error):
    """What was lost, where it went on, what was repeated: only work since the checkpoint, and none when it grows."""
    lost, back = [event for event in result.events if event["kind"] == "layout"]
    assert lost["ranks"] < lost["ranks_before"] == back["ranks"] and back["ranks_before"] == lost["ranks"], (lost, back)
    assert re.search(r"\bb \(.*No route to host", lost["why"]) and re.search(r"\bb\b", back["why"]), (lost, back)
    down, up = [event for event in result.events if event["kind"] == "host"]
    assert (down["host"], down["used"], up["host"], up["used"]) == ("b", False, "b", True), (down, up)
    first, second = [event for event in result.events if event["kind"] == "resized"]
    resumed = [event["iteration"] for event in result.events if event["kind"] == "resumed"]
    assert [first["from_iteration"], second["from_iteration"]] == resumed, (first, second, resumed)
    assert resumed[0] % 10 == 0 and first["repeated"] == lost["iteration"] - resumed[0], (first, lost)
    assert second["repeated"] == 0 and back["iteration"] == resumed[1], (second, back)
    assert all(float(event["took_ms"]) > 0 for event in (first, second))
    assert len(said(error).splitlines()) == 5, error # rank killed, b left out, fewer, b used again, all


def test_a_lost_replica_and_its_return(folder):
    lost_and_back(Elastic(build, source, folder, 90, 4, FIXED), "replica", "['a:2', 'b:2']", "1x2", "2x2", "parallel.data=2", bits=False)
