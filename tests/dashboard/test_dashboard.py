# labels: long
"""`slackline dashboard DIR` without a browser: a folder is followed whatever happens to it, who may ask and what is answered,
readers who are slow, lost or back, and the metrics."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree

sys.dont_write_bytecode = True
from dash import Dashboard, Stream, command
from folders import Folder
from runner import expect, folder, has_facts, missing, source


def place(name):
    return os.path.join(folder, name)


def refused(code, says, *words):
    done = subprocess.run([command, "dashboard", *words], capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == code and not missing(done.stderr, says) and done.stderr.count("\n") == 1 and done.stdout == "",
           f"{words}: exit {done.returncode}, printed {done.stdout!r}, said {done.stderr!r}, not {says!r}")


# ---- a folder that comes later, grows, ends ----
def test_a_folder_is_followed_from_before_its_start_to_its_end():
    path = place("run")
    with Dashboard(path) as d:
        d.until(lambda s: s["state"] == "waiting" and has_facts(s["why"], "not there"), "a folder that is absent is waited for")
        os.mkdir(path)
        d.until(lambda s: s["state"] == "waiting" and has_facts(s["why"], "nothing of a run"), "an empty folder is waited for")
        run = Folder(path, pipeline=4)
        run.hold()
        d.until(lambda s: s["state"] == "starting", "a run that has written nothing is starting")
        run.start()
        run.iterate(12)
        state = d.until(lambda s: s["state"] == "running" and s["head"]["iteration"] == 11, "iterations are followed")
        expect(state["setup"]["pipeline"] == 4 and state["setup"]["microbatches"] == 12 and state["setup"]["iterations"] == 1000, f"setup {state['setup']}")
        expect(len(state["ranks"]) == 4 and len(state["links"]) == 6, f"{len(state['ranks'])} ranks, {len(state['links'])} links")
        expect(all(r[3] == 1 for r in state["ranks"]) and all(link[8] == 1 for link in state["links"]), "all healthy")
        expect(380 < state["head"]["healthy"] < 420 and state["head"]["schedule"] == "1f1b", f"head {state['head']}")
        half = run.line()
        run.add("metrics.jsonl", half[:100])
        time.sleep(0.6)
        expect(d.state()["head"]["iteration"] == 11 and d.state()["head"]["damaged"] == 0, "half a line is waited for")
        run.add("metrics.jsonl", half[100:])
        d.until(lambda s: s["head"]["iteration"] == 12, "the rest of a line makes it whole")
        run.event("suspect", link=[1, 2], decided="link 1-2 x 3.00", seen="iterations take 460 ms")
        run.iterate(3, time=460, phase="slow", slow_links={(0, 1, 2), (0, 2, 1)}, slow_ranks={3})
        state = d.until(lambda s: s["head"]["iteration"] == 15 and s["suspects"], "trouble is seen")
        healths = {(link[1], link[2]): link[8] for link in state["links"]}
        expect(healths[1, 2] == 3 and healths[2, 1] == 3 and healths[0, 1] == 1, f"links {healths}: 3 is suspect")
        expect(state["ranks"][3][1] > 1.3 * state["ranks"][3][2] and state["ranks"][3][3] == 1, f"a rank that takes half longer is shown so, and nobody is named by the page: {state['ranks']}")
        expect(state["head"]["slow"] == 1 and 380 < state["head"]["healthy"] < 420, "healthy stays what it was")
        run.event("verdict", link=[1, 2], decided="link 1-2 x 3.00", seen="iterations take 460 ms")
        run.event("swap", link=[1, 2], decided="schedule adaptra", why="it pays")
        run.iterate(3, time=420, phase="adapted", schedule="adaptra")
        state = d.until(lambda s: s["head"]["schedule"] == "adaptra", "the schedule is the one that runs")
        expect(state["head"]["since"] == 16 and state["head"]["swaps"] == 1, f"since {state['head']['since']}")
        expect([w["verdict"] for w in state["suspects"]] == [1], f"a verdict takes its suspect's place: {state['suspects']}")
        expect([e["kind"] for e in state["events"]] == ["start", "suspect", "verdict", "swap"], "events in order")
        run.event("relief", seen="links and ops are back")
        run.iterate(2, phase="relieved")
        run.add("decisions.txt", "12.0 s: considered <b>this</b>\n")
        state = d.until(lambda s: not s["suspects"] and s["lines"], "relief clears who was named; decisions are shown")
        run.event("end")
        run.write("summary.json", "{}")
        run.release()
        state = d.until(lambda s: s["state"] == "ended", "the end is said")
        expect(state["head"]["iteration"] == 20 and len(state["rows"]) == 21, "what was shown stays")

        run = Folder(path, pipeline=2, seed=2)  # another run begins anew, and is longer at once than what was read
        run.hold()
        run.start("zb-h1")
        run.iterate(60, schedule="zb-h1")
        state = d.until(lambda s: s["head"]["iteration"] == 59, "a run that begins anew is another one")
        expect([r[0] for r in state["rows"]] == list(range(60)) and state["head"]["schedule"] == "zb-h1", f"{len(state['rows'])} rows of the new run alone")
        expect(len(state["ranks"]) == 2 and [e["kind"] for e in state["events"]] == ["start"], "nothing of the old one")
        lines = open(place("run/metrics.jsonl")).read().splitlines(True)
        with open(place("run/m"), "w") as out:  # as a restart cuts it: replaced by its begin
            out.writelines(lines[:20])
        os.rename(place("run/m"), place("run/metrics.jsonl"))
        run.event("restart", why="rank 1 was killed", decided="restart 1 of 3")
        state = d.until(lambda s: s["head"]["iteration"] == 19, "a restart goes back")
        expect(len(state["rows"]) == 20 and state["state"] == "restarting" and has_facts(state["why"], "rank 1 was killed"), f"{state['state']}: {state['why']}")
        run.iteration = 20
        run.event("resumed")
        run.iterate(5)
        d.until(lambda s: s["head"]["iteration"] == 24 and s["state"] == "running", "and goes on")
        run.event("failed", why="rank 0 was killed by signal 9 (after 3 restarts)")
        run.release()
        state = d.until(lambda s: s["state"] == "failed", "a failure is said")
        expect("signal 9" in state["why"], f"how: {state['why']}")
        shutil.rmtree(path)
        state = d.until(lambda s: s["state"] == "silent", "a folder that goes is said")
        expect(state["head"]["iteration"] == 24, "and what it said last stays")
        run = Folder(path, pipeline=3)
        run.start()
        run.iterate(2)
        state = d.until(lambda s: s["head"]["iteration"] == 1 and len(s["ranks"]) == 3, "another in its place is followed")
        d.until(lambda s: s["state"] == "failed" and has_facts(s["why"], "no end was recorded"), "a run that was killed as a whole is seen")
        expect(d.end() == 0 and d.errors == f"slackline: {path} is not there yet; the page shows it when it is\n", f"SIGTERM: {d.process.returncode} {d.errors}")


def test_hostile_names_stay_text():
    path = place("hostile")
    run = Folder(path, pipeline=2)
    run.hold()
    run.start("<script>alert(1)</script>")
    run.iterate(3)
    run.add("metrics.jsonl", "not json\n[1,2]\n{\"iteration\":\"x\"}\n{\"iteration\":-4}\n\n" + "[" * 100000 + "\n" + "\0\0\n")
    run.add("metrics.jsonl", json.dumps({"iteration": 3, "time_ms": "fast", "links": [{"from": -1, "to": 1e99}, 7, {"from": 0, "to": 99999999, "latency_ms": 1, "transfer_ms": 1}], "work_ms": [None, "x", 1]}) + "\n")
    with open(os.path.join(path, "decisions.txt"), "wb") as out:
        out.write(b"\xff\xfe bytes that are no text\n")
    run.event("verdict", rank=99999999, link=[5, -7], decided="\u2028</script>")
    run.event("verdict", rank=2**31, replica=2**40)
    run.add("metrics.jsonl", run.line().replace('"iteration":3', '"iteration":4'))
    with Dashboard(path) as d:
        d.until(lambda s: s["head"]["iteration"] == 4 and s["head"]["damaged"] == 6, "damaged lines are passed over, and six are counted")
        expect(d.ask("/metrics")[0] == 200, "metrics of it")
        expect(d.end(signal.SIGINT) == 0, "SIGINT ends it well")
    run.release()


def test_what_cannot_be_read_is_named():
    """What is there and cannot be read is named: a file of another kind, and to who may not, a file and a folder that are shut."""
    path = place("unreadable")
    run = Folder(path, pipeline=2)
    run.iterate(3)
    os.mkdir(os.path.join(path, "decisions.txt"))
    with Dashboard(path) as d:
        state = d.until(lambda s: s["head"]["unread"] == "decisions.txt", "a folder where a file should be")
        expect(state["head"]["iteration"] == 2, f"the rest is shown: {state['head']}")
        os.rmdir(os.path.join(path, "decisions.txt"))
        d.until(lambda s: s["head"]["unread"] == "", "and no longer named when it is gone")
        d.end()
    os.chmod(folder, 0o755)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if nobody and not (shutil.which("setpriv") and subprocess.run([*nobody, command, "--version"], capture_output=True, check=False).returncode == 0):
        print("note: root reads everything, and nobody cannot run the command here; what is shut was not tried")
        return
    os.chmod(os.path.join(path, "metrics.jsonl"), 0)
    with Dashboard(path, before=nobody) as d:
        d.until(lambda s: s["head"]["unread"] == "metrics.jsonl", "a file that may not be read")
        os.chmod(path, 0)
        d.until(lambda s: s["state"] == "waiting" and has_facts(s["why"], "cannot be read: Permission denied"), "a folder that may not be entered")
        os.chmod(path, 0o755)
        os.chmod(os.path.join(path, "metrics.jsonl"), 0o644)
        d.until(lambda s: s["head"]["unread"] == "" and s["head"]["iteration"] == 2, "and both again")
        d.end()


# ---- who may ask ----
def test_others_need_a_token():
    path = place("access")
    Folder(path).iterate(1)
    with Dashboard(path) as d:
        expect(re.fullmatch(r"http://127\.0\.0\.1:\d+/", d.url), f"the address is printed: {d.url}")
        code, headers, text = d.ask("/")
        expect(code == 200 and headers["Content-Type"].startswith("text/html") and "default-src 'none'" in headers["Content-Security-Policy"], "the page")
        expect(not re.search(r"(?:src|href)=[\"']?(?!data:)\w*:?//|@import|url\(", text), "the page loads nothing from elsewhere")
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            code, headers, _ = d.ask("/", method)
            expect(code == 405 and headers["Allow"] == "GET, HEAD", f"{method}: {code}")
        for where in ("/", "/metrics", "/state.json", "/events"):
            code, headers, text = d.ask(where, "HEAD")
            expect(code == 200 and text == "", f"HEAD {where}: {code} {text[:40]!r}")
        expect(d.ask("/etc/passwd")[0] == 404 and d.ask("/../run.yaml")[0] == 404, "nothing else is served")
        for host, wanted in (("evil.example", 403), ("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:9465", 200), ("127.0.0.1.evil.example", 403)):
            expect(d.ask("/state.json", headers={"Host": host})[0] == wanted, f"Host {host}: {d.ask('/state.json', headers={'Host': host})[0]}, not {wanted}")
        refused(1, "use", path, "--listen", f"127.0.0.1:{d.port}")
    with Dashboard(path, listen="0.0.0.0:0") as d:
        token = re.fullmatch(rf"http://(?:{re.escape(socket.gethostname())}|127\.0\.0\.1):\d+/\?token=([0-9a-f]{{32}})", d.url)
        expect(token, f"elsewhere than on loopback a token is made: {d.url}")
        token = token[1]
        for where in ("/", "/metrics", "/state.json", "/events"):
            for wrong in ("", "?token=", "?token=" + token[:-1], "?token=" + token + "0", "?token=" + "0" * 32, "?other=" + token):
                code, headers, text = d.ask(where + wrong)
                expect(code == 401 and headers["WWW-Authenticate"] == "Bearer" and token not in text, f"{where}{wrong}: {code}")
            expect(d.ask(where, headers={"Authorization": "Bearer " + "1" * 32})[0] == 401, f"{where}: a wrong bearer")
            expect(d.ask(where, headers={"Authorization": "Basic " + token})[0] == 401, f"{where}: no bearer")
        expect(d.ask("/", "POST")[0] == 401, "who may not ask is told nothing else")
        expect(d.ask("/metrics", headers={"Authorization": "Bearer " + token})[0] == 200, "a bearer may ask")
        code, headers, text = d.ask("/?token=" + token)
        expect(code == 200 and token not in text, "the page does not repeat the token")
        cookie = headers["Set-Cookie"]
        expect("HttpOnly" in cookie and "SameSite=Strict" in cookie, f"cookie {cookie}")
        expect(d.ask("/metrics", headers={"Cookie": cookie.split(";")[0]})[0] == 200, "and a cookie takes its place")
        expect(d.ask("/metrics", headers={"Cookie": cookie.split("=")[0] + "=" + "0" * 32})[0] == 401, "a wrong cookie")
        expect(d.end() == 0, "SIGTERM")
    with open(place("token"), "w") as out:
        out.write("a-token.of_mine~\n")
    with Dashboard(path, "--token", "@" + place("token")) as d:
        expect(d.ask("/state.json")[0] == 401 and d.ask("/state.json?token=a-token.of_mine~")[0] == 200, "a token on loopback, out of a file")
    refused(2, "8 | 128", path, "--token", "short")
    refused(2, "8 | 128", path, "--token", "has blanks in it")
    refused(2, "read", path, "--token", "@" + place("absent"))
    refused(2, "HOST | PORT", path, "--listen", "9000")
    refused(2, "numeric", path, "--listen", "somewhere:9000")
    refused(2, "HOST | PORT", path, "--listen", "127.0.0.1:70000")
    refused(2, "IPv6 | 1] | 9000", path, "--listen", "::1:9000")
    if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6") and "00000000000000000000000000000001" in open("/proc/net/if_inet6").read():
        with Dashboard(path, listen="[::1]:0") as d:
            expect(re.fullmatch(r"http://\[::1\]:\d+/", d.url) and d.ask("/state.json")[0] == 200, f"IPv6's own address, without a token: {d.url}")
            refused(1, f"[::1]:{d.port} is in use", path, "--listen", f"[::1]:{d.port}")
        with Dashboard(path, listen="[::]:0") as d:
            expect("?token=" in d.url and d.ask("/state.json")[0] == 401, f"and others with one: {d.url}")
    refused(1, "203.0.113.9:0", path, "--listen", "203.0.113.9:0", "--token", "12345678")
    refused(2, "folder", os.path.join(path, "run.yaml"))
    refused(2, "folder")
    refused(2, "both", path, "--redis", "redis://127.0.0.1")
    refused(2, "--job | --redis", path, "--job", "x")
    refused(2, "'--listen'", path, "--listn", "x")


# ---- readers ----
def test_readers_are_told_every_iteration():
    path = place("readers")
    run = Folder(path, pipeline=4)
    run.hold()
    run.start()
    run.iterate(5)
    with Dashboard(path) as d:
        d.until(lambda s: s["head"]["iteration"] == 4, "the begin")
        readers = [Stream(d) for _ in range(5)]
        for r in readers:
            r.until(lambda e: len(e) > 0, "everything comes first")
            expect(r.events[0][1] == "state" and len(r.events[0][2]["rows"]) == 5, "first everything")
        expect("text/event-stream" in readers[0].head, f"head {readers[0].head}")
        run.iterate(2)
        for r in readers:
            r.until(lambda e: e[-1][2]["head"]["iteration"] == 6, "what changes comes to all")
            expect([e[1] for e in r.events[1:]] == ["change"] * (len(r.events) - 1), "as changes")
            seen = [row[0] for e in r.events for row in e[2]["rows"]]
            expect(seen == list(range(7)), f"each iteration once: {seen}")
        last = readers[0].events[-1][0]
        readers[0].close()
        run.iterate(3)
        readers[1].until(lambda e: e[-1][2]["head"]["iteration"] == 9, "others go on")
        back = Stream(d, last=last)
        back.until(lambda e: e and e[-1][2]["head"]["iteration"] == 9, "who comes back goes on")
        expect(back.events[0][1] == "change" and [r[0] for e in back.events for r in e[2]["rows"]] == [7, 8, 9], f"where he was: {[e[:2] for e in back.events]}")
        for strange in ("00000000-1", "x", last.split("-")[0] + "-99999999", "-1", "%" * 50):
            one = Stream(d, last=strange)
            one.until(lambda e: len(e) > 0, "a strange place")
            expect(one.events and one.events[0][1] == "state", f"who was elsewhere ({strange}) gets everything")
            one.close()
        for r in readers[1:] + [back]:
            r.close()
        expect(d.end() == 0, "it ends while readers are there")
    run.release()


def test_readers_who_come_late_are_told_each_iteration_once():
    """Readers who come while much is being read are told each iteration once."""
    path = place("once")
    run = Folder(path, pipeline=125, data=8)
    run.hold()
    run.start()
    run.iterate(100)
    for _ in range(3):
        with Dashboard(path) as d:
            readers = []
            for _ in range(25):
                readers.append(Stream(d))
                for r in readers:
                    r.read(0)
                time.sleep(0.02)
            for r in readers:
                r.until(lambda e: e and e[-1][2]["head"]["iteration"] == 99, "the last comes to all")
                seen = []
                for _, name, data in r.events:
                    seen = ([] if name == "state" else seen) + [row[0] for row in data["rows"]]
                expect(seen == list(range(100)), f"each iteration once: {seen}")
                r.close()
            d.end()
    run.release()


def test_the_newest_recorded_iteration_is_drawn():
    """The newest recorded iteration as a picture, also of a file that is long, half written or none."""
    path = place("gantt")
    run = Folder(path, pipeline=2)

    def picture(d, holds, what):
        end = time.monotonic() + 60
        while True:
            code, headers, text = d.ask("/gantt.svg?at=5")
            tree = xml.etree.ElementTree.fromstring(text)
            expect(code == 200 and headers["Content-Type"] == "image/svg+xml" and tree.tag.endswith("svg") and "default-src 'none'" in headers["Content-Security-Policy"], f"{what}: {code}")
            words = " ".join(tree.itertext())
            if holds(words) or time.monotonic() > end:
                return expect(holds(words), f"{what}: {words[:300]}")
            time.sleep(0.1)

    with Dashboard(path) as d:
        picture(d, lambda t: t.strip() and not re.search(r"iteration \d|F", t), "a run without a timeline")
        run.write("timeline.json", run.record(0) + run.record(1, begin=False) + run.record(2, begin=False)[:150])
        picture(d, lambda t: "iteration 1" in t and "F" in t, "the newest whole one")
        run.add("timeline.json", run.record(2, begin=False)[150:] + "]}\n")
        picture(d, lambda t: "iteration 2" in t, "the next one")
        run.write("timeline.json", run.record(0) + "".join(run.record(i, begin=False, microbatches=300) for i in range(1, 70)) + "]}\n")
        expect(os.path.getsize(place("gantt/timeline.json")) > 18e6, "more than is read of it")
        picture(d, lambda t: "iteration 69" in t, "the newest of a large file")
        run.write("timeline.json", run.record(0) + run.record(1, begin=False, microbatches=30000) + "]}\n")
        picture(d, lambda t: "too large" in t, "an iteration that is too large")
        run.write("timeline.json", "no json\n" * 100)
        picture(d, lambda t: "No iteration can be read" in t, "another file of that name")
        expect(d.end() == 0, "SIGTERM")


def test_a_slow_reader_costs_only_its_place():
    """A reader who takes nothing costs nothing but his place: others hear all in time, and memory stays as it is."""
    path = place("many")
    run = Folder(path, pipeline=125, data=8)
    run.hold()
    run.start()
    run.iterate(12)
    with Dashboard(path) as d:
        d.until(lambda s: s["head"]["iteration"] == 11, "the begin", 60)
        slow = [Stream(d, buffer=4096) for _ in range(20)]
        good = Stream(d)
        good.until(lambda e: len(e) > 0, "everything")
        before = d.memory()
        for i in range(60):  # 16 KB and more each time
            run.iterate(1, slow_ranks=set(range(0, 1000, 2)) if i % 2 else ())
            wanted = run.iteration - 1
            good.until(lambda e: e[-1][2]["head"]["iteration"] == wanted, f"iteration {wanted} comes to others")
        sent = sum(len(json.dumps(e[2])) for e in good.events)
        grown = d.memory() - before
        expect(sent > 1e6, f"much was said: {sent}")
        expect(grown < 24e6, f"memory grew by {grown / 1e6:.1f} MB while {sent / 1e6:.1f} MB were said to a reader, and not taken by 20 others")
        for s in slow[:3]:  # they were behind by far: ended, or given everything as it is
            for _ in range(400):
                if s.ended:
                    break
                s.read(0.05)
            told = [e[2]["head"]["iteration"] for e in s.events]
            expect(told == sorted(told), f"a slow reader's iterations go forward: {told[-5:]}")
            s.close()
        for s in slow[3:] + [good]:
            s.close()
        silent = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(30)]  # who says nothing
        expect(d.ask("/state.json")[0] == 200, "silent connections keep nobody out")
        for s in silent:
            s.close()
        expect(d.end() == 0, "SIGTERM")
    run.release()


# ---- metrics ----
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})? (-?[0-9.e+-]+|NaN)$')


def parse_metrics(text):
    """As Prometheus reads it: samples behind the TYPE of their name, each series once."""
    types, found = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            expect(name not in types and kind in ("gauge", "counter"), f"{line}")
            types[name] = kind
        elif not line.startswith("#"):
            match = SAMPLE.match(line)
            expect(match, f"no sample: {line!r}")
            if match:
                key = (match[1], match[2] or "")
                expect(match[1] in types and key not in found, f"twice, or without a type: {line}")
                found[key] = float(match[3])
    return types, found


def test_metrics_are_as_prometheus_reads_them():
    path = place("metrics")
    run = Folder(path, pipeline=3, data=2)
    run.hold()
    run.start('odd "name"\\')
    run.iterate(12, schedule='odd "name"\\')
    run.event("verdict", link=[0, 1], replica=1, decided="link 0-1 x 2", seen="x")
    run.event("verdict", link=[0, 1], replica=1, decided="link 0-1 x 3", seen="x")
    with Dashboard(path) as d:
        d.until(lambda s: s["head"]["iteration"] == 11 and s["suspects"], "the begin")
        code, headers, text = d.ask("/metrics")
        expect(code == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), "as Prometheus wants it")
        types, found = parse_metrics(text)
        last = json.loads(open(os.path.join(path, "metrics.jsonl")).read().splitlines()[-1])
        expect(abs(found["slackline_iteration_seconds", ""] - last["time_ms"] / 1e3) < 1e-8, "iteration time in seconds")
        expect(found["slackline_iterations_total", ""] == 12 and found["slackline_ranks", ""] == 6, "counts")
        expect(found["slackline_state", '{state="running"}'] == 1 and found["slackline_state", '{state="ended"}'] == 0, "state")
        expect(abs(found["slackline_rank_seconds", '{rank="2",replica="1"}'] - last["work_ms"][5] / 1e3) < 1e-6, "a rank of a replica")
        expect(found["slackline_verdict", '{component="link",from="0",to="1",replica="1"}'] == 1, "a verdict")
        expect(abs(found["slackline_loss", ""] - last["loss"]) < 1e-6, "loss")
        expect(sum(v for (n, _), v in found.items() if n == "slackline_links_by_health") == 8, "links in each state")
        check_board(types)
        text = open(os.path.join(source, "docs", "dashboard.md")).read()
        for name in types:
            expect(f"`{name}" in text, f"docs/dashboard.md does not name {name}")
    run.release()


def check_board(types):
    """The example board for Grafana asks for metrics that are told, all of them by a run or by a watch, and for labels that they have."""
    with open(os.path.join(source, "examples", "grafana-dashboard.json")) as file:
        board = json.load(file)
    with open(os.path.join(source, "src", "notice", "watch", "watch_metrics.c")) as file:
        watched = set(re.findall(r'"(slackline_\w+)", "(?:gauge|counter)"', file.read()))
    asked = [t["expr"] for p in board["panels"] for t in p.get("targets", [])]
    names = set(re.findall(r"slackline_\w+", " ".join(asked)))
    expect(len(names) >= 10, f"it asks for {len(names)} metrics")
    expect(names <= set(types) | watched, f"not told: {names - set(types) - watched}")
    expect(len(names & set(types)) >= 8, "most are told by a run")
    for key in ("title", "uid", "schemaVersion", "panels", "templating", "time"):
        expect(key in board, f"Grafana imports boards with {key}")
    expect(board.get("id") is None and "__inputs" in board, "it is for import: no id, and the data source is asked for")
    ids = [p["id"] for p in board["panels"]]
    expect(len(set(ids)) == len(ids), "each panel has its number")
    for p in board["panels"]:
        at = p["gridPos"]
        expect(0 <= at["x"] and at["x"] + at["w"] <= 24, f"panel {p['title']} is within 24 columns")
