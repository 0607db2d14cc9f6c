"""The picture of what adapting was worth (iterations.svg): cost, gain and bound are those of the run's own iterations, by hand; of
several faults it shows the change that saved most and never one beside which a fault went; a run without a change, without
trouble, without relief, without files shows what there is."""
import json
import os
import re
from xml.etree import ElementTree

from calling import folder, run
from runner import expect, has_facts

# Two ranks, one microbatch, 10 ms an op: F0, F1, I1, I0 and W0 follow each other, so no schedule is shorter than 50 ms and two
# messages. With 25 ms each way that is 100 ms.
PROFILE = "pipeline: {ranks: 2, microbatches: 1, times_ms: {F: 10, I: 10, W: 10}}\n"


def rows(first, end, time, phase, link=0.0, schedule="adaptra"):
    return [{"iteration": i, "loss": 3.0, "time_ms": time, "schedule": schedule, "phase": phase, "delegates": 0,
             "links": [{"from": a, "to": b, "latency_ms": link, "transfer_ms": 0.0} for a, b in ((0, 1), (1, 0))]} for i in range(first, end)]


def slices(row):
    """An iteration's ops: the last one ends when the iteration does."""
    link, end = row["links"][0]["latency_ms"], row["time_ms"]
    starts = {("F", 0): 0, ("F", 1): 10 + link, ("I", 1): 20 + link, ("W", 1): 30 + link, ("I", 0): 30 + 2 * link, ("W", 0): end - 10}
    return [{"ph": "X", "pid": stage, "tid": 0, "cat": kind, "name": kind + "0", "ts": 1000 * (start + 1000 * row["iteration"]), "dur": 10000,
             "args": {"iteration": row["iteration"], "stage": stage, "microbatch": 0}} for (kind, stage), start in starts.items()]


def event(kind, iteration, **more):
    return {"time_s": float(iteration), "iteration": iteration, "kind": kind, **more}


def make(name, metrics, events, profile=PROFILE, recorded=lambda row: True):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    for file, lines in (("metrics.jsonl", metrics), ("events.jsonl", events)):
        with open(os.path.join(path, file), "w") as out:
            out.write("".join(json.dumps(line) + "\n" for line in lines))
    if profile:
        with open(os.path.join(path, "profile.yaml"), "w") as out:
            out.write(profile)
    with open(os.path.join(path, "timeline.json"), "w") as out:
        out.write('{"traceEvents":[\n' + ",\n".join(json.dumps(s) for row in metrics if recorded(row) for s in slices(row)) + "\n]}\n")
    return path


def texts(path):
    """What stands on the picture; None: there is none."""
    pictures = path + "-pictures"
    done = run("report", path, "--svg", pictures)
    expect(done.returncode == 0, f"{path}: {done.stderr}")
    file = os.path.join(pictures, "iterations.svg")
    if not os.path.exists(file):
        return None
    root = ElementTree.parse(file).getroot()
    expect(float(root.get("width")) <= 850, f"{path}: wider than a page: {root.get('width')}")
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def shown(name, path, *wanted, never=()):
    said = texts(path) or []
    for text in wanted:
        expect(text in said, f"{name}: no {text!r} in {said}")
    for text in never:
        expect(not [t for t in said if t and re.search(text, t)], f"{name}: {text!r} in {said}")


# 50 ms, then 150, 110 after the change: 100 ms lost, 40 of them back
healthy, slow, adapted = rows(0, 10, 50.0, "healthy"), rows(10, 15, 150.0, "slow", 25.0), rows(15, 25, 110.0, "adapted", 25.0, "zb-h2 (adapted)")
fault = [event("fault", 10, decided="injected"), event("onset", 10, seen="link 0-1: 25 ms"),
         event("swap", 14, seen="link 0-1: 25 ms one way", decided="swap to zb-h2")]
