"""The Python package as a user calls it: plans with the figures that follow by hand, any given order timed, every kind of
error as an exception with the library's text, and the library found where it is said to be."""
import copy
import dataclasses
import decimal
import fractions
import json
import os
import pathlib
import pickle
import shutil
import threading

from package import EXAMPLE, LIBRARY, SLOW, python, raises
from runner import build, expect, folder, missing, source
import slackline

FOUR = {"pipeline": {"ranks": 4, "microbatches": 12, "times_ms": {"F": 10, "I": 10, "W": 10},
                     "links": {"list": [{"between": [0, 1], "latency_ms": 0}]}}}


def test_every_form_of_problem_gives_the_figures_by_hand():
    # 12 microbatches of 30 ms on each rank, and 3 forwards of 10 ms before the last rank begins; the slow link's 60 ms once
    for given in (EXAMPLE, pathlib.Path(EXAMPLE), FOUR, open(EXAMPLE).read(), "pipeline: {ranks: 4, microbatches: 12, times_ms: "
                  "{F: 10, I: 10, W: 10}, links: {list: [{between: [0, 1], latency_ms: 0}]}}", slackline.Problem(FOUR)):
        plan = slackline.plan(given, "adaptra")
        expect((plan.makespan_ms, plan.lower_bound_ms, plan.gap, plan.optimal) == (390, 390, 0, True), f"390 ms of {given!r}")
        expect(slackline.plan(given, "adaptra", changes=SLOW).makespan_ms == 450, f"450 ms of {given!r}")
        expect(slackline.plan(given, time_limit=0.2, changes=["pipeline.links.list.0.latency_ms=60"]).lower_bound_ms == 450,
               f"no schedule is shorter than 450 ms: {given!r}")
        expect(slackline.plan(given, "1f1b").makespan_ms == (12 + 3) * 30, "1F1B: (M + R - 1)(F + B)")


plan = slackline.plan(EXAMPLE, "adaptra")


def test_a_plan_has_its_shape_ops_and_forms():
    expect((plan.ranks, plan.stages, plan.microbatches, plan.placement, plan.schedule_name) == (4, 4, 12, "linear", "adaptra"), "its shape")
    expect(plan.ideal_ms == 360 and abs(plan.bubble - (1 - 360 / 390)) < 1e-12, "bubble: 30 of 390 ms")
    expect(len(plan.ops) == 4 * 36 and len(plan.transfers) == 2 * 3 * 12, "an F, I and W each; 12 messages on each link, both ways")
    expect(len(plan.links) == 3 and all(link.slack == plan.warmup[i] - plan.warmup[i + 1] for i, link in enumerate(plan.links)), "slack")
    expect(all(a.end_ms <= b.start_ms for r in range(4) for a, b in zip(plan.rank_ops(r), plan.rank_ops(r)[1:])), "one op at a time")
    expect([op.op for op in plan.rank_ops(3)[:2]] == ["F", "I"] and plan.warmup[3] == 1, "the last rank goes back at once")
    expect(plan.csv().splitlines()[0].startswith("0F0,0F1,") and len(plan.csv().splitlines()) == 4, "csv has a line a rank")
    expect("0SEND_F0" in plan.csv_comms() and "SEND" not in plan.csv(), "csv_comms has the messages")
    expect(plan.write("svg").lstrip().startswith("<") and "</svg>" in plan.write("svg") and len(plan.write("text")) > 100, "pictures")


slow = slackline.simulate(EXAMPLE, plan.csv(), changes=SLOW)


def test_a_given_order_is_timed():
    kept = os.path.join(folder, "plan.json")
    with open(kept, "w") as file:
        file.write(plan.write("json"))
    expect(slackline.simulate(EXAMPLE, kept, changes=SLOW).ops == slackline.simulate(EXAMPLE, pathlib.Path(kept), changes=SLOW).ops == slow.ops, "a plan's JSON is its order")
    expect(slow.makespan_ms == 680 and slow.schedule_name == "given", "the healthy order on the slow link: 680 ms, as the command")


