"""`slackline report` of a watch's folder: how the program stands or ended, its iterations, phases with suspects and verdicts, ranks
and links; what was cut off, damaged or comes from elsewhere gives what can be read, escaped, and the rest said."""
import html
import json
import os
import re

from calling import folder, run
from runner import expect, has_facts

slow_device = {"component": "device", "rank": 2, "measured": 12.0, "expected": 4.0, "cause": "cgroup quota", "why": "computes <3> times as long"}
status = {"state": "tracking", "slow": True, "nodes": 1, "ranks": 2, "period_calls": 16, "iterations": 40, "iteration_ms": 9.0, "level_ms": 8.5,
          "healthy_ms": 5.0, "onset_iteration": 20, "suspects": [slow_device], "verdicts": [], "calls": 640, "records_lost": 0, "holds": 1,
          "holds_closed": 1, "held_ms": 120.0, "onsets": 1, "reliefs": 0, "store_connected": True}
standing = {"job": "job-1", "program": "mpirun", "status": status, "hosts": ["node-a"], "ranks": [[8.5, 0, 4001, 0], [8.4, 0, 4002, 1]],
            "links": [[0, 1, 80, 2000000, 1.5, 0.5]], "iterations": [[i, 5.0 if i < 20 else 8.5] for i in range(40)]}
phase = {"from_s": 0.0, "seen": "", "suspects": [], "verdicts": []}
outcome = {"program": ["mpirun", "-np", "2", "./a <b>"], "job": "job-1", "ranks": 2, "nodes": 1, "exit_code": 3, "began": 1763790000.5, "lasted_s": 4.25,
           "status": status, "answer": ["1. iteration 20 to 39: rank 2 <is slow>"], "events": 2, "advice": [], "notes": ["12 records were <lost>"],
           "phases": [dict(phase, state="healthy", from_iteration=0, to_iteration=19, to_s=2.0, level_ms=5.0),
                      dict(phase, state="slow", from_iteration=20, to_iteration=None, from_s=2.0, to_s=4.25, level_ms=8.5, seen="+70 %",
                           suspects=[slow_device], verdicts=[slow_device])]}
events = [{"time_s": 0.5, "iteration": 0, "kind": "tracked", "seen": "an iteration is 16 calls"}, {"time_s": 2.0, "iteration": 20, "kind": "onset", "seen": "+70 %"}]


def make(name, **files):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    open(os.path.join(path, "events.jsonl"), "w").write("".join(json.dumps(e) + "\n" for e in events))
    for file, content in files.items():
        with open(os.path.join(path, file + ".json"), "w") as out:
            out.write(content if isinstance(content, str) else json.dumps(content))
    return path


def page_of(path, code=0):
    done = run("report", path, "-o", "-")
    expect(done.returncode == code, f"{path}: {done.returncode} {done.stderr}")
    return done.stdout


def section(page, name):
    return page.split(f'id="{name}"')[1].split("</section>")[0] if f'id="{name}"' in page else ""


ended = make("ended", watch=standing, report=outcome)


