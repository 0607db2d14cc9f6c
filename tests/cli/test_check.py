"""slackline check: deadlocks that users of PyTorch reported, from their orders; what blocks what; wrong orders."""
import json

from calling import plan, problem, refused, run, write
from runner import expect, has_facts

# pytorch 172668: two ranks in a loop, each receive right before the op that needs it
DEFERRED = """\
0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1
1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3RECV_F1,3F1,3B0,3SEND_B0,3B1,3SEND_B1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1
"""
# the same, with receives before sends on the odd rank
SWAPPED = """\
0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,0F2,0SEND_F2,2RECV_B0,2B0,2RECV_B1,2SEND_B0,2RECV_F2,2B1,2SEND_B1,0RECV_B0,0B0,2F2,2SEND_F2,0RECV_B1,0B1,2RECV_B2,2B2,2SEND_B2,0RECV_B2,0B2
1RECV_F0,1F0,1RECV_F1,1SEND_F0,1F1,3RECV_F0,1SEND_F1,3F0,3B0,3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,3SEND_B1,1F2,1RECV_B0,1SEND_F2,1B0,1RECV_B1,1SEND_B0,1B1,3RECV_F2,1SEND_B1,3F2,3B2,3SEND_B2,1RECV_B2,1B2,1SEND_B2
"""
REGIMES = ["decoupled", "pipeline", "pair", "direction", "kind"]


def check(*arguments, code=0):
    """The regimes by name, of an order that is checked."""
    done = run("check", *arguments, "--format", "json")
    expect(done.returncode == code, f"{arguments}: exit {done.returncode}, not {code}: {done.stderr}")
    found = json.loads(done.stdout)
    expect(found["format"] == "slackline-check-1", found["format"])
    return {one.get("communicators", one["regime"]): one for one in found["regimes"]}


def cells(cycle):
    """The cells of a cycle, from the first by name on."""
    names = [cell["cell"] for cell in cycle]
    at = names.index(min(names))
    return names[at:] + names[:at]


def stops(regimes):
    return [name for name in REGIMES if regimes[name]["deadlock"]]


def test_the_reported_deadlocks_are_proved_with_their_cells():
    for name, order, wanted in (("deferred.csv", DEFERRED, ["0SEND_F1", "1RECV_F1", "1SEND_F0", "2RECV_F0"]),
                                ("swapped.csv", SWAPPED, ["0SEND_F2", "1RECV_F2", "3SEND_B0", "2RECV_B0"])):
        file = write(name, order)
        regimes = check(file, code=1)
        expect(stops(regimes) == ["pipeline", "pair"], f"{name}: {stops(regimes)}")
        for communicators in ("pipeline", "pair"):
            cycle = regimes[communicators]["deadlock"]
            expect(cells(cycle) == wanted, f"{name}: {cells(cycle)}")
            for cell in cycle:
                expect(order.split("\n")[cell["line"] - 1].split(",")[cell["column"] - 1] == cell["cell"], f"{cell}")


def interleaved(receives_late):
    """8 ranks, 2 stages each, as PyTorch lowers them; or with rank 0's first receives behind the sends of its warm-up."""
    shape = write("interleaved.yaml", "pipeline: {ranks: 8, stages: 16, placement: loop, microbatches: 16, times_ms: {F: 10, I: 10, W: 10}, "
                  "links: {default: {transfer_ms: 1}}, communication: fifo}\n")
    order = write("lowered.csv", "")
    lowered = run("plan", shape, "--schedule", "interleaved-1f1b", "--format", "csv-comms", "-o", order, "--set", "pipeline.communication=decoupled")
    expect(lowered.returncode == 0, f"{lowered.stderr}")
    rows = open(order).read().splitlines()
    if receives_late:
        late = [f"8RECV_F{k}" for k in range(8)]
        first = [cell for cell in rows[0].split(",") if cell not in late]
        at = first.index("0SEND_F7") + 1
        rows[0] = ",".join(first[:at] + late + first[at:])
    return write("late.csv" if receives_late else "early.csv", "\n".join(rows) + "\n"), shape, rows[0]


