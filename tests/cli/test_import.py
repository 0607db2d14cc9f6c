"""A trace becomes the problem that it was made from. The traces here are written by hand, so every time is known by
arithmetic; those that `plan --format trace` writes must give back the plan's times to the nanosecond."""
import gzip
import json
import os
import random

from calling import folder, plan, refused, run, write
from runner import expect, missing, source

quick = ("--time-limit", "0")


def imported(*arguments, text=None):
    """The report, and the problem file that was written."""
    out = os.path.join(folder, "profiled.yaml")
    done = run("import", *arguments, "-o", out, "--format", "json", *quick, text=text)
    expect(done.returncode == 0 and done.stderr == "", f"{arguments}: exit {done.returncode} {done.stderr}")
    return (json.loads(done.stdout), out) if done.returncode == 0 else (None, out)


def event(pid, name, start, end, category="user_annotation", tid=1, **args):
    """Times in ms."""
    return {"ph": "X", "pid": pid, "tid": tid, "cat": category, "name": name, "ts": 1000 * start,
            "dur": 1000 * (end - start), "args": args}


def trace(name, events, **more):
    return write(name, json.dumps({**more, "traceEvents": events}))


def near(a, b, what):
    expect(abs(a - b) < 2e-5, f"{what}: {a}, not {b}")


# rank 0: F 0-10, 10-20; B 50-70 (the gradient left at 45), 80-100 (at 75). rank 1: F 15-25 (input left at 10), B 25-45,
# F 45-55, B 55-75.
first = [("0F0", 0, 10), ("0F1", 10, 20), ("0B0", 50, 70), ("0B1", 80, 100)]
second = [("1F0", 15, 25), ("1B0", 25, 45), ("1F1", 45, 55), ("1B1", 55, 75)]


def check_two(told, what, latency=(5, 5)):
    expect((told["ranks"], told["stages"], told["microbatches"], told["placement"]) == (2, 2, 2, "linear"), f"{what}: shape")
    for kind, time in (("F", 10), ("B", 20), ("I", 10), ("W", 10)):
        for stage in range(2):
            near(told["times_ms"][kind][stage], time, f"{what}: {kind} of stage {stage}")
    expect(told["halved_stages"] == 2, f"{what}: I and W were not traced")
    expect([(link["from"], link["to"], link["messages"]) for link in told["links"]] == [(0, 1, 2), (1, 0, 2)], f"{what}: links")
    for link, time in zip(told["links"], latency):
        near(link["latency_ms"], time, f"{what}: latency")
        near(link["transfer_ms"], 0, f"{what}: transfer")
    near(told["traced_ms"], 100, f"{what}: traced")
    near(told["simulated_ms"], 100, f"{what}: simulated")
    near(told["simulated_over_traced"], 1, f"{what}: ratio")


def two(name, shift=0, label="PP:%s", **more):
    a = trace(f"{name}0.json", [event(4711, label % op, *t) for op, *t in first], **more)
    b = trace(f"{name}1.json", [event(99, label % op, *(x + shift for x in t)) for op, *t in second], **more)
    return a, b


a, b = two("plain")


def test_two_ranks_by_hand_give_their_problem_and_order():
    told, file = imported(a, b)
    check_two(told, "actions")
    expect([clock["offset_ms"] for clock in told["clocks"]] == [0, 0], "clocks that nothing contradicts are left alone")
    order = os.path.join(folder, "order.csv")
    done = run("import", a, b, "--order", order, *quick)
    expect(open(order).read().split() == ["0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"], "the traced order")
    near(plan("simulate", file, "--order", order)["makespan_ms"], 100, "simulate of the files")
    # F, F, B, B on two ranks with 5 ms each way: no order of full backwards beats 100 (the last gradient comes at 80); with W cut
    # off, stage 0 need only do I before W: a plan of I and W never takes longer
    expect(told["plan"]["makespan_ms"] <= 100 and told["plan_without_limit"]["makespan_ms"] <= told["plan"]["makespan_ms"], "a plan is no worse")
    near(plan("plan", file, "--schedule", "auto", *quick)["makespan_ms"], told["plan_without_limit"]["makespan_ms"], "the plan of the file")
    text = run("import", a, b, *quick).stdout
    lacks = missing(text, "2 ranks | 2 stages | linear | 2 microbatches | 1 iteration | 0 -> 1 | 5 ms | 100 ms | B | -o problem.yaml")
    expect(not lacks, f"the text lacks {lacks}: {text}")
    done = run("import", a, b, "-o", "-", *quick)
    expect("pipeline:" in done.stdout and "simulated" in done.stderr, "-o -: the problem there, the report on standard error")
    expect(plan("plan", "-", "--schedule", "1f1b", text=done.stdout)["makespan_ms"] == 100, "and it is a problem")


