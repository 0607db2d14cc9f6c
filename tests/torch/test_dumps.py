# labels: torch
"""Schedules that PyTorch itself dumps are read, checked and timed by `slackline simulate`.

The makespan is compared with a longest path worked out here; what PyTorch would run wrongly without a word is refused.
Called with BUILD_DIR SOURCE_DIR; SL_SEED=n for other op times."""
import csv
import json
import os
import random
import re

from runner import expect, folder
from venv_torch import dumps, problem, slackline
from torch.distributed.pipelining import schedules as S

seed = int(os.environ.get("SL_SEED", "1"))
print("seed", seed)
draw = random.Random(seed)


def write(name, rows):
    path = os.path.join(folder, name)
    with open(path, "w", newline="") as file:
        file.write(rows if isinstance(rows, str) else "".join(",".join(row) + "\n" for row in rows))
    return path


def read(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def refused(file, order, *says):
    done = slackline("simulate", file, "--order", order)
    expect(done.returncode == 2 and done.stdout == "" and all(word in done.stderr for word in says),
           f"{order}: exit {done.returncode}, {done.stderr!r} does not say {says}")


def ops_of(row):
    """Blocks of a row that run together: [(stage, kind, microbatch)], a pair with two."""
    blocks = []
    for text in row:
        found = re.findall(r"(\d+)([FIWB])(\d+)", text) if text.startswith("(") else \
            re.fullmatch(r"(\d+)([FIWB])(\d+)", text) and [re.fullmatch(r"(\d+)([FIWB])(\d+)", text).groups()]
        if found:
            blocks.append([(int(stage), kind, int(microbatch)) for stage, kind, microbatch in found])
    return blocks


def longest_path(rows, stages, times, latency):
    """End of the last op when every op starts as soon as its rank, its input and its own earlier op allow. An
    overlapped pair starts when both may and takes as long as both."""
    blocks = [ops_of(row) for row in rows]
    rank_of = {op[0]: rank for rank, row in enumerate(blocks) for block in row for op in block}
    end, clock, at = {}, [0] * len(rows), [0] * len(rows)

    def ready(rank, stage, kind, microbatch):
        """When an op's inputs are there; None: not yet known."""
        if kind == "W":
            return end.get((stage, "I", microbatch))
        own = 0 if kind == "F" else end.get((stage, "F", microbatch))
        other = stage - 1 if kind == "F" else stage + 1
        if own is None or not 0 <= other < stages:
            return own
        made = [end[key] for key in [(other, k, microbatch) for k in ("F" if kind == "F" else "IB")] if key in end]
        return max(own, made[0] + (latency if rank_of[other] != rank else 0)) if made else None

    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(blocks):
            while at[rank] < len(row):
                inputs = [ready(rank, *op) for op in row[at[rank]]]
                if None in inputs:
                    break
                clock[rank] = max(clock[rank], *inputs) + sum(times[kind][stage] for stage, kind, _ in row[at[rank]])
                for op in row[at[rank]]:
                    end[op] = clock[rank]
                at[rank] += 1
                moved = True
    assert all(at[rank] == len(row) for rank, row in enumerate(blocks)), "the rows wait for each other"
    return max(clock)


def test_dumps_are_timed_as_by_the_longest_path():
    pairs = 0
    for name, placement, ranks, stages, microbatches, files in dumps():
        times = {kind: [draw.randint(1, 30) for _ in range(stages)] for kind in "FIWB"}
        for latency in (0, 13):
            file = problem(os.path.join(folder, "problem.yaml"), placement, ranks, microbatches, times, latency, stages)
            wanted = longest_path(read(files[0]), stages, times, latency)
            for order in files:
                done = slackline("simulate", file, "--order", order, "--format", "json")
                expect(done.returncode == 0, f"{order}: {done.stderr}")
                if done.returncode:
                    continue
                plan = json.loads(done.stdout)
                cells = sum(len(block) for row in read(files[0]) for block in ops_of(row))
                expect(len(plan["ops"]) == cells, f"{order}: {len(plan['ops'])} ops of {cells} cells")
                expect(plan["makespan_ms"] == wanted, f"{order}, {latency} ms: {plan['makespan_ms']} ms, by hand {wanted}")
            again = slackline("simulate", file, "--order", files[-1], "--format", "csv")
            expect([ops_of(row) for row in csv.reader(again.stdout.splitlines())] == [ops_of(row) for row in read(files[0])],
                   f"{files[-1]}: written back as another order: {again.stderr}")
        pairs += sum(len(block) == 2 for row in read(files[0]) for block in ops_of(row))
        print(f"{name}, {ranks} ranks, {stages} stages, {microbatches} microbatches: {wanted} ms")
    expect(pairs > 0, "no dump held an overlapped pair")


def test_the_order_of_schedule_1f1b_is_refused_until_numbered_from_0():
    # Schedule1F1B's order for display numbers the last rank's forwards from 1
    stage = type("Stage", (), dict(stage_index=0, num_stages=2, group_size=2, group_rank=0, has_backward=False,
                                   is_first=True, is_last=False))()
    order = S.Schedule1F1B(stage, 3, loss_fn=lambda a, b: 0)._get_pipeline_order()
    rows = [[str(action) for action in order[rank]] for rank in order]
    two = problem(os.path.join(folder, "two.yaml"), "linear", 2, 3, {"F": 1, "I": 1, "W": 1})
    if "1F3" in rows[1]:
        refused(two, write("1f1b.csv", rows), f":2: column {rows[1].index('1F3') + 1}, '1F3'", "no such microbatch")
        rows[1] = [re.sub(r"F(\d)", lambda m: f"F{int(m[1]) - 1}", cell) for cell in rows[1]]
    done = slackline("simulate", two, "--order", write("1f1b.csv", rows), "--format", "json")
    expect(done.returncode == 0 and json.loads(done.stdout)["makespan_ms"] == 3 * 3 + 3, "1F1B takes (M + R - 1)(F + B)")


# two sends of one link swapped, on a row of a dump: PyTorch's loader takes it
name, placement, ranks, stages, microbatches, files = next(d for d in dumps() if d[0] == "Interleaved1F1B" and d[3] == 4
                                                           and d[1] == "loop")
file = problem(os.path.join(folder, "loop.yaml"), placement, ranks, microbatches, {"F": 1, "I": 1, "W": 1}, 0, stages)


def test_swapped_sends_are_refused():
    rows = read(files[1])
    first, second = rows[0].index("0SEND_F1"), rows[0].index("2SEND_F0")
    rows[0].insert(second, rows[0].pop(first))  # behind 2SEND_F0, which goes to the same rank
    first = rows[0].index("2SEND_F0")
    refused(file, write("swapped.csv", rows), f":1: column {first + 1}: message 1 from rank 0 to rank 1", "2SEND_F0")
    loaded = {rank: [S._Action.from_str(text) for text in row] for rank, row in enumerate(rows)}
    S._validate_schedule(loaded, ranks, stages, microbatches)


def test_a_blank_line_is_a_rank():
    # a blank line at the end is a rank to PyTorch
    text = open(files[0], newline="").read()
    refused(file, write("blank.csv", text + "\r\n"), ":3: ", "a blank line counts as one")
    try:
        S._validate_schedule({rank: [S._Action.from_str(cell) for cell in row]
                              for rank, row in enumerate(read(write("blank.csv", text + "\r\n")))}, 2, stages, microbatches)
        expect(False, "PyTorch took a blank line")
    except AssertionError as error:
        expect("expected 2, actual 3" in str(error), str(error))


def test_bidirectional_orders_are_read():
    # bidirectional: each copy of the weights has half of the microbatches; we read it, PyTorch says no by itself
    rows = [["0F0", "3F1", "3B1", "0B0"], ["2F1", "1F0", "1B0", "2B1"]]
    file = problem(os.path.join(folder, "both.yaml"), "bidirectional", 2, 2, {"F": 1, "I": 1, "W": 1})
    done = slackline("simulate", file, "--order", write("both.csv", rows), "--format", "json")
    # 0F0 and 2F1, then 1F0 and 3F1 until 2; their backwards until 4, the others until 6
    expect(done.returncode == 0 and json.loads(done.stdout)["makespan_ms"] == 6, f"bidirectional: {done.stderr}")
    try:
        S._validate_schedule({rank: [S._Action.from_str(cell) for cell in row] for rank, row in enumerate(rows)}, 2, 4, 2)
        expect(False, "PyTorch took a bidirectional order")
    except AssertionError as error:
        expect("expected 2" in str(error), str(error))
