"""`slackline report` says what became of a run: ended, failed and why, saved on a warning, still going on, or nothing known; a
folder is named so that the page says something elsewhere too; files that may not be read are told from missing ones."""
import fcntl
import json
import os
import re
import shutil
import subprocess

from calling import command, folder, run
from runner import build, expect, has_facts, missing, source


def event(kind, **more):
    return dict({"time_s": 1.0, "iteration": 3, "kind": kind}, **more)


metrics = "".join(json.dumps({"iteration": i, "loss": 3.0, "time_ms": 50.0 + i, "schedule": "1f1b", "phase": "healthy", "links": []}) + "\n" for i in range(4))


def make(name, events):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    open(os.path.join(path, "metrics.jsonl"), "w").write(metrics)
    open(os.path.join(path, "events.jsonl"), "w").write("".join(json.dumps(e) + "\n" for e in events))
    return path


def state(path):
    page = run("report", path, "-o", "-").stdout
    return re.search(r"<dt>state</dt><dd>([^<]*)</dd>", page)[1]


failed = event("failed", why="rank 2: the norm is <not> finite")


def test_the_end_of_a_run_is_said():
    for name, events, says in (
        ("ended", [event("start"), event("end")], "ended"),
        ("resumed-and-killed", [event("start"), event("end"), event("resumed"), event("start")], "killed"),
        ("failed", [event("start"), failed], "failed | rank 2: the norm is &lt;not&gt; finite"),
        ("failed-silently", [event("start"), event("failed")], "failed"),
        ("failed-and-resumed", [event("start"), failed, event("resumed"), event("start"), event("end")], "ended"),
        ("restarted", [event("start"), event("restart"), event("start")], "killed"),
        ("warned", [event("start"), event("warned"), event("failed", why="ended by SIGTERM after iteration 3")], "checkpoint"),
    ):
        path = make(name, events)
        expect(not missing(state(path), says), f"{name}: {state(path)!r}")


def test_a_failure_is_marked_after_the_last_iteration():
    # a failure stands behind the last iteration and is marked in the charts all the same; ticks are whole iterations
    page = run("report", make("marked", [event("start"), dict(failed, iteration=4)]), "-o", "-").stdout
    chart = page.split('id="time"')[1].split("</section>")[0]
    expect("iteration 4: 2. failed" in chart, "the failure is marked")
    ticks = re.findall(r'text-anchor="middle">([^<]*)</text>', chart)
    expect(ticks[1:6] == ["0", "1", "2", "3", "4"], f"ticks are iterations: {ticks}")


def test_a_page_says_of_how_many_iterations_its_median_is():
    # of how many iterations the time is a median; a change is named by its kind where what was decided does not say it
    page = run("report", make("words", [event("start"), event("arrange", iteration=1, decided="positions 1 0"), event("swap", iteration=2, decided="swap to zb-h2")]), "-o", "-").stdout
    expect(has_facts(page, "<dt>time, median of the last 4</dt><dd>51.5 ms</dd>"), "a median of four")
    expect("2. arrange: positions 1 0" in page and has_facts(page, "3. swap to zb-h2"), "what changed is named once")
    expect("start over with each attempt" not in page, "one clock")
    page = run("report", make("clocks", [event("start", time_s=0), event("restart", time_s=9), event("resumed", time_s=0), event("start", time_s=0)]), "-o", "-").stdout
    expect(has_facts(page, "Seconds start over with each attempt."), "an attempt that goes on has a clock of its own")


def test_a_run_of_one_iteration_is_drawn():
    single = make("single", [event("start")])
    open(os.path.join(single, "metrics.jsonl"), "w").write(metrics.splitlines(True)[0])
    slices = [{"ph": "X", "pid": 0, "tid": 0, "cat": c, "name": c + "0", "ts": 1000 * i, "dur": 1000, "args": {"iteration": 0, "stage": 0, "microbatch": 0}} for i, c in enumerate("FIW")]
    update = {"ph": "X", "pid": 0, "tid": 0, "cat": "update", "name": "update", "ts": -500, "dur": 500, "args": {"iteration": 0, "stage": 0, "microbatch": -1}}
    open(os.path.join(single, "timeline.json"), "w").write('{"traceEvents":[\n' + ",\n".join(json.dumps(s) for s in [update, *slices]) + "\n]}\n")
    page = run("report", single, "-o", "-").stdout
    expect(has_facts(page, "<dt>time of an iteration</dt><dd>50 ms</dd>") and has_facts(page, "<p>1 iteration was recorded."), "a run of one iteration")
    still = page.split('class="still"')[1].split("</section>")[0]
    expect(">update, gather<" in still and "<title>update of stage 0" in still, f"a run's update is called so: {re.findall('<title>[^<]*', still)}")


# what was not recorded is said once; without phases there is no table of them; a loss that is no number is told from none
odd = make("odd-loss", [event("start")])


def test_what_was_not_recorded_is_said_once():
    rows = [dict(json.loads(line), loss=loss) for line, loss in zip(metrics.splitlines(), (3.0, None, 2.9, None))]
    open(os.path.join(odd, "metrics.jsonl"), "w").write("".join(json.dumps({k: v for k, v in r.items() if k != "phase"}) + "\n" for r in rows))
    page = run("report", odd, "-o", "-").stdout
    expect(page.count("timeline.json") == 1 and "Medians of the run" not in page, "timeline.json is missing, and no phase known")
    expect("<dt>loss</dt><dd>not finite</dd>" in page and not missing(page, "2 iterations | iteration 1"), "a loss that is none")
    open(os.path.join(odd, "metrics.jsonl"), "w").write("".join(json.dumps({k: v for k, v in r.items() if k != "loss"}) + "\n" for r in rows))
    page = run("report", odd, "-o", "-").stdout
    expect("<dt>loss</dt>" not in page and "No loss was recorded" in page and "no finite number" not in page, "no loss at all")