def test_every_form_of_trace_gives_the_same():
    check_two(imported(b, a)[0], "files in any order")
    check_two(imported(*two("bare", label="%s"))[0], "actions without PP:")
    merged = trace("merged.json", [event(7, op, *t) for op, *t in second] + [event(9, op, *t) for op, *t in first])
    check_two(imported(merged)[0], "one merged file")
    check_two(imported("-", text=open(merged).read())[0], "standard input")
    with gzip.open(os.path.join(folder, "merged.json.gz"), "wb") as packed:
        packed.write(open(merged, "rb").read())
    packed = os.path.join(folder, "merged.json.gz")
    if "cannot read" not in run("import", packed, *quick).stderr:
        check_two(imported(packed)[0], "packed by gzip")
        cut = open(packed, "rb").read()[:-30]
        open(packed, "wb").write(cut)
        done = run("import", packed, *quick)
        expect(done.returncode == 2 and "merged.json.gz" in done.stderr, f"a packed file that is cut: {done.stderr}")
    else:
        print("built without zlib: packed traces not tried")
    pieces = [x for op, *t in first for x in ({"ph": "B", "pid": 0, "tid": 3, "name": op, "ts": 1000 * t[0]},
                                              {"ph": "E", "pid": 0, "tid": 3, "ts": 1000 * t[1]})]
    check_two(imported(write("list.json", json.dumps(pieces + [event(1, op, *t) for op, *t in second])[:-1]))[0],
              "a bare list without its end, begin and end events")


waits = {"1F0": 0, "0B0": 20, "0B1": 70}  # label from the end of the op before


def waiting(name, children):
    files = []
    for rank, ops in enumerate((first, second)):
        events = []
        for op, start, end in ops:
            events.append(event(5, "PP:" + op, waits.get(op, start), end))
            if children:
                events += [event(5, "c10d::recv_", waits.get(op, start), waits.get(op, start) + 0.01, "cpu_op"),
                           event(5, "aten::mm", start + (0.02 if op not in waits else 0), end, "cpu_op"),
                           event(5, "aten::mm", waits.get(op, start), end, "cpu_op", tid=2)]  # another thread's
        files.append(trace(f"{name}{rank}.json", events, distributedInfo={"rank": rank}))
    return files


def test_clocks_that_are_apart_are_set_right():
    told, _ = imported(*two("skewed", shift=1000))
    check_two(told, "clocks apart")
    near(told["clocks"][1]["offset_ms"], 1000, "the offset")
    near(told["clocks"][1]["error_ms"], 5, "no better than half of the round trip of 10 ms")
    shared = imported(*two("skewed", shift=1000), "--clocks", "shared")[0]
    expect(shared["clocks"][1]["offset_ms"] == 0 and shared["links"][0]["latency_ms"] > 900, "--clocks shared leaves them alone")
    for ahead in (1000, -3.6e6):  # hosts that are called alike, hours apart
        told, _ = imported(*two("alike", shift=ahead, host_name="vm"))
        check_two(told, "two hosts of one name")
        near(told["clocks"][1]["offset_ms"], ahead, "their offset")
    told, _ = imported(*two("alike", shift=-8, host_name="vm"))
    expect(told["clocks"][1]["offset_ms"] == 0, f"one host's clock is one: {told['clocks']}")
    bases = two("based")
    document = json.load(open(bases[1]))
    for x in document["traceEvents"]:
        x["ts"] -= 1e6
    document["baseTimeNanoseconds"] = 1000000000
    check_two(imported(bases[0], write("based1.json", json.dumps(document)))[0], "times count from baseTimeNanoseconds")


def test_labels_that_begin_with_a_wait_lose_it():
    told, _ = imported(*waiting("inside", True))
    near(told["times_ms"]["F"][1], 10, "F without its wait")
    near(told["times_ms"]["B"][0], 20, "B without its wait")
    near(told["links"][1]["latency_ms"], 5, "the link that was waited for")
    # Without them: F(1,0) counts from 10, when its input left, so 15 ms; B(0,0) from 45 and B(0,1) from 75, 25 ms each
    told, _ = imported(*waiting("blind", False))
    expect(told["waiting_ops"] == 3, "ops that began before their input had left")
    near(told["times_ms"]["F"][1], 15, "F of 15 and 10: the larger one is the median of two")
    near(told["times_ms"]["B"][0], 25, "B of 25 and 25")
    near(imported(*waiting("blind", False), "--average", "mean")[0]["times_ms"]["F"][1], 12.5, "F of 15 and 10: their mean")
    expect(all(clock["offset_ms"] == 0 for clock in told["clocks"]), "a round trip below 0 is a wait, not a clock")


