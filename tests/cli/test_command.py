"""What plan and simulate promise about output, errors and exit codes."""
import csv
import json
import os
import pty
import re
import subprocess
import xml.etree.ElementTree as xml

from calling import command, delay, folder, plan, problem, refused, run, write
from runner import expect, missing


def with_objective(name, *more):
    return ("--set", f"pipeline.objective={name}", *more)


# zb-h2 on four equal ranks: every rank works 360 ms without a gap, rank 3 begins 30 ms after rank 0
def test_plans_minimize_the_chosen_objective():
    for name, makespan, value, bound in (("makespan", 390, 390, 390), ("span", 390, 360, 360), ("period", 390, 360, 360)):
        p = plan("plan", problem, "--schedule", "zb-h2", *with_objective(name))
        expect((p["objective"], p["makespan_ms"], p["value_ms"], p["lower_bound_ms"], p["gap"]) == (name, makespan, value, bound, 0), f"{name}: {p}")
        expect(p.get("period_ms") == (360 if name == "period" else None), f"{name}: period")
        text = run("plan", problem, "--schedule", "zb-h2", *with_objective(name)).stdout
        expect(text.startswith(f"zb-h2: {name} {value} ms, ") and ": proven optimal" in text, text[:100])
    norm = plan("plan", problem, "--schedule", "zb-h2", *with_objective("period", "--set", "pipeline.synchronization=norm"))
    expect(norm["value_ms"] == 390 and norm["synchronization"] == "norm", "a norm holds all ranks together")
    chosen = plan("plan", problem, *with_objective("period"))
    expect(chosen["value_ms"] == 360 and chosen["gap"] == 0, "auto minimizes it")
    rows = json.loads(run("compare", problem, "--schedules", "1f1b,zb-h2", "--format", "json", *with_objective("span")).stdout)["rows"]
    expect([(row["objective"], row["value_ms"], row["span_ms"]) for row in rows] == [("span", 450, 450), ("span", 360, 360)], f"compare: {rows}")
    expect("span ms" in run("compare", problem, "--schedules", "1f1b,zb-h2", *with_objective("span")).stdout, "compare names it")


