# labels: long
"""`slackline dashboard --redis`: a real job under `slackline watch`, from its first heartbeat to its end; and a job of 1,000 ranks
on 125 nodes, as agents and the watch in charge tell of it."""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from dash import Dashboard, Stream, command
from runner import build, expect, folder, has_facts, skip, source
from store import Store, start_server, url

if not url:
    skip("redis-server is not installed")


def check_thousand():
    store = Store("big")
    nodes = [f"node{i:03d}" for i in range(125)]

    def tell(n, slow=()):
        for i, node in enumerate(nodes):
            store.beat(node, range(8 * i, 8 * i + 8), 1000)
            store.iterations(node, [(r, n, 160.0 if r in slow else 100.0) for r in range(8 * i, 8 * i + 8)])

    with Dashboard("--redis", url) as d:
        d.until(lambda s: s["state"] == "waiting" and has_facts(s["why"], "no job"), "a server without a job is waited for")
        for n in range(6):
            tell(n)
        store.status()
        state = d.until(lambda s: s["state"] == "running" and s["head"]["iteration"] == 9 and len(s["rows"]) >= 6, "a job that begins is followed")
        expect(has_facts(state["source"], "job big") and state["setup"]["program"] == "big", f"it says which: {state['source']}")
        expect(len(state["ranks"]) == 1000 and len(state["hosts"]) == 125, f"{len(state['ranks'])} ranks on {len(state['hosts'])} hosts")
        expect(all(r[3] == 1 for r in state["ranks"]) and state["hosts"][state["ranks"][999][4]] == "node124" and state["ranks"][999][5] == 1999, "each with its host and process")
        reader = Stream(d)
        reader.until(lambda e: len(e) > 0, "everything")
        store.append("events", json.dumps({"time_s": 3.5, "iteration": 9, "kind": "verdict", "rank": 13, "seen": "device of rank 13 x 2.00", "decided": "released"}))
        store.status(slow=True, iterations=12, onset_iteration=9, onsets=1, healthy_ms=100.0, iteration_ms=160.0,
                     verdicts=[{"component": "device", "rank": 13, "measured": 2.0, "expected": 1.0, "why": "computes slower"}],
                     suspects=[{"component": "link", "link": [40, 41], "both": True, "measured": 9.0, "expected": 1.0, "why": "transfers"},
                               {"component": "host", "rank": 17, "measured": 9.0, "expected": 1.0, "why": "every link"}])
        state = d.until(lambda s: len(s["suspects"]) == 3 and s["events"], "suspects, verdicts and events come")
        expect(state["ranks"][13][3] == 4 and [state["ranks"][r][3] for r in range(15, 25)] == [1] + [3] * 8 + [1], "a verdict's rank is slow, a host's ranks are suspect")
        expect(sorted((link[1], link[2], link[8]) for link in state["links"]) == [(40, 41, 3), (41, 40, 3)], f"links {state['links']}")
        reader.until(lambda e: any(c[2]["events"] for c in e[1:]) or any(c[1] == "state" for c in e[1:]), "as they come")
        types = d.ask("/metrics")[2]
        for line in ('slackline_verdict{component="device",rank="13"} 1', 'slackline_suspect{component="link",from="40",to="41"} 1', 'slackline_phase{phase="tracking"} 1',
                     "slackline_nodes 125", 'slackline_ranks_by_health{health="suspect"} 8', "slackline_store_connected 1"):
            expect(line + "\n" in types, f"metrics have {line}")
        for n in range(6, 9):  # all but one node
            for i, node in enumerate(nodes[:-1]):
                store.beat(node, range(8 * i, 8 * i + 8), 1000)
            time.sleep(2)
        state = d.until(lambda s: sum(r[3] == 5 for r in s["ranks"]) == 8, "a node that says nothing is gone", 15)
        expect(all(r[3] == 5 for r in state["ranks"][992:]), "with its ranks")
        store.append("events", b"\0 no json")
        store.append("iterations", b"short")
        store.append("nodes", b"[1]")
        d.until(lambda s: s["state"] == "silent", "a job whose agents all fall silent", 15)
        store.ask("DEL", *(store.name(k) for k in ("nodes", "iterations", "events", "status")))
        store.set("reported", '{"exit_code":3}', 60000)
        state = d.until(lambda s: s["state"] == "failed" and has_facts(s["why"], "exit code 3"), "the end is said")
        expect(len(state["ranks"]) == 1000, "and what was shown stays")
        expect(d.end() == 0, "SIGTERM")
    with Dashboard("--redis", url, "--job", "other") as d:
        d.until(lambda s: has_facts(s["why"], "job other"), "a job that is not there is waited for")


