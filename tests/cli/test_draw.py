"""`slackline draw`: boxes lie where times by hand say, several inputs share one axis, sizes on paper are those asked for, grey
pictures have no colour and coloured ones can be told apart without it, and what cannot be drawn is refused in one line."""
import json
import math
import os
import re
from xml.etree import ElementTree

from calling import folder, problem, refused, run, write
from runner import expect, missing, source

SVG = "{http://www.w3.org/2000/svg}"
delay = "pipeline.links.list.0.latency_ms"
LEFT, OWN, MARGINS = 70, 1210, 110  # units of the layout: where the axis begins, the whole, what is no plot


def draw(*arguments, text=None):
    done = run("draw", *arguments, text=text)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    return ElementTree.fromstring(done.stdout) if done.stdout else None


def units(picture):
    return [float(v) for v in picture.get("viewBox").split()][2]


def texts(picture):
    return [t.text for t in picture.iter(SVG + "text")]


def titles(picture):
    return [t.text for t in picture.iter(SVG + "text") if t.get("font-weight") == "bold"]


def boxes(picture):
    """(what, from ms, to ms, x, width) of every op and message that has a tooltip."""
    found = []
    for rect in picture.iter(SVG + "rect"):
        for tip in rect.findall(SVG + "title"):
            what, begin, end = re.fullmatch(r"(.*): ([\d.]+) to ([\d.]+) ms", tip.text).groups()
            found.append((what, float(begin), float(end), float(rect.get("x")), float(rect.get("width"))))
    return found


def on_axis(picture, longest, begin=0, name=""):
    """Every box is where its times put it."""
    scale = (units(picture) - MARGINS) / longest
    for what, start, end, x, width in boxes(picture):
        expect(abs(x - LEFT - (start - begin) * scale) < 0.02, f"{name}: {what} from {start} lies at {x}")
        expect(abs(width - (end - start) * scale) < 0.02 or end == start, f"{name}: {what} is {width} wide")


def test_schedules_lie_below_each_other_on_one_axis():
    picture = draw(problem, "--schedule", "1f1b,zb-h2")
    on_axis(picture, 450, name="two schedules")  # 1f1b: (12 + 3) * 30 ms, the longer one
    expect([t.split(",")[0] for t in titles(picture)] == ["1f1b: 450 ms", "zb-h2: 390 ms"], f"titles: {titles(picture)}")
    expect(len(boxes(picture)) == 4 * 12 * 2 + 4 * 12 * 3, "1f1b has F and B, zb-h2 F, I and W, of 12 microbatches on 4 ranks")
    expect(("F0 of stage 3, rank 3", 30.0, 40.0) in [b[:3] for b in boxes(picture)], "the last rank begins after three forwards")


def test_options_follow_their_input():
    before_after = draw("--schedule", "1f1b", problem, problem, "--set", f"{delay}=20")
    on_axis(before_after, 650, name="before and after")  # 1f1b has no slack: 450 + 10 * 20 ms, as the published model says
    expect(f"{delay.removeprefix('pipeline.')}=20" in titles(before_after)[1] and "latency" not in titles(before_after)[0], "a title says what was set")
    both = draw(problem, "--set", f"{delay}=20", problem, "--schedule", "zb-h2", "--set", f"{delay}=0")
    expect("latency_ms=20" in titles(both)[0] and titles(both)[1].startswith("zb-h2: 390 ms"), "options stand behind their input")


order = os.path.join(folder, "order.csv")
run("plan", problem, "--schedule", "zb-h1", "--format", "csv", "-o", order)
saved = os.path.join(folder, "plan.json")


