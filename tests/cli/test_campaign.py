"""`slackline campaign`: its forms agree with each other and with arithmetic, a published trace is read as it is, errors name
file, line and key, and the same inputs give the same bytes."""
import csv
import io
import json
import os
import re
import xml.etree.ElementTree as xml

from calling import plan, problem, refused, run, write
from runner import expect, has_facts, missing, source

example = os.path.join(source, "examples", "campaign.yaml")


def campaign(*arguments, text=None):
    return plan("campaign", *arguments, text=text)


def rows(answer):
    return {row["strategy"]: row for row in answer["strategies"]}


a = campaign(example, "--problem", problem, "--log")
r = rows(a)


def test_stretches_follow_each_other_and_the_ladder_gains():
    expect(a["format"] == "slackline-campaign-1" and a["iterations"] == int(3600e3 / a["healthy_ms"]), "an hour of healthy iterations")
    healthy = a["iterations"] * a["healthy_ms"] / 1e3
    for name, row in r.items():
        done, now = 0, 0.0
        for s in row["stretches"]:
            expect(s["iteration"] == done and abs(s["start_s"] - now) < 1e-3, f"{name}: stretches follow each other")
            now += s["iterations"] * s["iteration_ms"] / 1e3 if s["iterations"] else s["stands_still_ms"] / 1e3
            done += s["iterations"]
        expect(done == a["iterations"] and abs(now - row["total_s"]) < 1e-2, f"{name}: and add up")
        expect(abs(row["mean_iteration_ms"] - 1e3 * row["total_s"] / done) < 1e-6, f"{name}: mean")
        expect(abs(row["slowdown"] - row["total_s"] / healthy) < 1e-9, f"{name}: slowdown")
        recovered = (r["ignore"]["total_s"] - row["total_s"]) / (r["ignore"]["total_s"] - healthy)
        expect(abs(row["recovered"] - recovered) < 1e-9, f"{name}: recovered")
        expect(row["total_s"] >= r["best in hindsight"]["total_s"], f"{name}: not better than hindsight")
        paid = sum(s["stands_still_ms"] for s in row["stretches"] if not s["iterations"]) / 1e3
        expect(abs(paid - row["costs_s"]) < 1e-6, f"{name}: costs are what it stood still")
    expect(set(r) == {"ignore", "only 1f1b", "adapt", "delegate", "balance", "topology", "restart", "adapt+delegate", "ladder", "best in hindsight"},
           "the strategies")
    expect(r["ladder"]["recovered"] > 0.7, "the ladder brings back most of it")


def test_the_log_tells_each_decision():
    log = "\n".join(r["ladder"]["log"])
    said = [line for row in r["ladder"]["log"] for line in row.splitlines()]
    for facts in ("incident 1 | link 1-2 of replica 0 | 30.00 ms | 0.00 ms | %", "adapt the schedule | 0.05 s | %", "restart without the host | 300 s | %",
                  "change the topology | s", "incident | change the topology | predicted | %"):
        expect(any(not missing(line, facts) for line in said), f"the log says {facts}: {log}")
    expect("log" not in rows(campaign(example, "--problem", problem))["ladder"], "no log unless asked for")


def test_every_form_says_the_same():
    for form in ("text", "json", "csv", "svg"):
        first, second = (run("campaign", example, "--problem", problem, "--format", form, "--log") for _ in range(2))
        expect(first.returncode == 0 and first.stdout and first.stdout == second.stdout, f"{form}: the same bytes again")
    text = run("campaign", example, "--problem", problem).stdout
    for name, row in r.items():
        expect(re.search(rf"^{re.escape(name)} +{row['total_s']:.2f} +{row['mean_iteration_ms']:.3f} +{row['slowdown']:.4f} ", text, re.M), f"{name} in the table")
    lines = list(csv.DictReader(io.StringIO(run("campaign", example, "--problem", problem, "--format", "csv").stdout)))
    expect(len(lines) == sum(len(row["stretches"]) for row in a["strategies"]), "a line a stretch")
    expect(sum(int(line["iterations"]) for line in lines if line["strategy"] == "ladder") == a["iterations"], "all iterations are there")
    svg = xml.fromstring(run("campaign", example, "--problem", problem, "--format", "svg").stdout)
    shown = "".join(svg.itertext())
    expect(all(name in shown for name in r) and has_facts(shown, "iterations per minute"), "a line a strategy")
    out = write("out.json", "")
    expect(run("campaign", example, "--problem", problem, "--format", "json", "--log", "-o", out).stdout == "" and json.load(open(out)) == a, "-o writes the same")
    stats = run("campaign", example, "--problem", problem, "--stats")
    expect(re.fullmatch(r"campaign: [0-9.]+ s, peak memory [0-9.]+ MB\n", stats.stderr), "--stats: time and memory apart from the result")


