"""What compare promises: facts, rows, steps, refusals, pictures, and what a terminal shows."""
import csv
import io
import json
import os
import pty
import select
import signal
import subprocess
import xml.etree.ElementTree as xml

from calling import command, folder, problem, refused, run, write
from runner import expect, has_facts, missing, source

delays = "pipeline.links.list.0.latency_ms"
fields = ["schedule", "value", "makespan_ms", "bubble", "peak_memory", "placement", "planned", "span_ms", "lower_bound_ms", "gap", "objective", "value_ms", "error"]


def compare(*arguments, file=problem, text=None):
    """The rows that compare prints as JSON."""
    done = run("compare", file, *arguments, "--format", "json", text=text)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    return json.loads(done.stdout)["rows"]


def makespans(rows, schedule):
    return [row["makespan_ms"] for row in rows if row["schedule"] == schedule]


def test_schedules_take_the_times_of_their_formulas():
    rows = compare("--schedules", "adaptra,gpipe,1f1b", "--sweep", f"{delays}=0:60:10")
    expect([(row["schedule"], row["value"]) for row in rows] ==
           [(schedule, value) for value in range(0, 61, 10) for schedule in ("adaptra", "gpipe", "1f1b")], "rows by value, then as asked")
    expect(makespans(rows, "adaptra") == [390, 400, 410, 420, 430, 440, 450], "adapted: 390 + c, the lower bound")
    # gpipe: (12 + 3) * 30 ms; its forwards and its backwards each wait for the link once
    expect(makespans(rows, "gpipe") == [450 + 2 * c for c in range(0, 61, 10)], "gpipe: 450 + 2c")
    expect(makespans(rows, "1f1b")[0] == 450, "1f1b: (12 + 3) * 30")
    for row in rows:
        expect(list(row) == fields, f"fields: {list(row)}")
        expect(row["lower_bound_ms"] == 390 + row["value"], "the bound of a value holds for every schedule")
        expect(abs(row["gap"] - (row["makespan_ms"] / row["lower_bound_ms"] - 1)) < 1e-9, "gap")
        expect(abs(row["bubble"] - (1 - 360 / row["makespan_ms"])) < 1e-9, "bubble: 12 * 30 ms of work a rank")
        expect(row["placement"] == "linear" and row["planned"] == row["schedule"] and row["error"] is None, "the rest")
    expect({row["peak_memory"] for row in rows if row["schedule"] == "gpipe"} == {12}, "gpipe holds all 12")
    expect({row["peak_memory"] for row in rows if row["schedule"] == "1f1b"} == {4}, "1f1b holds 4 on its first rank")
    rows = compare("--schedules", "1f1b,gpipe", "--sweep", "pipeline.ranks=2,4,8")
    expect(makespans(rows, "1f1b") == makespans(rows, "gpipe") == [(12 + ranks - 1) * 30 for ranks in (2, 4, 8)], "over ranks")
    rows = compare("--schedules", "1f1b", "--sweep", "pipeline.microbatches=4:12:4")
    expect(makespans(rows, "1f1b") == [(n + 3) * 30 for n in (4, 8, 12)], "over microbatches")


def test_without_a_sweep_all_families_and_auto_are_compared():
    # without a sweep: value is null; every family of the placement, and auto, which is the best of them
    rows = compare()
    expect([row["value"] for row in rows] == [None] * len(rows), "no sweep, no value")
    names = [row["schedule"] for row in rows]
    expect(names[-1] == "auto" and {"gpipe", "1f1b", "zb-h1", "zb-h2", "adaptra"} <= set(names), f"the default schedules: {names}")
    expect(rows[-1]["makespan_ms"] == min(row["makespan_ms"] for row in rows) == 390 and rows[-1]["planned"] in names, "auto says what it took")
    names = [row["schedule"] for row in compare("--set", "pipeline.placement=wave", "--time-limit", "0.1")]
    expect({"gpipe", "zb-v", "dualpipe-v", "auto"} <= set(names) and "1f1b" not in names, f"the families of the file's placement: {names}")
    expect(compare("--schedules", "optimal", "--set", f"{delays}=40")[0]["makespan_ms"] == 430, "optimal, with --set")


