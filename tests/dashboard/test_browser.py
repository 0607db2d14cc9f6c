"""labels: slow. The live page in headless Chromium: loads without a complaint, updates while a real run goes on, survives its
end and the dashboard's, stays usable with 1,000 ranks; a token, keyboard, dark and narrow. SL_PICTURES=FOLDER keeps pictures."""
import json
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import browser
from dash import Dashboard, command
from folders import Folder, lock_of
from runner import build, expect, folder, skip, source

if not browser.find():
    skip("chromium is not installed")
pictures = os.environ.get("SL_PICTURES")


def keep(page, name):
    if pictures:
        os.makedirs(pictures, exist_ok=True)
        time.sleep(0.4)
        page.picture(os.path.join(pictures, name + ".png"))


def text(page, where):
    return page.ask(f"document.getElementById('{where}').textContent")


def test_a_real_run_is_followed_to_its_end(page):
    """A real run of 4 ranks whose link turns slow: each iteration reaches the page while it goes on."""
    if not os.path.exists(os.path.join(build, "slackline-worker")):
        print("the real run is skipped: slackline-worker is not built")
        return
    out = os.path.join(folder, "run")
    with Dashboard(out) as d:
        page.open(d.url)
        page.wait("document.getElementById('state').textContent.includes('waiting')")
        run = subprocess.Popen([command, "train", os.path.join(source, "examples", "slow-link.yaml"), "--out", out, "--set", "iterations=40",
                                "--set", "faults.0.iterations=[14, 28]"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        page.wait("slackline.board.state === 'running' && slackline.board.head.iteration >= 2", 60)
        seen = set()
        while run.poll() is None:
            seen.add(page.ask("slackline.board.head.iteration"))
            page.read(0.15)
            if len(seen) == 18:
                keep(page, "run-light")
        expect(run.returncode == 0, f"the run: {run.stderr.read()}")
        expect(len(seen) >= 20, f"of 40 iterations {len(seen)} were seen on the page as they came: {sorted(seen)}")
        page.wait("slackline.board.state === 'ended'", 20)
        expect("ended" in text(page, "state") and "ended" in page.ask("document.title"), "the end is said")
        expect(page.ask("slackline.board.rows.length") == 40 and page.ask("slackline.board.head.iteration") == 39, "every iteration is there")
        expect(page.ask("slackline.board.setup.iterations") == 40, f"what was set holds: {page.ask('slackline.board.setup.iterations')}")
        expect(page.ask("slackline.states") <= 3, f"as changes: {page.ask('slackline.states')} times everything")
        expect(page.ask("slackline.board.ranks.filter(r => r[1] > 0 && r[2] > 0).length") == 4, "every rank was measured")
        kinds = page.ask("slackline.board.events.map(e => e.kind)")
        with open(os.path.join(out, "events.jsonl")) as file:
            written = [json.loads(line)["kind"] for line in file]
        expect(kinds == written and kinds[0] == "start" and kinds[-1] == "end" and "swap" in kinds, f"events: {kinds}, written: {written}")
        decisions = text(page, "decisions")
        decided = {k for k in kinds if k in ("swap", "return", "keep", "decision")}  # on a busy machine the run may end before its return
        expect(all(k in decisions for k in decided), f"decisions: {decided - {k for k in decided if k in decisions}} of {kinds} is not in {decisions[:300]}")
        page.ask("document.getElementById('gantt-shown').open = true")
        page.wait("document.getElementById('gantt-picture').naturalWidth > 300", 20)
        newest = d.ask("/gantt.svg")[2]
        expect("iteration 39" in newest, f"the newest recorded iteration is drawn: {newest[:300]}")
        page.ask("document.getElementById('gantt').scrollIntoView()")
        keep(page, "run-ended")
        page.open(d.url)
        page.wait("window.slackline && slackline.drawn > 0 && slackline.board.rows.length === 40")
        expect(not page.complaints, f"the page complains: {page.complaints}")
        expect(d.end() == 0, "the dashboard ends")
        page.wait("document.getElementById('live').textContent.includes('no connection')")
        expect(page.ask("slackline.board.rows.length") == 40 and "swap" in text(page, "decisions"), "the page survives the dashboard's end")
        page.wait("document.getElementById('state').textContent === 'was ended'")
        keep(page, "connection-lost")
        with Dashboard(out, listen=f"127.0.0.1:{d.port}") as again:
            page.wait("document.getElementById('live').textContent === 'live' && document.getElementById('state').textContent.includes('■ ended')", 30)
            expect(page.ask("slackline.board.rows.length") == 40, "and goes on with the next one at its address")
            page.open("about:blank")
            again.end()
        page.complaints.clear()  # of the connection that is gone


def test_a_picture_that_does_not_arrive_is_asked_for_again(page):
    """The first requests fail, then no iteration is recorded: the page says why and asks again, although the run makes no further
    iteration, and shows the picture once there is one."""
    path = os.path.join(folder, "unanswered")
    run = Folder(path, pipeline=2)
    run.hold()
    run.start()
    run.iterate(2)
    with Dashboard(path) as d:
        page.call("Network.setBlockedURLs", urls=["*gantt.svg*"])
        page.open(d.url)
        page.wait("document.getElementById('gantt-why').textContent.includes('failed')")
        expect(page.ask("document.getElementById('gantt-picture').hidden"), "there is no picture, and no broken one")
        page.wait("slackline.view.gantt.asked >= 2", 30)
        page.call("Network.setBlockedURLs", urls=[])
        page.wait("document.getElementById('gantt-why').textContent.includes('No iteration has been recorded')", 40)
        run.write("timeline.json", run.record(0) + run.record(1, begin=False))
        page.wait("document.getElementById('gantt-picture').naturalWidth > 300", 70)
        expect(text(page, "gantt-why") == "" and not page.ask("document.getElementById('gantt-picture').hidden"), f"the picture is shown: {text(page, 'gantt-why')}")
        asked = page.ask("slackline.view.gantt.asked")
        expect(3 <= asked <= 8, f"not in a hurry: asked {asked} times")
        page.size(400, 740, 2)
        page.wait("document.getElementById('gantt-picture').naturalWidth < 370", 20)
        shown = page.ask("(b => [b.scrollWidth, b.clientWidth])(document.querySelector('#gantt .table'))")
        expect(shown[0] <= shown[1], f"a narrow window has a picture that is not cut: {shown}")
        keep(page, "gantt-phone")
        page.size(1280, 900)
        page.complaints = [c for c in page.complaints if "ERR_BLOCKED_BY_CLIENT" not in c]  # what the test did
        expect(not page.complaints, f"the page complains: {page.complaints}")
        page.open("about:blank")
    run.release()


def test_a_watch_shows_the_calls_of_an_iteration(page):
    """As of the last profile; before it, the page says when they come. Of a damaged list, the valid calls are drawn."""
    path = os.path.join(folder, "watched")
    os.makedirs(path)

    def write(calls):
        with open(os.path.join(path, "watch.json.new"), "w") as out:
            json.dump({"job": "job", "program": "program", "hosts": ["a"], "status": {"state": "tracking", "iterations": 2, "iteration_ms": 20.0, "level_ms": 20.0},
                       "ranks": [[20.0, 0, 7, 0], [20.0, 0, 8, 0]], "links": [], "iterations": [[0, 20.0, 0], [1, 20.0, 0]], "calls": calls}, out)
        os.replace(os.path.join(path, "watch.json.new"), os.path.join(path, "watch.json"))

    write(None)
    lock = lock_of(path)
    with Dashboard(path) as d:
        page.open(d.url)
        page.wait("window.slackline && slackline.drawn > 0 && slackline.board.cluster === 1")
        shown = page.ask("document.getElementById('gantt').innerText")
        expect("once a profile" in shown and "newest recorded" not in shown and page.ask("document.getElementById('calls').hidden"), f"a sentence, and no empty chart: {shown!r}")
        page.ask("window.boxes = [], CanvasRenderingContext2D.prototype.fillRect = (old => function (...r) { window.boxes.push([this.fillStyle, ...r]); return old.call(this, ...r); })"
                 "(CanvasRenderingContext2D.prototype.fillRect), 0")
        write({"iteration": 1, "slow": True, "length_us": 20000, "left_out": 4, "list": [
            [0, "MPI_Allreduce", 10000, 10000], [1, "MPI_Send", 0, 5000], [1, "MPI_Allreduce", 19000, 1000], [1, "MPI_Send", -5, 10], "no call", [99999, "MPI_Send", 0, 5]]})
        page.wait("document.getElementById('calls-text').textContent.includes('slow iteration')")
        said = text(page, "calls-text")
        expect("20.0 ms" in said and "4 further calls" in said, f"{said!r}")
        boxes = page.ask("window.boxes.slice(-3)")
        wide = page.ask("document.getElementById('calls').clientWidth") - 56 - 12
        shares = [[round(box[1] - 56) / wide, box[3] / wide] for box in boxes]
        expect(all(abs(got - wanted) < 0.01 for got_two, two in zip(shares, ((0.5, 0.5), (0, 0.25), (0.95, 0.05))) for got, wanted in zip(got_two, two)), f"three valid calls, to scale: {boxes}")
        expect(boxes[0][0] == boxes[2][0] != boxes[1][0] and boxes[0][2] < boxes[1][2] == boxes[2][2], f"colors by kind, a row for each rank: {boxes}")
        expect(page.ask("slackline.view.gantt.asked") == 0, "no picture of ops is asked for")
        keep(page, "watch-light")
        expect(not page.complaints, f"the page complains: {page.complaints}")
        page.open("about:blank")
    os.close(lock)


def test_a_thousand_ranks_stay_usable(page):
    path = os.path.join(folder, "thousand")
    run = Folder(path, pipeline=125, data=8)
    run.hold()
    run.start()
    run.iterate(12)
    with Dashboard(path) as d:
        begin = time.monotonic()
        page.open(d.url)
        page.wait("window.slackline && slackline.drawn > 0 && slackline.board.ranks.length === 1000")
        loaded = time.monotonic() - begin
        costs = []
        for i in range(30):
            run.iterate(1, time=640, phase="slow", slow_ranks=set(range(i, 1000, 7)) | {327}, slow_links={(3, 40, 41), (3, 41, 40)})
            page.wait(f"slackline.board.head.iteration === {run.iteration - 1} && (slackline.read = slackline.drawn) > 0")
            page.ask("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
            costs.append(page.ask("slackline.last_ms"))
        print(f"1,000 ranks, 1,984 links: loaded in {loaded:.2f} s; an update is drawn in {statistics.median(costs):.1f} ms (median), {max(costs):.1f} ms at most; "
              f"{page.ask('slackline.bytes / slackline.messages') / 1e3:.0f} kB a message; {page.ask('document.getElementsByTagName(`*`).length')} elements")
        expect(page.ask("document.getElementsByTagName('*').length") < 1500, "elements do not grow with the ranks")
        expect(page.ask("slackline.view.positions.length") == 1000, "every rank is drawn")
        run.event("verdict", rank=77, replica=2, decided="device of rank 77 x 1.50", seen="iterations take 640 ms")
        run.event("suspect", link=[40, 41], replica=3, decided="link 40-41 x 80", seen="iterations take 640 ms")
        page.wait("slackline.board.suspects.length === 2")
        first = page.ask("document.querySelector('#links tr').innerText")
        expect("40" in first and "41" in first and "replica 3" in first and "suspect" in first, f"the worst link comes first: {first!r}")
        page.ask("document.getElementById('sort').value = 'worst', document.getElementById('sort').dispatchEvent(new Event('change'))")
        page.wait("slackline.view.positions[0] === 327")
        keep(page, "thousand-light")
        page.ask("document.getElementById('sort').value = 'rank', document.getElementById('sort').dispatchEvent(new Event('change'))")
        page.wait("slackline.view.positions[0] === 0")
        x, y = page.ask("(() => { const b = document.getElementById('ranks'); b.scrollIntoView({block: 'center'}); const r = b.getBoundingClientRect(), v = slackline.view; "
                        "return [r.left + (327 % v.columns + 0.4) * v.cell, r.top + 1 + (Math.floor(327 / v.columns) + 0.4) * v.cell]; })()")
        page.point(x, y)
        page.wait("document.getElementById('rank-text').textContent.includes('rank 77 of replica 2')")
        expect("slow" in text(page, "rank-text") and "ms" in text(page, "rank-text"), f"pointing tells: {text(page, 'rank-text')}")
        page.ask("document.getElementById('ranks').focus()")
        page.key("ArrowRight")
        page.wait("document.getElementById('rank-text').textContent.includes('rank 78 of replica 2')")
        for words, wanted in (("slow", None), ("327", [327]), ("replica 2 rank 77", [327]), ("nothing like it", [])):
            page.ask(f"document.getElementById('find').value = '{words}', document.getElementById('find').dispatchEvent(new Event('input'))")
            page.ask("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
            places = page.ask("slackline.view.positions")
            expect(places == wanted if wanted is not None else 327 in places and len(places) < 300, f"find {words!r}: {len(places)} ranks")
        page.ask("document.getElementById('find').value = '', document.getElementById('find').dispatchEvent(new Event('input'))")
        page.ask("document.getElementById('chart').focus()")
        page.key("ArrowLeft")
        page.wait("/Iteration \\d/.test(document.getElementById('chart-text').textContent)")
        page.dark(True)
        page.wait("document.documentElement.dataset.theme === 'dark'")
        keep(page, "thousand-dark")
        page.size(360, 740, 2)
        page.ask("new Promise(r => setTimeout(r, 300))")
        expect(page.ask("document.documentElement.scrollWidth") <= 360, f"a phone's width is enough: {page.ask('document.documentElement.scrollWidth')}")
        keep(page, "thousand-phone")
        page.size(1280, 900)
        page.dark(False)
        expect(not page.complaints, f"the page complains: {page.complaints}")
        page.open("about:blank")
    run.release()


def test_hostile_names_stay_text(page):
    path = os.path.join(folder, "hostile")
    run = Folder(path, pipeline=2)
    run.hold()
    evil = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>"
    run.event("start", seen=evil, decided=evil, why=evil)
    run.event("verdict", rank=0, decided=evil, seen=evil)
    run.event("decision", seen=evil)
    run.iterate(3, schedule=evil, phase=evil)
    run.add("decisions.txt", evil + "\n")
    with Dashboard(path) as d:
        page.open(d.url)
        page.wait("window.slackline && slackline.drawn > 0 && slackline.board.rows.length === 3")
        expect(evil in text(page, "events") and evil in text(page, "suspects") and evil in text(page, "lines"), "texts stand there as they are")
        expect("taken" not in page.ask("document.title") and page.ask("[...document.images].every(i => i.id === 'gantt-picture')"), "and do nothing")
        expect(not page.complaints, f"the page complains: {page.complaints}")
        page.open("about:blank")
    run.release()


def test_a_run_without_iterations_is_shown(page):
    """Of a run that ended before its first iteration nothing is still to come."""
    path = os.path.join(folder, "nothing")
    run = Folder(path, pipeline=2)
    run.write("run.yaml", "")  # so that not even the ranks are known
    run.hold()
    run.event("start")
    with Dashboard(path) as d:
        page.open(d.url)
        page.wait("window.slackline && slackline.drawn > 0 && document.getElementById('decisions').textContent === 'none yet'")
        expect("yet" in text(page, "ranks-text") and "yet" in text(page, "links-text"), "they may come")
        run.event("failed", why="rank 1 was killed")
        run.release()
        page.wait("document.getElementById('decisions').textContent === 'none'")
        said = page.ask("['figures', 'ranks-text', 'links-text', 'events'].map(i => document.getElementById(i).textContent).join(' ')")
        expect("yet" not in said, f"nothing comes any more: {said}")
        page.open("about:blank")


def test_a_stall_does_not_set_the_scale(page):
    """Iterations of 50 ms, one of 1 s: the others use at least half of the height, and the stall is at the top with its value."""
    path = os.path.join(folder, "stall")
    run = Folder(path)
    run.hold()
    run.start()
    run.iterate(30, time=50, predicted=50)
    with Dashboard(path) as d:
        page.open(d.url)
        page.wait("window.slackline && slackline.drawn > 0 && slackline.board.rows.length === 30")
        page.ask("window.written = [], CanvasRenderingContext2D.prototype.fillText = (old => function (t, ...r) { window.written.push(t); return old.call(this, t, ...r); })"
                 "(CanvasRenderingContext2D.prototype.fillText), 0")
        run.iterate(1, time=1000, predicted=50)
        run.iterate(20, time=50, predicted=50)
        page.wait("slackline.board.rows.length === 51 && slackline.view.chart.last === 50")
        heights = page.ask("(() => { const c = slackline.view.chart; return c.rows.map(r => (c.bottom - c.y(r[1])) / (c.bottom - c.top)); })()")
        others = heights[:30] + heights[31:]
        expect(heights[30] == 1, f"the stall is at the top: {heights[30]}")
        expect(min(others) >= 0.5 and max(others) < 1, f"the others use half of the height: {min(others)} to {max(others)}")
        expect(page.ask("(c => Math.abs(c.y(0) - c.bottom) < 1e-6)(slackline.view.chart)"), "and the axis begins at zero")
        expect(page.ask("window.written.some(t => /^↑ (9[0-9][0-9] ms|1.0[0-9] s)$/.test(t))"), f"its value is written: {page.ask('window.written.slice(-40)')}")
        keep(page, "stall")
        page.open("about:blank")
    if pictures:
        subprocess.run([command, "report", path, "-o", os.path.join(folder, "stall.html")], check=True)
        page.open("file://" + os.path.join(folder, "stall.html"))
        keep(page, "stall-report")
        page.open("about:blank")


def test_the_token_is_asked_for_and_not_shown(page):
    path = os.path.join(folder, "token")
    Folder(path).iterate(2)
    with Dashboard(path, "--token", "a-secret-of-mine") as d:
        page.open(d.url.split("?")[0])
        page.wait("document.body && document.body.innerText.includes('a token is required')")
        page.open(d.url)
        page.wait("window.slackline && slackline.drawn > 0 && slackline.board.rows.length === 2")
        expect("secret" not in page.ask("location.href") and "secret" not in page.ask("document.title + document.body.innerText"), "the token is not shown")
        page.call("Page.reload")
        page.wait("window.slackline && slackline.drawn > 0 && slackline.board.rows.length === 2")
        page.complaints = [c for c in page.complaints if "401" not in c]  # of the visit that was refused
        expect(not page.complaints, f"the page complains: {page.complaints}")
        page.open("about:blank")


def given():
    page = browser.Browser()
    yield page,
    page.close()
