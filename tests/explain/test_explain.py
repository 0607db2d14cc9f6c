"""labels: long
slackline explain names the cause of the lost time of jobs whose cause is known, and its cost, which the generator's own simulation of the
same job without the fault gives (hybrid_job.py). Then everything that makes traces of real jobs hard to read, and bad input."""
import json
import os
import subprocess

from hybrid_job import Job, chrome, save
from runner import build, expect, has_facts

TOLERANCE = 0.01  # of the iteration


def run(*arguments):
    return subprocess.run([os.path.join(build, "slackline"), "explain", *arguments], capture_output=True, text=True)


def explain(folder, job, *arguments, file="trace.json", **shape):
    done = run(save(os.path.join(folder, file), chrome(job, **shape)), "--format", "json", *arguments)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    return json.loads(done.stdout)


def check(told, what, cause, cost, **where):
    first = told["causes"][0]
    expect(first["cause"] == cause, f"{what}: {first['text']}, not {cause}")
    expect(abs(first["cost"] - cost) < TOLERANCE, f"{what}: costs {first['cost']:.4f}, not {cost:.4f}")
    for key, value in where.items():
        expect(first.get(key) == value, f"{what}: {key} is {first.get(key)}, not {value}")
    expect(abs(told["median_difference"]) < 0.01, f"{what}: replayed {told['median_difference']:+.3%} of the traced time")
    expect(len(told["causes"]) == 1, f"{what}: also {[also['text'] for also in told['causes'][1:]]}")


def layout(told):
    return {key: told["layout"][key] for key in ("tensor", "data", "pipeline", "chunks")}


def test_a_healthy_job_has_no_cause(folder):
    told = explain(folder, Job())
    check(told, "healthy", "none", 0)
    expect(layout(told) == {"tensor": 1, "data": 2, "pipeline": 4, "chunks": 1}, f"layout {told['layout']}")


def test_a_slow_worker_is_found(folder):
    for what, job, place in (("4x4", Job(data=4, slow={(1, 2): 1.6}), (1, 2)), ("of two replicas", Job(slow={(3, 1): 1.4}), (3, 1)),
                             ("8 ranks", Job(pipeline=8, data=2, microbatches=16, slow={(0, 0): 2.0}), (0, 0)),
                             ("data parallel only", Job(pipeline=1, data=8, slow={(0, 3): 1.5}), (0, 3))):
        check(explain(folder, job), what, "worker", job.cost(slow={}), pipeline=place[0], replica=place[1])


def test_a_slow_worker_is_found_in_an_interleaved_schedule(folder):
    job = Job(data=2, chunks=2, slow={(1, 1): 1.5})
    told = explain(folder, job)
    check(told, "interleaved", "worker", job.cost(slow={}), pipeline=1, replica=1)
    expect(layout(told)["chunks"] == 2, f"chunks: {told['layout']}")


def test_an_uneven_cut_is_found(folder):
    for what, job in (("last", Job(data=4, cut=[1, 1, 1, 1.4])), ("middle", Job(data=3, pipeline=5, cut=[1, 1, 1.3, 1, 1], microbatches=10)),
                      ("one replica", Job(data=1, cut=[1, 1.5, 1, 1]))):
        check(explain(folder, job), what, "stage", job.cost(cut=None), pipeline=max(range(job.pipeline), key=lambda r: job.cut[r]))


def test_slow_workers_that_hide_each_other_are_found(folder):
    job = Job(data=4, slow={(1, 1): 1.6, (3, 0): 1.5})
    told = explain(folder, job)
    check(told, "two", "workers", job.cost(slow={}))
    found = {(worker["pipeline"], worker["replica"]) for worker in told["causes"][0]["workers"]}
    expect(found == {(1, 1), (3, 0)}, f"slow workers {found}")


