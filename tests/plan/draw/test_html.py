"""The page of a plan: whole in itself, its numbers those of the plan's JSON, hostile names mere text."""
import html.parser
import os
import re
import shutil
import subprocess
from collections import Counter
import json

from calling import command, delay, folder, plan, problem, run, write
from runner import expect, missing, source


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the text of each kind of element."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.stack = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.stack.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.stack:
            self.texts.append((self.stack[-1], data))

    def text(self, tag, **attributes):
        return "".join(data for (t, a), data in self.texts if t == tag and all(a.get(k) == v for k, v in attributes.items()))


def page_of(*arguments, text=None):
    done = run(*arguments, "--format", "html", text=text)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    return done.stdout, Page(done.stdout)


def check_alone(text, page, name):
    """Nothing comes from elsewhere: no address, no attribute that loads, and the page forbids itself the rest."""
    expect(not re.search(r"https?:|//[a-z]|url\(|@import|\bfetch\(|XMLHttpRequest|WebSocket|import\(|\beval\(|innerHTML", text), f"{name}: no address, no loading")
    loading = {"src", "href", "srcset", "data", "action", "poster", "background", "ping", "formaction"}
    expect(all(not loading & set(attributes) for _, attributes in page.elements), f"{name}: no element loads anything")
    expect(not {tag for tag, _ in page.elements} & {"link", "iframe", "img", "object", "embed", "base", "form"}, f"{name}: only what the page needs")
    policies = [a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    expect(len(policies) == 1 and "default-src 'none'" in policies[0], f"{name}: the page forbids itself to load")
    expect([tag for tag, _ in page.elements].count("script") == 2, f"{name}: the data and one script")
    expect("@" not in re.sub(r"@media", "", text.split("<script>")[0]), f"{name}: every mark is filled")


def ns(ms):
    return round(ms * 1e6)


def check_numbers(page, p, name):
    data = json.loads(page.text("script", type="application/json"))
    ops, transfers = data["ops"], data["transfers"]
    p["ops"] = [o for o in p["ops"] if o["microbatch"] >= 0]  # without collectives
    got = Counter(zip(ops["rank"], (data["kinds"][k] for k in ops["kind"]), ops["stage"], ops["microbatch"], ops["start"], ops["end"]))
    expect(got == Counter((o["rank"], o["op"], o["stage"], o["microbatch"], ns(o["start_ms"]), ns(o["end_ms"])) for o in p["ops"]), f"{name}: all ops")
    made = [(data["kinds"][ops["kind"][i]], ops["stage"][i], ops["microbatch"][i]) for i in transfers["op"]]
    got = Counter(zip(transfers["from"], transfers["to"], made, transfers["start"], transfers["end"], transfers["arrive"]))
    expect(got == Counter((t["from"], t["to"], (t["op"], t["stage"], t["microbatch"]), ns(t["start_ms"]), ns(t["end_ms"]), ns(t["arrive_ms"])) for t in p["transfers"]), f"{name}: all transfers")
    expect(data["makespan_ns"] == ns(p["makespan_ms"]) and data["ranks"] == p["ranks"] and data["schedule"] == p["schedule"], f"{name}: the headline's numbers")
    for column in ops.values():
        expect(len(column) == len(p["ops"]), f"{name}: columns are complete")

    # every op's message is of its microbatch, from the stage before (F) or behind, and there when it starts
    for i, t in enumerate(ops["receive"]):
        if t is not None:
            kind, stage, microbatch = made[t]
            forward = data["kinds"][ops["kind"][i]] == "F"
            expect(microbatch == ops["microbatch"][i] and stage == ops["stage"][i] + (-1 if forward else 1), f"{name}: op {i} receives its input")
            expect(transfers["arrive"][t] <= ops["start"][i] and transfers["to"][t] == ops["rank"][i], f"{name}: in time")
    expect(sorted(t for t in ops["send"] if t is not None) == list(range(len(made))), f"{name}: each message is sent once")

    # what an op waits for ends when the op starts; only what starts with the plan waits for nothing
    count = len(ops["start"])
    for i, cause in enumerate(ops["cause"]):
        if cause is None:
            expect(ops["start"][i] == data["begin_ns"], f"{name}: op {i} waits for nothing")
        else:
            over = (transfers["arrive"][-1 - cause] if cause < 0 else ops["end"][cause] if cause < count
                    else data["collectives"]["end"][cause - count])
            expect(over == ops["start"][i], f"{name}: op {i} starts when its cause is over")

    # the critical path goes from the begin to the end without a gap
    def start(e):
        return transfers["start"][-1 - e] if e < 0 else ops["start"][e] if e < count else data["collectives"]["start"][e - count]

    def ends(e):
        return {transfers["end"][-1 - e], transfers["arrive"][-1 - e]} if e < 0 else {ops["end"][e] if e < count else data["collectives"]["end"][e - count]}

    path = data["path"]
    expect(all(start(b) in ends(a) for a, b in zip(path, path[1:])), f"{name}: the path has no gap")
    expect(start(path[0]) <= data["begin_ns"] and data["begin_ns"] + data["makespan_ns"] in ends(path[-1]), f"{name}: the path is the makespan")
    return data


def test_the_numbers_of_the_page_are_those_of_the_plan():
    for schedule in ("adaptra", "1f1b"):
        arguments = ("plan", problem, "--schedule", schedule, *delay(45))
        text, page = page_of(*arguments)
        check_alone(text, page, schedule)
        p = plan(*arguments)
        data = check_numbers(page, p, schedule)
        figures = page.text("dd")
        expect(f"{p['makespan_ms']:g} ms" in figures and f"{p['lower_bound_ms']:g} ms" in figures, f"{schedule}: makespan and bound are read without the script")
        expect(f"{100 * p['bubble']['makespan']:.1f}%" in figures, f"{schedule}: so is the bubble")
        expect(page.text("title") == f"{schedule}: {problem}" == page.text("h1"), f"{schedule}: the title is schedule and file")


def test_pairs_run_together():
    overlapped = write("overlapped.yaml", """pipeline:
  ranks: 4
  microbatches: 10
  placement: wave
  times_ms: {F: 10, I: 10, W: 10, B: 20, FB: 24}
  links: {default: {latency_ms: 1}}
  data_parallel: {reduce_ms: 5}
  communication: batched
""")
    arguments = ("plan", overlapped, "--schedule", "dualpipe-v")
    text, page = page_of(*arguments)
    check_alone(text, page, "overlapped")
    ops = check_numbers(page, plan(*arguments), "overlapped")["ops"]
    pairs = [i for i, paired in enumerate(ops["paired"]) if paired]
    expect(pairs and all((ops["start"][i], ops["end"][i]) == (ops["start"][i + 1], ops["end"][i + 1]) for i in pairs), "overlapped: pairs run together")


def test_every_part_is_there_once():
    # a pipeline of two chunks a rank, with gathers, reductions and parts
    parts = write("parts.yaml", """pipeline:
  ranks: 2
  microbatches: 3
  placement: wave
  parts: 2
  times_ms: {F: 10, I: 10, W: 10}
  links: {default: {latency_ms: 7, transfer_ms: 2}}
  data_parallel: {reduce_ms: 5, gather_ms: 3}
  communication: inorder
""")
    text, page = page_of("plan", parts, "--time-limit", "0")
    check_alone(text, page, "parts")
    data = json.loads(page.text("script", type="application/json"))
    cells = Counter(zip(data["ops"]["kind"], data["ops"]["stage"], data["ops"]["microbatch"], data["ops"]["part"]))
    expect(max(cells.values()) == 1 and len(cells) in range(2 * 4 * 3 * 2, 3 * 4 * 3 * 2 + 1), "parts: every part once")
    collectives = data["collectives"]
    expect(Counter(zip((data["kinds"][k] for k in collectives["kind"]), collectives["stage"], (b - a for a, b in zip(collectives["start"], collectives["end"])))) ==
           Counter([(kind, stage, time) for kind, time in (("gather", 3000000), ("reduce", 5000000)) for stage in range(4)]), "parts: every collective once")


def test_hostile_names_stay_text():
    # names are text
    hostile = "a</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'@DATA@\x01"
    path = os.path.join(folder, hostile + ".yaml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy(problem, path)
    text, page = page_of("plan", path, "--schedule", "adaptra")
    expect("alert" not in text.replace("alert(1)\\u003c/script", "").replace("alert(1)&lt;/script", "").replace("onerror=alert(2)&gt;", "").replace("onerror=alert(2)\\u003e", ""), "a name is escaped wherever it stands")
    expect([tag for tag, _ in page.elements].count("script") == 2 and "img" not in {tag for tag, _ in page.elements}, "a name makes no elements")
    expect(page.text("h1") == "adaptra: " + path.replace("\x01", ""), "a name is shown as it is")
    expect(json.loads(page.text("script", type="application/json"))["title"] == "adaptra: " + path, "and in the data")
    broken = os.path.join(os.fsencode(folder), b"\xff\xc0\x80.yaml")
    shutil.copy(problem, broken)
    done = subprocess.run([command, "plan", broken, "--format", "html"], capture_output=True)
    expect(done.returncode == 0 and "\ufffd" in done.stdout.decode("utf-8"), "a name that is no UTF-8 leaves the page valid")


def test_the_script_draws_the_times_by_hand():
    # the script itself, where node is present. Two ranks by hand: rank 0 F0 0-10, F1 10-20; rank 1 F0 13-23, B0 23-43, F1
    # 43-53, B1 53-73; back on rank 0 B0 48-68 and B1 78-98
    node = shutil.which("node")
    if node:
        hand = write("hand.yaml", """pipeline:
  ranks: 2
  microbatches: 2
  times_ms: {F: 10, I: 10, W: 10}
  links:
    list:
      - {between: [0, 1], latency_ms: 3, one_way: true}
      - {between: [1, 0], latency_ms: 5, one_way: true}
""")
        order = write("hand.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
        path = write("hand.html", run("simulate", hand, "--order", order, "--format", "html").stdout)
        done = subprocess.run([node, os.path.join(source, "tests", "plan", "draw", "run_page.js"), path], capture_output=True, text=True)
        expect(done.returncode == 0, f"the script runs: {done.stderr}")
        if done.returncode == 0:
            page = json.loads(done.stdout)
            expect(page["boxes"] == 8, f"every op is drawn, not {page['boxes']}")
            expect(not missing(page["says"][0], "F0 | stage 0 | rank 0 | 0 ms | 10 ms | critical"), f"the first op: {page['says'][0]!r}")
            expect(not missing(page["says"][4], "13 ms | 23 ms | message | F0 | stage 0 | rank 0 | 10 ms"), f"an op that waits for a message: {page['says'][4]!r}")
            expect(not missing(page["says"][6], "B0 | 20 ms"), f"an op that waits for its rank: {page['says'][6]!r}")
            expect("critical" not in page["says"][1], "F1 of rank 0 has time")
            expect(page["points"] == page["says"], "pointing at an op finds it")
            expect(not missing(page["idle"], "rank 1 | 13 ms | 0 ms | F0"), f"idle time: {page['idle']!r}")
            expect(page["zoomed"] and page["moved"] and page["reset"] and page["toggled"], "wheel, drag and keys change the view")
            steps = [text.split(" (")[0] for text in page["path"]]
            expect(steps == ["F0 of stage 0 on rank 0", "F0 of stage 1 on rank 1", "B0 of stage 1 on rank 1", "F1 of stage 1 on rank 1", "B1 of stage 1 on rank 1", "B1 of stage 0 on rank 0"], f"n walks along the path: {steps}")
            expect([text.split(" (")[0] for text in page["keys"]] == ["F0 of stage 0 on rank 0", "F1 of stage 0 on rank 0", "F0 of stage 0 on rank 0", "F0 of stage 1 on rank 1"], f"arrows choose ops: {page['keys']}")
    else:
        print("node is absent: the page's script was not run")


def test_standard_input_has_no_name():
    text, page = page_of("plan", "-", "--schedule", "adaptra", text=open(problem).read())
    expect(page.text("title") == "adaptra", "standard input has no name")