def test_an_order_and_a_plan_are_drawn_as_planned():
    planned = draw(problem, "--schedule", "zb-h1")
    expect(boxes(draw(problem, "--order", order)) == boxes(planned), "an order is timed as the plan that wrote it")
    for schedule, more in (("zb-h1", []), ("1f1b", ["--set", f"{delay}=20"]), ("dualpipe-v", ["--set", "pipeline.placement=wave", "--set", "pipeline.stages=8"]),
                           ("zb-h1", ["--set", "pipeline.parts=2"]), ("zb-h1", ["--set", "pipeline.data_parallel={reduce_ms: 5, gather_ms: 3}"])):
        done = run("plan", problem, "--schedule", schedule, "--format", "json", "-o", saved, *more)
        expect(done.returncode == 0, f"{schedule} {more}: {done.stderr}")
        direct = draw(problem, "--schedule", schedule, *more)
        again = [(w.replace(" part 0", ""), a, b, x, y) for w, a, b, x, y in boxes(draw(saved))]
        expect(sorted(again) == sorted((w.replace(" part 0", ""), a, b, x, y) for w, a, b, x, y in boxes(direct)), f"{schedule} {more}: from JSON")
    with open(problem) as file:
        expect(boxes(draw("-", "--schedule", "zb-h1", text=file.read())) == boxes(planned), "a problem from standard input")


def rank_trace(name, pid, ops, named="PP:%s", **more):
    return write(name, json.dumps({**more, "traceEvents": [{"ph": "X", "pid": pid, "tid": 1, "cat": "user_annotation", "name": named % op, "ts": 1000 * a,
                                                            "dur": 1000 * (b - a)} for op, a, b in ops]}))


def test_a_trace_is_drawn_below_its_prediction():
    for schedule in ("zb-h1", "1f1b"):  # a trace as other programs write it: traced below, its order in simulation above
        trace = os.path.join(folder, "trace.json")
        run("plan", problem, "--schedule", schedule, "--set", f"{delay}=20", "--format", "trace", "-o", trace)
        traced = draw(trace)
        expect([t.split(":")[0] for t in titles(traced)] == ["predicted", "traced"], f"titles of a trace: {titles(traced)}")
        times = sorted(b[:3] for b in boxes(draw(problem, "--schedule", schedule, "--set", f"{delay}=20")))
        expect(sorted(b[:3] for b in boxes(traced)) == sorted(times + times), "a trace of a plan is drawn as the plan, twice")


of_rank = ([("0F0", 0, 10), ("0F1", 10, 20), ("0B0", 50, 70), ("0B1", 80, 100)], [("1F0", 15, 25), ("1B0", 25, 45), ("1F1", 45, 55), ("1B1", 55, 75)])
ranks = [rank_trace(f"rank{i}.json", 40 + i, ops, distributedInfo={"rank": i}) for i, ops in enumerate(of_rank)]
plain = rank_trace("plain.json", 7, [(f"{'fwd' if op[1] == 'F' else 'bwd'} stage {op[0]} mb {op[2]}", a, b) for op, a, b in of_rank[0]], "%s")
other = rank_trace("other.json", 8, [(f"{'fwd' if op[1] == 'F' else 'bwd'} stage {op[0]} mb {op[2]}", a, b) for op, a, b in of_rank[1]], "%s")


def test_traces_of_ranks_are_one_picture_with_the_times_by_hand():
    by_hand = sorted((f"{op[1:]} of stage {op[0]}, rank {op[0]}", float(a), float(b)) for ops in of_rank for op, a, b in ops)
    for files in (ranks, ranks[::-1]):
        picture = draw(*files, "--messages", "off")
        expect([t.split(":")[0] for t in titles(picture)] == ["predicted", "traced"], f"two ranks are one picture: {titles(picture)}")
        expect(sorted(b[:3] for b in boxes(picture)) == sorted(by_hand + by_hand), f"every op of both ranks, predicted and traced: {boxes(picture)}")
        on_axis(picture, 100, name="ranks")
    merged = write("merged.json", json.dumps({"traceEvents": [e for f in ranks for e in json.load(open(f))["traceEvents"]]}))
    expect(boxes(draw(merged)) == boxes(draw(*ranks)), "as one merged file")
    expect([t.split(":")[0] for t in titles(draw(merged, merged))] == ["predicted", "traced"] * 2, "traces that hold all ranks stand below each other")
    expect(titles(draw(*ranks, "--title", "foretold", "--title", "seen")) == ["foretold", "seen"], "options stand behind the last of them")
    expect(len(titles(draw(*ranks, "--iteration", "0", *ranks))) == 4, "an option ends the ranks of a run")
    mapping = ("--map", "F=fwd stage {stage} mb {mb}", "--map", "B=bwd stage {stage} mb {mb}")
    expect(boxes(draw(plain, other, *mapping)) == boxes(draw(*ranks)), "names that --map explains")