# 1F1B on two ranks and two microbatches, F 1 ms, B 2 ms. Rank 0: F0 0-1, F1 1-2, B0 4-6, B1 7-9; rank 1: F0 1-2, B0 2-4, F1
# 4-5, B1 5-7.
two = {"pipeline": {"ranks": 2, "microbatches": 2, "times_ms": {"F": 1, "I": 1, "W": 1}}}


def test_every_form_of_order_gives_the_times_by_hand():
    rows = [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "", None, "1B1"]]
    text = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    order = os.path.join(folder, "or,der.csv")
    with open(order, "w") as file:
        file.write(text)
    held = type("Schedule", (), {"pipeline_order": dict(enumerate(rows))})()
    for given in (rows, text, order, pathlib.Path(order), held):
        timed = slackline.simulate(two, given)
        expect([(op.op, op.microbatch, op.start_ms, op.end_ms) for r in (0, 1) for op in timed.rank_ops(r)] ==
               [("F", 0, 0, 1), ("F", 1, 1, 2), ("B", 0, 4, 6), ("B", 1, 7, 9), ("F", 0, 1, 2), ("B", 0, 2, 4), ("F", 1, 4, 5), ("B", 1, 5, 7)],
               f"1F1B by hand: {timed.ops}")
        expect(timed.makespan_ms == 9 and abs(timed.bubble - 1 / 3) < 1e-12 and timed.warmup == (2, 1), "9 ms, a third of it idle")
        expect(timed.peak_memory == (2, 1) and timed.links[0].slack == 1 and timed.lost == slackline.Lost(0, 0), "memory, slack, losses")
    late = slackline.simulate(two, rows, changes={"pipeline.links.default": {"latency_ms": 0.5, "transfer_ms": 0.25}})
    first = next(t for t in late.transfers if (t.op, t.microbatch) == ("F", 0))
    expect((first.from_rank, first.to_rank, first.start_ms, first.end_ms, first.arrive_ms) == (0, 1, 1, 1.25, 1.75), f"a message: {first}")
    parts = timed.explain()
    expect(parts.work_ms + parts.imbalance_ms + parts.fill_ms + parts.collectives_ms + parts.dependency_ms + parts.blocking_ms == 9, f"{parts}")
    # all of rank 1's work is on the critical path: F0 0-1, F0 1-2, B0, F1, B1 until 7, B1 7-9
    expect({(c.stage, c.op): c.cost for c in parts.ops}[1, "B"] == 2 and timed.write("json").find("explain") > 0, "a ms more on 1B costs 2")
    expect(timed == pickle.loads(pickle.dumps(timed)) != slow, "plans compare by what they say")


def test_planned_messages_stay_with_their_order():
    one = {"pipeline.communication": {"regime": "fifo", "communicators": "pipeline"}}
    shape = "pipeline: {ranks: 4, stages: 8, placement: loop, microbatches: 8, times_ms: {F: 10, I: 10, W: 10}, links: {default: {transfer_ms: 1}}}"
    lowered = slackline.plan(shape, schedule="interleaved-1f1b").csv()
    planned = slackline.plan(shape, schedule="interleaved-1f1b", changes=one)
    expect(planned.csv() == lowered, "the ops are the schedule's")
    expect(slackline.simulate(shape, lowered, changes=one).makespan_ms > 1.1 * planned.makespan_ms, "receives of PyTorch's lowering hold up sends")
    for order in (planned, planned.write("json"), planned.csv_comms()):
        again = slackline.simulate(shape, order, changes=one)
        expect(again.makespan_ms == planned.makespan_ms, f"{again.makespan_ms}, not {planned.makespan_ms}")


def test_an_order_that_deadlocks_names_its_shortest_cycle():
    loop = {"pipeline": {"ranks": 2, "stages": 4, "placement": "loop", "microbatches": 2, "times_ms": {"F": 1, "I": 1, "W": 1}, "communication": "fifo"}}
    rows = ("0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3F1,3B0,3SEND_B0,3B1,3SEND_B1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\n")
    try:
        slackline.simulate(loop, rows)
        expect(False, "a deadlock is timed")
    except slackline.InvalidRequest as error:
        expect("order:1: column 4: deadlock in regime fifo: 0SEND_F1 of rank 0 (line 1, column 4) waits for 1RECV_F1 of rank 1 (line 2, column 4), which "
               "waits for 1SEND_F0 of rank 1 (line 2, column 3), which waits for 2RECV_F0 of rank 0 (line 1, column 5), which waits for 0SEND_F1 of rank 0"
               in str(error), f"{error}")
    apart = {"pipeline.communication": {"regime": "fifo", "communicators": "direction"}}
    expect(slackline.simulate(loop, rows, changes=apart).makespan_ms > 0, "no deadlock with a communicator for each direction")