def test_an_ended_watch_shows_all_it_found():
    page = page_of(ended)
    expect(has_facts(page, "<dd>ended, exit code 3 after 4.2 s</dd>") or has_facts(page, "<dd>ended, exit code 3 after 4.3 s</dd>"), "how it ended")
    expect("<title>Watch " in page and re.search(r"<dt>level</dt><dd>8.5 ms", page), "the headline")
    expect(0 < page.find("1. iteration 20 to 39: rank 2 &lt;is slow&gt;") < page.find('id="time"'), "the answer comes first, escaped")
    expect("<svg" in section(page, "time") and "iteration 20: 2. onset" in section(page, "time"), "iterations as a chart with the onset on it")
    expect(section(page, "phases").count("device of rank 2") == 2 and "computes &lt;3&gt; times" in section(page, "phases"), "suspect and verdict of the slow phase, escaped")
    expect("4002" in section(page, "ranks") and "node-a" in section(page, "ranks") and "gone" not in section(page, "ranks"), "ranks with their hosts; nobody is gone from what has ended")
    row = [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", section(page, "links"))]
    expect(row == ["0 -> 1", "80", "2", "1.5", "0.5"], f"the link's messages, MB and times: {row}")
    expect("mpirun -np 2 ./a &lt;b&gt;" in section(page, "setup") and "2025-11-22 05:40:00 UTC" in section(page, "setup") and has_facts(page, "12 records were &lt;lost&gt;"), "the program, and what could not be told")
    expect(not any(section(page, name) for name in ("loss", "gantt", "gains", "devices")) and "metrics.jsonl" not in page, "nothing of a training run stands there")


def test_one_held_iteration_does_not_set_the_scale():
    held = section(page_of(make("held", watch=dict(standing, iterations=[[i, 900.0, 1] if i == 25 else [i, 5.0] for i in range(40)]), report=outcome)), "time")
    numbers = [float(n) for n in re.findall(r"<text[^>]*>([0-9.]+)</text>", held)]
    expect(max(numbers) < 45, f"40 iterations of 5 ms; one that was held for 900 ms does not set the scale: {sorted(numbers)}")


def test_pictures_are_written_as_files():
    pictures = os.path.join(folder, "pictures")
    expect(run("report", ended, "--svg", pictures).returncode == 0 and os.listdir(pictures) == ["iteration-time.svg"], "pictures of it")


def test_a_watch_that_goes_on_has_no_end():
    # one that goes on has no report.json; the one of a watch before is none of it
    living = make("living", watch=standing)
    page = page_of(living)
    expect(has_facts(page, "no end recorded") and "Iterations are slow now." in page and has_facts(section(page, "phases"), "device of rank 2"), "how it stands")
    expect("gone" in section(page, "ranks"), "a rank that is gone")
    again = make("again", watch=standing, report=outcome)
    os.utime(os.path.join(again, "report.json"), (1e9, 1e9))
    expect(has_facts(page_of(again), "no end recorded") and "exit code" not in page_of(again), "report.json of a watch before")
    expect(has_facts(page_of(make("old", report=outcome)), "ended, exit code 3"), "without watch.json")


def test_a_runs_files_make_it_a_runs_folder():
    # files of a run next to them make it a run's folder
    both = make("both", watch=standing, report=outcome)
    open(os.path.join(both, "metrics.jsonl"), "w").write(json.dumps({"iteration": 0, "loss": 1.0, "time_ms": 7.0}) + "\n")
    expect("<title>Run " in page_of(both), "a run's folder")


def test_damaged_files_leave_a_page_of_the_rest():
    # whatever is wrong with the files, there is a page of the rest
    whole = json.dumps(standing)
    wrong = {"cut": whole[:len(whole) // 2], "empty": "", "list": "[]", "number": "7",
             "types": dict(standing, status=[1], hosts={"a": 1}, ranks={"0": []}, links="x", iterations=[[0], "x", [1, None], [2, 1e300], [-3, 1.0], [5, 4.0], [5, 4.5], [4, 1.0]]),
             "fields": dict(standing, status=dict(status, suspects=[{"component": "moon"}, 3, None], level_ms="fast"), ranks=[[], 1, None, ["a", "b", "c", "d"], [1.0, 99, -1, 0]], links=[[0], None, [1, 2, "x", None, [], {}]])}
    for name, content in wrong.items():
        page = page_of(make(f"wrong-{name}", watch=content, report=outcome))
        expect(has_facts(page, "exit code 3") and "nan" not in re.sub("<[^>]*>", "", page).lower(), f"{name}: a page without it")
        expect(("watch.json" in page) == (name in ("cut", "empty", "list", "number")), f"{name}: what is damaged is said")
    for name, content in (("cut", json.dumps(outcome)[:50]), ("types", dict(outcome, exit_code="x", phases=[1, {"suspects": 3}, {}], notes=[4], program="x", status=4))):
        page = page_of(make(f"outcome-{name}", watch=standing, report=content))
        expect("<svg" in section(page, "time"), f"report.json {name}: the rest is there")


def test_what_was_not_found_cannot_be_drawn():
    for what, says in (("iterations", "no iteration was found in the program's calls"), ("loss", "iterations")):
        done = run("draw", make("bare", watch=dict(standing, iterations=[])), "--what", what)
        expect(done.returncode == 1 and says in done.stderr and "metrics.jsonl" not in done.stderr, f"draw {what} of a watch: {done.stderr}")