def test_a_pipeline_of_one_rank_is_predicted():
    # a pipeline of one rank has no links and is predicted all the same: 3 ops of 10 ms again
    alone = make("alone", [event("start")])
    slices = [{"ph": "X", "pid": 0, "tid": 0, "cat": c, "name": c + "0", "ts": 10000 * k + 100000 * i, "dur": 10000 - i * 1000, "args": {"iteration": i, "stage": 0, "microbatch": 0}}
              for i in range(2) for k, c in enumerate("FIW")]
    open(os.path.join(alone, "timeline.json"), "w").write('{"traceEvents":[\n' + ",\n".join(json.dumps(s) for s in slices) + "\n]}\n")
    open(os.path.join(alone, "profile.yaml"), "w").write("pipeline: {ranks: 1, microbatches: 1, times_ms: {F: 10, I: 10, W: 10}}\n")
    page = run("report", alone, "-o", "-").stdout
    expect("predicted: ops 30 ms" in page and "Not predicted again: metrics" not in page, f"one rank: {re.findall('Not foretold[^<]*', page)}")


def test_wrong_requests_are_refused():
    # who may not write into the folder is told how to get the page; the option that is none is named
    done = run("report", odd, "-o", "/no-such-folder/x")
    expect("-o FILE" not in done.stderr, f"what was asked for cannot be written: {done.stderr}")
    for words, says in ((("-dash",), "'-d'"), (("-oq", "-z"), "'-z'"), (("-o",), "'-o'"), (("--help=3",), "'--help'")):
        done = run("report", *words)
        expect(done.returncode == 2 and not missing(done.stderr, says) and done.stderr.count("\n") == 1, f"report {words}: {done.stderr}")


def test_a_living_run_is_not_disturbed():
    # a run that holds its folder goes on, and looking does not disturb it
    path = make("living", [event("start")])
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    expect(state(path) == "running", f"a living run: {state(path)!r}")
    os.close(lock)
    expect(state(path).startswith("no end recorded"), "and a dead one does not")


def test_the_title_is_the_real_path():
    # the page's name
    path = make("named", [event("end")])
    for asked, where, title in ((".", path, os.path.realpath(path)), ("..", os.path.join(path, "within"), os.path.realpath(path)), ("named/", folder, "named"), (path + "//", folder, path)):
        os.makedirs(where, exist_ok=True)
        page = subprocess.run([command, "report", asked, "-o", "-"], cwd=where, capture_output=True, text=True).stdout
        expect(f"<title>Run {title}</title>" in page, f"{asked}: {page[:400]}")


def test_what_may_not_be_read_is_not_missing():
    # what may not be read is no missing file
    shut = make("shut", [event("end")])
    os.chmod(os.path.join(shut, "events.jsonl"), 0)
    os.chmod(folder, 0o755)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    if os.geteuid() == 0 and not (shutil.which("setpriv") and subprocess.run([*nobody, command, "--version"], capture_output=True).returncode == 0):
        print("note: root reads everything, and nobody cannot run the command here; unreadable files were not tried")
    else:
        page = subprocess.run([*nobody, command, "report", shut, "-o", "-"], capture_output=True, text=True).stdout
        expect(has_facts(page, "events.jsonl cannot be read: Permission denied.") and "<dd>4</dd>" in page, "one file that may not be read")
        done = subprocess.run([*nobody, command, "report", shut], capture_output=True, text=True)
        expect(done.returncode == 1 and done.stderr.endswith("; -o FILE writes it elsewhere\n") and "report.html" in done.stderr, f"a folder that may not be written: {done.stderr}")
        os.chmod(os.path.join(shut, "metrics.jsonl"), 0)
        done = subprocess.run([*nobody, command, "report", shut, "-o", "-"], capture_output=True, text=True)
        expect(done.returncode == 2 and not missing(done.stderr, "Permission denied") and done.stderr.count("\n") == 1, f"none: {done.stderr}")


def test_a_real_run_that_fails_writes_why():
    # a real run that fails writes why into its folder
    if os.path.exists(os.path.join(build, "slackline-worker")) and shutil.which("mpirun"):
        out = os.path.join(folder, "diverged")
        done = subprocess.run([command, "train", os.path.join(source, "examples", "slow-link.yaml"), "--out", out, "--set", "iterations=30", "--set", "model.layers=2", "--set", "model.width=16",
                               "--set", "parallel.pipeline=2", "--set", "batch.microbatches=4", "--set", "device.pace_ms={F: 1, I: 1, W: 1}", "--set", "optimizer.lr=100", "--set", "faults=[]"],
                              capture_output=True, text=True, timeout=120)
        last = json.loads(open(os.path.join(out, "events.jsonl")).read().splitlines()[-1])
        expect(done.returncode == 1 and last["kind"] == "failed" and last["why"] in done.stderr and has_facts(last["why"], "not finite"), f"a run that diverges: {done.stderr[-300:]} {last}")
        expect(state(out).startswith("failed: rank "), f"its state: {state(out)}")
    else:
        print("note: no trainer here; the real run was left out")