def test_traces_that_cannot_be_drawn_are_named():
    refused(2, "plain.json | 4 | 'fwd stage N mb N' | 2", "draw", plain, other)
    refused(2, "rank1.json | 0", "draw", ranks[1])
    refused(2, "--microbatches", "draw", *ranks, "--microbatches", "0")


def test_memory_of_traces_is_that_of_their_ops():
    # held: on rank 0 both activations from 10 ms, on rank 1 one at a time
    held = draw(*ranks, "--what", "gantt,memory")
    paths = [p.get("d") for p in held.iter(SVG + "path") if p.get("class") == "memory"]
    expect(len(paths) == 4, "a course for each rank, predicted and traced")
    for at, most in ((0, 2), (1, 1), (2, 2), (3, 1)):
        bottom = float(re.match(r"M[\d.]+ ([\d.]+)", paths[at]).group(1))
        expect(round((bottom - min(float(v) for v in re.findall(r"V([\d.]+)", paths[at]))) / 34 * 2, 3) == most, f"rank {at % 2} holds {most}: {paths[at]}")


def test_messages_have_lanes():
    lanes = draw(problem, "--schedule", "1f1b", "--set", f"{delay}=20", "--what", "links")
    rides = {b[0]: b for b in boxes(lanes)}
    expect(next(ride for words, ride in rides.items() if not missing(words, "F0 | stage 0 | 0 -> 1"))[1:3] == (10.0, 30.0), "the first activation is under way from 10 ms to 30")
    expect(all("0 -> 1" in w or "1 -> 0" in w for w in rides) and len(rides) == 24, "the other links take no time")
    on_axis(lanes, 650, name="lanes")
    expect(not any(re.fullmatch(r"rank \d", t or "") for t in texts(lanes)), "lanes alone have no rows of ops")


def test_memory_is_drawn_in_steps_of_one_activation():
    shared = draw(problem, "--schedule", "1f1b", "--what", "memory")
    behind = [t for t in texts(shared) if re.fullmatch(r"[\d.]+", t or "")]
    expect([t for t in behind if float(t) <= 12][:4] == ["4", "3", "2", "1"], f"1F1B holds ranks - r activations: {behind}")
    expect(sum(p.get("class") == "memory" for p in shared.iter(SVG + "path")) == 4, "a course for each rank")
    gpipe = draw(problem, "--schedule", "gpipe", "--what", "gantt,memory,links")
    expect(texts(gpipe).count("rank 0") == 2, "ops, and memory below them")
    # rank 0 of 1F1B: F at 0, 10, 20, 30 ms, the first B ends at 120, and F begins then, so that 4 are held: the course is 1, 2, 3, 4
    course = [p.get("d") for p in shared.iter(SVG + "path") if p.get("class") == "memory"][0]
    heights = [float(v) for v in re.findall(r"V([\d.]+)", course)]
    bottom = float(re.match(r"M[\d.]+ ([\d.]+)", course).group(1))
    expect([round((bottom - v) / 34 * 4, 3) for v in heights[:4]] == [1, 2, 3, 4], f"steps of one activation: {course[:80]}")


# from a plan's JSON the same, and there it can be counted by hand: 1F1B's rank 0 begins to hold at 0, 10, 20 and 30 ms
def memory_of(picture):
    return [(p.get("d"), p.get("stroke-dasharray")) for p in picture.iter(SVG + "path") if p.get("class") == "memory" or p.get("stroke-dasharray") == "6 3"], texts(picture)


def test_fixed_memory_is_there_from_the_beginning():
    # fixed memory is there before the rank's first op: 4 of at most 8, for 1F1B's rank 0 holds 4 more
    fixed = draw(problem, "--schedule", "1f1b", "--what", "memory", "--set", "pipeline.memory.fixed=4")
    for p in (p.get("d") for p in fixed.iter(SVG + "path") if p.get("class") == "memory"):
        bottom, begin = (float(v) for v in re.match(r"M[\d.]+ ([\d.]+)V([\d.]+)", p).groups())
        expect(abs((bottom - begin) / 34 * 8 - 4) < 0.01, f"memory that is there from the beginning: {p[:60]}")
    expect([t for t in texts(fixed) if t in "5678"] == ["8", "7", "6", "5"], "peaks count it")