def test_jitter_repeats_and_only_adds():
    jittery = {"pipeline": {**two["pipeline"], "links": {"default": {"latency_ms": 1, "jitter_ms": 2}}}}
    draws = slackline.plan(jittery, "1f1b").jitter(500, seed=3)
    expect(draws.draws == 500 and draws.min_ms <= draws.p10_ms <= draws.p50_ms <= draws.p90_ms <= draws.p99_ms <= draws.max_ms, f"{draws}")
    expect(draws == slackline.plan(jittery, "1f1b").jitter(500, seed=3) and draws.min_ms > 9 + 2, "the same draws; delays only add")
    expect(slackline.plan(EXAMPLE, "1f1b").jitter(10).max_ms == 450, "nothing jitters without jitter_ms")


def test_a_problem_keeps_its_changes():
    problem = slackline.Problem(EXAMPLE, changes={"pipeline.ranks": 3, "pipeline.communication": "inorder"})
    expect((problem.ranks, problem.stages, problem.microbatches) == (3, 3, 12) and "inorder" in problem.yaml(), "a problem says its shape")
    expect(slackline.plan(pickle.loads(pickle.dumps(problem)), "1f1b").makespan_ms == slackline.plan(problem, "1f1b").makespan_ms, "pickled")
    again = slackline.plan(pickle.loads(pickle.dumps(slackline.Problem(EXAMPLE, changes=SLOW))), "adaptra", changes={"pipeline.microbatches": 20})
    expect(again.makespan_ms == 20 * 30 + 30 + 60, "changes add up, also in another process")
    made = slackline.Problem(open(EXAMPLE).read().replace("ranks: 4", "ranks: 5"))
    expect(slackline.plan(made, "1f1b").ranks == 5 and slackline.plan(slackline.Problem(made, changes=SLOW), "adaptra").makespan_ms == 12 * 30 + 40 + 60, "of a text")
    expect(slackline.plan(slackline.Problem(made.yaml()), "1f1b").makespan_ms == slackline.plan(made, "1f1b").makespan_ms, "its YAML is the problem")
    expect(slackline.plan(os.path.join(source, "examples", "layers.yaml"), "zb-h2").cut[0] == 0, "the cut of layers")
    expect(slackline.schedules()[:2] == ["auto", "optimal"] and {"1f1b", "adaptra", "zb-v"} <= set(slackline.schedules()), "names")
    expect(slackline.version() == slackline.__version__, "package and library have one version")


def test_numbers_may_be_those_of_numpy():
    # numbers of NumPy and PyTorch are what their `tolist` gives
    number = type("Number", (), {"tolist": lambda self: 10})()
    expect(slackline.plan({"pipeline": {**FOUR["pipeline"], "times_ms": {k: number for k in "FIW"}}}, "adaptra").makespan_ms == 390, "tolist")


def test_a_plan_in_another_process_keeps_its_orders():
    # a plan in another process keeps its orders and says what it no longer can
    away = pickle.loads(pickle.dumps(plan))
    expect(away == plan and away.csv() == plan.csv() and away.csv_comms() == plan.csv_comms() and away.write("json") == plan.write("json"), "pickled plan")
    expect(pickle.loads(pickle.dumps(away)).csv() == plan.csv(), "pickled twice")
    raises(slackline.InvalidRequest, lambda: away.write("svg"), "svg", "another")