def test_the_reported_bubble_is_that_of_receives_before_sends():
    """pytorch 188833. By hand: the first activation comes back to rank 0 after 8 F and 8 transfers, at 88 ms; rank 0's next send could
    have left when rank 1 received it after its first F, at 21 ms."""
    order, shape, first = interleaved(False)
    expect(first.startswith("0UNSHARD,8UNSHARD,0F0,0SEND_F0,8RECV_F0,0F1,0SEND_F1,8RECV_F1,0F2"), f"the published row: {first[:80]}")
    regimes = check(order, shape)
    expect(not stops(regimes), f"{stops(regimes)}")
    worst = regimes["pipeline"]["blockers"][0]
    expect((worst["cell"], worst["rank"], worst["line"], worst["column"], worst["blocks_ms"]) == ("8RECV_F0", 0, 1, 5, 67), f"{worst}")
    expect(regimes["pipeline"]["makespan_ms"] > 1.3 * regimes["pair"]["makespan_ms"], "one communicator costs a bubble")
    planned = plan("plan", shape, "--schedule", "interleaved-1f1b")["makespan_ms"]  # the same ops, receives moved
    expect(planned < 1.03 * regimes["direction"]["makespan_ms"], f"planned messages leave a bubble: {planned}, {regimes}")


def test_eager_messages_of_one_link_may_save_an_order():
    """In DEFERRED, rank 0 sends 0F1 while its peer waits to receive 1F0's answer: if messages from rank 0 are eager, nothing stops."""
    shape = write("eager.yaml", "pipeline: {ranks: 2, stages: 4, placement: loop, microbatches: 2, times_ms: {F: 1, I: 1, W: 1}, "
                  "links: {default: {bandwidth_gbps: 8, message_mb: 1}, list: [{between: [0, 1], one_way: true, bandwidth_gbps: 8, message_mb: 0.01}]}, "
                  "communication: {regime: fifo, eager_kb: 20}}\n")
    order = write("deferred.csv", DEFERRED)
    check(order, shape)  # exit 0
    check(order, shape, "--set", "pipeline.communication.eager_kb=5", code=1)
    expect(run("simulate", shape, "--order", order).returncode == 0, "simulate agrees")
    refused(2, "deferred.csv:1 | deadlock in regime fifo", "simulate", shape, "--order", order, "--set", "pipeline.communication.eager_kb=5")


def test_receives_that_are_only_deferred_deadlock():
    order, shape, _ = interleaved(True)
    regimes = check(order, shape, code=1)
    expect(stops(regimes) == ["pipeline"], f"{stops(regimes)}")
    expect({cell["rank"] for cell in regimes["pipeline"]["deadlock"]} == set(range(8)), "a cycle through all ranks")
    check(order, shape, "--set", "pipeline.communication={regime: fifo, communicators: pair}")  # exit 0: the problem's regime counts


FIFO = "pipeline.communication={regime: fifo, communicators: %s}"


def test_simulate_times_the_sends_and_receives_of_the_file():
    """By hand, with one communicator. F takes 30 on rank 0, everything else 10, a message 5: F0 moves from 30 to 35, and rank 1 runs F0
    35-45 and B0 45-55. Its gradient moves from 55 to 60 if its receive is ahead of the send of F1, and else after F1 (60-65)."""
    shape = write("two.yaml", "pipeline: {ranks: 2, stages: 2, microbatches: 2, times_ms: {F: [30, 10], I: [5, 5], W: [5, 5], B: [10, 10]}, "
                  "links: {default: {transfer_ms: 5}}, communication: fifo}\n")
    late = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1\n"
    ahead = "0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n"
    for order, starts in ((late, [0, 30, 70, 90]), (ahead, [0, 30, 60, 90])):
        file = write("order.csv", order)
        timed = plan("simulate", shape, "--order", file)
        found = [op["start_ms"] for op in timed["ops"] if op["rank"] == 0]
        expect(found == starts, f"{found}, not {starts}")
        expect(check(file, shape)["pipeline"]["makespan_ms"] == timed["makespan_ms"], "check and simulate")
        again = run("simulate", shape, "--order", file, "--format", "csv-comms").stdout.split()
        for row, written in zip(order.split(), again):
            kept = [cell for cell in written.split(",") if "SHARD" not in cell and "REDUCE" not in cell]
            expect(kept == row.split(","), f"{written}")


