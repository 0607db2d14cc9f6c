# labels: long
"""`slackline dashboard DIR` of a folder that `slackline watch --out DIR` writes: ranks, links and iterations while the program runs
and when it has ended, as by Redis; of 1,000 ranks as watch.json tells of them; another watch or a run in the same folder."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from dash import Dashboard, Stream, command
from folders import Folder
from runner import build, expect, folder, has_facts, source


def start_watch(program, out, *words):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return subprocess.Popen([command, "watch", "--http", "off", "--out", out, "--overwrite", "--", "mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", "3", program, *words],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def check_shown(state, when):
    expect(state["cluster"] == 1 and len(state["ranks"]) == 3, f"{when}: ranks {state['ranks']}")
    expect(all(r[3] == 1 and 15 < r[1] < 500 and r[5] > 0 for r in state["ranks"]) and len(state["hosts"]) == 1, f"{when}: each with its iteration, host and process: {state['ranks']}")
    expect({(link[1], link[2]) for link in state["links"]} == {(0, 1), (1, 2), (2, 0)}, f"{when}: who sends to whom: {state['links']}")
    expect(all(link[9] > 0 and link[10] == 8 * link[9] and link[6] > 0 and link[8] == 1 for link in state["links"]), f"{when}: messages of 8 bytes: {state['links']}")
    numbers = [row[0] for row in state["rows"]]
    expect(numbers == sorted(set(numbers)) and len(numbers) > 20 and all(row[1] is None or row[1] > 15 for row in state["rows"]), f"{when}: iterations, those that were held without a time: {state['rows'][:5]}")
    expect(state["head"]["period"] == 2 and state["head"]["nodes"] == 1 and "loop" in state["setup"]["program"], f"{when}: head {state['head']} {state['setup']}")


def test_a_real_watch_is_followed_to_its_end():
    missing = [what for what, here in (("mpicc", shutil.which("mpicc")), ("redis-server", shutil.which("redis-server")),
                                       ("the probe", os.path.exists(os.path.join(build, "libslackline_probe.so")))) if not here]
    if missing:
        print(f"the real watch is skipped: without {', '.join(missing)}")
        return
    program, out = os.path.join(folder, "loop"), os.path.join(folder, "watch")
    subprocess.run(["mpicc", "-O1", "-o", program, os.path.join(source, "tests", "notice", "watch", "loop.c")], check=True)
    with Dashboard(out) as d:
        d.until(lambda s: s["state"] == "waiting", "the folder is waited for")
        watch = start_watch(program, out, "400", "20000", "5")
        d.until(lambda s: s["state"] == "running" and s["head"]["iteration"] > 40, "the watch is followed", 60)
        state = d.until(lambda s: s["links"] and all(link[9] > 0 for link in s["links"]) and len(s["links"]) == 3, "a profile shows who sends to whom")
        check_shown(state, "while it runs")
        expect(watch.poll() is None, "which was seen before its end")
        text = d.ask("/metrics")[2]
        for line in ('slackline_ranks_by_health{health="ok"} 3', "slackline_nodes 1", "slackline_period_calls 2", "slackline_store_connected 1", 'slackline_rank_seconds{rank="2"} '):
            expect(line in text, f"metrics have {line}")
        seen = {d.state()["head"]["iteration"]}
        while watch.poll() is None:
            seen.add(d.state()["head"]["iteration"])
            time.sleep(0.1)
        expect(len(seen) >= 3, f"it moves on: {sorted(seen)}")
        expect(watch.returncode == 5, f"the watch: {watch.returncode} {watch.stderr.read()}")
        state = d.until(lambda s: s["state"] == "failed" and has_facts(s["why"], "exit code 5"), "its end is said", 20)
        check_shown(state, "when it has ended")
        expect(state["head"]["phase"] == "ended" and state["head"]["iteration"] > 300, f"to the last: {state['head']}")
        expect(d.end() == 0, "SIGTERM")
    expect(not [n for n in os.listdir(out) if n.startswith("watch.json.")], f"nothing half written stays: {os.listdir(out)}")
    with Dashboard(out) as d:  # who comes later
        state = d.until(lambda s: s["state"] == "failed", "a watch that has ended")
        check_shown(state, "later")
        watch = start_watch(program, out, "150", "20000", "0")
        state = d.until(lambda s: s["state"] in ("starting", "running") and s["head"]["iteration"] < 100 and len(s["rows"]) < 100, "another watch in the same folder begins anew", 60)
        watch.wait(120)
        state = d.until(lambda s: s["state"] == "ended", "and ends", 20)
        expect(len(state["rows"]) <= 151 and state["head"]["iteration"] < 150 and len(state["ranks"]) == 3, f"nothing of the former: {state['head']}")
        d.end()


def told(iteration=0, ranks=1000, job="big", **status):
    nodes = [f"node{i:03d}" for i in range(ranks // 8)]
    return {"job": job, "program": "big", "hosts": nodes,
            "status": {"state": "tracking", "slow": False, "nodes": len(nodes), "ranks": ranks, "period_calls": 2, "iterations": iteration + 1, "iteration_ms": 100.0, "level_ms": 100.0,
                       "healthy_ms": None, "onset_iteration": None, "suspects": [], "verdicts": [], "calls": 5, "records_lost": 0, "holds": 0, "holds_closed": 0, "held_ms": 0.0,
                       "onsets": 0, "reliefs": 0, "store_connected": True, **status},
            "ranks": [[100.0 + i % 3, i // 8, 1000 + i, 0] for i in range(ranks)],
            "links": [[i, (i + 1) % ranks, 10, 8000, 1.0, 1.0] for i in range(ranks)],
            "iterations": [[i, 100.0] for i in range(max(0, iteration - 1000), iteration + 1)]}


def test_a_thousand_ranks_are_shown():
    path = os.path.join(folder, "thousand")
    run = Folder(path)
    run.hold()
    for name in ("metrics.jsonl", "run.yaml"):
        os.remove(os.path.join(path, name))

    def write(what):
        run.write("watch.json.new", json.dumps(what) if isinstance(what, dict) else what)
        os.rename(os.path.join(path, "watch.json.new"), os.path.join(path, "watch.json"))

    with Dashboard(path) as d:
        write(told(20))
        state = d.until(lambda s: s["state"] == "running" and s["head"]["iteration"] == 20, "1,000 ranks are followed")
        expect(len(state["ranks"]) == 1000 and len(state["hosts"]) == 125 and len(state["links"]) == 1000 and len(state["rows"]) == 21, "ranks, hosts, links, iterations")
        expect(state["hosts"][state["ranks"][999][4]] == "node124" and state["ranks"][999][5] == 1999, f"a rank's place: {state['ranks'][999]}")
        reader = Stream(d)
        reader.until(lambda e: len(e) > 0, "everything")
        write(told(25))
        reader.until(lambda e: [row[0] for c in e for row in c[2]["rows"]] == list(range(26)), "each iteration is told once")
        expect([e[1] for e in reader.events[1:]] == ["change"] * (len(reader.events) - 1), "as changes")
        slow = told(30, slow=True, onset_iteration=27, onsets=1, healthy_ms=100.0, iteration_ms=160.0,
                    verdicts=[{"component": "device", "rank": 13, "measured": 2.0, "expected": 1.0, "why": "computes slower"}],
                    suspects=[{"component": "link", "link": [40, 41], "both": True, "measured": 9.0, "expected": 1.0, "why": "transfers"}])
        slow["links"][70][4] = 5.0
        slow["ranks"][500][3] = 1
        write(slow)
        state = d.until(lambda s: len(s["suspects"]) == 2, "who is named")
        expect(state["ranks"][13][3] == 4, f"a verdict's rank is slow: {state['ranks'][13]}")
        expect(state["ranks"][500][3] == 5, f"a rank that no living node has is gone: {state['ranks'][500]}")
        healths = {(link[1], link[2]): link[8] for link in state["links"]}
        expect(healths[40, 41] == 3 and healths[41, 40] == 3 and healths[70, 71] == 1 and healths[71, 72] == 1, "links: suspect, or nobody has named them")
        write('{"status": {"state"')
        state = d.until(lambda s: s["head"]["unread"] == "watch.json", "a file that cannot be read is said")
        expect(len(state["ranks"]) == 1000 and state["head"]["iteration"] == 30, "and what it said stays")
        write(told(3, ranks=16, job="small"))
        state = d.until(lambda s: len(s["ranks"]) == 16, "another job in its place")
        expect(state["head"]["unread"] == "" and len(state["rows"]) == 4 and len(state["links"]) == 16 and not state["suspects"], f"nothing of the former: {state['head']}")
        run.write("report.json", json.dumps({"exit_code": 0, "program": ["mpirun", "big"], "nodes": 2}))
        gone = told(3, ranks=16, job="small")
        gone["ranks"] = [[*r[:3], 1] for r in gone["ranks"]]
        write(gone)
        run.release()
        state = d.until(lambda s: s["state"] == "ended", "its end")
        expect(all(r[3] == 1 for r in state["ranks"]), f"ranks that ended stay as they were: {state['ranks'][:3]}")
        other = Folder(path, pipeline=4)  # a run is started there
        other.hold()
        other.start()
        other.iterate(5)
        state = d.until(lambda s: s["cluster"] == 0 and s["head"]["iteration"] == 4, "a run in its place")
        expect(len(state["ranks"]) == 4 and len(state["links"]) == 6 and state["setup"]["pipeline"] == 4, f"is shown as a run: {state['setup']} {state['ranks']}")
        other.release()
        expect(d.end() == 0 and d.errors == "", f"SIGTERM: {d.errors}")