def test_a_worker_that_is_slow_now_and_then_is_found(folder):
    healthy, slow = Job(data=3, steps=5, seed=3), Job(data=3, steps=5, seed=3, slow={(1, 1): 2.5})
    events = [event for job, mine in ((healthy, (16, 17, 19, 20)), (slow, (18,))) for event in chrome(job) if event["args"]["step"] in mine]
    times = [time for _, time in healthy.simulate()]
    lost = slow.simulate()[2][1] - times[2]
    done = run(save(os.path.join(folder, "now.json"), events), "--format", "json")
    check(json.loads(done.stdout), "one of five", "worker", lost / (sum(times) + lost), pipeline=1, replica=1)


def test_a_slow_worker_and_lengths_are_both_found(folder):
    job = Job(data=4, slow={(1, 1): 1.6}, lengths=0.25, steps=6)
    told = explain(folder, job)
    costs = {cause["cause"]: cause["cost"] for cause in told["causes"]}
    expect(set(costs) == {"worker", "lengths"}, f"causes {costs}")
    expect(abs(costs["worker"] - job.cost(slow={})) < TOLERANCE, f"worker {costs}")
    expect(abs(costs["lengths"] - (1 - job.of_equal_lengths().mean() / job.mean())) < TOLERANCE, f"lengths {costs}")


def test_a_slow_replica_is_found(folder):
    job = Job(data=4, slow={(rank, 2): 1.4 for rank in range(4)})
    check(explain(folder, job), "replica", "replica", job.cost(slow={}), replica=2)


def test_lengths_of_microbatches_are_found(folder):
    for what, job in (("4 ranks", Job(data=4, lengths=0.4, steps=6)), ("2 ranks", Job(pipeline=2, data=8, lengths=0.5, steps=6)),
                      ("no pipeline", Job(pipeline=1, data=4, lengths=0.4, steps=8))):
        even = 1 - job.of_equal_lengths().mean() / job.mean()
        told = explain(folder, job, sequence=True)
        check(told, what, "lengths", even)
        expect(told["costs"]["length_correlation"] > 0.9, f"{what}: correlation {told['costs']['length_correlation']}")


def test_a_slow_link_is_found(folder):
    for kind, direction in (("F", "forward"), ("B", "backward")):
        job = Job(data=4, links={(2, 1, kind): 12.0})
        check(explain(folder, job), direction, "link", job.cost(links={}), pipeline=2, replica=1, direction=direction)


def test_slow_collectives_are_found(folder):
    job = Job(data=4, collectives={2: 60.0})
    check(explain(folder, job), "collectives", "collectives", job.cost(collectives={}), kind="grads-reduce-scatter")


def test_messages_may_all_lack_their_durations(folder):
    sends, receives = ("forward-send", "backward-send"), ("forward-recv", "backward-recv")
    for endless in (sends, receives, sends + receives):
        job = Job(data=3, slow={(3, 0): 1.5}, noise=0.01)
        told = explain(folder, job, offsets=4.0, endless=endless)
        first = told["causes"][0]
        expect(layout(told) == {"tensor": 1, "data": 3, "pipeline": 4, "chunks": 1}, f"{endless}: {told['layout']}")
        expect((first["cause"], first.get("pipeline"), first.get("replica")) == ("worker", 3, 0), f"{endless}: {first['text']}")
        expect(abs(first["cost"] - job.cost(slow={})) < 3 * TOLERANCE, f"{endless}: costs {first['cost']:.3f}, not {job.cost(slow={}):.3f}")
        # transfers whose end nobody recorded take no time in the replay
        expect(abs(told["median_difference"]) < (0.01 if endless == sends else 0.05), f"{endless}: replayed {told['median_difference']:+.3%}")


def test_clocks_and_missing_durations_change_nothing(folder):
    job = Job(data=4, slow={(1, 2): 1.6})
    told = explain(folder, job, offsets=5.0, no_duration=0.02, sequence=True, begin_end=0.1, file="trace.json.gz")
    check(told, "offsets", "worker", job.cost(slow={}), pipeline=1, replica=2)
    expect(told["trace"]["without_duration"] > 20, f"events without a duration: {told['trace']}")
    expect(max(abs(worker["clock_offset_ms"]) for worker in told["workers"]) > 2, "offsets were not found")