# last F reaches rank 1 at 25, then F B F B.. of 30 ms each, and rank 0 waits for both ways of every one.
two = write("two.yaml", "pipeline: {ranks: 2, microbatches: 4, times_ms: {F: 10, I: 10, W: 10}}\n")
trace = "first_iteration,last_iteration,links,latency_ms\n10,19,0-1,15\n40,,NIC of one node lost,\n"
name = write("trace.csv", trace)
b = campaign(name, "--problem", two, "--set", "job.iterations=100", "--set", "costs.restart_s=2")


def test_a_published_trace_takes_the_time_of_arithmetic():
    slow = plan("plan", two, "--schedule", "1f1b", "--set", "pipeline.links.default.latency_ms=15")["makespan_ms"]
    expect(plan("plan", two, "--schedule", "1f1b")["makespan_ms"] == 150 and slow > 150, "healthy and slow")
    rb = rows(b)
    expect(abs(rb["ignore"]["total_s"] - (90 * 0.150 + 10 * slow / 1e3 + 2)) < 1e-9, "the timing model's iterations and a restart")
    d = rb["delegate"]  # those that came for the slow link stay for calm_s (10 s, 66 iterations), so they are there when the NIC is lost
    expect(abs(d["total_s"] - (90 * 0.150 + 10 * slow / 1e3 + d["costs_s"])) < 1e-9, "delegates carry decoupled messages as fast")
    expect(abs(d["costs_s"] - 0.05 * (d["applied"]["delegate"] + d["undone"])) < 1e-9 and d["stops"] == 1, "and go on over another NIC")
    expect([(e["at"], e.get("until")) for e in b["events"]] == [(10, 20), (40, None)], "events; the last iteration counts")


same = write("same.yaml", "job: {iterations: 100}\ncosts: {restart_s: 2}\nevents:\n  - {at: 10, until: 20, link: [0, 1], latency_ms: 15}\n  - {at: 40, nic_lost: true}\n")


def test_a_trace_is_the_same_in_every_form_of_file():
    crlf = write("crlf.csv", "\ufeff" + trace.replace("\n", "\r\n"))
    expect(campaign(crlf, "--problem", two, "--set", "job.iterations=100", "--set", "costs.restart_s=2") == b, "line ends and a byte order mark do not matter")
    named = write("named.yaml", "job: {iterations: 100}\ncosts: {restart_s: 2}\ntrace: trace.csv\n")
    expect(campaign(named, "--problem", two) == b, "a campaign file names the same CSV beside it")
    expect(campaign(same, "--problem", two) == b, "and the same events as YAML are the same")
    expect(campaign("-", "--problem", two, text=open(same).read()) == b, "from standard input too")
    expect(campaign(same, "--problem", two, "--set", "pipeline.microbatches=8")["healthy_ms"] == 270, "--set of the problem")
    published = os.path.join(source, "bench", "campaign", "adaptra.csv")
    eight = write("eight.yaml", "pipeline: {ranks: 8, microbatches: 12, communication: batched, times_ms: {F: 10, I: 10, W: 10}}\n")
    c = campaign(published, "--problem", eight, "--set", "job.iterations=1200")
    expect(len(c["events"]) == 18 and c["iterations"] == 1200, "nine events on 17 links, and the NIC")


def test_every_component_has_a_name():
    for event, seen in (("device: [1, 0], slowdown: 2", "device | rank 0 of replica 1"), ("nic: [0, 1], latency_ms: 5", "card | rank 1 of replica 0"),
                        ("host: 1, slowdown: 2", "devices | rank 1 of replica 0 | rank 1 of replica 1"), ("host: 0, network: true, slowdown: 3", "cards | rank 0 of replica 0 | rank 0 of replica 1"),
                        ("replica_link: [1, 0, 1], slowdown: 3", "link | replicas 0-1 | rank 1"), ("link: [0, 1], replica: 1, latency_ms: 5", "link 0-1 of replica 1"),
                        ("stop: true, cost_s: 3", "job")):
        file = write("event.yaml", f"job: {{replicas: 2, iterations: 50, host_devices: 2}}\nevents:\n  - {{at: 10, {event}}}\n")
        lacks = missing(campaign(file, "--problem", two)["events"][0]["seen"], seen)
        expect(not lacks, f"{event} lacks {lacks}")


def test_draws_repeat_and_occur_as_often_as_published():
    drawn = write("drawn.yaml", "job: {replicas: 16, duration_s: 86400, gradient_mb: 1000, ring_gbps: 100}\ndraw: {rates: probes}\nseed: 3\n")
    d = campaign(drawn, "--problem", problem)
    expect(d["drawn"] == len(d["events"]) > 0 and d["seed"] == 3, "events are drawn")
    expect(campaign(drawn, "--problem", problem, "--seed", "3") == d, "the same seed, the same events")
    expect(campaign(drawn, "--problem", problem, "--seed", "4")["events"] != d["events"], "another seed, others")
    expect("seed 3" in run("campaign", drawn, "--problem", problem).stdout, "the seed is printed")
    # 8 hosts, 4 days drawn: 6 of 392 jobs of 80 minutes on one host, 42 of 107 jobs of 5 hours on four
    ops = sum("ops take" in e["seen"] for e in d["events"])
    expect(4 <= ops <= 20 and 8 <= d["drawn"] - ops <= 34, f"about as many as published: {ops} of 8.9, {d['drawn'] - ops} of 19.5")
    expect(campaign(drawn, "--problem", problem, "--set", "draw.compute_per_host_hour=0", "--set", "draw.network_per_host_hour=0")["events"] == [], "none where rates are 0")