def test_memory_of_a_plan_file_is_that_of_the_plan():
    for schedule, more in (("1f1b", []), ("1f1b", ["--set", "pipeline.memory.fixed=4", "--set", "pipeline.memory.limit=12"]),
                           ("adaptra", ["--set", "pipeline.memory.limit=[9, 8, 7, 6]", "--set", f"{delay}=20"]), ("zb-v", ["--set", "pipeline.placement=wave"])):
        done = run("plan", problem, "--schedule", schedule, "--format", "json", "-o", saved, *more)
        expect(done.returncode == 0, f"{schedule} {more}: {done.stderr}")
        direct = draw(problem, "--schedule", schedule, "--what", "gantt,memory", "--critical", "off", "--title", "x", *more)
        again = draw(saved, "--what", "gantt,memory", "--title", "x")
        expect(len(memory_of(direct)[0]) == (9 if any("limit" in m for m in more) else 4) and memory_of(again) == memory_of(direct), f"{schedule} {more}: memory from JSON (and the legend has the limit)")
        if not more:
            held = json.load(open(saved))["memory"][0]
            expect(held["steps"][:4] == [[0, 1], [10, 2], [20, 3], [30, 4]] and held["fixed"] == 0, f"held by rank 0: {held}")
        elif schedule == "1f1b":
            held = json.load(open(saved))["memory"][0]
            expect(held["steps"][0] == [0, 5] and (held["fixed"], held["limit"]) == (4, 12), f"with what lies there: {held}")


def test_a_window_cuts_and_the_axis_stays():
    window = draw(problem, "--schedule", "1f1b", "--from", "100", "--to", "200")
    scale = 1100 / 100
    for what, start, end, x, width in boxes(window):
        expect(start < 200 and end > 100, f"{what} lies in the window")
        expect(abs(x - LEFT - (max(start, 100) - 100) * scale) < 0.02 and x + width <= LEFT + 1100.02, f"{what} is cut at its edges: {x} {width}")
    ticks = [t for t in texts(window) if re.fullmatch(r"\d+( ms)?", t or "") and int(t.split()[0]) >= 100]
    expect(ticks[0] == "100 ms" and ticks[-1] == "200", f"the axis is that of the iteration: {ticks}")


def test_labels_titles_and_messages_can_be_turned_off():
    bare = draw(problem, "--labels", "off", "--legend", "off", "--title", "")
    expect(all(re.fullmatch(r"rank \d|[\d.]+( ms)?", t) for t in texts(bare)) and titles(bare) == [], f"only ranks and times: {texts(bare)}")
    named = draw(problem, "--schedule", "1f1b,zb-h1", "--title", "<A> & B", "--title", "C")
    expect(titles(named) == ["<A> & B", "C"], "titles of one's own")
    expect(not any(r.get("stroke-width") == "1.6" for r in draw(problem, "--critical", "off").iter(SVG + "rect")), "no outline of the critical path")
    lines = [p for p in draw(problem, "--set", f"{delay}=20", "--messages", "off").iter(SVG + "path") if "L" in p.get("d")]
    expect(lines == [], "no messages")


def inside(paper, name):
    """No box leaves the picture, and no bold line is wider than it by the widest reckoning of its letters."""
    width = units(paper)
    for rect in paper.iter(SVG + "rect"):
        if rect.get("x"):
            expect(float(rect.get("x")) + float(rect.get("width")) <= width + 0.1, f"{name}: a box leaves the picture")
    for line in titles(paper):
        expect(len(line) * 8 <= width, f"{name}: the title is too wide: {line}")