def test_a_plan_has_every_field_and_they_agree():
    fields = {"format": str, "schedule": str, "why": str, "placement": str, "ranks": int, "stages": int, "microbatches": int,
              "objective": str, "value_ms": float, "makespan_ms": float, "span_ms": float, "ideal_ms": float, "bubble": dict, "lower_bound_ms": float, "gap": float,
              "peak_memory": list, "memory_ok": bool, "warmup": list, "links": list, "ops": list, "transfers": list,
              "lost": dict, "solve_ms": float, "memory": list}
    for schedule in ("auto", "gpipe", "1f1b", "zb-h1", "zb-h2", "adaptra", "cross-ud-sub"):
        p = plan("plan", problem, "--schedule", schedule, *delay(30))
        expect({name: type(value) for name, value in p.items()} == fields, f"{schedule}: fields and types")
        expect(p["format"] == "slackline-plan-1" and p["placement"] == "linear", "format and placement")
        expect(set(p["bubble"]) == {"makespan", "span"} and set(p["lost"]) == {"dependency_ms", "blocking_ms"}, "inner fields")
        split = any(op["op"] == "W" for op in p["ops"])
        expect(len(p["ops"]) == 4 * 12 * (3 if split else 2) and len(p["transfers"]) == 2 * 3 * 12, f"{schedule}: every op and message")
        starts = [op["start_ms"] for op in p["ops"]]
        expect(starts == sorted(starts) and starts[0] == 0, f"{schedule}: ops in start order")
        expect(set(p["ops"][0]) == {"rank", "op", "stage", "microbatch", "start_ms", "end_ms"}, "fields of an op")
        expect(set(p["transfers"][0]) == {"from", "to", "op", "stage", "microbatch", "start_ms", "end_ms", "arrive_ms"}, "fields of a transfer")
        expect([set(link) for link in p["links"]] == [{"from", "to", "latency_ms", "transfer_ms", "slack", "tolerance_ms"}] * 3, "fields of a link")
        expect([(link["from"], link["to"], link["latency_ms"]) for link in p["links"]] == [(0, 1, 30), (1, 2, 0), (2, 3, 0)], "links")
        expect([link["slack"] for link in p["links"]] == [a - b for a, b in zip(p["warmup"], p["warmup"][1:])], "slack")
        expect(p["makespan_ms"] == max(op["end_ms"] for op in p["ops"]), f"{schedule}: makespan is the last end")
        work = sum(op["end_ms"] - op["start_ms"] for op in p["ops"])
        expect(abs(p["bubble"]["makespan"] - (1 - work / (4 * p["makespan_ms"]))) < 1e-9, f"{schedule}: bubble")
        expect(abs(p["gap"] - (p["value_ms"] / p["lower_bound_ms"] - 1)) < 1e-9 and p["value_ms"] == p["makespan_ms"], f"{schedule}: gap")
        for rank in range(4):
            mine = [op for op in p["ops"] if op["rank"] == rank]
            expect(all(a["end_ms"] <= b["start_ms"] for a, b in zip(mine, mine[1:])), f"{schedule}: one op at a time")
            backward = next(i for i, op in enumerate(mine) if op["op"] in "IB")
            expect(p["warmup"][rank] == backward, f"{schedule}: warm-up is the forwards before the first backward")
        expect(p["solve_ms"] >= 0, "solve_ms")
        expect([set(m) for m in p["memory"]] == [{"rank", "fixed", "steps"}] * 4 and [m["rank"] for m in p["memory"]] == [0, 1, 2, 3], f"{schedule}: memory of each rank")
        for rank, m in enumerate(p["memory"]):
            times = [at for at, _ in m["steps"]]
            expect(times == sorted(set(times)) and m["steps"][-1][1] == 0, f"{schedule}: what rank {rank} holds, step by step, at the end nothing: {m['steps'][-2:]}")
            expect(max(used for _, used in m["steps"]) == p["peak_memory"][rank], f"{schedule}: the peak of rank {rank}")


exported = write("exported.csv", run("plan", problem, "--format", "csv", *delay(60)).stdout)


def test_an_order_survives_csv():
    rows = list(csv.reader(run("plan", problem, "--schedule", "adaptra", "--format", "csv").stdout.splitlines()))
    expect(len(rows) == 4 and all(len(row) == 36 for row in rows), "csv: a line a rank, a cell an op")
    expect(all(re.fullmatch(rf"{rank}[FIW]\d+", cell) for rank, row in enumerate(rows) for cell in row), "csv: compute_only cells")
    expect(run("simulate", problem, "--order", exported, "--format", "csv").stdout == open(exported).read(), "an order survives the way out and in")
    expect(plan("simulate", problem, "--order", exported, *delay(60))["makespan_ms"] == 450, "and takes as long as planned")
    for schedule, placement in (("gpipe", "loop"), ("gpipe", "wave"), ("interleaved-1f1b", "loop"), ("zb-v", "wave"),
                                ("dualpipe-v", "wave"), ("chimera", "bidirectional")):
        there = ["--set", f"pipeline.placement={placement}", *delay(20)]
        planned = plan("plan", problem, "--schedule", schedule, *there)
        order = write("placed.csv", run("plan", problem, "--schedule", schedule, "--format", "csv", *there).stdout)
        simulated = plan("simulate", problem, "--order", order, *there)
        expect((planned["schedule"], planned["placement"], planned["stages"]) == (schedule, placement, 8), f"{schedule}: its head")
        expect(all(planned[field] == simulated[field] for field in ("ops", "transfers", "peak_memory", "makespan_ms")),
               f"{schedule}, {placement}: the order survives the way out and in")
    refused(2, "rank | 8 | 12", "plan", problem, "--schedule", "zb-v",
            "--set", "pipeline.placement=wave", "--set", "pipeline.stages=12")
    refused(2, "chimera | placement | bidirectional | problem", "plan", problem, "--schedule", "chimera")


