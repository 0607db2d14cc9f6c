"""What balance promises: facts, the best of all splits, pipelines as plan times them, lists in every form, refusals."""
import itertools
import json
import os
import random
from fractions import Fraction

from calling import plan, problem, refused, run, write
from runner import expect, source

FIELDS = ["microbatches", "makespan_ms", "times_ms", "slowest", "even_ms"]


def balance(*arguments, text=None):
    done = run("balance", *map(str, arguments), text=text)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    found = json.loads(done.stdout)
    expect(list(found) == FIELDS, f"{arguments}: fields {list(found)}")
    times, slowest = found["times_ms"], found["slowest"]
    expect(times[slowest] == max(times) == found["makespan_ms"], f"{arguments}: the slowest of {found}")
    return found


def test_splits_by_hand_come_out():
    expect(balance("--microbatches", 4, "--times", "7,11") ==
           {"microbatches": [3, 1], "makespan_ms": 21, "times_ms": [21, 11], "slowest": 0, "even_ms": 22}, "7 and 11")
    expect(balance("--microbatches", 20, "--times", "30,45", "--fill", 1)["microbatches"] == [12, 8], "examples/train-hybrid.yaml")
    # 30 * 15 and 45 * (5 + 4); 14 and 6 have the same largest, 45 * (6 + 4), and 420 behind it instead of 405
    expect(balance("--microbatches", 20, "--times", "30,45", "--fill", "0,4")["times_ms"] == [450, 405], "fill of each")
    found = balance("--microbatches", 10, "--times", "1,3", "--limits", "4,none")
    expect((found["microbatches"], found["makespan_ms"], found["even_ms"]) == ([4, 6], 18, None), f"limits: {found}")
    expect(balance("--microbatches", 1, "--times", "2.5")["makespan_ms"] == 2.5, "one replica")
    expect(balance("--microbatches", 3, "--times", "1e-150,1e150,5")["microbatches"] == [1, 1, 1], "as many as replicas")
    expect(balance("--microbatches", 4, "--times", "1e-150,1e150,5")["microbatches"] == [2, 1, 1], "one more than replicas")
    # the fourth ends at 3 x 0.1: a little more than 0.3 where doubles are meant
    expect(balance("--microbatches", 4, "--times", "0.1,0.3")["makespan_ms"] == 3 * 0.1, "tenths")


seed = int(os.environ.get("SL_SEED", 1))
dice = random.Random(seed)


def test_no_split_of_all_is_shorter():
    print("seed", seed)
    for number in range(40):
        replicas = dice.randint(1, 4)
        microbatches = replicas + dice.randint(0, 9)
        draw = [lambda: dice.randint(1, 5), lambda: dice.choice([0.1, 0.2, 0.3]), lambda: 10 ** dice.uniform(-100, 100)][number % 3]
        times, fill = [draw() for _ in range(replicas)], dice.choice([0, 1, 2.5])
        best = min((sorted((Fraction(float(t)) * (m + Fraction(fill)) for t, m in zip(times, split)), reverse=True),
                    [-m for m in split])
                   for split in itertools.product(range(1, microbatches + 1), repeat=replicas) if sum(split) == microbatches)
        found = balance("--microbatches", microbatches, "--times", ",".join(map(repr, times)), "--fill", fill)
        expect(found["microbatches"] == [-m for m in best[1]], f"{times}, {microbatches}, fill {fill}: {found}")
        expect(found["makespan_ms"] == float(best[0][0]), f"{times}, {microbatches}, fill {fill}: {found}")


