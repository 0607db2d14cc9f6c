# labels: long
"""Whatever becomes of the files and of the server's entries that `slackline dashboard` reads - cut, bytes flipped, half lines, huge
numbers, wrong types, missing, shrinking, replaced while they are read, the folder gone - it goes on: it answers, what it says is valid
(JSON, the stream, metrics, UTF-8), it says what it could not read, and it shows again what is whole. SL_SEED repeats a run,
SL_ROUNDS makes it longer."""
import json
import os
import random
import re
import shutil
import sys
import time
import xml.etree.ElementTree

sys.dont_write_bytecode = True
from dash import Dashboard, Stream
from folders import Folder
from runner import expect, failures, folder
from store import Store, start_server, url

SEED = int(os.environ.get("SL_SEED", "1"))
ROUNDS = int(os.environ.get("SL_ROUNDS", "120"))
print(f"SL_SEED={SEED} SL_ROUNDS={ROUNDS}", flush=True)
chance = random.Random(SEED)
SAMPLE = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{(?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)$')
STATES = {"waiting", "starting", "running", "restarting", "ended", "failed", "silent"}
ODD = [None, True, False, 0, -1, 1, 2**31, 2**31 - 1, -2**31, 2**53, 2**63 - 1, -2**63, 1e300, -1e300, 1e-300, 0.5, "", "x", "\u2028</script>", "\u0000", "9" * 400, [], [[]], {}, {"": None}, [None] * 50,
       [1, 2], [2**31, -7], [0, 99999999], {"from": 0}]


def odd_number():
    return chance.choice(["1e999", "-1e999", "9" * 30, "1e400", "0.0000000000000001", "-0", "NaN", "Infinity", "1.7976931348623157e308", "18446744073709551616"])


# ---- damage ----
def spoil_value(value, deep=0):
    """The same object with something in it that is odd."""
    if isinstance(value, dict) and value and deep < 4 and chance.random() < 0.85:
        value = dict(value)
        key = chance.choice(list(value))
        what = chance.random()
        if what < 0.15:
            del value[key]
        elif what < 0.25:
            value[key + "x"] = value.pop(key)
        else:
            value[key] = spoil_value(value[key], deep + 1)
        return value
    if isinstance(value, list) and value and deep < 4 and chance.random() < 0.7:
        value = list(value)
        at = chance.randrange(len(value))
        what = chance.random()
        if what < 0.2:
            del value[at]
        elif what < 0.3:
            value = value * chance.randrange(2, 40)
        else:
            value[at] = spoil_value(value[at], deep + 1)
        return value
    return chance.choice(ODD)


def spoil_bytes(data):
    """Bytes as a bad disk, a full one or another program leaves them."""
    data = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        what = chance.randrange(7)
        at = chance.randrange(len(data) + 1)
        if what == 0:
            del data[at:]
        elif what == 1:
            for _ in range(chance.randrange(1, 20)):
                if data:
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif what == 2:
            data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 60)))
        elif what == 3:
            del data[at:at + chance.randrange(1, 200)]
        elif what == 4:
            data[at:at] = b"\0" * chance.randrange(1, 5000)
        elif what == 5:
            data[at:at] = chance.choice([b"[", b"{\"a\":", b"\"", b"\\u", b"\n\n", b"\r\n"]) * chance.randrange(1, 3000)
        else:
            numbers = [m.span() for m in re.finditer(rb"\d+", bytes(data[:20000]))]
            if numbers:
                begin, end = chance.choice(numbers)
                data[begin:end] = odd_number().encode()
    return bytes(data)


def spoil_line(text):
    return (json.dumps(spoil_value(json.loads(text))).encode() if chance.random() < 0.7 else spoil_bytes(text.encode()).replace(b"\n", b" ")) + b"\n"


# ---- what must hold ----
def parse(text, what):
    try:
        return json.loads(text, parse_constant=lambda name: expect(False, f"{what}: {name} is no JSON"))
    except ValueError as error:
        expect(False, f"{what} is no JSON: {error}: {text[:300]!r}")
        return {}


