"""What detect promises: facts, forms of input, streaming, refusals; and its quality on traces with known fail-slows."""
import json
import os
import random
import subprocess
import sys

from calling import command, folder, refused, run, write
from runner import expect, source

sys.path.insert(0, os.path.join(source, "bench", "detection"))
from traces import call_log, trace

data = os.path.join(source, "tests", "data")
HEADER = "sequence,call,communicator,peer,tag,bytes,start_ns,end_ns,rank\n"


def detect(*arguments, text=None):
    done = run("detect", *arguments, "--format", "json", text=text)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    found = json.loads(done.stdout)
    expect(set(found) == {"change_points", "period"}, "fields of the object")
    expect(all(list(c) == ["index", "kind", "before", "after"] for c in found["change_points"]), "fields of a change point")
    return found


def places(found):
    return [(c["index"], c["kind"]) for c in found["change_points"]]


def test_published_series_give_their_known_changes():
    found = detect(os.path.join(data, "nile.csv"), "--algorithm", "bocd")
    expect(places(found) == [(28, "change")] and found["period"] is None, f"the Nile: {found}")
    events = [(15, 84), (120, 189), (230, 299), (340, 409), (450, 519), (560, 629), (670, 739), (780, 849), (890, 959)]
    truth = [place for first, last in events for place in ((first, "onset"), (last + 1, "relief"))]
    for form in ([], ["--algorithm", "bocd-v"], ["--column", "time_ms"]):
        found = places(detect(os.path.join(data, "iterations-128gpu-1f1b.csv"), *form))
        hits = [t for t in truth if any(abs(i - t[0]) <= 5 and k == t[1] for i, k in found)]
        expect(hits == truth, f"128 GPUs: found {found}")
        expect(len(found) == len(truth), f"128 GPUs: false alarms among {found}")
        expect(not any(abs(i - 1030) <= 15 for i, _ in found), "128 GPUs: the restart at 1030 is no change")


series = [100 + i % 3 for i in range(30)] + [150 + i % 3 for i in range(30)] + [100 + i % 3 for i in range(30)]
texts = {
    "a.csv": "iteration,time_ms,note\n" + "".join(f"{i},{x},fine\n" for i, x in enumerate(series)),
    "crlf.csv": "iteration,time_ms,other\r\n" + "".join(f"{i},{x},{i * 7}\r\n" for i, x in enumerate(series)),
    "last.csv": "iteration,seconds,note\n" + "".join(f"{i},{x},ok\n" for i, x in enumerate(series)),
    "quoted.csv": '"a, ""b""",x\n' + "".join(f'"no, {i}",{x}e0\n' for i, x in enumerate(series)),
    "bare.txt": "".join(f"{x}\n" for x in series),
    "bare.csv": "\n".join(f"{i},{x}" for i, x in enumerate(series)),
    "metrics.jsonl": "".join(json.dumps({"iteration": i, "loss": 3.5, "time_ms": x, "tokens_per_s": 9.0 * i}) + "\n"
                             for i, x in enumerate(series)),
    "last.jsonl": "".join(json.dumps({"iteration": i, "seconds": x, "name": "x"}) + "\n" for i, x in enumerate(series)),
}


def test_every_form_of_input_gives_the_same_changes():
    expected = [(30, "onset"), (60, "relief")]
    for name, text in texts.items():
        found = detect(write(name, text))
        expect(places(found) == expected, f"{name}: {found}")
        expect(detect("-", text=text) == found, f"{name}: standard input is the same")
    # medians: of the level before, and of the four samples that the new one must have lasted (150, 151, 152, 150)
    expect([(c["before"], c["after"]) for c in found["change_points"]] == [(101, 150.5), (151, 100.5)], f"levels: {found}")
    expect(places(detect(write("b.csv", texts["last.csv"]), "--column", "seconds")) == expected, "--column by name")
    expect(places(detect(write("c.jsonl", texts["metrics.jsonl"]), "--column", "loss")) == [], "--column of JSON lines")
    expect(places(detect("-", "--algorithm", "bocd", text=texts["bare.txt"])) == [(30, "change"), (60, "change")], "bocd")
    expect(places(detect("-", "--algorithm", "window", text=texts["bare.txt"])) == expected, "window")
    expect(detect("-", text="time_ms\n5\n") == {"change_points": [], "period": None}, "one sample has no change")


