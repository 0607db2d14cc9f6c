# labels: slow
"""50 losses and returns of hosts at random moments, of runs that go on with what is left, down to one rank: each iteration is made once,
with the samples of an undisturbed run, and its loss is within the documented tolerance. SL_SEED repeats a draw, SL_COUNT changes how many."""
import os
import random
import signal
import sys
import time

from elastic import Elastic
from runner import build, skip, source
from test_restart import nothing_left
from test_restart_hosts import possible
from training import until

possible() or skip("namespaces for hosts of their own are not permitted (unshare -u -m)")
seed = int(os.environ.get("SL_SEED", time.time_ns() % 1000000))
count = int(os.environ.get("SL_COUNT", 50))
print(f"SL_SEED={seed} SL_COUNT={count}", flush=True)
draw = random.Random(seed)
HOSTS = "abcd"
LAYOUTS = [("[a, b, c, d]", ("parallel.data=2",)), ("[a, b, c, d]", ("parallel.pipeline=4",)), ("[a, b, c, d]", ("parallel.data=2", "parallel.zero=1")),
           ("['a:2', 'b:2', 'c:2', 'd:2']", ("parallel.data=4",)), ("[a, b, c, d]", ("parallel.pipeline=1", "parallel.data=4"))]


def disturb(elastic, run):
    """A host is lost or comes back; one stays always."""
    lost = [host for host in HOSTS if elastic.down(host)]
    there = [host for host in HOSTS if host not in lost]
    if lost and (len(there) == 1 or draw.random() < 0.5):
        host = draw.choice(lost)
        elastic.give_back(host)
        return f"{host} is back"
    host = draw.choice(there)
    return f"{host} is lost with {elastic.lose(run, host)} ranks"


def survive(elastic, number, hosts, layout):
    """One run to its end; how many losses and returns it had."""
    done = 0
    elastic.undisturbed(*layout)
    with elastic.start(hosts, *layout) as run:
        while True:
            until(lambda: run.process.poll() is not None, draw.uniform(0.2, 4))
            run.look()
            if run.process.poll() is not None:
                break
            print(f"  {disturb(elastic, run)}", flush=True)
            done += 1
        code, error = run.end(60)
        assert code == 0, f"run {number}: exit {code}: {error}"
        nothing_left(f"run {number}", run)
    result, worst = elastic.compare(f"run {number}", run.out, *layout)
    elastic.hosts.clear()
    changes = [event["layout"] for event in result.events if event["kind"] == "layout"]
    print(f"run {number}: {' '.join(layout)}: {done} losses and returns, layouts {' '.join(changes)}, losses at most {worst:.1e} apart", flush=True)
    return done


def test_random_losses_and_returns_keep_samples_and_losses(folder):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    elastic = Elastic(build, source, folder, 150, 8, ("elastic.test_every_s=0.3", "restarts=1000", "checkpoint.every=5"))
    done, number = 0, 0
    order = draw.sample(LAYOUTS, len(LAYOUTS))
    while done < count:
        done += survive(elastic, number + 1, *order[number % len(order)])
        number += 1
    print(f"{done} losses and returns")