def test_letters_have_the_size_on_paper_that_was_asked_for():
    for size, px, unit in (("85mm", 85 * 96 / 25.4, "mm"), ("3.3in", 3.3 * 96, "in"), ("240pt", 320, "pt"), ("700px", 700, ""), ("12cm", 120 * 96 / 25.4, "cm")):
        for what in ("gantt", "compare"):
            paper = draw(problem, "--schedule", "1f1b,gpipe", "--what", what, "--width", size, "--font-size", "8")
            expect(paper.get("width") == size.removesuffix("px"), f"{size}: {paper.get('width')}")
            letters = float(paper.get("font-size")) * px / units(paper)
            expect(abs(letters - 8 * 96 / 72) < 0.01, f"{what} {size}: letters are {letters} px high")
            ratio = float(paper.get("height").removesuffix(unit) if unit else paper.get("height")) / float(size.removesuffix(unit or "px"))
            box = [float(v) for v in paper.get("viewBox").split()]
            expect(abs(ratio - box[3] / box[2]) < 0.01, f"{size}: as high as it is laid out")
        if what == "gantt":
            on_axis(paper, 450, name=size)


def channels(colour):
    colour = colour[1:]
    return [int(colour[i] * 2 if len(colour) == 3 else colour[2 * i:2 * i + 2], 16) for i in range(3)]


def colours(picture):
    return {e.get(a) for e in picture.iter() for a in ("fill", "stroke") if (e.get(a) or "").startswith("#")}


wave = os.path.join(source, "examples", "wave.yaml")


def test_nothing_leaves_the_picture():
    inside(draw(problem, "--width", "60mm", "--font-size", "7"), "a narrow Gantt chart")
    inside(draw(problem, "--what", "compare", "--schedule", "1f1b,zb-h1", "--sweep", f"{delay}=0:20:10", "--width", "85mm", "--font-size", "7"), "a narrow chart")


def lab(rgb):
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in rgb]
    xyz = [sum(a * b for a, b in zip(row, linear)) for row in ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))]
    f = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (xyz[0] / 0.9505, xyz[1], xyz[2] / 1.089)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


# What dichromats see (Machado, Oliveira and Fernandes 2009, severity 1), on linear light.
SEEN = {"protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
        "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
        "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900))}


def seen(rgb, matrix):
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in rgb)]
    mixed = [min(1, max(0, sum(a * b for a, b in zip(row, linear)))) for row in matrix]
    return [12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055 for v in mixed]


def test_grey_pictures_have_no_color_and_ops_differ():
    for arguments in ([problem, "--what", "gantt,memory,links", "--set", f"{delay}=20"], [wave, "--schedule", "zb-v"], [problem, "--schedule", "1f1b"],
                      [problem, "--what", "compare", "--schedule", "1f1b,gpipe,zb-h1,zb-h2", "--sweep", f"{delay}=0:20:10"], [problem, "--what", "compare", "--schedule", "1f1b,gpipe"]):
        grey = draw(*arguments, "--grey")
        expect(all(len(set(channels(c))) == 1 for c in colours(grey)), f"{arguments}: colours in a grey picture: {colours(grey)}")
    kinds = draw(problem, "--schedule", "1f1b,zb-h1", "--grey")
    fills = {b.find(SVG + "title").text[0]: b.get("fill") for b in kinds.iter(SVG + "rect") if b.findall(SVG + "title")}
    expect(len(set(fills.values())) == 4, f"F, I, W and B differ in grey: {fills}")
    defined = {p.get("id") for p in kinds.iter(SVG + "pattern")}
    expect(all(f.startswith("#") or f[5:-1] in defined for f in fills.values()), f"every pattern is defined: {fills} {defined}")


def slice_of(rank, track, category, name, start, end, number, stage, microbatch):
    return {"ph": "X", "pid": rank, "tid": track, "cat": category, "name": name, "ts": start * 1000, "dur": (end - start) * 1000,
            "args": {"iteration": number, "stage": stage, "microbatch": microbatch}}


def recorded(number, begin, update):
    """One microbatch on two ranks, an update of `update` ms before it, ops of 10 ms, messages of 5 ms: 75 ms from its first op on."""
    t = begin + update
    out = [slice_of(0, 0, "update", "update", begin, t, number, 0, -1)]
    out += [slice_of(0, 0, "F", "F0", t, t + 10, number, 0, 0), slice_of(0, 2, "transfer", "F0", t + 10, t + 15, number, 0, 0)]
    out += [slice_of(1, 0, "F", "F0", t + 15, t + 25, number, 1, 0), slice_of(1, 0, "I", "I0", t + 25, t + 35, number, 1, 0), slice_of(1, 0, "W", "W0", t + 35, t + 45, number, 1, 0)]
    out += [slice_of(1, 1, "transfer", "I0", t + 35, t + 40, number, 1, 0), slice_of(0, 0, "I", "I0", t + 40, t + 50, number, 0, 0), slice_of(0, 0, "W", "W0", t + 50, t + 60, number, 0, 0)]
    return out