def test_placements_take_the_times_by_hand():
    # linear: F F I I, then the first rank's W: 50. wave and loop: 4 chunks of 5 ms; 4 F, 4 I, the last W of 5: 45, because the
    # other W of that rank fits before its last I. bidirectional: the one microbatch runs down as in linear: 50.
    one = write("one.yaml", "pipeline: {ranks: 2, microbatches: 1, times_ms: {F: 10, I: 10, W: 10}}\n")
    rows = compare("--schedules", "auto,auto@linear,auto@wave,auto@loop,auto@bidirectional,1f1b@linear", "--time-limit", "0.2", file=one)
    expect([row["makespan_ms"] for row in rows] == [50, 50, 45, 45, 50, 60], f"placements by hand: {[row['makespan_ms'] for row in rows]}")
    expect([row["placement"] for row in rows] == ["linear", "linear", "wave", "loop", "bidirectional", "linear"], "placements are named")
    expect([row["peak_memory"] for row in rows] == [1] * 6, "two halves of a chunk are as much as one")
    # Megatron: with v chunks a rank the bubble is (ranks - 1)(F + B) / v: 360 + 3 * 30 / 2. Zero Bubble: ZB-V keeps 1F1B's memory.
    rows = compare("--schedules", "interleaved-1f1b@loop,zb-v@wave,1f1b")
    expect(rows[0]["makespan_ms"] == 405 and rows[1]["peak_memory"] == rows[2]["peak_memory"] == 4, f"published figures under @: {rows}")
    wave = write("wave.yaml", "pipeline: {ranks: 2, microbatches: 1, placement: wave, times_ms: {F: 5, I: 5, W: 5}, memory: {delta: {F: 0.5, W: -0.5}}}\n")
    rows = compare("--schedules", "auto,1f1b@linear,auto@wave", "--time-limit", "0.2", file=wave)
    expect([row["makespan_ms"] for row in rows] == [45, 60, 45], "the same the other way round")
    rows = compare("--schedules", "1f1b", "--sweep", "pipeline.placement=linear,wave")
    expect([row["value"] for row in rows] == ["linear", "wave"], "a sweep over words")
    expect(rows[0]["makespan_ms"] == 450 and rows[1]["makespan_ms"] is None, "a row without an answer is a row")
    expect(has_facts(rows[1]["error"], "needs placement linear") and rows[1]["bubble"] is None and rows[1]["peak_memory"] is None and
           rows[1]["planned"] is None, f"and says why: {rows[1]}")


def test_a_row_that_exceeds_the_limit_says_so():
    # 1f1b needs 4 on the first rank, gpipe all 12
    rows = compare("--schedules", "1f1b,gpipe", "--sweep", "pipeline.memory.limit=3:12:1")
    expect([ms is None for ms in makespans(rows, "1f1b")] == [limit < 4 for limit in range(3, 13)], "1f1b from 4")
    expect([ms is None for ms in makespans(rows, "gpipe")] == [limit < 12 for limit in range(3, 13)], "gpipe from 12")
    expect(all(("limit" in row["error"]) if row["makespan_ms"] is None else row["error"] is None for row in rows), "errors only there")
    refused(1, "1 | schedule | gpipe | memory", "compare", problem, "--schedules", "gpipe", "--set", "pipeline.memory.limit=3")
    refused(1, "4 | schedule", "compare", problem, "--schedules", "gpipe,zb-h2", "--sweep", "pipeline.memory.limit=1,2", "--format", "json")