def check_valid(d, stream, when):
    expect(d.process.poll() is None, f"{when}: it ended with {d.process.poll()}")
    if d.process.poll() is not None:
        return None
    for where in ("/state.json", "/metrics", "/", "/gantt.svg", "/gantt-narrow.svg"):
        begin = time.monotonic()
        try:
            code, _, text = d.ask(where)
        except OSError as error:
            time.sleep(2)
            if d.process.poll() is not None:
                expect(False, f"{when}: {where}: {error}; it ended with {d.process.poll()}: {d.process.stderr.read()[:5000]}")
            else:
                expect(False, f"{when}: {where}: {error}")
            return None
        if where.startswith("/gantt") and code == 200:
            try:
                xml.etree.ElementTree.fromstring(text)
            except xml.etree.ElementTree.ParseError as error:
                expect(False, f"{when}: {where} is no XML: {error}: {text[:300]!r}")
        expect((code == 200 or (code == 404 and where.startswith("/gantt"))) and time.monotonic() - begin < 15, f"{when}: {where} {code} after {time.monotonic() - begin:.1f} s")
        if where == "/state.json":
            state = parse(text, f"{when}: {where}")
        elif where == "/metrics":
            seen = set()
            for line in text.splitlines():
                match = line.startswith("#") or SAMPLE.match(line)
                expect(match, f"{when}: no sample: {line[:200]!r}")
                name = line.rsplit(" ", 1)[0]
                expect(line.startswith("#") or name not in seen, f"{when}: a series twice: {name}")
                seen.add(name)
    stream.read(0)
    expect(state.get("state") in STATES, f"{when}: state {state.get('state')}")
    hosts, names = state["hosts"], state["names"]
    for i, r in enumerate(state["ranks"]):
        expect(r[0] == i and r[3] in range(6) and -1 <= r[4] < len(hosts), f"{when}: rank {r}")
    for i, link in enumerate(state["links"]):
        expect(link[0] == i and link[1] >= 0 and link[2] >= 0 and link[8] in range(6), f"{when}: link {link}")
    for row in state["rows"]:
        expect(row[0] >= 0 and -1 <= row[4] < len(names) and -1 <= row[5] < len(names), f"{when}: row {row}")
    expect(all(isinstance(e, dict) and isinstance(e.get("kind"), str) for e in state["events"]), f"{when}: events are objects with a kind")
    return state