def test_wrong_events_are_named_with_line_and_key():
    base = "job: {replicas: 2, iterations: 50}\nevents:\n"
    for event, says in (("{at: 10, until: 5, link: [0, 1], latency_ms: 1}", "bad.yaml:3 | 'until'"),
                        ("{at: 10, link: [0, 2], latency_ms: 1}", "bad.yaml:3 | 'link'"), ("{at: 10, link: [0], latency_ms: 1}", "'link'"),
                        ("{at: 10, link: [1, 1], latency_ms: 1}", "different"), ("{at: 10, link: [0, 1]}", "'slowdown' | 'latency_ms'"),
                        ("{at: 10, device: [2, 0], slowdown: 2}", "bad.yaml:3 | 'device'"), ("{at: 10, device: [0, 0], latency_ms: 2}", "'latency_ms'"),
                        ("{at: 10, device: [0, 0], slowdown: 0.5}", "'slowdown'"), ("{at: 10, device: [0, 0], slowdown: .nan}", "'slowdown'"),
                        ("{at: 10, slowdown: 2}", "link"), ("{at: 10, link: [0, 1], nic: [0, 0], latency_ms: 2}", "link"),
                        ("{at_s: 10, at: 10, link: [0, 1], latency_ms: 2}", "'at'"), ("{link: [0, 1], latency_ms: 2}", "'at'"),
                        ("{at: 10, link: [0, 1], latency_mz: 2}", "'latency_mz'"), ("{at: 10, host: 9, slowdown: 2}", "bad.yaml:3 | 'host' | 0"),
                        ("{at: 10, link: [0, 1], bandwidth_gbps: 2}", "'ring_gbps'"), ("{at: 10, link: [0, 1], replica: 2, latency_ms: 1}", "'replica'"),
                        ("{at: 1, link: [0, 1], latency_ms: 1}\n  - {at_s: 1, link: [0, 1], latency_ms: 1}", "bad.yaml:4"), ("5", "map")):
        refused(2, says, "campaign", write("bad.yaml", base + f"  - {event}\n"), "--problem", two)


def test_wrong_settings_are_named():
    for sets, says in (("job.replicas=0", "'replicas'"), ("job.schedule=none", "'schedule'"), ("job.static=[none]", "'static'"), ("job.gradient_mb=5", "'ring_gbps'"),
                       ("job.duration_s=5", "'iterations'"), ("costs.restart_s=-1", "'restart_s'"), ("ladder.calm=1", "'calm'"), ("draw={}", "'duration_s'"),
                       ("trace=absent.csv", "absent.csv"), ("job.replicas=1000000", "positions"), ("pipeline.ranks=0", "'ranks'")):
        refused(2, says, "campaign", same, "--problem", two, "--set", sets)


def test_wrong_traces_are_named_with_line_and_column():
    for body, says in (("", "empty"), ("a,b\n", "bad.csv:1 | column | 'a'"), ("first_iteration,links\n", "bad.csv:1 | last_iteration | latency_ms"),
                       (trace.replace("0-1", "0-2"), "bad.csv:2 | 'links' | 0-2"), (trace.replace("0-1", "x"), "bad.csv:2 | 'links' | pairs"),
                       (trace.replace("10,19", "19,10"), "bad.csv:2 | 'last_iteration'"), (trace.replace(",15", ",-1"), "bad.csv:2 | 'latency_ms'"),
                       (trace.replace(",15", ","), "bad.csv:2 | 'latency_ms'"), (trace.replace(",15", ",nan"), "bad.csv:2 | 'latency_ms'"),
                       (trace.replace(",15", ""), "bad.csv:2 | 3"), (trace.replace(",15", ",15,1"), "bad.csv:2"),
                       (trace.replace("10,", "1e1,", 1), "bad.csv:2 | 'first_iteration'"), (trace.replace("15", "1\0"), "zero")):
        refused(2, says, "campaign", write("bad.csv", body), "--problem", two)


def test_wrong_requests_are_refused():
    refused(2, "--problem", "campaign", same)
    refused(2, "'--problem'", "campaign", same, "--problm", two)
    refused(2, "--format", "campaign", same, "--problem", two, "--format", "xml")
    refused(2, "TRACE", "campaign", "--problem", two)
    refused(2, "--seed", "campaign", same, "--problem", two, "--seed", "x")
    refused(2, "no-such", "campaign", "no-such.yaml", "--problem", two)
    expect("Example: slackline campaign" in run("campaign", "--help").stdout, "--help")