relief = [event("fault", 25, decided="removed"), event("relief", 25, seen="healthy"), event("return", 27, decided="return to the first schedule")]
relieved = rows(25, 28, 50.0, "between", 0.0, "zb-h2 (adapted)") + rows(28, 32, 50.0, "relieved")
three = ("Before: 50 ms per iteration", "During: 150 ms per iteration", "+100 ms per iteration", "After: 110 ms per iteration", "-40 ms, 40% of the loss")


def test_cost_gain_and_bound_are_those_of_the_iterations():
    path = make("one", healthy + slow + adapted + relieved, [event("start", 0), *fault, *relief, event("end", 32)])
    shown("one fault", path, *three, "bound 100 ms", "link 0-1: 25 ms one way")
    page = run("report", path, "-o", "-").stdout
    expect(has_facts(page.split('id="gains"')[1].split("</section>")[0], "+100 ms per iteration"), "the page has the picture, too")


def test_what_is_missing_is_left_out_of_the_picture():
    shown("never relieved", make("never", healthy + slow + adapted, [event("start", 0), *fault]), *three, "bound 100 ms")
    shown("killed: no profile.yaml, so no bound", make("killed", healthy + slow + adapted, [event("start", 0), *fault], profile=None), *three, never=["bound"])
    shown("after the fault only", make("cold", slow + adapted, [event("start", 0), *fault[1:]]), "During: 150 ms per iteration", "-40 ms", never=["% of", r"\+", "Before"])
    shown("not recorded during trouble", make("gap", healthy + slow + adapted, [event("start", 0), *fault], recorded=lambda row: row["phase"] != "slow"),
          "Before: 50 ms per iteration", "After: 110 ms per iteration", "-40 ms, 40% of the loss", "bound 100 ms", never=["During"])


# a second fault that costs more, whose change saves more: 250 ms, then 130
worse = rows(32, 36, 250.0, "slow", 25.0) + rows(36, 44, 130.0, "adapted", 25.0, "zb-h2 (adapted)")
again = [event("fault", 32, decided="injected"), event("onset", 32, seen="again"), event("swap", 35, seen="link 1-0", decided="swap to zb-h2")]


def test_the_change_that_saved_most_is_shown():
    shown("the change that saved most", make("several", healthy + slow + adapted + relieved + worse, [event("start", 0), *fault, *relief, *again]),
          "+200 ms per iteration", "-120 ms, 60% of the loss", "link 1-0", never=["^-40 ms"])


def test_a_change_after_the_fault_went_gains_nothing():
    # the same, but with the fault gone when the change begins: what it saved is not known, and the first one is shown
    gone = [*again, event("fault", 36, decided="removed")]
    shown("a fault that went", make("gone", healthy + slow + adapted + relieved + worse, [event("start", 0), *fault, *relief, *gone]), *three, never=["^-120 ms"])
    seen = [*again, event("relief", 38, seen="healthy")]
    shown("a fault that went unseen", make("unseen", healthy + slow + adapted + relieved + worse, [event("start", 0), *fault, *relief, *seen]), *three, never=["^-120 ms"])


def test_two_changes_in_a_row_are_one():
    # two changes without anything between them are one: delegates at 15, another schedule from 19 on
    steps = rows(15, 19, 140.0, "delegated", 25.0) + rows(19, 25, 110.0, "adapted", 25.0, "zb-h2 (adapted)")
    both = [*fault[:2], event("delegate", 14, seen="link 0-1: 25 ms one way", decided="delegates"), event("swap", 18, seen="later", decided="swap to zb-h2")]
    shown("two steps", make("steps", healthy + slow + steps, [event("start", 0), *both]), *three, "link 0-1: 25 ms one way", never=["later"])