def test_pipelines_take_the_times_that_plan_gives():
    hosted = ["--set", "pipeline.memory.limit=4", "--set", "pipeline.links.list.0.latency_ms=20"]
    for schedule in ("1f1b", "adaptra"):
        found = balance("--microbatches", 24, "--problem", problem, "--times", "30,30,60", "--schedule", schedule, *hosted)
        expect(sum(found["microbatches"]) == 24 and found["makespan_ms"] < found["even_ms"], f"{schedule}: {found}")
        for count, replica_time, op in zip(found["microbatches"], found["times_ms"], (10, 10, 20)):
            times = f"pipeline.times_ms={{F: {op}, I: {op}, W: {op}}}"
            expected = plan("plan", problem, "--schedule", schedule, *hosted, "--set", times, "--set",
                            f"pipeline.microbatches={count}")["makespan_ms"]
            expect(replica_time == expected, f"{schedule}, {count} microbatches: {replica_time}, plan says {expected}")
    # 1F1B on four even ranks takes t (m + 3), so formula and replay are one
    same = ["--microbatches", 37, "--times", "30,33,45,60"]
    expect(balance(*same, "--problem", problem, "--schedule", "1f1b")["microbatches"] ==
           balance(*same, "--fill", 3)["microbatches"], "1f1b by formula and by replay")
    slow = write("slow.yaml", open(problem).read().replace("{F: 10, I: 10, W: 10}", "{F: 20, I: 20, W: 20}"))
    found = balance("--microbatches", 24, "--problem", problem, "--problem", slow, "--schedule", "1f1b")
    expect(found["times_ms"] == [30 * (found["microbatches"][0] + 3), 60 * (found["microbatches"][1] + 3)], f"two files: {found}")
    expect(found["microbatches"] == [17, 7], f"two files: {found}")
    # GPipe holds all microbatches: the limit of memory is that of microbatches
    found = balance("--microbatches", 12, "--problem", problem, "--times", "30,30", "--schedule", "gpipe", "--set",
                    "pipeline.memory.limit=6")
    expect(found["microbatches"] == [6, 6], f"a limit of memory: {found}")
    refused(1, "13", "balance", "--microbatches", "13", "--problem", problem, "--times", "30,30",
            "--schedule", "gpipe", "--set", "pipeline.memory.limit=6")
    refused(1, "limit", "balance", "--microbatches", "13", "--problem", problem, "--times", "30,30",
            "--schedule", "gpipe", "--set", "pipeline.memory.limit=0.5")


def test_lists_come_in_every_form():
    many = [dice.uniform(1, 9) for _ in range(20000)]
    text = "\n".join(map(repr, many)) + "\n"
    found = balance("--microbatches", 100000, "--times", "@" + write("times.txt", text))
    expect(sum(found["microbatches"]) == 100000 and min(found["microbatches"]) >= 1, "20,000 replicas")
    expect(balance("--microbatches", 100000, "--times", "@-", text=text) == found, "@- is standard input")
    expect(balance("--microbatches", 6, "--times", " 1, 2\n3 ")["times_ms"] == [4, 2, 3], "blanks and commas")
    done = run("balance", "--microbatches", "4", "--times", "7,11", "--format", "text")
    lines = done.stdout.splitlines()
    expect(lines[1].split() == ["0", "3", "21", "slowest"] and lines[-1] ==
           "4 microbatches in 21 ms; divided evenly 22 ms (1.05 times as long)", done.stdout)
    expect(run("balance", "--help").returncode == 0 and "Example:" in run("balance", "--help").stdout, "--help")


def test_wrong_requests_are_refused():
    M = ["balance", "--microbatches"]
    refused(1, "3 | 4 | replicas", *M, "3", "--times", "1,1,1,1")
    refused(1, "all | replicas | 8 | 9", *M, "9", "--times", "1,2", "--limits", "4")
    for count in ("0", "-1", "1.5", "x", "", "2147483648", "1e3"):
        refused(2, "--microbatches", *M, count, "--times", "1,2")
    for times, says in (("0,1", "--times"), ("1,-2", "--times"), ("1,nan", "--times"), ("inf", "--times"),
                        ("0x10", "--times"), ("1e300", "--times"), ("1;2", "--times"), ("", "numbers"),
                        ("1,,2", "1"), (",1", "0"), ("1,2,", "2"),
                        ("@/nowhere", "/nowhere")):
        refused(2, says, *M, "9", "--times", times)
    refused(2, "--fill | 3 | 2 | replicas", *M, "9", "--times", "1,2", "--fill", "1,2,3")
    refused(2, "--fill", *M, "9", "--times", "1,2", "--fill", "-1")
    refused(2, "--limits | 1", *M, "9", "--times", "1,2", "--limits", "0,9")
    refused(2, "--microbatches", "balance", "--times", "1,2")
    refused(2, "--times | --problem", *M, "9")
    refused(2, "'--times'", *M, "9", "--time5", "1")
    refused(2, "'--times'", *M, "9", "--times")
    refused(2, "'more'", *M, "9", "--times", "1,2", "more")
    refused(2, "--format", *M, "9", "--times", "1,2", "--format", "csv")
    refused(2, "--fill", *M, "9", "--times", "1,2", "--fill", "1", "--problem", problem)
    refused(2, "--times", *M, "9", "--times", "1,2", "--problem", problem, "--problem", problem)
    refused(2, "--schedule | --problem", *M, "9", "--times", "1,2", "--schedule", "1f1b")
    refused(2, "schedule | 'optimal'", *M, "9", "--times", "1,2", "--problem", problem, "--schedule", "optimal")
    refused(2, "layers", *M, "9", "--times", "1,2", "--problem", os.path.join(source, "examples", "layers.yaml"))
    refused(2, "known", *M, "9", "--times", "1,2", "--problem", problem, "--set", "pipeline.rank=4")