def check_real():
    """The program of the watch's own tests, 2 ranks."""
    if not shutil.which("mpicc") or not os.path.exists(os.path.join(build, "libslackline_probe.so")):
        print("the real job is skipped: no mpicc, or the probe is not built")
        return
    program = os.path.join(folder, "loop")
    subprocess.run(["mpicc", "-O1", "-o", program, os.path.join(source, "tests", "notice", "watch", "loop.c")], check=True)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    with Dashboard("--redis", url) as d:
        watch = subprocess.Popen([command, "watch", "--redis", url, "--http", "off", "--out", os.path.join(folder, "watch"), "--", "mpirun", *root, "--oversubscribe",
                                  "--bind-to", "none", "-np", "2", program, "400", "20000", "5"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        state = d.until(lambda s: s["state"] == "running" and s["head"]["iteration"] > 50 and len(s["rows"]) > 20, "a real job is followed", 60)
        expect(len(state["ranks"]) == 2 and all(r[3] == 1 and r[1] > 15 for r in state["ranks"]), f"both ranks: {state['ranks']}")
        expect(state["head"]["period"] == 2 and state["head"]["nodes"] == 1 and state["setup"]["program"]== program, f"head {state['head']}")
        expect("tracked" in [e["kind"] for e in state["events"]], f"what the controller says: {state['events']}")
        state = d.until(lambda s: len(s["links"]) == 2, "a profile shows who sends to whom")
        expect({(link[1], link[2]) for link in state["links"]} == {(0, 1), (1, 0)} and all(link[9] > 0 and link[10] == 8 * link[9] for link in state["links"]),
               f"each sends doubles to the other: {state['links']}")
        watch.wait(120)
        expect(watch.returncode == 5, f"the watch: {watch.returncode}")
        state = d.until(lambda s: s["state"] == "failed", "its end is said", 20)
        expect(has_facts(state["why"], "exit code 5"), state["why"])
        expect(len(state["rows"]) > 20, "what was shown stays")
        d.end()


def check_other_version():
    """What another version wrote is not shown; the page names both, and both hosts."""
    store = Store("other-version")
    seal = struct.pack("<8s32s64sQQ32s", b"slseal1", b"9.9.9", b"far-away", 1, 1, b"")
    store.set("node:n", "{}", 60000)
    store.ask("XADD", store.name("nodes"), "*", "b", json.dumps({"node": "n"}), "s", seal)
    with Dashboard("--redis", url) as d:
        state = d.until(lambda s: "9.9.9" in s["why"], "another version is told")
        expect(has_facts(state["why"], "slackline 9.9.9 on host far-away") and socket.gethostname() in state["why"] and not state["ranks"], f"as it is: {state['why']}")
        d.end()
    store.ask("DEL", store.name("nodes"), store.name("node:n"))


def check_lost_server(server):
    with Dashboard("--redis", url) as d:
        d.until(lambda s: s["state"] == "waiting", "waits")
        server.terminate()
        server.wait()
        d.until(lambda s: has_facts(s["why"], "does not answer"), "a server that goes is said")
        expect(d.ask("/")[0] == 200, "and the page is served meanwhile")
        again = start_server()
        d.until(lambda s: has_facts(s["why"], "no job"), "one that comes back is used")
        d.end()
    return again


def served(check):
    """With a server of its own."""
    server = start_server()
    try:
        server = check(server) or server
    finally:
        server.terminate()
        server.wait()


def test_a_wrong_url_is_refused():
    done = subprocess.run([command, "dashboard", "--redis", "http://x"], capture_output=True, text=True, timeout=30, check=False)
    expect(done.returncode == 2 and done.stderr.count("\n") == 1, f"a wrong URL is refused: {done.returncode} {done.stderr}")


def test_a_lost_server_is_said_and_one_that_comes_back_used():
    served(check_lost_server)


def test_a_real_job_is_followed_to_its_end():
    served(lambda server: check_real())


def test_a_thousand_ranks_are_shown():
    served(lambda server: check_thousand())


def test_another_version_is_named_and_not_shown():
    served(lambda server: check_other_version())
