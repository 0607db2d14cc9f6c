# SPDX-License-Identifier: Apache-2.0
"""What libslackline says of an order, in the terms of reference.py."""
import ctypes
import json

import package  # noqa: F401  finds the package of this tree
from reference import End, Op
from slackline import _library
from slackline._errors import SlacklineError


class OpStruct(ctypes.Structure):
    """slackline_op"""
    _fields_ = [(name, ctypes.c_int32) for name in ("stage", "microbatch", "kind", "part", "paired")]


def problem(said):
    return _library.make("problem_parse", b"problem", json.dumps({"pipeline": said}).encode(), None, 0)


def simulated(handle, csv):
    """The plan's JSON of an order in CSV, or the error's text."""
    text = csv.encode()
    try:
        plan = _library.make("simulate_csv_text", handle, b"order", text, len(text))
    except SlacklineError as error:
        return str(error)
    return written(plan)


def simulated_ops(handle, rows):
    """The same of rows of blocks, which may have parts."""
    ops = [[(op, len(block) == 2 and op is block[0]) for block in row for op in block] for row in rows]
    arrays = [(OpStruct * max(1, len(row)))(*(OpStruct(op.stage, op.microbatch, "FIWB".index(op.kind), op.part, paired) for op, paired in row))
              for row in ops]
    pointers = (ctypes.POINTER(OpStruct) * len(rows))(*(ctypes.cast(array, ctypes.POINTER(OpStruct)) for array in arrays))
    counts = (ctypes.c_int * len(rows))(*map(len, ops))
    plan = ctypes.c_void_p()
    library = _library.library()
    if library.slackline_simulate(handle, pointers, counts, ctypes.byref(plan)):
        return library.slackline_error().decode()
    return written(plan)


def written(plan):
    try:
        return json.loads(_library.text("plan_write", plan, b"json"))
    finally:
        _library.function("plan_free")(plan)


def free(handle):
    _library.function("problem_free")(handle)


def planned(handle, schedule, seconds=0.0):
    """(JSON, rows, ends or None) of a plan, or the error's text."""
    planner, library = _library.make("planner_make"), _library.library()
    try:
        _library.call("planner_set_schedule", planner, schedule.encode())
        _library.call("planner_set_time_limit", planner, seconds)
        _library.call("planner_set_threads", planner, 1)
        _library.function("planner_set_exact")(planner, 0)
        plan = _library.make("planner_plan", planner, handle)
    except SlacklineError as error:
        return str(error)
    finally:
        _library.function("planner_free")(planner)
    library.slackline_plan_op.restype = OpStruct
    rows = []
    for rank in range(_library.function("problem_ranks")(handle)):
        row, paired = [], False
        for at in range(library.slackline_plan_ops(plan, rank)):
            said = library.slackline_plan_op(plan, rank, at)
            op = Op(said.stage, "FIWB"[said.kind], said.microbatch, said.part)
            row = row[:-1] + [(*row[-1], op)] if paired else row + [(op,)]
            paired = bool(said.paired)
        rows.append(row)
    return written(plan), rows


def issued(problem, rows, plan):
    """The ends of a plan's messages, in regime fifo."""
    ends = [[] for _ in rows]
    for issue in plan["issues"]:
        op = Op(issue["stage"], "F" if issue["op"] == "F" else "B", issue["microbatch"], problem.parts - 1)
        row, after, ops = rows[issue["rank"]], 0, 0
        while ops < issue["after_ops"]:
            ops += len(row[after])
            after += 1
        ends[issue["rank"]].append(End(issue["end"][0].upper(), problem.sent(op)[0], after))
    return ends