def test_queued_messages_tell_the_transfer_time():
    # activations: ready 2, 4, 6; take the link 2-6, 6-10, 10-14; arrive 9, 13, 17. gradients: ready 20, 22, 24; arrive 27, 31, 35
    queue = ([("0F0", 0, 2), ("0F1", 2, 4), ("0F2", 4, 6), ("0B0", 27, 29), ("0B1", 31, 33), ("0B2", 35, 37)],
             [("1F0", 9, 10), ("1F1", 13, 14), ("1F2", 17, 18), ("1B0", 18, 20), ("1B1", 20, 22), ("1B2", 22, 24)])
    sends = [event(0, f"PP:0SEND_F{m}", 2 + 2 * m, 2 + 2 * m) for m in range(3)]
    bytes_sent = [event(0, "gloo:send", 2 + 2 * m, 3 + 2 * m, **{"Input Dims": [[16, 250, 1000]], "Input type": ["float"]})
                  for m in range(3)]
    told, file = imported(trace("queue.json", [event(rank, "PP:" + op, *t) for rank in range(2) for op, *t in queue[rank]]
                               + sends + bytes_sent))
    for link in told["links"]:
        near(link["transfer_ms"], 4, "transfer")
        near(link["latency_ms"], 3, "latency")
        expect(link["queued"] == 2, "two came behind others")
    near(told["links"][0]["message_mb"] or 0, 16, "16 x 250 x 1000 floats")
    near(told["simulated_ms"], 37, "simulated")
    near(told["traced_ms"], 37, "traced")
    expect("bandwidth_gbps: 32" in open(file).read(), "16 MB in 4 ms are 32 Gbit/s")


def test_receives_of_a_busy_rank_are_only_a_bound():
    # Gradients left at 45, 75 and 115; rank 0 is busy until 80, 100 and 120, and takes each at once: 5 ms is only a bound ----
    busy = ([("0F0", 0, 10), ("0F1", 10, 20), ("0F2", 20, 80), ("0B0", 80, 100), ("0B1", 100, 120), ("0B2", 120, 140)],
            [("1F0", 15, 25), ("1B0", 25, 45), ("1F1", 45, 55), ("1B1", 55, 75), ("1F2", 85, 95), ("1B2", 95, 115)])
    taken = [[event(0, f"PP:0RECV_B{m}", issued, issued + 0.1), event(0, "gloo:recv", issued + 0.05, done)] for m, issued, done in ((0, 15, 80), (1, 60, 100), (2, 90, 120))]
    told, _ = imported(trace("busy.json", [event(rank, "PP:" + op, *t) for rank in range(2) for op, *t in busy[rank]] + [e for pair in taken for e in pair]))
    expect([(link["from"], link["awaited"]) for link in told["links"]] == [(0, 1), (1, 0)], f"F2 was waited for, and none of the gradients: {told['links']}")
    near(told["links"][1]["latency_ms"], 5, "no message took less than 5 ms")


def test_messages_belong_to_their_iteration():
    events = [event(int(op[0]), "PP:" + op, t[0] + 200 * i, t[1] + 200 * i) for i in range(2) for ops in (first, second) for op, *t in ops]
    events += [event(1, "PP:1RECV_F0", 0, 1), event(1, "gloo:recv", 0.5, 12), event(0, "PP:0SEND_F1", 222, 223), event(1, "PP:1SEND_B1", 3, 4)]
    told, _ = imported(trace("repeated.json", events), "--iteration", "1")
    near(told["links"][0]["latency_ms"], 5, "activations of the second iteration")
    near(told["links"][1]["latency_ms"], 5, "gradients of the second iteration")
    # of the first: the receive was done 2 ms behind the send
    told, _ = imported(trace("repeated.json", events), "--iteration", "0")
    near(told["links"][0]["latency_ms"], 2, "what a receive tells")


names = {"F": "forward-step", "B": "backward-step"}


def megatron(name, *marks):
    files = []
    for rank, ops in enumerate((first, second)):
        events = [event(rank, names[op[1]], t[0] + 200 * i, t[1] + 200 * i) for i in range(3) for op, *t in ops]
        events += [event(rank, f"ProfilerStep#{n}", 200 * i - 1, 200 * i + 150) for i, n in enumerate(marks)]
        files.append(trace(f"{name}{rank}.json", events, distributedInfo={"rank": 8 * rank}))
    return files[::-1]


def test_ops_without_stage_and_microbatch_are_counted():
    told, _ = imported(*megatron("megatron"))
    check_two(told, "counted")
    expect([i["iteration"] for i in told["iterations"]] == [0, 1, 2] and told["iteration"] in (1, 2), "three iterations; the first is cold")
    expect(all(i["whole"] and i["ops"] == 8 and abs(i["time_ms"] - 100) < 1e-6 for i in told["iterations"]), "all whole")
    told, _ = imported(*megatron("marked", 5, 6, 7), "--iteration", "6")
    check_two(told, "marked")
    expect([i["iteration"] for i in told["iterations"]] == [5, 6, 7] and told["iteration"] == 6, "numbers of ProfilerStep")
    refused(2, "iteration | 9 | 3 | 5 | 7", "import", *megatron("marked", 5, 6, 7), "--iteration", "9")
    check_two(imported(*megatron("megatron"), "--microbatches", "2")[0], "--microbatches")