def test_simulate_names_the_shortest_cycle_in_the_words_of_check():
    order = write("deferred.csv", DEFERRED)
    shape = write("loop.yaml", "pipeline: {ranks: 2, stages: 4, placement: loop, microbatches: 2, times_ms: {F: 1, I: 1, W: 1}}\n")
    for communicators in REGIMES[1:]:
        arguments = ("simulate", shape, "--order", order, "--set", FIFO % communicators)
        if communicators in ("pipeline", "pair"):
            refused(2, "deferred.csv:1 | column | 4 | deadlock | 0SEND_F1 of rank 0 (line 1, column 4) waits for 1RECV_F1 of rank 1 (line 2, column 4) | "
                    "1SEND_F0 of rank 1 (line 2, column 3) | 2RECV_F0 of rank 0 (line 1, column 5)", *arguments)
        else:
            expect(run(*arguments).returncode == 0, f"{communicators}")
    refused(2, "crossed.csv:1 | deadlock | 0B0 of rank 0 (line 1, column 2) waits for 1B0 of rank 1", "simulate", problem, "--order",
            write("crossed.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"), "--set", "pipeline.ranks=2", "--set", "pipeline.microbatches=2")


def test_wrong_sends_and_receives_are_named_with_line_and_cell():
    shape = write("two.yaml", "pipeline: {ranks: 2, stages: 2, microbatches: 2, times_ms: {F: 1, I: 1, W: 1}, communication: fifo}\n")
    rows = ["0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1", "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"]
    wrong = {"0SEND_F1,0F0,0SEND_F0,0F1,0RECV_B0,0B0,0RECV_B1,0B1": "1 | column | 1 | '0SEND_F1' | precedes",
             "0F0,0SEND_F0,0F1,0SEND_F1,0B0,0RECV_B0,0RECV_B1,0B1": "1 | column | 6 | '0RECV_B0' | follows",
             "0F0,0SEND_F0,0F1,0SEND_F1,0B0,0RECV_B1,0B1": "2 | column | 4 | 1SEND_B0",  # the other rank's message has no receive
             "0F0,0SEND_F0,0F1,0SEND_F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1": "1 | column | 5 | '0SEND_F1' | duplicated"}
    for row, facts in wrong.items():
        for command in (("simulate", shape, "--order"), ("check",)):
            file = write("wrong.csv", row + "\n" + rows[1] + "\n")
            refused(2, f"wrong.csv:{facts}", *command, file)