# ---- a folder ----
class Damaged:
    """A run's folder, and the ways in which it suffers."""

    def __init__(self, path):
        self.path, self.run = path, None
        self.anew()

    def at(self, name):
        return os.path.join(self.path, name)

    def anew(self):
        """As whole as a run leaves it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.run = Folder(self.path, pipeline=chance.choice([2, 4]), data=chance.choice([1, 2]), seed=SEED)
        self.run.start()
        self.run.iterate(5)
        self.run.event("suspect", link=[0, 1], decided="link 0-1", seen="slow")
        self.run.iterate(2, phase="slow")
        self.run.add("decisions.txt", "1.0 s: considered\n")
        self.run.write("timeline.json", self.run.record(0) + self.run.record(1, begin=False))

    def watch(self):
        """A watch's instead, or its broken begin."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path)
        told = {"job": "j", "program": "p", "hosts": ["a", "b"], "status": {"state": "tracking", "slow": True, "nodes": 2, "ranks": 4, "period_calls": 2, "iterations": 9, "iteration_ms": 5.0,
                "level_ms": 5.0, "healthy_ms": 4.0, "onset_iteration": 3, "suspects": [{"component": "link", "link": [0, 1], "both": True, "measured": 2.0, "expected": 1.0, "why": "w"}],
                "verdicts": [{"component": "host", "rank": 1, "measured": 2.0, "expected": 1.0, "why": "w"}], "calls": 5, "records_lost": 0, "holds": 0, "holds_closed": 0, "held_ms": 0.0,
                "onsets": 1, "reliefs": 0, "store_connected": True}, "ranks": [[5.0, i % 2, 10 + i, 0] for i in range(4)], "links": [[i, (i + 1) % 4, 3, 24, 1.0, 0.5] for i in range(4)],
                "iterations": [[i, 5.0] for i in range(9)]}
        text = json.dumps(spoil_value(told)).encode() if chance.random() < 0.7 else spoil_bytes(json.dumps(told).encode())
        with open(self.at("watch.json.x"), "wb") as out:
            out.write(text)
        os.rename(self.at("watch.json.x"), self.at("watch.json"))
        with open(self.at("report.json"), "wb") as out:
            out.write(spoil_bytes(json.dumps({"exit_code": 0, "program": ["a", "b"], "nodes": 1}).encode()))
        with open(self.at("events.jsonl"), "wb") as out:
            out.write(spoil_line(json.dumps({"time_s": 1.0, "iteration": 3, "kind": "onset", "seen": "x"})))

    def suffer(self):
        """What happened, in a word."""
        name = chance.choice(["metrics.jsonl", "metrics.jsonl", "events.jsonl", "events.jsonl", "run.yaml", "decisions.txt", "report.json", "watch.json", "timeline.json"])
        ways = [self.spoil, self.lines, self.cut, self.replace, self.swap, self.remove, self.grow, self.vanish, self.half, self.watch]
        way = chance.choices(ways, [4, 6, 3, 3, 1, 1, 3, 1, 3, 1])[0]
        if not os.path.isdir(self.path):
            self.anew()
        way(name) if way not in (self.vanish, self.watch) else way()
        return f"{way.__name__} {name}"

    def content(self, name):
        try:
            with open(self.at(name), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def spoil(self, name):
        with open(self.at(name), "wb") if chance.random() < 0.5 else open(self.at(name), "r+b" if os.path.isfile(self.at(name)) else "wb") as out:
            out.write(spoil_bytes(self.content(name)))

    def lines(self, name):
        """Lines that are odd, among those that are not."""
        with open(self.at(name), "ab") as out:
            for _ in range(chance.randrange(1, 8)):
                text = self.run.line(**chance.choice([{}, {"time": 1e300}, {"phase": "slow"}, {"schedule": "x" * chance.randrange(1, 9000)}])) if name == "metrics.jsonl" else \
                    json.dumps({"time_s": 1.0, "iteration": self.run.iteration, "kind": chance.choice(["suspect", "verdict", "swap", "onset", "relief", "restart", "end", "failed", "start", "x"]),
                                "link": [0, 1], "replica": 0, "rank": 1, "seen": "s", "decided": "d", "why": "w"})
                out.write(spoil_line(text) if chance.random() < 0.8 else text.encode() + b"\n")

    def cut(self, name):
        if os.path.isfile(self.at(name)):
            os.truncate(self.at(name), chance.randrange(os.path.getsize(self.at(name)) + 1))

    def replace(self, name):
        with open(self.at("x"), "wb") as out:
            out.write(spoil_bytes(self.content(name)))
        os.rename(self.at("x"), self.at(name))

    def swap(self, name):
        """Something else than a file: a folder, a link in a circle, a pipe, a device that never ends."""
        self.remove(name)
        what = chance.randrange(4)
        if what == 0:
            os.mkdir(self.at(name))
        elif what == 1:
            os.symlink(name, self.at(name))
        elif what == 2:
            os.mkfifo(self.at(name))
        else:
            os.symlink("/dev/zero", self.at(name))

    def remove(self, name):
        if os.path.isdir(self.at(name)) and not os.path.islink(self.at(name)):
            os.rmdir(self.at(name))
        elif os.path.lexists(self.at(name)):
            os.remove(self.at(name))

    def grow(self, name):
        """A file that is at once longer, holed (sparse) or without any line's end."""
        if not os.path.isfile(self.at(name)):
            return
        if chance.random() < 0.3:
            os.truncate(self.at(name), os.path.getsize(self.at(name)) + chance.choice([1, 4096, 3 << 20]))
        else:
            with open(self.at(name), "ab") as out:
                out.write(chance.choice([b"[", b"{", b" ", b"\n", b"a", b"\xff"]) * chance.choice([10, 5000, 600000]))

    def half(self, name):
        with open(self.at(name), "ab") as out:
            text = self.run.line().encode()
            out.write(text[:chance.randrange(len(text))])

    def vanish(self):
        if chance.random() < 0.5:
            shutil.rmtree(self.path)
        else:
            shutil.rmtree(self.path + ".away", ignore_errors=True)
            os.rename(self.path, self.path + ".away")


def plain_files(damaged):
    """Odd kinds of files are in the way of writing."""
    for name in os.listdir(damaged.path) if os.path.isdir(damaged.path) else []:
        if not os.path.isfile(damaged.at(name)) or os.path.realpath(damaged.at(name)).startswith("/dev"):
            damaged.remove(name)


def test_a_damaged_folder_is_shown_as_far_as_it_can_be_read():
    damaged = Damaged(os.path.join(folder, "run"))
    seen = {"states": set(), "unread": set(), "damaged": 0}
    with Dashboard(damaged.path) as d:
        stream = Stream(d)
        for number in range(ROUNDS):
            before = len(failures)
            plain_files(damaged)
            what = damaged.suffer()
            time.sleep(chance.choice([0, 0.05, 0.3]))
            state = check_valid(d, stream, f"round {number}, {what}")
            if len(failures) > before:
                break
            seen["states"].add(state["state"])
            seen["unread"].add(state["head"]["unread"])
            seen["damaged"] += state["head"]["damaged"] > 0
            if stream.ended:
                expect(False, f"round {number}, {what}: the stream ended")
                break
        if failures:
            return
        print(f"a folder: {ROUNDS} rounds; states {sorted(seen['states'])}; not read {sorted(seen['unread'])}; lines not read in {seen['damaged']} rounds; {len(stream.events)} messages")
        expect(ROUNDS < 100 or (len(seen["states"]) > 2 and len(seen["unread"]) > 2 and seen["damaged"] > 10), f"the damage was felt: {seen}")
        plain_files(damaged)
        damaged.anew()
        damaged.run.hold()
        damaged.run.iterate(9)
        state = d.until(lambda s: s["head"]["iteration"] == damaged.run.iteration - 1 and s["state"] == "running" and s["head"]["unread"] == "", "what is whole again is shown")
        expect(len(state["ranks"]) == damaged.run.pipeline * damaged.run.data and state["head"]["damaged"] == 0, f"as if nothing had been: {state['head']}")
        stream.until(lambda e: e and e[-1][2]["head"]["iteration"] == damaged.run.iteration - 1, "and on the stream")
        damaged.run.write("run.yaml", "parallel: [1, {")
        damaged.run.add("metrics.jsonl", "{no\n")
        damaged.run.add("events.jsonl", "[]\n\xff\n")
        state = d.until(lambda s: s["head"]["unread"] == "run.yaml" and s["head"]["damaged"] == 3, "it says what it could not read")
        damaged.run.release()
        expect(d.memory() < 400e6, f"memory is bounded: {d.memory() / 1e6:.0f} MB")
        expect(d.end() == 0 and "ERROR" not in d.errors, f"SIGTERM: {d.process.returncode} {d.errors[-3000:]}")


# ---- a server ----
def beat_of(job, ranks):
    return {"node": "node0", "host": "node0", "clock": "c", "now": 1, "calls": 10, "lost": 0, "validate": 1,
            "ranks": [{"rank": r, "pid": 1000 + r, "size": ranks, "period": 2, "cpus": "0"} for r in range(ranks)]}


def test_damaged_entries_of_a_server_are_shown_as_far_as_they_can_be_read():
    if not url:
        print("the server's entries are left out: redis-server is not installed")
        return
    server = start_server()
    try:
        store = Store("j")
        with Dashboard("--redis", url) as d:
            stream = Stream(d)
            for number in range(ROUNDS):
                before = len(failures)
                store.beat("node0", range(4), 4)
                store.iterations("node0", [(r, number, 100.0) for r in range(4)])
                store.profile("node0", number // 3, 0, [(1, 8, 1000000)], last=number % 3 == 2)
                store.status(iterations=number + 1)
                what = chance.randrange(6)
                if what == 0:
                    store.append("nodes", json.dumps(spoil_value(beat_of("j", 4))))
                elif what == 1:
                    store.append("events", spoil_line(json.dumps({"time_s": 1, "iteration": 3, "kind": "verdict", "rank": 1, "seen": "x"})))
                elif what == 2:
                    store.spoiled_status(spoil_value)
                elif what == 3:
                    store.append(chance.choice(["iterations", "profiles"]), spoil_bytes(chance.choice([store.iterations_bytes("node0", [(0, 5, 1.0)] * 20), store.profile_bytes("node0", 1, 0, [(1, 8, 5)] * 20, True)])))
                elif what == 4:
                    store.append(chance.choice(["nodes", "events", "iterations", "profiles"]), spoil_bytes(json.dumps(beat_of("j", 4)).encode()))
                else:  # a key of another kind than is read
                    key = chance.choice(["nodes", "events", "iterations", "profiles", "status"])
                    store.ask("DEL", store.name(key))
                    store.ask(*chance.choice([("SET", store.name(key), "x"), ("HSET", store.name(key), "a", "b"), ("RPUSH", store.name(key), "a"), ("XADD", store.name(key), "*", "other", "b")]))
                    time.sleep(0.2)
                    check_valid(d, stream, f"round {number}, {key} of another kind")
                    store.ask("DEL", store.name(key))
                time.sleep(chance.choice([0, 0.02, 0.1]))
                check_valid(d, stream, f"entries, round {number}, way {what}")
                if len(failures) > before:
                    break
            if failures:
                return
            for n in range(3):
                store.beat("node0", range(4), 4)
                store.iterations("node0", [(r, 10**6 + n, 100.0) for r in range(4)])
                store.status(iterations=777)
                time.sleep(0.3)
            state = d.until(lambda s: s["state"] == "running" and s["head"]["iteration"] == 776 and s["head"]["unread"] == "", "what is whole is shown")
            print(f"a server: {ROUNDS} rounds; {state['head']['damaged']} entries not read")
            expect(state["head"]["damaged"] > 0, "what could not be read is counted")
            store.set("status", "{no", 5000)
            d.until(lambda s: "status" in s["head"]["unread"], "and named")
            expect(d.memory() < 400e6, f"memory is bounded: {d.memory() / 1e6:.0f} MB")
            expect(d.end() == 0 and "ERROR" not in d.errors, f"SIGTERM: {d.process.returncode} {d.errors[-3000:]}")
    finally:
        server.terminate()
        server.wait()