def test_copies_and_fields_are_the_plan():
    # copies are the plan, and can still be asked; its fields alone are data
    for twin in (copy.copy(plan), copy.deepcopy(plan)):
        expect(twin == plan and twin.write("svg") == plan.write("svg") and twin.explain() == plan.explain(), "a copy is asked like the plan")
    fields = dataclasses.asdict(plan)
    expect(json.loads(json.dumps(fields))["makespan_ms"] == 390 and not [name for name in fields if name.startswith("_")], f"its fields as JSON: {list(fields)}")
    raises(slackline.InvalidRequest, dataclasses.replace(plan, makespan_ms=1.0).csv, "together")
    for given in (plan, [plan.rank_ops(rank) for rank in range(4)], json.loads(plan.write("json"))):
        expect(slackline.simulate(EXAMPLE, given, changes=SLOW).ops == slow.ops, f"a plan is an order, as {type(given).__name__}")
    exactly = {"F": decimal.Decimal("12.5"), "I": fractions.Fraction(25, 2), "W": range(10, 12)}
    expect(slackline.plan({"pipeline": {**two["pipeline"], "times_ms": exactly}}, "1f1b") ==
           slackline.plan({"pipeline": {**two["pipeline"], "times_ms": {"F": 12.5, "I": 12.5, "W": [10, 11]}}}, "1f1b"), "numbers of other kinds")


# what a plan is asked changes what the library holds of it: threads take turns
asked, told = slackline.plan(EXAMPLE, "adaptra"), set()


def ask_again(n):
    for i in range(15):
        told.add(("explain", asked.explain()) if (n + i) % 3 == 0 else ("jitter", asked.jitter(50).max_ms) if (n + i) % 3 == 1
                 else ("json", json.loads(asked.write("json"))["makespan_ms"]))


