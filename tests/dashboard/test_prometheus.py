# labels: long
"""A real Prometheus (promtool and the server) with what `slackline dashboard` and `slackline watch --http` export: accepted, scraped
while they work, and every query of examples/grafana-dashboard.json has an answer. Not tried: the board in a real Grafana."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
from dash import Dashboard, command
from folders import Folder
from runner import build, expect, folder, require, source
from waiting import until

require("promtool", "prometheus")
with open(os.path.join(source, "examples", "grafana-dashboard.json")) as file:
    BOARD = json.load(file)
TOKEN = "a-token-for-prometheus"


def fetch(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + token} if token else {})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20) as answer:
        return answer.read().decode()


def check_accepted(text, what):
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0 and not done.stdout and not done.stderr, f"promtool check metrics, {what}: exit {done.returncode} {done.stdout} {done.stderr}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    """A server that scrapes `jobs` (name: (port, token)) every half second."""

    def __init__(self, jobs, name="prometheus"):
        port, path = free_port(), os.path.join(folder, name)
        os.makedirs(path)
        lines = ["global: {scrape_interval: 500ms, scrape_timeout: 400ms}", "scrape_configs:"]
        for name, (at, token) in jobs.items():
            lines += [f"  - job_name: {name}", f"    static_configs: [{{targets: ['127.0.0.1:{at}']}}]"]
            if token:
                lines.append(f"    authorization: {{credentials: {token}}}")
        config = os.path.join(path, "prometheus.yml")
        with open(config, "w") as out:
            out.write("\n".join(lines) + "\n")
        done = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True, timeout=60, check=False)
        expect(done.returncode == 0, f"promtool check config: {done.stdout} {done.stderr}")
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(os.path.join(path, "log"), "w")
        self.process = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={path}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                        stdout=self.log, stderr=self.log)

    def ask(self, where, **parameters):
        try:
            return json.loads(fetch(f"{self.url}/api/v1/{where}?{urllib.parse.urlencode(parameters, doseq=True)}"))["data"]
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError):
                expect(False, f"{where} {parameters}: {error} {error.read().decode()}")
            return None

    def query(self, expression):
        data = self.ask("query", query=expression)
        return data["result"] if data else []

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()


def awaited(holds, what):
    expect(until(holds, 60, 0.2), f"{what}: not within 60 s")


def queries():
    """(panel, query) of the board, each with its variables to be replaced."""
    return [(panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel.get("targets", [])]


def check_queries(server, instances):
    """Grafana replaces $instance by what label_values of the variable's query gives, $__rate_interval and the like by durations."""
    variable = BOARD["templating"]["list"][0]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
    awaited(lambda: set(instances.values()) <= {s[label] for s in server.ask("series", **{"match[]": metric}) or []}, "the variable has every instance as a value")
    answered = {}
    for panel, query in queries():
        for name, instance in instances.items():
            asked = query.replace("$instance", re.escape(instance).replace("\\", "\\\\")).replace("$__rate_interval", "10s").replace("$__range", "60s").replace("$__interval", "1s")
            expect("$" not in asked, f"{panel}: a variable is left: {asked}")
            result = server.query(asked)
            if result:
                answered.setdefault((panel, query), set()).add(name)
            for one in result:
                expect(one["value"][1] != "NaN", f"{panel}: {asked} gives {one}")
    return answered


def check_legends(server, instance):
    """A legend's label is one that the answer has, in at least one series."""
    for panel in BOARD["panels"]:
        for target in panel.get("targets", []):
            wanted = re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))
            result = server.query(target["expr"].replace("$instance", instance))
            for label in wanted:
                expect(not result or label == "replica" or any(label in one["metric"] for one in result), f"{panel['title']}: no series of {target['expr']} has the label {label}")


# ---- what is scraped ----
def trouble(run):
    """A run in which everything has happened that the board asks for: a schedule changed, ranks and links are slow, named and found."""
    run.start()
    run.iterate(12)
    run.event("onset", seen="iterations take 460 ms")
    run.event("suspect", link=[1, 2], decided="link 1-2 x 3.00", seen="iterations take 460 ms")
    run.event("suspect", rank=0, decided="device of rank 0 x 1.50", seen="iterations take 460 ms")
    run.event("verdict", link=[1, 2], decided="link 1-2 x 3.00", seen="iterations take 460 ms")
    run.event("suspect", rank=3, decided="device of rank 3 x 1.50", seen="iterations take 460 ms")
    run.event("swap", link=[1, 2], decided="schedule adaptra")
    run.event("restart", decided="restart 1 of 3")
    run.event("resumed")
    run.event("verdict", link=[1, 2], decided="link 1-2 x 3.00", seen="iterations take 460 ms")
    run.event("suspect", rank=3, decided="device of rank 3 x 1.50", seen="iterations take 460 ms")
    trouble_line(run)