def test_a_run_without_a_gain_claims_none():
    shown("nothing changed", make("ignored", healthy + slow, [event("start", 0), *fault[:2]]), *three[:3], "link 0-1: 25 ms", never=[r"^-\d", "bound", "After"])
    shown("no trouble", make("quiet", healthy, [event("start", 0)]), "50 ms per iteration", never=["Before", r"^-\d", "bound", r"\+"])
    shown("a change for the worse", make("worse", healthy + slow + rows(15, 25, 170.0, "adapted", 25.0), [event("start", 0), *fault]),
          "+100 ms per iteration", "After: 170 ms per iteration", never=[r"^-\d"])
    expect(texts(make("unrecorded", healthy, [event("start", 0)], recorded=lambda row: False)) is None, "nothing recorded, no picture")


def answer(path):
    page = run("report", path, "-o", "-").stdout
    found = re.search(r'<p class="answer">(.*?)</p>', page, re.S)
    return found[1] if found else ""


def test_the_page_opens_with_the_answer():
    for name, path, wanted in (
            ("one fault", make("told", healthy + slow + adapted + relieved, [event("start", 0), *fault, *relief, event("end", 32)]),
             "link 0-1: 25 ms one way; iterations 10 to 24; new schedule; 150 ms; 110 ms; 50 ms"),
            ("nothing changed", make("untold", healthy + slow, [event("start", 0), *fault[:2]]), "link 0-1: 25 ms; iterations 10 to 14; 150 ms; 50 ms; nothing was changed"),
            ("a change for the worse", make("worse-told", healthy + slow + rows(15, 25, 170.0, "adapted", 25.0), [event("start", 0), *fault]),
             "link 0-1: 25 ms one way; did not help; 150 ms; 170 ms; 50 ms"),
            ("a healthy time from slower iterations", make("cold-start", rows(0, 10, 6022.0, "healthy") + slow + adapted, [event("start", 0), *fault]),
             "No healthy time is known; 6022 ms in iterations 0 to 9; 150 ms in iterations 10 to 14; the new schedule brought it to 110 ms"),
            ("the same without a change", make("cold-still", rows(0, 10, 6022.0, "healthy") + slow, [event("start", 0), *fault[:2]]),
             "No healthy time is known; 6022 ms; 150 ms"),
            ("no trouble", make("calm", healthy, [event("start", 0)]), "Nothing was slow; 10 iterations; 50 ms"),
            ("restarts", make("restarted", healthy, [event("start", 0), event("restart", 4), event("restart", 6)]), "Nothing was slow; 50 ms per iteration; started again 2 times"),
            ("hostile", make("hostile", healthy + slow, [event("start", 0), event("onset", 10, seen="<b>link</b>")]), "&lt;b&gt;link")):
        said = answer(path)
        lacks = [part for part in wanted.split("; ") if part not in said]
        expect(not lacks and said.count(".") <= 2, f"{name}: {said!r} lacks {lacks}")
        expect("6022" not in said or "when all was well" not in said and "nothing was changed" not in said, f"{name} contradicts itself: {said!r}")


def test_decisions_are_a_table_and_pictures_fit_a_phone():
    path = make("decided", healthy + slow + adapted, [event("start", 0), *fault])
    with open(os.path.join(path, "decisions.txt"), "w") as file:
        file.write("    2.561 s  iteration   10  incident 1 begins: <link> 0-1\n    2.561 s  iteration   10    adapt the schedule: now\nanother line\n")
    page = run("report", path, "-o", "-").stdout
    table = page.split('id="decisions"')[1].split("</section>")[0]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    expect(cells == [["2.561", "10", "incident 1 begins: &lt;link&gt; 0-1"], ["2.561", "10", "adapt the schedule: now"], ["", "", "another line"]], f"{cells}")
    expect(table.count('class="step"') == 1, "a step stands below its decision")
    narrow = re.findall(r'<figure class="narrow"><svg[^>]* width="([\d.]+)', page)
    expect(len(narrow) >= 3 and all(float(width) <= 380 for width in narrow), f"pictures for a phone: {narrow}")