def test_threads_that_ask_one_plan_take_turns():
    threads = [threading.Thread(target=ask_again, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(told == {("explain", asked.explain()), ("jitter", 390), ("json", 390)}, f"one plan, many threads: {told}")


def test_ctrl_c_ends_a_search():
    # Ctrl-C ends a search that would go on for a day, in a script and where it is handled; the test's own time limit says when not
    hard = {"pipeline": {"ranks": 6, "microbatches": 12, "placement": "wave", "memory": {"limit": [7, 8, 7, 8, 7, 8]},
                         "times_ms": {"F": [7, 11, 9, 13, 8, 6, 12, 10, 9, 8, 7, 12], "I": 9, "W": [5, 3, 8, 4, 7, 6, 5, 9, 4, 6, 8, 3]},
                         "links": {"default": {"latency_ms": 3, "transfer_ms": 2}}}}
    interrupted = f"""
import os, signal, slackline, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever this test was started from
hard = {hard!r}
def wait(*arguments, **options):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    return slackline.plan(hard, "optimal", 86400, threads=2, *arguments, **options)
for exact in (False, True):
    try:
        print(wait(exact=exact))
    except KeyboardInterrupt:
        print("interrupted", [t.name for t in threading.enumerate() if "slackline" in t.name], flush=True)
print(slackline.plan({EXAMPLE!r}, "adaptra").makespan_ms, flush=True)
wait()
"""
    done = python(interrupted)
    expect(done.stdout == "interrupted []\ninterrupted []\n390.0\n" and done.returncode == -2 and done.stderr.rstrip().endswith("KeyboardInterrupt"),
           f"Ctrl-C: {done.returncode} {done.stdout} {done.stderr}")


def test_mistakes_name_their_reason():
    wrong = slackline.InvalidRequest
    raises(wrong, lambda: slackline.plan("absent.yaml"), "absent.yaml")
    raises(wrong, lambda: slackline.plan({"pipeline": {"rankz": 4}}), "problem:1 | 'rankz' | 'ranks'")
    raises(wrong, lambda: slackline.plan("pipeline:\n  ranks: -1\n"), "problem:2 | 'ranks'")
    raises(wrong, lambda: slackline.plan({"pipeline": {**two["pipeline"], "times_ms": {"F": float("nan")}}}), "problem:")
    raises(wrong, lambda: slackline.plan({"pipeline": {"ranks": object()}}), "problem: | 'pipeline.ranks'", "object")
    raises(wrong, lambda: slackline.plan({"pipeline": {(1, 2): 3}}), "problem: | 'pipeline' | 1 | 2")
    raises(wrong, lambda: slackline.plan({"pipeline": {**two["pipeline"], "links": {"list": [{"between": [0, 1], "latency_ms": float("inf")}]}}}),
           "problem: | 'pipeline.links.list.0.latency_ms' | inf")
    raises(wrong, lambda: slackline.plan(two, changes={"pipeline.ranks": float("nan")}), "'pipeline.ranks' | nan")
    held_by_itself = {"pipeline": {}}
    held_by_itself["pipeline"]["pipeline"] = held_by_itself
    raises(wrong, lambda: slackline.plan(held_by_itself), "itself")
    raises(wrong, lambda: slackline.plan(" "), "problem: | text")
    raises(wrong, lambda: slackline.simulate(two, ""), "order: | text")
    raises(wrong, lambda: slackline.plan(two, "1f1"), "schedule | '1f1' | auto | optimal", "1f1b")
    raises(wrong, lambda: slackline.plan(two, "zb-9"), "schedule | 'zb-9'")
    raises(wrong, lambda: slackline.plan(two, "zb-v"), "zb-v", "placement")
    raises(wrong, lambda: slackline.plan(two, time_limit=-1), "limit")
    raises(wrong, lambda: slackline.plan(two, time_limit=float("nan")), "limit")
    raises(wrong, lambda: slackline.plan(two, seed=-1), "seed | 0 | 18446744073709551615 | -1")
    raises(wrong, lambda: slackline.plan(two, threads=2 ** 32), "threads | 0")
    raises(wrong, lambda: slackline.plan(two, changes={"pipeline.rankz": 1}), "rankz")
    raises(wrong, lambda: slackline.plan(two, "1f1b\0"), "zero")
    raises(wrong, lambda: slackline.simulate(two, "0F0,0B0\n1F0,1B0\n"), "order:1")
    raises(wrong, lambda: slackline.simulate(two, '{"ranks": 2}'), "order: | plan", "ops")
    raises(wrong, lambda: slackline.simulate(two, '{"ranks": 1, "ops": [{"op": "F", "rank": 4, "stage": 0, "microbatch": 0, "start_ms": 0}]}'), "plan")
    raises(wrong, lambda: slackline.simulate(two, "absent.csv"), "absent.csv")
    raises(wrong, lambda: slackline.simulate(two, [["0F0", "0F1", "0B0", "0B1"], ["1B0", "1F0", "1F1", "1B1"]]), "order:2 | column | 1 | rank | 0 | 1B0 | F")
    raises(wrong, lambda: plan.write("png"), "plan | 'png'")
    raises(wrong, lambda: plan.jitter(0), "draws")
    raises(ValueError, lambda: slackline.plan("absent.yaml"))  # what a caller who knows no slackline catches
    raises(TypeError, lambda: slackline.plan(4), "dict")
    raises(TypeError, lambda: slackline.plan(two, changes="a=b"), "changes")
    raises(TypeError, lambda: slackline.plan(two, changes=[3]), "str | int")
    raises(TypeError, lambda: slackline.plan(two, 3), "schedule")
    raises(TypeError, lambda: slackline.plan(two, time_limit="soon"), "time_limit | 'soon'")
    raises(TypeError, lambda: slackline.plan(two, seed=1.5), "seed | float")
    raises(TypeError, lambda: slackline.plan(two, threads="2"), "threads | str")
    raises(TypeError, lambda: slackline.simulate(two, 4), "order", "int")
    raises(TypeError, lambda: slackline.simulate(two, None), "order", "NoneType")
    raises(TypeError, lambda: slackline.simulate(two, b"0F0"), "order", "bytes")
    raises(TypeError, lambda: plan.write(3), "str")
    raises(slackline.NoAnswer, lambda: slackline.plan({"pipeline": {**two["pipeline"], "memory": {"limit": 0.5}}}), "memory | limit")
    divided = slackline.plan({"pipeline": {**two["pipeline"], "parts": 2}}, "cross-ud-sub")
    if any(op.part for op in divided.ops):
        error = raises(slackline.NoAnswer, divided.csv)
        again = raises(slackline.NoAnswer, pickle.loads(pickle.dumps(divided)).csv)
        expect(str(error) == str(again), f"a plan without CSV says so in another process too: {again}")


# each thread gets its own error, and plans continue next to each other
said = {}


def work(n):
    for _ in range(20):
        try:
            slackline.plan({"pipeline": {f"key{n}": 1}})
        except slackline.InvalidRequest as error:
            said.setdefault(n, set()).add(str(error))
        said.setdefault((n, "ms"), set()).add(slackline.plan(EXAMPLE, "adaptra", changes={"pipeline.microbatches": 10 + n}).makespan_ms)


def test_errors_belong_to_their_thread():
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(8):
        expect(len(said[n]) == 1 and f"'key{n}'" in min(said[n]), f"the error of thread {n}: {said[n]}")
        expect(said[n, "ms"] == {(10 + n) * 30 + 30}, f"the plans of thread {n}: {said[n, 'ms']}")


def test_the_library_is_looked_for_where_it_is_said_to_be():
    ask = "import slackline, sys; assert 'torch' not in sys.modules; print(slackline.version())"
    done = python("import slackline; print(slackline.Plan.__doc__ is not None)", SLACKLINE_LIBRARY="/nowhere")
    expect(done.returncode == 0, f"importing needs no library: {done.stderr}")
    done = python(ask, SLACKLINE_LIBRARY="/nowhere/libslackline.so")
    expect(done.returncode == 1 and not missing(done.stderr, "LibraryNotFound: | SLACKLINE_LIBRARY | '/nowhere/libslackline.so'"), done.stderr)
    other = python("import ctypes.util; print(ctypes.util.find_library('m') or 'libm.so.6')").stdout.strip()
    for path in ("/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib"):
        if os.path.exists(os.path.join(path, other)):
            done = python(ask, SLACKLINE_LIBRARY=os.path.join(path, other))
            expect(done.returncode == 1 and not missing(done.stderr, "libslackline 0.1 | slackline_version"), f"another library: {done.stderr}")
            break
    done = python(ask, SLACKLINE_LIBRARY=None, LD_LIBRARY_PATH=None)
    expect(done.returncode == 0 or not missing(done.stderr, "libslackline.so.0.1") and "SLACKLINE_LIBRARY=" in done.stderr, f"nowhere: {done.stderr}")
    done = python(ask, SLACKLINE_LIBRARY=None, LD_LIBRARY_PATH=build)
    expect(done.returncode == 0 and done.stdout.strip() == slackline.__version__, f"by the system's loader: {done.stderr}")
    beside = os.path.join(folder, "beside")
    shutil.copytree(os.path.join(source, "python", "slackline"), os.path.join(beside, "slackline"))
    os.symlink(os.path.realpath(LIBRARY), os.path.join(beside, "slackline", "libslackline.so.0.1"))
    done = python(ask + "; from slackline._library import library; print(library()._name)", SLACKLINE_LIBRARY=None, LD_LIBRARY_PATH=None, PYTHONPATH=beside)
    expect(done.returncode == 0 and done.stdout.split()[1:] == [os.path.join(beside, "slackline", "libslackline.so.0.1")], f"beside the package: {done.stdout} {done.stderr}")


def test_without_pytorch_it_plans_and_says_what_the_rest_needs():
    without = "import sys; sys.modules['torch'] = None; import slackline; plan = slackline.plan({!r}, '1f1b'); print(plan.makespan_ms); {}"
    for call in ("slackline.adapt(object())", "plan.schedule(object())", "slackline.pytorch_schedule(None, object())"):
        done = python(without.format(EXAMPLE, call))
        expect(done.returncode == 1 and done.stdout == "450.0\n" and done.stderr.splitlines()[-1].startswith("ImportError: ") and "needs PyTorch" in done.stderr, f"{call}: {done.stdout}{done.stderr[-300:]}")


def test_the_examples_of_the_page_run():
    # what docs/python.md shows runs as it stands there
    with open(os.path.join(source, "docs", "python.md")) as page:
        blocks = [block.split("```")[0] for block in page.read().split("```python\n")[1:]]
    alone = [block for block in blocks if "import torch" not in block and "watch(" not in block]
    expect(len(alone) >= 1, "docs/python.md has an example")
    for block in alone:
        done = python(f"import os\nos.chdir({source!r})\n" + block)
        expect(done.returncode == 0, f"docs/python.md: {done.stderr}\n{block}")
        for line, wanted in zip(done.stdout.splitlines(), [part.split("# ")[1].strip() for part in block.splitlines() if part.startswith("print(")]):
            expect(line == wanted, f"docs/python.md says {wanted!r}, it prints {line!r}")