def test_the_published_form_is_read(folder):
    """A replica is a pid, threads are named; messages are shown from the time at which both sides had issued them; some durations are negative,
    some are no numbers."""
    job = Job(data=4, slow={(0, 0): 2.0})
    events = chrome(job, shape="published")
    for number, event in enumerate(events):
        if event["name"].endswith(("-send", "-recv")):
            shown = min(event["dur"], 500.0)
            event["ts"], event["dur"] = event["ts"] + event["dur"] - shown, shown
            if number % 97 == 0:
                event["ts"], event["dur"] = event["ts"] + shown, -3.0
        if event["name"] == "optimizer" and event["args"]["step"] == 17:
            event["dur"] = float("nan")
    done = run(save(os.path.join(folder, "timeline.json.gz"), events, bare=True), "--format", "json")
    expect(done.returncode == 0, f"exit {done.returncode} {done.stderr}")
    told = json.loads(done.stdout)
    check(told, "published", "worker", job.cost(slow={}), pipeline=0, replica=0)
    expect(told["layout"]["source"] == "named in the trace", told["layout"]["source"])
    expect(told["trace"]["negative_duration"] > 3, f"negative durations: {told['trace']}")
    hot = max(told["workers"], key=lambda worker: worker["slowdown_alone"])
    expect((hot["pipeline"], hot["replica"]) == (0, 0), f"the heat map's maximum is {hot}")


def test_tensor_ranks_are_found_or_given(folder):
    job = Job(slow={(1, 1): 1.6})
    for given in ((), ("--layout", "tensor=2,data=2,pipeline=4")):
        told = explain(folder, job, *given, tensor=2)
        check(told, f"tensor ranks {given}", "worker", job.cost(slow={}), pipeline=1, replica=1)
        expect(layout(told) == {"tensor": 2, "data": 2, "pipeline": 4, "chunks": 1}, f"layout {told['layout']}")


def test_one_file_for_each_worker(folder):
    job = Job(slow={(2, 0): 1.5})
    events = chrome(job, offsets=3.0)
    files = [save(os.path.join(folder, f"worker{pid}.json"), [event for event in events if event["pid"] == pid]) for pid in range(8)]
    done = run(*files, "--format", "json")
    expect(done.returncode == 0, done.stderr)
    check(json.loads(done.stdout), "files", "worker", job.cost(slow={}), pipeline=2, replica=0)


def test_incomplete_iterations_are_left_out_and_named(folder):
    job = Job(slow={(1, 1): 1.6}, steps=6)
    events = chrome(job)
    first, end = min(e["ts"] for e in events), max(e["ts"] for e in events)
    cut = [e for e in events if first + 100_000 < e["ts"] < end - 60_000 and not (e["args"]["step"] == 18 and e["pid"] == 5)]
    done = run(save(os.path.join(folder, "cut.json"), cut), "--format", "json")
    expect(done.returncode == 0, done.stderr)
    told = json.loads(done.stdout)
    check(told, "cut", "worker", job.cost(slow={}), pipeline=1, replica=1)
    expect([skipped["iteration"] for skipped in told["skipped"]] == [16, 18, 21], f"left out: {told['skipped']}")
    expect(has_facts(told["skipped"][1]["reason"], "pid 5 has no events"), told["skipped"][1]["reason"])


