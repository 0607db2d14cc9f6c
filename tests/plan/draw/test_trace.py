"""The trace of a plan, read as any viewer would, against the plan's JSON: every op once, in its place, and the
messages as arrows between the ops."""
from collections import Counter, defaultdict
import json

from calling import delay, plan, problem, run, write
from runner import expect

wave = write("wave.yaml", """pipeline:
  ranks: 2
  microbatches: 3
  placement: wave
  times_ms: {F: 10, I: 10, W: 10}
  links: {default: {latency_ms: 7, transfer_ms: 2}}
  data_parallel: {reduce_ms: 5, gather_ms: 3}
""")
wave_order = write("wave.csv", "0F0,0F1,0F2,3F0,3B0,3F1,3B1,3F2,3B2,0B0,0B1,0B2\n1F0,1F1,1F2,2F0,2F1,2F2,2B0,1B0,2B1,1B1,2B2,1B2\n")


def us(ms):
    return round(ms * 1e3, 3)


def check(name, *arguments):
    p = plan(*arguments)
    p["collectives"] = [o for o in p["ops"] if o["microbatch"] < 0]
    p["ops"] = [o for o in p["ops"] if o["microbatch"] >= 0]
    done = run(*arguments, "--format", "trace")
    expect(done.returncode == 0 and done.stderr == "", f"{name}: exit {done.returncode} {done.stderr}")
    trace = json.loads(done.stdout)
    events = trace["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X"]
    expect({e["ph"] for e in events} <= set("MXstf"), f"{name}: known kinds of events")
    expect(0 not in processes and len({tid for _, tid in threads}) == len(threads), f"{name}: processes and threads of their own")

    # every op once, on the thread of its rank
    ops = [e for e in slices if threads[e["pid"], e["tid"]].startswith("ops of rank")]
    got = Counter((int(processes[e["pid"]].split()[1]), e["args"]["kind"], e["args"]["stage"], e["args"]["microbatch"], e["ts"], round(e["ts"] + e["dur"], 3)) for e in ops)
    expect(got == Counter((o["rank"], o["op"], o["stage"], o["microbatch"], us(o["start_ms"]), us(o["end_ms"])) for o in p["ops"]), f"{name}: every op once")
    expect(all(e["cat"].split(",")[0] == e["args"]["kind"] for e in ops), f"{name}: an op's category is its kind")
    expect(all(("critical" in e["cat"].split(",")) == e["args"]["critical"] for e in ops), f"{name}: critical ones have a category")

    # every message that takes time once, on a thread of its link
    links = [e for e in slices if threads[e["pid"], e["tid"]].startswith("link to rank")]
    got = Counter((int(processes[e["pid"]].split()[1]), int(threads[e["pid"], e["tid"]].split()[3]), e["args"]["kind"], e["args"]["stage"], e["args"]["microbatch"], e["ts"], round(e["ts"] + e["dur"], 3)) for e in links)
    expect(got == Counter((t["from"], t["to"], t["op"], t["stage"], t["microbatch"], us(t["start_ms"]), us(t["arrive_ms"])) for t in p["transfers"] if t["arrive_ms"] > t["start_ms"]), f"{name}: every transfer")

    # every collective once
    got = Counter((int(processes[e["pid"]].split()[1]), e["args"]["kind"], e["args"]["stage"], e["ts"], round(e["ts"] + e["dur"], 3)) for e in slices if threads[e["pid"], e["tid"]].startswith("collectives"))
    expect(got == Counter((o["rank"], o["op"], o["stage"], us(o["start_ms"]), us(o["end_ms"])) for o in p["collectives"]), f"{name}: every collective once")

    # slices of a thread are one behind the other, or one over the other where two ops overlap
    by_thread = defaultdict(list)
    for e in slices:
        by_thread[e["pid"], e["tid"]].append((e["ts"], e["dur"]))
    for thread, mine in by_thread.items():
        mine.sort()
        expect(all(a + d <= b + 1e-6 or (a, d) == (b, e) for (a, d), (b, e) in zip(mine, mine[1:])), f"{name}: {threads[thread]} overlaps")

    # an arrow a message, from the op that made it to the one of the next (or previous) stage
    arrows = defaultdict(dict)
    for e in events:
        if e["ph"] in "stf":
            arrows[e["id"]][e["ph"]] = e
    expect(len(arrows) == len(p["transfers"]), f"{name}: an arrow a message")

    def enclosing(e):
        return [o for o in ops if (o["pid"], o["tid"]) == (e["pid"], e["tid"]) and o["ts"] <= e["ts"] < o["ts"] + o["dur"]]

    for arrow in arrows.values():
        ends = [(m["args"], u["args"]) for m in enclosing(arrow["s"]) for u in enclosing(arrow["f"])
                if (m["args"]["kind"] == "F") == (u["args"]["kind"] == "F") == (arrow["s"]["name"] == "activation")]
        expect(len(ends) == 1, f"{name}: an arrow starts and ends at one op")
        for made, used in ends:
            expect(made["microbatch"] == used["microbatch"], f"{name}: of one microbatch")
            expect(used["stage"] - made["stage"] == (1 if made["kind"] == "F" else -1), f"{name}: to the next stage")

    # the critical path has no gap and is the makespan
    path = sorted((e["ts"], e["dur"]) for e in slices if processes[e["pid"]] == "critical path")
    expect(all(abs(a + d - b) < 1e-6 for (a, d), (b, _) in zip(path, path[1:])), f"{name}: the path has no gap")
    first = min(o["start_ms"] for o in p["ops"])
    expect(abs(path[-1][0] + path[-1][1] - us(first + p["makespan_ms"])) < 1e-6 and path[0][0] <= us(first), f"{name}: the path is the makespan")
    return slices, threads


def test_every_op_is_there_once():
    for schedule in ("adaptra", "1f1b"):
        check(schedule, "plan", problem, "--schedule", schedule, *delay(45))


def test_every_collective_is_there_once():
    slices, threads = check("wave", "simulate", wave, "--order", wave_order)
    collectives = Counter((e["args"]["kind"], e["args"]["stage"], e["dur"]) for e in slices if threads[e["pid"], e["tid"]].startswith("collectives"))
    expect(collectives == Counter([(kind, stage, us) for kind, us in (("gather", 3000), ("reduce", 5000)) for stage in range(4)]), "every collective once")


def test_overlapped_ops_say_so():
    overlapped = write("overlapped.yaml", """pipeline:
  ranks: 4
  microbatches: 10
  placement: wave
  times_ms: {F: 10, I: 10, W: 10, B: 20, FB: 24}
  links: {default: {latency_ms: 1}}
  communication: batched
""")
    slices, threads = check("overlapped", "plan", overlapped, "--schedule", "dualpipe-v")
    expect(any(e["args"].get("overlapped") for e in slices), "overlapped ops say so")


def test_messages_under_way_at_once_have_threads_of_their_own():
    # 45 ms of latency and ops of 10: five messages are under way at once
    slices, threads = check("slow", "plan", problem, "--schedule", "gpipe", *delay(45))
    expect(sum(name == "link to rank 1" for name in threads.values()) == 5, "messages under way at once lie on threads of their own")