def metric(i, time, schedule, loss):
    return {"iteration": i, "loss": loss, "time_ms": time, "predicted_ms": 60.0, "schedule": schedule, "delegates": 0, "tokens_per_s": 1.0, "phase": "healthy",
            "late": False, "links": [{"from": 0, "to": 1, "latency_ms": 5.0, "transfer_ms": 0.0}, {"from": 1, "to": 0, "latency_ms": 5.0, "transfer_ms": 0.0}]}


def make(name, count, swap):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    events = [e for i in range(count) for e in recorded(i, 1000 * i, 4 if i % 2 else 20)]
    names = [{"ph": "M", "pid": r, "name": "process_name", "args": {"name": f"rank {r}"}} for r in (0, 1)]
    content = {"timeline.json": '{"traceEvents":[\n' + ",\n".join(json.dumps(e) for e in names + events) + "\n]}\n",
               "metrics.jsonl": "".join(json.dumps(metric(i, 100.0 if i < swap else 60.0, "a" if i < swap else "b", 5 - i / 10)) + "\n" for i in range(count)),
               "events.jsonl": json.dumps({"time_s": 1.0, "iteration": swap - 1, "kind": "swap", "link": [0, 1], "decided": "b"}) + "\n",
               "profile.yaml": "pipeline: {ranks: 2, microbatches: 1, times_ms: {F: 10, I: 10, W: 10}, memory: {delta: {F: 1, I: 0, W: -1}},"
                               " links: {default: {latency_ms: 5}}}\n"}
    for file, text in content.items():
        with open(os.path.join(path, file), "w") as out:
            out.write(text)
    return path


def test_ops_differ_to_color_blind_readers():
    coloured = draw(problem, "--schedule", "1f1b,zb-h1")
    fills = {b.find(SVG + "title").text[0]: channels(b.get("fill")) for b in coloured.iter(SVG + "rect") if b.findall(SVG + "title")}
    for a in fills:
        for b in fills:
            if a < b:
                for name, matrix in SEEN.items():
                    distance = math.dist(lab(seen(fills[a], matrix)), lab(seen(fills[b], matrix)))
                    expect(distance > 15, f"{a} and {b} with {name}: {distance:.0f}")  # 2.3 is just noticeable
                if {a, b} != {"I", "B"}:  # no schedule has both
                    grey = abs(lab([v / 255 for v in fills[a]])[0] - lab([v / 255 for v in fills[b]])[0])
                    expect(grey > 8, f"{a} and {b} in grey print: {grey:.0f}")


first, second = make("first", 8, 4), make("second", 12, 6)


def test_a_run_is_predicted_above_measured_on_one_axis():
    gantt = draw(first, "--iteration", "3", second, "--iteration", "4")
    expect(len(titles(gantt)) == 4 and [t.split(":")[0] for t in titles(gantt)] == ["predicted", "measured"] * 2, f"predicted above measured: {titles(gantt)}")
    expect("iteration 3" in titles(gantt)[1] and "iteration 4" in titles(gantt)[3] and "ops 60 ms" in titles(gantt)[1], f"which: {titles(gantt)}")
    starts = {round(x, 2) for what, _, _, x, _ in boxes(gantt) if what == "F0 of stage 0, rank 0"}
    expect(len(starts) == 1, f"first ops stand below each other, however long the updates before them: {starts}")
    on_axis(gantt, 80, name="runs")  # 20 ms of update, 60 of ops
    expect(boxes(draw(os.path.join(first, "timeline.json"), "--iteration", "3")) != [], "a timeline outside of its folder")
    memory = draw(first, "--what", "gantt,memory", "--iteration", "3")
    expect(sum(p.get("class") == "memory" for p in memory.iter(SVG + "path")) == 4, "memory of predicted and measured")