def test_a_change_is_reported_before_the_input_ends():
    done = run("detect", write("d.csv", texts["a.csv"]))
    expect(done.stdout.splitlines()[0].startswith("row 30: onset, 101 -> 150.5 (+49.0%), seen at row 33"), done.stdout)
    expect(done.stdout.splitlines()[-1] == "2 change points in 90 rows", done.stdout)
    process = subprocess.Popen([command, "detect", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write("".join(f"{x}\n" for x in series[:40]))
    process.stdin.flush()
    expect(process.stdout.readline().startswith("row 30: onset"), "told while the input is open")
    process.stdin.close()
    expect(process.wait(timeout=30) == 0, "the end of the input is the end")


seed = int(os.environ.get("SL_SEED", 7))


def test_call_logs_give_the_period_they_were_made_with():
    print("seed", seed)
    for number in range(10):
        rows, period, times = call_log(seed, number)
        text = HEADER + "".join(f"{n},{c},{comm},{peer},0,{size},{start},{start + 10},3\n"
                                for n, (c, comm, peer, size, start) in enumerate(rows))
        found = detect("-", text=text)
        expect(found["period"] == period, f"call log {number}: period {found['period']}, made with {period}")
        expect(places(found) == [], f"call log {number}: one slow iteration is no change")


slow = HEADER
now = 10**12
for number in range(120):
    for n in range(17):
        slow += f"{number * 17 + n},MPI_{'Allreduce' if n == 16 else 'Send'},0xab,{n % 4},0,{64 + n},{now},{now + 5},0\n"
        slow += f"{number * 17 + n},MPI_Recv,0xab,{n % 5},0,{n},{now},{now + 5},1\n"  # another rank, in between
        now += (200_000_000 if not 50 <= number < 90 else 300_000_000) // 17


def test_a_slow_stretch_of_a_call_log_is_found():
    found = detect("-", text=slow)
    expect(found["period"] == 17 and places(found) == [(50, "onset"), (90, "relief")], f"17 calls: {found}")
    expect(abs(found["change_points"][0]["before"] - 200) < 0.01 * 200, "iterations of 0.2 s")
    expect(detect("-", text=HEADER)["period"] is None, "a log without calls has no period")
    expect(places(detect("-", "--column", "bytes", text=HEADER + "0,MPI_Send,1,0,0,64,5,6,0\n")) == [], "a column of a log")


def test_a_log_of_nccl_on_a_gpu_gives_its_loop_and_when_a_rank_became_slow():
    """Recorded by `slackline watch --record` on an H200 (bench/nccl/watched.py): two allreduces per iteration; after 30 iterations and
    int(7 s / 0.0462 s) more, rank 2 sleeps 15 ms longer."""
    found = detect(os.path.join(data, "real_nccl_calls.csv"))
    (onset,) = found["change_points"]
    expect(found["period"] == 2 and onset["kind"] == "onset" and abs(onset["index"] - (30 + int(7 / 0.0462))) <= 1, f"{found}")
    expect(12 < onset["after"] - onset["before"] < 16, f"{onset}")


good = "iteration,time_ms\n0,5\n"


def test_wrong_input_is_named_with_line_and_column():
    for says, text in (("standard input:3 | column | 2 | 'time_ms' | 'abc'", good + "1,abc\n"),
                       ("standard input:3 | column | 2 | 'time_ms' | ''", good + "1,\n"),
                       ("standard input:3 | column | 2 | 'time_ms' | 'nan'", good + "1,nan\n"),
                       ("standard input:3 | column | 2 | 'time_ms' | '1e999'", good + "1,1e999\n"),
                       ("standard input:3 | column | 2 | 'time_ms' | '5 6'", good + "1,5 6\n"),
                       ("standard input:3 | column | 2 | 'time_ms' | '-4'", good + "1,-4\n"),
                       ("standard input:3 | 3 | columns | 2", good + "1,5,6\n"),
                       ("standard input:3 | 1 | columns | 2", good + "1\n"),
                       ("standard input:2 | column", "a,b\nx,y\n"),
                       ("standard input:2 | column | 1", "a,b\n\"x,y\n"),
                       ("standard input:1", "5\0\n"),
                       ("standard input", ""), ("standard input", "\n\n"),
                       ("standard input | samples", "iteration,time_ms\n"),
                       ("standard input:2 | 'time_ms'", '{"time_ms": 5}\n{"loss": 3}\n'),
                       ("standard input:2 | 'time_ms'", '{"time_ms": 5}\n{"time_ms": "6"}\n'),
                       ("standard input:2 | column", '{"time_ms": 5}\n{"time_ms": 5\n'),
                       ("standard input:1", '{"a": "b"}\n'),
                       ("standard input:2 | column | 7 | 'start_ns' | 'x'", HEADER + "0,MPI_Send,1,0,0,64,x,6,0\n"),
                       ("standard input:2 | column | 6 | 'bytes' | '-1'", HEADER + "0,MPI_Send,1,0,0,-1,5,6,0\n")):
        refused(2, says, "detect", "-", "--format", "json", text=text)


def test_wrong_requests_are_refused():
    refused(2, "column | 'x'", "detect", "-", "--column", "x", text=good)
    refused(2, "column | 'x'", "detect", "-", "--column", "x", text="5\n")
    refused(2, "absent.csv", "detect", os.path.join(folder, "absent.csv"))
    refused(2, "--algorithm | 'x'", "detect", "-", "--algorithm", "x", text=good)
    refused(2, "--format | text | json | 'xml'", "detect", "-", "--format", "xml", text=good)
    refused(2, "'--column'", "detect", "-", "--colum_n", "x", text=good)
    refused(2, "FILE", "detect")
    refused(2, "FILE", "detect", "a", "b")
    refused(2, "'--column'", "detect", "-", "--column")
    refused(2, "read", "detect", folder)
    expect("--algorithm" in run("detect", "--help").stdout and run("detect", "--help").returncode == 0, "help")
    expect("  detect " in run("--help").stdout, "the command is listed")


def test_damaged_input_never_crashes_or_hangs():
    draw = random.Random(seed)
    for _ in range(100):
        text = list(draw.choice([texts["a.csv"], texts["quoted.csv"], texts["metrics.jsonl"], slow[:4000]]))
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(text))
            text[at:at + draw.randint(0, 3)] = draw.choice(["", '"', ",", "\n", "x", "-", "9" * 30, "{", "\0", "é"])
        done = run("detect", "-", "--format", "json", text="".join(text))
        expect(done.returncode in (0, 2) and (done.returncode == 0) == (done.stderr == ""), f"damaged: {done.returncode} {done.stderr}")


def test_random_traces_are_as_right_as_published():
    right = 0
    for number in range(100):
        samples, truth = trace(seed, number)
        found = places(detect("-", text="time_ms\n" + "\n".join(f"{x:.4f}" for x in samples)))
        right += len(found) == len(truth) and all(abs(i - t) <= 5 and k == kind for (i, k), (t, kind) in zip(found, truth))
    expect(right >= 97, f"{right} of 100 traces all right")