def trouble_line(run):
    line = json.loads(run.line(time=460, phase="slow", schedule="adaptra", slow_links={(0, 1, 2), (0, 2, 1)}, slow_ranks={3}))
    line["validation_loss"] = 3.5
    run.add("metrics.jsonl", json.dumps(line) + "\n")


def start_watch(at):
    """A real job of 2 ranks under watch; None where that cannot be."""
    if not shutil.which("mpicc") or not shutil.which("redis-server") or not os.path.exists(os.path.join(build, "libslackline_probe.so")):
        print("slackline watch is left out: without mpicc, redis-server or the probe")
        return None
    program = os.path.join(folder, "loop")
    subprocess.run(["mpicc", "-O1", "-o", program, os.path.join(source, "tests", "notice", "watch", "loop.c")], check=True)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return subprocess.Popen([command, "watch", "--http", str(at), "--out", os.path.join(folder, "watch"), "--", "mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", "2",
                             program, "100000", "20000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check_scraped(server, run, instances):
    def is_up():
        run.iterate(0)
        found = {one["metric"]["instance"]: one["value"][1] for one in server.query("up")}
        return all(found.get(i) == "1" for i in instances.values())

    awaited(is_up, f"all are scraped: {instances}")
    first = server.query(f'slackline_iterations_total{{instance="{instances["run"]}"}}')
    for _ in range(8):  # it goes on while it is scraped
        trouble_line(run)
        time.sleep(0.4)
    awaited(lambda: float(server.query(f'slackline_iterations_total{{instance="{instances["run"]}"}}')[0]["value"][1]) >= float(first[0]["value"][1]) + 8, "what goes on is scraped")
    if "watch" in instances:
        awaited(lambda: server.query(f'slackline_iteration_healthy_seconds{{instance="{instances["watch"]}"}}') or server.query(f'slackline_iteration_level_seconds{{instance="{instances["watch"]}"}}'),
                "the watched job has a level")
    answered = check_queries(server, instances)
    for panel, query in queries():
        expect("run" in answered.get((panel, query), ()), f"{panel}: no answer of a run to {query}")
    for name in instances:
        if name == "run":
            continue
        mine = [q for q, who in answered.items() if name in who]
        expect(len(mine) >= 5, f"{name} answers {len(mine)} queries: {mine}")
    check_legends(server, instances["run"])
    print(f"{len(queries())} queries of the board; answered: " + ", ".join(f"{name} {sum(name in who for who in answered.values())}" for name in instances))


def test_every_query_has_data_from_a_real_run():
    """A real run of 4 ranks whose link turns slow and recovers: every query of the board has data of its time."""
    if not os.path.exists(os.path.join(build, "slackline-worker")):
        print("the real run is left out: slackline-worker is not built")
        return
    out = os.path.join(folder, "train")
    with Dashboard(out) as d:
        instance = f"127.0.0.1:{d.port}"
        with Prometheus({"train": (d.port, None)}, "real") as server:
            awaited(lambda: server.query("up == 1"), "it is scraped before the run begins")
            begin = time.time()
            run = subprocess.run([command, "train", os.path.join(source, "examples", "slow-link.yaml"), "--out", out, "--set", "iterations=44", "--set", "faults.0.iterations=[14, 30]",
                                  "--set", "validate_every=5"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
            expect(run.returncode == 0, f"the run: {run.stderr}")
            time.sleep(1)
            lacking = []
            for panel, query in queries():
                asked = query.replace("$instance", instance).replace("$__rate_interval", "10s").replace("$__range", "60s").replace("$__interval", "1s")
                data = server.ask("query_range", query=asked, start=begin, end=time.time(), step="1s")
                if not data or not data["result"]:
                    lacking.append((panel, query))
            expect(not [q for _, q in lacking if "slackline_verdict" not in q], f"no data of a real run: {lacking}")
            print(f"a real run: {len(queries()) - len(lacking)} of {len(queries())} queries have data; none for {lacking}")


def test_every_query_has_data_from_made_runs():
    run, port = Folder(os.path.join(folder, "run"), pipeline=4), free_port()
    run.hold()
    trouble(run)
    watch = start_watch(port)
    try:
        with Dashboard(run.path, "--token", TOKEN) as d:
            d.until(lambda s: s["head"]["iteration"] == 12, "the begin")
            check_accepted(fetch(f"http://127.0.0.1:{d.port}/metrics", TOKEN), "slackline dashboard of a run")
            jobs, instances = {"run": (d.port, TOKEN)}, {"run": f"127.0.0.1:{d.port}"}
            if watch:
                with Dashboard(os.path.join(folder, "watch")) as w:
                    w.until(lambda s: s["state"] == "running" and s["links"] and s["head"]["iteration"] > 30, "the watched job runs", 60)
                    check_accepted(w.ask("/metrics")[2], "slackline dashboard of a watch")
                    check_accepted(fetch(f"http://127.0.0.1:{port}/metrics"), "slackline watch")
                    jobs.update(watch=(port, None), watched=(w.port, None))
                    instances.update(watch=f"127.0.0.1:{port}", watched=f"127.0.0.1:{w.port}")
                    with Prometheus(jobs) as server:
                        check_scraped(server, run, instances)
            else:
                with Prometheus(jobs) as server:
                    check_scraped(server, run, instances)
    finally:
        if watch:
            watch.terminate()
            watch.wait(60)
    run.release()


# ---- the board, as far as Grafana's schema says it (kinds/dashboard of its sources, version 36 and later) ----
def test_the_board_keeps_grafanas_schema():
    def is_of(value, kind, where):
        expect(isinstance(value, kind) and not (kind is int and isinstance(value, bool)), f"{where} is {value!r}, not {kind.__name__}")

    for key, kind in {"title": str, "uid": str, "tags": list, "editable": bool, "graphTooltip": int, "schemaVersion": int, "version": int, "panels": list, "templating": dict,
                      "annotations": dict, "links": list, "time": dict, "refresh": str, "timezone": str}.items():
        is_of(BOARD.get(key), kind, key)
    expect(BOARD["id"] is None and BOARD["schemaVersion"] >= 36 and len(BOARD["uid"]) <= 40, "id, schemaVersion, uid")
    inputs = {i["name"]: i for i in BOARD["__inputs"]}
    expect(all(i["type"] == "datasource" and i["pluginId"] == "prometheus" for i in inputs.values()), f"inputs {inputs}")
    required = {(r["type"], r["id"]) for r in BOARD["__requires"]}
    expect(("grafana", "grafana") in required and ("datasource", "prometheus") in required, f"requires {required}")
    expect({("panel", p["type"]) for p in BOARD["panels"]} == {r for r in required if r[0] == "panel"}, "every kind of panel is required, and no other")
    used = set(re.findall(r"\$\{(\w+)\}", json.dumps(BOARD)))
    expect(used == set(inputs), f"the inputs {set(inputs)} are those that are used: {used}")
    for variable in BOARD["templating"]["list"]:
        expect(variable["type"] in ("query", "adhoc", "constant", "datasource", "interval", "textbox", "custom", "system") and variable["hide"] in (0, 1, 2), f"variable {variable['name']}")
    for steps in re.findall(r'"thresholds": ({.*?}\]})', json.dumps(BOARD)):
        steps = json.loads(steps)
        expect(steps["mode"] in ("absolute", "percentage") and steps["steps"][0]["value"] is None and all("color" in s for s in steps["steps"]), f"thresholds {steps}")
    variables = {v["name"] for v in BOARD["templating"]["list"]}
    for panel in BOARD["panels"]:
        where = f"panel {panel.get('title')}"
        for key, kind in {"id": int, "type": str, "title": str, "gridPos": dict, "targets": list, "fieldConfig": dict, "options": dict, "datasource": dict}.items():
            is_of(panel.get(key), kind, f"{where}: {key}")
        is_of(panel["fieldConfig"].get("defaults"), dict, f"{where}: defaults")
        is_of(panel["fieldConfig"].get("overrides"), list, f"{where}: overrides")
        names = [t["refId"] for t in panel["targets"]]
        expect(len(set(names)) == len(names), f"{where}: each query has a letter of its own: {names}")
        for target in panel["targets"]:
            expect(target["datasource"] == {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}, f"{where}: {target['datasource']}")
            expect(set(re.findall(r"\$(?!__)(\w+)", target["expr"])) <= variables, f"{where}: variables of {target['expr']}")
    for a in BOARD["panels"]:
        for b in BOARD["panels"]:
            x, y = a["gridPos"], b["gridPos"]
            apart = x["x"] + x["w"] <= y["x"] or y["x"] + y["w"] <= x["x"] or x["y"] + x["h"] <= y["y"] or y["y"] + y["h"] <= x["y"]
            expect(a is b or apart, f"panels {a['title']} and {b['title']} do not lie on each other")