def line_end(group):
    """Where the longest line of a chart ends, in units of the layout."""
    return max(float(v) for p in group.iter(SVG + "path") if p.get("stroke-linejoin") for v in re.findall(r"[ML]([\d.]+) ", p.get("d")))


def test_iterations_of_two_runs_share_one_axis():
    course = draw(first, second, "--what", "iterations,loss,gains")
    groups = course.findall(SVG + "g")
    expect(len(groups) == 6, "three charts of two runs")
    expect([" ".join(titles(g)) for g in groups] == [f"{p}: {t}" for p in (first, second) for t in ("Iteration time", "Loss", "What each change gained")],
           f"each says whose it is: {[titles(g) for g in groups]}")

    expect(line_end(groups[0]) == line_end(groups[1]), "time and loss of a run stand below each other")
    ratio = (line_end(groups[0]) - 76) / (line_end(groups[3]) - 76)
    expect(abs(ratio - 7 / 11) < 0.01, f"iterations 0 to 7 and 0 to 11 on one axis: {ratio}")
    expect(any("4: swap" in t for t in texts(course)), "what was changed at which iteration")
    expect(draw(first, "--what", "links") is not None and draw(first, "--what", "devices") is not None, "links and devices over the run")


def test_names_of_many_changes_stay_inside_the_picture():
    # what was gained by many changes: their names hang below the axis, clear of what else stands there, and none leaves the picture
    many = make("many", 40, 4)
    with open(os.path.join(many, "events.jsonl"), "w") as out:
        for i in range(3, 36, 4):
            out.write(json.dumps({"time_s": 1.0, "iteration": i, "kind": "delegate", "decided": "x"}) + "\n")
    for more in ([], ["--width", "85mm", "--font-size", "7"], ["--width", "200mm"]):
        hung = draw(many, "--what", "gains", *more)
        labels = [t for t in hung.iter(SVG + "text") if "delegate" in (t.text or "")]
        expect(len(labels) == 9, f"a name for each change: {texts(hung)}")
        lowest, leftmost = 0, 1e9
        for t in labels:
            x, y, angle = (float(v) for v in re.fullmatch(r"translate\(([\d.]+) ([\d.]+)\) rotate\(-(\d+)\)", t.get("transform")).groups())
            length = 6 * len(t.text)  # letters of 12 are some 6 to 7 wide
            lowest, leftmost = max(lowest, y + length * math.sin(math.radians(angle))), min(leftmost, x - length * math.cos(math.radians(angle)))
        below = [float(t.get("y")) - 9 for t in hung.iter(SVG + "text") if t.text in ("from iteration: change", "before") and t.get("y") and float(t.get("y")) > y]
        expect(leftmost >= 0 and below and min(below) > lowest, f"{more}: names reach down to {lowest:.0f} and left to {leftmost:.0f}, others begin at {below}")


def test_report_writes_the_same_pictures():
    pictures = os.path.join(folder, "pictures")
    expect(run("report", first, "--svg", pictures).returncode == 0 and "gains.svg" in os.listdir(pictures), "report --svg has the gains, too")


def test_the_last_replica_is_drawn_unless_another_is_asked_for():
    replicas = os.path.join(folder, "replicas.json")
    events = [{"ph": "M", "pid": 2 * d + r, "name": "process_name", "args": {"name": f"replica {d}, rank {r}"}} for d in (0, 1) for r in (0, 1)]
    for d in (0, 1):
        for e in recorded(5, 1000, 4):
            late = 1000 * 30 if d == 0 and e["name"] == "W0" and e["pid"] == 0 else 0  # replica 0 ends 30 ms later
            events.append({**e, "pid": e["pid"] + 2 * d, "ts": e["ts"] + late})
    write("replicas.json", '{"traceEvents":[\n' + ",\n".join(json.dumps(e) for e in events) + "\n]}\n")
    last = {r: max(end for what, _, end, _, _ in boxes(draw(replicas, *more)) if what.startswith("W0 of stage 0")) for r, more in ((0, []), (1, ["--replica", "1"]))}
    expect(last == {0: 94.0, 1: 64.0}, f"which replica is drawn: {last}")
    refused(1, "replica | 7", "draw", replicas, "--replica", "7")
    mixed = draw(problem, "--schedule", "1f1b", first, "--iteration", "3", replicas, "--iteration", "5")
    expect([t.split(":")[0] for t in titles(mixed)] == ["1f1b", "predicted", "measured", "measured"], f"inputs of every kind: {titles(mixed)}")
    on_axis(mixed, 470, name="inputs of every kind")  # the update that iteration 2 foretells takes 20 ms, 1F1B 450 ms