def test_map_explains_other_names():
    mapped = trace("mapped.json", [event(7, f"{'fwd' if op[1] == 'F' else 'bwd'} stage {op[0]} mb {op[2:]}", *t)
                                   for ops in (first, second) for op, *t in ops])
    refused(2, "'fwd stage N mb N' | 4 | 'bwd stage N mb N'", "import", mapped)
    told, _ = imported(mapped, "--map", "F=fwd stage {stage} mb {microbatch}", "--map", "B=bwd stage {stage} mb {mb}")
    expect((told["ranks"], told["stages"], told["placement"]) == (1, 2, "loop"), "two stages of one rank")
    arguments = trace("arguments.json", [event(int(op[0]), "do it", *t) | {"name": "fwd" if op[1] == "F" else "bwd"}
                                         | {"args": {"stage": int(op[0]), "mb": int(op[2:])}}
                                         for ops in (first, second) for op, *t in ops])
    check_two(imported(arguments, "--map", "F=fwd", "--map", "B=bwd")[0], "stage and microbatch as arguments")


def test_kernels_tell_on_a_gpu():
    gpu = []
    for rank, ops in enumerate((first, second)):
        events, launched = [], 0
        for number, (op, start, end) in enumerate(ops):
            launch = 0.1 * number
            events.append(event(3, "PP:" + op, launch, launch + 0.05))
            for part in range(2):
                launched += 1
                half = (end - start) / 2
                events.append(event(3, "cudaLaunchKernel", launch + 0.01 * (part + 1), launch + 0.01 * (part + 1) + 0.001,
                                    "cuda_runtime", tid=1 + part, correlation=launched))
                events.append(event(0, "gemm", start + part * half, start + (part + 1) * half, "kernel", tid=7, correlation=launched))
            events.append(event(3, "cudaLaunchKernel", launch + 0.04, launch + 0.041, "cuda_runtime", correlation=1000 + number))
            events.append(event(0, "ncclDevKernel_SendRecv", max(0, start - 3), end + 3, "kernel", tid=8, correlation=1000 + number))
            events.append(event(0, "PP:" + op, start, end, "gpu_user_annotation", tid=7))
        random.Random(3).shuffle(events)
        gpu.append(trace(f"gpu{rank}.json", events, distributedInfo={"rank": rank, "backend": "nccl"}))
    told, _ = imported(*gpu)
    check_two(told, "kernels")
    expect(told["gpu_ops"] == 8, "all ops have kernels")
    # the categories of other years and devices; a kernel whose time was lost stands at 0 (https://github.com/pytorch/kineto/issues/109)
    for what, words in (("2021", {"kernel": "Kernel", "cuda_runtime": "Runtime", "cpu_op": "Operator"}), ("the driver", {"cuda_runtime": "cuda_driver"}),
                        ("ROCm", {"cuda_runtime": "hip_runtime"}), ("XPU", {"cuda_runtime": "xpu_runtime"})):
        renamed = []
        for path in gpu:
            document = json.load(open(path))
            for x in document["traceEvents"]:
                x["ts"] += 1e9  # a time of day
                if x["name"] == "gemm":
                    x["tid"] = "stream 7"
                x["cat"] = words.get(x["cat"], x["cat"])
            document["traceEvents"].append(event(0, "gemm", 0, 0, words.get("kernel", "kernel"), tid="stream 7", correlation=1))
            renamed.append(write(os.path.basename(path).replace("gpu", "gpu-" + what[0]), json.dumps(document)))
        told, _ = imported(*renamed)
        check_two(told, f"kernels in the words of {what}")
        expect(told["gpu_ops"] == 8, f"{what}: all ops have kernels")


def test_a_plan_written_as_a_trace_comes_back():
    cases = [("four-ranks.yaml", "1f1b", "linear"), ("four-ranks.yaml", "adaptra", "linear"), ("four-ranks.yaml", "zb-v", "wave"),
             ("four-ranks.yaml", "interleaved-1f1b", "loop"), ("four-ranks.yaml", "chimera", "bidirectional"),
             ("four-ranks.yaml", "dualpipe-v", "wave"), ("four-ranks.yaml", "gpipe", "linear"), ("zero-1.yaml", "1f1b", "linear")]
    for example, schedule, placement in cases:
        what = f"{example} {schedule} {placement}"
        asked = [os.path.join(source, "examples", example), "--schedule", schedule]
        asked += ["--set", f"pipeline.placement={placement}"] if placement != "linear" else []
        if example == "four-ranks.yaml":
            asked += ["--set", "pipeline.links.default.transfer_ms=2", "--set", "pipeline.links.default.latency_ms=3"]
        planned = plan("plan", *asked)
        path = os.path.join(folder, "plan.json")
        run("plan", *asked, "--format", "trace", "-o", path)
        told, _ = imported(path)
        if told is None:
            continue
        expect((told["ranks"], told["stages"], told["placement"], told["microbatches"]) ==
               tuple(planned[key] for key in ("ranks", "stages", "placement", "microbatches")), f"{what}: shape")
        near(told["traced_ms"], planned["makespan_ms"], f"{what}: makespan")
        near(told["simulated_ms"], planned["makespan_ms"], f"{what}: simulated")