def test_receive_buffers_bound_the_receives_that_move_ahead():
    shape = write("two.yaml", "pipeline: {ranks: 2, stages: 2, microbatches: 4, times_ms: {F: 1, I: 1, W: 1}, links: {default: {transfer_ms: 3}}, "
                  "communication: {regime: fifo, receive_buffers: 2}}\n")
    sends = "".join(f"0F{m},0SEND_F{m}," for m in range(4))
    gradients = ",".join(f"0RECV_B{m},0B{m}" for m in range(4))
    backward = ",".join(f"1B{m},1SEND_B{m}" for m in range(4))
    rows = {"1RECV_F0,1RECV_F1,1F0,1RECV_F2,1F1,1RECV_F3,1F2,1F3": "", "1RECV_F0,1RECV_F1,1RECV_F2,1F0,1F1,1RECV_F3,1F2,1F3": "3: 1RECV_F2",
            "1RECV_F0,1RECV_F1,1F0,1RECV_F2,1RECV_F3,1F1,1F2,1F3": "5: 1RECV_F3"}
    for row, wrong in rows.items():
        file = write("buffers.csv", f"{sends}{gradients}\n{row},{backward}\n")
        for command in (("simulate", shape, "--order", file), ("check", file, shape)):
            if wrong:
                refused(2, f"buffers.csv:2: column {wrong} of rank 1 | 2 | receive_buffers", *command)
            else:
                expect(run(*command).returncode == 0, f"{command}: {run(*command).stderr}")
    for schedule in ("gpipe", "1f1b", "auto"):
        for rank in (0, 1):
            found = [issue for issue in plan("plan", shape, "--schedule", schedule)["issues"] if issue["rank"] == rank]
            expect(len(found) == 8 and [issue["after_ops"] for issue in found] == sorted(issue["after_ops"] for issue in found), f"{found}")
    refused(2, "two.yaml | receive_buffers", "plan", shape, "--set", "pipeline.communication.receive_buffers=1")
    refused(2, "two.yaml | receive_buffers | fifo", "plan", shape, "--set", "pipeline.communication.regime=inorder")


def test_plans_of_ours_never_deadlock_and_take_the_planned_time():
    for schedule in ("gpipe", "1f1b", "zb-h2", "adaptra"):
        for communicators in REGIMES[1:]:
            fifo = ["--set", f"pipeline.communication={{regime: fifo, communicators: {communicators}}}"]
            order = write("ours.csv", "")
            for form in ("csv", "csv-comms"):
                expect(run("plan", problem, "--schedule", schedule, "--format", form, "-o", order).returncode == 0, "written")
                regimes = check(order, problem, *fifo)
                planned = plan("simulate", problem, "--order", order, *fifo)["makespan_ms"]
                expect(not stops(regimes) and regimes[communicators]["makespan_ms"] == planned, f"{schedule}, {communicators}: {regimes}")


def test_ops_that_wait_for_each_other_are_a_deadlock_in_every_regime():
    refused(2, "crossed.csv:1 | 0B1", "check", write("crossed.csv", "0F0,0B0,0B1,0F1\n1F0,1B0,1F1,1B1\n"))  # no order: B before its F
    order = write("crossed.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n")
    regimes = check(order, code=1)
    expect(stops(regimes) == REGIMES, f"{stops(regimes)}")
    expect(all(cell["line"] in (1, 2) and cell["column"] > 0 for cell in regimes["decoupled"]["deadlock"]), f"{regimes['decoupled']}")


def test_the_text_has_every_cell_with_its_place():
    done = run("check", write("deferred.csv", DEFERRED))
    expect(done.returncode == 1 and has_facts(done.stdout, "1RECV_F1 (line 2, column 4) 1SEND_F0 (line 2, column 3)"), done.stdout)
    expect(has_facts(done.stderr, "deferred.csv fifo pipeline") and done.stderr.count("\n") == 1, done.stderr)


def test_wrong_orders_and_requests_are_refused():
    refused(2, "wrong.csv:1 | 2", "check", write("wrong.csv", "0F0,0F0,0B0\n"))
    refused(2, "ops", "check", write("empty.csv", "\n"))
    refused(2, "placement | 3 | 2", "check", write("placed.csv", "0F0,2F0,2B0,0B0\n1F0,1B0\n"))
    refused(2, "short.csv | 4", "check", write("short.csv", "0F0,0B0\n"), problem)
    refused(2, "PROBLEM", "check", write("deferred.csv", DEFERRED), "--set", "pipeline.ranks=2")
    refused(2, "PROBLEM", "check", "-")
    refused(2, "ORDER", "check")
    refused(2, "ORDER", "check", "a", "b", "c")