def test_wrong_requests_are_refused():
    refused(2, "nothing", "draw")
    refused(2, "no-such", "draw", "no-such")
    refused(2, "'--width'", "draw", problem, "--widht", "3")
    refused(2, "'gantt'", "draw", problem, "--what", "gant")
    refused(2, "axis", "draw", first, "--what", "gantt,loss")
    refused(2, "--what | loss", "draw", problem, "--what", "loss")
    refused(2, "problem", "draw", first, "--what", "compare")
    refused(2, "length", "draw", problem, "--width", "85furlongs")
    refused(2, "narrow", "draw", problem, "--width", "20mm", "--font-size", "12")
    refused(2, "narrow", "draw", problem, "--what", "compare", "--schedule", "1f1b", "--width", "20mm", "--font-size", "12")
    refused(2, "off", "draw", problem, "--labels", "maybe")
    refused(2, "--from", "draw", problem, "--from", "5", "--to", "5")
    refused(2, "problem", "draw", order)
    refused(2, "problem", "draw", first, "--set", f"{delay}=1")
    refused(2, "after", "draw", problem, "--iteration", "3")
    refused(2, "--what | compare", "draw", problem, "--sweep", f"{delay}=0:1:1")
    refused(2, "schedule | '1f1c'", "draw", problem, "--schedule", "1f1c")
    refused(1, "iteration | 99", "draw", first, "--iteration", "99")


def test_wrong_plan_files_are_named():
    run("plan", problem, "--schedule", "zb-h1", "--format", "json", "-o", saved)
    told = json.load(open(saved))
    earlier = write("earlier.json", json.dumps({k: v for k, v in told.items() if k != "memory"}))
    refused(1, "earlier.json | plan | memory", "draw", earlier, "--what", "memory")
    expect(boxes(draw(earlier)) == boxes(draw(saved)), "ops of such a plan are drawn")
    for wrong, says in (([], "'memory' | list | rank"), (told["memory"][::-1], "0 | 'memory' | 'rank'"),
                        ([{**m, "steps": [[5, 1], [4, 0]]} for m in told["memory"]], "ascending"), ([{**m, "steps": [[5]]} for m in told["memory"]], "pairs"),
                        ([{**m, "fixed": "much"} for m in told["memory"]], "'fixed'"), ([{**m, "steps": 3} for m in told["memory"]], "'steps' | list")):
        refused(2, says, "draw", write("wrong.json", json.dumps({**told, "memory": wrong})), "--what", "memory")
    text = open(saved).read()
    refused(2, "'rank'", "draw", write("rank.json", text.replace('"rank": 1', '"rank": 99', 1)))
    refused(2, "'end_ms'", "draw", write("late.json", re.sub(r'"end_ms": [\d.]+', '"end_ms": -1', text, count=1)))
    refused(2, "cut.json", "draw", write("cut.json", text[:2000]))
    refused(2, "trace", "draw", write("nothing.json", '{"traceEvents": []}'))
    refused(2, "2 | titles | 1", "draw", problem, problem, "--title", "a", "--title", "b")
    refused(2, "missing", "draw", problem, "--width")


def test_a_refused_picture_leaves_the_file_as_it_was():
    out = os.path.join(folder, "kept.svg")
    write("kept.svg", "as it was")
    refused(2, "narrow", "draw", problem, "--width", "20mm", "--font-size", "12", "-o", out)
    expect(open(out).read() == "as it was", "a picture that cannot be drawn leaves the file as it was")
    expect(run("draw", problem, "-o", out).returncode == 0 and ElementTree.parse(out).getroot().tag == SVG + "svg", "-o")