def test_what_cannot_be_used_is_named():
    refused(2, "trace", "import")
    refused(2, "'--itration' | '--iteration'", "import", a, "--itration", "3")
    refused(2, "--format | text | json", "import", a, "--format", "svg")
    refused(2, "WHAT=PATTERN", "import", a, "--map", "x")
    refused(2, "read", "import", os.path.join(folder, "absent.json"))
    refused(2, "folder", "import", folder)
    refused(2, "trace", "import", write("no.json", "pipeline:\n"))
    refused(2, "no.json:3 | JSON", "import", write("no.json", '{"traceEvents": [\n{"ph":"X"},\n{"ph" "X"}]}'.replace('{"ph":"X"}', "{}")))
    refused(2, "duration", "import", write("no.json", '[{"ph":"X","pid":1,"tid":1,"name":"0F0","ts":1}]'))
    refused(2, "time", "import", write("no.json", '[{"ph":"X","pid":1,"tid":1,"name":"0F0","ts":"x","dur":1}]'))
    refused(2, "1 | PyTorch", "import",
            trace("no.json", [event(1, "aten::mm", 0, 1, "cpu_op")]))
    refused(2, "0 | 2 | 1 | trace | rank", "import", b)
    refused(2, "B | 0 | 1 | rank", "import",
            trace("no.json", [event(0, op, *t) for op, *t in first[:3]] + [event(1, op, *t) for op, *t in second]))
    refused(2, "forwards", "import", trace("no.json", [event(0, "0F0", 0, 1)]))
    refused(2, "plain0.json", "import", a, b, a)
    refused(2, "rank | 3", "import",
            trace("no.json", [event(0, "forward-step", i, i + 1) for i in range(4)] + [event(0, "backward-step", 5, 6)]))
    refused(2, "placements", "import", trace("no.json", [event(stage % 5 // 2, f"{stage}{kind}0", 10 * i + stage, 10 * i + stage + 1)
                                                            for i, kind in enumerate("FB") for stage in range(5)]))
    refused(2, "standard", "import", a, b, "-o", "-", "--order", "-")
    expect("ProfilerStep#{iteration}" in run("import", "--help").stdout, "--help lists the known names")


# sent behind an op and waited for before it. Where there are labels too, the functions are the same ops once more ----
functions = {"F": "forward_one_chunk", "B": "backward_one_chunk", "W": "backward_weight_one_chunk"}


def stack(pid, ops, kinds="FB"):
    return [event(pid, f"torch/distributed/pipelining/stage.py(857): {functions[op[1]]}", *t, category="python_function") for op, *t in ops if op[1] in kinds]


def gloo(pid, what, start, end):
    return event(pid, f"gloo:{what}", start, end, **{"Input Dims": [[32, 64]], "Input type": ["float"]})


def test_stacks_tell_the_ops_of_unlabelled_schedules():
    messages = ([gloo(4711, "send", 10, 15), gloo(4711, "send", 20, 25), gloo(4711, "recv", 21, 50), gloo(4711, "recv", 71, 80)],
                [gloo(99, "recv", 0, 15), gloo(99, "send", 45, 50), gloo(99, "recv", 45, 45), gloo(99, "send", 75, 80)])
    inner = [{"ph": "X", "pid": 4711, "tid": 1, "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 0, "dur": 1e6}]
    files = [trace(f"stack{i}.json", stack(pid, ops) + messages[i] + inner * (i == 0), distributedInfo={"rank": i}) for i, (pid, ops) in enumerate(((4711, first), (99, second)))]
    told, file = imported(*files)
    check_two(told, "stacks")
    expect([round(link["message_mb"] * 1e6) for link in told["links"]] == [8192, 8192], f"sizes of what was sent behind ops: {told['links']}")
    doubled = [trace(f"doubled{i}.json", stack(pid, ops) + [event(pid, f"PP:{op}", *t) for op, *t in ops]) for i, (pid, ops) in enumerate(((4711, first), (99, second)))]
    check_two(imported(*doubled)[0], "labels and stacks")
    halves = [trace(f"halves{i}.json", stack(pid, [(op, a, a + (b - a) / 2) if op[1] == "B" else (op, a, b) for op, a, b in ops], "FB")
                    + stack(pid, [(op[0] + "W" + op[2], (a + b) / 2, b) for op, a, b in ops if op[1] == "B"], "W")) for i, (pid, ops) in enumerate(((4711, first), (99, second)))]
    told, file = imported(*halves)
    expect(told["halved_stages"] == 0 and told["times_ms"]["I"] == [10, 10] and told["times_ms"]["W"] == [10, 10], f"a backward with its own weights is I: {told['times_ms']}")
    refused(2, "with_stack=True", "import", trace("unlabelled.json", inner + messages[0]))


def test_marks_of_iterations_belong_to_their_process():
    late = [event(7, f"PP:{op}", *t) for op, *t in second]
    early = [event(9, f"PP:{op}", *t) for op, *t in first]
    shifted = [[dict(e, ts=e["ts"] + 110e3) for e in part] for part in (early, late)]
    # rank 0 begins step 6 at 105 and its first F at 110, when rank 1 still is in step 5
    steps = [event(7, "ProfilerStep#5", -1, 120), event(7, "ProfilerStep#6", 120, 250), event(9, "ProfilerStep#5", -1, 105), event(9, "ProfilerStep#6", 105, 250)]
    told, file = imported(trace("marks.json", steps + early + late + shifted[0] + shifted[1]))
    expect([(i["iteration"], i["ops"], i["whole"]) for i in told["iterations"]] == [(5, 8, True), (6, 8, True)], f"an op counts to its own process's step: {told['iterations']}")


def some(name, *windows, **more):
    """Iterations 0 to 3, 200 ms apart: of each rank the ops that begin within its window; in a file a rank."""
    return [trace(f"{name}{rank}.json", [event(rank, f"PP:{op}", t[0] + 200 * i, t[1] + 200 * i) for i in range(4) for op, *t in ops
                                         if windows[rank][0] <= t[0] + 200 * i < windows[rank][1]], **more)
            for rank, ops in enumerate((first, second))]


def test_traces_may_begin_within_an_iteration():
    for what, windows, whole in (("rank 0 begins with its first B, rank 1 in the second iteration", ((15, 900), (230, 900)), [2, 3]),
                                 ("rank 1 begins with its second F, where no op lacks its F", ((0, 900), (50, 900)), [1, 2, 3]),
                                 ("rank 1 begins an iteration later", ((0, 900), (200, 900)), [1, 2, 3]),
                                 ("rank 0 begins an iteration later and ends one earlier", ((200, 600), (0, 900)), [1, 2]),
                                 ("both end in the middle", ((0, 640), (0, 640)), [0, 1, 2])):
        told, _ = imported(*some("some", *windows))
        check_two(told, what)
        expect([i["iteration"] for i in told["iterations"] if i["whole"]] == whole, f"{what}: {told['iterations']}")


def test_ranks_of_different_iterations_are_told_by_the_clock():
    # as many of each, but not the same: on one host's clock the times tell
    for host, whole in (("node", [1, 2]), ("localhost", [0, 1, 2])):
        told, _ = imported(*some("others", (0, 600), (200, 900), host_name=host))
        expect([i["iteration"] for i in told["iterations"] if i["whole"]] == whole, f"{host}: {told['iterations']}")
    check_two(imported(*some("others", (0, 600), (200, 900), host_name="node"))[0], "ranks of different iterations")


def test_opposite_pipelines_may_begin_anywhere():
    # two pipelines in opposite directions: rank 1 may begin with its upper stage, which is no rest of an iteration
    up = [event(r, f"PP:{op}", t + 200 * i, t + 200 * i + 10) for i in range(2) for r, op, t in
          ((0, "0F0", 0), (1, "2F1", 0), (1, "1F0", 15), (0, "3F1", 15), (1, "1B0", 30), (0, "3B1", 30), (0, "0B0", 45), (1, "2B1", 45))]
    told, _ = imported(trace("opposite.json", up))
    expect((told["placement"], [i["whole"] for i in told["iterations"]]) == ("bidirectional", [True, True]), f"two directions: {told['placement']} {told['iterations']}")


def test_a_thread_may_be_a_rank():
    threads = [event(1, op, *t, tid=i) for i, ops in enumerate((second, first)) for op, *t in ops]
    check_two(imported(trace("threads.json", threads))[0], "a thread a rank")
    told, _ = imported(trace("one-rank.json", [event(1, op, *t, tid=int(op[0])) for op, *t in (("0F0", 0, 10), ("1F0", 10, 20), ("1B0", 20, 40), ("0B0", 40, 60))]))
    expect((told["ranks"], told["stages"]) == (1, 2), f"threads of one rank, one op at a time: {told['ranks']} ranks")
    told, _ = imported(trace("said.json", [dict(e, tid=int(e["name"][0])) for e in threads], distributedInfo={"rank": 0}))
    expect((told["ranks"], told["overlapping_ops"] > 0) == (1, True), f"one rank is one, as the file says: {told['ranks']}")
    spans = [{"ph": phase, "pid": i, "tid": 0, "cat": "op", "id": f"{i}.{n}", "name": op, "ts": 1000 * at} for i, ops in enumerate((first, second))
             for n, (op, *t) in enumerate(ops) for phase, at in zip("be", t)]
    check_two(imported(trace("spans.json", sorted(spans, key=lambda e: e["ts"])))[0], "spans by id")


def test_a_process_may_be_called_by_its_rank():
    called = [event(f"rank {1 - i}", names[op[1]], *t) for i, ops in enumerate((second, first)) for op, *t in ops]
    check_two(imported(trace("called.json", called))[0], "a pid that says the rank")


def test_byte_order_marks_and_folders_are_understood():
    check_two(imported(write("mark.json", "\ufeff" + json.dumps({"traceEvents": [event(7, f"PP:{op}", *t) for op, *t in second] + [event(9, f"PP:{op}", *t) for op, *t in first]})))[0], "a byte order mark")
    refused(2, "neither", "import", write("half-mark.json", "\u00ef{}"))
    refused(2, "folder", "import", folder)
    write("timeline.json", "[]")
    refused(2, "give the traces in it: " + folder + "/timeline.json", "import", folder)
    refused(2, "trace", "import", write("hollow.json", '{"traceEvents": []}'))


def text_of(name):
    return open(os.path.join(folder, name), encoding="latin-1").read()


def raw(name, content):
    path = os.path.join(folder, name)
    open(path, "wb").write(content)
    return path


def test_damaged_archives_are_refused():
    with gzip.open(os.path.join(folder, "whole.gz"), "wb") as packed:
        packed.write(os.urandom(5000))
    open(os.path.join(folder, "half.gz"), "wb").write(open(os.path.join(folder, "whole.gz"), "rb").read()[:20])
    done = run("import", os.path.join(folder, "half.gz"))
    expect(done.returncode == 2 and "<fd" not in done.stderr, f"zlib's names are not ours: {done.stderr}")


def test_the_file_that_is_wrong_is_named():
    packed = gzip.compress(open(b, "rb").read(), mtime=0)
    has_zlib = "without zlib" not in run("import", raw("probe.gz", packed)).stderr
    for what, file, says in (
            ("cut", raw("cut.json", open(b, "rb").read()[:-40]), "cut.json:1"),
            ("cut behind an event", write("early.json", '{"traceEvents": [{}, {}'), "early.json:1"),
            ("empty", write("empty.json", ""), "empty.json | trace"),
            ("blank", write("blank.json", "\n \n"), "blank.json | trace"),
            ("YAML", write("yaml.json", "a: 1\n"), "yaml.json:1 | trace | JSON"),
            ("random bytes", raw("random.json", bytes(range(200, 256)) * 3), "random.json:1 | trace | JSON"),
            ("UTF-16", raw("wide.json", open(b).read().encode("utf-16")), "wide.json:1 | trace | JSON"),
            ("a zip", raw("b.zip", b"PK\x03\x04" + bytes(50)), "b.zip:1 | trace | JSON"),
            ("no events", write("other.json", '{"a": 1}'), "other.json | trace | 'traceEvents'"),
            ("no list", write("object.json", '{"traceEvents": {}}'), "object.json:1 | 'traceEvents' | list"),
            ("a number too large", write("large.json", open(b).read().replace('"ts": 15000', '"ts": 1e999', 1)), "large.json:1 | JSON"),
            ("not a number", write("nan.json", open(b).read().replace('"ts": 15000', '"ts": NaN', 1)), "nan.json:1 | JSON"),
            ("negative length", write("negative.json", open(b).read().replace('"dur": 10000', '"dur": -1', 1)), "negative.json:1 | 'PP:1F0'"),
            ("nesting without end", write("deep.json", '{"traceEvents": [' + '{"a": ' * 5000 + "1" + "}" * 5000 + "]}"), "deep.json:1 | JSON"),
            ("no labels", trace("unlabelled2.json", [event(3, "my forward 7", 0, 1)]), "unlabelled2.json | 1 | 'my forward N'"),
            ("PyTorch's own names alone", trace("own.json", [event(3, "aten::mm", 0, 1, "cpu_op")]), "own.json | 1"),
            ("a stage that another file has", trace("second.json", [event(9, op, *t) for op, *t in first]), "stage 0 runs on two ranks, in " + a + " (process 4711) and in "),
            ("numbers beyond any problem", trace("numbers.json", [event(3, "1F0", 15, 25), event(3, "1B0", 25, 45), event(3, "1F99999999", 50, 60)]), "numbers.json | 2 | 100000000"),
            ("another number of microbatches", trace("three.json", [event(3, op, *t) for op, *t in second] + [event(3, "1F2", 80, 90), event(3, "1B2", 90, 99)]),
             "F of stage 0, microbatch 2 (rank 0) is missing in " + a),
            ("a rank behind it is missing", trace("middle.json", [event(3, op, *t) for op, *t in second] + [event(3, "PP:1SEND_F0", 25, 25.5)]),
             "middle.json | 1 | rank"),
            ("the same", trace("behind.json", [event(3, op, *t) for op, *t in second] + [event(3, "PP:1RECV_B0", 26, 26.5)]),
             "behind.json | 1 | rank")):
        refused(2, says, "import", a, file, *quick)
    if has_zlib:
        for what, content, says in (("cut", packed[:-12], "file"), ("a head alone", packed[:5], "file"),
                                    ("another sum", packed[:-6] + bytes([packed[-6] ^ 255]) + packed[-5:], "incorrect"),
                                    ("a changed byte", packed[:60] + bytes([packed[60] ^ 255]) + packed[61:], "torn.json.gz")):
            refused(2, says, "import", a, raw("torn.json.gz", content), *quick)


def unnamed(name, ops, pid, **more):
    return trace(name, [event(pid, names[op[1]], *t) for op, *t in ops], **more)


def test_a_message_to_no_rank_is_refused():
    refused(2, "0 | rank", "import", trace("alone.json", [event(3, op, *t) for op, *t in first] + [event(3, "0SEND_F0", 10, 10.5)]))


def test_ranks_without_stages_stand_in_the_order_of_their_numbers():
    numbered = [unnamed("n0.json", first, 5, distributedInfo={"rank": 0}), unnamed("n1.json", second, 5, distributedInfo={"rank": 1})]
    check_two(imported(*numbered[::-1])[0], "by distributedInfo")
    check_two(imported(unnamed("o0.json", first, 5), unnamed("o1.json", second, 5))[0], "none says its rank: the order of files")
    refused(2, "n0b.json | rank 0 | " + numbered[0], "import", numbered[0], unnamed("n0b.json", second, 5, distributedInfo={"rank": 0}))
    refused(2, "o1.json | rank", "import", numbered[0], os.path.join(folder, "o1.json"))
    refused(2, "o1.json: ops have no stage; those of " + a + " do", "import", a, os.path.join(folder, "o1.json"))
    refused(2, "half.json", "import", trace("half.json", [event(3, "forward-step", 0, 1, stage=0), event(3, "backward-step", 1, 2, stage=0)]), b)


def test_lengths_of_zero_and_overlaps_are_noticed():
    refused(2, "takes", "import", trace("instants.json", [event(int(op[0]), op, t[0], t[0]) for ops in (first, second) for op, *t in ops]))
    told, _ = imported(trace("overlap.json", [event(int(op[0]), op, *t) for op, *t in (("0F0", 0, 10), ("0F1", 5, 15), ("0B0", 50, 70), ("0B1", 80, 100), *second)]))
    expect(told["overlapping_ops"] == 1, f"F1 began 5 ms before F0 had ended: {told['overlapping_ops']}")
    near(told["times_ms"]["F"][0], 10, "each takes what it took")
    expect(not missing(run("import", os.path.join(folder, "overlap.json"), *quick).stdout, "1 op | rank 0 | overlap.json"), "and where")
    expect(imported(a, b)[0]["overlapping_ops"] == 0, "ops in a row do not")


def test_the_median_whole_iteration_is_taken():
    several = []
    for rank, ops in enumerate((first, second)):
        events, base = [], 0
        for scale in (3, 1, 2, 1.5):
            events += [event(rank, op, base + scale * start, base + scale * end) for op, start, end in ops]
            base += 100 * scale + 10
        several.append(trace(f"several{rank}.json", events + [event(rank, ops[0][0], base + ops[0][1], base + ops[0][2])]))
    told, _ = imported(*several)
    expect([(i["whole"], i["time_ms"] and round(i["time_ms"], 6)) for i in told["iterations"]] == [(True, 300), (True, 100), (True, 200), (True, 150), (False, None)], f"{told['iterations']}")
    expect(told["iteration"] == 3, "150 is the middle of 100, 150, 200")
    near(told["times_ms"]["F"][0], 15, "and its times are taken")


def test_many_ops_take_no_square_of_time():
    many, files = 6000, []
    for rank in range(2):
        events = []
        for m in range(many):
            base = 100 * m
            forward, backward = (0, 60) if rank == 0 else (15, 30)
            events.append(event(rank, f"{rank}F{m}", base + forward, base + forward + 10))
            events.append(event(rank, f"{rank}B{m}", base + backward, base + backward + 20))
            events.append(gloo(rank, "send", base + (10 if rank == 0 else 50) - 0.5, base + (15 if rank == 0 else 60)))
            events.append(gloo(rank, "recv", base + (59 if rank == 0 else 14), base + (60 if rank == 0 else 15)))
        files.append(trace(f"many{rank}.json", events, distributedInfo={"rank": rank}))
    told, _ = imported(*files)
    expect((told["microbatches"], told["links"][0]["messages"]) == (many, many), "all of them")
    near(told["times_ms"]["B"][0], 20, "and their times")