def test_steps_of_a_sweep_are_exact():
    for sweep, values in {"0:1:0.1": [n / 10 for n in range(11)], "0:1:0.3": [0, 0.3, 0.6, 0.9], "10:0:-5": [10, 5, 0], "1.50:2:0.25": [1.5, 1.75, 2],
                          ".5:1:.5": [0.5, 1], "7:7:1": [7], "0:0.003:0.001": [0, 0.001, 0.002, 0.003], "3,1,2": [3, 1, 2], "1e1,2.5": [10, 2.5],
                          "0.07:0.35:0.07": [0.07, 0.14, 0.21, 0.28, 0.35]}.items():
        found = [row["value"] for row in compare("--schedules", "gpipe", "--sweep", f"{delays}={sweep}")]
        expect(found == values, f"{sweep}: {found}")
    rows = compare("--schedules", "gpipe", "--sweep", "pipeline.times_ms={F: 10, I: 10, W: 10},{F: 5, I: 5, W: 5}")
    expect(makespans(rows, "gpipe") == [450, 225], "values that are maps")
    rows = compare("--schedules", "gpipe", "--sweep", "pipeline.memory.limit=[12,12,12,12],[12,12,12,11]")
    expect([ms is None for ms in makespans(rows, "gpipe")] == [False, True], "values that are lists")
    done = run("compare", problem, "--schedules", "gpipe", "--sweep", f"{delays}=0:1:0.1", "--format", "csv")
    expect([row["value"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["0"] + [f"0.{n}" for n in range(1, 10)] + ["1"], "exact in CSV")


asked = ["--schedules", "adaptra,zb-h2,1f1b@wave", "--sweep", "pipeline.memory.limit=4,7"]


def test_csv_says_what_json_says():
    rows, table = compare(*asked), list(csv.DictReader(io.StringIO(run("compare", problem, *asked, "--format", "csv").stdout), strict=True))
    expect(len(rows) == len(table) == 6 and list(table[0]) == fields, "a line a row, and its fields")
    for row, line in zip(rows, table):
        for field in fields:
            value, text = row[field], line[field]
            same = text == "" if value is None else float(text) == value if isinstance(value, (int, float)) else text == value
            expect(same, f"{field}: {value!r} in JSON, {text!r} in CSV")
    words = run("compare", problem, "--schedules", "gpipe", "--sweep", "pipeline.times_ms={F: 1, I: 1, W: 1}", "--format", "csv").stdout
    expect(list(csv.reader(io.StringIO(words)))[1][1] == "{F: 1, I: 1, W: 1}", "a value with commas is quoted")


space = "{http://www.w3.org/2000/svg}"


def texts(*arguments, file=problem):
    done = run("compare", file, *arguments, "--format", "svg")
    expect(done.returncode == 0, f"{arguments}: {done.stderr}")
    tree = xml.fromstring(done.stdout)
    expect(tree.tag == space + "svg", "an svg")
    expect("href" not in done.stdout and "<script" not in done.stdout, "needs nothing from elsewhere")
    return tree, ["".join(text.itertext()) for text in tree.iter(space + "text")]


def test_the_table_marks_the_best_and_fits_the_terminal():
    text = run("compare", problem, "--schedules", "1f1b,adaptra,1f1b@loop", "--sweep", f"{delays}=0,20").stdout.splitlines()
    expect(delays in text[0] and text[2].split() == ["value", "1f1b", "adaptra", "1f1b@loop"], f"a column a schedule: {text[:3]}")
    cells = text[4].split()
    expect(cells[0] == "20" and cells[2] == "410*" and "*" not in cells[1] and cells[3] == "-", f"the best is marked: {text[4]}")
    expect(text[-1].startswith("- 1f1b@loop, 2 of 2 values: 1f1b needs placement linear"), f"a dash is explained: {text[-1]}")
    lines = [line.split() for line in run("compare", problem, "--schedules", "1f1b@wave,1f1b,zb-h1,adaptra", "--set", f"{delays}=20").stdout.splitlines()]
    expect([line[0] for line in lines[1:5]][0] == "adaptra" and lines[4][0] == "1f1b@wave" and lines[1][1] == "410*", f"the shortest first, failures last: {lines}")
    shown = [float(line[1].rstrip("*")) for line in lines[1:4]]
    expect(shown == sorted(shown), "sorted by makespan")
    narrow = run("compare", problem, "--schedules", "gpipe,1f1b,zb-h1,zb-h2,adaptra", "--sweep", f"{delays}=0:60:10", env={**os.environ, "COLUMNS": "40"}).stdout
    expect(max(len(line) for line in narrow.splitlines()[1:]) <= 40, "columns that do not fit stand below")
    expect(all(name in narrow for name in ("gpipe", "1f1b", "zb-h1", "zb-h2", "adaptra")), "and none is lost")
    expect(run("compare", problem, *asked).stdout == run("compare", problem, *asked).stdout, "families are repeated to the letter")


def test_pictures_have_a_marker_for_each_number():
    tree, found = texts("--schedules", "1f1b,zb-h2,adaptra,1f1b@wave", "--sweep", f"{delays}=0:60:10")
    expect({"1f1b", "zb-h2", "adaptra", "1f1b@wave", "makespan (ms)", f"{delays} (ms)"} <= set(found), f"names and axes: {found}")
    points = [title.text for title in tree.iter(space + "title")]
    expect(len(points) == 21 and "adaptra: 450 at 60" in points, "a marker a number, none where there is none")
    tree, found = texts("--schedules", "1f1b,adaptra", "--sweep", f"{delays}=0:60:10")
    expect("lower bound" in found, "the bound, where all have the same")
    tree, found = texts("--schedules", "1f1b,adaptra", "--sweep", "pipeline.communication=decoupled,inorder,batched")
    expect({"decoupled", "inorder", "batched", "1f1b", "adaptra"} <= set(found), "words on the axis")
    awkward = write('a<b> & "c".yaml', open(problem).read())
    tree, found = texts("--schedules", "1f1b,adaptra,1f1b@loop", file=awkward)
    expect({"1f1b", "adaptra", "1f1b@loop", "450", "390"} <= set(found), f"bars with their values: {found}")
    expect(any(text.startswith(awkward) for text in found), "a file's name is escaped")
    expect(any(has_facts(text, "needs placement linear") for text in found), "a bar that is not there says why")


def test_a_name_that_is_not_utf8_is_drawn():
    raw = os.path.join(os.fsencode(folder), b"raw\xff\xc3.yaml")
    with open(raw, "w") as file:
        file.write(open(problem).read())
    done = subprocess.run([command, "compare", raw, "--schedules", "gpipe", "--format", "svg"], capture_output=True)
    expect(done.returncode == 0 and xml.fromstring(done.stdout).tag == space + "svg", "bytes in a name that are no UTF-8")
    os.unlink(raw)


def test_results_go_where_they_are_asked_to():
    target = os.path.join(folder, "rows.json")
    done = run("compare", problem, "--schedules", "gpipe", "--format", "json", "-o", target)
    expect(done.returncode == 0 and done.stdout == "" and done.stderr == "" and json.load(open(target))["rows"][0]["makespan_ms"] == 450, "-o")
    before = open(target).read()
    refused(1, "1", "compare", problem, "--schedules", "gpipe", "--set", "pipeline.memory.limit=1", "-o", target)
    refused(2, "known", "compare", problem, "--sweep", "pipeline.x=1,2", "-o", target)
    expect(open(target).read() == before, "an error leaves the old file as it was")
    refused(1, "written", "compare", problem, "--schedules", "gpipe", "-o", os.path.join(folder, "not-there", "rows.json"))
    expect(makespans(compare("--schedules", "gpipe", "--sweep", f"{delays}=0,10", file="-", text=open(problem).read()), "gpipe") == [450, 470], "standard input")
    with open("/dev/full", "w") as full:
        done = subprocess.run([command, "compare", problem, "--schedules", "gpipe"], stdout=full, stderr=subprocess.PIPE, text=True)
    expect(done.returncode == 1 and not missing(done.stderr, "standard output | No space left on device"), "a full standard output")


def start_on_terminal(*arguments, terminal="xterm"):
    """The command with standard error on a terminal."""
    inner, outer = pty.openpty()
    child = subprocess.Popen([command, "compare", *arguments], stdout=subprocess.PIPE, stderr=outer, env={"TERM": terminal})
    os.close(outer)
    return child, inner


def read_all(inner):
    shown = b""
    while True:
        try:
            part = os.read(inner, 4096)
        except OSError:
            part = b""
        if not part:
            os.close(inner)
            return shown
        shown += part


def test_wrong_requests_are_refused():
    done = run("compare", "--help")
    expect(done.returncode == 0 and "Example: slackline compare" in done.stdout and done.stderr == "", "help")
    for says, arguments in {
        "'adaptra'": ["--schedules", "1f1b,adptra"],
        "schedule | 'best' | auto | optimal": ["--schedules", "best"],
        "placement | 'spiral'": ["--schedules", "1f1b@spiral"],
        "placement | ''": ["--schedules", "1f1b@"],
        "empty": ["--schedules", "1f1b,"],
        "''": ["--schedules", ""],
        "'1f1b'": ["--schedules", "1f1b,1f1b"],
        f"--sweep {delays}=-10: {problem}: 'latency_ms' must be at least 0, got -10": ["--sweep", f"{delays}=0,-10"],
        "'x'": ["--sweep", "pipeline.x=1:3:1"],
        "'microbatches'": ["--sweep", "pipeline.microbatches=1:2:0.5"],
        "KEY=FROM | TO | STEP": ["--sweep", "pipeline.microbatches"],
        "FROM | TO | STEP": ["--sweep", "pipeline.microbatches=1:2"],
        "decimals": ["--sweep", "pipeline.microbatches=1:2:x"],
        "FROM | TO | STEP": ["--sweep", "pipeline.microbatches=1:2:1:1"],
        "15": ["--sweep", f"{delays}=0:1:0.0000000000000001"],
        "does": ["--sweep", f"{delays}=0:1:0"],
        "does": ["--sweep", f"{delays}=0:1:-1"],
        "FROM": ["--sweep", f"{delays}=1:0:1"],
        "1000": ["--sweep", f"{delays}=0:1:0.0001"],
        "empty": ["--sweep", f"{delays}=1,,2"],
        "'1'": ["--sweep", f"{delays}=1,2,1"],
        "--sweep | pipeline..x=1 | part": ["--sweep", "pipeline..x=1"],
        "--sweep": ["--sweep", f"{delays}=1", "--sweep", f"{delays}=2"],
        "text | json | csv | svg | 'html'": ["--format", "html"],
        "'--shedules' | '--schedules'": ["--shedules", "1f1b"],
        "'--sweep'": ["--sweep"],
        "--time-limit": ["--time-limit", "soon"],
        "placement | wave": ["--schedules", "1f1b@wave", "--set", "pipeline.ranks=1024", "--set", "pipeline.microbatches=4000"],
        "problem": ["other.yaml"],
    }.items():
        refused(2, says, "compare", problem, *arguments)
    refused(2, "problem", "compare")
    refused(2, "no-such.yaml", "compare", "no-such.yaml")
    refused(2, "'compare'", "compair", problem)
    refused(2, "0", "compare", os.path.join(source, "examples", "two-sites.yaml"), "--schedules", "optimal", "--time-limit", "100",
            "--sweep", "pipeline.links.list.0.latency_ms=1,2,-3")  # the last value is looked at before the first is planned: else 60 s end the test


def test_progress_is_one_line_on_a_terminal():
    child, inner = start_on_terminal(problem, "--schedules", "1f1b,adaptra", "--sweep", f"{delays}=0:60:10", "--format", "json")
    shown, output = read_all(inner), child.communicate()[0]
    expect(len(json.loads(output)["rows"]) == 14, "standard output holds the rows alone")
    expect(b"adaptra at 60 (7 of 7)" in shown and shown.endswith(b"\r\033[K") and b"\n" not in shown, f"one line, cleared at the end: {shown[-80:]}")
    child, inner = start_on_terminal(problem, "--schedules", "1f1b", terminal="dumb")
    expect(read_all(inner) == b"" and child.communicate()[0].startswith(b"schedule"), "no progress on a dumb terminal")
    expect(run("compare", problem, "--schedules", "1f1b", "--sweep", f"{delays}=0:60:10").stderr == "", "nor without a terminal")


def test_ctrl_c_leaves_nothing_half_written():
    # Ctrl-C in a search that nothing proves: nothing half written, the line cleared, ended by the signal
    left = sorted(os.listdir(folder))
    child, inner = start_on_terminal(os.path.join(source, "examples", "two-sites.yaml"), "--set", "pipeline.communication=batched", "--schedules",
                                     "optimal", "--time-limit", "50", "-o", os.path.join(folder, "never.json"), "--format", "json")
    shown = b""
    while b"optimal" not in shown and select.select([inner], [], [], 50)[0]:
        shown += os.read(inner, 4096)
    child.send_signal(signal.SIGINT)
    shown += read_all(inner)
    expect(child.communicate()[0] == b"" and child.returncode == -signal.SIGINT, f"ended by the signal: {child.returncode}")
    expect(shown.endswith(b"\r\033[K"), f"the line is cleared: {shown[-40:]}")
    expect(sorted(os.listdir(folder)) == left, f"nothing is left: {sorted(os.listdir(folder))}")