def test_a_picture_has_a_box_for_each_op():
    for schedule in ("gpipe", "1f1b", "zb-h1", "zb-h2", "adaptra"):
        tree = xml.fromstring(run("plan", problem, "--schedule", schedule, "--format", "svg", *delay(20)).stdout)
        space = "{http://www.w3.org/2000/svg}"
        boxes = [box for box in tree.iter(space + "rect") if box.find(space + "title") is not None]
        expect(tree.tag == space + "svg" and len(boxes) == (96 if schedule in ("gpipe", "1f1b") else 144), f"svg of {schedule}: a box an op")


def on_terminal(**variables):
    """What a terminal shows."""
    inner, outer = pty.openpty()
    child = subprocess.Popen([command, "plan", problem], stdout=outer, env={"TERM": "xterm", **variables})
    os.close(outer)
    shown = b""
    while True:
        try:
            part = os.read(inner, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    child.wait()
    os.close(inner)
    return shown


def test_the_chart_is_as_wide_as_the_terminal():
    text = run("plan", problem, *delay(60), "--schedule", "adaptra").stdout
    expect(text.startswith("adaptra: makespan 450 ms, bubble 20.0%, lower bound 450 ms: proven optimal\n"), "the headline")
    expect(len(re.findall(r"^rank \d", text, re.M)) == 4 and "\033" not in text, "the chart has a row a rank and no escapes")
    expect(max(map(len, text.splitlines())) == 100, "100 columns without a terminal")
    # 1f1b takes (12 + 3) * 30 = 450 ms where 390 is the bound
    expect(run("plan", problem, "--schedule", "1f1b").stdout.startswith(
        "1f1b: makespan 450 ms, bubble 20.0%, lower bound 390 ms, gap 15.4%\n"), "the headline with a gap")
    for columns, width in (("40", 40), ("133", 133), ("7", 40), ("x", 100), ("99999999999999999999", 500)):
        chart = run("plan", problem, env={**os.environ, "COLUMNS": columns}).stdout.splitlines()
        expect(max(len(line) for line in chart if line.startswith("rank")) == width, f"COLUMNS={columns}: {width} columns")


def test_a_terminal_shows_color_unless_told_not_to():
    expect(b"\033[" in on_terminal(COLUMNS="80"), "colour on a terminal")
    expect(b"\033" not in on_terminal(COLUMNS="80", NO_COLOR="1"), "NO_COLOR is obeyed")
    expect(b"\033" not in on_terminal(COLUMNS="80", TERM="dumb"), "no colour on a dumb terminal")


def test_results_go_where_they_are_asked_to_and_errors_leave_files_alone():
    target = os.path.join(folder, "plan.json")
    done = run("plan", problem, "--format", "json", "-o", target)
    expect(done.returncode == 0 and done.stdout == "" and json.load(open(target))["makespan_ms"] == 390, "-o writes the file and prints nothing")
    before = open(target).read()
    refused(2, "schedule | 'best'", "plan", problem, "--schedule", "best", "--format", "json", "-o", target)
    refused(1, "schedule", "plan", problem, "--set", "pipeline.memory.limit=0.5", "--format", "json", "-o", target)
    expect(open(target).read() == before, "an error leaves the old file as it was")
    expect(run("plan", problem, "--format", "csv", "-o", "-").stdout.startswith("0F0,"), "-o - is standard output")
    expect(run("plan", "-", text=open(problem).read()).returncode == 0, "the problem from standard input")
    order_text = open(exported).read()
    expect(run("simulate", problem, "--order", "-", text=order_text).returncode == 0, "the order from standard input")
    refused(2, "standard input", "simulate", "-", "--order", "-", text="")
    refused(1, "written", "plan", problem, "-o", os.path.join(folder, "not-there", "plan.json"))
    refused(1, "written", "plan", problem, "-o", folder)
    for arguments in (["plan", problem], ["plan", problem, "--format", "json"], ["plan", "--help"], ["--help"], ["--version"], ["formats"]):
        with open("/dev/full", "w") as full_device:
            done = subprocess.run([command, *arguments], stdout=full_device, stderr=subprocess.PIPE, text=True)
        expect(done.returncode == 1 and not missing(done.stderr, "standard output | No space left on device") and done.stderr.count("\n") == 1, f"{arguments}: a full standard output")
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", command, *arguments], stderr=subprocess.PIPE, text=True)
        expect(done.returncode == 1 and not missing(done.stderr, "standard output | Bad file descriptor"), f"{arguments}: a closed standard output: {done}")


def test_help_has_an_example():
    for arguments in (["--help"], ["-h"], ["help"], ["plan", "--help"], ["plan", "-h"], ["simulate", "--help"], ["train", "--help"], ["formats", "--help"]):
        done = run(*arguments)
        expect(done.returncode == 0 and "Example: slackline" in done.stdout and done.stderr == "", f"{arguments}: help with an example")


def test_wrong_requests_are_one_line_and_exit_2():
    expect(re.match(r"slackline \d+\.\d+\.\d+\n", run("--version").stdout), "--version")
    done = run()
    expect(done.returncode == 2 and done.stdout == "" and "Usage" in done.stderr, "no command: usage on standard error, exit 2")
    refused(2, "'plan'", "plam", problem)
    refused(2, "'simulate'", "simualte", problem)
    refused(2, "'train'", "tr", problem)
    refused(2, "'xyzzy' | --help", "xyzzy")
    refused(2, "''", "")
    refused(2, "'--fast' | plan | --help", "plan", problem, "--fast")
    refused(2, "'--shedule' | '--schedule'", "plan", problem, "--shedule=auto")
    refused(2, "'--schedule'", "simulate", problem, "--schedule", "auto")
    refused(2, "'-x'", "plan", problem, "-x")
    refused(2, "'-x'", "plan", problem, "-xo", "y")
    refused(2, "'--format'", "plan", problem, "--format")
    refused(2, "'-o'", "plan", problem, "-o")
    refused(2, "'--help'", "plan", problem, "--help=1")
    refused(2, "--format | text | json | csv | trace | svg | html | 'png'", "plan", problem, "--format", "png")
    refused(2, "--time-limit | 0 | 1e+06 | 'soon'", "plan", problem, "--time-limit", "soon")
    refused(2, "--time-limit", "plan", problem, "--time-limit", "nan")
    refused(2, "problem", "plan")
    refused(2, "problem", "plan", problem, problem)
    refused(2, "after", "plan", problem, "--set", "pipeline.ranks=")
    refused(2, "YAML", "plan", problem, "--set", "pipeline.links.list=[{")
    refused(2, "--order", "simulate", problem)
    refused(2, "no-such.yaml", "plan", "no-such.yaml")
    refused(2, "no-such.csv", "simulate", problem, "--order", "no-such.csv")
    refused(2, "schedule | 'best' | auto | optimal | gpipe | 1f1b | zb-h1 | zb-h2 | adaptra | interleaved-1f1b | chimera", "plan", problem, "--schedule", "best")
    refused(2, "'microbatches' | 1", "plan", problem, "--set", "pipeline.microbatches=0")
    refused(2, "'microbatches'", "plan", problem, "--set", "pipeline.microbatches=65536", "--set", "pipeline.ranks=512")
    refused(2, "", "plan", problem, "--set", "pipeline.microbatches")


start = "pipeline:\n  ranks: 2\n  microbatches: 2\n"
times = "  times_ms: {F: 1, I: 1, W: 1}\n"
two = write("two.yaml", start + times)


def test_wrong_problem_files_are_named_with_line_and_key():
    bad = {
        "pipeline: {ranks: 2, microbatches: 2}\n": "bad.yaml:1 | 'pipeline' | 'times_ms'",
        start + "  times_ms: {F: 1, I: -1, W: 1}\n": "bad.yaml:4 | 'I' | 0 | -1",
        start + "  times_ms: {F: [1, 2, 3], I: 1, W: 1}\n": "bad.yaml:4 | 'F' | list | 2",
        start + "  times_ms: {F: [1, .nan], I: 1, W: 1}\n": "bad.yaml:4 | 'F'",
        start + "  times_ms: {F: 1, I: 1}\n": "'times_ms' | 'W'",
        start + "  times_ms: {F: 1, I: 1, W: 1, X: 1}\n": "'X'",
        start + "  placement: loops\n" + times: "bad.yaml:4 | 'placement' | linear | loop | wave | bidirectional",
        start + "  stages: 3\n" + times: "bad.yaml:4 | 'stages' | 2 | placement | linear | 3",
        start + times + "  links:\n    list:\n      - {between: [0, 2]}\n": "bad.yaml:7 | 'between' | 0 | 1",
        start + times + "  links:\n    list:\n      - {latency_ms: 3}\n": "bad.yaml:7 | link | list | 'between'",
        start + times + "  links: {default: {bandwidth_gbps: 1}}\n": "bandwidth_gbps",
        start + times + "  memory: {limit: [1]}\n": "'limit' | list | 2 | rank | 1",
        "pipeline:\n  ranks: 2\n  microbatchse: 2\n": "'microbatches'",
        "": "bad.yaml",
        "pipeline: [\n": "bad.yaml",
        "\0\1\2": "bad.yaml",
    }
    for content, says in bad.items():
        refused(2, says, "plan", write("bad.yaml", content))


def test_wrong_orders_are_named_with_line_and_column():
    orders = {
        "0F0,0F1,0B0,0B1\n1F0,1F1,1B0\n": "missing",
        "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1,1B1\n": "duplicated",
        "0F0,0F1,0B0,0B1\n": "ranks",
        "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n1F0\n": "bad.csv:3",
        "0F0,0F1x,0B0,0B1\n1F0,1F1,1B0,1B1\n": "bad.csv:1 | column | 2 | '0F1x'",
        "0F0,0F1,0B0,0B1\n1F0,0F1,1B0,1B1\n": "bad.csv:2 | column | 2 | '0F1' | rank",
        "0F0,0F2,0B0,0B1\n1F0,1F1,1B0,1B1\n": "microbatch",
        "0B0,0F0,0F1,0B1\n1F0,1F1,1B0,1B1\n": "F",
        "0F0,0B0,0F1,0B1\n1F0,1F1,1B1,1B0\n": "deadlock",
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F1,1F0,1RECV_F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n": "bad.csv:2 | column",
        "": "ranks",
    }
    for content, says in orders.items():
        refused(2, says, "simulate", two, "--order", write("bad.csv", content))


def test_orders_of_pytorch_are_timed_as_by_hand():
    # by hand: rank 1 runs F0 B0 F1 B1 from 1 to 7; B1 of rank 0 follows from 7 to 9
    for content in ("0F0,,0F1,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n",
                    "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
                    "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RESHARD\n"):
        expect(plan("simulate", two, "--order", write("good.csv", content))["makespan_ms"] == 9, "an order of PyTorch, by hand")


def test_nothing_else_is_left_in_the_folder():
    left = set(os.listdir(folder)) - {"bad.csv", "bad.yaml", "exported.csv", "good.csv", "placed.csv", "plan.json", "two.yaml"}
    expect(not left, f"left behind: {left}")