def test_what_arguments_and_pids_do_not_tell_is_found(folder):
    job = Job(data=3, slow={(1, 1): 1.6}, noise=0.03)
    pids = [5, 2, 9, 0, 11, 7, 1, 8, 4, 10, 3, 6]
    events = chrome(job, offsets=4.0)
    for event in events:
        event["pid"] = pids[event["pid"]]
        event["args"] = {}
    for pid in range(12):  # messages without effect, as some tracers have them
        for step in range(4):
            mine = sorted((e for e in events if e["pid"] == pid and "compute" in e["name"]), key=lambda e: e["ts"])[16 * step:16 * step + 16]
            end = max(e["ts"] + e["dur"] for e in mine)
            events.append({"name": "forward-recv", "ph": "X", "pid": pid, "tid": 1, "ts": end + 10, "dur": 200, "args": {}})
            events.append({"name": "backward-send", "ph": "X", "pid": pid, "tid": 1, "ts": min(e["ts"] for e in mine), "dur": 100, "args": {}})
    done = run(save(os.path.join(folder, "pids.json"), events), "--format", "json")
    expect(done.returncode == 0, done.stderr)
    told = json.loads(done.stdout)
    check(told, "pids", "worker", job.cost(slow={}), pipeline=1, worker="pid 11")


def test_missing_workers_are_named(folder):
    job = Job(data=3, slow={(1, 1): 1.6})
    done = run(save(os.path.join(folder, "missing.json"), [e for e in chrome(job) if e["pid"] != 11]), "--format", "json",
               "--layout", "data=3,pipeline=4")
    expect(done.returncode == 0, done.stderr)
    told = json.loads(done.stdout)
    expect(told["trace"]["missing_workers"] == "pipeline rank 3 of replica 2", told["trace"]["missing_workers"])
    check(told, "missing", "worker", job.cost(slow={}), pipeline=1, replica=1)


def test_the_heat_map_and_the_text(folder):
    job = Job(data=4, slow={(1, 2): 1.6})
    file, svg = save(os.path.join(folder, "trace.json"), chrome(job)), os.path.join(folder, "map.svg")
    done = run(file, "--svg", svg)
    expect(done.returncode == 0 and has_facts(done.stdout, "A slow worker, pipeline rank 1 of replica 2 (pid 6)"), done.stdout + done.stderr)
    picture = open(svg).read()
    expect(picture.startswith("<svg") and picture.count("<rect") >= 16 and has_facts(picture, "pipeline rank 1, replica 2"), picture[:200])


def test_bad_input_is_refused_with_its_place(folder):
    def refused(content, *said, code=2, arguments=()):
        path = os.path.join(folder, "bad.json")
        with open(path, "w") as file:
            file.write(content)
        done = run(path, *arguments)
        expect(done.returncode == code and not done.stdout, f"exit {done.returncode}: {done.stdout[:80]}")
        for words in said:
            expect(words in done.stderr, f"{words!r} is not in {done.stderr!r}")
    refused("", "bad.json", "empty")
    refused('{"traceEvents": [\n{"name": "forward-compute", "ph": "X" "ts": 1}]}', "bad.json:2", "invalid JSON")
    refused('[{"name": "forward-compute", "ph": "X", "pid": 1, "tid": 1, "dur": 4}]', "bad.json:1", "has no time")
    refused('[{"name": "F3", "ph": "X", "pid": 1, "tid": 1, "ts": 3, "dur": 4}]', "no event 'forward-compute'", "'F3'", "slackline import")
    good = json.dumps(chrome(Job()))
    refused(good[:len(good) // 2], "bad.json:1")
    refused(good, "has 6 workers, the trace 8", arguments=("--layout", "data=3,pipeline=2"))
    refused(good, "pid 1 would be pipeline rank 1, but receives no activations", arguments=("--layout", "pipeline=8"))
    refused(good, "--layout must be like", arguments=("--layout", "pipeline=0"))
    without = json.dumps([event for event in chrome(Job()) if "send" not in event["name"]])
    refused(without, "the layout cannot be found", "--layout")
    half = json.dumps([event for event in chrome(Job()) if event["name"] != "backward-compute"])
    refused(half, "none of 4 iterations is complete", code=1)
    expect(run().returncode == 2 and run("/nowhere/trace.json").returncode == 2, "no file")
