# labels: long torch
"""Our fixed schedules against PyTorch's, op by op: the schedules that torch.distributed.pipelining makes for many shapes
and the orders that `slackline plan --format csv` writes for the same.

Where the recipes differ, the difference is undone here and nowhere else: LoopedBFS runs each stage's backwards from the
last microbatch to the first, ours from the first on, because sums of gradients must not depend on the schedule. And
the listing of Schedule1F1B numbers the forwards of the last rank from 1 on (its run numbers them from 0)."""
import csv
import io
import os
import re

from runner import expect, folder
from venv_torch import problem, slackline
from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

compared = 0


def theirs(name, ranks, chunks, microbatches):
    """Rows of cells as the order's CSV has them, without what is no op."""
    rows = get_schedule_ops(name, ranks, microbatches, chunks)
    return [[str(action) for action in row if action is not None and "REDUCE_GRAD" not in str(action)] for row in rows]


def ours(family, placement, ranks, chunks, microbatches):
    file = problem(os.path.join(folder, "shape.yaml"), placement, ranks, microbatches, {"F": 1, "I": 1, "W": 1},
                   stages=ranks * chunks)
    done = slackline("plan", file, "--schedule", family, "--format", "csv")
    assert done.returncode == 0, f"{family}, {ranks} ranks, {chunks} chunks, {microbatches} microbatches: {done.stderr}"
    return [row for row in csv.reader(io.StringIO(done.stdout)) if row]


def backwards_ascending(row, _):
    """The row with the backwards of each stage, which stand together, in ascending microbatches."""
    forwards = [cell for cell in row if "F" in cell]
    backwards = [re.fullmatch(r"(\d+)B(\d+)", cell).groups() for cell in row if "F" not in cell]
    assert row[len(forwards):] == [f"{stage}B{microbatch}" for stage, microbatch in backwards]
    backwards.sort(key=lambda op: (-int(op[0]), int(op[1])))
    return forwards + [f"{stage}B{microbatch}" for stage, microbatch in backwards]


def forwards_from_0(row, last):
    """The last rank's row of 1F1B, its forwards one lower: PyTorch's listing has 3F1 to 3Fn there."""
    if not last:
        return row
    return [f"{cell[:cell.index('F')]}F{int(cell[cell.index('F') + 1:]) - 1}" if "F" in cell else cell for cell in row]


def compare(family, placement, name, ranks, chunks, microbatches, undo=lambda row, last: row):
    global compared
    expected = [undo(row, rank == ranks - 1) for rank, row in enumerate(theirs(name, ranks, chunks, microbatches))]
    found = ours(family, placement, ranks, chunks, microbatches)
    compared += 1
    if found == expected:
        return
    shape = f"{name}, {ranks} ranks, {chunks} stages each, {microbatches} microbatches"
    for rank, (a, b) in enumerate(zip(expected, found)):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            expect(False, f"{shape}: rank {rank}, op {at}: PyTorch {a[at:at + 4]}, {family} {b[at:at + 4]}")
            return
    expect(False, f"{shape}: {len(expected)} and {len(found)} ranks")


def test_orders_are_those_of_pytorch():
    for ranks in (1, 2, 3, 4, 6):
        for microbatches in (1, 2, 3, 5, 8, 10, 13):
            compare("gpipe", "linear", "GPipe", ranks, 1, microbatches)
            if microbatches >= ranks:  # below, PyTorch's warm-up names microbatches that do not exist
                compare("1f1b", "linear", "1F1B", ranks, 1, microbatches, undo=forwards_from_0)
            compare("zb-v", "wave", "ZBVZeroBubble", ranks, 2, microbatches)
            if microbatches >= 2 * ranks:  # PyTorch refuses less
                compare("dualpipe-v", "wave", "DualPipeV", ranks, 2, microbatches)
            for chunks in (2, 3, 4):
                compare("gpipe", "loop", "LoopedBFS", ranks, chunks, microbatches, undo=backwards_ascending)
                if microbatches % max(1, microbatches // ranks) == 0:  # PyTorch refuses uneven rounds
                    compare("interleaved-1f1b", "loop", "Interleaved1F1B", ranks, chunks, microbatches)
    print(f"{compared} orders compared")
    assert compared > 200
